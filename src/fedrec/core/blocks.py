"""Work over fixed blocks on a pool of threads: same bits, whatever the number of threads.

Blocks depend on the size of the work alone, each writes its own part of the result, and BLAS stays
single-threaded inside them (its own threading changes the last bits).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Block = TypeVar("Block")
Result = TypeVar("Result")


@cache
def _libraries(loaded: int) -> ThreadpoolController:
    """Looking for BLAS libraries takes milliseconds: done again only when new modules were loaded."""
    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    limit: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return limit


@contextmanager
def single_threaded() -> Iterator[None]:
    """BLAS and PyTorch on one thread for a while, as they were afterwards."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 1
    _one_torch_thread()
    try:
        with single_threaded_blas():
            yield
    finally:
        if torch and before > 1:
            torch.set_num_threads(before)


def _one_torch_thread() -> None:
    """PyTorch keeps the number per thread: asked for again in each one of a pool."""
    if sys.modules.get("torch"):
        import torch  # waits for a thread that is still importing it

        if torch.get_num_threads() > 1:
            torch.set_num_threads(1)


def in_order(work: Callable[[Block], Result], blocks: Sequence[Block], threads: int) -> Iterator[Result]:
    """Results of ``work`` in the order of the blocks; only a few are under way at a time."""
    with single_threaded():
        if threads <= 1 or len(blocks) <= 1:
            yield from map(work, blocks)
            return
        with ThreadPoolExecutor(threads, initializer=_one_torch_thread) as pool:
            waiting = deque(pool.submit(work, block) for block in blocks[: 2 * threads])
            for block in [*blocks[2 * threads :], *[None] * len(waiting)]:
                result = waiting.popleft().result()
                if block is not None:
                    waiting.append(pool.submit(work, block))
                yield result


def run_blocks(work: Callable[[int, int], None], total: int, size: int, threads: int) -> None:
    """Call ``work(start, end)`` for each block of ``size`` out of ``total``; an error in one is raised."""
    starts = range(0, total, size)
    with single_threaded():
        if threads <= 1 or len(starts) <= 1:
            for start in starts:
                work(start, min(start + size, total))
            return
        with ThreadPoolExecutor(min(threads, len(starts)), initializer=_one_torch_thread) as pool:
            list(pool.map(lambda start: work(start, min(start + size, total)), starts))
