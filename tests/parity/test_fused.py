"""The fused engine must agree with the plain one, its slow twin, on the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different, scores

TOLERANCE = 1e-5
SPECS = ["fedmf", "pfedrec", "fedrecon", "fedmf+dualper", "fedrecon+dualper", "fedmf+gel", "pfedrec+gel"]
SPECS += [
    "fedmf+recent",
    "pfedrec+recent",
    "fedrecon+recent",
    "fedrecon+recent+dualper",
    "pfedrec+gel+recent",
]


def far(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(a), 1e-12))


def both(method: object, parts: Split, rounds: int = 3, **options: object) -> list[Simulation]:
    simulations = [
        Simulation(method, parts, engine=engine, **options)  # type: ignore[arg-type]
        for engine in ("plain", "fused")
    ]
    for simulation in simulations:
        for _ in range(rounds):
            simulation.play(evaluate=True)
    return simulations


def assert_same_arrays(plain: Simulation, fused: Simulation) -> None:
    for name, value in plain.server.state.shared.items():
        assert far(value, fused.server.state.shared[name]) < TOLERANCE, ("shared", name)
    for name, value in plain.clients.state.lines.items():
        assert far(value, fused.clients.state.lines[name]) < TOLERANCE, ("private", name)


def assert_alike(plain: Simulation, fused: Simulation) -> None:
    assert (plain.clients.engine.name, fused.clients.engine.name) == ("plain", "fused")
    assert_same_arrays(plain, fused)
    assert plain.selected is not None
    assert fused.selected is not None
    assert plain.selected.round == fused.selected.round
    for view in plain.views:
        a, b = (scores(s, s.selected.moment, view) for s in (plain, fused))  # type: ignore[union-attr]
        assert far(a, b) < TOLERANCE, view


def tiny() -> Interactions:
    """Three clients: one that trains on a single item, and one that met them all, without negatives under `paper`."""
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    return from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))


def assert_same_bits_on_threads(name: str, settings: dict[str, Any]) -> None:
    many = scalable(200, 120, 3000)
    one, three = (fedrec.run(name, many, rounds=2, settings=settings, threads=threads) for threads in (1, 3))
    assert one.federated is not None
    assert three.federated is not None
    assert one.federated.clients.engine.name == "fused"
    assert different(one.federated.moment, three.federated.moment) == []
    assert one.ranks.equals(three.ranks)


def settings_for(spec: str, **values: object) -> dict[str, object]:
    """Settings under which three rounds on a tiny world do not blow up."""
    strong = {"half_life": 2, "floor": 0.1} if "recent" in spec else {}
    return {"eta": 0.05 if "fedrecon" in spec else 0.5, **strong, **values}


@pytest.mark.parametrize("spec", SPECS)
def test_fused_equals_plain(spec: str) -> None:
    parts = split(scalable(40, 40, 480), "strict", 0)
    assert_alike(*both(make(spec, settings_for(spec, dim=8)), parts))


@pytest.mark.parametrize("spec", ["pfedrec", "fedrecon+dualper", "pfedrec+gel"])
def test_own_rows_that_keep_a_share_of_their_move(spec: str) -> None:
    parts = split(scalable(40, 40, 480), "strict", 0)
    assert_alike(*both(make(spec, settings_for(spec, dim=8, mild=0.3)), parts))


# Each way of local epochs; what wrappers do besides is the same as above.
EPOCHS = ("fedmf", "pfedrec", "fedrecon", "fedmf+gel", "fedmf+recent")


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, marks=() if spec in EPOCHS else pytest.mark.slow) for spec in SPECS]
)
def test_fused_stops_local_epochs_where_plain_does(spec: str) -> None:
    parts = split(scalable(12, 24, 96), "strict", 0)  # few steps: the plain engine takes them one by one
    values = settings_for(spec, dim=3, epochs=5, batch_size=12, tolerance=0.05)
    plain, fused = both(make(spec, values), parts, rounds=1)
    assert_alike(plain, fused)
    whole = Simulation(make(spec, {**values, "tolerance": 0.0}), parts, engine="fused")
    whole.play(evaluate=False)
    ended, stopped = (s.server.state.shared.values() for s in (whole, fused))
    assert any(far(a, b) > TOLERANCE for a, b in zip(ended, stopped, strict=True)), "nobody stopped early"


@pytest.mark.parametrize(
    "options", [{"clients_per_round": 0.4}, {"channel": []}, {"view": "random"}, {"seed": 7}]
)
def test_fused_equals_plain_with_options(options: dict[str, object]) -> None:
    parts = split(scalable(60, 50, 900), "paper", 0)
    assert_alike(*both(make("pfedrec", {"dim": 8, "eta": 0.5}), parts, **options))


@given(
    spec=st.sampled_from(SPECS),
    users=st.integers(2, 14),
    items=st.integers(8, 30),  # the plain engine takes a step at a time
    share=st.floats(0.2, 0.5),
    dim=st.integers(1, 37),
    batch=st.integers(1, 70),
    epochs=st.integers(1, 2),
    tolerance=st.sampled_from([0.0, 0.05]),
    protocol=st.sampled_from(["strict", "paper"]),
    seed=st.integers(0, 5),
)
def test_fused_equals_plain_for_any_shape(
    spec: str, users: int, items: int, share: float, dim: int, batch: int, epochs: int, tolerance: float,
    protocol: str, seed: int,
) -> None:  # fmt: skip
    per_user = max(5, int(share * items))
    if per_user > items // 2:
        per_user = items // 2
    rows = users * max(per_user, 3)
    parts = split(scalable(users, items, rows, seed), protocol if per_user >= 5 else "strict", seed)
    values = settings_for(spec, dim=dim, batch_size=batch, epochs=epochs, tolerance=tolerance)
    assert_same_arrays(*both(make(spec, values), parts, rounds=2))


def test_clients_with_one_item_and_with_all_items() -> None:
    """The smallest client there is, and one that leaves nothing to draw as a negative."""
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    data = from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))
    for protocol in ("strict", "paper"):
        parts = split(data, protocol, 0)
        assert_alike(*both(make("pfedrec", {"dim": 5, "eta": 0.5}), parts))


def test_overflowing_clients_are_dropped_and_counted() -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    for engine in ("plain", "fused"):
        simulation = Simulation(FedMF(dim=4, eta=0.5), parts, engine=engine)
        broken = np.array([3, 17])
        simulation.clients.state.lines["score"][broken] = np.inf
        record = simulation.play(evaluate=True)
        assert record.dropped == 2
        assert np.isfinite(simulation.server.state.shared["items"]).all()
        assert np.isinf(simulation.clients.state.lines["score"][broken]).all()  # as before the round


def test_a_subclass_that_changes_the_mathematics_has_no_kernel() -> None:
    class Tilted(FedMF):
        def logits(self, p: object, i: object) -> object:
            return 2 * super().logits(p, i)

    parts = split(scalable(20, 30, 200), "strict", 0)
    with pytest.raises(FedrecError, match="Tilted declares no kernel"):
        Simulation(Tilted(), parts, engine="fused")
    assert Simulation(FedMF(), parts, engine="fused").clients.engine.name == "fused"
    with pytest.raises(FedrecError, match="without aggregation every client keeps its own table"):
        Simulation(FedMF(), parts, engine="fused", local=True)


def test_fused_is_refused_where_there_is_no_kernel() -> None:
    parts = split(scalable(20, 30, 200), "strict", 0)
    with pytest.raises(FedrecError, match=r"cannot run fedrap.*runs on engine 'plain'"):
        Simulation(make("fedrap", {"regularizer": "nuclear"}), parts, engine="fused")  # type: ignore[arg-type]


def test_auto_takes_the_kernel() -> None:
    parts = split(scalable(20, 30, 200), "strict", 0)
    assert Simulation(make("pfedrec"), parts).clients.engine.name == "fused"  # type: ignore[arg-type]
    assert Simulation(make("pfedrec", {"hidden": "4"}), parts).clients.engine.name == "fused"  # type: ignore[arg-type]
    assert Simulation(make("fedncf", {"hidden": "4"}), parts).clients.engine.name == "fused"  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_a_client_that_runs_away_does_not_take_the_others_with_it(engine: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    simulation = Simulation(FedMF(dim=4, eta=0.5), parts, engine=engine)
    simulation.clients.state.lines["score"][7] = 1e6
    before = simulation.clients.state
    record = simulation.play(evaluate=False)
    assert (record.dropped, record.loss < 10) == (1, True)
    np.testing.assert_array_equal(simulation.clients.state.lines["score"][7], before.lines["score"][7])
    assert np.abs(simulation.server.state.shared["items"]).max() < 10
