"""A client's items in order, without comparing them: a bit for each item of the catalogue is set and found again."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedrec.core.compiled import part


@intrinsic
def _first_bit(typing_context: Any, word: Any) -> Any:
    """How many bits below the lowest that is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@part()
def make_bits(n_items: int) -> Any:
    return np.zeros((n_items + 63) // 64, np.uint64)


@part()
def ascending(items: Any, bits: Any, out: Any) -> None:
    """Distinct items, sorted; ``bits`` is 0 before and after."""
    for item in items:
        bits[item >> 6] |= np.uint64(1) << np.uint64(item & 63)
    at = 0
    for k in range(len(bits)):
        word = bits[k]
        while word != np.uint64(0):
            out[at] = 64 * k + _first_bit(word)
            at += 1
            word &= word - np.uint64(1)
        bits[k] = np.uint64(0)
