"""How many items each user of a made world meets: a few do a lot, most do little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def long_tailed_counts(
    rng: np.random.Generator, users: int, total: int, minimum: int, maximum: int, spread: float
) -> NDArray[np.int64]:
    """Log-normal counts between ``minimum`` and ``maximum`` that sum to ``total`` exactly."""
    raw = np.exp(spread * rng.standard_normal(users))

    def counts(scale: float) -> NDArray[np.int64]:
        return minimum + np.minimum(raw * scale, maximum - minimum).astype(np.int64)

    low, high = 0.0, (maximum - minimum) / float(raw.min()) + 1.0
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() <= total else (low, middle)
    chosen = counts(low)
    open_to_more = np.flatnonzero(chosen < maximum)
    chosen[open_to_more[: total - chosen.sum()]] += 1  # what rounding down left over
    return chosen
