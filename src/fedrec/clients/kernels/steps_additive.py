"""One local step of FedRAP's clients on distinct rows, next to its formulas.

For the distinct rows k of a batch of n samples, met q_k times, y_k of them positive:
    x_k = w·(c_k + d_k) + b,   r_k = (q_k σ(x_k) − y_k) / n,
    ∂L/∂w = Σ r_k (c_k + d_k),   ∂L/∂b = Σ r_k,
    ∂L/∂d_k = r_k w − 2λ q_k (d_k − c_k) / (n·dim),
    ∂L/∂c_k = r_k w + 2λ q_k (d_k − c_k) / (n·dim) + μ q_k ρ'(c_k) / (n·dim).
Where samples have weights, w, b and d_k have r_k + s_k in place of r_k: s_k is what the weights add to it, the same
formula with the sum of (weight − 1) over its samples in place of their numbers.
"""

from __future__ import annotations

from typing import Any

from fedrec.clients.kernels.steps import move_rows
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F, sigmoid_softplus, steady_sum


@part(fastmath=STEADY, error_model="numpy")
def _add_rows(c: Any, d: Any, rows: Any, s: Any, g: Any) -> Any:
    """g += Σ s_k (c_k + d_k); returns Σ s_k."""
    total = F(0)
    for k in range(len(rows)):
        row = rows[k]
        total += s[k]
        for j in range(len(g)):
            g[j] += s[k] * (c[row, j] + d[row, j])
    return total


@part(fastmath=STEADY, error_model="numpy")
def _residuals(x: Any, met: Any, positive: Any, share: Any, out: Any, terms: Any, count: int) -> Any:
    """(met·σ(x) − positive)·share of each row, and the sum of the cross-entropies; ``terms`` is scratch."""
    for k in range(count):
        sigmoid, softplus = sigmoid_softplus(x[k])
        terms[k] = met[k] * softplus - positive[k] * x[k]
        out[k] = (met[k] * sigmoid - positive[k]) * share
    return steady_sum(terms, 0, count)


@part(fastmath=FAST, error_model="numpy")
def step(
    c: Any, d: Any, rows: Any, met: Any, positive: Any, more_met: Any, more_positive: Any, n: int, w: Any, b: Any,
    numbers: Any, fade: float, x: Any, s: Any, residual: Any, terms: Any, g: Any,
) -> Any:  # fmt: skip
    """One batch: moves w, b and its rows; returns its loss before the move."""
    dim, share, weighted = len(w), F(1) / F(n), numbers.half_life > 0
    entry = share / F(dim)
    for k in range(len(rows)):
        row, total = rows[k], F(0)
        for j in range(dim):
            total += w[j] * (c[row, j] + d[row, j])
        x[k] = total + b[0]
    if weighted:
        _residuals(x, more_met, more_positive, share, s, terms, len(rows))
    entropy = _residuals(x, met, positive, share, residual, terms, len(rows))
    lr_c, lr_d = F(numbers.lr_common * fade), F(numbers.lr_personal * fade)
    decay, lam = F(numbers.weight_decay), F(numbers.lam) * entry
    l1, l2 = F(numbers.l1) * entry, F(numbers.l2) * entry
    g[:] = F(0)
    gb = extra = F(0)
    if weighted:
        gb = _add_rows(c, d, rows, s, g)
    for k in range(len(rows)):
        row, r, q = rows[k], residual[k], met[k]
        gb += r
        apart = q * lam
        for j in range(dim):
            cj, dj = c[row, j], d[row, j]
            far = dj - cj
            sign = F(1) if cj > F(0) else (F(-1) if cj < F(0) else F(0))
            g[j] += r * (cj + dj)
            extra += q * (l1 * abs(cj) + l2 * cj * cj - lam * far * far)
            pull, push = r * w[j], F(2) * apart * far
            d[row, j] = dj - lr_d * (pull - push + decay * dj)
            c[row, j] = cj - lr_c * (pull + push + q * (l1 * sign + F(2) * l2 * cj) + decay * cj)
    if weighted:
        move_rows(d, rows, s[: len(rows)], lr_d, w)
    lr_w = F(numbers.lr_vector * fade)
    for j in range(dim):
        w[j] -= lr_w * (g[j] + decay * w[j])
    b[0] -= lr_w * (gb + decay * b[0])
    return entropy * share + extra
