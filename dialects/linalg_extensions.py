"""
`linalg.matmul` as users write it: mixed precision and transposed operands, in both syntaxes.

xDSL 0.74 builds the hidden region of a mixed-precision matmul with wrong types, does not read
`indexing_maps` in the custom syntax, and drops them when printing, so that a transposed product of
square matrices becomes another product without a word. `MatmulOp` here is meant to replace xDSL's
own upstream; until then the universe puts it into xDSL's `linalg` dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, FixedBitwidthType, IntegerType
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

DEFAULT_MAPS = cast(
    ArrayAttr[AffineMapAttr],
    ops.MatmulOp.get_irdl_definition().properties["indexing_maps"].default_value,
)


class MatmulOp(ops.MatmulOp):
    """
    `linalg.matmul indexing_maps = [...] ins(%a, %b : ...) outs(%c : ...) -> ...`, as in MLIR 22.

    The body extends both inputs to the result's element type, signed if integer, then multiplies
    and adds; maps that are the default are not printed.
    """

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        types = cls.body_arg_types((*inputs, *outputs))
        block = Block(arg_types=types)
        result = types[-1]
        a, b = (_extended(block, arg, result) for arg in block.args[:2])
        integer = isinstance(result, IntegerType)
        product = (arith.MuliOp if integer else arith.MulfOp)(a, b)
        total = (arith.AddiOp if integer else arith.AddfOp)(block.args[2], product)
        block.add_ops([product, total, ops.YieldOp(total)])
        return Region(block)

    @classmethod
    def parse(cls, parser: Parser) -> ops.MatmulOp:
        maps: Attribute | None = None
        if parser.parse_optional_keyword("indexing_maps"):
            parser.parse_punctuation("=")
            start = parser.pos
            maps = parser.parse_attribute()
            if not isinstance(maps, ArrayAttr) or len(maps.data) != 3:
                parser.raise_error("linalg.matmul takes three index maps", start, parser.pos)
        op = cast(ops.MatmulOp, super().parse(parser))
        if maps is not None:
            op.properties["indexing_maps"] = maps
        return op

    def print(self, printer: Printer) -> None:
        if self.indexing_maps != DEFAULT_MAPS:
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(self.indexing_maps)
        super().print(printer)


def _extended(block: Block, value: SSAValue, type: Attribute) -> SSAValue:
    """The value in the type of the result, as MLIR's `cast_signed` has it."""
    source = value.type
    if source == type:
        return value
    wider = cast(FixedBitwidthType, type).bitwidth > cast(FixedBitwidthType, source).bitwidth
    match isinstance(source, IntegerType), isinstance(type, IntegerType):
        case True, True:
            kind = arith.ExtSIOp if wider else arith.TruncIOp
        case True, False:
            kind = arith.SIToFPOp
        case False, True:
            kind = arith.FPToSIOp
        case _:
            kind = arith.ExtFOp if wider else arith.TruncFOp
    op = kind.create(operands=[value], result_types=[type])
    block.add_op(op)
    return op.results[0]


def extended(dialect: Dialect) -> Dialect:
    """xDSL's `linalg` with the operations of this module in the place of its own."""
    replaced = {MatmulOp.name: MatmulOp}
    operations = [replaced.get(op.name, op) for op in dialect.operations]
    return Dialect(dialect.name, operations, list(dialect.attributes))
