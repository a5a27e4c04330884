"""
Executes GLSL.std.450 in binary64, rounded once, which is more precise than required.

Fma is fused. If an operand of FMin, FMax or FClamp is NaN, which SPIR-V leaves undefined, the other
operand is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.scalars import meanings
from xdsl_spirv.dialects.spirv import glsl as ops
from xdsl_spirv.interpreter import determinants
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.kernel.math import FUNCTIONS, of_the_same_name
from xdsl_spirv.interpreter.layout import Layout, storer
from xdsl_spirv.interpreter.numbers import F16, F32, F64, I32, Array
from xdsl_spirv.interpreter.pointers import has_bytes, pointer_type
from xdsl_spirv.interpreter.semantics import Function, action, value, value_of, value_table
from xdsl_spirv.interpreter.spirv.memory import placed, store_variable


def clamp(low: Function, high: Function) -> Function:
    """Returns the function min(max(x, low), high)."""
    return lambda x, a, b: low(high(x, a), b)


def find_signed_msb(a: Array) -> Array:
    """
    Returns the position of the highest bit that differs from the sign. Returns -1 for 0 and -1.
    """
    return meanings.highest_bit(np.where(a < 0, ~a, a))


def step(edge: Array, x: Array) -> Array:
    """Returns 0 where x is below the edge, otherwise 1."""
    return np.where(x < edge, 0, 1).astype(x.dtype)


def _smooth_step(low: Array, high: Array, x: Array) -> Array:
    t = np.clip((x - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def _mix(x: Array, y: Array, a: Array) -> Array:
    return x * (1 - a) + y * a


def _fract(a: Array) -> Array:
    return a - np.floor(a)


def _reflect(incident: Array, normal: Array) -> Array:
    return incident - 2 * (incident * normal).sum(axis=-1, keepdims=True) * normal


def _face_forward(normal: Array, incident: Array, reference: Array) -> Array:
    return np.where((reference * incident).sum(axis=-1, keepdims=True) < 0, normal, -normal)


def _length(a: Array) -> Array:
    return np.sqrt((a * a).sum(axis=-1))


def cross(a: Array, b: Array) -> Array:
    """Computes the cross product of vectors of 3 components."""
    x, y = np.broadcast_arrays(a, b)
    return np.cross(x, y)


value_table(
    {
        **of_the_same_name(ops),
        ops.GLFAbsOp: np.abs,
        ops.GLFSignOp: np.sign,
        ops.GLFractOp: ew.wide_math(_fract),
        ops.GLInverseSqrtOp: FUNCTIONS[math.RsqrtOp],
        ops.GLPowOp: FUNCTIONS[math.PowFOp],
        ops.GLRadiansOp: ew.wide_math(np.radians),
        ops.GLDegreesOp: ew.wide_math(np.degrees),
        ops.GLSAbsOp: np.abs,
        ops.GLSSignOp: np.sign,
        ops.GLFindILsbOp: meanings.lowest_bit,
        ops.GLFindSMsbOp: find_signed_msb,
        ops.GLFindUMsbOp: meanings.highest_bit,
        ops.GLFMinOp: np.fmin,
        ops.GLFMaxOp: np.fmax,
        ops.GLNMinOp: np.fmin,
        ops.GLNMaxOp: np.fmax,
        ops.GLUMinOp: ew.on_unsigned(np.minimum),
        ops.GLSMinOp: np.minimum,
        ops.GLUMaxOp: ew.on_unsigned(np.maximum),
        ops.GLSMaxOp: np.maximum,
        ops.GLFClampOp: clamp(np.fmin, np.fmax),
        ops.GLNClampOp: clamp(np.fmin, np.fmax),
        ops.GLUClampOp: clamp(ew.on_unsigned(np.minimum), ew.on_unsigned(np.maximum)),
        ops.GLSClampOp: clamp(np.minimum, np.maximum),
        spv.GLFMixOp: ew.wide_math(_mix),
        ops.GLStepOp: step,
        ops.GLSmoothStepOp: ew.wide_math(_smooth_step),
        ops.GLCrossOp: ew.wide_math(cross),
        ops.GLReflectOp: ew.wide_math(_reflect),
        ops.GLFaceForwardOp: ew.wide_math(_face_forward),
        spv.GLPackDouble2x32Op: lambda a: np.ascontiguousarray(a).view(F64)[..., 0],
        spv.GLUnpackDouble2x32Op: lambda a: np.ascontiguousarray(a)[..., None].view(I32),
        # The first component is in the lower half.
        spv.GLPackHalf2x16Op: lambda a: np.ascontiguousarray(a.astype(F16)).view(I32)[..., 0],
        spv.GLUnpackHalf2x16Op: lambda a: np.ascontiguousarray(a)[..., None].view(F16).astype(F32),
        spv.GLDeterminantOp: determinants.determinant,
        spv.GLMatrixInverseOp: determinants.inverse,
    }
)


@value(ops.GLNormalizeOp)
def normalize(op: ops.GLNormalizeOp, context: Context) -> Function:
    """Divides a vector by its length. For a scalar, returns its sign."""
    if not context.plain(op.result.type).shape:
        return np.sign
    return ew.wide_math(lambda a: a / _length(a)[..., None])


@value(spv.GLLengthOp)
def length(op: spv.GLLengthOp, context: Context) -> Function:
    """Computes the Euclidean length of a vector. For a scalar, returns its absolute value."""
    return ew.wide_math(_length) if context.plain(op.operand.type).shape else np.abs


@value(spv.GLDistanceOp)
def distance(op: spv.GLDistanceOp, context: Context) -> Function:
    """Computes the length of the difference."""
    if not context.plain(op.p0.type).shape:
        return lambda a, b: np.abs(a - b)
    return ew.wide_math(lambda a, b: _length(a - b))


@value(spv.GLRefractOp)
def refract(op: spv.GLRefractOp, context: Context) -> Function:
    """
    Computes eta i - (eta n.i + sqrt(k)) n with k = 1 - eta^2 (1 - (n.i)^2). Returns 0 where k < 0.
    """
    vector = bool(context.plain(op.i.type).shape)

    def call(incident: Array, normal: Array, eta: Array) -> Array:
        product = incident * normal
        cosine = product.sum(axis=-1, keepdims=True) if vector else product
        ratio = eta[..., None] if vector else eta
        k = 1 - ratio * ratio * (1 - cosine * cosine)
        bent = ratio * incident - (ratio * cosine + np.sqrt(np.maximum(k, 0))) * normal
        return np.where(k < 0, 0, bent)

    return ew.wide_math(call)


@value_of(spv.GLLdexpOp)
def ldexp(x: Array, exponent: Array) -> Array:
    """Returns x * 2^exp."""
    scaled = np.ldexp(x.astype(F64), np.clip(exponent, -(1 << 14), 1 << 14).astype(I32))
    return scaled.astype(x.dtype)


def _frexp(a: Array) -> tuple[Array, Array]:
    """Returns the significand, with magnitude in [0.5, 1), and the exponent."""
    significand, power = np.frexp(a)
    return significand, power.astype(I32)


PARTS: dict[type[Operation], Callable[[Array], tuple[Array, Array]]] = {
    spv.GLModfStructOp: np.modf,
    spv.GLFrexpStructOp: _frexp,
    spv.GLModfOp: np.modf,
    spv.GLFrexpOp: _frexp,
}
"""
Maps an instruction to the function that splits a float: into fraction and whole part, or into
significand and exponent.
"""


@value(spv.GLModfStructOp, spv.GLFrexpStructOp)
def parts(op: Operation, context: Context) -> Function:
    """Returns both parts of a float (see `PARTS`) as one struct."""
    return PARTS[type(op)]


@action(spv.GLModfOp, spv.GLFrexpOp)
def parts_by_pointer(op: spv.GLPointerForm, context: Context) -> Function:
    """Returns the fraction or significand. Stores the other part through the pointer."""
    split, type = PARTS[op.__class__], pointer_type(op.pointer)
    write = storer(placed(op.pointer, type.pointee, context), Layout(context))

    def call(batch: Batch, value: Array, pointer: Any) -> Array:
        first, second = split(value)
        if has_bytes(type):
            write(pointer, second, batch.mask)
        else:
            store_variable(context, batch, pointer, second)
        return first

    return call


_NORMALIZED: dict[type[Operation], tuple[int, bool]] = {
    spv.GLPackSnorm4x8Op: (8, True),
    spv.GLPackUnorm4x8Op: (8, False),
    spv.GLPackSnorm2x16Op: (16, True),
    spv.GLPackUnorm2x16Op: (16, False),
    spv.GLUnpackSnorm4x8Op: (8, True),
    spv.GLUnpackUnorm4x8Op: (8, False),
    spv.GLUnpackSnorm2x16Op: (16, True),
    spv.GLUnpackUnorm2x16Op: (16, False),
}
"""Maps an instruction to the bits of a component, and to True if components are signed."""


def _component(bits: int, sign: bool) -> tuple[np.dtype, float]:
    dtype = np.dtype(f"{'i' if sign else 'u'}{bits // 8}")
    return dtype, float(np.iinfo(dtype).max)


@value(spv.GLPackSnorm4x8Op, spv.GLPackUnorm4x8Op, spv.GLPackSnorm2x16Op, spv.GLPackUnorm2x16Op)
def pack_normalized(op: Operation, context: Context) -> Callable[[Array], Array]:
    """
    Packs components of [-1, 1] or [0, 1] as integers. The first one is in the lowest bits. NaN
    becomes 0.
    """
    bits, sign = _NORMALIZED[type(op)]
    dtype, scale = _component(bits, sign)

    def call(a: Array) -> Array:
        clamped = np.nan_to_num(np.clip(a.astype(F64), -1 if sign else 0, 1))
        return np.ascontiguousarray(np.rint(clamped * scale).astype(dtype)).view(I32)[..., 0]

    return call


@value(
    spv.GLUnpackSnorm4x8Op,
    spv.GLUnpackUnorm4x8Op,
    spv.GLUnpackSnorm2x16Op,
    spv.GLUnpackUnorm2x16Op,
)
def unpack_normalized(op: Operation, context: Context) -> Callable[[Array], Array]:
    """Unpacks integers to components of [-1, 1] or [0, 1]."""
    bits, sign = _NORMALIZED[type(op)]
    dtype, scale = _component(bits, sign)

    def call(a: Array) -> Array:
        parts = np.ascontiguousarray(a)[..., None].view(dtype).astype(F64) / scale
        return np.clip(parts, -1, 1).astype(F32)

    return call
