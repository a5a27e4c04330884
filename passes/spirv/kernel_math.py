"""
Lowers `math`, and operations of `arith` that GLSL.std.450 has, to instructions.

Each function is computed in a type that its instructions support. f16 and bf16 are computed in
binary32 and rounded, unless the function's record says otherwise. Powers with a small constant
exponent become products.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IntegerAttr, IntegerType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.scalars.functions import FUNCTIONS, ScalarFunction
from xdsl_spirv.dialects.scalars.sequences import small_power
from xdsl_spirv.dialects.scalars.values import Values, element_of, like, width_of
from xdsl_spirv.dialects.spirv import conversion, glsl, logic
from xdsl_spirv.passes.spirv.kernel_code import Compute, KernelCode, refuse
from xdsl_spirv.passes.spirv.kernel_scalars import by_kind, on_floats

MAX_REPEATED = 64
"""Largest integer exponent for which a power becomes products."""


def convert_function(function: ScalarFunction) -> Compute:
    """Returns the conversion of a function to its instructions, in a width that they support."""

    def convert(code: KernelCode, op: Operation) -> SSAValue:
        stated = code.type(op.operands[0].type, op)
        computed = _computed_type(function, op, stated)
        operands = code.operands(op)
        if computed != stated:
            operands = [
                _resize_value(code, v, computed) if v.type == stated else v for v in operands
            ]
        result = function.sequence(Values(code, computed, width_of(stated)), *operands)
        if computed != stated and result.type == computed:
            result = _resize_value(code, result, stated)
        return result

    return convert


def _computed_type(function: ScalarFunction, op: Operation, stated: Attribute) -> Attribute:
    width, widest = width_of(stated), max(function.widths)
    if width in function.widths and not isinstance(element_of(stated), BFloat16Type):
        return stated
    extended = i32 if isinstance(element_of(stated), IntegerType) else f32
    if width > widest:
        refuse(
            op,
            f"Vulkan computes this function in {widest} bits: truncate the operand to {extended} "
            "first",
        )
    return like(stated, extended)


def _resize_value(code: KernelCode, value: SSAValue, type: Attribute) -> SSAValue:
    integer = isinstance(element_of(type), IntegerType)
    kind = conversion.UConvertOp if integer else conversion.FConvertOp
    return Values(code, type).op(kind, value)


def by_known_power(general: ScalarFunction) -> Compute:
    """
    Returns the conversion of x^y: to products or a root if y is a small constant, else `general`.
    """

    def convert(code: KernelCode, op: Operation) -> SSAValue:
        exponent = _constant_of(op.operands[1])
        known = exponent is not None and abs(exponent) <= MAX_REPEATED
        if exponent is None or not known or (exponent % 1 and abs(exponent) != 0.5):
            return convert_function(general)(code, op)

        def products(v: Values, x: SSAValue, y: SSAValue) -> SSAValue:
            root = v.op(glsl.GLSqrtOp, x) if exponent % 1 else small_power(v, x, int(abs(exponent)))
            return v.div(v.number(1.0), root) if exponent < 0 else root

        return convert_function(replace(general, sequence=products))(code, op)

    return convert


def _constant_of(value: SSAValue) -> float | None:
    if isinstance(value.owner, arith.ConstantOp):
        attribute = value.owner.value
        if isinstance(attribute, FloatAttr | IntegerAttr):
            return attribute.value.data
    return None


HANDLERS: dict[type[Operation], Compute] = {
    arith.MinSIOp: by_kind(logic.LogicalOrOp, glsl.GLSMinOp),
    arith.MaxSIOp: by_kind(logic.LogicalAndOp, glsl.GLSMaxOp),
    arith.MinUIOp: by_kind(logic.LogicalAndOp, glsl.GLUMinOp),
    arith.MaxUIOp: by_kind(logic.LogicalOrOp, glsl.GLUMaxOp),
    arith.MinnumfOp: on_floats(lambda v, a, b: v.op(glsl.GLNMinOp, a, b)),
    arith.MaxnumfOp: on_floats(lambda v, a, b: v.op(glsl.GLNMaxOp, a, b)),
    **{op: convert_function(function) for op, function in FUNCTIONS.items()},
    **{op: by_known_power(FUNCTIONS[op]) for op in (math.PowFOp, math.FPowIOp)},
}
