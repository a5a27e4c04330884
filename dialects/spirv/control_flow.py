"""
Branches, returns, calls, and structured selections and loops.

Structured control flow is a region, as in MLIR: a selection's or loop's merge block is the last of
its region and ends in `spirv.mlir.merge`, whose operands are the results. OpPhi is a block's
argument. A selection's first block is its header; a loop's first block only branches to the header,
which is its second block, and the last block but one is the continue target.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_result_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
    ReturnLike,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import (
    EnumerationAttr,
    LoopControlAttr,
    SelectionControlAttr,
    parse_integer,
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import find_symbol
from xdsl_spirv.dialects.spirv.enums import LoopControl, SelectionControl
from xdsl_spirv.dialects.spirv.structure import FuncOp


def _parse_successor(parser: Parser) -> tuple[Block, list[SSAValue]]:
    """`^bb` or `^bb(%x, %y : i32, f32)`."""
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
    """What is passed to a block must be what its arguments take."""
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


def _verify_branches(op: Operation, operands: Sequence[Sequence[SSAValue]]) -> None:
    if op.parent_region() is None:
        return
    for block, passed in zip(op.successors, operands, strict=True):
        _verify_successor(op, block, passed)


@irdl_op_definition
class BranchOp(SPIRVOp):
    """OpBranch: `spirv.Branch ^bb(%x : f32)`."""

    name = "spirv.Branch"
    target_operands = var_operand_def()
    target = successor_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$target (`(` $target_operands^ `:` type($target_operands) `)`)? attr-dict"

    def __init__(self, target: Block, target_operands: Sequence[SSAValue | Operation] = ()):
        super().__init__(operands=[target_operands], successors=[target])

    def verify_(self) -> None:
        _verify_branches(self, [self.target_operands])


@irdl_op_definition
class BranchConditionalOp(SPIRVOp):
    """OpBranchConditional: `spirv.BranchConditional %c [9, 1], ^then, ^else(%x : f32)`."""

    name = "spirv.BranchConditional"
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
            operands=[condition, true_operands, false_operands],
            properties={"branch_weights": weights},
            successors=[true_target, false_target],
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

    def verify_(self) -> None:
        _verify_branches(self, [self.true_operands, self.false_operands])
        if self.branch_weights is None:
            return
        weights = [weight.value.data for weight in self.branch_weights]
        if len(weights) != 2 or sum(weights) == 0:
            raise VerifyException(
                f"branch weights are two numbers, of which at least one is above 0, not {weights}"
            )


@irdl_op_definition
class SwitchOp(SPIRVOp):
    """OpSwitch: `spirv.Switch %x : i32, [default: ^d, 0: ^a, 7: ^b(%v : f32)]`."""

    name = "spirv.Switch"
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
        """A case is its literal, its block and the values that the block takes."""
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
            operands=[selector, default[1], passed],
            properties={"literals": literals, "case_operand_segments": segments},
            successors=[default[0], [block for _, block, _ in cases]],
        )

    @property
    def case_literals(self) -> tuple[int, ...]:
        """The literals of the cases, of `targets` in order."""
        return tuple(int(v) for v in self.literals.get_values()) if self.literals else ()

    @property
    def case_operands(self) -> list[Sequence[SSAValue]]:
        """The values passed to each case's block."""
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
            raise VerifyException("a switch names a literal twice")
        if not len(self.targets) == len(self.case_literals) == len(self.case_operand_segments):
            raise VerifyException(
                f"a switch has {len(self.case_literals)} literals for {len(self.targets)} targets"
            )
        if self.literals and self.literals.get_element_type() != self.selector.type:
            raise VerifyException(
                f"the literals have type {self.literals.get_element_type()}, "
                f"but the selector is {self.selector.type}"
            )
        if sum(self.case_operand_segments.get_values()) != len(self.target_operands):
            raise VerifyException("case_operand_segments does not add up to the cases' operands")
        _verify_branches(self, [self.default_operands, *self.case_operands])


@irdl_op_definition
class ReturnOp(SPIRVOp):
    """OpReturn."""

    name = "spirv.Return"
    traits = traits_def(IsTerminator(), ReturnLike(), Pure())
    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()

    def verify_(self) -> None:
        function = enclosing_function(self)
        if function is not None and function.result_type is not None:
            raise VerifyException(
                f"the function gives {function.result_type}: return it with spirv.ReturnValue"
            )


@irdl_op_definition
class ReturnValueOp(SPIRVOp):
    """OpReturnValue: `spirv.ReturnValue %x : f32`."""

    name = "spirv.ReturnValue"
    value = operand_def()
    traits = traits_def(IsTerminator(), ReturnLike(), Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[value])

    def verify_(self) -> None:
        function = enclosing_function(self)
        if function is not None and function.result_type != self.value.type:
            raise VerifyException(
                f"the function gives {function.result_type or 'nothing'}, not {self.value.type}"
            )


@irdl_op_definition
class UnreachableOp(SPIRVOp):
    """OpUnreachable: undefined behaviour if it is executed."""

    name = "spirv.Unreachable"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


@irdl_op_definition
class KillOp(SPIRVOp):
    """OpKill: ends a fragment's invocation."""

    name = "spirv.Kill"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


def enclosing_function(op: Operation) -> FuncOp | None:
    """The function that `op` stands in, None where there is none (or it is not a SPIR-V one)."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


@irdl_op_definition
class FunctionCallOp(SPIRVOp):
    """OpFunctionCall: `%r = spirv.FunctionCall @f(%x) : (f32) -> f32`."""

    name = "spirv.FunctionCall"
    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    result = opt_result_def()
    assembly_format = (
        "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $result)"
    )
    irdl_options = (ParsePropInAttrDict(),)
    FIELDS: ClassVar = {"function": "callee"}

    def __init__(
        self,
        callee: str | SymbolRefAttr,
        arguments: Sequence[SSAValue | Operation],
        result_type: Attribute | None,
    ):
        if isinstance(callee, str):
            callee = SymbolRefAttr(callee)
        super().__init__(
            operands=[arguments],
            properties={"callee": callee},
            result_types=[result_type],
        )

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        function = find_symbol(self, self.callee)
        if not isinstance(function, FuncOp):
            raise VerifyException(f"{self.callee} is not a spirv.func of this module")
        inputs = function.function_type.inputs.data
        given = tuple(argument.type for argument in self.arguments)
        if given != inputs:
            raise VerifyException(
                f"{self.callee} takes ({', '.join(map(str, inputs))}), "
                f"not ({', '.join(map(str, given))})"
            )
        if tuple(self.result_types) != function.function_type.outputs.data:
            raise VerifyException(
                f"{self.callee} gives {function.result_type or 'nothing'}, "
                f"not {', '.join(map(str, self.result_types)) or 'nothing'}"
            )


@irdl_op_definition
class MergeOp(SPIRVOp):
    """The end of a selection's or a loop's region, with its results; not an instruction."""

    name = "spirv.mlir.merge"
    arguments = var_operand_def()
    traits = lazy_traits_def(
        lambda: (IsTerminator(), ReturnLike(), Pure(), HasParent(SelectionOp, LoopOp))
    )
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    def __init__(self, arguments: Sequence[SSAValue | Operation] = ()):
        super().__init__(operands=[arguments])


class Construct(SPIRVOp, ABC):
    """A structured construct: a control mask, results, and a region that ends in a merge block."""

    body = region_def()
    constructed = var_result_def()

    @property
    def merge_block(self) -> Block | None:
        """The last block, which ends in spirv.mlir.merge; None while the region is empty."""
        return self.body.blocks.last

    def _verify_merge(self) -> None:
        merge = self.merge_block
        if merge is None or not isinstance(merge.last_op, MergeOp):
            raise VerifyException(f"the last block of a {self.name} must end in spirv.mlir.merge")
        if merge.first_op is not merge.last_op:
            raise VerifyException(
                f"the merge block of a {self.name} must hold spirv.mlir.merge only: "
                "put other operations behind the construct"
            )
        for block in self.body.blocks:
            if block is not merge and isinstance(block.last_op, MergeOp):
                raise VerifyException(
                    f"spirv.mlir.merge must end the last block of a {self.name} only: "
                    "branch there instead"
                )
        given = tuple(argument.type for argument in merge.last_op.arguments)
        if given != tuple(self.result_types):
            raise VerifyException(
                f"{self.name} has results ({', '.join(map(str, self.result_types))}), but its "
                f"spirv.mlir.merge gives ({', '.join(map(str, given))})"
            )


def _parse_construct(
    parser: Parser, control: type[EnumerationAttr[Any]]
) -> tuple[EnumerationAttr[Any], list[Attribute], dict[str, Attribute], Region]:
    """`control(Unroll) -> i32, f32 attributes {...} {...}`."""
    mask = control(control.ENUM(0))
    if parser.parse_optional_keyword("control"):
        with parser.in_parens():
            mask = control(control.parse_enumerant(parser))
    results: list[Attribute] = []
    if parser.parse_optional_punctuation("->"):
        results += parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    region = parser.parse_region()
    return mask, results, dict(attributes.data) if attributes else {}, region


def _print_construct(printer: Printer, op: Construct, control: EnumerationAttr[Any]) -> None:
    if control.data:
        printer.print_string(f" control({control.spell(control.data)})")
    if op.results:
        printer.print_string(" -> ")
        printer.print_list(op.result_types, printer.print_attribute)
    printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string(" ")
    printer.print_region(op.body)


@irdl_op_definition
class SelectionOp(Construct):
    """
    OpSelectionMerge: `%r = spirv.mlir.selection control(Flatten) -> f32 { ... }`.

    The first block is the header, which ends in a conditional branch or a switch.
    """

    name = "spirv.mlir.selection"
    selection_control = prop_def(SelectionControlAttr)
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        body: Region,
        result_types: Sequence[Attribute] = (),
        selection_control: SelectionControl = SelectionControl.None_,
    ):
        super().__init__(
            properties={"selection_control": SelectionControlAttr(selection_control)},
            result_types=[result_types],
            regions=[body],
        )

    @property
    def header_block(self) -> Block | None:
        """The first block; None while the region is empty."""
        return self.body.blocks.first

    @classmethod
    def parse(cls, parser: Parser) -> SelectionOp:
        mask, results, attributes, region = _parse_construct(parser, SelectionControlAttr)
        op = cls(region, results, SelectionControl(mask.data))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_construct(printer, self, self.selection_control)

    def verify_(self) -> None:
        self._verify_merge()
        header = self.header_block
        if header is None or header is self.merge_block:
            raise VerifyException("a selection needs a header block before its merge block")
        if not isinstance(header.last_op, BranchConditionalOp | SwitchOp):
            raise VerifyException(
                "a selection's header must end in spirv.BranchConditional or spirv.Switch"
            )


@irdl_op_definition
class LoopOp(Construct):
    """
    OpLoopMerge: `%r = spirv.mlir.loop control(Unroll) -> f32 { ... }`.

    Blocks in order: the entry, which only branches to the header; the header; the body's; the
    continue target, which branches back to the header; the merge block.
    """

    name = "spirv.mlir.loop"
    loop_control = prop_def(LoopControlAttr)
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        body: Region,
        result_types: Sequence[Attribute] = (),
        loop_control: LoopControl = LoopControl.None_,
    ):
        super().__init__(
            properties={"loop_control": LoopControlAttr(loop_control)},
            result_types=[result_types],
            regions=[body],
        )

    @property
    def entry_block(self) -> Block:
        """The block that branches to the header. The operation must be verified."""
        return self.body.blocks[0]

    @property
    def header_block(self) -> Block:
        """The block that every iteration begins with. The operation must be verified."""
        return self.body.blocks[1]

    @property
    def continue_block(self) -> Block:
        """The block that branches back to the header. The operation must be verified."""
        return list(self.body.blocks)[-2]

    @classmethod
    def parse(cls, parser: Parser) -> LoopOp:
        mask, results, attributes, region = _parse_construct(parser, LoopControlAttr)
        op = cls(region, results, LoopControl(mask.data))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_construct(printer, self, self.loop_control)

    def verify_(self) -> None:
        self._verify_merge()
        blocks = list(self.body.blocks)
        if len(blocks) < 4:
            raise VerifyException(
                "a loop needs an entry, a header, a continue and a merge block: "
                f"this one has {len(blocks)} blocks"
            )
        entry, header, back, merge = blocks[0], blocks[1], blocks[-2], blocks[-1]
        if not isinstance(entry.first_op, BranchOp) or entry.first_op.target is not header:
            raise VerifyException(
                "a loop's entry block must hold one spirv.Branch to the header, its second block"
            )
        if not isinstance(header.last_op, BranchOp | BranchConditionalOp):
            raise VerifyException(
                "a loop's header must end in spirv.Branch or spirv.BranchConditional"
            )
        if back.last_op is None or header not in back.last_op.successors:
            raise VerifyException(
                "the last block but one is the continue target: it must branch to the header"
            )
        if any(target not in (header, merge) for target in back.last_op.successors):
            raise VerifyException(
                "a loop's continue target can branch to the header and the merge block only"
            )
        for block in blocks[1:-2]:
            if block.last_op is not None and header in block.last_op.successors:
                raise VerifyException(
                    "only the entry and the continue target may branch to a loop's header: "
                    "branch to the continue target instead"
                )


OPERATIONS: list[type[Operation]] = [
    BranchOp,
    BranchConditionalOp,
    SwitchOp,
    ReturnOp,
    ReturnValueOp,
    UnreachableOp,
    KillOp,
    FunctionCallOp,
    MergeOp,
    SelectionOp,
    LoopOp,
]
