"""The compiled engine of FedALS against the plain one: same clients, same uploads, same scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec.clients.clients import Clients
from fedrec.clients.engine import Engine, Wish
from fedrec.core.upload import Total, Upload
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods.fedals import FedALS
from fedrec.simulate.simulation import Simulation

SETTINGS: list[dict[str, Any]] = [
    {"dim": 8, "alpha": 1, "lam": 10, "scale": 0, "popularity": 0},
    {"dim": 12, "alpha": 20, "lam": 30},
    {"dim": 64, "alpha": 4, "lam": 5, "scale": 1},  # most clients have fewer positives than dimensions
    {"dim": 16, "alpha": 200, "lam": 1},
]


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(scalable(120, 90, 3000))


def close(a: Any, b: Any) -> bool:
    return bool(np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b))


def engines(method: FedALS, parts: Split) -> list[Engine]:
    """The compiled one and the plain one, new."""
    return [
        Clients(method, parts.clients(), parts.catalog, secret=0, engine=n).engine for n in ("fused", "plain")
    ]


@pytest.mark.parametrize("settings", SETTINGS)
def test_same_round(parts: Split, settings: dict[str, Any]) -> None:
    method = FedALS(**settings)
    fast = Simulation(method, parts, threads=2)
    slow = Simulation(method, parts, engine="plain")
    assert (fast.clients.engine.name, slow.clients.engine.name) == ("fused", "plain")
    for _ in range(2):
        a, b = fast.play(evaluate=False), slow.play(evaluate=False)
        assert a.loss == pytest.approx(b.loss, rel=1e-4)
        assert a.bytes_up == b.bytes_up
    users, devices, both = fast.clients.everyone, fast.clients.state, engines(method, parts)
    told, plan = fast.server.broadcast(3), fast.clients.plan(3)
    fitted = [engine.fit(told, devices, users, plan, Wish()) for engine in both]
    assert close(fitted[0].lines["user"], fitted[1].lines["user"])
    sums = [f.sent for f in fitted]
    assert isinstance(sums[0], Total)
    assert isinstance(sums[1], Total)
    for name, values in sums[1].sums.items():
        assert close(sums[0].sums[name], values), name
    np.testing.assert_array_equal(sums[0].sums["senders"], sums[1].sums["senders"])
    now = fast.server.standing()
    ready = [(engine, engine.rebuilt(now, devices, users, own=False)) for engine in both]
    scores = [engine.score_all(now.shared, part) for engine, part in ready]
    assert close(*scores)


def test_same_single_uploads(parts: Split) -> None:
    method = FedALS(dim=8, alpha=4, lam=10)
    simulation = Simulation(method, parts)
    told, devices, plan = simulation.server.broadcast(1), simulation.clients.state, simulation.clients.plan(1)
    users = np.arange(20)
    fast, slow = (
        engine.fit(told, devices, users, plan, Wish(single=True)).sent for engine in engines(method, parts)
    )
    assert isinstance(fast, Upload)
    assert isinstance(slow, Upload)
    np.testing.assert_array_equal(fast.items.items, slow.items.items)
    assert close(fast.rows["corrections"], slow.rows["corrections"])
    assert close(fast.dense["outer"], slow.dense["outer"])


def test_threads_change_no_bit(parts: Split) -> None:
    states = []
    for threads in (1, 3):
        simulation = Simulation(FedALS(dim=16), parts, threads=threads)
        for _ in range(3):
            simulation.play(evaluate=True)
        states.append(simulation.server.state)
    for name, values in states[0].shared.items():
        assert values.tobytes() == states[1].shared[name].tobytes(), name
