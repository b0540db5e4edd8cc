"""Ask for a row of a table before it is needed: a table that has left the cache costs little then."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes that come at once
AHEAD = 16  # rows between asking and using


@intrinsic
def prefetch(typing_context: Any, table: Any, row: Any) -> Any:
    """Bring the first lines of ``table[row]`` closer; changes nothing else."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, arguments[0])
        strides = cgutils.unpack_tuple(builder, array.strides, kind.ndim)
        number = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte = ir.IntType(8)
        start = builder.gep(builder.bitcast(array.data, byte.as_pointer()), [builder.mul(number, strides[0])])
        word = ir.IntType(32)
        function = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte.as_pointer()], function)
        for line in range(kind.dtype.bitwidth // 16):  # 32 numbers
            place = builder.gep(start, [ir.Constant(ir.IntType(64), line * LINE)])
            builder.call(ask, [place, word(0), word(3), word(1)])  # to read, soon, as data
        return context.get_dummy_value()

    return types.void(table, row), generate
