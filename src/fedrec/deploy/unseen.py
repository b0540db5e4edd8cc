"""Noise that nobody can draw again: every bit comes from the operating system's cryptographic source.

A simulation draws noise from its seed, so that it can be repeated. What hides a person must not be repeatable: whoever
knew the seed, or guessed a generator's state from what it sees, could take the noise off.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Unseen(np.random.Generator):
    """What stages of a channel draw with, in place of a seeded generator. Nothing of it is kept or can be set."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64())  # seeded by the system too; what is drawn below does not touch it

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """In [0, 1), 53 bits each."""
        bits = np.frombuffer(os.urandom(8 * math.prod(_shape(size))), np.uint64) >> np.uint64(11)
        return (bits * 2.0**-53).reshape(_shape(size))

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """By the inverse of the distribution, at the middles of 2^53 steps."""
        from scipy.special import ndtri

        return ndtri(self.random(size) + 2.0**-54)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        u = self.random(size) + 2.0**-54 - 0.5
        return loc - scale * np.sign(u) * np.log1p(-2 * np.abs(u))

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Small rates by the inverse of the distribution, others by Hörmann's transformed rejection (PTRS, 1993)."""
        rate, out = float(lam), np.empty(math.prod(_shape(size)), np.int64)
        if rate < 10:
            ends = np.cumsum(
                np.exp(-rate + np.arange(120) * math.log(max(rate, 1e-300)) - _log_factorial(120))
            )
            return np.searchsorted(ends, self.random(size), side="right").astype(np.int64)
        left = np.arange(len(out))
        while len(left):
            found, fit = self._tried(rate, len(left))
            out[left[fit]] = found[fit]
            left = left[~fit]
        return out.reshape(_shape(size))

    def _tried(self, rate: float, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        from scipy.special import gammaln

        b = 0.931 + 2.53 * math.sqrt(rate)
        a, alpha, enough = -0.059 + 0.02483 * b, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
        u, v = self.random(n) - 0.5, self.random(n) + 2.0**-54
        room = 0.5 - np.abs(u) + 2.0**-54
        k = np.floor((2 * a / room + b) * u + rate + 0.43)
        quick = (room >= 0.07) & (v <= enough)
        possible = (k >= 0) & ~((room < 0.013) & (v > room))
        k = np.maximum(k, 0)
        below = np.log(v * alpha / (a / room**2 + b)) <= k * math.log(rate) - rate - gammaln(k + 1)
        return k.astype(np.int64), quick | (possible & below)


def unseen(*_: Any) -> np.random.Generator:
    """In place of a generator that hangs on a seed, a name and a round."""
    return Unseen()


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (int(size),) if isinstance(size, int | np.integer) else tuple(size)


def _log_factorial(n: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n)))])
