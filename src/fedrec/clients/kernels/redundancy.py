"""The redundancy loss R of local rows against frozen ones and its gradient, next to the formulas (``wrap.plgc``).

A batch has n samples with local rows l_k and frozen rows g_k; x_k = l_k − l̄ and y_k = g_k − ḡ are centred, with
spreads s_p² = Σ_k x_kp² / n and t_q² = Σ_k y_kq² / n:

    C_pq = Σ_k x_kp y_kq / (n s_p t_q),    R = Σ_p (1 − C_pp)² + γ Σ_{p≠q} C_pq²,
    D_pq = ∂R/∂C_pq = −2 (1 − C_pp) for p = q, 2γ C_pq otherwise,
    ∂R/∂l_kp = Σ_q B_pq y_kq − u_p x_kp,   B_pq = D_pq / (n s_p t_q),   u_p = Σ_q D_pq C_pq / (n s_p²).

u is what s_p hands back; l̄ hands back nothing, as y and x sum to 0. Two products of matrices per batch: yᵀx and y Bᵀ.
A dimension that is flat in either set counts nothing, nor does a batch of a single sample.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F
from fedrec.core.products import LANES, multiply
from fedrec.core.slots import Array

FLAT = F(1e-6)  # as wrap.plgc has it
TILE = 64  # samples whose rows stay in the nearest cache


class Correlation(NamedTuple):
    """Scratch for batches of rows of one width; rows have padding (``core.products``)."""

    width: int
    stride: int
    x: Array
    y: Array
    slopes: Array  # y Bᵀ
    c: Array  # Cᵀ, then Bᵀ
    mean: Array
    spreads: Array  # 1 / s and 1 / t; 0 where a dimension is flat
    u: Array
    zeros: Array


@part()
def make_correlation(width: int, batch: int) -> Correlation:
    """For batches of at most so many samples."""
    groups = (width + LANES - 1) // LANES
    stride = LANES * (groups | 1) if width else 0
    lines = (batch + TILE, stride)
    return Correlation(
        width, stride, np.zeros(lines, F), np.zeros(lines, F), np.zeros(lines, F),
        np.zeros((LANES * groups, stride), F),
        np.zeros(stride, F), np.zeros((2, stride), F), np.zeros(stride, F), np.zeros(stride, F),
    )  # fmt: skip


@part(fastmath=STEADY, error_model="numpy")
def _centred(table: Any, rows: Any, width: int, x: Any, mean: Any, squares: Any) -> None:
    """Rows of a batch less their mean, and the sums of squares of the columns."""
    mean[:] = F(0)
    squares[:] = F(0)
    for k in range(len(rows)):
        row = rows[k]
        for j in range(width):
            mean[j] += table[row, j]
    for j in range(width):
        mean[j] /= F(len(rows))
    for k in range(len(rows)):
        row = rows[k]
        for j in range(width):
            x[k, j] = table[row, j] - mean[j]
        for j in range(width):
            squares[j] += x[k, j] * x[k, j]


@part(fastmath=FAST, error_model="numpy")
def _off_diagonal(c: Any, s: Any, t: Any, share: Any, width: int) -> Any:
    """Σ_{p≠q} C_pq²."""
    total = F(0)
    for q in range(width):
        scale = t[q] * share
        for p in range(width):
            found = c[q, p] * s[p] * scale
            total += found * found
        own = c[q, q] * s[q] * scale
        total -= own * own
    return total


@part(fastmath=STEADY, error_model="numpy")
def correlate(local: Any, fixed: Any, rows: Any, gamma: Any, moves: bool, scratch: Correlation) -> Any:
    """R of a batch; where its rows are to move, what ``lessen`` needs is left in the scratch."""
    n, width, stride, x, y = len(rows), scratch.width, scratch.stride, scratch.x, scratch.y
    c, s, t, u = scratch.c, scratch.spreads[0], scratch.spreads[1], scratch.u
    lines, share, value = (width + LANES - 1) // LANES * LANES, F(1) / F(n), F(0)
    _centred(local, rows, width, x, scratch.mean, s)
    _centred(fixed, rows, width, y, scratch.mean, t)
    flat_x, flat_y, flat_c = x.reshape(-1), y.reshape(-1), c.reshape(-1)
    c[:] = F(0)
    u[:] = F(0)
    for start in range(0, n, TILE):
        at = start * stride
        multiply(
            flat_c, 0, stride, flat_c, 0, stride, flat_y, at, 1, stride, flat_x, at, stride, lines, lines,
            min(TILE, n - start),
        )  # fmt: skip
    for p in range(width):  # from here on 1 / s and 1 / t
        kept = n > 1 and s[p] * share > FLAT * FLAT and t[p] * share > FLAT * FLAT
        s[p] = F(1) / np.sqrt(s[p] * share) if kept else F(0)
        t[p] = F(1) / np.sqrt(t[p] * share) if kept else F(0)
    value += gamma * _off_diagonal(c, s, t, share, width)
    for q in range(width):
        scale = t[q] * share
        own = c[q, q] * s[q] * scale  # C_qq
        for p in range(width):
            found = c[q, p] * s[p] * scale
            slope = F(2) * gamma * found
            u[p] += slope * found
            c[q, p] = slope * s[p] * scale
        kept = F(1) if s[q] > F(0) else F(0)
        slope = F(-2) * (F(1) - own) * kept
        value += (F(1) - own) * (F(1) - own) * kept
        u[q] += (slope - F(2) * gamma * own) * own
        c[q, q] = slope * s[q] * scale
    for p in range(width):
        u[p] *= s[p] * s[p] * share
    if moves:
        for start in range(0, n, TILE):
            at, count = start * stride, (min(TILE, n - start) + LANES - 1) // LANES * LANES
            multiply(
                scratch.slopes.reshape(-1), at, stride, scratch.zeros, 0, 0, flat_y, at, stride, 1,
                flat_c, 0, stride, count, lines, width,
            )  # fmt: skip
    return value


@part(fastmath=STEADY, error_model="numpy")
def lessen(local: Any, rows: Any, rate: Any, scratch: Correlation) -> None:
    """l_k ← l_k − rate·∂R/∂l_k."""
    x, slopes, u = scratch.x, scratch.slopes, scratch.u
    for k in range(len(rows)):
        row = rows[k]
        for j in range(scratch.width):
            local[row, j] -= rate * (slopes[k, j] - u[j] * x[k, j])
