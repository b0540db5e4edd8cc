"""Exponentials, and the cross-entropy of a logit with its slope, in compiled code that vectorises."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.compiled import part

# Without nnan and ninf: those turn an overflow into a wrong rank.
FAST = {"contract", "reassoc", "nsz", "arcp"}
# Where a loop writes beside what it reads, whether it runs as vector code is decided by where the arrays happen to
# lie in memory. With these alone the numbers are the same either way. So FAST is for sums that are written nowhere in
# their loop (``sums.py``), and for what is inlined into such as are STEADY; tests/core/test_compiled.py holds that.
STEADY = {"contract", "nsz"}
F = np.float32
LOG2E, LN2_HIGH, LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def exp_negative(a: Any) -> Any:
    """e^a for a ≤ 0, written out so that a loop over it becomes vector code; exact to float32.

    e^a = 2^i·e^f with a polynomial for e^f.
    """
    a = max(a, F(-87.0))
    i = np.floor(a * LOG2E + F(0.5))
    f = a - i * LN2_HIGH - i * LN2_LOW
    p = F(1.9875691500e-4)
    p = p * f + F(1.3981999507e-3)
    p = p * f + F(8.3334519073e-3)
    p = p * f + F(4.1665795894e-2)
    p = p * f + F(1.6666665459e-1)
    p = p * f + F(5.0000001201e-1)
    return (p * f * f + f + F(1)) * np.int32((np.int32(i) + np.int32(127)) << np.int32(23)).view(np.float32)


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def sigmoid_softplus(x: Any) -> Any:
    """σ(x) and log(1 + e^x), exact to float32; log(1 + z) = 2·artanh(z / (2 + z)) as a series."""
    z = exp_negative(-abs(x))  # never overflows
    s = z / (F(2) + z)
    q = s * s
    series = q * (F(1 / 3) + q * (F(1 / 5) + q * (F(1 / 7) + q * (F(1 / 9) + q * F(1 / 11)))))
    positive = F(1) / (F(1) + z)
    return (positive if x >= F(0) else z * positive), max(x, F(0)) + F(2) * (s + s * series)


@part()
def steady_sum(x: Any, start: int, end: int) -> Any:
    """Σ x in an order of its own: four running sums, whatever a compiler would prefer."""
    a, b, c, d = F(0), F(0), F(0), F(0)
    quads = (end - start) // 4
    for q in range(quads):
        k = start + 4 * q
        a += x[k]
        b += x[k + 1]
        c += x[k + 2]
        d += x[k + 3]
    for k in range(start + 4 * quads, end):
        a += x[k]
    return (a + b) + (c + d)
