"""Workers, here in one process: the same bits for any number of them, whatever is lost on the way."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec.channel.stage import parse
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import protocol
from fedrec.data.shards import Loading
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.simulate.carrier import Here
from fedrec.simulate.checkpoint import load_checkpoint
from fedrec.simulate.crew import Crew
from fedrec.simulate.simulation import Simulation

USERS, ITEMS, ROWS = 60, 40, 900
WORLD = f"scalable-{USERS}-{ITEMS}-{ROWS}"
CHANNEL = [parse("fixed")]
METHODS = {
    "pfedrec": {},
    "fedrap": {},
    "fedals": {},
    "fedmf": {},
    "fedncf": {},
    "plain fedncf of some": {"engine": "plain", "clients_per_round": 0.3},
    "pfedrec of some": {"clients_per_round": 0.3},
    "fedrap of some": {"clients_per_round": 0.3},
    "fedncf+dualper of some": {"clients_per_round": 0.3},
}


def settings(name: str) -> tuple[Any, dict[str, Any]]:
    method = next(word for word in name.split() if word not in ("plain", "of", "some"))
    return make(method, {"dim": 8}), METHODS[name]


def alone(name: str, threads: int = 1) -> Simulation:
    method, options = settings(name)
    parts = split(scalable(USERS, ITEMS, ROWS), "strict", 1)
    return Simulation(method, parts, seed=1, channel=CHANNEL, threads=threads, **options)


def shared_out(name: str, workers: int, threads: int = 1, how: str = "strict") -> tuple[Simulation, Here]:
    method, options = settings(name)
    here = Here(workers)
    crew = Crew(here, Loading(WORLD, {}, protocol(how), 1), threads)
    return Simulation(method, crew.outline, seed=1, channel=CHANNEL, crew=crew, **options), here


def played(simulation: Simulation, rounds: int = 3) -> list[dict[str, Any]]:
    records = [simulation.play(evaluate=n % 2 == 0).line() for n in range(simulation.moment.round, rounds)]
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in records]


def figures(simulation: Simulation) -> list[Any]:
    """Everything that is measured afterwards."""
    assert simulation.selected is not None
    now = simulation.selected.moment
    ranks = [simulation.ranks(now, "test", view, full) for view in simulation.views for full in (False, True)]
    measured, short = simulation.measure(5)
    ranks += [measured.valid, measured.test, measured.full]
    met_by = simulation.split.met_by.astype(np.float32)
    ranks += simulation.team.controls(met_by, 3, 1)
    items, scores = simulation.top(np.array([50, 3, 17]), 4)
    every = simulation.top(None, 4)[0]
    found = [array.tobytes() for rank in ranks for array in rank]
    return [*found, measured.top.tobytes(), short, items.tobytes(), scores.tobytes(), every.tobytes()]


def held(folder: Path) -> str:
    """A sum over all that a checkpoint holds."""
    last, selected = load_checkpoint(folder)
    assert selected is not None
    found = hashlib.sha256(repr((selected.round, selected.value)).encode())
    for moment in (last, selected.moment, selected.moment.before):
        for name, values in sorted(moment.server.held.items() if moment else ()):
            found.update(name.encode() + values.tobytes())
        for name, values in sorted(moment.devices.lines.items() if moment else ()):
            found.update(name.encode() + values.tobytes())
        for name, store in sorted(moment.devices.rows.items() if moment else ()):
            for part, values in sorted(store.arrays().items()):
                found.update(f"{name} {part}".encode() + values.tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", METHODS)
def test_any_number_of_workers_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    simulations = [alone(name), shared_out(name, 1, threads=2)[0], shared_out(name, 3)[0]]
    quick = "plain" in name
    lines = [played(simulation, 1 if quick else 3) for simulation in simulations]
    assert lines[0] == lines[1] == lines[2]
    found = [figures(simulation) for simulation in simulations] if not quick else []
    assert all(figure == found[0] for figure in found)
    for n, simulation in enumerate(simulations):
        simulation.save(tmp_path / str(n))
    assert held(tmp_path / "0") == held(tmp_path / "1") == held(tmp_path / "2")


@pytest.mark.parametrize("share", [None, 0.3])
@pytest.mark.parametrize("name", ["pfedrec", "fedrap", "fedals", "fedmf", "plain fedncf"])
def test_every_team_of_every_number_of_threads_has_the_bits_of_one_process(
    name: str, share: float | None, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"seed": 1, "channel": CHANNEL, "clients_per_round": share}
    options |= {"engine": "plain"} if name.startswith("plain") else {}
    method = make(name.split()[-1], {"dim": 8})
    parts, loading = (
        split(scalable(USERS, ITEMS, ROWS), "strict", 1),
        Loading(WORLD, {}, protocol("strict"), 1),
    )
    found = set()
    for threads in (1, 2):
        teams = [None, *(Crew(Here(workers), loading, threads) for workers in (1, 2, 3, 5))]
        for crew in teams:
            held_by = parts if crew is None else crew.outline
            simulation = Simulation(method, held_by, threads=threads, crew=crew, **options)
            lines = played(simulation, 2)
            simulation.save(tmp_path / "state")
            found.add((repr(lines), held(tmp_path / "state")))
    assert len(found) == 1


@pytest.mark.parametrize("name", ["pfedrec", "fedrap of some"])
@pytest.mark.parametrize("saved", [None, 1, 2])
def test_a_lost_worker_is_replaced_and_what_it_did_is_done_again(
    name: str, saved: int | None, tmp_path: Path
) -> None:
    whole = alone(name)
    expected = played(whole, 4)
    simulation, here = shared_out(name, 3)
    lines = []
    for rounds in range(1, 5):
        lines += played(simulation, rounds)
        if rounds == saved:
            simulation.save(tmp_path / "run")
        here.kill(rounds % 3)
        if rounds == 3:
            here.kill(1)
    assert lines == expected
    assert figures(simulation) == figures(whole)
    assert simulation.team.says() == "3 workers, lost and replaced 5"
    for n, one in enumerate((whole, simulation)):
        one.save(tmp_path / str(n))
    assert held(tmp_path / "0") == held(tmp_path / "1")


def test_a_worker_that_is_lost_again_and_again_is_a_sentence() -> None:
    simulation, here = shared_out("fedmf", 2)
    here.replace = here.kill  # type: ignore[method-assign]
    here.kill(1)
    with pytest.raises(FedrecError, match="worker 1 was lost 4 times in a row"):
        simulation.play(evaluate=False)


@pytest.mark.parametrize("name", ["pfedrec", "fedrap of some", "fedals"])
def test_any_number_of_workers_goes_on_from_a_checkpoint_of_others(name: str, tmp_path: Path) -> None:
    whole = alone(name)
    lines = played(whole, 2)
    whole.save(tmp_path / "one")
    three = shared_out(name, 3)[0]
    assert played(three, 2) == lines
    three.save(tmp_path / "three")
    rest = played(whole, 4)
    for folder, team in (("one", 2), ("three", 2), ("three", None)):
        again = alone(name) if team is None else shared_out(name, team)[0]
        again.load(tmp_path / folder)
        assert played(again, 4) == rest
        assert figures(again) == figures(whole)


def test_a_checkpoint_of_workers_counts_as_a_whole(tmp_path: Path) -> None:
    simulation = shared_out("pfedrec", 2)[0]
    played(simulation, 1)
    folder = tmp_path / "checkpoint"
    simulation.save(folder)
    first = held(folder)
    (folder / "round-2").mkdir()  # a driver was killed while workers wrote the next one
    (folder / "round-2" / "cell-00.npz").write_bytes(b"half")
    assert held(folder) == first
    played(simulation, 2)
    simulation.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["current.json", "round-2-1"]
    cell = folder / "round-2-1" / "cell-01.npz"
    cell.write_bytes(cell.read_bytes()[:-1])
    for one in (alone("pfedrec"), shared_out("pfedrec", 2)[0]):
        with pytest.raises(FedrecError, match=r"the checkpoint in .* is damaged"):
            one.load(folder)


def test_the_driver_holds_no_interactions() -> None:
    simulation, _ = shared_out("pfedrec", 2)
    simulation.play(evaluate=True)
    assert len(simulation.split.data.items) == 0
    with pytest.raises(FedrecError, match="'train' of these data is with workers"):
        _ = simulation.split.train  # type: ignore[union-attr]
    with pytest.raises(FedrecError, match="are with workers"):
        _ = simulation.clients


class Other(Here):
    """Workers of which one differs."""

    def __init__(self, command: str, change: Any) -> None:
        super().__init__(2)
        self.command, self.change = command, change

    def call(self, worker: int, command: str, args: tuple[Any, ...], tables: Any) -> Any:
        found = super().call(worker, command, args, tables)
        return self.change(found) if (worker, command) == (1, self.command) else found


@pytest.mark.parametrize(
    ("command", "change", "says"),
    [
        ("hello", lambda found: {**found, "fedrec": "0.1.9"}, "worker 1 has fedrec 0.1.9 and this is fedrec"),
        ("hello", lambda found: {**found, "numpy": "1.0"}, "worker 1 has numpy 1.0"),
        ("open", lambda found: replace(found, public="x"), "workers found different data under scalable"),
    ],
)
def test_workers_that_differ_are_refused(command: str, change: Any, says: str) -> None:
    with pytest.raises(FedrecError, match=says):
        Crew(Other(command, change), Loading(WORLD, {}, protocol("strict"), 1))
