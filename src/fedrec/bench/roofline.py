"""What a round costs at the least on this machine, from rates measured in the same run.

A log-linear round cannot avoid, per sample of a pass: an inner product and an exponential (twice where
the parts move in turn), an addition of a scaled row for each part that moves, a random number for its
place in the shuffle; one per negative; and, per touched row, reading it from the table and adding its
move to the sums. Arithmetic and memory overlap, so the bound is the
larger of (arithmetic at the measured peak) and (bytes at the measured bandwidth).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from fedrec.clients.kernels.steps import residuals
from fedrec.core.entropy import FAST, F
from fedrec.core.rng import bits

REPEATS = 5


@dataclass(frozen=True)
class Rates:
    """Per second, all threads together."""

    flops: float  # multiply-adds on rows in the first-level cache, counted as two
    exponentials: float
    randoms: float
    bytes: float  # streamed from and to memory


@dataclass(frozen=True)
class Work:
    """What a round asks for, over all clients."""

    negatives: float  # random draws
    places: float  # of shuffles
    products: float  # inner products
    updates: float  # additions of a scaled row
    rows: float  # touched
    dim: int


def bound_seconds(work: Work, rates: Rates) -> float:
    flops = 2.0 * work.dim * (work.products + work.updates)
    randoms = work.negatives + work.places
    compute = flops / rates.flops + work.products / rates.exponentials + randoms / rates.randoms
    moved = 4.0 * work.rows * work.dim * 3  # a row read, its sum read and written
    return max(compute, moved / rates.bytes)


def measure_rates(threads: int) -> Rates:
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(64, 128)).astype(F), np.zeros(128, F)
    x, y, r = rng.normal(size=4096).astype(F), np.zeros(4096, F), np.zeros(4096, F)
    big = [np.zeros(16_000_000, F) for _ in range(2 * threads)]

    def stream(thread: int) -> None:
        np.copyto(big[2 * thread], big[2 * thread + 1])

    return Rates(
        flops=2.0
        * rows.size
        * 2000
        * threads
        / _best(lambda t: _multiply_add(rows, w.copy(), 2000), threads),
        exponentials=len(x) * 500 * threads / _best(lambda t: _exponentials(x, y, r.copy(), 500), threads),
        randoms=2_000_000 * threads / _best(lambda t: _randoms(2_000_000), threads),
        bytes=8.0 * len(big[0]) * threads / _best(stream, threads),
    )


def _best(work: Callable[[int], Any], threads: int) -> float:
    """Shortest time of all threads doing the work at once, compilation outside the clock."""
    work(0)
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(REPEATS):
            start = time.perf_counter()
            list(pool.map(work, range(threads)))
            times.append(time.perf_counter() - start)
    return min(times)


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def _multiply_add(rows: Any, w: Any, times: int) -> Any:
    for _ in range(times):
        for k in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                w[j] += rows[k, j] * F(0.5)
    return w[0]


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def _exponentials(x: Any, y: Any, r: Any, times: int) -> Any:
    total = F(0)
    for _ in range(times):
        total += residuals(x, y, r, F(1))
    return total


@nb.njit(cache=True, nogil=True)
def _randoms(n: int) -> Any:
    total = np.uint64(0)
    for k in range(n):
        total += bits(np.uint64(7), np.uint64(k))
    return total
