"""
Structured selections and loops, returns and calls.

As in MLIR, a construct is an operation with a region. The merge block is the last block of the
region and ends in `spirv.mlir.merge`, whose operands are the results. A selection's first block is
its header. A loop's first block only branches to the second block, the header. The next to last
block is the continue target.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FlatSymbolRefAttrConstr, IntegerAttr
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    UniqueBaseAttributeVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint
from xdsl.traits import (
    ConstantLike,
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
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.branches import BranchConditionalOp, BranchOp, SwitchOp
from xdsl_spirv.dialects.spirv.enums import LoopControl, SelectionControl
from xdsl_spirv.dialects.spirv.folding import components_of, unsigned
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.upstream.kept_bodies import AllBlocksLive
from xdsl_spirv.upstream.symbols import find_symbol


class ReturnOp(SPIRVOp):
    """OpReturn. It is not pure, so that passes do not delete a construct that contains a return."""

    traits = traits_def(IsTerminator(), ReturnLike())
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        function = enclosing_function(self)
        if function is not None and function.result_type is not None:
            raise VerifyException(
                f"the function returns {function.result_type}: use spirv.ReturnValue"
            )


class ReturnValueOp(SPIRVOp):
    """OpReturnValue: `spirv.ReturnValue %x : f32`."""

    value = operand_def()
    traits = traits_def(IsTerminator(), ReturnLike())
    assembly_format = "$value attr-dict `:` type($value)"

    def verify_(self) -> None:
        function = enclosing_function(self)
        if function is not None and function.result_type != self.value.type:
            raise VerifyException(
                f"the function returns {function.result_type or 'no value'}, not {self.value.type}"
            )


class UnreachableOp(SPIRVOp):
    """OpUnreachable: undefined behaviour if it is executed."""

    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


class KillOp(SPIRVOp):
    """OpKill: ends a fragment shader's invocation."""

    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


def enclosing_function(op: Operation) -> FuncOp | None:
    """Returns the SPIR-V function that contains `op`. Returns None if there is no such function."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent


class FunctionCallOp(SPIRVOp):
    """OpFunctionCall: `%r = spirv.FunctionCall @f(%x) : (f32) -> f32`."""

    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    result = opt_result_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    assembly_format = (
        "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $result)"
    )
    irdl_options = (ParsePropInAttrDict(),)
    FIELDS: ClassVar = {"function": "callee"}

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
                f"{self.callee} returns {function.result_type or 'nothing'}, "
                f"not {', '.join(map(str, self.result_types)) or 'nothing'}"
            )


class MergeOp(SPIRVOp, name="spirv.mlir.merge"):
    """Ends the region of a selection or loop, and gives its results. Not an instruction."""

    arguments = var_operand_def()
    traits = lazy_traits_def(
        lambda: (IsTerminator(), ReturnLike(), Pure(), HasParent(SelectionOp, LoopOp))
    )
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@irdl_custom_directive
class Control(CustomDirective):
    """Syntax of a control mask: `control(Unroll)`. Nothing is written if no bit is set."""

    mask: UniqueBaseAttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        kind = cast("type[EnumerationAttr[Any]]", self.mask.unique_base)
        value = kind.ENUM(0)
        if parser.parse_optional_keyword("control"):
            with parser.in_parens():
                value = kind.parse_enumerant(parser)
        self.mask.set(state, kind(value))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        control = cast("EnumerationAttr[Any]", self.mask.get(op))
        if control.data:
            printer.print_string(f" control({control.spell(control.data)})")


FORMAT = "custom<Control>($CONTROL) (`->` type($constructed)^)? attr-dict-with-keyword $body"
"""
Assembly format of a selection or loop. A class replaces CONTROL by the name of its own property.
"""


class Construct(SPIRVOp, ABC):
    """A structured construct: a control mask, results, and a region that ends in a merge block."""

    body = region_def()
    constructed = var_result_def()
    custom_directives = (Control,)
    traits = traits_def(RecursiveMemoryEffect(), AllBlocksLive())

    @property
    def merge_block(self) -> Block | None:
        """The last block, which ends in spirv.mlir.merge. None if the region is empty."""
        return self.body.blocks.last

    def _verify_merge(self) -> None:
        merge = self.merge_block
        if merge is None or not isinstance(merge.last_op, MergeOp):
            raise VerifyException(f"the last block of a {self.name} must end in spirv.mlir.merge")
        if merge.first_op is not merge.last_op:
            raise VerifyException(
                f"the merge block of a {self.name} must only contain spirv.mlir.merge: "
                "move other operations after the construct"
            )
        for block in self.body.blocks:
            if block is not merge and isinstance(block.last_op, MergeOp):
                raise VerifyException(
                    f"only the last block of a {self.name} may end in spirv.mlir.merge: "
                    "branch to that block instead"
                )
        given = tuple(argument.type for argument in merge.last_op.arguments)
        if given != tuple(self.result_types):
            raise VerifyException(
                f"{self.name} has results ({', '.join(map(str, self.result_types))}), but its "
                f"spirv.mlir.merge has operands ({', '.join(map(str, given))})"
            )


class SelectionOp(Construct, HasCanonicalizationPatternsInterface, name="spirv.mlir.selection"):
    """
    OpSelectionMerge: `%r = spirv.mlir.selection control(Flatten) -> f32 { ... }`.

    The first block is the header, which ends in a conditional branch or a switch.
    """

    selection_control = prop_def(SelectionControlAttr)
    assembly_format = FORMAT.replace("CONTROL", "selection_control")

    def __init__(
        self,
        body: Region,
        result_types: Sequence[Attribute] = (),
        selection_control: SelectionControl = SelectionControl.None_,
    ):
        super().__init__(body, result_types, selection_control)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (SelectionOfConstant(),)

    @property
    def header_block(self) -> Block | None:
        """The first block of the region. None if the region is empty."""
        return self.body.blocks.first

    def verify_(self) -> None:
        self._verify_merge()
        header = self.header_block
        if header is None or header is self.merge_block:
            raise VerifyException("a selection needs a header block before its merge block")
        if not isinstance(header.last_op, BranchConditionalOp | SwitchOp):
            raise VerifyException(
                "a selection's header must end in spirv.BranchConditional or spirv.Switch"
            )


class LoopOp(Construct, name="spirv.mlir.loop"):
    """
    OpLoopMerge: `%r = spirv.mlir.loop control(Unroll) -> f32 { ... }`.

    The region contains, in this order, the entry block, the header, the body, the continue target
    and the merge block. The entry block only branches to the header. The continue target branches
    back to the header.
    """

    loop_control = prop_def(LoopControlAttr)
    assembly_format = FORMAT.replace("CONTROL", "loop_control")

    def __init__(
        self,
        body: Region,
        result_types: Sequence[Attribute] = (),
        loop_control: LoopControl = LoopControl.None_,
    ):
        super().__init__(body, result_types, loop_control)

    @property
    def header_block(self) -> Block:
        """The first block of every iteration. The operation must have been verified."""
        return self.body.blocks[1]

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
                "a loop's entry block must hold only a spirv.Branch to the second block, the header"
            )
        if not isinstance(header.last_op, BranchOp | BranchConditionalOp):
            raise VerifyException(
                "a loop's header must end in spirv.Branch or spirv.BranchConditional"
            )
        if back.last_op is None or header not in back.last_op.successors:
            raise VerifyException(
                "the next to last block is the continue target and must branch to the header"
            )
        if any(target not in (header, merge) for target in back.last_op.successors):
            raise VerifyException(
                "a loop's continue target can only branch to the header and the merge block"
            )
        for block in blocks[1:-2]:
            if block.last_op is not None and header in block.last_op.successors:
                raise VerifyException(
                    "only the entry and the continue target may branch to a loop's header: "
                    "branch to the continue target instead"
                )


EXITS = ("spirv.mlir.break", "spirv.mlir.continue")
"""Names of the operations that exit from several nested constructs (exits.py)."""


class SelectionOfConstant(RewritePattern):
    """
    Replaces a selection with a constant condition by the taken branch.

    The taken branch must lead to the merge block without another condition. It must not contain
    `spirv.mlir.break` or `spirv.mlir.continue`, which count the surrounding constructs.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        assert isinstance(op, SelectionOp)
        path = _taken_path(op.body.blocks)
        if path is None or any(_leaves_constructs(block) for block, _ in path):
            return
        merge = path[-1][0].last_op
        assert isinstance(merge, MergeOp)
        for block, passed in path:
            for argument, value in zip(block.args, passed, strict=True):
                argument.replace_all_uses_with(value)
            for inner in list(block.ops):
                if inner is not block.last_op:
                    inner.detach()
                    rewriter.insert(inner, InsertPoint.before(op))
        rewriter.replace(op, [], list(merge.arguments))


def _taken_path(
    blocks: Sequence[Block],
) -> Sequence[tuple[Block, Sequence[SSAValue]]] | None:
    block, passed = blocks[0], ()
    path: list[tuple[Block, Sequence[SSAValue]]] = [(block, passed)]
    following = _decided_branch(block.last_op)
    while following is not None:
        block, passed = following
        path.append((block, passed))
        if block is blocks[-1]:
            return path
        end = block.last_op
        if not isinstance(end, BranchOp) or len(path) > len(blocks):
            return None
        following = end.target, end.target_operands
    return None


def _decided_branch(end: Operation | None) -> tuple[Block, Sequence[SSAValue]] | None:
    if not isinstance(end, BranchConditionalOp | SwitchOp):
        return None
    numbers = components_of(ConstantLike.get_constant_value(end.operands[0]))
    if numbers is None:
        return None
    if isinstance(end, BranchConditionalOp):
        if unsigned(numbers[0]):
            return end.true_target, end.true_operands
        return end.false_target, end.false_operands
    cases = zip(end.case_literals, end.targets, end.case_operands, strict=True)
    for literal, target, operands in cases:
        if unsigned(IntegerAttr(literal, numbers[0].type)) == unsigned(numbers[0]):
            return target, operands
    return end.default_target, end.default_operands


def _leaves_constructs(block: Block) -> bool:
    return any(inner.name in EXITS for op in block.ops for inner in op.walk())
