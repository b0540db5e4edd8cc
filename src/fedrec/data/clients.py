"""What devices know of their owners. Held-out items are not in it: those are asked about in an exam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids, Ragged, run_ends


class Histories(NamedTuple):
    """The same as compiled code takes it: client u trains on ``train[train_ptr[u]:train_ptr[u + 1]]``."""

    keys: NDArray[np.uint64]
    train_ptr: NDArray[np.int64]
    train: NDArray[np.int32]
    not_ptr: NDArray[np.int64]
    not_items: NDArray[np.int32]
    n_items: int
    per_positive: int


@dataclass(frozen=True, eq=False)
class ClientData:
    """Interactions of one device, of a shard of them, or of all; clients are numbered from 0."""

    keys: NDArray[np.uint64]  # what each client's random streams hang on
    train: Ragged  # oldest first
    trained: Ragged  # the same, sorted and distinct
    forbidden: Ragged  # items that may not be drawn as negatives, sorted and distinct
    n_items: int
    negatives_per_positive: int

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def histories(self) -> Histories:
        return Histories(self.keys, *self.train, *self.forbidden, self.n_items, self.negatives_per_positive)

    def samples(self, users: Ids, negatives: bool = True) -> NDArray[np.int64]:
        """How many training samples some clients have: their positives alone where nothing is left to draw."""
        per_positive = self.negatives_per_positive if negatives else 0
        free = self.forbidden.counts(users) < self.n_items
        return self.train.counts(users) * np.where(free, 1 + per_positive, 1)

    def take(self, users: Ids) -> ClientData:
        """Some clients alone, numbered anew."""
        return ClientData(
            self.keys[users],
            self.train.take(users),
            self.trained.take(users),
            self.forbidden.take(users),
            self.n_items,
            self.negatives_per_positive,
        )

    def knowing(self, histories: Ragged) -> ClientData:
        """The same clients with histories that have grown; what they know is no negative of theirs."""
        met = sorted_distinct(*histories)
        spared = sorted_distinct(*self.forbidden.followed_by(met))
        return replace(self, train=histories, trained=met, forbidden=spared)


def sorted_distinct(indptr: NDArray[np.int64], items: NDArray[np.int32]) -> Ragged:
    """Each client's items, ascending, each once."""
    clients = len(indptr) - 1
    pairs = np.repeat(np.arange(clients) << 32, np.diff(indptr))
    pairs |= items
    pairs.sort()
    first = np.ones(len(pairs), np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
    pairs = pairs[first]
    return Ragged(run_ends(np.bincount(pairs >> 32, minlength=clients)), pairs.astype(np.int32))
