"""Products of small matrices in compiled code: S + A·B without packing, allocation or a call into BLAS.

Operands of a client's layers fit into the nearest caches, where a call into BLAS costs more than the product
itself. A tile of the result is held in registers while a loop runs down the common axis. Each number is summed in
that order whatever the tile, so that a row's result does not depend on the rows beside it.

Matrices lie in flat arrays and are named by (array, offset, stride of a row). Columns of B and of the result
come in groups of ``LANES``; the result has rows in groups of ``LANES`` too. What lies there beyond a matrix is padding.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from fedrec.core.compiled import part
from fedrec.core.slots import Array

LANES = 8
# Rows of a tile that is two groups wide, which is one vector a row where the machine has such, else two; and of one
# that is one group wide. So many sums are under way at once that none waits for the one before.
_, _, FEATURES = (
    cpu_target.target_context.codegen().magic_tuple()
)  # what kernels are compiled, and cached, for
FEW, MANY = (8 if "+avx512f" in FEATURES else 4), 8
AS_IT_IS, POSITIVE, WHERE = range(3)


def padded(width: int) -> int:
    """Columns with their padding."""
    return -(-width // LANES) * LANES


def stride(width: int) -> int:
    """Numbers from a row to the next: an odd count of groups, so that rows spread over the sets of a cache."""
    return LANES * (-(-width // LANES) | 1) if width else 0


@nb.njit(cache=True, nogil=True, inline="always")
def spot(start: int, j: int) -> Any:
    """start + j as an index that cannot count from the end: where it might, loops are not made vector code."""
    return np.uint64(start) + np.uint64(j)


def product(a: Array, b: Array) -> Array:
    """A·B of two ordinary arrays: each row of the result whatever the rows beside it are, to the bit."""
    rows, columns, depth = padded(len(a)), padded(b.shape[1]), len(b)
    left, right = np.zeros((rows, depth), np.float32), np.zeros((depth, stride(columns)), np.float32)
    left[: len(a)], right[:, : b.shape[1]] = a, b
    out, none = np.empty((rows, columns), np.float32), np.zeros(columns, np.float32)
    multiply(
        out.reshape(-1), 0, columns, none, 0, 0, left.reshape(-1), 0, depth, 1,
        right.reshape(-1), 0, right.shape[1], rows, columns, depth,
    )  # fmt: skip
    found: Array = out[: len(a), : b.shape[1]]
    return found


def _tile(rows: int, columns: int, kind: int) -> Any:
    """A tile of the result, of so many rows and columns.

    POSITIVE: negative numbers become 0. WHERE: 0 where an array that lies like the result is not above 0.
    """

    @intrinsic
    def tile(
        typing_context: Any, c: Any, c0: Any, c_row: Any, s: Any, s0: Any, s_row: Any, a: Any, a0: Any, a_row: Any,
        a_next: Any, b: Any, b0: Any, b_row: Any, depth: Any, h: Any,
    ) -> Any:  # fmt: skip
        word, number = ir.IntType(64), ir.FloatType()
        vector = ir.VectorType(number, columns)
        nowhere, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * columns)
        first_lane = ir.Constant(ir.VectorType(ir.IntType(32), columns), [0] * columns)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            c, c0, c_row, s, s0, s_row, a, a0, a_row, a_next, b, b0, b_row, depth, h = range(15)

            def start(array: int, offset: int) -> Any:
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                return builder.gep(data, [arguments[offset]])

            def vector_at(place: Any, offset: Any) -> Any:
                return builder.bitcast(builder.gep(place, [offset]), vector.as_pointer())

            def at(row: int, by: int) -> Any:
                return builder.mul(arguments[by], word(row))

            def spread(value: Any) -> Any:
                one = builder.insert_element(nowhere, value, ir.IntType(32)(0))
                return builder.shuffle_vector(one, nowhere, first_lane)

            result, left, right, before = start(c, c0), start(a, a0), start(b, b0), start(s, s0)
            begun = [builder.load(vector_at(before, at(i, s_row)), align=4) for i in range(rows)]
            entry = builder.block
            head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
            builder.branch(head)
            builder.position_at_end(head)
            k = builder.phi(word)
            sums = [builder.phi(vector) for _ in range(rows)]
            builder.cbranch(builder.icmp_signed("<", k, arguments[depth]), body, done)
            builder.position_at_end(body)
            factors = builder.load(vector_at(right, builder.mul(k, arguments[b_row])), align=4)
            column, added = builder.mul(k, arguments[a_next]), []
            for i in range(rows):
                place = builder.add(column, builder.mul(arguments[a_row], word(i)))
                each = spread(builder.load(builder.gep(left, [place]), align=4))
                product = builder.fmul(each, factors, flags=("contract",))
                added.append(builder.fadd(sums[i], product, flags=("contract",)))
            k.add_incoming(word(0), entry)
            k.add_incoming(builder.add(k, word(1)), body)
            for total, first, following in zip(sums, begun, added, strict=True):
                total.add_incoming(first, entry)
                total.add_incoming(following, body)
            builder.branch(head)
            builder.position_at_end(done)
            for i, total in enumerate(sums):
                value = total
                if kind == POSITIVE:  # what is not a number stays so
                    value = builder.select(builder.fcmp_unordered(">", total, zero), total, zero)
                elif kind == WHERE:
                    shown = builder.load(vector_at(start(h, c0), at(i, c_row)), align=4)
                    value = builder.select(builder.fcmp_ordered(">", shown, zero), total, zero)
                builder.store(value, vector_at(result, at(i, c_row)), align=4)
            return context.get_dummy_value()

        n = types.intp
        return types.void(c, n, n, s, n, n, a, n, n, n, b, n, n, n, h), generate

    return tile


_wide, _narrow = _tile(FEW, 2 * LANES, AS_IT_IS), _tile(MANY, LANES, AS_IT_IS)
_wide_positive, _narrow_positive = _tile(FEW, 2 * LANES, POSITIVE), _tile(MANY, LANES, POSITIVE)
_wide_where, _narrow_where = _tile(FEW, 2 * LANES, WHERE), _tile(MANY, LANES, WHERE)
_wide_line, _narrow_line = _tile(1, 2 * LANES, AS_IT_IS), _tile(1, LANES, AS_IT_IS)


@nb.njit(cache=True, nogil=True)
def multiply(
    c: Any, c0: int, c_row: int, s: Any, s0: int, s_row: int, a: Any, a0: int, a_row: int, a_next: int,
    b: Any, b0: int, b_row: int, rows: int, columns: int, depth: int,
) -> None:  # fmt: skip
    """c[i, j] = s[i, j] + Σ_k a[i, k] b[k, j]; ``a_next`` is the step from k to k + 1."""
    j = 0
    while j + 2 * LANES <= columns:
        for i in range(0, rows, FEW):
            _wide(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, c,
            )  # fmt: skip
        j += 2 * LANES
    if j < columns:
        for i in range(0, rows, MANY):
            _narrow(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, c,
            )  # fmt: skip


@part()
def multiply_positive(
    c: Any, c0: int, c_row: int, s: Any, s0: int, s_row: int, a: Any, a0: int, a_row: int, a_next: int,
    b: Any, b0: int, b_row: int, rows: int, columns: int, depth: int,
) -> None:  # fmt: skip
    """The same, negative numbers taken as 0."""
    j = 0
    while j + 2 * LANES <= columns:
        for i in range(0, rows, FEW):
            _wide_positive(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, c,
            )  # fmt: skip
        j += 2 * LANES
    if j < columns:
        for i in range(0, rows, MANY):
            _narrow_positive(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, c,
            )  # fmt: skip


@part()
def multiply_where(
    c: Any, c0: int, c_row: int, s: Any, s0: int, s_row: int, a: Any, a0: int, a_row: int, a_next: int,
    b: Any, b0: int, b_row: int, rows: int, columns: int, depth: int, h: Any,
) -> None:  # fmt: skip
    """The same, 0 where ``h``, which lies like ``c``, is not above 0."""
    j = 0
    while j + 2 * LANES <= columns:
        for i in range(0, rows, FEW):
            _wide_where(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, h,
            )  # fmt: skip
        j += 2 * LANES
    if j < columns:
        for i in range(0, rows, MANY):
            _narrow_where(
                c, c0 + i * c_row + j, c_row, s, s0 + i * s_row + j, s_row, a, a0 + i * a_row, a_row, a_next,
                b, b0 + j, b_row, depth, h,
            )  # fmt: skip


@part()
def add_rows(
    c: Any, c0: int, a: Any, a0: int, a_next: int, b: Any, b0: int, b_row: int, columns: int, depth: int
) -> None:
    """c[j] += Σ_k a[k] b[k, j]."""
    j = 0
    while j + 2 * LANES <= columns:
        _wide_line(c, c0 + j, 0, c, c0 + j, 0, a, a0, 0, a_next, b, b0 + j, b_row, depth, c)
        j += 2 * LANES
    if j < columns:
        _narrow_line(c, c0 + j, 0, c, c0 + j, 0, a, a0, 0, a_next, b, b0 + j, b_row, depth, c)


def _inner_tile(rows: int, columns: int) -> Any:
    """Inner products of some rows of A with some rows of B: what is loaded once serves several."""

    @intrinsic
    def tile(
        typing_context: Any, c: Any, c0: Any, c_row: Any, a: Any, a0: Any, b: Any, b0: Any, row: Any, depth: Any
    ) -> Any:  # fmt: skip
        word, number, short = ir.IntType(64), ir.FloatType(), ir.IntType(32)
        vector = ir.VectorType(number, LANES)
        nowhere, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * LANES)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            c, c0, c_row, a, a0, b, b0, row, depth = range(9)

            def start(array: int, offset: int) -> Any:
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                return builder.gep(data, [arguments[offset]])

            def loaded(place: Any, line: int, k: Any) -> Any:
                at = builder.add(builder.mul(arguments[row], word(line)), k)
                return builder.load(builder.bitcast(builder.gep(place, [at]), vector.as_pointer()), align=4)

            def total(value: Any) -> Any:
                """Halves are added up: the same order for every cell."""
                for half in (4, 2, 1):
                    order = ir.Constant(
                        ir.VectorType(short, LANES), [(i + half) % LANES for i in range(LANES)]
                    )
                    value = builder.fadd(value, builder.shuffle_vector(value, nowhere, order))
                return builder.extract_element(value, short(0))

            result, left, right = start(c, c0), start(a, a0), start(b, b0)
            cells = [(i, j) for i in range(rows) for j in range(columns)]
            entry = builder.block
            head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
            builder.branch(head)
            builder.position_at_end(head)
            k = builder.phi(word)
            sums = [builder.phi(vector) for _ in cells]
            builder.cbranch(builder.icmp_signed("<", k, arguments[depth]), body, done)
            builder.position_at_end(body)
            xs, ws = [loaded(left, i, k) for i in range(rows)], [loaded(right, j, k) for j in range(columns)]
            k.add_incoming(word(0), entry)
            k.add_incoming(builder.add(k, word(LANES)), body)
            for (i, j), so_far in zip(cells, sums, strict=True):
                product = builder.fmul(xs[i], ws[j], flags=("contract",))
                so_far.add_incoming(zero, entry)
                so_far.add_incoming(builder.fadd(so_far, product, flags=("contract",)), body)
            builder.branch(head)
            builder.position_at_end(done)
            for (i, j), found in zip(cells, sums, strict=True):
                at = builder.add(builder.mul(arguments[c_row], word(i)), word(j))
                builder.store(total(found), builder.gep(result, [at]), align=4)
            return context.get_dummy_value()

        n = types.intp
        return types.void(c, n, n, a, n, b, n, n, n), generate

    return tile


_inner = _inner_tile(2, 4)


@part()
def inner(c: Any, c_row: int, a: Any, b: Any, row: int, rows: int, columns: int, depth: int) -> None:
    """c[i, j] = Σ_k a[i, k] b[j, k]: A·Bᵀ of matrices whose rows are ``row`` apart; rows by 2, columns by 4."""
    for i in range(0, rows, 2):
        for j in range(0, columns, 4):
            _inner(c, i * c_row + j, c_row, a, i * row, b, j * row, row, depth)
