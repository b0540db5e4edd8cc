"""Runs of items of different lengths, one after another in flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Ragged(NamedTuple):
    """One run of items per user: ``items[indptr[u]:indptr[u + 1]]``."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]

    def of(self, user: int) -> NDArray[np.int32]:
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def counts(self, users: Ids) -> NDArray[np.int64]:
        """The lengths of some users' runs, without a look at anyone else's."""
        return self.indptr[users + 1] - self.indptr[users]

    def take(self, users: Ids) -> Ragged:
        """The runs of some users alone."""
        return Ragged(run_ends(self.counts(users)), self.items[self.places(users)])

    def places(self, users: Ids) -> Ids:
        """Where the items of some users' runs stand."""
        counts = self.counts(users)
        ends = run_ends(counts)
        return np.arange(ends[-1]) + np.repeat(self.indptr[users] - ends[:-1], counts)

    def followed_by(self, other: Ragged) -> Ragged:
        """Each user's run with the other's run of that user behind it."""
        items = np.empty(len(self.items) + len(other.items), np.int32)
        items[np.arange(len(self.items)) + np.repeat(other.indptr[:-1], np.diff(self.indptr))] = self.items
        items[np.arange(len(other.items)) + np.repeat(self.indptr[1:], np.diff(other.indptr))] = other.items
        return Ragged(self.indptr + other.indptr, items)


def run_ends(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``indptr`` of runs of these lengths."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
