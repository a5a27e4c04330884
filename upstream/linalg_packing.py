"""Adds `linalg.softmax`, `pack` and `unpack` as in MLIR 22, as a pull request to xDSL would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


class OfOneTensor(IRDLOperation):
    """An operation on one tensor: `linalg.NAME KEY(parameter) ins(...) outs(...) -> ...`"""

    KEY: ClassVar[str]

    input = operand_def(TensorType)
    output = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    @classmethod
    def parse_parameter(cls, parser: Parser) -> Attribute:
        """Parses the parameter in the parentheses."""
        return IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), i64)

    def shown_parameter(self) -> str:
        """Returns the text of the parameter in the parentheses (the property `KEY`)."""
        attribute = self.properties[self.KEY]
        assert isinstance(attribute, IntegerAttr)
        return str(attribute.value.data)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        parser.parse_keyword(cls.KEY)
        with parser.in_parens():
            parameter = cls.parse_parameter(parser)
        values: list[SSAValue] = []
        for keyword in ("ins", "outs"):
            parser.parse_keyword(keyword)
            with parser.in_parens():
                values.append(_parse_typed(parser))
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.create(
            operands=values,
            result_types=[result],
            properties={cls.KEY: parameter},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" {self.KEY}({self.shown_parameter()})")
        for keyword, value in (("ins", self.input), ("outs", self.output)):
            printer.print_string(f" {keyword}(")
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)
            printer.print_string(")")
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SoftmaxOp(OfOneTensor):
    """`linalg.softmax dimension(1) ins(%x : ...) outs(%e : ...) -> ...`, on tensors."""

    name = "linalg.softmax"
    KEY: ClassVar = "dimension"

    dimension = prop_def(IntegerAttr)

    def verify_(self) -> None:
        rank = len(shape_of(self.input))
        if self.dimension.value.data >= rank:
            raise VerifyException(f"dimension {self.dimension.value.data} exceeds rank {rank}")
        if not self.input.type == self.output.type == self.result.type:
            raise VerifyException("the input and the result should have the same type")


def _parse_typed(parser: Parser) -> SSAValue:
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return parser.resolve_operand(value, parser.parse_type())


class Tiled(IRDLOperation):
    """
    The base class of `pack` and `unpack`. Has the tiled dimensions and the sizes of the tiles.
    """

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    inner_tiles = var_operand_def()
    result = result_def(TensorType)
    outer_dims_perm = opt_prop_def(DenseArrayBase[IntegerType])
    inner_dims_pos = prop_def(DenseArrayBase[IntegerType])
    static_inner_tiles = prop_def(DenseArrayBase[IntegerType])

    traits = traits_def(Pure())

    @property
    def positions(self) -> list[int]:
        """The tiled dimensions of the unpacked tensor, in the order of the tiles."""
        return [int(n) for n in self.inner_dims_pos.get_values()]

    @property
    def tiles(self) -> list[int]:
        """Sizes of the tiles. `DYNAMIC_INDEX` stands for a size that is an operand."""
        return [int(n) for n in self.static_inner_tiles.get_values()]

    def order(self, rank: int) -> list[int]:
        """
        Returns the dimensions of the unpacked tensor in the order that they have in the packed
        tensor.
        """
        if self.outer_dims_perm is None or not len(self.outer_dims_perm):
            return list(range(rank))
        return [int(n) for n in self.outer_dims_perm.get_values()]

    def check(self, plain: Sequence[int], packed: Sequence[int], may_be_part: bool) -> None:
        """
        Raises `VerifyException` if the shapes of the two tensors do not match.

        The last tile of a dimension may be partial only if `may_be_part` is set.
        """
        rank, positions, tiles = len(plain), self.positions, self.tiles
        if sorted(self.order(rank)) != list(range(rank)):
            raise VerifyException("outer_dims_perm should be a permutation of the dimensions")
        if len(set(positions)) != len(positions) or not set(positions) <= set(range(rank)):
            raise VerifyException("inner_dims_pos should name each dimension at most once")
        if len(tiles) != len(positions) or len(packed) != rank + len(tiles):
            raise VerifyException("there should be a tile for each tiled dimension")
        if any(tile != DYNAMIC_INDEX and tile < 1 for tile in tiles):
            raise VerifyException("tiles should have 1 element or more")
        outer = list(plain)
        for position, tile in zip(positions, tiles, strict=True):
            if DYNAMIC_INDEX in (outer[position], tile):
                outer[position] = DYNAMIC_INDEX
                continue
            if not may_be_part and outer[position] % tile:
                raise VerifyException("a tile is not full: give a padding_value")
            outer[position] = -(-outer[position] // tile)
        wanted = [*(outer[axis] for axis in self.order(rank)), *tiles]
        pairs = zip(wanted, packed, strict=True)
        if any(DYNAMIC_INDEX not in pair and len(set(pair)) > 1 for pair in pairs):
            raise VerifyException(f"the packed tensor should have the sizes {wanted}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        padding = getattr(self, "padding_value", None)
        if padding is not None:
            printer.print_string(" padding_value(")
            printer.print_ssa_value(padding)
            printer.print_string(" : ")
            printer.print_attribute(padding.type)
            printer.print_string(")")
        if self.outer_dims_perm is not None and len(self.outer_dims_perm):
            printer.print_string(f" outer_dims_perm = {self.order(len(self.outer_dims_perm))}")
        printer.print_string(f" inner_dims_pos = {self.positions} inner_tiles = [")
        given = iter(self.inner_tiles)
        for number, tile in enumerate(self.tiles):
            printer.print_string(", " if number else "")
            if tile == DYNAMIC_INDEX:
                printer.print_ssa_value(next(given))
            else:
                printer.print_string(str(tile))
        printer.print_string("] into ")
        printer.print_ssa_value(self.dest)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.dest.type)


def _parts(parser: Parser, padded: bool) -> tuple[list[Sequence[SSAValue]], dict[str, Any]]:
    source = parser.parse_unresolved_operand()
    padding: list[SSAValue] = []
    if padded and parser.parse_optional_keyword("padding_value"):
        with parser.in_parens():
            padding.append(_parse_typed(parser))
    properties: dict[str, Attribute] = {}
    for key in ("outer_dims_perm", "inner_dims_pos"):
        if key == "inner_dims_pos":
            parser.parse_keyword(key)
        elif not parser.parse_optional_keyword(key):
            continue
        parser.parse_punctuation("=")
        numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        properties[key] = DenseArrayBase.from_list(i64, numbers)
    parser.parse_keyword("inner_tiles")
    parser.parse_punctuation("=")
    tiles: list[int] = []
    given: list[SSAValue] = []

    def tile() -> None:
        value = parser.parse_optional_unresolved_operand()
        tiles.append(DYNAMIC_INDEX if value is not None else parser.parse_integer())
        given.extend([] if value is None else [parser.resolve_operand(value, IndexType())])

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, tile)
    properties["static_inner_tiles"] = DenseArrayBase.from_list(i64, tiles)
    parser.parse_keyword("into")
    dest = parser.parse_unresolved_operand()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    first = parser.parse_type()
    parser.parse_punctuation("->")
    result = parser.parse_type()
    operands = [parser.resolve_operand(source, first)], [parser.resolve_operand(dest, result)]
    rest = {"result_types": [result], "properties": properties, "attributes": attributes}
    return [*operands, padding, given], rest


@irdl_op_definition
class PackOp(Tiled):
    """`linalg.pack %x padding_value(%p : f32) inner_dims_pos = [0] inner_tiles = [4] into %e`"""

    name = "linalg.pack"

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    padding_value = opt_operand_def()
    inner_tiles = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, parser: Parser) -> PackOp:
        operands, rest = _parts(parser, True)
        return cls.build(operands=operands, **rest)

    def verify_(self) -> None:
        self.check(shape_of(self.source), shape_of(self.result), self.padding_value is not None)


@irdl_op_definition
class UnpackOp(Tiled):
    """`linalg.unpack %x inner_dims_pos = [0] inner_tiles = [4] into %e : ... -> ...`"""

    name = "linalg.unpack"

    @classmethod
    def parse(cls, parser: Parser) -> UnpackOp:
        (source, dest, _, tiles), rest = _parts(parser, False)
        return cls.build(operands=[*source, *dest, tiles], **rest)

    def verify_(self) -> None:
        self.check(shape_of(self.result), shape_of(self.source), True)


def shape_of(value: SSAValue) -> Sequence[int]:
    assert isinstance(value.type, TensorType | MemRefType)
    return value.type.get_shape()


MAKERS = {op.name: (lambda op=op: op) for op in (SoftmaxOp, PackOp, UnpackOp)}
