"""
Executes SPV_NV_cooperative_vector: each invocation multiplies its vector by a matrix in memory.

The interpretation operand defines how the bits of a matrix are read. Floats are multiplied and
added in binary32 (binary64 if one of them is binary64) in numpy's order, and rounded once to the
result's type. Integers are exact modulo the result's width. Layouts that the implementation may
choose are row-major and packed here. Accumulations are atomic: invocations add one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import memory, numbers
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain, merger
from xdsl_spirv.interpreter.layout import PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memory import Pointer, Pointers, by_case, cases
from xdsl_spirv.interpreter.numbers import F16, F32, F64, I64, Array, DType, integer_dtype
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.spirv.atomic import accumulate

_TYPES: dict[spv.ComponentType, tuple[DType, bool]] = {
    spv.ComponentType.Float16NV: (F16, True),
    spv.ComponentType.Float32NV: (F32, True),
    spv.ComponentType.Float64NV: (F64, True),
    spv.ComponentType.SignedInt8NV: (integer_dtype(8), True),
    spv.ComponentType.SignedInt16NV: (integer_dtype(16), True),
    spv.ComponentType.SignedInt32NV: (integer_dtype(32), True),
    spv.ComponentType.SignedInt64NV: (I64, True),
    spv.ComponentType.UnsignedInt8NV: (integer_dtype(8), False),
    spv.ComponentType.UnsignedInt16NV: (integer_dtype(16), False),
    spv.ComponentType.UnsignedInt32NV: (integer_dtype(32), False),
    spv.ComponentType.UnsignedInt64NV: (I64, False),
    spv.ComponentType.SignedInt8PackedNV: (integer_dtype(8), True),
    spv.ComponentType.UnsignedInt8PackedNV: (integer_dtype(8), False),
    spv.ComponentType.FloatE4M3NV: (numbers.FLOAT8_E4M3, True),
    spv.ComponentType.FloatE5M2NV: (numbers.FLOAT8_E5M2, True),
}
"""Maps an interpretation to its dtype and a bool, which is True if it is signed."""

_PACKED = (spv.ComponentType.SignedInt8PackedNV, spv.ComponentType.UnsignedInt8PackedNV)


def _interpretation(setting: Attribute, context: Context) -> spv.ComponentType:
    return spv.ComponentType(context.number(setting))


@action(spv.CooperativeVectorLoadOp)
def load(
    op: spv.CooperativeVectorLoadOp, context: Context, plain: PlainLoader = memory.load
) -> Function:
    """Loads consecutive components at an offset in bytes."""
    form = context.plain(op.result.type)
    return lambda batch, pointer, offset: load_vector(pointer, offset, form, batch.mask, plain)


VectorLoader: TypeAlias = Callable[[Pointer | Pointers, Array, Plain, Mask], Array]


def load_vector(
    pointer: Pointer | Pointers,
    offset: Array,
    form: Plain,
    mask: Mask,
    load: PlainLoader = memory.load,
) -> Array:
    """Loads a vector that begins `offset` bytes after a pointer."""
    start = moved(pointer, offset)
    return by_case(start, mask, lambda one, lanes: load(one, form, lanes), merger(form))


def moved(pointer: Pointer | Pointers, offset: Array) -> Pointer | Pointers:
    """Returns the pointer advanced by `offset` bytes. Offsets are unsigned."""
    return pointer.plus(offset.astype(I64) & 0xFFFFFFFF, 1, 0)


@action(spv.CooperativeVectorStoreOp)
def store(
    op: spv.CooperativeVectorStoreOp, context: Context, plain: PlainStorer = memory.store
) -> Function:
    """Stores consecutive components at an offset in bytes."""
    form = context.plain(op.object.type)

    def call(batch: Batch, pointer: Pointer, offset: Array, vector: Array) -> None:
        for one, lanes in cases(moved(pointer, offset), batch.mask):
            plain(one, form, vector, lanes)

    return call


class Input:
    """
    Converts the vector operand of a product to the component type of the operand
    InputInterpretation.
    """

    def __init__(self, op: spv.VectorTimesMatrix, length: int, flags: Any, context: Context):
        source = context.plain(op.operands[0].type).dtype
        kind = _interpretation(op.input_interpretation, context)
        self.dtype, self.sign = _TYPES[kind]
        self.packed = kind in _PACKED
        self.length = length
        self.source_sign = bool(flags & spv.CooperativeMatrixOperands.MatrixBSignedComponentsKHR)
        self.source = source

    def __call__(self, vector: Array) -> Array:
        """
        Returns the converted components, one for each column of the matrix, as int64 or floats.
        """
        if self.packed:
            octets = np.ascontiguousarray(vector).view(self.dtype)[..., : self.length]
            return octets.astype(I64) if self.sign else numbers.unsigned(octets).astype(I64)
        if numbers.is_float(self.source):
            if numbers.is_float(self.dtype):
                return numbers.float_to_float(self.source, self.dtype)(vector)
            return self._saturated(np.rint(vector.astype(F64)))
        exact = vector.astype(I64) if self.source_sign else numbers.unsigned(vector).astype(I64)
        return exact.astype(self.dtype) if numbers.is_float(self.dtype) else self._saturated(exact)

    def _saturated(self, exact: Array) -> Array:
        limits = np.iinfo(self.dtype if self.sign else numbers.raw_dtype(self.dtype))
        return np.clip(np.nan_to_num(exact), limits.min, limits.max).astype(I64)


class Matrix:
    """A matrix in memory, with its layout and its interpretation."""

    def __init__(
        self, rows: int, columns: int, layout: Attribute, kind: Attribute, context: Context
    ):
        self.dtype, self.sign = _TYPES[_interpretation(kind, context)]
        kinds = spv.CooperativeVectorMatrixLayout
        order = kinds(context.number(layout))
        self.by_columns = order == kinds.ColumnMajorNV
        self.strided = order in (kinds.RowMajorNV, kinds.ColumnMajorNV)
        self.lines, self.width = (columns, rows) if self.by_columns else (rows, columns)

    def line_starts(
        self, pointer: Pointer | Pointers, offset: Array, stride: Array | None
    ) -> list[Pointer | Pointers]:
        """
        Returns a pointer to the start of each row. For a column-major matrix, returns pointers to
        the columns.
        """
        start = moved(pointer, offset)
        packed = np.full((1, 1, 1), self.width * self.dtype.itemsize, I64)
        step = stride.astype(I64) if stride is not None and self.strided else packed
        return [start.plus(step * number, 1, 0) for number in range(self.lines)]

    def load(
        self,
        pointer: Pointer | Pointers,
        offset: Array,
        stride: Array | None,
        mask: Mask,
        load: VectorLoader = load_vector,
    ) -> Array:
        """
        Loads the matrix of each lane as an array (..., rows, columns), in a type wide enough for a
        product.
        """
        form = Plain(self.dtype, (self.width,))
        nothing = np.zeros((1, 1, 1), I64)
        lines_read = [
            load(start, nothing, form, mask) for start in self.line_starts(pointer, offset, stride)
        ]
        lines = widened(np.stack(lines_read, axis=3), self.sign)
        return lines.swapaxes(3, 4) if self.by_columns else lines


def widened(value: Array, sign: bool) -> Array:
    """Converts integers to int64, and floats below 32 bits to binary32."""
    if value.dtype.kind == "i":
        return value.astype(I64) if sign else numbers.unsigned(value).astype(I64)
    return value if value.dtype in (F32, F64) else value.astype(F32)


class Product:
    """Computes the matrix times the vector, plus a bias in memory."""

    def __init__(
        self, op: spv.VectorTimesMatrix, context: Context, load: VectorLoader = load_vector
    ):
        self.rows, columns = context.number(op.m), context.number(op.k)
        if context.number(op.transpose):
            raise InterpreterError(
                f"{op.name} with a transposed matrix needs an OptimalNV layout",
                op,
                "load the matrix without Transpose, and exchange RowMajorNV and ColumnMajorNV",
            )
        bits = spv.CooperativeMatrixOperands(0)
        flags = bits if op.matrix_operands is None else op.matrix_operands.data
        self.convert = Input(op, columns, flags, context)
        self.matrix = Matrix(
            self.rows, columns, op.memory_layout, op.matrix_interpretation, context
        )
        self.dtype = context.plain(op.result.type).dtype
        self.bias: tuple[Plain, bool] | None = None
        if isinstance(op, spv.CooperativeVectorMatrixMulAddOp):
            dtype, sign = _TYPES[_interpretation(op.bias_interpretation, context)]
            self.bias = Plain(dtype, (self.rows,)), sign
        self.load = load

    def __call__(
        self, batch: Batch, vector: Array, pointer: Any, offset: Array, *rest: Any
    ) -> Array:
        stride = rest[-1] if len(rest) % 2 else None
        factors = self.matrix.load(pointer, offset, stride, batch.mask, self.load)
        given = widened(self.convert(vector), True)
        total = np.matmul(factors, given[..., None])[..., 0]
        if self.bias is not None:
            form, sign = self.bias
            total = total + widened(self.load(rest[0], rest[1], form, batch.mask), sign)
        if self.dtype.kind == "i":
            return total.astype(self.dtype)
        return _round_total(total, self.dtype)


@action(spv.CooperativeVectorMatrixMulOp, spv.CooperativeVectorMatrixMulAddOp)
def multiply(op: spv.VectorTimesMatrix, context: Context) -> Function:
    """Computes the matrix times the vector, plus a bias in memory."""
    return Product(op, context)


def _round_total(total: Array, dtype: DType) -> Array:
    return numbers.float_to_float(total.dtype, dtype)(total)


def add_to(pointer: Pointer | Pointers, form: Plain, vector: Array, batch: Batch) -> None:
    """Adds vectors to memory atomically: one invocation after another."""
    for one, lanes in cases(pointer, batch.mask):
        access = memory.Access(one, form, lanes, "an atomic access")
        view = one.memory.view(numbers.raw_dtype(form.dtype)).view(form.dtype).reshape(-1)
        items = access.in_rows()
        if access.count == 1:
            items = items[..., None] * form.shape[0] + np.arange(form.shape[0])
        shape = (*batch.shape, form.shape[0])
        active = np.broadcast_to(True if lanes is None else lanes[..., None], shape)
        places = np.broadcast_to(items, shape)[active]
        accumulate(view, places, np.broadcast_to(vector, shape)[active], np.add)


@action(spv.CooperativeVectorReduceSumAccumulateOp)
def accumulate_vector(op: spv.CooperativeVectorReduceSumAccumulateOp, context: Context) -> Function:
    """Adds the components of a vector to memory."""
    form = context.plain(op.v.type)

    def call(batch: Batch, pointer: Any, offset: Array, vector: Array) -> None:
        add_to(moved(pointer, offset), form, vector, batch)

    return call


def accumulated(op: spv.CooperativeVectorOuterProductAccumulateOp, context: Context) -> Matrix:
    """Returns the matrix in memory to which an instruction adds an outer product."""
    rows, columns = (context.plain(operand.type).shape[0] for operand in (op.a, op.b))
    return Matrix(rows, columns, op.memory_layout, op.matrix_interpretation, context)


@action(spv.CooperativeVectorOuterProductAccumulateOp)
def accumulate_product(
    op: spv.CooperativeVectorOuterProductAccumulateOp, context: Context
) -> Function:
    """Adds the outer product of two vectors to memory, rounded to the type of the matrix."""
    matrix = accumulated(op, context)
    form = Plain(matrix.dtype, (matrix.width,))
    round_to = numbers.float_to_float(F32, matrix.dtype) if matrix.dtype != F32 else None

    def call(
        batch: Batch, pointer: Any, offset: Array, a: Array, b: Array, stride: Array | None = None
    ) -> None:
        outer, inner = (b, a) if matrix.by_columns else (a, b)
        for number, start in enumerate(matrix.line_starts(pointer, offset, stride)):
            product = widened(outer[..., number : number + 1], True) * widened(inner, True)
            if product.dtype == F32 and round_to is not None:
                product = round_to(product)
            add_to(start, form, product.astype(matrix.dtype, copy=False), batch)

    return call
