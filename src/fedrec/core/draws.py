"""Laplace and normal draws in compiled code: each is one number of a counter-based stream, put through the inverse
of its distribution function, written out so that loops become vector code.

The normal one is M. Giles, "Approximating the erfinv function", GPU Computing Gems 2011, in single precision.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.entropy import FAST, LN2_HIGH, LN2_LOW, F
from fedrec.core.rng import bits

ROOT2, ROOT_HALF = F(np.sqrt(2)), F(np.sqrt(0.5))


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def logarithm(x: Any) -> Any:
    """log x of a positive, normal number: x = 2^e·(1 + m) with a polynomial for log(1 + m)."""
    pattern = F(x).view(np.int32)
    e = F((pattern >> np.int32(23)) - np.int32(126))
    m = np.int32((pattern & np.int32(0x7FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    small = m < ROOT_HALF
    e = e - F(1) if small else e
    m = m + m - F(1) if small else m - F(1)
    p = F(7.0376836292e-2)
    p = p * m - F(1.1514610310e-1)
    p = p * m + F(1.1676998740e-1)
    p = p * m - F(1.2420140846e-1)
    p = p * m + F(1.4249322787e-1)
    p = p * m - F(1.6668057665e-1)
    p = p * m + F(2.0000714765e-1)
    p = p * m - F(2.4999993993e-1)
    p = p * m + F(3.3333331174e-1)
    return m + (p * m * m * m + LN2_LOW * e - F(0.5) * m * m) + LN2_HIGH * e


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def laplace(key: Any, k: Any) -> Any:
    """The k-th number of a stream as a Laplace draw of scale 1: a sign, and minus the log of what is left."""
    drawn = np.uint32(bits(key, k) >> np.uint64(32))
    # As int32, of which vector code can make floats.
    size = -logarithm((F(np.int32(drawn >> np.uint32(1))) + F(1)) * F(2.0**-31))
    return size if drawn & np.uint32(1) else -size


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def normal(key: Any, k: Any) -> Any:
    """The k-th number of a stream as a normal draw of spread 1."""
    drawn = np.int64(bits(key, k) >> np.uint64(40))
    x = (F(drawn) + F(0.5)) * F(2.0**-23) - F(1)  # within (−1, 1): 24 bits are exact
    w = -logarithm((F(1) - x) * (F(1) + x))
    near, far = w - F(2.5), np.sqrt(max(w, F(0))) - F(3)
    p, q = F(2.81022636e-08), F(-0.000200214257)
    p, q = p * near + F(3.43273939e-07), q * far + F(0.000100950558)
    p, q = p * near - F(3.5233877e-06), q * far + F(0.00134934322)
    p, q = p * near - F(4.39150654e-06), q * far - F(0.00367342844)
    p, q = p * near + F(0.00021858087), q * far + F(0.00573950773)
    p, q = p * near - F(0.00125372503), q * far - F(0.0076224613)
    p, q = p * near - F(0.00417768164), q * far + F(0.00943887047)
    p, q = p * near + F(0.246640727), q * far + F(1.00167406)
    p, q = p * near + F(1.50140941), q * far + F(2.83297682)
    return ROOT2 * x * (p if w < F(5) else q)
