"""The samples of a block of clients as padded arrays: what each trains on in a round, and in which order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.federated import Batch, Phase
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.recency import ALIKE, fill_weights
from fedrec.core.rng import stream
from fedrec.data.clients import ClientData
from fedrec.data.negatives import (
    NEGATIVES,
    SHUFFLE,
    fill_order,
    fill_samples,
    make_free,
    positive_of,
    sample_count,
)

SUPPORT = "support"
PARTS = {"all": 0, "support": 1, "query": 2, "positives": 3, "history": 4}
ONLY_POSITIVES = ("positives", "history")


def draws_negatives(plan: list[Phase]) -> bool:
    """Whether clients train on sampled negatives beside their positives."""
    return any(phase.part not in ONLY_POSITIVES for phase in plan)


def turn(phase: int, epoch: int) -> int:
    """The number of a pass within a round: what its order hangs on."""
    return 1000 * phase + epoch


class Samples(NamedTuple):
    """A block's clients side by side, shorter ones padded."""

    users: NDArray[np.int64]
    touched: NDArray[np.int32]  # (clients, rows): the items whose rows they hold, sorted; padded with item 0
    rows: NDArray[np.int64]  # how many of those are real
    counts: NDArray[np.int64]  # samples per client
    passes: list[Batch]  # one per epoch, as arrays (clients, samples)

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which of the touched items are not padding."""
        return np.arange(self.touched.shape[1]) < self.rows[:, None]

    def items(self) -> Ragged:
        """The touched items without padding."""
        return Ragged(run_ends(self.rows), self.touched[self.real])


def draw_samples(data: ClientData, seed: int, round: int, users: Ids, plan: list[Phase]) -> Samples:
    """Draw a round's negatives for some clients and lay out every pass that the plan asks for."""
    negatives = draws_negatives(plan)
    per_positive = data.negatives_per_positive if negatives else 0
    keys, positives, counts = data.keys[users], data.train.counts(users), data.samples(users, negatives)
    shape = (len(users), int(counts.max()))
    items, index, touched = (np.zeros(shape, np.int32) for _ in range(3))
    rows = np.zeros(len(users), np.int64)
    key = np.uint64(stream(seed, NEGATIVES, round))
    _draw(
        key,
        keys,
        users,
        *data.train,
        *data.forbidden,
        data.n_items,
        per_positive,
        items,
        index,
        touched,
        rows,
    )
    key, part_key = np.uint64(stream(seed, SHUFFLE, round)), np.uint64(stream(seed, SUPPORT, round))
    passes = []
    for number, phase in enumerate(plan):
        for epoch in range(phase.epochs):
            labels, mask = (np.zeros(shape, np.float32) for _ in range(2))
            weight = mask if phase.recency is None else np.zeros(shape, np.float32)
            batch = Batch(np.zeros(shape, np.int32), labels, mask, weight)
            part, at = PARTS[phase.part], turn(number, epoch)
            longest = _lay_out(
                key, part_key, keys, positives, counts, index, per_positive, part, at,
                *(phase.recency or ALIKE), *batch,
            )  # fmt: skip
            passes.append(Batch(*(x[:, :longest] for x in batch)))
    return Samples(users, touched[:, : int(rows.max())], rows, counts, passes)


@nb.njit(cache=True, nogil=True)
def _draw(
    key: Any, keys: Any, users: Any, indptr: Any, train: Any, not_ptr: Any, not_items: Any, n_items: int,
    per_positive: int, items: Any, index: Any, touched: Any, rows: Any,
) -> None:  # fmt: skip
    free = make_free(n_items)
    place = np.empty(n_items, np.int32)
    for c in range(len(users)):
        u = users[c]
        positives = train[indptr[u] : indptr[u + 1]]
        forbidden = not_items[not_ptr[u] : not_ptr[u + 1]]
        n = sample_count(len(positives), len(forbidden), n_items, per_positive)
        mine = items[c, :n]
        fill_samples(key, keys[c], positives, forbidden, n_items, free, mine)
        ordered = np.sort(mine)
        kept = 0
        for i in range(n):
            if i == 0 or ordered[i] != ordered[i - 1]:
                touched[c, kept] = ordered[i]
                place[ordered[i]] = kept
                kept += 1
        rows[c] = kept
        for i in range(n):
            index[c, i] = place[mine[i]]


@part()
def choose_part(
    part_key: Any, client: Any, positives: int, count: int, per_positive: int, part: int, chosen: Any
) -> int:
    """Which of a client's samples belong to a part of them; returns how many.

    Support and query are two halves of the positives, each with its own negatives; who has a single
    positive uses it in both.
    """
    if part == 0 or part == 3 or positives == 1:
        size = positives if part == 3 else count
        for i in range(size):
            chosen[i] = i
        return size
    halves = np.empty(positives, np.int64)
    fill_order(part_key, client, 0, halves)
    size = 0
    for i in range(count):
        first_half = halves[positive_of(i, positives, per_positive)] < (positives + 1) // 2
        if (part == 1) == first_half:
            chosen[size] = i
            size += 1
    return size


@part()
def _newest_first(index: Any, seen: Any, chosen: Any) -> int:
    """Each item once, where it was met last; returns how many there are."""
    size = 0
    for i in range(len(index) - 1, -1, -1):
        if not seen[index[i]]:
            seen[index[i]] = True
            chosen[size] = i
            size += 1
    for i in index:
        seen[i] = False
    return size


@nb.njit(cache=True, nogil=True)
def _lay_out(
    key: Any, part_key: Any, keys: Any, positives: Any, counts: Any, index: Any, per_positive: int, part: int,
    turn: int, half_life: float, floor: float, items: Any, labels: Any, mask: Any, weight: Any,
) -> int:  # fmt: skip
    """Write one pass, shuffled unless it is the history; returns the longest client's length."""
    longest = 0
    seen = np.zeros(index.shape[1], np.bool_)
    chosen, by_age = np.empty(index.shape[1], np.int32), np.empty(index.shape[1], np.float32)
    for c in range(len(keys)):
        if half_life > 0:
            fill_weights(half_life, floor, by_age[: positives[c]])
        if part == 4:
            size = _newest_first(index[c, : positives[c]], seen, chosen)
            order = np.arange(size)
        else:
            size = choose_part(part_key, keys[c], positives[c], counts[c], per_positive, part, chosen)
            order = np.empty(size, np.int64)
            fill_order(key, keys[c], turn, order)
        for k in range(size):
            i = chosen[order[k]]
            items[c, k] = index[c, i]
            labels[c, k] = 1.0 if i < positives[c] else 0.0
            mask[c, k] = 1.0
            if half_life > 0:
                weight[c, k] = by_age[positive_of(i, positives[c], per_positive)]
        longest = max(longest, size)
    return longest
