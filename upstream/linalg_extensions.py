"""
`linalg` as users write it: what xDSL 0.74 lacks of it or builds wrongly.

xDSL builds the hidden region of a mixed-precision matmul or convolution with wrong types, does
not read `indexing_maps` in the custom syntax and drops them when printing, so that a transposed
product of square matrices becomes another product without a word, knows no `#linalg.type_fn`,
reads no `linalg.generic` with two results, and lacks most named operations. The pull request: those
here replace and complete the ones of xDSL; until then the universe puts them into its
`linalg` dialect. The operations that are a line of a table are in `linalg_named`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import auto
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, StringAttr
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, opt_prop_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from xdsl_spirv.upstream.linalg_named import NAMED, index_maps, multiply_add
from xdsl_spirv.upstream.on_demand import Declaration, DialectOnDemand


class TypeFunction(StrEnum):
    """The two casts of `linalg`."""

    CAST_SIGNED = auto()
    CAST_UNSIGNED = auto()


@irdl_attr_definition
class TypeFunctionAttr(EnumAttribute[TypeFunction]):
    """`#linalg.type_fn<cast_signed>` or `#linalg.type_fn<cast_unsigned>`."""

    name = "linalg.type_fn"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TypeFunction:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)


class MappedContraction(NamedOperation):
    """
    `linalg.NAME indexing_maps = [...] {cast = #linalg.type_fn<...>} ins(...) outs(...) -> ...`

    As in MLIR 22: maps that are the default are not printed, and those that are given may transpose
    the operands. The body casts both inputs to the result's element type, signed unless `cast` says
    otherwise, then multiplies and adds.
    """

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    DEFAULT: ClassVar[ArrayAttr[AffineMapAttr] | None]

    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    cast = opt_prop_def(TypeFunctionAttr)

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return multiply_add(cls.body_arg_types((*inputs, *outputs)))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return [attr.data for attr in self.get_indexing_maps()]

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        maps = self.indexing_maps or self.DEFAULT
        assert maps is not None, "verified"
        return maps

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        *_, out = self.get_default_indexing_maps()
        return ArrayAttr(
            IteratorTypeAttr.parallel()
            if AffineDimExpr(loop) in out.results
            else IteratorTypeAttr.reduction()
            for loop in range(out.num_dims)
        )

    def verify_(self) -> None:
        if self.indexing_maps is None and self.DEFAULT is None:
            raise VerifyException("indexing_maps are needed")
        if self.indexing_maps is not None and len(self.indexing_maps) != 3:
            raise VerifyException(f"three index maps are needed, not {len(self.indexing_maps)}")
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> MappedContraction:
        return with_maps(parser, super().parse)

    def print(self, printer: Printer) -> None:
        if self.get_indexing_maps() != self.DEFAULT:
            print_maps(self.get_indexing_maps(), printer)
        super().print(printer)


def with_maps(parser: Parser, parse: Any) -> Any:
    """An operation with `indexing_maps = [...]` in front of what `parse` reads, and its `cast`."""
    maps: Attribute | None = None
    if parser.parse_optional_keyword("indexing_maps"):
        parser.parse_punctuation("=")
        start = parser.pos
        maps = parser.parse_attribute()
        if not isinstance(maps, ArrayAttr) or len(maps.data) != 3:
            parser.raise_error("a contraction takes three index maps", start, parser.pos)
    op = parse(parser)
    if maps is not None:
        op.properties["indexing_maps"] = maps
    function = op.properties.get("cast")
    if isinstance(function, TypeFunctionAttr) and function.data == TypeFunction.CAST_UNSIGNED:
        types = op.body_arg_types(op.operands)
        op.body.detach_block(op.body.block)
        unsigned = multiply_add(types, signed=False)
        unsigned.move_blocks(op.body)
    return op


def print_maps(maps: Attribute, printer: Printer) -> None:
    printer.print_string(" indexing_maps = ")
    printer.print_attribute(maps)


def _mapped(name: str, line: Sequence[str] | None) -> type[Operation]:
    """The operation `linalg.NAME` whose default maps are those of a line as in `linalg_named`."""
    default = None
    if line is not None:
        loops, *indices = (dims.split() for dims in line)
        default = ArrayAttr(AffineMapAttr(map) for map in index_maps(loops, indices))
    title = "".join(part.capitalize() for part in name.split("_"))
    members = {
        "__doc__": f"`linalg.{name}`",
        "__module__": __name__,
        "__annotations__": {"DEFAULT": ClassVar[Any]},
        "name": f"linalg.{name}",
        "DEFAULT": default,
    }
    return irdl_op_definition(type(f"{title}Op", (MappedContraction,), members))


MAPPED: dict[str, tuple[str, str, str, str] | None] = {
    "matmul": ("m n k", "m k", "k n", "m n"),
    "batch_matmul": ("b m n k", "b m k", "b k n", "b m n"),
    "batch_reduce_matmul": ("b m n k", "b m k", "b k n", "m n"),
    "contract": None,
}
"""Name -> loops and what walks the dimensions, where that is the default of `indexing_maps`."""


class GenericOp(ops.GenericOp):
    """Reads `linalg.generic` with any number of results; what is read is xDSL's own operation."""

    @classmethod
    def parse(cls, parser: Parser) -> ops.GenericOp:
        start = parser.pos
        given = parser.parse_optional_attr_dict()
        maps, iterators = (given.pop(key, None) for key in ("indexing_maps", "iterator_types"))
        if not isinstance(maps, ArrayAttr) or not isinstance(iterators, ArrayAttr):
            parser.raise_error(
                "linalg.generic needs the arrays indexing_maps and iterator_types",
                start,
                parser.pos,
            )
        inputs, outputs = (_operands(parser, keyword) for keyword in ("ins", "outs"))
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


def _iterator(parser: Parser, kind: Attribute) -> IteratorTypeAttr:
    if isinstance(kind, IteratorTypeAttr):
        return kind
    if not isinstance(kind, StringAttr) or kind.data not in set(IteratorType):
        parser.raise_error(f"{kind} is no iterator type: use one of {', '.join(IteratorType)}")
    return IteratorTypeAttr(IteratorType(kind.data))


def _operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """`keyword(%a, %b : type, type)`, or nothing."""
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


class ExtendedLinalg(DialectOnDemand):
    """
    xDSL's `linalg` with these operations and attributes, some in the place of its own.

    The operations of tables are made when they are met: a module has few of the 50.
    """

    def __init__(self, dialect: Dialect):
        mapped = {f"linalg.{n}": partial(_mapped, n, line) for n, line in MAPPED.items()}
        self.makers = {**mapped, **NAMED}
        self.declared: dict[str, type[Operation]] = {}
        replaced = {GenericOp.name, *self.makers}
        others = [op for op in dialect.operations if op.name not in replaced]
        super().__init__(
            dialect.name, [*others, GenericOp], [*dialect.attributes, TypeFunctionAttr]
        )

    @property
    def operations(self) -> Iterator[type[Operation]]:
        """xDSL's own, and those of the tables."""
        return iter([*self._operations, *map(self._operation, self.makers)])

    def declaring(self, name: str) -> Iterable[Declaration]:
        """The operation of a table; all others together."""
        if name in self.makers:
            return [self._operation(name)]
        return [*self._operations, *self._attributes]

    def _operation(self, name: str) -> type[Operation]:
        if name not in self.declared:
            self.declared[name] = self.makers[name]()
        return self.declared[name]
