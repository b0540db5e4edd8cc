"""The processor's time-stamp counter inside compiled code: tells training from ranking in one kernel."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

COUNTS = platform.machine().lower() in ("x86_64", "amd64", "i686")  # elsewhere user code may not read it


@intrinsic
def ticks(typing_context: Any) -> Any:
    """Ticks since some moment; always 0 where the counter cannot be read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not COUNTS:
            return ir.Constant(ir.IntType(64), 0)
        counter = builder.module.declare_intrinsic(
            "llvm.readcyclecounter", fnty=ir.FunctionType(ir.IntType(64), [])
        )
        return builder.call(counter, [])

    return types.int64(), generate
