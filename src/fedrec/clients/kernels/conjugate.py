"""Conjugate gradients for a client's weighted least squares, to single precision, in compiled code.

In the eigenvectors of the Gramian G and scaled by (G + λ)^(−½), what all clients share is the identity: the
system is I + αXᵀX with X the client's scaled positives. G has each of them once, so XᵀX is at most I, and no
eigenvalue is above 1 + α. Five or six steps then do what a Cholesky decomposition does, whether a client
has fewer positives than dimensions or more, in n × d each.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY
from fedrec.core.sums import dot

TOLERANCE = np.float32(5e-7)  # of a vector's length; its error is no larger
MOST = 1000  # steps; more than rounding can cost at any sensible confidence


@nb.njit(cache=True, nogil=True, fastmath=STEADY)
def solve_block(
    users: Any, indptr: Any, items: Any, ages: Any, by_age: Any,
    rotated: Any, values: Any, prior: Any, vectors: Any, alpha: Any, lam: Any, scale: Any, out: Any,
) -> None:  # fmt: skip
    """(diag(s + λ) + α Σ x_j x_jᵀ) w = (1 + α) Σ m_j x_j + λ w₀ for each client, x_j its positives' rotated rows.

    m_j is ``by_age`` at the age of j; its last number stands for all that are older.

    Each client is solved and turned back by itself: its bits do not depend on who is solved beside it.
    """
    d = len(values)
    longest = 0
    for c in range(len(users)):
        longest = max(longest, indptr[users[c] + 1] - indptr[users[c]])
    x = np.empty((longest, d), np.float32)
    root = np.empty(d, np.float32)
    left = np.empty(d, np.float32)  # the residual
    work = np.empty((2, d), np.float32)
    for c in range(len(users)):
        start, end = indptr[users[c]], indptr[users[c] + 1]
        mild = lam * np.float32(max(end - start, 1)) ** scale
        for k in range(d):
            root[k] = np.float32(1) / np.sqrt(values[k] + mild)
            left[k] = mild * root[k] * prior[k]
        for r in range(end - start):
            row, scaled = rotated[items[start + r]], x[r]
            b = (np.float32(1) + alpha) * by_age[min(ages[start + r], len(by_age) - 1)]
            for k in range(d):
                scaled[k] = row[k] * root[k]
                left[k] += b * scaled[k]
        w = out[c]
        _descend(x[: end - start], alpha, left, w, work)
        for k in range(d):
            left[k] = w[k] * root[k]
        np.dot(vectors, left, out[c])


@part(fastmath=STEADY)
def _descend(x: Any, a: Any, left: Any, w: Any, work: Any) -> None:
    """(I + aXᵀX) w = left; what is left of it is used up."""
    p, q = work[0], work[1]
    for k in range(len(w)):
        w[k] = 0
        p[k] = left[k]
    size, length = dot(left, left), np.float32(0)
    for _ in range(MOST):
        if size <= TOLERANCE * TOLERANCE * length:
            return
        _apply(x, a, p, q)
        step = size / dot(p, q)
        for k in range(len(w)):
            w[k] += step * p[k]
            left[k] -= step * q[k]
        before, size, length = size, dot(left, left), dot(w, w)
        for k in range(len(w)):
            p[k] = left[k] + size / before * p[k]


@part(fastmath=FAST)
def _apply(x: Any, a: Any, p: Any, q: Any) -> None:
    """q = p + a Σ (x_r·p) x_r, four rows at a time: p and q are then read a quarter as often."""
    n, d = len(x), len(p)
    for k in range(d):
        q[k] = p[k]
    for r in range(0, n - 3, 4):
        x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
        s0 = s1 = s2 = s3 = np.float32(0)
        for k in range(d):
            s0 += x0[k] * p[k]
            s1 += x1[k] * p[k]
            s2 += x2[k] * p[k]
            s3 += x3[k] * p[k]
        s0, s1, s2, s3 = s0 * a, s1 * a, s2 * a, s3 * a
        for k in range(d):
            q[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
    for r in range(n - n % 4, n):
        s0 = a * dot(x[r], p)
        for k in range(d):
            q[k] += s0 * x[r, k]
