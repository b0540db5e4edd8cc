"""A made world: interactions together with the ranking that generated them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec.data.interactions import Interactions


@dataclass(frozen=True, eq=False)
class Best:
    """The scorer that knows: how likely an item is to be the user's next. No ranking is better, but by luck.

    Scores are made when asked for, a chunk of users at a time; users × items is never held.
    """

    weights: Callable[[NDArray[np.int64]], NDArray[np.float64]]  # a row of all items per user

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """Scores of ``items``, a row of items per user (-1 is padding, its score means nothing)."""
        return np.take_along_axis(self.all(users), items.astype(np.int64), axis=1)

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores of every item, a row per user."""
        return self.weights(users).astype(np.float32)


@dataclass(frozen=True, eq=False)
class World:
    """``data`` as any loader would give it, and ``best``, a scorer that ranks as the data were made."""

    data: Interactions
    best: Best
