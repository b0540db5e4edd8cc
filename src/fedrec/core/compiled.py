"""What compiled functions have in common."""

from __future__ import annotations

from typing import Any

import numba as nb


def part(**options: Any) -> Any:
    """A function for other compiled functions alone: without an entrance from Python it compiles a sixth faster.

    Called from Python it would end the process; ``tests/core/test_compiled.py`` holds that none is.

    What is not said about its arithmetic is said here: numba would give it that of whoever calls it first.
    """
    options = {"fastmath": False, "error_model": "numpy"} | options
    return nb.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
