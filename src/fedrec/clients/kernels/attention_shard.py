"""A shard of FedPerGNN's clients in one compiled call: sample, gather, the layer and its gradient, one step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD
from fedrec.clients.kernels.attention_step import (
    Layer,
    add,
    dot,
    make_heard,
    propagate,
    pull_back,
    total_of,
)
from fedrec.clients.kernels.distinct import FAR_APART, draw_rows, make_drawn
from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY, F, sigmoid_softplus
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array
from fedrec.data.clients import Histories


class Model(NamedTuple):
    """The item table, the layer, what clients were given, and what they bring, trained in place."""

    table: Array
    layer: Layer
    nearby: Array
    links: Array
    users: Array
    biases: Array
    met_ptr: NDArray[np.int64]  # their items, sorted and distinct
    met: NDArray[np.int32]


class Outcome(NamedTuple):
    """Filled in: minus the gradients of touched rows and of the layer, and the users after the layer."""

    losses: Array
    finite: NDArray[np.bool_]
    ptr: NDArray[np.int64]
    items: NDArray[np.int32]
    rows: Array
    weight: Array
    ask: Array
    answer: Array
    vectors: Array


@part(fastmath=STEADY, error_model="numpy")
def _slopes(
    rows: Any, met: Any, positive: Any, n: int, vector: Any, bias: Any, x: Any, s: Any, r: Any, dv: Any
) -> Any:
    """r_i = Σ over the samples of a row of (σ(x_i) − y)/n, ∂v = Σ r_i e_i; returns the loss and Σ r_i."""
    scale = F(1) / F(max(n, 1))
    for i in range(len(rows)):
        x[i] = dot(rows[i], vector) + bias
    for i in range(len(rows)):
        sigmoid, softplus = sigmoid_softplus(x[i])
        s[i] = softplus
        r[i] = (sigmoid * met[i] - positive[i]) * scale
    dv[:] = F(0)
    for i in range(len(rows)):
        add(dv, r[i], rows[i])
    return (dot(s, met) - dot(x, positive)) * scale, total_of(r)


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def train_shard(
    histories: Histories,
    users: Ids,
    negatives: np.uint64,
    model: Model,
    rate: float,
    shares: bool,
    out: Outcome,
) -> None:
    """Trains some clients: all samples at once. ``shares``: rows and layer have a gradient too."""
    dim, drawn = model.table.shape[1], make_drawn(histories, users)
    met, positive, most = drawn.met, drawn.positive, len(drawn.items)
    own, apart = np.empty(most, np.int32), most + FAR_APART
    x, s, r = np.empty(apart, F), np.empty(apart, F), np.empty(apart, F)
    rows, d_rows = np.empty((most, dim), F), np.empty((most, dim), F)
    longest = np.int64(1)
    for c in range(len(users)):
        longest = max(longest, model.met_ptr[c + 1] - model.met_ptr[c])
    heard = make_heard(longest, model.nearby.shape[1], dim)
    layer = Layer(np.empty((dim, dim), F), np.empty(dim, F), np.empty(dim, F))  # gradient, then moved
    d_user, dv = np.empty(dim, F), np.empty(dim, F)
    for c in range(len(users)):
        touched, n = draw_rows(histories, users[c], negatives, drawn)
        held, start = len(touched), out.ptr[c]
        out.ptr[c + 1] = start + held
        for i in range(held):
            out.items[start + i] = touched[i]
            for j in range(dim):
                rows[i, j] = model.table[touched[i], j]
        known = model.met[model.met_ptr[c] : model.met_ptr[c + 1]]
        for o in range(len(known)):
            own[o] = drawn.place[known[o]]
        mine, nearby, links, user = own[: len(known)], model.nearby[c], model.links[c], model.users[c]
        propagate(model.layer, user, rows, mine, nearby, links, heard)
        bias = model.biases[c]
        loss, of_bias = _slopes(
            rows[:held], met[:held], positive[:held], n, heard.vector, bias, x[:held], s[:held], r[:held], dv
        )
        for i in range(held):
            for j in range(dim):
                d_rows[i, j] = r[i] * heard.vector[j]
        pull_back(model.layer, user, rows, mine, nearby, dv, heard, layer, d_user, d_rows)
        out.losses[c] = loss
        check = loss + total_of(d_rows[:held].reshape(-1)) + total_of(layer.weight.reshape(-1))
        check += total_of(layer.ask) + total_of(layer.answer) + total_of(d_user)
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        out.finite[c] = abs(check) < F(np.inf) and abs(loss) < F(WILD)
        if not out.finite[c]:  # dropped: the device is as before the round
            continue
        add(user, -F(rate), d_user)
        model.biases[c] = bias - F(rate) * of_bias
        if shares:
            for i in range(held):
                for j in range(dim):
                    out.rows[start + i, j] = -d_rows[i, j]
                    rows[i, j] -= d_rows[i, j]
            for i in range(dim):
                out.ask[c, i], out.answer[c, i] = -layer.ask[i], -layer.answer[i]
                layer.ask[i], layer.answer[i] = (
                    model.layer.ask[i] - layer.ask[i],
                    model.layer.answer[i] - layer.answer[i],
                )
                for j in range(dim):
                    out.weight[c, i, j] = -layer.weight[i, j]
                    layer.weight[i, j] = model.layer.weight[i, j] - layer.weight[i, j]
            propagate(layer, user, rows, mine, nearby, links, heard)
        else:
            propagate(model.layer, user, rows, mine, nearby, links, heard)
        for j in range(dim):
            out.vectors[c, j] = heard.vector[j]


@nb.njit(cache=True, nogil=True)
def vectors_of(model: Model, out: Any) -> None:
    """The users after the layer, on their items as they are in the table."""
    dim, longest = model.table.shape[1], np.int64(1)
    for c in range(len(out)):
        longest = max(longest, model.met_ptr[c + 1] - model.met_ptr[c])
    heard, rows = make_heard(longest, model.nearby.shape[1], dim), np.empty((longest, dim), F)
    own = np.arange(longest).astype(np.int32)
    for c in range(len(out)):
        known = model.met[model.met_ptr[c] : model.met_ptr[c + 1]]
        for o in range(len(known)):
            rows[o] = model.table[known[o]]
        propagate(
            model.layer, model.users[c], rows, own[: len(known)], model.nearby[c], model.links[c], heard
        )
        out[c] = heard.vector
