"""FedRAP's clients in compiled code: item rows that are the sum of a common and a personal part.

Samples of one row move it together, so that a client that fits into a batch needs no shuffling: its
epochs pass over distinct rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD
from fedrec.clients.kernels.ascending import ascending, make_bits
from fedrec.clients.kernels.kept import Kept, lay_over
from fedrec.clients.kernels.steps_additive import step
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F
from fedrec.core.prefetch import AHEAD, prefetch
from fedrec.core.ragged import Ids
from fedrec.core.recency import fill_weights
from fedrec.core.rounding import Added, add_moves, largest
from fedrec.core.slots import Array
from fedrec.data.clients import Histories
from fedrec.data.negatives import fill_order, fill_samples, make_free, positive_of, sample_count

FULL = 2**30  # places of rows are counted up to here


class Numbers(NamedTuple):
    """What a round asks of its clients; a rate of 0 leaves that part alone."""

    lr_vector: float
    lr_common: float
    lr_personal: float
    step_decay: float
    weight_decay: float
    lam: float
    l1: float
    l2: float
    prox: float
    batch: int
    epochs: int
    tolerance: float
    half_life: float  # of a positive's weight; 0: all count alike
    floor: float


class Model(NamedTuple):
    """Tables, and what the clients of the shard bring; vectors and biases are trained in place.

    ``common`` and ``untouched`` (the personal rows before a client first touches them) may be empty: that
    part is then left out.
    """

    common: Array
    untouched: Array
    vectors: Array
    biases: Array


class Outcome(NamedTuple):
    """Filled in. ``sums`` of the moves, or of these in whole numbers (both empty: they are kept one by one).

    ``kept_*``: touched items with personal rows and moves afterwards (or empty).
    """

    sums: Array
    added: Added
    losses: Array
    finite: NDArray[np.bool_]
    kept_ptr: NDArray[np.int64]
    kept_items: NDArray[np.int32]
    kept_rows: Array
    kept_moves: Array


class Scratch(NamedTuple):
    """Memory that the clients of a shard use one after another; ``where`` is -1 before and after."""

    order: NDArray[np.int32]
    rows: NDArray[np.int32]
    met: Array
    positive: Array
    more_met: Array  # what the weights of samples add to both
    more_positive: Array
    by_age: Array
    where: NDArray[np.int32]
    x: Array
    s: Array
    residual: Array
    terms: Array  # of the loss
    g: Array


@part(fastmath=STEADY, error_model="numpy")
def train_client(
    c: Any, d: Any, count: int, slots: Any, n: int, positives: int, per_positive: int, w: Any, b: Any, numbers: Numbers,
    order_key: Any, client: Any, scratch: Scratch,
) -> Any:  # fmt: skip
    """All epochs of one client's round, in the order the plain engine takes; returns its last loss."""
    order, rows, met, positive, where = (
        scratch.order,
        scratch.rows,
        scratch.met,
        scratch.positive,
        scratch.where,
    )
    by_age, weighted = scratch.by_age, numbers.half_life > 0
    more_met, more_positive = scratch.more_met, scratch.more_positive
    if weighted:
        fill_weights(numbers.half_life, numbers.floor, by_age[:positives])
    loss = last = F(0)
    fade = 1.0
    for epoch in range(numbers.epochs):
        whole = n <= numbers.batch
        if not whole:
            fill_order(order_key, client, epoch, order[:n])
        loss = F(0)
        for start in range(0, n, numbers.batch):
            end = min(start + numbers.batch, n)
            if not whole or epoch == 0:  # which rows, and how often each
                distinct = 0
                for at in range(start, end):
                    i = at if whole else order[at]
                    k = where[slots[i]]
                    if k < 0:
                        k = distinct
                        where[slots[i]] = k
                        rows[k], met[k], positive[k] = slots[i], F(0), F(0)
                        more_met[k], more_positive[k] = F(0), F(0)
                        distinct += 1
                    met[k] += F(1)
                    positive[k] += F(1) if i < positives else F(0)
                    if weighted:
                        more = by_age[positive_of(i, positives, per_positive)] - F(1)
                        more_met[k] += more
                        more_positive[k] += more if i < positives else F(0)
                if numbers.weight_decay > 0 and not whole:
                    _decay_others(c, d, count, where, numbers, fade)
                for k in range(distinct):
                    where[rows[k]] = -1
            value = step(
                c, d, rows[:distinct], met, positive, more_met, more_positive, end - start, w, b, numbers, fade,
                scratch.x, scratch.s, scratch.residual, scratch.terms, scratch.g,
            )  # fmt: skip
            loss += value * F(end - start)
            fade *= numbers.step_decay
        loss = loss / F(max(n, 1))
        if numbers.tolerance > 0:
            if epoch > 0 and not abs(last - loss) > F(numbers.tolerance) * abs(last):
                break
            last = loss
    return loss


@part(fastmath=STEADY, error_model="numpy")
def _decay_others(c: Any, d: Any, count: int, where: Any, numbers: Any, fade: float) -> None:
    """Weight decay of the client's rows that are not in the batch."""
    of_c = F(1 - numbers.lr_common * fade * numbers.weight_decay)
    of_d = F(1 - numbers.lr_personal * fade * numbers.weight_decay)
    for row in range(count):
        if where[row] < 0:
            for j in range(c.shape[1]):
                c[row, j] *= of_c
                d[row, j] *= of_d


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def train_additive(
    histories: Histories, users: Ids, neg_key: np.uint64, order_key: np.uint64, model: Model, kept: Kept,
    numbers: Numbers, out: Outcome,
) -> int:  # fmt: skip
    """A shard of clients; returns how many rows were sent."""
    common, untouched, vectors, biases = model.common, model.untouched, model.vectors, model.biases
    indptr, n_items, dim = histories.train_ptr, histories.n_items, model.vectors.shape[1]
    most = 1
    for u in users:
        most = max(most, (indptr[u + 1] - indptr[u]) * (1 + histories.per_positive))
    free, bits, place = make_free(n_items), make_bits(n_items), np.full(n_items, -1, np.int32)
    items, slots, touched = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most + 1, np.int32)
    c, d = np.zeros((most, dim), F), np.zeros((most, dim), F)
    w, b = np.empty(dim, F), np.empty(1, F)
    far = np.int64(64)  # g is not close to w: compiled code would add up its loss in another order there
    scratch = Scratch(
        np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, F), np.empty(most, F),
        np.empty(most, F), np.empty(most, F), np.empty(most, F), np.full(most, -1, np.int32), np.empty(most, F),
        np.empty(most, F), np.empty(most, F), np.empty(most, F), np.empty(far + dim, F)[far:],
    )  # fmt: skip
    words = out.added.words
    reach = largest(common) if len(words) else F(0)
    sent = 0
    base = np.int64(0)  # a plain 0 has a type of its own, and compiles its callees anew
    for at in range(len(users)):
        u = users[at]
        key = histories.keys[u]
        positives = histories.train[indptr[u] : indptr[u + 1]]
        forbidden = histories.not_items[histories.not_ptr[u] : histories.not_ptr[u + 1]]
        n = sample_count(len(positives), len(forbidden), n_items, histories.per_positive)
        fill_samples(neg_key, key, positives, forbidden, n_items, free, items[:n])
        count = np.int64(0)
        for i in range(n):  # number the distinct items as they come
            item = items[i]
            if len(common):
                prefetch(common, item)
            slot = place[item] - base
            new = slot < 0
            slot = count if new else slot
            place[item] = base + slot
            touched[count] = item
            count += new
            slots[i] = slot
        if len(common):
            for row in range(count):
                item = touched[row]
                for j in range(dim):
                    c[row, j] = common[item, j]
        if len(untouched):
            for row in range(count):
                item = touched[row]
                for j in range(dim):
                    d[row, j] = untouched[item, j]
            lay_over(kept, u, place, base, d)
        for j in range(dim):
            w[j] = vectors[at, j]
        b[0] = biases[at]
        loss = train_client(
            c, d, count, slots, n, len(positives), histories.per_positive, w, b, numbers, order_key, key, scratch
        )  # fmt: skip
        out.losses[at] = loss
        out.finite[at] = _is_finite(loss, w, b, c[:count], d[:count])
        if out.finite[at]:
            for j in range(dim):
                vectors[at, j] = w[j]
            biases[at] = b[0]
            if len(common):
                if len(words):
                    sent += _send_whole(
                        c[:count], touched[:count], common, F(numbers.prox), reach, out.added, at
                    )
                else:
                    sent += _send(c[:count], touched, common, F(numbers.prox), out.sums)
        if len(out.kept_ptr):
            start = out.kept_ptr[at]
            out.kept_ptr[at + 1] = start + count
            ascending(touched[:count], bits, out.kept_items[start : start + count])
            for k in range(start, start + count):
                item = out.kept_items[k]
                row = place[item] - base
                if len(out.kept_rows):
                    for j in range(dim):
                        out.kept_rows[k, j] = d[row, j]
                if len(out.kept_moves):
                    for j in range(dim):
                        out.kept_moves[k, j] = c[row, j] - common[item, j]
        base += count
        if base > FULL:  # numbers run out: start again
            place[:] = -1
            base = np.int64(0)
    return sent


@part()
def _is_finite(loss: Any, w: Any, b: Any, c: Any, d: Any) -> bool:
    # np.isfinite asks whether x − x is a number, which fastmath may fold to 0.
    return bool(abs(loss + b[0] + _total(w, c, d)) < F(np.inf) and abs(loss) < F(WILD))


@part(fastmath=FAST)
def _total(w: Any, c: Any, d: Any) -> Any:
    total = F(0)
    for j in range(len(w)):
        total += w[j]
    for row in range(len(c)):
        for j in range(len(w)):
            total += c[row, j] + d[row, j]
    return total


@part()
def _send(c: Any, touched: Any, common: Any, prox: Any, sums: Any) -> int:
    """Add the client's moves to the sums. With a threshold, rows that it leaves unmoved are not sent."""
    sent = 0
    for row in range(len(c)):
        item = touched[row]
        prefetch(sums, touched[min(row + AHEAD, len(c) - 1)])
        if prox > 0 and not _shrink(c[row], common[item], prox):
            continue
        sent += 1
        for j in range(c.shape[1]):
            sums[item, j] += c[row, j] - common[item, j]
    return sent


@part()
def _send_whole(c: Any, touched: Any, common: Any, prox: Any, reach: Any, added: Added, at: int) -> int:
    """The same in whole numbers."""
    sent = len(c)
    for row in range(len(c) if prox > 0 else 0):
        sent -= not _shrink(c[row], common[touched[row]], prox)
    added.fits[at] = add_moves(added.words, touched, c, common, reach, F(1), added.steps)
    return sent if added.fits[at] else 0


@part()
def _shrink(row: Any, before: Any, prox: Any) -> bool:
    """Take the threshold off a row: whether it moved."""
    moved = False
    for j in range(len(row)):
        size = max(abs(row[j]) - prox, F(0))
        row[j] = size if row[j] > 0 else -size
        moved |= row[j] != before[j]
    return moved


@nb.njit(cache=True, nogil=True)
def add_personal(own_ptr: Any, own_items: Any, own_rows: Any, untouched: Any, vectors: Any, out: Any) -> None:
    """Scores of the whole catalogue: replace the untouched personal part by the client's own."""
    for c in range(len(vectors)):
        for at in range(own_ptr[c], own_ptr[c + 1]):
            total = F(0)
            for j in range(vectors.shape[1]):
                total += (own_rows[at, j] - untouched[own_items[at], j]) * vectors[c, j]
            out[c, own_items[at]] += total
