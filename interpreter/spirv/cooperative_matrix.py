"""
Executes SPV_KHR_cooperative_matrix: a matrix is one array, and instructions act on all of it.

An integer MulAdd is exact modulo 2^N (CM-23). A floating-point MulAdd (CM-25) multiplies and adds
in binary32 in the order of numpy's matrix multiplication, adds C last, and rounds once to the
result's component type. It uses binary64 if a component type is binary64. The option
`component_mapping` assigns components to invocations (CM-18).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.component_maps import count
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.memory import Pointer, Tiles, first_active, leaders
from xdsl_spirv.interpreter.numbers import BOOL, F16, F32, F64, I64, Array, DType
from xdsl_spirv.interpreter.options import Rounding
from xdsl_spirv.interpreter.pointers import has_bytes
from xdsl_spirv.interpreter.semantics import Function, action, constant, value
from xdsl_spirv.interpreter.spirv.dot_product import saturating_add
from xdsl_spirv.interpreter.spirv.memory import accessed


def matrix_form(type: Attribute, context: Context) -> CooperativeMatrix:
    """Returns the run-time representation of a cooperative matrix type."""
    form = context.form(type)
    assert isinstance(form, CooperativeMatrix)
    return form


def carried(form: CooperativeMatrix) -> Function:
    """Returns the conversion from components to the dtype in which a matrix is stored."""
    return (lambda lines: lines) if form.dtype == form.carrier else numbers.widener(form.dtype)


def accessed_matrix(op: Any) -> spv.PointerType:
    """
    Returns the type of the pointer of a load or store. An untyped pointer points to the matrix's
    component type.
    """
    matrix = op.results[0].type if op.results else op.object.type
    return accessed(op.pointer, matrix.element_type)


class Placement:
    """Computes the memory locations of the matrices of a load or store."""

    def __init__(
        self, op: Any, form: CooperativeMatrix, context: Context, by_rows: bool | None = None
    ):
        type = accessed_matrix(op)
        if not has_bytes(type):
            raise InterpreterError(
                f"{op.name} needs byte-addressed memory, not {type.storage_class.data.name} memory",
                op,
                "load from a storage buffer or Workgroup memory",
            )
        pointee = context.plain(type.pointee)
        pointee_bytes = prod(pointee.shape) * pointee.dtype.itemsize
        self.form = form
        self.op = op
        # CM-13: Stride counts elements of the pointee, not of the component type.
        self.size = form.dtype.itemsize
        self.factor, rest = divmod(pointee_bytes, self.size)
        if rest:
            self.factor = 0
        self.pointee_bytes = pointee_bytes
        if by_rows is None:
            layout = spv.CooperativeMatrixLayout(context.number(op.matrix_layout))
            by_rows = layout == spv.CooperativeMatrixLayout.RowMajorKHR
        self.by_rows = by_rows
        self.lines = (form.rows, form.columns) if self.by_rows else (form.columns, form.rows)
        self.axes = (1, 2) if form.scope == spv.Scope.Workgroup else (2,)

    def tiles(self, batch: Batch, pointer: Pointer, stride: Array | None) -> Tiles:
        """
        Returns the memory locations of the matrices. The first active invocation of each scope
        instance gives the pointer and the stride.
        """
        mask = batch.mask
        active = None if mask is None else mask.any(axis=self.axes, keepdims=True)
        start = leaders(pointer, mask, self.axes).items(self.size, active)
        if stride is None:
            return Tiles(pointer.memory, start, np.full((1, 1, 1), self.lines[1]), self.lines)
        one_stride = first_active(stride, mask, self.axes) if stride.size > 1 else stride
        steps = self._in_components(one_stride.astype(np.int64))
        if (steps < 0).any():
            raise InterpreterError(f"CM-12: {self.op.name} has a negative Stride", self.op)
        return Tiles(pointer.memory, start, steps, self.lines)

    def _in_components(self, stride: Array) -> Array:
        if self.factor:
            return stride * self.factor
        total = stride * self.pointee_bytes
        if (total % self.size).any():
            raise InterpreterError(
                f"{self.op.name}: a Stride of {total.flat[0]} bytes is not a multiple of the "
                f"component's size of {self.size} bytes",
                self.op,
            )
        return total // self.size


@action(spv.CooperativeMatrixLoadOp)
def load(op: Any, context: Context, by_rows: bool | None = None) -> Function:
    """Loads one matrix for each subgroup (or workgroup)."""
    form = matrix_form(op.result.type, context)
    place, carry = Placement(op, form, context, by_rows), carried(form)

    def call(batch: Batch, pointer: Pointer, stride: Array | None = None) -> Array:
        lines = carry(place.tiles(batch, pointer, stride).load(form.dtype, batch.mask))
        return lines if place.by_rows else lines.swapaxes(2, 3)

    return call


@action(spv.CooperativeMatrixStoreOp)
def store(op: Any, context: Context, by_rows: bool | None = None) -> Function:
    """Stores the matrix of each subgroup (or workgroup), in order."""
    form = matrix_form(op.object.type, context)
    place = Placement(op, form, context, by_rows)

    def call(batch: Batch, pointer: Pointer, matrix: Array, stride: Array | None = None) -> None:
        lines = matrix if place.by_rows else matrix.swapaxes(2, 3)
        lines = np.ascontiguousarray(lines.astype(form.dtype, copy=False))
        place.tiles(batch, pointer, stride).store(form.dtype, lines, batch.mask)

    return call


@constant(spv.CooperativeMatrixLengthOp, spv.CooperativeMatrixLengthNVOp)
def length(op: Any, context: Context) -> Array:
    """Returns the number of components that each invocation stores under the mapping (CM-18)."""
    form = matrix_form(op.cooperative_matrix_type, context)
    whole = form.scope == spv.Scope.Workgroup
    lanes = context.geometry.invocations if whole else context.geometry.lanes
    return np.full((1, 1, 1), count(context.options.component_mapping, form, lanes), np.int32)


@value(spv.CooperativeMatrixMulAddOp)
def multiply_add(op: spv.CooperativeMatrixMulAddOp, context: Context) -> Function:
    """Computes A * B + C."""
    a, b, c, result = (matrix_form(v.type, context) for v in (op.a, op.b, op.c, op.result))
    bits = (
        spv.CooperativeMatrixOperands(0) if op.matrix_operands is None else op.matrix_operands.data
    )
    if numbers.is_float(result.dtype):
        inputs = (a.dtype, b.dtype, c.dtype)
        if not all(map(numbers.is_float, inputs)):
            raise InterpreterError(
                f"{op.name} of integer matrices cannot have a result of {result.dtype}", op
            )
        rounding = context.options.bfloat16_rounding
        if context.options.accumulation != "binary32":
            return chosen_multiply_add(a.columns, result, context)
        wide = F64 if F64 in (*inputs, result.dtype) else F32
        return float_multiply_add(result.dtype, wide, rounding)
    return integer_multiply_add(a, b, result, spv.CooperativeMatrixOperands(bits))


def float_multiply_add(result: DType, wide: DType, rounding: Rounding) -> Function:
    """
    Returns a function that computes A * B + C in the type `wide` and rounds it once to `result`.
    """
    if result == wide:

        def exact(a: Array, b: Array, c: Array) -> Array:
            total = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
            return _add(total, c.astype(wide, copy=False))

        return exact
    round_to = numbers.float_to_float(wide, result, rounding)
    if wide == F32 and result == F16:
        return lambda a, b, c: numbers.round_to_half(_add(np.matmul(a, b), c))

    def rounded(a: Array, b: Array, c: Array) -> Array:
        total = _add(np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False)), c)
        return round_to(total).astype(F32)

    return rounded


def chosen_multiply_add(length: int, result: CooperativeMatrix, context: Context) -> Function:
    """Returns a floating-point MulAdd with the order of `Options.accumulation` (CM-25)."""
    way, rounding = context.options.accumulation, context.options.bfloat16_rounding
    round_wide = numbers.float_to_float(F64, result.dtype, rounding)

    def rounded(total: Array) -> Array:
        return round_wide(total).astype(result.carrier, copy=False)

    def exact(a: Array, b: Array, c: Array) -> Array:
        return rounded(np.matmul(a.astype(F64), b.astype(F64)) + c)

    def halves(a: Array, b: Array, c: Array) -> Array:
        middle = length // 2
        first = exact(a[..., :middle], b[:, :, :middle], c)
        return exact(a[..., middle:], b[:, :, middle:], first)

    def magnitudes(a: Array, b: Array, c: Array) -> Array:
        context.products += length
        return exact(np.abs(a), np.abs(b), np.abs(c))

    return {"exact": exact, "halves": halves, "magnitudes": magnitudes}[way]


def _add(total: Array, c: Array) -> Array:
    if total.size >= c.size:
        return np.add(total, c, out=total)
    return total + c


def integer_multiply_add(
    a: CooperativeMatrix,
    b: CooperativeMatrix,
    result: CooperativeMatrix,
    bits: spv.CooperativeMatrixOperands,
) -> Function:
    """
    Returns a function that computes the low bits of A * B and adds C, with or without saturation
    (CM-23).
    """
    flags = spv.CooperativeMatrixOperands
    a_sign = bool(bits & flags.MatrixASignedComponentsKHR)
    b_sign = bool(bits & flags.MatrixBSignedComponentsKHR)
    c_sign = bool(bits & flags.MatrixCSignedComponentsKHR)
    result_sign = bool(bits & flags.MatrixResultSignedComponentsKHR)
    saturating = bool(bits & flags.SaturatingAccumulationKHR)
    product = exact_product(a, b, a_sign, b_sign)
    extend = numbers.integer_to_integer(result.dtype, sign=c_sign)

    def add(total: Array, addend: Array) -> Array:
        # C has its own signedness. The result's type determines the limits.
        if c_sign == result_sign:
            return saturating_add(total, addend, result_sign)
        return _saturating_mixed_add(total, addend, result_sign)

    def call(a: Array, b: Array, c: Array) -> Array:
        total = product(a, b).astype(result.dtype, copy=False)
        addend = extend(c)
        return add(total, addend) if saturating else total + addend

    return call


def _saturating_mixed_add(a: Array, b: Array, sign: bool) -> Array:
    """
    Computes a + b with saturation if the operands differ in signedness. With `sign`, a and the
    result are signed and b is unsigned. Otherwise only b is signed.
    """
    total = a + b
    zero, ones = total.dtype.type(0), total.dtype.type(-1)
    if sign:
        largest = total.dtype.type(np.iinfo(total.dtype).max)
        return np.where(numbers.unsigned(b) > numbers.unsigned(largest - a), largest, total)
    above = numbers.unsigned(total) < numbers.unsigned(a)
    below = numbers.unsigned(total) > numbers.unsigned(a)
    return np.where((b >= 0) & above, ones, np.where((b < 0) & below, zero, total))


def exact_product(
    a: CooperativeMatrix, b: CooperativeMatrix, a_sign: bool, b_sign: bool
) -> Function:
    """
    Returns a function that computes A * B modulo 2^64.

    Uses binary32 or binary64 if all partial sums are exact, because numpy multiplies floats faster
    than integers.
    """
    largest = _magnitude(a.dtype, a_sign) * _magnitude(b.dtype, b_sign) * a.columns
    wide = F32 if largest <= 1 << 24 else F64 if largest <= 1 << 53 else I64
    a_extend = _widen(wide, a_sign)
    b_extend = _widen(wide, b_sign)

    def call(a: Array, b: Array) -> Array:
        product = np.matmul(a_extend(a), b_extend(b))
        return product if wide == I64 else product.astype(I64 if wide == F64 else numbers.I32)

    return call


def _magnitude(dtype: DType, sign: bool) -> int:
    """Returns the largest absolute value of an integer type."""
    if dtype == BOOL:
        return 1
    return 1 << (dtype.itemsize * 8 - (1 if sign else 0))


def _widen(wide: DType, sign: bool) -> Function:
    def extend(matrix: Array) -> Array:
        return (matrix if sign else numbers.unsigned(matrix)).astype(wide)

    return extend
