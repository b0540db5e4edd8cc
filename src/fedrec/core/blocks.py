"""Work over fixed blocks on a pool of threads: same bits, whatever the number of threads.

Blocks depend on the size of the work alone, each writes its own part of the result, and BLAS stays
single-threaded inside them (its own threading changes the last bits).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def run_blocks(work: Callable[[int, int], None], total: int, size: int, threads: int) -> None:
    """Call ``work(start, end)`` for each block of ``size`` out of ``total``; an error in one is raised."""
    starts = range(0, total, size)
    with threadpool_limits(1):
        if threads <= 1 or len(starts) <= 1:
            for start in starts:
                work(start, min(start + size, total))
            return
        with ThreadPoolExecutor(min(threads, len(starts))) as pool:
            list(pool.map(lambda start: work(start, min(start + size, total)), starts))
