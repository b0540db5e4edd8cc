"""A shard of clients in one compiled call: sample, gather, train, add the row moves, rank.

Per client, its touched rows are gathered once into a compact buffer that stays in cache; local steps
work there; the moves are added to the shard's sums; candidates are scored while the rows are at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD
from fedrec.clients.kernels.ascending import ascending, make_bits
from fedrec.clients.kernels.clock import ticks
from fedrec.clients.kernels.mixing import Beside, Mixing, make_beside, put_back, receive
from fedrec.clients.kernels.steps import step
from fedrec.clients.kernels.steps_mixed import step_mixed, weigh
from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY, F
from fedrec.core.prefetch import AHEAD, prefetch
from fedrec.core.ragged import Ids
from fedrec.core.recency import fill_weights
from fedrec.core.rounding import Added, add_moves, largest
from fedrec.core.slots import Array
from fedrec.core.sums import dot, total_of
from fedrec.data.clients import Histories
from fedrec.data.negatives import fill_order, fill_samples, make_free, positive_of, sample_count
from fedrec.data.samples import choose_part

# Columns of a compiled plan: one line per phase.
PART, EPOCHS, LR_VECTOR, LR_ROWS, HALF_LIFE, FLOOR = range(6)
FULL = 2**30


class Streams(NamedTuple):
    """Keys of the random streams of a round."""

    negatives: np.uint64
    order: np.uint64
    support: np.uint64


class Rule(NamedTuple):
    """How a client trains."""

    plan: NDArray[np.float64]
    batch: int
    tolerance: float
    in_turn: bool
    radius_vector: np.float32
    radius_rows: np.float32


class Model(NamedTuple):
    """The item table, and what the clients of the shard bring; vectors and biases are trained in place."""

    table: Array
    vectors: Array
    biases: Array
    weights: Array


class Outcome(NamedTuple):
    """Filled in. ``sums`` of the rows' moves, or of these in whole numbers (both empty: they are kept one by one).
    ``lines`` are items to score afterwards with the client's own rows (empty: none).

    ``kept_*``: the client's touched items and its rows afterwards (empty: not kept).
    """

    sums: Array
    added: Added
    losses: Array
    finite: NDArray[np.bool_]
    lines: NDArray[np.int32]
    scores: Array
    kept_ptr: NDArray[np.int64]
    kept_items: NDArray[np.int32]
    kept_rows: Array
    spent: NDArray[np.int64]  # ticks of training and of ranking


class Scratch(NamedTuple):
    """Memory that the clients of a shard use one after another."""

    chosen: NDArray[np.int32]
    order: NDArray[np.int32]
    rows: NDArray[np.int32]
    y: Array
    by_age: Array  # what each positive counts, where that hangs on its age
    weights: Array
    x: Array
    r: Array
    terms: Array  # of the loss
    g: Array
    sums: Array


@part(fastmath=STEADY, error_model="numpy")
def train_client(
    table: Any, slots: Any, n: int, positives: int, per_positive: int, w: Any, b: Any, rule: Rule, streams: Streams,
    client: Any, scratch: Scratch, beside: Beside | None,
) -> Any:  # fmt: skip
    """All phases and epochs of one client's round, in the order the plain engine takes; returns its loss."""
    chosen, order, rows, y = scratch.chosen, scratch.order, scratch.rows, scratch.y
    by_age, weights = scratch.by_age, scratch.weights
    batch, tolerance = rule.batch, rule.tolerance
    loss, size = F(0), 0
    for number in range(len(rule.plan)):
        part, epochs = int(rule.plan[number, PART]), int(rule.plan[number, EPOCHS])
        lr_vector, lr_rows = F(rule.plan[number, LR_VECTOR]), F(rule.plan[number, LR_ROWS])
        size = choose_part(streams.support, client, positives, n, per_positive, part, chosen)
        half_life = rule.plan[number, HALF_LIFE]
        if half_life > 0:
            fill_weights(half_life, rule.plan[number, FLOOR], by_age[:positives])
        last = F(0)
        for epoch in range(epochs):
            fill_order(streams.order, client, 1000 * number + epoch, order[:size])
            for k in range(size):
                i = chosen[order[k]]
                rows[k] = slots[i]
                y[k] = F(1) if i < positives else F(0)
            if half_life > 0:
                for k in range(size):
                    weights[k] = by_age[positive_of(chosen[order[k]], positives, per_positive)]
            loss = F(0)
            for start in range(0, size, batch):
                end = min(start + batch, size)
                m = end - start
                if beside is None:
                    mine = weights[start:end] if half_life > 0 else weights[:0]
                    loss += step(
                        table, rows[start:end], y[start:end], mine, w, b, lr_vector, lr_rows, rule.in_turn,
                        rule.radius_vector, rule.radius_rows, scratch.x[:m], scratch.r[:m], scratch.terms[:m],
                        scratch.g, scratch.sums,
                    )  # fmt: skip
                else:
                    shown = number == len(rule.plan) - 1 and epoch == epochs - 1
                    loss += step_mixed(
                        table, rows[start:end], y[start:end], w, b, lr_vector, lr_rows, rule.in_turn,
                        shown or tolerance > 0, beside, scratch.x[:m], scratch.r[:m], scratch.terms[:m], scratch.g,
                    )  # fmt: skip
            loss = loss / F(max(size, 1))
            if tolerance > 0:
                if epoch > 0 and not abs(last - loss) > F(tolerance) * abs(last):
                    break
                last = loss
    if beside is not None:
        weigh(table, rows[:size], w, b, batch, beside, scratch.x)
    return loss


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def train_shard(
    histories: Histories, users: Ids, streams: Streams, model: Model, rule: Rule, out: Outcome,
    mixing: Mixing | None = None,
) -> int:  # fmt: skip
    """Trains some clients; returns how many rows were sent.

    What is done where rows are mixed is compiled for those methods alone: numba leaves out what hangs on None.
    """
    n_items, dim = model.table.shape
    items_table, vectors, biases, sums, lines = model.table, model.vectors, model.biases, out.sums, out.lines
    per_positive, indptr = histories.per_positive, histories.train_ptr
    most: Any = np.int64(0)  # a plain 0 has a type of its own, and compiles its callees anew
    nothing = np.int64(0)
    for u in users:
        most = max(most, (indptr[u + 1] - indptr[u]) * (1 + per_positive))
    free, bits = make_free(n_items), make_bits(n_items)
    place = np.full(n_items, -1, np.int32)  # where a row of this client lies, counted from all rows before it
    base = np.int64(0)
    items, slots = np.empty(most, np.int32), np.empty(most, np.int32)
    touched = np.empty(most + 1, np.int32)
    table, w, b = np.empty((most, dim), F), np.empty(dim, F), np.empty(1, F)
    scratch = Scratch(
        np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, F),
        np.empty(most, F), np.empty(most, F), np.empty(min(rule.batch, most), F),
        np.empty(min(rule.batch, most), F), np.empty(min(rule.batch, most), F), np.empty(dim, F), np.zeros(most, F),
    )  # fmt: skip
    steps, words = out.added.steps, out.added.words
    reach = largest(items_table) if len(words) else F(0)
    beside: Any = None
    if mixing is not None:
        beside = make_beside(mixing, most, min(rule.batch, most), dim, nothing, dim, nothing)
    sent = 0
    for c in range(len(users)):
        begin = ticks()
        u = users[c]
        key = histories.keys[u]
        positives = histories.train[indptr[u] : indptr[u + 1]]
        forbidden = histories.not_items[histories.not_ptr[u] : histories.not_ptr[u + 1]]
        n = sample_count(len(positives), len(forbidden), n_items, per_positive)
        fill_samples(streams.negatives, key, positives, forbidden, n_items, free, items[:n])
        rows = 0
        for i in range(n):  # number the distinct items as they come, without a branch
            item = items[i]
            prefetch(items_table, item)
            at = place[item] - base
            new = at < 0
            at = rows if new else at
            place[item] = base + at
            touched[rows] = item
            rows += new
            slots[i] = at
        for row in range(rows):
            item = touched[row]
            for j in range(dim):
                table[row, j] = items_table[item, j]
        if mixing is not None:
            receive(mixing.e, u, place, base, table[:rows], beside.e, mixing.carry)
        for j in range(
            dim
        ):  # an array set from an array compiles for seconds: its error message is made of strings
            w[j] = vectors[c, j]
        b[0] = biases[c]
        loss = train_client(
            table, slots, n, len(positives), per_positive, w, b, rule, streams, key, scratch, beside
        )
        out.losses[c] = loss
        check = loss + b[0] + total_of(w) + total_of(table[:rows].reshape(-1))
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        out.finite[c] = abs(check) < F(np.inf) and abs(loss) < F(WILD)
        if out.finite[c]:
            for j in range(dim):
                vectors[c, j] = w[j]
            biases[c] = b[0]
            weight = model.weights[c]
            for row in range(rows if len(sums) else 0):
                item = touched[row]
                prefetch(sums, touched[min(row + AHEAD, rows - 1)])
                for j in range(dim):
                    sums[item, j] += weight * (table[row, j] - items_table[item, j])
            if mixing is not None:
                mixing.weights[c] = beside.a[0]
            if len(words):
                moved = add_moves(words, touched[:rows], table[:rows], items_table, reach, weight, steps)
                out.added.fits[c] = moved
            sent += rows if len(words) == 0 or out.added.fits[c] else 0
        else:  # dropped: the device is as before the round
            for j in range(dim):
                w[j] = vectors[c, j]
            b[0] = biases[c]
            for row in range(rows):
                for j in range(dim):
                    table[row, j] = items_table[touched[row], j]
            if mixing is not None:
                put_back(mixing.e, u, place, base, table[:rows])
        trained = ticks()
        if len(lines):
            for k in range(lines.shape[1]):
                item = max(lines[c, k], 0)
                at = place[item] - base
                out.scores[c, k] = b[0] + (dot(table[at], w) if at >= 0 else dot(items_table[item], w))
        if len(out.kept_ptr):
            start = out.kept_ptr[c]
            out.kept_ptr[c + 1] = start + rows
            ascending(touched[:rows], bits, out.kept_items[start : start + rows])
            for k in range(start, start + rows):
                row = place[out.kept_items[k]] - base
                for j in range(dim):
                    out.kept_rows[k, j] = table[row, j]
        base += rows
        if base > FULL:  # numbers run out: start again
            place[:] = -1
            base = np.int64(0)
        out.spent[0] += trained - begin
        out.spent[1] += ticks() - trained
    return sent
