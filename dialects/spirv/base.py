"""
How an operation of the `spirv` dialect says which SPIR-V instruction it is.

An operation states its name, its operands and properties, and the rules its verifier checks. What
the instruction's opcode is, in which order its words stand, which capabilities enable it: that is
in the grammar table (`serialization/grammar.json`), found by the instruction's name.

The instruction's name follows from the operation's (`spirv.IAdd` is OpIAdd, `spirv.KHR.AssumeTrue`
is OpAssumeTrueKHR, `spirv.GL.Exp` is Exp of GLSL.std.450); a grammar operand's field is its name in
snake case (`Vector 1` is `vector_1`). Where MLIR's spelling departs from that, the class says so in
`INSTRUCTION` and `FIELDS`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream import lazy_formats

lazy_formats.install()

EXTENDED_SETS = {"GL": "GLSL.std.450", "CL": "OpenCL.std"}
"""The extended instruction set that a prefix of an operation's name stands for."""

VENDORS = ("KHR", "EXT", "NV", "INTEL", "ARM", "AMD", "QCOM", "VALVE")


class SPIRVOp(IRDLOperation, ABC):
    """Base of every operation of the dialect."""

    INSTRUCTION: ClassVar[str | None] = None
    """The instruction's name in the grammar where it does not follow from the operation's name."""

    FIELDS: ClassVar[Mapping[str, str]] = {}
    """Grammar operand name in snake case -> operand or property name, where the two differ."""

    BY_SIGNATURE: ClassVar[bool] = False
    """
    Whether the class's own rules look at types and properties only, not at what defines an operand
    or stands around the operation: they are then checked once for each signature (`signatures.py`).
    """

    def verify(self, verify_nested_ops: bool = True) -> None:
        """
        As xDSL's. Raises `VerifyException`.

        Where xDSL's checks of regions, successors and the place of a terminator have nothing to say
        is seen here at once: of a terminator, xDSL counts the blocks of its region.
        """
        if self.regions or not self._stands_well():
            super().verify(verify_nested_ops)
            return
        try:
            self.verify_()
        except VerifyException as error:
            self.emit_error(f"Operation does not verify: {error}", error)

    def _stands_well(self) -> bool:
        """Whether what follows from an operation's place is certainly as it must be."""
        block = self.parent
        if block is None:
            return False
        for operand in self._operands:
            if type(operand) is ErasedSSAValue:
                return False
        if block.last_op is not self:
            return not self._successors
        region = block.parent
        inside = all(target.parent is region for target in self._successors)
        return region is not None and inside and self.has_trait(IsTerminator)


def instruction_of(op: Operation | type[Operation]) -> tuple[str | None, str]:
    """
    The extended instruction set (None for the core) and the name of an operation's instruction.

    >>> from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
    >>> instruction_of(IAddOp)
    (None, 'OpIAdd')
    """
    explicit = getattr(op, "INSTRUCTION", None)
    parts = op.name.split(".")[1:]
    if len(parts) == 2 and parts[0] in EXTENDED_SETS:
        return EXTENDED_SETS[parts[0]], explicit or parts[1]
    vendor = parts[0] if len(parts) == 2 and parts[0] in VENDORS else ""
    return None, explicit or f"Op{parts[-1]}{vendor}"
