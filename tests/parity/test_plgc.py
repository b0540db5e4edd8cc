"""Compiled clients with mixed rows (PLGC) must agree with the plain engine, their slow twin."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

import fedrec
from fedrec.channel.laplace import Laplace
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different

spec = importlib.util.spec_from_file_location("fused", Path(__file__).with_name("test_fused.py"))
assert spec is not None
assert spec.loader is not None
fused = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fused)

LINEAR = {
    "fedmf+plgc": 0.5,
    "pfedrec+plgc": 0.5,
    "fedrecon+plgc": 0.05,
    "fedmf+plgc+dualper": 0.5,
}  # item rates
NEURAL = ("fedncf+plgc", "fedncf+plgc+dualper", "fedneumf+plgc", "pfedrec+plgc with layers")
RECON = pytest.param("fedrecon+plgc", marks=pytest.mark.slow)  # the slowest on the plain engine
STRONG = {"plgc.redundancy": 0.05, "plgc.gamma": 0.1}  # what it adds must be seen


def method(name: str, hidden: tuple[int, ...] = (9, 4), slow: float = 1.0, **values: Any) -> Any:
    """One of both lists, at rates under which three rounds on a tiny world stay calm."""
    chain, _, layers = name.partition(" with ")
    base = chain.partition("+")[0]
    own: dict[str, Any] = {"dim": 8}
    if name in LINEAR:
        own |= {"eta": LINEAR[name]}
    else:
        own |= {"hidden": hidden, "eta": 0.5 * slow, "lr": (0.1 if layers else 0.5) * slow}
        own |= {} if layers else {"lr_layers": 0.5 * slow}
    named = {n: v for n, v in values.items() if "." in n}
    own |= {n: v for n, v in values.items() if "." not in n}
    if "neumf" in base:
        own["dim_mlp"] = own["dim"] + 3
    return make(chain, {**STRONG, **{f"{base}.{n}": v for n, v in own.items()}, **named})


def assert_same_rows(plain: Simulation, compiled: Simulation) -> None:
    for name, store in plain.clients.state.rows.items():
        held, found = store.arrays(), compiled.clients.state.rows[name].arrays()
        for part in ("users", "indptr", "items"):
            np.testing.assert_array_equal(held[part], found[part])
        assert fused.far(held["values"], found["values"]) < fused.TOLERANCE, name


@pytest.mark.parametrize("name", [*LINEAR, *NEURAL])
def test_compiled_equals_plain(name: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    plain, compiled = fused.both(method(name), parts)
    fused.assert_alike(plain, compiled)
    assert_same_rows(plain, compiled)


@pytest.mark.parametrize("name", ["fedmf+plgc", RECON, "fedncf+plgc"])
@pytest.mark.parametrize(
    "values",
    [
        {"plgc.balance": "fixed", "plgc.share": 0.3},
        {"plgc.redundancy": 0, "plgc.start": "mix", "plgc.carry": 0.3},
        {"plgc.gamma": 0, "batch_size": 7, "plgc.start": "refresh"},
        {"epochs": 5, "batch_size": 5, "tolerance": 0.05},
    ],
)
def test_compiled_equals_plain_with_settings(name: str, values: dict[str, Any]) -> None:
    parts = split(scalable(30, 40, 400), "strict", 0)
    plain, compiled = fused.both(method(name, slow=0.1, **values), parts, rounds=2)
    fused.assert_same_arrays(plain, compiled)
    assert_same_rows(plain, compiled)


@pytest.mark.parametrize(
    "options", [{"clients_per_round": 0.4}, {"channel": [Laplace(strength=0.001)]}, {"view": "random"}]
)
@pytest.mark.parametrize("name", ["fedmf+plgc", "fedncf+plgc"])
def test_compiled_equals_plain_with_options(name: str, options: dict[str, Any]) -> None:
    parts = split(scalable(60, 50, 900), "paper", 0)
    fused.assert_alike(*fused.both(method(name), parts, **options))


@profile(max_examples=8)
@given(
    name=st.sampled_from([*LINEAR, *NEURAL]),
    users=st.integers(2, 10),
    items=st.integers(8, 60),
    share=st.floats(0.2, 0.5),
    dim=st.integers(1, 37),
    hidden=st.lists(st.integers(1, 35), min_size=1, max_size=3),
    batch=st.integers(1, 200),
    epochs=st.integers(1, 2),
    cohort=st.sampled_from([None, 0.5]),
    seed=st.integers(0, 5),
)
def test_compiled_equals_plain_for_any_shape(
    name: str, users: int, items: int, share: float, dim: int, hidden: list[int], batch: int, epochs: int,
    cohort: float | None, seed: int,
) -> None:  # fmt: skip
    per_user = min(max(5, int(share * items)), items // 2)
    parts = split(scalable(users, items, users * max(per_user, 3), seed), "strict", seed)
    made = method(name, tuple(hidden), 0.1, dim=dim, batch_size=batch, epochs=epochs)
    fused.assert_same_arrays(*fused.both(made, parts, rounds=2, clients_per_round=cohort))


@pytest.mark.parametrize("name", ["fedmf+plgc", RECON, "fedncf+plgc"])
def test_clients_with_one_item_and_with_all_items(name: str) -> None:
    """The smallest client there is, and one that leaves nothing to draw as a negative."""
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    data = from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))
    for protocol in ("strict", "paper"):
        fused.assert_alike(*fused.both(method(name, dim=5), split(data, protocol, 0)))


@pytest.mark.parametrize("engine", ["plain", "fused"])
@pytest.mark.parametrize(("name", "slot"), [("fedmf+plgc", "score"), ("fedncf+plgc", "user")])
def test_a_client_that_runs_away_is_dropped_and_left_as_it_was(name: str, slot: str, engine: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    simulation = Simulation(method(name), parts, engine=engine)
    simulation.play(evaluate=False)
    state = simulation.clients.state
    state.lines[slot][[3, 17]] = np.nan
    kept = state.rows["items_local"].get(np.array([3, 17]))
    weights = state.lines["mix"][[3, 17]].copy()
    assert simulation.play(evaluate=True).dropped == 2
    after = simulation.clients.state
    np.testing.assert_array_equal(after.lines["mix"][[3, 17]], weights)
    np.testing.assert_array_equal(after.rows["items_local"].get(np.array([3, 17])).values, kept.values)
    assert all(np.isfinite(v).all() for v in simulation.server.state.shared.values())


@pytest.mark.parametrize("name", ["pfedrec+plgc", "fedneumf+plgc"])
def test_one_thread_and_many_end_with_the_same_bits(name: str) -> None:
    many = scalable(300, 100, 4500)
    one, three = (fedrec.run(method(name), many, rounds=2, threads=threads) for threads in (1, 3))
    assert one.federated is not None
    assert three.federated is not None
    assert one.federated.clients.engine.name == "fused"
    assert different(one.federated.moment, three.federated.moment) == []
    assert one.ranks.equals(three.ranks)


@pytest.mark.parametrize(
    ("chain", "values", "why"),
    [
        ("fedmf+plgc", {"balance": "alignment"}, "PLGC declares no kernel"),
        ("fedmf+gel+plgc", {}, "PLGC declares no kernel"),
        ("fedmf+plgc+gel", {}, "GEL declares no kernel"),
        ("fedrap+plgc", {}, "PLGC declares no kernel"),
        ("fedmf+plgc+recent", {}, "samples that weigh by their age have no kernel for mixed rows"),
    ],
)
def test_what_the_kernel_does_not_know_runs_on_the_plain_engine(
    chain: str, values: dict[str, Any], why: str
) -> None:
    parts = split(scalable(20, 30, 200), "strict", 0)
    made: Any = make(chain, values)
    assert Simulation(made, parts).clients.engine.name == "plain"
    with pytest.raises(FedrecError, match=why):
        Simulation(made, parts, engine="fused")
