"""Popularity: everyone is offered what most users have met. The level any personal model must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce


class Popularity(CentralAtOnce):
    """Score of an item = number of users who trained on it."""

    name: ClassVar[str] = "popularity"
    citation: ClassVar[str] = "Cremonesi, Koren, Turrin: Performance of Recommender Algorithms, RecSys 2010"
    use_when: ClassVar[str] = "always, as the level to beat; hard to beat where histories are short"

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> SameForAll:
        counts = np.bincount(split.trained.items, minlength=split.n_items)
        return SameForAll(counts.astype(np.float32))


@dataclass(frozen=True, eq=False)
class SameForAll:
    """One score per item, whoever asks."""

    scores: NDArray[np.float32]

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.scores[items]

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.tile(self.scores, (len(users), 1))
