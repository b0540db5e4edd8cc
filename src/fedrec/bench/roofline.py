"""What a round costs at the least on this machine, from rates measured in the same run.

Arithmetic and memory overlap: the bound is the larger of (arithmetic at the measured peak) and (bytes at the measured
bandwidth). Rates and bounds are of CPU seconds of one thread, which others on the machine hardly change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from fedrec.bench.work import Work
from fedrec.clients.kernels.steps import residuals_and_loss
from fedrec.core.blocks import single_threaded_blas
from fedrec.core.entropy import FAST, F
from fedrec.core.rng import bits

REPEATS = 15
SIDE = 512  # of matrices that are multiplied


@dataclass(frozen=True)
class Rates:
    """Per CPU second of one thread."""

    flops: float  # multiply-adds on rows in the first-level cache, counted as two
    products: float  # the same within products of large matrices (BLAS)
    exponentials: float
    randoms: float
    bytes: float  # streamed from and to memory


def bound_seconds(work: Work, rates: Rates) -> float:
    randoms = work.negatives + work.places
    compute = work.flops / rates.flops + work.products / rates.products
    compute += work.exponentials / rates.exponentials + randoms / rates.randoms
    return max(compute, 4.0 * work.numbers / rates.bytes)


def measure_rates() -> Rates:
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(64, 128)).astype(F), np.zeros(128, F)
    x, y, r = rng.normal(size=4096).astype(F), np.zeros(4096, F), np.zeros(4096, F)
    square = rng.normal(size=(SIDE, SIDE)).astype(F)
    big = np.zeros(16_000_000, F), np.zeros(16_000_000, F)
    with single_threaded_blas():
        return Rates(
            products=2.0 * SIDE**3 / _least(lambda: square @ square),
            flops=2.0 * rows.size * 2000 / _least(lambda: _multiply_add(rows, w, 2000)),
            exponentials=len(x) * 500 / _least(lambda: _exponentials(x, y, r, 500)),
            randoms=2_000_000 / _least(lambda: _randoms(2_000_000)),
            bytes=8.0 * len(big[0]) / _least(lambda: np.copyto(*big)),
        )


def _least(work: Callable[[], Any]) -> float:
    """Least CPU seconds of some repetitions, compilation outside the clock."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
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
    total, terms = F(0), np.empty_like(x)
    for _ in range(times):
        total += residuals_and_loss(x, y, r, F(1), terms)
    return total


@nb.njit(cache=True, nogil=True)
def _randoms(n: int) -> Any:
    total = np.uint64(0)
    for k in range(n):
        total += bits(np.uint64(7), np.uint64(k))
    return total
