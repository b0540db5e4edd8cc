"""Work over fixed blocks on a pool of threads: same bits, whatever the number of threads.

Blocks depend on the size of the work alone, each writes its own part of the result, and BLAS stays
single-threaded inside them (its own threading changes the last bits).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Block = TypeVar("Block")
Result = TypeVar("Result")


def in_order(work: Callable[[Block], Result], blocks: Sequence[Block], threads: int) -> Iterator[Result]:
    """Results of ``work`` in the order of the blocks; only a few are under way at a time."""
    with threadpool_limits(1):
        if threads <= 1 or len(blocks) <= 1:
            yield from map(work, blocks)
            return
        with ThreadPoolExecutor(threads) as pool:
            waiting = deque(pool.submit(work, block) for block in blocks[: 2 * threads])
            for block in [*blocks[2 * threads :], *[None] * len(waiting)]:
                result = waiting.popleft().result()
                if block is not None:
                    waiting.append(pool.submit(work, block))
                yield result


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
