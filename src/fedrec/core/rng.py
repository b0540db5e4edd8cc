"""Randomness as a function of (seed, purpose, round, client), never of order, threads or process.

A stream is named by a 64-bit key; its k-th number is the SplitMix64 output function applied to
``key + k * golden``. Nothing is stored between draws, so the compiled sampler, NumPy code and a
device that trains alone all see the same numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba as nb
import numpy as np

from fedrec.core.compiled import part

GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _mix_int(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def purpose(name: str) -> int:
    """A stable number for what a stream is for, such as ``"negatives"``."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def stream(seed: int, name: str, round: int = 0) -> int:
    """The key of a stream before it is told apart by client."""
    key = _mix_int((seed + GOLDEN) & _MASK)
    key = _mix_int((key ^ purpose(name)) + GOLDEN & _MASK)
    return _mix_int((key + (round + 1) * GOLDEN) & _MASK)


@nb.njit(nb.uint64(nb.uint64), cache=True, nogil=True)
def mix(x: Any) -> Any:
    """The SplitMix64 output function."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@nb.njit(nb.uint64(nb.uint64, nb.uint64), cache=True, nogil=True)
def client_key(key: Any, client: Any) -> Any:
    """The stream of one client."""
    return mix(mix(client + np.uint64(GOLDEN)) ^ key)


@nb.njit(nb.uint64(nb.uint64, nb.uint64), cache=True, nogil=True)
def bits(key: Any, k: Any) -> Any:
    """The k-th number of a stream, 64 random bits."""
    return mix(key + (k + np.uint64(1)) * np.uint64(GOLDEN))


@nb.njit(nb.int64(nb.uint64, nb.uint64, nb.int64), cache=True, nogil=True)
def below(key: Any, k: Any, n: Any) -> Any:
    """The k-th number of a stream as an integer in [0, n), n < 2**32 (multiply and shift)."""
    return np.int64(((bits(key, k) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@nb.njit(nb.float64(nb.uint64, nb.uint64), cache=True, nogil=True)
def uniform(key: Any, k: Any) -> Any:
    """The k-th number of a stream as a float in [0, 1)."""
    return np.float64(bits(key, k) >> np.uint64(11)) * 2.0**-53


@part()
def shuffle(key: Any, values: Any) -> None:
    """Fisher-Yates in place, on the numbers of one stream."""
    for i in range(values.shape[0] - 1, 0, -1):
        j = below(key, np.uint64(i), i + 1)
        values[i], values[j] = values[j], values[i]


def generator(seed: int, name: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """A NumPy generator for work that is not per client in bulk: initial tables, cohorts, made worlds."""
    key = [stream(seed, name, round), client & _MASK]
    return np.random.Generator(np.random.Philox(key=np.array(key, dtype=np.uint64)))
