"""
Ways out of nested constructs: `break` and `continue` as SPIR-V has them.

A branch stays in its region, so a block inside a selection cannot branch to the merge block or the
continue target of the loop around it. These operations end such a block instead; how many
constructs they leave is a number. None of them is MLIR's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import prop_def, traits_def, var_operand_def
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.control_flow import Construct, LoopOp


class ExitOp(SPIRVOp, ABC):
    """Leaves `levels` constructs for a block of the one around them."""

    levels = prop_def(IntegerAttr.constr(i32))
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$levels (`(` $arguments^ `:` type($arguments) `)`)? attr-dict"

    def __init__(self, levels: int, arguments: Sequence[SSAValue | Operation] = ()):
        super().__init__(operands=[arguments], properties={"levels": IntegerAttr(levels, i32)})

    @property
    def construct(self) -> Construct | None:
        """The outermost construct that the exit leaves; None if there are fewer than `levels`."""
        region = self.parent_op()
        for _ in range(self.levels.value.data):
            if not isinstance(region, Construct):
                return None
            region = region.parent_op()
        return region if isinstance(region, Construct) else None

    @property
    @abstractmethod
    def target(self) -> Block | None:
        """The block that the exit branches to; None if there is none."""

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        if self.levels.value.data < 1:
            raise VerifyException("within one construct, branch to its block")
        target = self.target
        if target is None:
            raise VerifyException(f"{self.name} leaves more constructs than there are around it")
        given = tuple(argument.type for argument in self.arguments)
        if given != tuple(target.arg_types):
            raise VerifyException(
                f"({', '.join(map(str, given))}) is passed to a block that takes "
                f"({', '.join(map(str, target.arg_types))})"
            )


class BreakOp(ExitOp, name="spirv.mlir.break"):
    """Branches to the merge block of a construct around: `spirv.mlir.break 1 (%x : f32)`."""

    @property
    def target(self) -> Block | None:
        construct = self.construct
        return None if construct is None else construct.body.blocks.last


class ContinueOp(ExitOp, name="spirv.mlir.continue"):
    """Branches to the continue target of a loop around: `spirv.mlir.continue 1 (%x : f32)`."""

    @property
    def target(self) -> Block | None:
        construct = self.construct
        if not isinstance(construct, LoopOp) or construct.body.blocks.last is None:
            return None
        return construct.body.blocks.last.prev_block
