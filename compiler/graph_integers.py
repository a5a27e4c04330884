"""
Translates quantized models to graphs: contractions of bytes with zero points, quantizations.

A contraction of dequantized numbers becomes a contraction of the bytes, as in kernels
(`passes/graph/dequantized`). The scale and the bias between the contraction and the next
quantization become one Rescale, if the bias is a multiple of the accumulator's step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerType, ModuleOp, TensorType, i32, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.compiler.graph_builder import Array, GraphBuilder, Value
from xdsl_spirv.dialects.spirv import tosa
from xdsl_spirv.passes.analysis.pointwise import NotAContraction, as_generic, factors_of, generalize
from xdsl_spirv.passes.analysis.values import erase_dead
from xdsl_spirv.passes.graph.decompose_linalg import DecomposeLinalgPass
from xdsl_spirv.passes.graph.dequantized import with_integers
from xdsl_spirv.passes.graph.narrow_to_32_bits import NarrowTo32BitsPass
from xdsl_spirv.passes.graph.scalars_into_loops import ScalarsIntoLoopsPass
from xdsl_spirv.passes.graph.zero_points import Shifted, match_shifted


def multiply_integers(module: ModuleOp) -> ModuleOp:
    """
    Returns a copy of a module in which contractions of dequantized bytes multiply the bytes. All
    structured operations become `linalg.generic`.
    """
    copy = module.clone()
    for op in [op for op in copy.walk() if isinstance(op, LinalgStructuredOperation)]:
        operands = list(op.operands)
        if with_integers(op) is not None:
            for operand in operands:
                erase_dead(operand)
        elif not isinstance(op, GenericOp | FillOp) and generalize(op) is None:
            as_generic(op)
    return copy


def take_narrow(argument: SSAValue) -> bool:
    """Changes an i64 argument to i32, and extends it for its users. Returns True if changed."""
    kind, block = argument.type, argument.owner
    if not isinstance(kind, TensorType) or kind.get_element_type() != i64:
        return False
    assert isinstance(block, Block)
    narrow = Rewriter.replace_value_with_new_type(argument, TensorType(i32, kind.get_shape()))
    wide = arith.ExtSIOp.create(operands=[narrow], result_types=[kind])
    narrow.replace_uses_with_if(wide.results[0], lambda use: use.operation is not wide)
    Rewriter.insert_op(wide, InsertPoint.at_start(block))
    return True


def narrow_numbers(module: ModuleOp) -> None:
    """
    Narrows integers to i32 if their values provably fit. The passes are the same as for kernels.
    """
    for rewriting in (DecomposeLinalgPass(), ScalarsIntoLoopsPass(), NarrowTo32BitsPass()):
        rewriting.apply(Context(), module)


def zero_points(op: GenericOp) -> list[Shifted] | None:
    """
    Returns the two factors of a sum of products of bytes, each with its zero point. Returns None
    for other operations.
    """
    block = op.body.block
    if block.args[-1].type != IntegerType(32):
        return None
    try:
        factors = [match_shifted(factor.value, block, op) for factor in factors_of(block)]
    except NotAContraction:
        return None
    found = [one for one in factors if one is not None and one.number is not None]
    bytes_ = all(block.args[one.input].type == IntegerType(8) for one in found)
    if len(found) != 2 or not bytes_ or {one.input for one in found} != {0, 1}:
        return None
    return sorted(found, key=lambda one: one.input)


def as_signed(b: GraphBuilder, value: Value, factor: Shifted) -> tuple[Value, Array]:
    """
    Returns bytes and their zero point in signed form. Unsigned bytes become signed by flipping the
    highest bit.
    """
    if not factor.signed:
        factor, value = factor.with_other_sign(), flip_sign(b, value)
    assert factor.number is not None
    return value, np.array([factor.number], np.int8)


def flip_sign(b: GraphBuilder, value: Value) -> Value:
    """
    Flips the highest bit of bytes. If `value` is the result of such a flip, returns the flip's
    operand.
    """
    if isinstance(value, SSAValue) and isinstance(value.owner, tosa.TosaBitwiseXorOp):
        known = b.arrays.get(value.owner.operands[1])
        if known is not None and known.dtype == np.int8 and (known == -128).all():
            return value.owner.operands[0]
    mask = np.full([1] * len(b.shape(value)), -128, np.int8)
    return b.emit(tosa.TosaBitwiseXorOp, [value, mask], b.shape(value))


@dataclass(frozen=True)
class Quantization:
    """A quantization to bytes, `round(x / scale) + zero`, saturated to signed or unsigned bytes."""

    scale: float
    zero: int
    signed: bool


STEPS = (
    ("arith.divf", "math.roundeven", "arith.addf", "arith.cmpf", "arith.select"),
    ("arith.divf", "math.roundeven", "arith.cmpf", "arith.select"),
)
"""
The operations that compute a quantization, in order, up to the clamp at its lower bound: with a
zero point, and without one.
"""


TO_INTEGERS = {"arith.fptosi", "arith.fptoui", "arith.trunci"}


def quantization(op: GenericOp) -> Quantization | None:
    """Returns the quantization to bytes that an operation computes, or None."""
    block = op.body.block
    body = [o for o in block.ops if not isinstance(o, arith.ConstantOp)]
    if len(op.inputs) != 1 or len(op.results) != 1 or block.args[-1].type != IntegerType(8):
        return None
    names = [o.name for o in body]
    steps = next((s for s in STEPS if tuple(names[: len(s)]) == s), None)
    if steps is None or len({str(m.data) for m in op.indexing_maps}) != 1:
        return None
    value: SSAValue = block.args[0]
    rest = [o.name for o in body[len(steps) :]]
    numbers: list[float] = []
    for inner in body[:-1]:
        if isinstance(inner, arith.SelectOp):
            chain, others = inner.lhs, [inner.rhs]
        else:
            chain, *others = inner.operands
        if chain is not value:
            return None
        if not isinstance(inner, arith.CmpfOp):
            value = inner.results[0]
        for other in others:
            constant = other.owner
            if not isinstance(constant, arith.ConstantOp):
                return None
            numbers.append(
                constant.value.value.data if isinstance(constant.value, FloatAttr) else 0
            )
    if rest[:1] != ["arith.minimumf"] or not set(rest[1:-1]) <= TO_INTEGERS:
        return None
    scale, *zero, compared, low, high = numbers
    if compared != low or (low, high) not in ((-128, 127), (0, 255)) or len(zero) > 1:
        return None
    return Quantization(scale, int(zero[0]) if zero else 0, low < 0)


def quantize(b: GraphBuilder, x: Value, by: Quantization) -> Value:
    """
    Quantizes a value to bytes: by one Rescale if the value is an accumulator and its scale and bias
    permit, otherwise in floats.
    """
    zero, shape = by.zero - (0 if by.signed else 128), b.shape(x)
    result = _rescale(b, x, by.scale, zero) if isinstance(x, SSAValue) else None
    if result is None:
        ones = [1] * len(shape)

        def fill(number: float, dtype: type) -> Array:
            return np.full(ones, number, dtype)

        inverse = b.emit(tosa.TosaReciprocalOp, [fill(by.scale, np.float32)], ones)
        shift = np.zeros(1, np.int8)
        result = b.emit(tosa.TosaMulOp, [x, inverse, shift], shape)
        result = b.emit(tosa.TosaCastOp, [result], shape, np.int32)
        for cls, bound in ((tosa.TosaMaximumOp, -128), (tosa.TosaMinimumOp, 127)):
            limits = [result, fill(bound - zero, np.int32)]
            result = b.emit(cls, limits, shape, nan_mode=tosa.NaNMode.Propagate)
        result = b.emit(tosa.TosaAddOp, [result, fill(zero, np.int32)], shape)
        result = b.emit(tosa.TosaCastOp, [result], shape, np.int8)
    return result if by.signed else flip_sign(b, result)


def _known_operand(b: GraphBuilder, op: tosa.TosaOp) -> tuple[SSAValue, Array] | None:
    """Returns (other operand, constant) of a sum or product with a constant, or None."""
    x, y = op.operands[:2]
    if x in b.arrays:
        x, y = y, x
    return (x, b.arrays[y]) if y in b.arrays else None


def _rescale(b: GraphBuilder, x: SSAValue, step: float, zero: int) -> Value | None:
    """
    Converts accumulators to bytes (`step` is their scale, `zero` their zero point) by one Rescale,
    which includes a scale and a bias. Returns None if one Rescale cannot express this.
    """
    shape = b.shape(x)
    bias: Array = np.zeros([1] * len(shape), np.float64)
    scale: Array = np.full([1] * len(shape), 1.0)
    if isinstance(x.owner, tosa.TosaAddOp) and (pair := _known_operand(b, x.owner)):
        x, bias = pair[0], pair[1].astype(np.float64)
    while isinstance(x.owner, tosa.TosaMulOp) and (pair := _known_operand(b, x.owner)):
        x, scale = pair[0], scale * pair[1].astype(np.float64)
    if not isinstance(x.owner, tosa.TosaCastOp) or b.dtype(x.owner.operands[0]) != np.int32:
        return None
    sums, whole = x.owner.operands[0], np.rint(bias / scale)
    axes = [k for k, extent in enumerate(scale.shape) if extent > 1]
    if np.abs(bias / scale - whole).max() > 1e-2 or b.shape(sums) != shape or len(axes) > 1:
        return None
    order = list(range(len(shape)))
    if axes and axes[0] != len(shape) - 1:
        # A scale per channel must be along the last dimension, perhaps before a transpose.
        if not isinstance(sums.owner, tosa.TosaTransposeOp):
            return None
        order, sums = sums.owner.vector("perms"), sums.owner.operands[0]
        if order[axes[0]] != len(shape) - 1:
            return None
    ratio = (scale / step).ravel()
    fractions, exponents = np.frexp(ratio)
    multiplier, shift = np.rint(fractions * (1 << 31)).astype(np.int64), 31 - exponents
    over = multiplier == 1 << 31
    multiplier, shift = np.where(over, 1 << 30, multiplier), np.where(over, shift - 1, shift)
    if (ratio <= 0).any() or shift.min() < 32 or shift.max() > 62:
        return None
    inner = [b.shape(sums)[k] for k in range(len(shape))]
    total: Value = sums
    if whole.any():
        inverse = [order.index(k) for k in range(len(shape))]
        added = whole.transpose(inverse).astype(np.int32)
        total = b.emit(tosa.TosaAddOp, [sums, added], inner)
    result = b.emit(
        tosa.TosaRescaleOp,
        [total, multiplier.astype(np.int32), shift.astype(np.int8), np.zeros(1, np.int32),
         np.array([zero], np.int8)],
        inner,
        np.int8,
        scale32=True,
        rounding_mode=tosa.RoundingMode.SingleRound,
        per_channel=math.prod(multiplier.shape) > 1,
        input_unsigned=False,
        output_unsigned=False,
    )  # fmt: skip
    return b.transpose(result, order)
