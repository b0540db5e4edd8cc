"""The compiled engine of FedALS against the plain one: same clients, same uploads, same scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec.core.federated import Total
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.engine.als import ALS
from fedrec.engine.interface import Ask
from fedrec.engine.plain import Plain
from fedrec.engine.round import Federation
from fedrec.engine.upload import Upload
from fedrec.methods.fedals import FedALS

SETTINGS: list[dict[str, Any]] = [
    {"dim": 8, "alpha": 1, "lam": 10, "scale": 0, "popularity": 0},
    {"dim": 12, "alpha": 20, "lam": 30},
    {"dim": 64, "alpha": 4, "lam": 5, "scale": 1},  # most clients have fewer positives than dimensions
]


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(scalable(120, 90, 3000))


def close(a: Any, b: Any) -> bool:
    return bool(np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b))


@pytest.mark.parametrize("settings", SETTINGS)
def test_same_round(parts: Split, settings: dict[str, Any]) -> None:
    method = FedALS(**settings)
    fast = Federation(method, parts, threads=2)
    slow = Federation(method, parts, engine_name="plain")
    assert (fast.engine.name, slow.engine.name) == ("fused", "plain")
    for _ in range(2):
        a, b = fast.play(evaluate=False), slow.play(evaluate=False)
        assert a.loss == pytest.approx(b.loss, rel=1e-4)
        assert a.bytes_up == b.bytes_up
    users, one = fast.everyone, fast.state
    engines = ALS(method, parts, 0), Plain(method, parts, 0)
    fitted = [engine.fit(one, 3, users) for engine in engines]
    assert close(fitted[0].private["user"], fitted[1].private["user"])
    sums = [f.sent for f in fitted]
    assert isinstance(sums[0], Total)
    assert isinstance(sums[1], Total)
    for name, values in sums[1].sums.items():
        assert close(sums[0].sums[name], values), name
    np.testing.assert_array_equal(sums[0].counts["corrections"], sums[1].counts["corrections"])
    scores = [engine.score_all(one, engine.held(one, 3, users, "global")) for engine in engines]
    assert close(*scores)


def test_same_single_uploads(parts: Split) -> None:
    method = FedALS(dim=8, alpha=4, lam=10)
    state = Federation(method, parts).state
    users = np.arange(20)
    fast, slow = (
        engine(method, parts, 0).fit(state, 1, users, Ask(single=True)).sent for engine in (ALS, Plain)
    )
    assert isinstance(fast, Upload)
    assert isinstance(slow, Upload)
    np.testing.assert_array_equal(fast.held.items, slow.held.items)
    assert close(fast.rows["corrections"], slow.rows["corrections"])
    assert close(fast.dense["outer"], slow.dense["outer"])


def test_threads_change_no_bit(parts: Split) -> None:
    states = []
    for threads in (1, 3):
        federation = Federation(FedALS(dim=16), parts, threads=threads)
        for _ in range(3):
            federation.play(evaluate=True)
        states.append(federation.state)
    for name, values in states[0].shared.items():
        assert values.tobytes() == states[1].shared[name].tobytes(), name
