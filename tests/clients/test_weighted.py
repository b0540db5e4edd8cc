"""Least squares with a weight for each positive, against the same system written out in numpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec.clients.clients import Clients
from fedrec.clients.engine import Wish
from fedrec.clients.kernels.ages import ages_of
from fedrec.clients.kernels.leastsquares import LeastSquaresClients
from fedrec.core.kernel import ByAge, LeastSquares
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import Catalog
from fedrec.core.upload import Total, Upload
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.methods.fedals import FedALS

ITEMS = 40
LAM, SCALE, ALPHA = 0.7, 0.25, 3.0


class Weighted(FedALS):
    """FedALS with tables by age, which a test sets."""

    tables: Any = None

    def kernel(self, catalog: Catalog) -> LeastSquares:
        train, rank = self.tables
        return replace(super().kernel(catalog), train=train, rank=rank)


def clients_of(histories: list[list[int]]) -> ClientData:
    items = np.array([i for h in histories for i in h], np.int32)
    train = Ragged(run_ends(np.array([len(h) for h in histories])), items)
    met = sorted_distinct(*train)
    return ClientData(np.arange(len(histories), dtype=np.uint64), train, met, met, ITEMS, 0)


def engine_of(histories: list[list[int]], dim: int, train: ByAge | None, rank: ByAge | None) -> Clients:
    method = Weighted(dim=dim, alpha=ALPHA, lam=LAM, scale=SCALE, popularity=0.3, tables=(train, rank))
    catalog = Catalog(n_users=len(histories), n_items=ITEMS, positives=10)
    return Clients(method, clients_of(histories), catalog, secret=0, engine="fused")


def told(dim: int, seed: int = 0) -> Broadcast:
    items = np.random.default_rng(seed).normal(0, 0.3, (ITEMS, dim + 1)).astype(np.float32)
    return Broadcast(1, {"items": items, "gram": (items.T.astype(np.float64) @ items).astype(np.float32)})


def by_hand(
    history: list[int], table: ByAge | None, shared: Any
) -> tuple[Any, dict[int, tuple[float, float]]]:
    """w and (a, b) of each positive; the newest meeting of an item counts."""
    v = shared["items"].astype(np.float64)
    newest = list(dict.fromkeys(reversed(history)))
    at = dict.fromkeys(newest, (ALPHA, 1 + ALPHA))
    if table is not None:
        last = len(table.curvature) - 1
        ages = {j: min(age, last) for age, j in enumerate(newest)}
        at = {j: (float(table.curvature[k]), float(table.target[k])) for j, k in ages.items()}
    lam = LAM * max(len(newest), 1) ** SCALE
    d = v.shape[1]
    left, right = v.T @ v + lam * np.eye(d), np.zeros(d)
    right[-1] = lam * 0.3
    for j, (a, b) in at.items():
        left += a * np.outer(v[j], v[j])
        right += b * v[j]
    return np.linalg.solve(left, right), at


def near(found: Any, wanted: Any) -> None:
    assert np.linalg.norm(found - wanted) <= 2e-5 * np.linalg.norm(wanted) + 1e-6


def table_of(first: float, last: float, length: int) -> ByAge:
    """From the newest to the oldest in equal steps."""
    a = np.linspace(first, last, length).astype(np.float32)
    return ByAge(a, (a + 1).astype(np.float32))


tables = st.builds(
    table_of, st.floats(0.0, 30.0), st.one_of(st.floats(-0.95, 2.0), st.just(0.0)), st.integers(1, 12)
)
people = st.lists(st.lists(st.integers(0, ITEMS - 1), max_size=60), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(people, st.integers(1, 24), st.none() | tables, st.none() | tables)
def test_each_positive_has_its_weight(
    histories: list[list[int]], dim: int, train: ByAge | None, rank: ByAge | None
) -> None:
    clients, broadcast = engine_of(histories, dim, train, rank), told(dim)
    users, engine = clients.everyone, clients.engine
    assert isinstance(engine, LeastSquaresClients)
    fitted = engine.fit(broadcast, clients.state, users, clients.plan(1), Wish())
    alone = engine.fit(broadcast, clients.state, users, clients.plan(1), Wish(single=True))
    ranking = engine.rebuilt(broadcast, clients.state, users, own=False).lines["user"]
    corrections, loss = np.zeros((ITEMS, dim + 1)), []
    for u, history in enumerate(histories):
        w, at = by_hand(history, train, broadcast.shared)
        near(fitted.lines["user"][u], w)
        near(ranking[u], by_hand(history, rank, broadcast.shared)[0])
        scores = broadcast.shared["items"] @ w
        for j, (a, b) in at.items():
            corrections[j] += (a * scores[j] - b) * w
        loss.append(sum(b * (1 - scores[j]) for j, (_, b) in at.items()))
    assert isinstance(fitted.sent, Total)
    assert isinstance(alone.sent, Upload)
    near(fitted.sent.sums["corrections"], corrections)
    summed = np.zeros_like(corrections)
    np.add.at(summed, alone.sent.items.items, alone.sent.rows["corrections"])
    near(summed, corrections)
    np.testing.assert_allclose(fitted.loss, loss, rtol=1e-3, atol=1e-3)


def test_constant_tables_are_no_tables() -> None:
    rng = np.random.default_rng(1)
    histories = [rng.choice(ITEMS, size, replace=False).tolist() for size in (0, 1, 7, 30)]
    flat = ByAge(np.full(3, ALPHA, np.float32), np.full(3, 1 + ALPHA, np.float32))
    found = []
    for table in (None, flat):
        clients = engine_of(histories, 12, table, table)
        found.append(clients.part(told(12), clients.everyone, own=False).lines["user"])
    assert found[0].tobytes() == found[1].tobytes()


def test_training_and_ranking_are_solved_once_where_they_weigh_the_same() -> None:
    one, other = table_of(5, 1, 4), table_of(5, 0, 4)
    for rank, same in ((one, True), (other, False)):
        clients = engine_of([[3, 1, 2], [7]], 4, one, rank)
        engine, broadcast = clients.engine, told(4)
        assert isinstance(engine, LeastSquaresClients)
        fitted = engine.fit(broadcast, clients.state, clients.everyone, clients.plan(1), Wish())
        ranking = engine.rebuilt(broadcast, clients.state, clients.everyone, own=False)
        assert (engine.train is engine.rank) == same
        assert np.array_equal(fitted.lines["user"][0], ranking.lines["user"][0]) == same


@pytest.mark.parametrize(
    ("met", "ages"), [([5, 2, 9], {5: 2, 2: 1, 9: 0}), ([4, 8, 4, 4, 1], {4: 1, 8: 2, 1: 0})]
)
def test_an_item_is_as_old_as_its_newest_meeting(met: list[int], ages: dict[int, int]) -> None:
    data = clients_of([met, [], [met[0]]])
    found = ages_of(data.train, data.trained, ITEMS)
    assert dict(zip(data.trained.of(0).tolist(), found.tolist(), strict=False)) == ages
    assert found[-1] == 0
