"""Sums in compiled code whose order is left to the compiler, so that they become vector code.

They write to no array: where a loop writes beside what it reads, whether it runs as vector code hangs on where the
arrays happen to lie in memory, and with it the order of a sum (see ``entropy.STEADY``).
"""

from __future__ import annotations

from typing import Any

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, F


@part(fastmath=FAST, error_model="numpy")
def dot(a: Any, b: Any) -> Any:
    """Σ a_j b_j."""
    total = F(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@part(fastmath=FAST, error_model="numpy")
def total_of(x: Any) -> Any:
    """Σ x_j."""
    total = F(0)
    for j in range(len(x)):
        total += x[j]
    return total


@part(fastmath=FAST, error_model="numpy")
def squared_length(x: Any) -> Any:
    """Σ x_j²."""
    total = F(0)
    for j in range(len(x)):
        total += x[j] * x[j]
    return total
