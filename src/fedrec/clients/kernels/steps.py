"""One local step of the log-linear family on a client's compact table, next to its formulas.

For a batch of samples k with rows e_k and labels y_k:  x_k = w·e_k + b,  r_k = (σ(x_k) − y_k) / n,
∂L/∂w = Σ r_k e_k,  ∂L/∂b = Σ r_k,  ∂L/∂e_k = r_k w.  Where samples have weights (none: an empty array), they are
factors of r_k in the gradient of w and b, and of nothing else.  All arrays are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F, sigmoid_softplus, steady_sum
from fedrec.core.sums import squared_length


@part(fastmath=FAST, error_model="numpy")
def logits(table: Any, rows: Any, w: Any, b: Any, x: Any) -> None:
    """x_k = w·e_k + b."""
    for k in range(len(rows)):
        row = rows[k]
        total = F(0)
        for j in range(table.shape[1]):
            total += table[row, j] * w[j]
        x[k] = total + b


@part(fastmath=STEADY, error_model="numpy")
def residuals(x: Any, y: Any, r: Any, scale: Any) -> None:
    """r_k = (σ(x_k) − y_k)·scale."""
    for k in range(len(y)):
        sigmoid, _ = sigmoid_softplus(x[k])
        r[k] = (sigmoid - y[k]) * scale


@part(fastmath=STEADY, error_model="numpy")
def residuals_and_loss(x: Any, y: Any, r: Any, scale: Any, terms: Any) -> Any:
    """The same, and the sum of the cross-entropies; ``terms`` is scratch.

    A logit that is not finite makes the loss NaN (x·y), by which the client is dropped.
    """
    for k in range(len(y)):
        sigmoid, softplus = sigmoid_softplus(x[k])
        r[k] = (sigmoid - y[k]) * scale
        terms[k] = softplus - x[k] * y[k]
    return steady_sum(terms, 0, len(y))


@part(fastmath=STEADY, error_model="numpy")
def weigh(r: Any, weights: Any) -> None:
    """Residuals times the weights of their samples, where there are some."""
    for k in range(len(weights)):
        r[k] *= weights[k]


@part(fastmath=STEADY, error_model="numpy")
def vector_gradient(table: Any, rows: Any, r: Any, g: Any) -> Any:
    """g = Σ r_k e_k; returns Σ r_k."""
    g[:] = F(0)
    total = F(0)
    for k in range(len(rows)):
        row, c = rows[k], r[k]
        total += c
        for j in range(table.shape[1]):
            g[j] += c * table[row, j]
    return total


@part(fastmath=STEADY, error_model="numpy")
def move_rows(table: Any, rows: Any, r: Any, lr: Any, w: Any) -> None:
    """e_k ← e_k − lr·r_k·w."""
    for k in range(len(rows)):
        row, c = rows[k], lr * r[k]
        for j in range(table.shape[1]):
            table[row, j] -= c * w[j]


@part(fastmath=STEADY, error_model="numpy")
def sharpen_vector(
    table: Any, rows: Any, y: Any, weights: Any, x: Any, g: Any, gb: Any, radius: Any, r: Any, scale: Any
) -> Any:
    """The gradient in (w, b) at (w, b) + radius·(g, gb)/‖(g, gb)‖, written over g; returns that in b."""
    share = radius / (np.sqrt(gb * gb + squared_length(g)) + F(1e-12))
    moved, along = np.empty(len(x), F), np.empty(len(g), F)
    for j in range(len(g)):  # loops: an expression of arrays takes longer to compile
        along[j] = g[j] * share
    logits(table, rows, along, gb * share, moved)
    for k in range(len(x)):
        moved[k] += x[k]
    residuals(moved, y, r, scale)
    weigh(r, weights)
    return vector_gradient(table, rows, r, g)


@part(fastmath=STEADY, error_model="numpy")
def sharpen_rows(rows: Any, y: Any, x: Any, w: Any, radius: Any, r: Any, sums: Any, scale: Any) -> None:
    """Residuals at rows moved by radius along their gradient; r holds those at the rows as they are.

    A row's gradient is s·w with s the sum of its samples' residuals, so ‖gradient‖ = ‖s‖·‖w‖, and its
    samples' logits move by radius·s·‖w‖/‖s‖. ``sums`` is scratch, zero before and after.
    """
    length = squared_length(w)
    for k in range(len(rows)):
        sums[rows[k]] += r[k]
    squares = F(0)
    for k in range(len(rows)):
        squares += r[k] * sums[rows[k]]  # each row's s² once
    factor = radius * length / (np.sqrt(max(squares, F(0)) * length) + F(1e-12))
    moved = np.empty(len(x), F)
    for k in range(len(rows)):
        moved[k] = x[k] + factor * sums[rows[k]]
    for k in range(len(rows)):
        sums[rows[k]] = F(0)
    residuals(moved, y, r, scale)


@part(fastmath=STEADY, error_model="numpy")
def step(
    table: Any, rows: Any, y: Any, weights: Any, w: Any, b: Any, lr_vector: Any, lr_rows: Any, in_turn: bool,
    radius_vector: Any, radius_rows: Any, x: Any, r: Any, terms: Any, g: Any, sums: Any,
) -> Any:  # fmt: skip
    """One batch: moves w, b and the rows; returns the sum of cross-entropies before the (last) move.

    A learning rate of 0 leaves that part alone. ``in_turn``: w and b first, then the rows at the new w, b.
    """
    scale = F(1) / F(len(rows))
    logits(table, rows, w, b[0], x)
    loss = residuals_and_loss(x, y, r, scale, terms)
    if lr_vector > 0:
        apart = radius_vector > 0 or len(weights) > 0  # the rows have residuals of their own
        at_rows = r.copy() if apart else r
        weigh(r, weights)
        gb = vector_gradient(table, rows, r, g)
        if radius_vector > 0:
            gb = sharpen_vector(table, rows, y, weights, x, g, gb, radius_vector, r, scale)
        if apart:
            for k in range(len(r)):
                r[k] = at_rows[k]
        if in_turn or lr_rows == 0:
            for j in range(len(w)):
                w[j] -= lr_vector * g[j]
            b[0] -= lr_vector * gb
            if lr_rows > 0:
                logits(table, rows, w, b[0], x)
                loss = residuals_and_loss(x, y, r, scale, terms)
    if lr_rows > 0:
        if radius_rows > 0:
            sharpen_rows(rows, y, x, w, radius_rows, r, sums, scale)
        move_rows(table, rows, r, lr_rows, w)
        if lr_vector > 0 and not in_turn:
            for j in range(len(w)):
                w[j] -= lr_vector * g[j]
            b[0] -= lr_vector * gb
    return loss
