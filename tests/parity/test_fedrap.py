"""FedRAP's kernels must agree with the plain engine on the same samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.core.errors import FedrecError
from fedrec.core.gradient import GradientMethod
from fedrec.data.interactions import from_codes
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods.fedrap import FedRAP
from fedrec.simulate.moment import Round
from fedrec.simulate.simulation import Simulation
from fedrec.testing import Spy, scores
from fedrec.wrap.recent import Recent

TOLERANCE = 1e-5
OPTIONS: dict[str, dict[str, object]] = {
    "as the paper": {},
    "several batches": {"batch_size": 16, "weight_decay": 1e-3},
    "common only": {"parts": "common"},
    "personal only": {"parts": "personal"},
    "l2": {"regularizer": "l2", "schedule": "fixed", "mu": 0.3},
    "none": {"regularizer": "none", "schedule": "sin"},
    "far apart": {"std": 0.5, "lam": 0.1, "schedule": "frac"},
    "threshold": {"prox": 0.02, "schedule": "fixed"},
    "stops early": {"tolerance": 0.05},
    # l2: the sign of l1 flips where a number crosses zero, which rounding decides
    "recent": {"recent": {"half_life": 2, "floor": 0.1}, "regularizer": "l2"},
    "recent, several batches": {
        "recent": {"half_life": 2, "floor": 0.1},
        "regularizer": "l2",
        "batch_size": 16,
        "weight_decay": 1e-3,
    },
}


def far(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(a), 1e-12))


def both(parts: Split, values: dict[str, object], rounds: int = 3, **options: object) -> list[Simulation]:
    method: GradientMethod = FedRAP(
        **{"dim": 8, "lr_args": 10, **{name: value for name, value in values.items() if name != "recent"}}
    )
    if "recent" in values:
        method = Recent(method, **values["recent"])  # type: ignore[arg-type]
    simulations = [
        Simulation(method, parts, engine=engine, **options)  # type: ignore[arg-type]
        for engine in ("plain", "fused")
    ]
    plain, fused = ([simulation.play(evaluate=True) for _ in range(rounds)] for simulation in simulations)
    assert [s.clients.engine.name for s in simulations] == ["plain", "fused"]
    for a, b in zip(plain, fused, strict=True):
        assert_same_line(a, b)
    return simulations


def assert_same_line(a: Round, b: Round) -> None:
    assert (a.clients, a.dropped, a.bytes_up, a.bytes_down) == (
        b.clients,
        b.dropped,
        b.bytes_up,
        b.bytes_down,
    )
    assert a.loss == pytest.approx(b.loss, rel=1e-4, abs=1e-6)
    assert a.diagnostics == pytest.approx(b.diagnostics, abs=0.01)


def assert_alike(plain: Simulation, fused: Simulation) -> None:
    for name, value in plain.server.state.shared.items():
        assert far(value, fused.server.state.shared[name]) < TOLERANCE, name
    for name, value in plain.clients.state.lines.items():
        assert far(value, fused.clients.state.lines[name]) < TOLERANCE, name
    for name, store in plain.clients.state.rows.items():
        a, b = store.arrays(), fused.clients.state.rows[name].arrays()
        np.testing.assert_array_equal(a["items"], b["items"])
        assert far(a["values"], b["values"]) < TOLERANCE, name


@pytest.mark.parametrize("name", OPTIONS)
def test_fused_equals_plain(name: str) -> None:
    plain, fused = both(split(scalable(60, 50, 900), "paper", 0), OPTIONS[name])
    assert_alike(plain, fused)
    assert plain.selected is not None
    assert fused.selected is not None
    for view in plain.views:
        a, b = (scores(s, s.selected.moment, view) for s in (plain, fused))  # type: ignore[union-attr]
        assert far(a, b) < TOLERANCE, view
    assert (
        far(
            plain.ranks(plain.selected.moment, "test").ahead, fused.ranks(fused.selected.moment, "test").ahead
        )
        < 0.1
    )


@pytest.mark.parametrize("options", [{"clients_per_round": 0.4}, {"channel": [Spy()]}, {"seed": 7}])
def test_fused_equals_plain_with_options(options: dict[str, object]) -> None:
    assert_alike(*both(split(scalable(60, 50, 900), "strict", 0), {}, **options))


@given(
    option=st.sampled_from(sorted(OPTIONS)),
    users=st.integers(2, 14),
    items=st.integers(12, 60),
    share=st.floats(0.2, 0.5),
    dim=st.integers(1, 37),
    batch=st.integers(1, 90),
    epochs=st.integers(1, 4),
    protocol=st.sampled_from(["strict", "paper"]),
    seed=st.integers(0, 5),
)
def test_fused_equals_plain_for_any_shape(
    option: str,
    users: int,
    items: int,
    share: float,
    dim: int,
    batch: int,
    epochs: int,
    protocol: str,
    seed: int,
) -> None:
    per_user = min(max(5, int(share * items)), items // 2)
    parts = split(scalable(users, items, users * per_user, seed), protocol, seed)
    values = {
        "lr_args": 3,
        **OPTIONS[option],
        "dim": dim,
        "batch_size": batch,
        "epochs": epochs,
        "tolerance": 0,
    }
    assert_alike(*both(parts, values, rounds=2))


def test_clients_with_one_item_and_with_all_items() -> None:
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    data = from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))
    for protocol in ("strict", "paper"):
        assert_alike(*both(split(data, protocol, 0), {"dim": 5}))


def test_the_nuclear_norm_runs_on_the_plain_engine() -> None:
    parts, method = split(scalable(20, 30, 200), "strict", 0), FedRAP(dim=4, regularizer="nuclear")
    assert Simulation(method, parts).clients.engine.name == "plain"
    assert Simulation(FedRAP(dim=4), parts).clients.engine.name == "fused"
    with pytest.raises(FedrecError, match=r"cannot run fedrap: FedRAP declares no kernel"):
        Simulation(method, parts, engine="fused")
