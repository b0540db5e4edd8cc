"""A small neural scorer in compiled code: its logits and its gradient for a batch, next to the formulas.

    h_1 = relu(W_1 [v ‖ e] + b_1),   h_l = relu(W_l h_(l−1) + b_l),   x = w · [u ⊙ f ‖ h_L] + b

with vectors v and u of a client and rows e and f of an item; v, or u and f together, may be absent. With
r = (σ(x) − y) · weight of a sample:

    ∂w = Σ r [u ⊙ f ‖ h_L],  ∂u = w_u ⊙ Σ r f,  ∂f = r w_u ⊙ u,  δ_L = r w_h ⊙ [h_L > 0],
    ∂W_l = Σ δ_l h_(l−1)ᵀ,   ∂b_l = Σ δ_l,   δ_(l−1) = W_lᵀ δ_l ⊙ [h_(l−1) > 0],   ∂e = W_1eᵀ δ_1,
    ∂W_1v = (Σ δ_1) vᵀ,      ∂v = W_1vᵀ Σ δ_1.

All that is not a row lies in one array θ, the two vectors first, each matrix with padding (``core.products``).
Samples are taken in tiles whose layers stay in the nearest cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F, sigmoid_softplus, steady_sum
from fedrec.core.products import (
    LANES,
    add_rows,
    multiply,
    multiply_positive,
    multiply_where,
    padded,
    spot,
    stride,
)
from fedrec.core.slots import Array
from fedrec.core.sums import dot

TILE = 64  # samples
NO, YES = np.bool_(False), np.bool_(True)  # Python's have types of their own, and compile their callees anew


class Net(NamedTuple):
    """Widths, and where things lie in θ; arrays have an entry for each layer."""

    vector: int  # width of v, 0 without
    row: int  # of e
    product: int  # of u and f
    vector_stride: int
    row_stride: int
    product_stride: int
    inputs: NDArray[np.int64]  # of a layer, but for v
    input_strides: NDArray[np.int64]
    widths: NDArray[np.int64]
    strides: NDArray[np.int64]
    weights: NDArray[np.int64]  # W_l, without W_1v
    weights_v: int
    biases: NDArray[np.int64]
    turned: NDArray[np.int64]  # W_lᵀ, in an array of their own
    hidden: NDArray[np.int64]  # h_l of a tile, in an array of their own
    times: int  # u
    output: int  # w_h
    output_times: int  # w_u
    bias: int  # b
    vectors: int  # numbers of the vectors together
    size: int  # of θ
    widest: int  # with padding


def make_net(vector: int, row: int, product: int, hidden: tuple[int, ...]) -> Net:
    """The layout for vectors and rows of these widths and hidden layers of those."""
    at = 0

    def take(numbers: int) -> int:
        nonlocal at
        at += numbers
        return at - numbers

    take(stride(vector))
    times = take(stride(product))
    vectors = at
    inputs = (row, *hidden[:-1])
    weights_v = take(padded(hidden[0]) * stride(vector))
    weights, biases, turned, lines = [], [], [0], [0]
    for before, width in zip(inputs, hidden, strict=True):
        weights.append(take(padded(width) * stride(before)))
        biases.append(take(stride(width)))
        turned.append(turned[-1] + before * stride(width))
        lines.append(lines[-1] + TILE * stride(width))
    output, output_times, bias = take(stride(hidden[-1])), take(stride(product)), take(LANES)

    def whole(numbers: Any) -> NDArray[np.int64]:
        return np.array(numbers, np.int64)

    return Net(
        vector, row, product, stride(vector), stride(row), stride(product), whole(inputs),
        whole([stride(n) for n in inputs]), whole(hidden), whole([stride(n) for n in hidden]), whole(weights),
        weights_v, whole(biases), whole(turned),
        whole(lines), times, output, output_times, bias, vectors, at, stride(max(row, product, *hidden)),
    )  # fmt: skip


def places(net: Net) -> dict[tuple[str, int], NDArray[np.int64]]:
    """Where the numbers of each array are in θ, in the shape of the array."""
    first = net.weights_v + stride(net.vector) * np.arange(net.widths[0])[:, None] + np.arange(net.vector)
    found = {
        ("vector", 0): np.arange(net.vector),
        ("vector", 1): net.times + np.arange(net.product),
    }
    for layer, (before, width) in enumerate(zip(net.inputs, net.widths, strict=True)):
        own = net.weights[layer] + stride(before) * np.arange(width)[:, None] + np.arange(before)
        found["weights", layer] = np.concatenate([first, own], axis=1) if layer == 0 else own
        found["biases", layer] = net.biases[layer] + np.arange(width)
    last = len(net.widths)
    ends = net.output_times + np.arange(net.product), net.output + np.arange(net.widths[-1])
    found["weights", last], found["biases", last] = np.concatenate(ends), net.bias + np.arange(1)
    return found


class Memory(NamedTuple):
    """Scratch, used by one thread."""

    turned: Array  # W_lᵀ
    hidden: Array  # h_l of a tile
    deltas: Array  # δ_l of a tile
    logits: Array
    slopes: Array  # r
    first: Array  # W_1v v + b_1
    factors: Array  # w_u ⊙ u
    sums: Array  # Σ r f
    zeros: Array
    one: Array  # 1, then zeros


@nb.njit(cache=True, nogil=True)
def make_memory(net: Net, samples: int) -> Memory:
    """For batches of at most so many samples."""
    widest, one = net.widest, np.zeros(LANES, F)
    one[0] = F(1)
    return Memory(
        np.zeros(net.turned[-1], F), np.zeros(net.hidden[-1], F), np.zeros(net.hidden[-1], F),
        np.zeros(samples + TILE, F), np.zeros(samples + TILE, F), np.zeros(widest, F), np.zeros(widest, F),
        np.zeros(widest, F), np.zeros(widest, F), one,
    )  # fmt: skip


@nb.njit(cache=True, nogil=True, inline="always")
def _padded(width: int) -> int:
    """As ``padded``, for compiled code."""
    return (width + LANES - 1) // LANES * LANES


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def prepare(net: Net, theta: Any, memory: Memory) -> None:
    """What all samples have in common; to be done whenever θ has changed."""
    for layer in range(len(net.widths)):
        before, width, at, to = net.inputs[layer], net.widths[layer], net.weights[layer], net.turned[layer]
        row, across = net.input_strides[layer], net.strides[layer]
        for i in range(before):
            for o in range(width):
                memory.turned[spot(to + i * across, o)] = theta[spot(at + o * row, i)]
    row = net.vector_stride
    for o in range(net.widths[0]):
        own = net.weights_v + o * row
        memory.first[o] = theta[net.biases[0] + o] + dot(theta[own : own + net.vector], theta[: net.vector])
    for j in range(net.product):
        memory.factors[j] = theta[spot(net.output_times, j)] * theta[spot(net.times, j)]


@part(fastmath=FAST, error_model="numpy")
def forward(net: Net, theta: Any, memory: Memory, e: Any, f: Any, start: int, count: int) -> None:
    """The layers of a tile of samples, and its logits."""
    h, rows, last = memory.hidden, _padded(count), len(net.widths) - 1
    for layer in range(last + 1):
        width, at, to = net.widths[layer], net.hidden[layer], net.turned[layer]
        row, columns = net.strides[layer], _padded(width)
        if layer == 0:
            multiply_positive(
                h, at, row, memory.first, 0, 0, e, start * net.row_stride, net.row_stride, 1,
                memory.turned, to, row, rows, columns, net.row,
            )  # fmt: skip
        else:
            before = net.inputs[layer]
            multiply_positive(
                h, at, row, theta, net.biases[layer], 0, h, net.hidden[layer - 1], net.input_strides[layer], 1,
                memory.turned, to, row, rows, columns, before,
            )  # fmt: skip
    width, at = net.widths[last], net.hidden[last]
    row, bias = net.strides[last], theta[net.bias]
    for k in range(count):
        total = bias
        for j in range(width):
            total += h[spot(at + k * row, j)] * theta[spot(net.output, j)]
        for j in range(net.product):
            total += f[spot((start + k) * net.product_stride, j)] * memory.factors[j]
        memory.logits[start + k] = total


@nb.njit(cache=True, nogil=True)
def scores(net: Net, theta: Any, memory: Memory, e: Any, f: Any, count: int) -> None:
    """Logits of some rows, once ``prepare`` is done."""
    for start in range(0, count, TILE):
        forward(net, theta, memory, e, f, start, min(TILE, count - start))


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def gradient(
    net: Net, theta: Any, memory: Memory, e: Any, f: Any, y: Any, weights: Any, vectors: bool, layers: bool,
    rows: bool, g: Any,
) -> Any:  # fmt: skip
    """The gradient of Σ weight · cross-entropy in some parts, and its value.

    Those of the vectors and layers are written to ``g``, which lies like θ; those of the rows over the rows.
    """
    prepare(net, theta, memory)
    value = F(0)
    for i in range(net.size):
        g[i] = F(0)
    for j in range(net.product):
        memory.sums[j] = F(0)
    for start in range(0, len(y), TILE):
        count = min(TILE, len(y) - start)
        forward(net, theta, memory, e, f, start, count)
        value += _slopes(memory.logits, y, weights, start, start + count, memory.slopes)
        _back(net, theta, memory, e, f, start, count, vectors, layers, rows, g)
    row = net.vector_stride
    for o in range(net.widths[0] if net.vector > 0 else 0):
        slope = g[net.biases[0] + o]
        for i in range(net.vector):
            g[spot(net.weights_v + o * row, i)] = slope * theta[i]
            g[i] += slope * theta[spot(net.weights_v + o * row, i)]
    for j in range(net.product):
        g[spot(net.output_times, j)] = memory.sums[j] * theta[spot(net.times, j)]
        g[spot(net.times, j)] = memory.sums[j] * theta[spot(net.output_times, j)]
    return value


@part(fastmath=STEADY, error_model="numpy")
def _back(
    net: Net, theta: Any, memory: Memory, e: Any, f: Any, start: int, count: int, vectors: bool, layers: bool,
    rows: bool, g: Any,
) -> None:  # fmt: skip
    """The way back through the layers of a tile, from the slopes r of its samples."""
    h, d, r, last = memory.hidden, memory.deltas, memory.slopes, len(net.widths) - 1
    none, output, lines = memory.zeros, net.widths[last], _padded(count)
    at, row = net.hidden[last], net.strides[last]
    if layers:
        add_rows(g, net.output, r, start, 1, h, at, row, _padded(output), count)
        add_rows(g, net.bias, r, start, 1, memory.one, 0, 0, LANES, count)
    if net.product > 0:
        line, width = start * net.product_stride, _padded(net.product)
        add_rows(memory.sums, 0, r, start, 1, f, line, net.product_stride, width, count)
        if rows:
            multiply(
                f, line, net.product_stride, none, 0, 0, r, start, 1, 1, memory.factors, 0, 0, lines, width, 1
            )
    multiply_where(d, at, row, none, 0, 0, r, start, 1, 1, theta, net.output, 0, lines, _padded(output), 1, h)
    for layer in range(last, -1, -1):
        width, before, at = net.widths[layer], _padded(net.inputs[layer]), net.hidden[layer]
        row, row_before, own = net.strides[layer], net.input_strides[layer], net.weights[layer]
        if layers or (vectors and layer == 0):
            add_rows(g, net.biases[layer], memory.one, 0, 0, d, at, row, _padded(width), count)
        source, origin = (e, start * row_before) if layer == 0 else (h, net.hidden[layer - 1])
        if layers:
            multiply(
                g, own, row_before, g, own, row_before, d, at, 1, row, source, origin, row_before,
                _padded(width), before, count,
            )  # fmt: skip
        if layer > 0:
            multiply_where(
                d, origin, row_before, none, 0, 0, d, at, row, 1, theta, own, row_before,
                lines, before, width, h,
            )  # fmt: skip
        elif rows:
            multiply(
                e, origin, row_before, none, 0, 0, d, at, row, 1, theta, own, row_before,
                lines, before, width,
            )  # fmt: skip


@part(fastmath=STEADY, error_model="numpy")
def sensitivity(net: Net, theta: Any, memory: Memory, e: Any, f: Any, samples: int) -> Any:
    """Σ_k ‖∂σ(x_k)/∂(e_k, f_k)‖² over some samples, whose rows are written over; ``prepare`` must be done."""
    total = F(0)
    for start in range(0, samples, TILE):
        count = min(TILE, samples - start)
        forward(net, theta, memory, e, f, start, count)
        _tangents(memory.logits, start, start + count, memory.slopes)
        _back(net, theta, memory, e, f, start, count, NO, NO, YES, memory.zeros)
        total += _squares(e, start * net.row_stride, (start + count) * net.row_stride)
        total += _squares(f, start * net.product_stride, (start + count) * net.product_stride)
    return total


@part(fastmath=STEADY, error_model="numpy")
def _tangents(logits: Any, start: int, end: int, r: Any) -> None:
    """r = σ'(x), which is even, and exact where x is negative."""
    for k in range(start, end):
        s, _ = sigmoid_softplus(-abs(logits[k]))
        r[k] = s * (F(1) - s)


@part(fastmath=FAST, error_model="numpy")
def _squares(x: Any, start: int, end: int) -> Any:
    total = F(0)
    for k in range(start, end):
        total += x[k] * x[k]
    return total


@part(fastmath=STEADY, error_model="numpy")
def _slopes(logits: Any, y: Any, weights: Any, start: int, end: int, r: Any) -> Any:
    """r = (σ(x) − y) · weight, and Σ weight · cross-entropy; the terms of the sum are left in place of the logits.

    A logit that is not finite makes the value NaN (x·y), by which a client is dropped.
    """
    x, labels, shares, slopes = logits[start:end], y[start:end], weights[start:end], r[start:end]
    for k in range(
        len(x)
    ):  # from 0: of any other start a compiler cannot tell that nothing counts from the end
        sigmoid, softplus = sigmoid_softplus(x[k])
        slopes[k] = (sigmoid - labels[k]) * shares[k]
        x[k] = shares[k] * (softplus - x[k] * labels[k])
    return steady_sum(x, 0, len(x))
