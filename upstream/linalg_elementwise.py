"""
Adds the elementwise operations of `linalg` in MLIR 22 that xDSL 0.74 lacks.

It also defines `linalg.add` of Booleans as `or`, like MLIR. A pull request to xDSL would do this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import auto
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects import arith, complex, math
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    FloatAttr,
    IndexType,
    IntegerType,
    MemRefType,
    ShapedType,
    TensorType,
    i1,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import ElementwiseOperation
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

FLOATS: dict[str, type[Operation]] = {
    "exp": math.ExpOp,
    "log": math.LogOp,
    "abs": math.AbsFOp,
    "ceil": math.CeilOp,
    "floor": math.FloorOp,
    "negf": arith.NegfOp,
    "round": math.RoundOp,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "tanh": math.TanhOp,
    "erf": math.ErfOp,
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max_signed": arith.MaximumfOp,
    "min_signed": arith.MinimumfOp,
    "powf": math.PowFOp,
}
"""
Maps each kind to its operation on floats. `square` and `reciprocal` have no such operation (see
`body_of`).
"""

INTEGERS: dict[str, type[Operation]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "div": arith.DivSIOp,
    "div_unsigned": arith.DivUIOp,
    "max_signed": arith.MaxSIOp,
    "min_signed": arith.MinSIOp,
    "max_unsigned": arith.MaxUIOp,
    "min_unsigned": arith.MinUIOp,
}

TRUTHS: dict[str, type[Operation]] = INTEGERS | {"add": arith.OrIOp, "mul": arith.AndIOp}

COMPLEX: dict[str, type[Operation]] = {
    "add": complex.AddOp,
    "sub": complex.SubOp,
    "mul": complex.MulOp,
    "div": complex.DivOp,
}

NAMED = (
    *("abs", "ceil", "floor", "negf", "reciprocal", "round", "rsqrt", "square", "tanh", "erf"),
    *("div", "div_unsigned", "powf"),
)
"""
The kinds for which this module defines an operation `linalg.NAME`. xDSL has the operations of the
other kinds.
"""


def arithmetic_of(element: Attribute) -> dict[str, type[Operation]]:
    """Maps each kind to the operation that computes it on elements of the type `element`."""
    if isinstance(element, ComplexType):
        return COMPLEX
    is_integer = isinstance(element, IntegerType | IndexType)
    return TRUTHS if element == i1 else INTEGERS if is_integer else FLOATS


def body_of(kind: str, types: Sequence[Attribute]) -> Region:
    """Builds a body that computes `kind`. Raises `VerifyException` for unsupported types."""
    block = Block(arg_types=types)
    *given, _ = block.args
    result = types[-1]
    is_float = not isinstance(result, IntegerType | IndexType)
    made: Operation | None = None
    if kind == "select" and len(given) == 3:
        made = arith.SelectOp(*given)
    elif kind == "square" and is_float:
        made = arith.MulfOp(given[0], given[0])
    elif kind == "reciprocal" and isinstance(result, AnyFloat):
        one = arith.ConstantOp(FloatAttr(1.0, result))
        block.add_op(one)
        made = arith.DivfOp(one, given[0])
    else:
        operation = arithmetic_of(result).get(kind)
        if operation is not None:
            made = operation.create(operands=given, result_types=[result])
    if made is None:
        raise VerifyException(f"{kind} is not defined on {result}")
    block.add_ops([made, ops.YieldOp(made)])
    return Region(block)


def _define_operation(name: str) -> type[Operation]:
    title = "".join(part.capitalize() for part in name.split("_"))
    members: dict[str, Any] = {
        "__doc__": f"`linalg.{name} ins(...) outs(...) -> ...`",
        "__module__": __name__,
        "name": f"linalg.{name}",
        "get_hidden_region": staticmethod(partial(_build_hidden, name)),
    }
    return irdl_op_definition(type(f"{title}Op", (ElementwiseOperation,), members))


def _build_hidden(name: str, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
    return body_of(name, ElementwiseOperation.body_arg_types((*inputs, *outputs)))


for _kind, _op in (("add", ops.AddOp), ("sub", ops.SubOp), ("mul", ops.MulOp)):
    setattr(_op, "get_hidden_region", staticmethod(partial(_build_hidden, _kind)))


def _elementwise_maps(self: ElementwiseOperation) -> Sequence[AffineMap]:
    """Returns the index map of each operand. Scalars and tensors of rank 0 are broadcast."""
    ranks = [len(t.get_shape()) if isinstance(t, ShapedType) else 0 for t in self.operand_types]
    identity = AffineMap.identity(ranks[-1])
    scalar = AffineMap(ranks[-1], 0, ())
    if not {*ranks} <= {0, ranks[-1]}:
        raise VerifyException(
            f"{self.name} has operands of ranks {ranks[:-1]} and a result of rank {ranks[-1]}: "
            "use scalars and operands of the result's rank, or linalg.generic"
        )
    return [identity if rank else scalar for rank in ranks]


ElementwiseOperation.get_default_indexing_maps = _elementwise_maps


class ElementwiseKind(StrEnum):
    """The functions of `linalg.elementwise`."""

    EXP = auto()
    LOG = auto()
    ABS = auto()
    CEIL = auto()
    FLOOR = auto()
    NEGF = auto()
    RECIPROCAL = auto()
    ROUND = auto()
    SQRT = auto()
    RSQRT = auto()
    SQUARE = auto()
    TANH = auto()
    ERF = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    DIV = auto()
    DIV_UNSIGNED = auto()
    MAX_SIGNED = auto()
    MIN_SIGNED = auto()
    MAX_UNSIGNED = auto()
    MIN_UNSIGNED = auto()
    POWF = auto()
    SELECT = auto()


@irdl_attr_definition
class ElementwiseKindAttr(EnumAttribute[ElementwiseKind]):
    """`#linalg.elementwise_kind<add>`."""

    name = "linalg.elementwise_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ElementwiseKind:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)


@irdl_op_definition
class ElementwiseOp(ElementwiseOperation):
    """`linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [...] ins(...) ...`"""

    name = "linalg.elementwise"

    kind = prop_def(ElementwiseKindAttr)
    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        # `parse` replaces the empty body by the body of the kind.
        return Region(Block(arg_types=cls.body_arg_types((*inputs, *outputs))))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        if self.indexing_maps is not None:
            return [attribute.data for attribute in self.indexing_maps]
        return super().get_default_indexing_maps()

    @classmethod
    def parse(cls, parser: Parser) -> ElementwiseOp:
        parser.parse_keyword("kind")
        parser.parse_punctuation("=")
        start = parser.pos
        kind = parser.parse_attribute()
        maps: Attribute | None = None
        if not isinstance(kind, ElementwiseKindAttr):
            parser.raise_error("#linalg.elementwise_kind<...> expected", start, parser.pos)
        if parser.parse_optional_keyword("indexing_maps"):
            parser.parse_punctuation("=")
            maps = parser.parse_attribute()
        op = super().parse(parser)
        assert isinstance(op, ElementwiseOp)
        op.properties |= {"kind": kind} | ({"indexing_maps": maps} if maps is not None else {})
        try:
            region = body_of(kind.data, op.body_arg_types(op.operands))
        except VerifyException as error:
            parser.raise_error(str(error), start, parser.pos)
        op.body.detach_block(op.body.block)
        region.move_blocks(op.body)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" kind=")
        printer.print_attribute(self.kind)
        if self.indexing_maps is not None:
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(self.indexing_maps)
        kept = {key: self.properties.pop(key) for key in ("kind",)}
        super().print(printer)
        self.properties |= kept


@irdl_op_definition
class MapOp(ElementwiseOperation):
    """
    `linalg.map { math.exp } ins(%x : ...) outs(%e : ...)`, or `linalg.map ins(...) outs(...)
    (%in: f32, %out: f32) { ... }` with a body of several operations.
    """

    name = "linalg.map"

    SIMPLE: ClassVar[int] = 2
    """
    Number of operations in a body that is printed as `{ NAME }`. They are the operation NAME and
    the yield.
    """

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        types = [value.type for value in (*inputs, *outputs)]
        elements = (
            t.get_element_type() if isinstance(t, TensorType | MemRefType) else t for t in types
        )
        return Region(Block(arg_types=[*elements]))

    @classmethod
    def parse(cls, parser: Parser) -> MapOp:
        start = parser.pos
        inner = parse_inner(parser)
        op = super().parse(parser)
        assert isinstance(op, MapOp)
        results = [value.type for value in op.outputs if isinstance(value.type, TensorType)]
        region = op.body.clone()
        if inner is not None:
            *given, out = region.block.args
            made = inner(given, out.type)
            region.block.add_ops([made, ops.YieldOp(made)])
        else:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_argument
            )
            region = parser.parse_region(arguments)
        if len(region.block.args) != len(op.operands):
            parser.raise_error(
                "the body should have one argument for each operand", start, parser.pos
            )
        operands = [list(op.inputs), list(op.outputs)]
        op.drop_all_references()
        return cls.build(operands=operands, result_types=[results], regions=[region])

    def print(self, printer: Printer) -> None:
        block, first = self.body.block, self.body.block.first_op
        simple = (
            len(list(block.ops)) == self.SIMPLE
            and first is not None
            and list(first.operands) == list(block.args[:-1])
            and list(first.results) == list(block.last_op.operands if block.last_op else ())
            and not first.attributes
        )
        if simple and first is not None:
            printer.print_string(f" {{ {first.name} }}")
        _print_operands(printer, "ins", self.inputs)
        _print_operands(printer, "outs", self.outputs)
        if not simple:
            printer.print_string(" (")
            printer.print_list(block.args, printer.print_block_argument)
            printer.print_string(") ")
            printer.print_region(self.body, print_entry_block_args=False)


def parse_inner(parser: Parser) -> Callable[[Sequence[SSAValue], Attribute], Operation] | None:
    """Parses `{ arith.addf }`, a body of one named operation. Returns None if there is no brace."""
    if not parser.parse_optional_punctuation("{"):
        return None
    kind = parser._get_op_by_name(parser.parse_identifier())  # pyright: ignore[reportPrivateUsage]
    attributes = dict(parser.parse_optional_attr_dict())
    parser.parse_punctuation("}")
    return lambda operands, type: kind.create(
        operands=operands, result_types=[type], attributes=attributes
    )


def _print_operands(printer: Printer, keyword: str, values: Sequence[SSAValue]) -> None:
    if values:
        printer.print_string(f" {keyword}(")
        printer.print_list(values, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list([value.type for value in values], printer.print_attribute)
        printer.print_string(")")


MAKERS: dict[str, Callable[[], type[Operation]]] = {
    **{f"linalg.{name}": partial(_define_operation, name) for name in NAMED},
    ElementwiseOp.name: lambda: ElementwiseOp,
    MapOp.name: lambda: MapOp,
}
"""Functions that define the operations. Each is called when its name is first used."""
