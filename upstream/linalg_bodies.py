"""
Builds the bodies of named operations of `linalg`. A body computes one iteration of the loops.

Operands whose type differs from the result's type are first cast to it, as in MLIR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IntegerType, i1
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.linalg_elementwise import arithmetic_of

Body: TypeAlias = Callable[[Sequence[Attribute]], Region]
"""A function that builds the body of an operation from the element types of its operands."""


def multiply_add(types: Sequence[Attribute], signed: tuple[bool, bool] = (True, True)) -> Region:
    """Builds `cast(a) * cast(b) + c` with arguments a, b, c of these types, in xDSL's order."""
    block = Block(arg_types=types)
    given = zip(block.args, signed, strict=False)
    a, b = (cast_to(block, arg, types[-1], has_sign) for arg, has_sign in given)
    of, result = arithmetic_of(types[-1]), types[-1:]
    product = of["mul"].create(operands=[a, b], result_types=result)
    total = of["add"].create(operands=[*product.results, block.args[2]], result_types=result)
    block.add_ops([product, total, ops.YieldOp(total)])
    return Region(block)


def multiply_add_quantized(types: Sequence[Attribute]) -> Region:
    """Builds `c + (cast(a) - cast(za)) * (cast(b) - cast(zb))` with arguments a, b, za, zb, c."""
    block = Block(arg_types=types)
    result = types[-1]
    integer = isinstance(result, IntegerType)
    subtract = arith.SubiOp if integer else arith.SubfOp
    a, b, za, zb, c = block.args

    def subtract_zero_point(value: SSAValue, zero: SSAValue) -> Operation:
        minuend = cast_to(block, value, result)
        op = subtract(minuend, cast_to(block, zero, result))
        block.add_op(op)
        return op

    factors = subtract_zero_point(a, za), subtract_zero_point(b, zb)
    product = (arith.MuliOp if integer else arith.MulfOp).create(
        operands=[factor.results[0] for factor in factors], result_types=[result]
    )
    total = (arith.AddiOp if integer else arith.AddfOp)(c, product)
    block.add_ops([product, total, ops.YieldOp(total)])
    return Region(block)


_POOLED: dict[str, tuple[type[Operation], type[Operation]]] = {
    "sum": (arith.AddiOp, arith.AddfOp),
    "max": (arith.MaxSIOp, arith.MaximumfOp),
    "max_unsigned": (arith.MaxUIOp, arith.MaximumfOp),
    "min": (arith.MinSIOp, arith.MinimumfOp),
    "min_unsigned": (arith.MinUIOp, arith.MinimumfOp),
}
"""Maps each kind of pooling to its operations on integers and on floats."""


def pool(types: Sequence[Attribute], kind: str) -> Region:
    """
    Builds `kind(c, cast(a))` with arguments a, b and c. The body does not read b, an element of the
    window.
    """
    block = Block(arg_types=types)
    value = cast_to(block, block.args[0], types[-1], not kind.endswith("unsigned"))
    if kind.endswith("unsigned") and not isinstance(types[-1], IntegerType):
        raise VerifyException(f"{kind} is not defined on {types[-1]}: use the signed operation")
    operation = _POOLED[kind][0 if isinstance(types[-1], IntegerType) else 1]
    operation = arithmetic_of(i1)["add"] if kind == "sum" and types[-1] == i1 else operation
    combined = operation.create(operands=[block.args[2], value], result_types=[types[-1]])
    block.add_ops([combined, ops.YieldOp(combined)])
    return Region(block)


def cast_to(block: Block, value: SSAValue, type: Attribute, signed: bool = True) -> SSAValue:
    """Casts a value to another type, as MLIR's `cast_signed` or `cast_unsigned` does."""
    source = value.type
    if source == type:
        return value
    if not isinstance(source, FixedBitwidthType) or not isinstance(type, FixedBitwidthType):
        raise VerifyException(
            f"no operation casts {source} to {type}: use operands of the same type"
        )
    wider = type.bitwidth > source.bitwidth
    extension = arith.ExtSIOp if signed else arith.ExtUIOp
    match isinstance(source, IntegerType), isinstance(type, IntegerType):
        case True, True:
            kind = extension if wider else arith.TruncIOp
        case True, False:
            kind = arith.SIToFPOp if signed else arith.UIToFPOp
        case False, True:
            kind = arith.FPToSIOp if signed else arith.FPToUIOp
        case _:
            kind = arith.ExtFOp if wider else arith.TruncFOp
    op = kind.create(operands=[value], result_types=[type])
    block.add_op(op)
    return op.results[0]
