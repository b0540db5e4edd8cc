"""The negative counter: a control without a model. If it ranks well, the protocol gives the answer away.

Where training negatives avoid the held-out items, "was never drawn as a negative" points to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numba as nb
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.core.rng import stream
from fedrec.data.negatives import NEGATIVES, fill_samples, make_free, sample_count
from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce


class Counter(CentralAtOnce):
    """Score of an item = minus the times that training would draw it as the user's negative."""

    name: ClassVar[str] = "counter"
    citation: ClassVar[str] = "a control of fedrec's own (docs/protocols.md)"
    use_when: ClassVar[str] = "to test a protocol: better than chance means that the test item leaks"

    rounds: int = Field(100, ge=1, description="rounds of training whose negatives are counted")

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> Draws:
        keys = [stream(seed, NEGATIVES, round) for round in range(1, self.rounds + 1)]
        return Draws(split, np.array(keys, np.uint64))


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws the negatives again whenever it is asked: they are a function of (seed, round, user)."""

    split: Split
    streams: NDArray[np.uint64]  # one per round

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        out = np.empty(items.shape, np.float32)
        _count(self.streams, self.split.clients().histories, users, items, out)
        return out

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.some(users, np.tile(np.arange(self.split.n_items, dtype=np.int32), (len(users), 1)))


@nb.njit(cache=True, nogil=True)
def _count(streams: Any, known: Any, users: Any, items: Any, out: Any) -> None:
    """Only the items asked for are counted: no user holds a number per item of the catalogue."""
    n_items = known.n_items
    free = make_free(n_items)
    counts = np.zeros(n_items + 1, np.int32)  # scratch of the block; the last is for padding (-1)
    for row, u in enumerate(users):
        positives = known.train[known.train_ptr[u] : known.train_ptr[u + 1]]
        avoid = known.not_items[known.not_ptr[u] : known.not_ptr[u + 1]]
        samples = np.empty(sample_count(len(positives), len(avoid), n_items, known.per_positive), np.int32)
        for i in items[row]:
            counts[i] = 0
        for key in streams:
            fill_samples(key, known.keys[u], positives, avoid, n_items, free, samples)
            for i in samples[len(positives) :]:
                counts[i] += 1
        for c, i in enumerate(items[row]):
            out[row, c] = -counts[i]
