"""
Adds `scf.forall` and `tensor.parallel_insert_slice` as in MLIR 22, for a pull request to xDSL.

It also lets `scf.for` have a single result type without parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, TensorType, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

Bounds = DenseArrayBase.constr(i64)


@irdl_op_definition
class ParallelInsertSliceOp(IRDLOperation):
    """`tensor.parallel_insert_slice %tile into %shared[%i, 0] [1, 6] [1, 1] : ... into ...`"""

    name = "tensor.parallel_insert_slice"

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(Bounds)
    static_sizes = prop_def(Bounds)
    static_strides = prop_def(Bounds)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = tensor.InsertSliceOp.custom_directives
    assembly_format = tensor.InsertSliceOp.assembly_format


@irdl_op_definition
class InParallelOp(IRDLOperation):
    """The terminator of `scf.forall`, which stores an iteration's tiles in the shared tensors."""

    name = "scf.forall.in_parallel"

    region = region_def("single_block")

    traits = traits_def(IsTerminator(), NoTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> InParallelOp:
        return cls.create(regions=[parser.parse_region()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.region)


@irdl_op_definition
class ForallOp(IRDLOperation):
    """`scf.forall (%i) = (0) to (%n) step (4) shared_outs(%v = %e) -> (tensor<?xf32>) { ... }`"""

    name = "scf.forall"

    lower = var_operand_def(IndexType)
    upper = var_operand_def(IndexType)
    step = var_operand_def(IndexType)
    outputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    static_lower = prop_def(Bounds, prop_name="staticLowerBound")
    static_upper = prop_def(Bounds, prop_name="staticUpperBound")
    static_step = prop_def(Bounds, prop_name="staticStep")
    mapping = opt_prop_def()
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    BOUNDS: ClassVar = ("lower", "upper", "step")

    @property
    def rank(self) -> int:
        """Number of loops."""
        return len(self.static_upper)

    def bounds(self) -> list[list[SSAValue | int]]:
        """Returns the lower bounds, the upper bounds and the steps of all loops."""
        listed: list[list[SSAValue | int]] = []
        for name in self.BOUNDS:
            given = iter(getattr(self, name))
            static = getattr(self, f"static_{name}").get_values()
            listed.append([next(given) if n == DYNAMIC_INDEX else int(n) for n in static])
        return listed

    def stores(self) -> list[ParallelInsertSliceOp]:
        """Returns the `tensor.parallel_insert_slice` operations of an iteration."""
        last = self.body.block.last_op
        assert isinstance(last, InParallelOp)
        return [op for op in last.region.block.ops if isinstance(op, ParallelInsertSliceOp)]

    def verify_(self) -> None:
        block = self.body.block
        if len({len(bounds) for bounds in self.bounds()}) > 1:
            raise VerifyException("each loop should have a lower bound, an upper bound and a step")
        if len(block.args) != self.rank + len(self.outputs):
            raise VerifyException("the body should take the indices and the shared tensors")
        if not isinstance(block.last_op, InParallelOp):
            raise VerifyException("the body should end with scf.forall.in_parallel")
        shared = block.args[self.rank :]
        if any(store.dest not in shared for store in self.stores()):
            raise VerifyException("an iteration should store only in the shared tensors")

    @classmethod
    def parse(cls, parser: Parser) -> ForallOp:
        square = parser.Delimiter.PAREN
        indices = parser.parse_comma_separated_list(
            square, lambda: parser.parse_argument(expect_type=False)
        )
        arguments = [index.resolve(IndexType()) for index in indices]
        numbers = [[0] * len(indices), [0] * len(indices), [1] * len(indices)]
        given: list[list[SSAValue]] = [[], [], []]
        if parser.parse_optional_keyword("in"):
            numbers[1], given[1] = _parse_bounds(parser)
        else:
            for position, word in enumerate(("=", "to", "step")):
                if word == "=":
                    parser.parse_punctuation("=")
                else:
                    parser.parse_keyword(word)
                numbers[position], given[position] = _parse_bounds(parser)
        outputs: list[SSAValue] = []
        types: Sequence[Attribute] = []
        if parser.parse_optional_keyword("shared_outs"):
            shared = parser.parse_comma_separated_list(square, lambda: _parse_shared(parser))
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(square, parser.parse_type)
            if len(types) != len(shared):
                parser.raise_error(f"{len(shared)} shared tensors need {len(shared)} result types")
            for (name, value), type in zip(shared, types, strict=True):
                arguments.append(name.resolve(type))
                outputs.append(parser.resolve_operand(value, type))
        body = parser.parse_region(arguments)
        properties: dict[str, Attribute] = {
            name: DenseArrayBase.from_list(i64, listed)
            for name, listed in zip(
                ("staticLowerBound", "staticUpperBound", "staticStep"), numbers, strict=True
            )
        }
        attributes = _parse_attributes(parser)
        properties |= {"mapping": attributes.pop("mapping")} if "mapping" in attributes else {}
        op = cls.build(
            operands=[*given, outputs],
            result_types=[types],
            properties=properties,
            regions=[body],
        )
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" (")
        printer.print_list(self.body.block.args[: self.rank], printer.print_ssa_value)
        lower, upper, step = self.bounds()
        printer.print_string(")")
        plain = lower == [0] * self.rank and step == [1] * self.rank
        pairs = [("in", upper)] if plain else [("=", lower), ("to", upper), ("step", step)]
        for word, numbers in pairs:
            printer.print_string(f" {word} (")
            printer.print_list(numbers, lambda n: _print_bound(printer, n))
            printer.print_string(")")
        if self.outputs:
            shared = zip(self.body.block.args[self.rank :], self.outputs, strict=True)
            printer.print_string(" shared_outs(")
            printer.print_list(list(shared), lambda pair: _print_shared(printer, pair))
            printer.print_string(") -> (")
            printer.print_list([v.type for v in self.outputs], printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        kept = {"mapping": self.mapping} if self.mapping is not None else {}
        if kept or self.attributes:
            printer.print_op_attributes({**self.attributes, **kept})


def _parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """Parses attributes. Represents a mapping to GPU threads (`#gpu.thread<x>`) as text."""
    allowed = parser.ctx.allow_unregistered
    parser.ctx.allow_unregistered = True
    try:
        return dict(parser.parse_optional_attr_dict())
    finally:
        parser.ctx.allow_unregistered = allowed


def _parse_bounds(parser: Parser) -> tuple[list[int], list[SSAValue]]:
    """
    Parses a list such as `(0, %n)`. Returns the constants, with `DYNAMIC_INDEX` for a value, and
    the values.
    """
    numbers: list[int] = []
    given: list[SSAValue] = []

    def parse_bound() -> None:
        value = parser.parse_optional_unresolved_operand()
        numbers.append(DYNAMIC_INDEX if value is not None else parser.parse_integer())
        given.extend([] if value is None else [parser.resolve_operand(value, IndexType())])

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_bound)
    return numbers, given


def _print_bound(printer: Printer, bound: SSAValue | int) -> None:
    if isinstance(bound, int):
        printer.print_string(str(bound))
    else:
        printer.print_ssa_value(bound)


def _parse_shared(parser: Parser) -> tuple[Any, Any]:
    """Parses `%v = %e`. Returns the block argument `%v` and the operand `%e`."""
    name = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return name, parser.parse_unresolved_operand()


def _print_shared(printer: Printer, pair: tuple[SSAValue, SSAValue]) -> None:
    printer.print_ssa_value(pair[0])
    printer.print_string(" = ")
    printer.print_ssa_value(pair[1])


@cache
def _let_for_take_one_type() -> None:
    parse_for = scf.ForOp.parse

    def parse(cls: type[scf.ForOp], parser: Parser) -> scf.ForOp:
        read_list = parser.parse_comma_separated_list

        def read_types(delimiter: Any, parse: Callable[[], Any], context: str = "") -> list[Any]:
            if parse != parser.parse_attribute:
                return read_list(delimiter, parse, context)
            # Only the first list, of the result types, is read in this way.
            vars(parser).pop("parse_comma_separated_list", None)
            if parser.lexer.input.content.startswith("(", parser.pos):
                return read_list(delimiter, parse, context)
            return [parser.parse_type()]

        setattr(parser, "parse_comma_separated_list", read_types)
        try:
            return parse_for(parser)
        finally:
            vars(parser).pop("parse_comma_separated_list", None)

    setattr(scf.ForOp, "parse", classmethod(parse))


def extend(dialect: Dialect) -> Dialect:
    """Returns the dialect `scf` or `tensor`, extended by the operations that xDSL lacks."""
    if dialect.name == scf.Scf.name:
        _let_for_take_one_type()
    known = {op.name for op in dialect.operations}
    new = [
        op
        for op in (ForallOp, InParallelOp, ParallelInsertSliceOp)
        if op.name.startswith(f"{dialect.name}.") and op.name not in known
    ]
    interfaces = list(dialect._interfaces)  # pyright: ignore[reportPrivateUsage]
    return Dialect(dialect.name, [*dialect.operations, *new], list(dialect.attributes), interfaces)
