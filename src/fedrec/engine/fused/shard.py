"""A shard of clients in one compiled call: sample, gather, train, add the row moves, rank.

Per client, its touched rows are gathered once into a compact buffer that stays in cache; local steps
work there; the moves are added to the shard's sums; candidates are scored while the rows are at hand.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.data.negatives import fill_order, fill_samples, sample_count
from fedrec.engine.fused.clock import ticks
from fedrec.engine.fused.prefetch import AHEAD, prefetch
from fedrec.engine.fused.steps import FAST, F, step
from fedrec.engine.interface import WILD
from fedrec.engine.samples import choose_part

# Columns of a compiled plan: one line per phase.
PART, EPOCHS, LR_VECTOR, LR_ROWS = range(4)
FULL = 2**30


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_client(
    table: Any, slots: Any, n: int, positives: int, per_positive: int, w: Any, b: Any, plan: Any, batch: int,
    tolerance: float, in_turn: bool, radius_vector: Any, radius_rows: Any, order_key: Any, part_key: Any, client: Any,
    chosen: Any, order: Any, rows: Any, y: Any, x: Any, r: Any, g: Any, sums: Any,
) -> Any:  # fmt: skip
    """All phases and epochs of one client's round, in the order the plain engine takes; returns its loss."""
    loss = F(0)
    for number in range(len(plan)):
        part, epochs = int(plan[number, PART]), int(plan[number, EPOCHS])
        lr_vector, lr_rows = F(plan[number, LR_VECTOR]), F(plan[number, LR_ROWS])
        size = choose_part(part_key, client, positives, n, per_positive, part, chosen)
        last = F(0)
        for epoch in range(epochs):
            fill_order(order_key, client, 1000 * number + epoch, order[:size])
            for k in range(size):
                i = chosen[order[k]]
                rows[k] = slots[i]
                y[k] = F(1) if i < positives else F(0)
            loss = F(0)
            for start in range(0, size, batch):
                end = min(start + batch, size)
                m = end - start
                loss += step(
                    table, rows[start:end], y[start:end], w, b, lr_vector, lr_rows, in_turn, radius_vector,
                    radius_rows, x[:m], r[:m], g, sums,
                )  # fmt: skip
            loss = loss / F(max(size, 1))
            if tolerance > 0:
                if epoch > 0 and not abs(last - loss) > F(tolerance) * abs(last):
                    break
                last = loss
    return loss


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_shard(
    neg_key: Any, order_key: Any, part_key: Any, keys: Any, users: Any, indptr: Any, train: Any, not_ptr: Any,
    not_items: Any, per_positive: int, items_table: Any, vectors: Any, biases: Any, plan: Any, batch: int,
    tolerance: float, in_turn: bool, radius_vector: Any, radius_rows: Any, weights: Any, sums: Any, counts: Any,
    losses: Any, finite: Any, lines: Any, scores: Any, kept_ptr: Any, kept_items: Any, kept_rows: Any, spent: Any,
) -> int:  # fmt: skip
    """Returns how many rows were sent. ``vectors`` and ``biases`` (a line per client) are trained in place.

    ``lines``: items to score afterwards with the client's own rows (empty: none). ``kept_*``: the
    client's touched items and its rows afterwards (empty: not kept).
    """
    n_items, dim = items_table.shape
    most = 0
    for u in users:
        most = max(most, (indptr[u + 1] - indptr[u]) * (1 + per_positive))
    mark = np.full(n_items, -1, np.int32)
    place = np.full(n_items, -1, np.int32)  # where a row of this client lies, counted from all rows before it
    base = 0
    items, slots, rows = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    chosen, order = np.empty(most, np.int32), np.empty(most, np.int32)
    touched = np.empty(most + 1, np.int32)
    y, row_sums = np.empty(most, F), np.zeros(most, F)
    x, r = np.empty(min(batch, most), F), np.empty(min(batch, most), F)
    table, g, w, b = np.empty((most, dim), F), np.empty(dim, F), np.empty(dim, F), np.empty(1, F)
    sent = 0
    for c in range(len(users)):
        begin = ticks()
        u = users[c]
        positives = train[indptr[u] : indptr[u + 1]]
        forbidden = not_items[not_ptr[u] : not_ptr[u + 1]]
        n = sample_count(len(positives), len(forbidden), n_items, per_positive)
        fill_samples(neg_key, keys[c], positives, forbidden, n_items, mark, c, items[:n])
        held = 0
        for i in range(n):  # number the distinct items as they come, without a branch
            item = items[i]
            prefetch(items_table, item)
            at = place[item] - base
            new = at < 0
            at = held if new else at
            place[item] = base + at
            touched[held] = item
            held += new
            slots[i] = at
        for row in range(held):
            item = touched[row]
            for j in range(dim):
                table[row, j] = items_table[item, j]
        w[:] = vectors[c]
        b[0] = biases[c]
        losses[c] = train_client(
            table, slots, n, len(positives), per_positive, w, b, plan, batch, tolerance, in_turn, radius_vector,
            radius_rows, order_key, part_key, keys[c], chosen, order, rows, y, x, r, g, row_sums,
        )  # fmt: skip
        check = losses[c]
        for j in range(dim):
            check += w[j]
        check += b[0]
        for row in range(held):
            for j in range(dim):
                check += table[row, j]
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        finite[c] = abs(check) < F(np.inf) and abs(losses[c]) < F(WILD)
        if finite[c]:
            vectors[c] = w
            biases[c] = b[0]
            weight = weights[c]
            for row in range(held):
                item = touched[row]
                prefetch(sums, touched[min(row + AHEAD, held - 1)])
                counts[item] += F(1)
                for j in range(dim):
                    sums[item, j] += weight * (table[row, j] - items_table[item, j])
            sent += held
        else:  # dropped: the device is as before the round
            w[:] = vectors[c]
            b[0] = biases[c]
            for row in range(held):
                for j in range(dim):
                    table[row, j] = items_table[touched[row], j]
        trained = ticks()
        if len(lines):
            for k in range(lines.shape[1]):
                item = max(lines[c, k], 0)
                at = place[item] - base
                total = b[0]
                if at >= 0:
                    for j in range(dim):
                        total += table[at, j] * w[j]
                else:
                    for j in range(dim):
                        total += items_table[item, j] * w[j]
                scores[c, k] = total
        if len(kept_ptr):
            by_item = np.argsort(touched[:held])
            start = kept_ptr[c]
            kept_ptr[c + 1] = start + held
            for row in range(held):
                kept_items[start + row] = touched[by_item[row]]
                for j in range(dim):
                    kept_rows[start + row, j] = table[by_item[row], j]
        base += held
        if base > FULL:  # numbers run out: start again
            place[:] = -1
            base = 0
        spent[0] += trained - begin
        spent[1] += ticks() - trained
    return sent
