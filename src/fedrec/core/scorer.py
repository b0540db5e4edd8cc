"""What an evaluator asks of a trained model: scores of given items, or of the whole catalogue."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ragged


class Scorer(Protocol):
    """Scores for some users at a time, so that users × items is never held. Higher is better."""

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """Scores of ``items`` (a row of items per user; -1 is padding, its score is ignored)."""
        ...

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores of every item, a row per user."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A scorer that does work for some users before it scores: made ready once, asked several times."""

    def ready(self, users: NDArray[np.int64]) -> Scorer:
        """The same for these users alone, in this order."""
        ...


@runtime_checkable
class FromHistory(Protocol):
    """A scorer that ranks from users' histories, which may have grown since it was trained."""

    def knowing(self, histories: Ragged) -> Scorer:
        """The same, without any training, for users with these histories (oldest first)."""
        ...
