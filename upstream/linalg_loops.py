"""
Reads `linalg.generic`, `linalg.reduce` and `linalg.fill_rng_2d` as MLIR writes them.

MLIR allows an alias in place of the attributes, several results, and the name of an operation in
place of a body. A pull request to xDSL would extend xDSL's `parse`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f64,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.parser import Parser
from xdsl.utils.type import get_element_type_or_self

from xdsl_spirv.upstream.linalg_elementwise import parse_inner
from xdsl_spirv.upstream.linalg_packing import shape_of


def body_arg_types(operands: Sequence[SSAValue]) -> Sequence[Attribute]:
    """Returns the element types of operands. Unlike xDSL, allows any type of element."""
    return [get_element_type_or_self(value.type) for value in operands]


class GenericOp(ops.GenericOp):
    """Parses `linalg.generic` with any number of results. The result is xDSL's operation."""

    @classmethod
    def parse(cls, parser: Parser) -> ops.GenericOp:
        start = parser.pos
        given = parser.parse_optional_attr_dict()
        alias = None if given else parser.parse_optional_attribute()
        if isinstance(alias, DictionaryAttr):
            given = dict(alias.data)
        maps, iterators = (given.pop(key, None) for key in ("indexing_maps", "iterator_types"))
        if not isinstance(maps, ArrayAttr) or not isinstance(iterators, ArrayAttr):
            parser.raise_error(
                "linalg.generic needs the arrays indexing_maps and iterator_types",
                start,
                parser.pos,
            )
        inputs, outputs = (parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("attrs"):
            parser.parse_punctuation("=")
            attributes = parser.expect(parser.parse_optional_attr_dict, "attributes expected")
        body = parser.parse_region()
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            several = parser.parse_optional_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_type
            )
            results = several or parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_type
            )
        return ops.GenericOp.build(
            operands=[inputs, outputs],
            result_types=[results],
            properties={
                "indexing_maps": maps,
                "iterator_types": ArrayAttr(
                    _iterator(parser, iterator) for iterator in iterators.data
                ),
                **{key: given.pop(key, None) for key in ("doc", "library_call")},
            },
            attributes={**given, **attributes},
            regions=[body],
        )


class ReduceOp(ops.ReduceOp):
    """
    Parses `linalg.reduce`. Its body may be an operation in braces, and it may have several tensors.
    """

    @classmethod
    def parse(cls, parser: Parser) -> ops.ReduceOp | ops.GenericOp:  # pyright: ignore[reportIncompatibleMethodOverride]
        inner = parse_inner(parser)
        inputs, outputs = (parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        reduced = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes = parser.parse_optional_attr_dict()
        if inner is None:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_argument
            )
            region = parser.parse_region(arguments)
        else:
            region = Region(Block(arg_types=body_arg_types((*inputs, *outputs))))
            value, total = region.block.args
            made = inner([total, value], total.type)
            region.block.add_ops([made, ops.YieldOp(made)])
        if len(inputs) == 1:
            op = ops.ReduceOp(inputs[0], outputs[0], DenseArrayBase.from_list(i64, reduced), region)
        else:
            rank = len(shape_of(inputs[0]))
            kept = AffineMap(
                rank, 0, tuple(AffineDimExpr(n) for n in range(rank) if n not in reduced)
            )
            maps = [AffineMap.identity(rank)] * len(inputs) + [kept] * len(outputs)
            kinds = (IteratorType.PARALLEL, IteratorType.REDUCTION)
            op = ops.GenericOp(
                inputs,
                outputs,
                region,
                ArrayAttr(map(AffineMapAttr, maps)),
                ArrayAttr(IteratorTypeAttr(kinds[n in reduced]) for n in range(rank)),
                [value.type for value in outputs if isinstance(value.type, TensorType)],
            )
        op.attributes |= attributes
        return op


@irdl_op_definition
class FillRandomOp(IRDLOperation):
    """Parses `linalg.fill_rng_2d` as the `linalg.generic` that MLIR rewrites it to."""

    name = "linalg.fill_rng_2d"

    @classmethod
    def parse(cls, parser: Parser) -> ops.GenericOp:  # pyright: ignore[reportIncompatibleMethodOverride]
        start = parser.pos
        inputs, outputs = (parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        parser.parse_punctuation("->")
        result = parser.parse_type()
        block = Block(arg_types=body_arg_types((*inputs, *outputs)))
        if [*block.arg_types[:-1]] != [f64, f64, i32] or len(shape_of(outputs[0])) != 2:
            parser.raise_error(
                "the operands should be two f64, an i32 and a matrix", start, parser.pos
            )
        made = _draw_number(block, block.arg_types[-1])
        block.add_ops([made, ops.YieldOp(made)])
        maps = [AffineMap(2, 0, ())] * 3 + [AffineMap.identity(2)]
        return ops.GenericOp(
            inputs,
            outputs,
            Region(block),
            ArrayAttr(map(AffineMapAttr, maps)),
            ArrayAttr([IteratorTypeAttr.parallel()] * 2),
            [result],
        )


def _draw_number(block: Block, result: Attribute) -> Operation:
    """Adds operations that draw a number from seed and element index, as MLIR does."""

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    low, high, seed = block.args[:3]
    factor, offset = (add(arith.ConstantOp(IntegerAttr(n, i32))) for n in (1_103_515_245, 12_345))
    number = seed
    for axis in (0, 1):
        place = add(arith.IndexCastOp(add(ops.IndexOp(axis)), i32))
        product = add(arith.MuliOp(add(arith.AddiOp(place, number)), factor))
        number = add(arith.AddiOp(product, offset))
    middle, scale = (
        add(arith.ConstantOp(FloatAttr(n, f64))) for n in (2_147_483_647.0, 2.3283063999999999e-10)
    )
    width = add(arith.MulfOp(add(arith.SubfOp(high, low)), scale))
    drawn = add(arith.AddfOp(add(arith.SIToFPOp(number, f64)), middle))
    wide = add(arith.AddfOp(add(arith.MulfOp(drawn, width)), low))
    if result == f64:
        return arith.AddfOp(wide, add(arith.ConstantOp(FloatAttr(0.0, f64))))
    if isinstance(result, AnyFloat):
        return arith.TruncFOp(wide, result)
    assert isinstance(result, IntegerType)
    return arith.FPToSIOp(wide, result)


def _iterator(parser: Parser, kind: Attribute) -> IteratorTypeAttr:
    if isinstance(kind, IteratorTypeAttr):
        return kind
    if not isinstance(kind, StringAttr) or kind.data not in set(IteratorType):
        parser.raise_error(f"{kind} is not an iterator type: use one of {', '.join(IteratorType)}")
    return IteratorTypeAttr(IteratorType(kind.data))


def parse_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """Parses `keyword(%a, %b : type, type)`. Returns () if the keyword does not follow."""
    start = parser.pos
    if not parser.parse_optional_keyword(keyword):
        return ()
    parser.parse_punctuation("(")
    names = parser.parse_comma_separated_list(
        Parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return parser.resolve_operands(names, types, start)
