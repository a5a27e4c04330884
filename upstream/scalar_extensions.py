"""
Adds operations of `arith` and `math` that models contain and xDSL 0.74 lacks.

Conversions, comparisons and selections of xDSL 0.74 take only scalars, although its sums and
products also take tensors and vectors, and MLIR's operations all do. Pull requests to xDSL would
add each class, and change the constraints in `arith`.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import (
    FastMathFlagsAttr,
    FloatingPointLikeBinaryOperation,
    boolLike,
    floatingPointLike,
    signlessIntegerLike,
)
from xdsl.dialects.builtin import (
    AnyFloat,
    AnyFloatConstr,
    IndexType,
    IntegerType,
    TensorType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    OperandDef,
    ParsePropInAttrDict,
    ResultDef,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.on_demand import operations_of


@irdl_op_definition
class RemfOp(FloatingPointLikeBinaryOperation):
    """
    The remainder of a division that rounds toward 0. The remainder has the sign of the dividend.
    """

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastUIOp(IRDLOperation):
    """Casts between `index` and an integer that is read as unsigned."""

    name = "arith.index_castui"
    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"
    traits = traits_def(Pure())

    def __init__(self, input: SSAValue | Operation, target_type: Attribute):
        super().__init__(operands=[input], result_types=[target_type])

    def verify_(self) -> None:
        kinds = {type(element_of(value.type)) for value in (self.input, self.result)}
        if kinds != {IndexType, IntegerType}:
            raise VerifyException(
                f"arith.index_castui converts between index and an integer, not {self.input.type} "
                f"to {self.result.type}"
            )


class FloatClassOperation(IRDLOperation, ABC):
    """The base class of operations that classify a float."""

    operand = operand_def(AnyFloatConstr)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(i1)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$operand attr-dict `:` type($operand)"
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation):
        super().__init__(
            operands=[operand],
            properties={"fastmath": FastMathFlagsAttr("none")},
            result_types=[i1],
        )


@irdl_op_definition
class IsNaNOp(FloatClassOperation):
    """True if the operand is NaN."""

    name = "math.isnan"


@irdl_op_definition
class IsInfOp(FloatClassOperation):
    """True if the operand is infinite."""

    name = "math.isinf"


@irdl_op_definition
class IsFiniteOp(FloatClassOperation):
    """True if the operand is neither infinite nor NaN."""

    name = "math.isfinite"


CONVERSIONS: dict[type[IRDLOperation], tuple[AttrConstraint, AttrConstraint]] = {
    arith.ExtSIOp: (signlessIntegerLike, signlessIntegerLike),
    arith.ExtUIOp: (signlessIntegerLike, signlessIntegerLike),
    arith.TruncIOp: (signlessIntegerLike, signlessIntegerLike),
    arith.IndexCastOp: (signlessIntegerLike, signlessIntegerLike),
    arith.SIToFPOp: (signlessIntegerLike, floatingPointLike),
    arith.UIToFPOp: (signlessIntegerLike, floatingPointLike),
    arith.FPToSIOp: (floatingPointLike, signlessIntegerLike),
    arith.FPToUIOp: (floatingPointLike, signlessIntegerLike),
}

COMPARISONS: tuple[type[IRDLOperation], ...] = (arith.CmpiOp, arith.CmpfOp)


def element_of(type: Attribute) -> Attribute:
    """Returns the element type of a tensor or vector. Returns a scalar type unchanged."""
    return type.element_type if isinstance(type, TensorType | VectorType) else type


def of_elements(type: Attribute, element: Attribute) -> Attribute:
    """Returns a type with the sizes of `type` and another element type."""
    if isinstance(type, TensorType):
        return TensorType(element, type.shape, type.encoding)
    if isinstance(type, VectorType):
        return VectorType(element, type.shape, type.scalable_dims)
    return element


def of_each_element(op: Operation, operands: Sequence[SSAValue]) -> Operation:
    """
    Returns a detached copy of an operation. The operation is on tensors, its copy on the scalars
    `operands`.
    """
    return op.create(
        operands=operands,
        result_types=[element_of(result.type) for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
    )


@cache
def _complete_arith() -> None:
    """Makes xDSL's conversions, comparisons and selections accept tensors."""
    for cls, (source, target) in CONVERSIONS.items():
        definition = cls.get_irdl_definition()
        definition.operands = [("input", OperandDef(source))]
        definition.results = [("result", ResultDef(target))]
        setattr(cls, "verify_", _verify_conversion)
    for cls in COMPARISONS:
        cls.get_irdl_definition().results = [("result", ResultDef(boolLike))]
        setattr(cls, "verify_", _verify_comparison)
        setattr(cls, "parse", classmethod(_with_sizes(cls.parse)))
    (_, *others) = arith.SelectOp.get_irdl_definition().operands
    arith.SelectOp.get_irdl_definition().operands = [("cond", OperandDef(boolLike)), *others]
    setattr(arith.SelectOp, "verify_", _verify_selection)
    setattr(arith.SelectOp, "parse", classmethod(_parse_selection))
    setattr(arith.SelectOp, "print", _print_selection)


def _verify_conversion(op: IRDLOperation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if of_elements(source, element_of(target)) != target:
        raise VerifyException(f"{source} and {target} should have the same sizes")
    before, after = element_of(source), element_of(target)
    if isinstance(op, arith.IndexCastOp):
        if isinstance(before, IndexType) == isinstance(after, IndexType):
            raise VerifyException(f"one of {source} and {target} should have the type index")
        return
    if not all(isinstance(type, IntegerType | AnyFloat) for type in (before, after)):
        raise VerifyException(f"{op.name} cannot convert index: use arith.index_cast")
    if isinstance(before, IntegerType) and isinstance(after, IntegerType):
        wider = after.width.data > before.width.data
        if after == before or wider == isinstance(op, arith.TruncIOp):
            kind = "smaller" if isinstance(op, arith.TruncIOp) else "larger"
            raise VerifyException(f"Destination bit-width must be {kind} than the input bit-width")


def _verify_comparison(op: IRDLOperation) -> None:
    wanted = of_elements(op.operands[0].type, i1)
    if op.results[0].type != wanted:
        raise VerifyException(f"the result should be {wanted}, not {op.results[0].type}")


def _verify_selection(op: arith.SelectOp) -> None:
    condition = op.cond.type
    if condition != i1 and condition != of_elements(op.result.type, i1):
        raise VerifyException(
            f"the condition should be i1, or i1 with the sizes of the operands, not {condition}"
        )


def _parse_selection(cls: type[arith.SelectOp], parser: Parser) -> Operation:
    """
    Parses `%c, %a, %b : f32`. The condition's type may precede the operands' type: `: tensor<4xi1>,
    tensor<4xf32>`.
    """
    operands = [parser.parse_unresolved_operand()]
    for _ in range(2):
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    types = [parser.parse_type()]
    if parser.parse_optional_punctuation(","):
        types.append(parser.parse_type())
    given = parser.resolve_operands(
        operands, [types[0] if len(types) > 1 else i1, types[-1], types[-1]], parser.pos
    )
    return cls.create(operands=given, result_types=[types[-1]], attributes=attributes)


def _print_selection(op: arith.SelectOp, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    types = [op.result.type] if op.cond.type == i1 else [op.cond.type, op.result.type]
    printer.print_list(types, printer.print_attribute)


def _with_sizes(parse: Callable[[Parser], Operation]) -> Callable[[Any, Parser], Operation]:
    """
    Wraps a parser of comparisons so that the result has the sizes of the operands, and elements of
    i1.
    """

    def parse_sizes(cls: type[Operation], parser: Parser) -> Operation:
        op = parse(parser)
        wanted = of_elements(op.operands[0].type, i1)
        if wanted == i1:
            return op
        made = cls.create(
            operands=list[SSAValue](op.operands),
            result_types=[wanted],
            properties=op.properties,
            attributes=op.attributes,
        )
        op.drop_all_references()
        return made

    return parse_sizes


OPERATIONS = operations_of([sys.modules[__name__]])


def extensions_of(dialect: str) -> list[type[Operation]]:
    """Returns the operations of this module that belong to `arith` or `math`."""
    return [op for op in OPERATIONS if op.name.startswith(f"{dialect}.")]


def extend(dialect: Dialect) -> Dialect:
    """Returns `arith` or `math` with the operations that xDSL lacks."""
    if dialect.name == arith.Arith.name:
        _complete_arith()
    known = {op.name for op in dialect.operations}
    new = [op for op in extensions_of(dialect.name) if op.name not in known]
    interfaces = list(dialect._interfaces)  # pyright: ignore[reportPrivateUsage]
    return Dialect(dialect.name, [*dialect.operations, *new], list(dialect.attributes), interfaces)
