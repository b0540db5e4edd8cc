"""Recency: how much a positive counts by its age, in positions from the newest of the device's own history."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np


class Recency(NamedTuple):
    """weight = floor + (1 − floor)·½^(age / half_life), over the mean of a history's weights."""

    half_life: float  # in positions; 0 stands for: all alike
    floor: float  # what the oldest still counts


ALIKE = Recency(0.0, 1.0)


@nb.njit(cache=True, nogil=True, fastmath=False, error_model="numpy")  # not those of who calls it first
def fill_weights(half_life: float, floor: float, out: Any) -> None:
    """The weights of a history, oldest first. Their mean is 1, so that learning rates keep their meaning."""
    total = 0.0
    for i in range(len(out)):
        weight = floor + (1.0 - floor) * 0.5 ** ((len(out) - 1 - i) / half_life)
        total += weight
        out[i] = weight
    for i in range(len(out)):
        out[i] = np.float32(out[i] * len(out) / total)


def aims(half_life: float, floor: float, oldest: int) -> Any:
    """floor + (1 − floor)·½^(age / half_life) for each age up to the oldest."""
    ages = np.arange(oldest + 1, dtype=np.float64)
    return (floor + (1 - floor) * 0.5 ** (ages / half_life)).astype(np.float32)
