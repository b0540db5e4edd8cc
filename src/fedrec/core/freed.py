"""Memory that arrays give back is kept for the next arrays.

A round makes large arrays and drops them. The C library hands each one back to the system, and asks for it again page
by page: a third of the time of MetaMF's rounds, a fifth of FedPerGNN's. Only glibc is told otherwise (mallopt,
malloc_trim).
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # names of mallopt's numbers
NEVER = -1


def keep_freed_memory() -> None:
    """Freed memory stays with the process from here on: best before there are threads, whose own heaps do not.

    The whole process is changed: fedrec's own commands begin with it, a program that uses fedrec when it first trains.
    """
    if (library := _glibc()) is not None:
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, NEVER)
        library.mallopt(ARENA_MAX, 1)


def give_back() -> None:
    """What is free now goes back to the system."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    """None where another C library is, or where somebody has set how it allocates (MALLOC_…, GLIBC_TUNABLES)."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return None
    try:
        library = ctypes.CDLL(None)
        library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        library.malloc_trim.argtypes = [ctypes.c_size_t]
    except (OSError, TypeError, AttributeError):
        return None
    return library
