"""A shard of autoencoders in one compiled call (FedAE, FedDAE): sample, encode, the loss and its gradient.

With x_i = D_i·h + a_i for the rows of a client, s_i of whose samples are positives and o_i others, n positives and m
others in all:

    w_i = s_i + o_i·(M − n)/m,   Z = Σ w_i e^{x_i},   loss = Σ s_i (log Z − x_i),   r_i = n w_i e^{x_i}/Z − s_i,

with r_i the slope of the loss in x_i. So ∂D_i = r_i h, ∂a_i = r_i, ∂h = Σ r_i D_i; behind tanh, ∂h (1 − h²) is the
gradient of the offset, and 1/√k of it that of each of the k rows that were encoded. Rows that were not encoded are not
looked at: one that is not finite drops no client here, as nothing of it is sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD
from fedrec.clients.kernels.attention_step import add
from fedrec.clients.kernels.distinct import FAR_APART, draw_rows, make_drawn
from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY, F, exp_negative
from fedrec.core.prefetch import AHEAD, prefetch
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array
from fedrec.core.sums import dot, total_of
from fedrec.data.clients import Histories
from fedrec.data.samples import choose_part


class Model(NamedTuple):
    """What clients are told, and what they bring (without rows of their own: empty), trained in place."""

    encoder: Array
    decoder: Array
    appeal: Array
    offset: Array
    met_ptr: NDArray[np.int64]  # the clients' items, sorted and distinct
    met: NDArray[np.int32]
    own: Array  # rows of a second encoder, of these items
    own_offsets: Array
    gates: Array
    weights: Array


class Outcome(NamedTuple):
    """Filled in: minus the gradients, added up, each times its client's weight, or one by one (the other is empty)."""

    losses: Array
    finite: NDArray[np.bool_]
    codes: Array
    encoder: Array
    decoder: Array
    appeal: Array
    offset: Array
    ptr: NDArray[np.int64]  # one by one: of rows
    items: NDArray[np.int32]
    encoder_rows: Array
    decoder_rows: Array
    appeals: Array
    offsets: Array


class Scratch(NamedTuple):
    """Memory that the clients of a shard use one after another."""

    half: Array  # 1 where a row is encoded
    x: Array
    r: Array
    terms: Array
    first: Array  # what goes into tanh, of the shared encoder and of the own
    second: Array
    h: Array  # and what comes out
    h_own: Array
    code: Array
    d_code: Array
    d_first: Array
    d_second: Array


@part()
def make_scratch(most: int, hidden: int) -> Scratch:
    rows, width = most + FAR_APART, hidden + FAR_APART
    return Scratch(
        np.zeros(rows, F), np.empty(rows, F), np.empty(rows, F), np.empty(rows, F),
        np.empty(width, F)[:hidden], np.empty(width, F)[:hidden], np.empty(width, F)[:hidden],
        np.empty(width, F)[:hidden], np.empty(width, F)[:hidden], np.empty(width, F)[:hidden],
        np.empty(width, F)[:hidden], np.empty(width, F)[:hidden],
    )  # fmt: skip


@part(fastmath=STEADY, error_model="numpy")
def finish(total: Any, offset: Any, count: Any, h: Any) -> None:
    """From the sum of rows to what goes into tanh, in place, and what comes out of it."""
    share = F(1) / np.sqrt(max(count, F(1)))
    for j in range(len(total)):
        total[j] = total[j] * share + offset[j]
    for j in range(len(total)):
        h[j] = np.tanh(total[j])


@part(fastmath=STEADY, error_model="numpy")
def between(h: Any, h_own: Any, share: Any, code: Any) -> None:
    """The code: so much of the way from what the shared encoder says to what the own one does."""
    for j in range(len(code)):
        code[j] = h[j] + share * (h_own[j] - h[j])


@part()
def share_of(gate: Any) -> Any:
    """σ(gate)."""
    return F(1) / (F(1) + np.exp(-gate))


@part(fastmath=STEADY, error_model="numpy")
def slopes(
    model: Model, touched: Any, met: Any, positive: Any, n: int, positives: int, n_items: int, s: Scratch
) -> Any:
    """r_i, ∂code = Σ r_i D_i, and the loss."""
    many = F(max(positives, 1))
    stands_for = max(F(n_items) - many, F(1)) / F(max(n - positives, 1))
    held, top = len(touched), -F(np.inf)
    for i in range(held):
        prefetch(model.decoder, touched[min(i + AHEAD, held - 1)])
        s.x[i] = dot(model.decoder[touched[i]], s.code) + model.appeal[touched[i]]
        top = max(top, s.x[i])
    for i in range(held):
        weight = positive[i] + (met[i] - positive[i]) * stands_for
        s.terms[i] = weight * exp_negative(s.x[i] - top)
    z = total_of(s.terms[:held])
    log_z = top + np.log(z)
    scale = many / z
    for i in range(held):
        s.r[i] = s.terms[i] * scale - positive[i]
    for i in range(held):
        s.terms[i] = positive[i] * (log_z - s.x[i])
    s.d_code[:] = F(0)
    for i in range(held):
        prefetch(model.decoder, touched[min(i + AHEAD, held - 1)])
        add(s.d_code, s.r[i], model.decoder[touched[i]])
    return total_of(s.terms[:held])


@part(fastmath=STEADY, error_model="numpy")
def behind_tanh(d_code: Any, share: Any, h: Any, out: Any) -> None:
    """The gradient in what goes into tanh, of an encoder that has such a share of the code."""
    for j in range(len(out)):
        out[j] = share * d_code[j] * (F(1) - h[j] * h[j])


@part(fastmath=STEADY, error_model="numpy")
def after_step(total: Any, slope: Any, rate: Any, count: Any, h: Any) -> None:
    """What comes out of tanh once rows and offset have made a step: each of ``count`` rows moved by 1/√count of it."""
    moved = rate * (count / max(count, F(1)) + F(1))
    for j in range(len(total)):
        h[j] = np.tanh(total[j] - moved * slope[j])


@part(fastmath=STEADY, error_model="numpy")
def set_times(out: Any, factor: Any, line: Any) -> None:
    """out = factor · line."""
    for j in range(len(out)):
        out[j] = factor * line[j]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def train_shard(
    histories: Histories, users: Ids, negatives: np.uint64, support: np.uint64, model: Model, shares: bool,
    rate: float, out: Outcome,
) -> int:  # fmt: skip
    """Trains some clients; returns how many rows were sent. ``shares``: what all share has a gradient.

    ``rate``: of the device's own encoder; at 0 it stays as it is.
    """
    hidden, n_items, lr = model.encoder.shape[1], histories.n_items, F(rate)
    drawn, has_own, single = make_drawn(histories, users), len(model.gates) > 0, len(out.ptr) > 0
    s = make_scratch(len(drawn.items), hidden)
    chosen = np.empty(len(drawn.items), np.int32)
    sent = 0
    for c in range(len(users)):
        u = users[c]
        touched, n = draw_rows(histories, u, negatives, drawn)
        held, first = len(touched), histories.train_ptr[u]
        positives = histories.train_ptr[u + 1] - first
        for i in range(held):
            s.half[i] = F(0)
        size = choose_part(
            support, histories.keys[u], positives, positives, histories.per_positive, 1, chosen
        )
        for k in range(size):  # of the positives alone
            s.half[drawn.place[histories.train[first + chosen[k]]]] = F(1)
        begin, end = model.met_ptr[c], model.met_ptr[c + 1]
        s.first[:] = F(0)
        s.second[:] = F(0)
        count = F(0)
        for o in range(begin, end):
            if s.half[drawn.place[model.met[o]]] > F(0):
                count += F(1)
                add(s.first, F(1), model.encoder[model.met[o]])
                if has_own:
                    add(s.second, F(1), model.own[o])
        finish(s.first, model.offset, count, s.h)
        share, gate = F(0), F(0)
        if has_own:
            finish(s.second, model.own_offsets[c], count, s.h_own)
            gate = model.gates[c]
            share = share_of(gate)
            between(s.h, s.h_own, share, s.code)
        else:
            set_times(s.code, F(1), s.h)
        loss = slopes(model, touched, drawn.met[:held], drawn.positive[:held], n, positives, n_items, s)
        behind_tanh(s.d_code, F(1) - share, s.h, s.d_first)
        of_gate = F(0)
        if has_own:
            behind_tanh(s.d_code, share, s.h_own, s.d_second)
            of_gate = (dot(s.d_code, s.h_own) - dot(s.d_code, s.h)) * share * (F(1) - share)
        out.losses[c] = loss / F(max(positives, 1))
        check = loss + total_of(s.r[:held]) * total_of(s.code) + total_of(s.d_first) + of_gate
        check += total_of(s.first)  # before tanh, which makes 1 of infinity
        if has_own:
            check += total_of(s.d_second) + total_of(s.second)
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        out.finite[c] = abs(check) < F(np.inf) and abs(out.losses[c]) < F(WILD)
        if single:
            out.ptr[c + 1] = out.ptr[c] + held
            for i in range(held):
                out.items[out.ptr[c] + i] = touched[i]
        if not out.finite[c]:  # dropped: the device is as before the round
            continue
        sent += held
        each = F(1) / np.sqrt(max(count, F(1)))  # of the gradient behind tanh, for a row that was encoded
        if shares and single:
            start = out.ptr[c]
            for i in range(held):
                set_times(out.decoder_rows[start + i], -s.r[i], s.code)
                set_times(out.encoder_rows[start + i], -each * s.half[i], s.d_first)
                out.appeals[start + i] = -s.r[i]
            set_times(out.offsets[c], F(-1), s.d_first)
        elif shares:
            weight = model.weights[c]
            for i in range(held):
                prefetch(out.decoder, touched[min(i + AHEAD, held - 1)])
                add(out.decoder[touched[i]], -weight * s.r[i], s.code)
                out.appeal[touched[i]] -= weight * s.r[i]
            for o in range(begin, end):
                if s.half[drawn.place[model.met[o]]] > F(0):
                    add(out.encoder[model.met[o]], -weight * each, s.d_first)
            add(out.offset, -weight, s.d_first)
        if has_own and lr > F(0):
            for o in range(begin, end):
                if s.half[drawn.place[model.met[o]]] > F(0):
                    add(model.own[o], -lr * each, s.d_second)
            add(model.own_offsets[c], -lr, s.d_second)
            gate -= lr * of_gate
            model.gates[c] = gate
        after_step(s.first, s.d_first, F(1) if shares else F(0), count, s.h)
        if has_own:
            after_step(s.second, s.d_second, lr, count, s.h_own)
            between(s.h, s.h_own, share_of(gate), s.code)
        else:
            set_times(s.code, F(1), s.h)
        for j in range(hidden):
            out.codes[c, j] = s.code[j]
    return sent


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def codes_of(model: Model, out: Any) -> None:
    """What devices rank with: all that they met is encoded."""
    hidden, has_own = model.encoder.shape[1], len(model.gates) > 0
    s = make_scratch(np.int64(1), hidden)
    for c in range(len(out)):
        s.first[:] = F(0)
        s.second[:] = F(0)
        begin, end = model.met_ptr[c], model.met_ptr[c + 1]
        for o in range(begin, end):
            add(s.first, F(1), model.encoder[model.met[o]])
            if has_own:
                add(s.second, F(1), model.own[o])
        finish(s.first, model.offset, F(end - begin), s.h)
        if has_own:
            finish(s.second, model.own_offsets[c], F(end - begin), s.h_own)
            between(s.h, s.h_own, share_of(model.gates[c]), s.code)
        else:
            set_times(s.code, F(1), s.h)
        for j in range(hidden):
            out[c, j] = s.code[j]


@nb.njit(cache=True, nogil=True)
def own_of_met(table: Any, met_ptr: Any, met: Any, kept_ptr: Any, kept: Any, rows: Any, out: Any) -> None:
    """Own rows of what clients met: those that they keep, the others as they begin; both by ascending item."""
    for c in range(len(met_ptr) - 1):
        at, end = kept_ptr[c], kept_ptr[c + 1]
        for o in range(met_ptr[c], met_ptr[c + 1]):
            while at < end and kept[at] < met[o]:
                at += 1
            there = at < end and kept[at] == met[o]
            for j in range(table.shape[1]):
                out[o, j] = rows[at, j] if there else table[met[o], j]
