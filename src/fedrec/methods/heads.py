"""What follows a context, from sums: two readings that are linear in the context (FedNext).

Of contexts φ, with a 1 at the end, the server has A = Σ φφᵀ and for each item j the sum b_j of those that it came
after, whose last number n_j says how many. Γ = diag(XᵀX + ε I, …, 1) is the unit matrix for whitened rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrec.core.slots import Array

RARE = 0.2  # β: the same evidence says more of an item that few have met
LEAST = 0.01  # of the Gramian's mean eigenvalue, in Γ: directions that hardly exist are noise, not evidence
CAUTION = 30.0  # contexts' worth of doubt that an item is preceded by anything special
ENOUGH = 1000  # items say how far scores lie apart


def _regular(size: int, gram: Any) -> Any:
    """Γ, without the last 1 where ``size`` leaves it no room."""
    width = len(gram)
    block = gram + LEAST * np.trace(gram) / width * np.eye(width)
    regular = np.eye(size)
    for k in range(0, size - width + 1, width):
        regular[k : k + width, k : k + width] = block
    return regular


def ridge(a: Any, b: Array, senders: Array, gram: Any, lam: float) -> Array:
    """Z = B (A + λΓ)⁻¹, row j over (clients that met j)^β: how many more than usual come to j."""
    z = b @ np.linalg.inv(a + lam * _regular(len(a), gram)).astype(np.float32)
    z /= np.maximum(senders, 1)[:, None] ** np.float32(RARE)
    return z


def discriminant(a: Any, b: Array, gram: Any, lam: float) -> Array:
    """log P(j | φ) but for a constant, if contexts before j are normal around m_j with what all have in common:

    log n_j + (φ − μ)ᵀ C⁻¹ (m_j − μ) − ½ (m_j − μ)ᵀ C⁻¹ (m_j − μ),

    with C the covariance of contexts plus λΓ/Σ1 and m_j − μ shrunk by n_j/(n_j + κ).
    """
    total = max(a[-1, -1], 1.0)
    mean = a[-1, :-1] / total
    spread_out = a[:-1, :-1] / total - np.outer(mean, mean)
    inverse = np.linalg.inv(spread_out + lam / total * _regular(len(mean), gram)).astype(np.float32)
    counts, centre = np.maximum(b[:, -1], 0), mean.astype(np.float32)
    special = b[:, :-1] - counts[:, None] * centre
    special /= (counts + np.float32(CAUTION))[:, None]
    z = np.empty_like(b)
    z[:, :-1] = special @ inverse
    special *= np.float32(0.5)
    special += centre
    z[:, -1] = np.log1p(counts) - np.einsum("jk,jk->j", z[:, :-1], special)
    return z


def spread(mean_outer: Any, table: Array) -> float:
    """How far scores of items lie apart, for vectors with this mean outer product."""
    some = table[:: max(len(table) // ENOUGH, 1)]
    centred = some - some.mean(axis=0)
    variance = np.sum(mean_outer * (centred.T @ centred)) / len(some)
    return float(np.sqrt(max(variance, 1e-24)))
