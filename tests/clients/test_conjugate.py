"""Conjugate gradients of compiled least squares against the same system written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec.clients.clients import Clients
from fedrec.clients.engine import Wish
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import Array, Catalog
from fedrec.core.upload import Total
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.methods.fcf import FCF

ITEMS = 40
LAM = 0.7


def clients_of(histories: list[list[int]], dim: int, alpha: float) -> Clients:
    items = np.array([i for h in histories for i in h], np.int32)
    train = Ragged(run_ends(np.array([len(h) for h in histories])), items)
    met = sorted_distinct(*train)
    data = ClientData(np.arange(len(histories), dtype=np.uint64), train, met, met, ITEMS, 0)
    catalog = Catalog(n_users=len(histories), n_items=ITEMS, positives=10, ordered=False)
    return Clients(FCF(dim=dim, alpha=alpha, lam=LAM), data, catalog, secret=0, engine="fused")


def told(dim: int) -> Broadcast:
    items = np.random.default_rng(0).normal(0, 0.3, (ITEMS, dim)).astype(np.float32)
    return Broadcast(1, {"items": items, "gram": (items.T.astype(np.float64) @ items).astype(np.float32)})


def check(histories: list[list[int]], dim: int, alpha: float) -> None:
    clients, broadcast = clients_of(histories, dim, alpha), told(dim)
    fitted = clients.engine.fit(broadcast, clients.state, clients.everyone, clients.plan(1), Wish())
    v = broadcast.shared["items"].astype(np.float64)
    for w, history in zip(fitted.lines["user"], histories, strict=True):
        x = v[sorted(set(history))]
        wanted = np.linalg.solve(v.T @ v + alpha * x.T @ x + LAM * np.eye(dim), (1 + alpha) * x.sum(0))
        # What rounding costs grows with 1 + α, here as for a Cholesky decomposition.
        assert np.linalg.norm(w - wanted) <= (3e-6 + 2e-7 * alpha) * np.linalg.norm(wanted)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, ITEMS - 1), max_size=60), min_size=1, max_size=6),
    st.integers(1, 24),
    st.floats(0, 30),
)
def test_vectors_are_exact_to_single_precision(histories: list[list[int]], dim: int, alpha: float) -> None:
    """Without positives, fewer than dimensions, more; items met twice count once."""
    check(histories, dim, alpha)


@pytest.mark.parametrize("alpha", [0.0, 300.0, 1000.0])
def test_at_any_confidence(alpha: float) -> None:
    rng = np.random.default_rng(2)
    check([rng.choice(ITEMS, n, replace=False).tolist() for n in (0, 1, 3, 12, 13, 39)], 12, alpha)


def test_a_client_with_a_row_that_is_no_number_is_dropped_alone() -> None:
    clients, broadcast = clients_of([[3, 1, 2], [7], [], [1, 9]], 4, 1.0), told(4)
    items: Array = broadcast.shared["items"]
    items[7] = np.nan  # and the Gramian is as it was
    fitted = clients.engine.fit(broadcast, clients.state, clients.everyone, clients.plan(1), Wish())
    np.testing.assert_array_equal(fitted.finite, [True, False, True, True])
    assert isinstance(fitted.sent, Total)
    assert np.isfinite(fitted.sent.sums["outer"]).all()
