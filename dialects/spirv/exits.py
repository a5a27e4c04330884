"""
Exits from nested constructs: `break` and `continue` of SPIR-V.

A branch stays in its region, so a block inside a selection cannot branch to the merge block or
continue target of a surrounding loop. `spirv.mlir.break` and `spirv.mlir.continue` end such a
block, and give the number of constructs that they leave. MLIR has neither operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block
from xdsl.irdl import prop_def, traits_def, var_operand_def
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.control_flow import Construct, LoopOp


class ExitOp(SPIRVOp, ABC):
    """Leaves `levels` constructs and branches to a block of the construct around them."""

    levels = prop_def(IntegerAttr.constr(i32))
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$levels (`(` $arguments^ `:` type($arguments) `)`)? attr-dict"

    @property
    def construct(self) -> Construct | None:
        """
        The outermost construct that the exit leaves. None if there are fewer than `levels`
        constructs around it.
        """
        region = self.parent_op()
        for _ in range(self.levels.value.data):
            if not isinstance(region, Construct):
                return None
            region = region.parent_op()
        return region if isinstance(region, Construct) else None

    @property
    @abstractmethod
    def target(self) -> Block | None:
        """The block that the exit branches to. None if `levels` is too large."""

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        if self.levels.value.data < 1:
            raise VerifyException(f"{self.name} must leave a construct: use spirv.Branch instead")
        target = self.target
        if target is None:
            raise VerifyException(f"{self.name} leaves more constructs than surround it")
        given = tuple(argument.type for argument in self.arguments)
        if given != tuple(target.arg_types):
            raise VerifyException(
                f"({', '.join(map(str, given))}) is passed to a block that takes "
                f"({', '.join(map(str, target.arg_types))})"
            )


class BreakOp(ExitOp, name="spirv.mlir.break"):
    """Branches to the merge block of a surrounding construct: `spirv.mlir.break 1 (%x : f32)`."""

    @property
    def target(self) -> Block | None:
        construct = self.construct
        return None if construct is None else construct.body.blocks.last


class ContinueOp(ExitOp, name="spirv.mlir.continue"):
    """Branches to the continue target of a surrounding loop: `spirv.mlir.continue 1 (%x : f32)`."""

    @property
    def target(self) -> Block | None:
        construct = self.construct
        if not isinstance(construct, LoopOp) or construct.body.blocks.last is None:
            return None
        return construct.body.blocks.last.prev_block
