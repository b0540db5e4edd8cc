"""One local step of the log-linear family with mixed rows (PLGC), next to its formulas.

For a batch of samples k with own rows l_k and frozen rows g_k (``mixing``, ``redundancy``):

    x_k = a (w·l_k + b) + (1 − a) (w·g_k + b),     K = ‖w‖² Σ_k σ'(·)² with the one or the other logit,
    r_k = (σ(x_k) − y_k) / n,   ∂L/∂w = a Σ r_k l_k + (1 − a) Σ r_k g_k,   ∂L/∂b = Σ r_k,
    ∂L/∂l_k = a r_k w + m ∂R/∂l_k.
"""

from __future__ import annotations

from typing import Any

from fedrec.clients.kernels.mixing import Beside, balanced
from fedrec.clients.kernels.redundancy import correlate, lessen
from fedrec.clients.kernels.steps import logits, move_rows, residuals_and_loss, vector_gradient
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F, sigmoid_softplus
from fedrec.core.sums import squared_length


@part(fastmath=FAST, error_model="numpy")
def _squared_slopes(x: Any) -> Any:
    """Σ σ'(x_k)²."""
    total = F(0)
    for k in range(len(x)):
        s, _ = sigmoid_softplus(-abs(x[k]))
        slope = s * (F(1) - s)
        total += slope * slope
    return total


@part(fastmath=STEADY, error_model="numpy")
def _mixed_logits(table: Any, rows: Any, w: Any, b: Any, beside: Beside, x: Any) -> Any:
    """x_k; returns a."""
    other = beside.x[: len(rows)]
    logits(table, rows, w, b[0], x)
    logits(beside.e, rows, w, b[0], other)
    a = beside.share
    if a < F(0):
        squares = squared_length(w)
        a = balanced(squares * _squared_slopes(x), squares * _squared_slopes(other), a)
    for k in range(len(rows)):
        x[k] = a * x[k] + (F(1) - a) * other[k]
    return a


@part(fastmath=STEADY, error_model="numpy")
def weigh(table: Any, rows: Any, w: Any, b: Any, batch: int, beside: Beside, x: Any) -> None:
    """a over all samples of a pass."""
    k_local = k_fixed = F(0)
    squares = squared_length(w)
    for start in range(0, len(rows), batch):
        some = rows[start : start + batch]
        mine = x[: len(some)]
        logits(table, some, w, b[0], mine)
        k_local += squares * _squared_slopes(mine)
        logits(beside.e, some, w, b[0], mine)
        k_fixed += squares * _squared_slopes(mine)
    beside.a[0] = balanced(k_local, k_fixed, beside.share)


@part(fastmath=STEADY, error_model="numpy")
def step_mixed(
    table: Any, rows: Any, y: Any, w: Any, b: Any, lr_vector: Any, lr_rows: Any, in_turn: bool, wanted: bool,
    beside: Beside, x: Any, r: Any, terms: Any, g: Any,
) -> Any:  # fmt: skip
    """One batch: moves w, b and the client's own rows; returns the sum of its losses before the (last) move.

    Where rows stay as they are the redundancy loss is left out, unless its value is ``wanted``.
    """
    scale = F(1) / F(len(rows))
    a = _mixed_logits(table, rows, w, b, beside, x)
    loss = residuals_and_loss(x, y, r, scale, terms)
    gb, first = F(0), in_turn or lr_rows == 0
    if lr_vector > 0:
        gb = vector_gradient(table, rows, r, g)
        vector_gradient(beside.e, rows, r, beside.g)
        for j in range(len(w)):
            g[j] = a * g[j] + (F(1) - a) * beside.g[j]
        if first:
            for j in range(len(w)):
                w[j] -= lr_vector * g[j]
            b[0] -= lr_vector * gb
            if lr_rows > 0:
                a = _mixed_logits(table, rows, w, b, beside, x)
                loss = residuals_and_loss(x, y, r, scale, terms)
    if beside.redundancy > 0 and (wanted or lr_rows > 0):
        value = correlate(table, beside.e, rows, beside.gamma, lr_rows > 0, beside.of_e)
        loss += beside.redundancy * value * F(len(rows))
        if lr_rows > 0:
            lessen(table, rows, lr_rows * beside.redundancy, beside.of_e)
    if lr_rows > 0:
        move_rows(table, rows, r, lr_rows * a, w)
        if lr_vector > 0 and not first:
            for j in range(len(w)):
                w[j] -= lr_vector * g[j]
            b[0] -= lr_vector * gb
    return loss
