"""What follows a context, from sums: the regression and the discriminant say what their definitions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec.methods.heads import CAUTION, LEAST, RARE, discriminant, ridge, spread

WIDTH, ITEMS, MOMENTS = 4, 6, 3000


@pytest.fixture(scope="module")
def seen() -> tuple[Any, Any, Any]:
    """Contexts that are normal around a mean of the item that comes next, and that item."""
    rng = np.random.default_rng(0)
    follows = rng.choice(ITEMS, MOMENTS, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    means = rng.normal(0, 1, (ITEMS, 2 * WIDTH))
    phi = np.column_stack([means[follows] + rng.normal(0, 1, (MOMENTS, 2 * WIDTH)), np.ones(MOMENTS)])
    b = np.zeros((ITEMS, 2 * WIDTH + 1), np.float32)
    np.add.at(b, follows, phi.astype(np.float32))
    return phi, follows, b


def test_the_regression_is_that_of_all_contexts_at_once(seen: tuple[Any, Any, Any]) -> None:
    phi, follows, b = seen
    came, gram = np.eye(ITEMS)[follows], 2.0 * np.eye(WIDTH)
    regular = np.diag([2.0 + 2.0 * LEAST] * 2 * WIDTH + [1.0])
    wanted = came.T @ phi @ np.linalg.inv(phi.T @ phi + 5.0 * regular)
    senders = np.arange(ITEMS).astype(np.float32)
    found = ridge(phi.T @ phi, b, senders, gram, 5.0)
    np.testing.assert_allclose(found, wanted / np.maximum(senders, 1)[:, None] ** RARE, rtol=1e-3, atol=1e-5)


def test_the_discriminant_is_bayes_rule_where_contexts_are_normal(seen: tuple[Any, Any, Any]) -> None:
    """log n + log N(φ; m_j, C), the shrunk m_j and C the same for all items: what is the same for all falls away."""
    phi, follows, b = seen
    z = discriminant(phi.T @ phi, b, np.eye(WIDTH), 1e-6)
    x = phi[:, :-1]
    covariance = np.cov(x.T, bias=True)
    wanted = np.empty((MOMENTS, ITEMS))
    for j in range(ITEMS):
        n = (follows == j).sum()
        centre = x.mean(0) + n / (n + CAUTION) * (x[follows == j].mean(0) - x.mean(0))
        off = x - centre
        wanted[:, j] = np.log1p(n) - 0.5 * np.einsum("tk,kl,tl->t", off, np.linalg.inv(covariance), off)
    found = phi @ z.T
    np.testing.assert_allclose(
        found - found.mean(1, keepdims=True), wanted - wanted.mean(1, keepdims=True), atol=2e-2
    )
    assert (found.argmax(1) == follows).mean() > 0.7  # always the most frequent: 0.4


def test_an_item_that_nobody_came_to_is_finite_and_last(seen: tuple[Any, Any, Any]) -> None:
    phi, _, b = seen
    more = np.vstack([b, np.zeros((1, b.shape[1]), np.float32)])
    z = discriminant(phi.T @ phi, more, np.eye(WIDTH), 1.0)
    assert np.isfinite(z).all()
    assert (phi @ z.T).mean(0).argmin() == ITEMS


def test_spread_is_the_deviation_of_scores_over_items(seen: tuple[Any, Any, Any]) -> None:
    phi, _, b = seen
    scores = phi @ b.T.astype(np.float64)
    assert spread(phi.T @ phi / MOMENTS, b) == pytest.approx(np.sqrt(scores.var(axis=1).mean()), rel=1e-3)
