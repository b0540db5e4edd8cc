"""Workers, here in one process: the same bits for any number of them, whatever is lost on the way."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec.channel.stage import parse
from fedrec.core.protocol import protocol
from fedrec.data.shards import Loading
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.simulate.carrier import Here
from fedrec.simulate.checkpoint import load_checkpoint
from fedrec.simulate.crew import Crew
from fedrec.simulate.simulation import Simulation

WORLD = "scalable-200-90-4000"
CHANNEL = [parse("fixed")]
METHODS = {
    "pfedrec": {},
    "fedrap": {},
    "fedals": {},
    "fedmf": {},
    "fedncf": {},
    "plain fedncf": {"engine": "plain"},
    "pfedrec of some": {"clients_per_round": 0.3},
    "fedrap of some": {"clients_per_round": 0.3},
    "plain fedncf of some": {"engine": "plain", "clients_per_round": 0.3},
    "fedncf+dualper of some": {"clients_per_round": 0.3},
}


def settings(name: str) -> tuple[Any, dict[str, Any]]:
    method = next(word for word in name.split() if word not in ("plain", "of", "some"))
    return make(method, {"dim": 8}), METHODS[name]


def alone(name: str, threads: int = 1) -> Simulation:
    method, options = settings(name)
    parts = split(scalable(200, 90, 4000), "strict", 1)
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
    items, scores = simulation.top(np.array([150, 3, 77]), 4)
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
    simulations = [
        alone(name),
        *(shared_out(name, workers, threads)[0] for workers, threads in ((1, 2), (3, 1))),
    ]
    lines = [played(simulation) for simulation in simulations]
    assert lines[0] == lines[1] == lines[2]
    found = [figures(simulation) for simulation in simulations]
    assert found[0] == found[1] == found[2]
    for n, simulation in enumerate(simulations):
        simulation.save(tmp_path / str(n))
    assert held(tmp_path / "0") == held(tmp_path / "1") == held(tmp_path / "2")
