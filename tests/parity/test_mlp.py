"""Compiled clients of small neural scorers must agree with the plain engine, their slow twin."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedrec
from fedrec.channel.laplace import Laplace
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group
from fedrec.core.optim import DecayingSGD
from fedrec.core.slots import Catalog
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedncf import FedNCF
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different

spec = importlib.util.spec_from_file_location("fused", Path(__file__).with_name("test_fused.py"))
assert spec is not None
assert spec.loader is not None
fused = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fused)

SHARED = {"lr": 0.5, "eta": 0.5, "lr_layers": 0.5}  # rates under which three rounds on a tiny world stay calm
ALONE = {"lr": 0.1, "eta": 0.5}
SPECS: dict[str, dict[str, Any]] = {
    "fedncf": SHARED,
    "fedncf+dualper": SHARED,
    "fedncf+gel": SHARED,
    "fedncf+gel+dualper": SHARED,
    "fedneumf": SHARED,
    "fedneumf+dualper": SHARED,
    "fedneumf+gel": SHARED,
    "pfedrec": ALONE,
    "pfedrec+gel": ALONE,
    "fedncf-adam": {},
    "fedneumf-adam+gel": {},
    "fedncf+recent": SHARED,
    "fedncf+recent+dualper": SHARED,
    "fedncf+gel+recent": SHARED,
    "fedneumf+recent": SHARED,
    "pfedrec+recent": ALONE,
    "fedneumf-adam+gel+recent": {},
}


def settings_for(spec: str, **values: Any) -> dict[str, Any]:
    """Settings of the base, by its name."""
    base = spec.partition("+")[0]
    if "neumf" in base:
        values["dim_mlp"] = values["dim"] + 3
    strong = {"recent.half_life": 2, "recent.floor": 0.1} if "recent" in spec else {}
    return {f"{base}.{name}": value for name, value in {**SPECS[spec], **values}.items()} | strong


@pytest.mark.parametrize("spec", SPECS)
def test_compiled_equals_plain(spec: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    fused.assert_alike(*fused.both(make(spec, settings_for(spec, dim=8, hidden=(9, 4))), parts))


@pytest.mark.parametrize("radii", [(0.1, 0.0), (0.0, 0.1), (0.1, 0.2)])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if "gel" in spec])
def test_compiled_equals_plain_for_either_radius(spec: str, radii: tuple[float, float]) -> None:
    parts = split(scalable(30, 40, 400), "strict", 0)
    values = settings_for(spec, dim=4, hidden=(5,), batch_size=16)
    values |= dict(zip(("gel.radius_private", "gel.radius_shared"), radii, strict=True))
    fused.assert_same_arrays(*fused.both(make(spec, values), parts, rounds=2))


@pytest.mark.parametrize(
    "options", [{"clients_per_round": 0.4}, {"channel": [Laplace(strength=0.001)]}, {"seed": 7}]
)
@pytest.mark.parametrize("spec", ["fedncf+dualper", "pfedrec", "fedneumf"])
def test_compiled_equals_plain_with_options(spec: str, options: dict[str, Any]) -> None:
    """Sampled clients keep their tuned rows; noise is put on single uploads."""
    parts = split(scalable(60, 50, 900), "paper", 0)
    method = make(spec, settings_for(spec, dim=8, hidden=(6,)))
    fused.assert_alike(*fused.both(method, parts, **options))


@given(
    spec=st.sampled_from([spec for spec in SPECS if "adam" not in spec]),
    users=st.integers(2, 14),
    items=st.integers(8, 30),  # the plain engine takes a step at a time
    share=st.floats(0.2, 0.5),
    dim=st.integers(1, 37),
    hidden=st.lists(st.integers(1, 35), min_size=1, max_size=3),
    batch=st.integers(1, 200),
    epochs=st.integers(1, 2),
    tolerance=st.sampled_from([0.0, 0.05]),
    protocol=st.sampled_from(["strict", "paper"]),
    cohort=st.sampled_from([None, 0.5]),
    seed=st.integers(0, 5),
)
def test_compiled_equals_plain_for_any_shape(
    spec: str, users: int, items: int, share: float, dim: int, hidden: list[int], batch: int, epochs: int,
    tolerance: float, protocol: str, cohort: float | None, seed: int,
) -> None:  # fmt: skip
    per_user = min(max(5, int(share * items)), items // 2)
    rows = users * max(per_user, 3)
    parts = split(scalable(users, items, rows, seed), protocol if per_user >= 5 else "strict", seed)
    slow = {name: rate / 10 for name, rate in SPECS[spec].items()}  # batches of one sample move far
    values = settings_for(
        spec, dim=dim, hidden=tuple(hidden), batch_size=batch, epochs=epochs, tolerance=tolerance, **slow
    )
    fused.assert_same_arrays(*fused.both(make(spec, values), parts, rounds=2, clients_per_round=cohort))


@given(
    spec=st.sampled_from([spec for spec in SPECS if "adam" in spec]),
    users=st.integers(2, 10),
    items=st.integers(8, 50),
    dim=st.integers(1, 37),
    hidden=st.lists(st.integers(1, 35), min_size=1, max_size=3),
    batch=st.integers(1, 200),
    seed=st.integers(0, 5),
)
def test_the_gradients_sent_equal_plain_for_any_shape(
    spec: str, users: int, items: int, dim: int, hidden: list[int], batch: int, seed: int
) -> None:
    """Before Adam's step, which makes as much of a gradient that is rounding alone as of any other.

    What is sent is the difference of rows of length about 1, so that it is as exact as those.
    """
    parts = split(scalable(users, items, 4 * users, seed), "strict", seed)
    method: Any = make(spec, settings_for(spec, dim=dim, hidden=tuple(hidden), batch_size=batch))
    sums, moments = {}, {}
    for engine in ("plain", "fused"):
        simulation = Simulation(method, parts, engine=engine, seed=seed)
        clients, server = simulation.clients, simulation.server
        total = server.empty()
        for answer in clients.fit(server.broadcast(1), clients.everyone, None, server.receive):
            total.add(answer.reply.sent)  # type: ignore[arg-type]
        clients.keep()
        sums[engine] = total.sums
        moments[engine] = {n: v for n, v in clients.state.lines.items() if n.endswith(".m")}
    for name, value in sums["plain"].items():
        apart = np.linalg.norm(value - sums["fused"][name])
        held = np.linalg.norm(simulation.server.state.shared[name])
        assert apart <= fused.TOLERANCE * np.linalg.norm(value) + 1e-7 * held, name
    for name, value in moments["plain"].items():
        assert fused.far(value, moments["fused"][name]) < fused.TOLERANCE, name


def test_clients_with_one_item_and_with_all_items() -> None:
    """The smallest client there is, and one that leaves nothing to draw as a negative."""
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    data = from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))
    for protocol in ("strict", "paper"):
        for spec in ("fedncf", "pfedrec", "fedneumf-adam+gel"):
            method = make(spec, settings_for(spec, dim=5, hidden=(6, 3)))
            fused.assert_alike(*fused.both(method, split(data, protocol, 0)))


@pytest.mark.parametrize("engine", ["plain", "fused"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e12])
def test_a_client_that_runs_away_is_dropped_and_left_as_it_was(engine: str, value: float) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    simulation = Simulation(make("fedncf", settings_for("fedncf", dim=4, hidden=(5,))), parts, engine=engine)  # type: ignore[arg-type]
    before = simulation.clients.state.lines["user"]
    before[[3, 17]] = value
    record = simulation.play(evaluate=True)
    assert record.dropped == 2
    np.testing.assert_array_equal(simulation.clients.state.lines["user"][[3, 17]], before[[3, 17]])
    assert all(np.isfinite(v).all() for v in simulation.server.state.shared.values())


@pytest.mark.parametrize("method", ["fedncf+dualper", "fedneumf", "pfedrec"])
def test_one_thread_and_many_end_with_the_same_bits(method: str) -> None:
    many = scalable(400, 120, 6000)
    settings = {"dim": 8, "hidden": (8, 4)}
    one, three = (
        fedrec.run(method, many, rounds=2, settings=settings, threads=threads) for threads in (1, 3)
    )
    assert one.federated is not None
    assert three.federated is not None
    assert one.federated.clients.engine.name == "fused"
    assert different(one.federated.moment, three.federated.moment) == []
    assert one.ranks.equals(three.ranks)


def test_lines_and_the_whole_catalogue_are_scored_alike() -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    simulation = Simulation(make("fedneumf", {"dim": 8, "hidden": (9, 4)}), parts)  # type: ignore[arg-type]
    simulation.play(evaluate=True)
    scorer = simulation.scorer(simulation.moment, "own").ready(np.arange(60))
    whole = scorer.all(np.arange(60))
    items = np.tile(np.arange(49, -1, -1, dtype=np.int32), (60, 1))
    np.testing.assert_array_equal(scorer.some(np.arange(60), items), whole[:, ::-1])


def test_what_the_kernel_does_not_know_runs_on_the_plain_engine() -> None:
    class Slowing(FedNCF):
        def groups(self, catalog: Catalog, round: int) -> list[Group]:
            first, *others = super().groups(catalog, round)
            return [Group(first.names, DecayingSGD(0.1), first.owner), *others]

    class Half(FedNCF):
        def groups(self, catalog: Catalog, round: int) -> list[Group]:
            user, items, layers = super().groups(catalog, round)
            return [user, items, Group(layers.names[:2], layers.optimizer, layers.owner)]

    parts = split(scalable(20, 30, 200), "strict", 0)
    for kind, why in ((Slowing, "local DecayingSGD of 'user' has no kernel"), (Half, "and leaves 'layer_")):
        assert Simulation(kind(), parts).clients.engine.name == "plain"
        with pytest.raises(FedrecError, match=why):
            Simulation(kind(), parts, engine="fused")
