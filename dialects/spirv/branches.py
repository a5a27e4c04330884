"""
Branches between the blocks of a region, and the values that they pass to block arguments.

OpPhi is a block argument, whose values come from branches. A branch stays in its region, so it can
leave a selection or loop only through the merge block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntElementsAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_prop_def,
    prop_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import parse_integer
from xdsl_spirv.dialects.spirv.base import SPIRVOp


def _parse_successor(parser: Parser) -> tuple[Block, list[SSAValue]]:
    block = parser.parse_successor()
    if not parser.parse_optional_punctuation("("):
        return block, []
    start = parser.pos
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    if len(operands) != len(types):
        parser.raise_error(
            f"{len(operands)} values have {len(types)} types: give a type for each",
            start,
            parser.pos,
        )
    return block, list(parser.resolve_operands(operands, types, start))


def _print_successor(printer: Printer, block: Block, operands: Sequence[SSAValue]) -> None:
    printer.print_block_name(block)
    if not operands:
        return
    with printer.in_parens():
        printer.print_list(operands, printer.print_operand)
        printer.print_string(" : ")
        printer.print_list([operand.type for operand in operands], printer.print_attribute)


def _verify_successor(op: Operation, block: Block, operands: Sequence[SSAValue]) -> None:
    if block.parent is not op.parent_region():
        raise VerifyException(
            "a branch cannot leave its selection, loop or function: branch to the merge block"
        )
    given = tuple(operand.type for operand in operands)
    if given != tuple(block.arg_types):
        raise VerifyException(
            f"a branch passes ({', '.join(map(str, given))}) to a block that takes "
            f"({', '.join(map(str, block.arg_types))})"
        )


Edge: TypeAlias = tuple[Block, Sequence[SSAValue]]
"""A block that a branch may go to, with the values that it passes to the block's arguments."""


class Branching(SPIRVOp, ABC):
    """A terminator that passes values to other blocks."""

    @property
    @abstractmethod
    def edges(self) -> list[Edge]:
        """The blocks that the branch may go to, with the values that it passes to them."""

    def verify_(self) -> None:
        for edge in self.edges if self.parent_region() is not None else ():
            _verify_successor(self, *edge)


class BranchOp(Branching):
    """OpBranch: `spirv.Branch ^bb(%x : f32)`."""

    target = successor_def()
    target_operands = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$target (`(` $target_operands^ `:` type($target_operands) `)`)? attr-dict"

    @property
    def edges(self) -> list[Edge]:
        return [(self.target, self.target_operands)]


class BranchConditionalOp(Branching):
    """OpBranchConditional: `spirv.BranchConditional %c [9, 1], ^then, ^else(%x : f32)`."""

    condition = operand_def(i1)
    true_operands = var_operand_def()
    false_operands = var_operand_def()
    branch_weights = opt_prop_def(ArrayAttr[IntegerAttr])
    true_target = successor_def()
    false_target = successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator(), Pure())
    FIELDS: ClassVar = {"true_label": "true_target", "false_label": "false_target"}

    def __init__(
        self,
        condition: SSAValue | Operation,
        true_target: Block,
        false_target: Block,
        true_operands: Sequence[SSAValue | Operation] = (),
        false_operands: Sequence[SSAValue | Operation] = (),
        branch_weights: tuple[int, int] | None = None,
    ):
        weights = branch_weights and ArrayAttr([IntegerAttr(w, i32) for w in branch_weights])
        super().__init__(
            condition, true_operands, false_operands, true_target, false_target, weights
        )

    @classmethod
    def parse(cls, parser: Parser) -> BranchConditionalOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), i1)
        weights = None
        if parser.parse_optional_punctuation("["):
            first = parse_integer(parser).value.data
            parser.parse_punctuation(",")
            weights = (first, parse_integer(parser).value.data)
            parser.parse_punctuation("]")
        parser.parse_punctuation(",")
        true_target, true_operands = _parse_successor(parser)
        parser.parse_punctuation(",")
        false_target, false_operands = _parse_successor(parser)
        op = cls(condition, true_target, false_target, true_operands, false_operands, weights)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.condition)
        if self.branch_weights is not None:
            weights = ", ".join(str(weight.value.data) for weight in self.branch_weights)
            printer.print_string(f" [{weights}]")
        printer.print_string(", ")
        _print_successor(printer, self.true_target, self.true_operands)
        printer.print_string(", ")
        _print_successor(printer, self.false_target, self.false_operands)
        printer.print_op_attributes(self.attributes)

    @property
    def edges(self) -> list[Edge]:
        return [(self.true_target, self.true_operands), (self.false_target, self.false_operands)]

    def verify_(self) -> None:
        super().verify_()
        if self.branch_weights is None:
            return
        weights = [weight.value.data for weight in self.branch_weights]
        if len(weights) != 2 or sum(weights) == 0:
            raise VerifyException(
                f"branch weights must be two numbers that are not both 0, not {weights}"
            )


class SwitchOp(Branching):
    """OpSwitch: `spirv.Switch %x : i32, [default: ^d, 0: ^a, 7: ^b(%v : f32)]`."""

    selector = operand_def(IntegerType)
    default_operands = var_operand_def()
    target_operands = var_operand_def()
    literals = opt_prop_def(DenseIntElementsAttr)
    case_operand_segments = prop_def(DenseArrayBase.constr(i32))
    default_target = successor_def()
    targets = var_successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator(), Pure())
    FIELDS: ClassVar = {"default": "default_target"}

    def __init__(
        self,
        selector: SSAValue | Operation,
        default: tuple[Block, Sequence[SSAValue]] | Block,
        cases: Sequence[tuple[int, Block, Sequence[SSAValue]]] = (),
    ):
        """Each case consists of a literal, a block, and the values for the block's arguments."""
        selector = SSAValue.get(selector)
        if isinstance(default, Block):
            default = (default, ())
        passed = [value for _, _, values in cases for value in values]
        segments = DenseArrayBase.from_list(i32, [len(values) for _, _, values in cases])
        literals = None
        if cases:
            if not isinstance(selector.type, IntegerType):
                raise VerifyException(f"a selector must be an integer, not {selector.type}")
            type = VectorType(selector.type, [len(cases)])
            literals = DenseIntElementsAttr.from_list(type, [literal for literal, _, _ in cases])
        super().__init__(
            selector=selector,
            default_operands=default[1],
            target_operands=passed,
            literals=literals,
            case_operand_segments=segments,
            default_target=default[0],
            targets=[block for _, block, _ in cases],
        )

    @property
    def case_literals(self) -> tuple[int, ...]:
        """The literals of the cases, in the order of `targets`."""
        return tuple(int(v) for v in self.literals.get_values()) if self.literals else ()

    @property
    def edges(self) -> list[Edge]:
        """The default block, then the block of each case."""
        cases = zip(self.targets, self.case_operands, strict=True)
        return [(self.default_target, self.default_operands), *cases]

    @property
    def case_operands(self) -> list[Sequence[SSAValue]]:
        """The values for the arguments of each case's block."""
        start, operands = 0, list[Sequence[SSAValue]]()
        for count in self.case_operand_segments.get_values():
            operands.append(self.target_operands[start : start + int(count)])
            start += int(count)
        return operands

    @classmethod
    def parse(cls, parser: Parser) -> SwitchOp:
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, IntegerType):
            parser.raise_error(f"a selector must be an integer, not {type}", start, parser.pos)
        selector = parser.resolve_operand(operand, type)
        parser.parse_punctuation(",")
        parser.parse_punctuation("[")
        parser.parse_keyword("default")
        parser.parse_punctuation(":")
        default = _parse_successor(parser)
        cases: list[tuple[int, Block, Sequence[SSAValue]]] = []
        while parser.parse_optional_punctuation(","):
            literal = parse_integer(parser, type).value.data
            parser.parse_punctuation(":")
            cases.append((literal, *_parse_successor(parser)))
        parser.parse_punctuation("]")
        op = cls(selector, default, cases)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.selector)
        printer.print_string(" : ")
        printer.print_attribute(self.selector.type)
        printer.print_string(", [")
        with printer.indented():
            printer.print_string("\ndefault: ")
            _print_successor(printer, self.default_target, self.default_operands)
            cases = zip(self.case_literals, self.targets, self.case_operands, strict=True)
            for literal, block, operands in cases:
                printer.print_string(f",\n{literal}: ")
                _print_successor(printer, block, operands)
        printer.print_string("\n]")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if len(set(self.case_literals)) != len(self.case_literals):
            raise VerifyException("two cases of a switch have the same literal")
        if not len(self.targets) == len(self.case_literals) == len(self.case_operand_segments):
            raise VerifyException(
                f"a switch has {len(self.case_literals)} literals, but {len(self.targets)} targets"
            )
        if self.literals and self.literals.get_element_type() != self.selector.type:
            raise VerifyException(
                f"the literals have type {self.literals.get_element_type()}, "
                f"but the selector is {self.selector.type}"
            )
        if sum(self.case_operand_segments.get_values()) != len(self.target_operands):
            raise VerifyException(
                "case_operand_segments must add up to the number of the cases' operands"
            )
        super().verify_()
