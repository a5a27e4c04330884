"""
Base of the `spirv` dialect's operations: connects an operation with its SPIR-V instruction.

An operation states its name, its operands and properties, and the rules its verifier checks. The
instruction's opcode, the order of its words and the capabilities that enable it are in the
grammar table (`grammar/core.json`), found by the instruction's name.

The instruction's name follows from the operation's (`spirv.IAdd` is OpIAdd, `spirv.KHR.AssumeTrue`
is OpAssumeTrueKHR, `spirv.GL.Exp` is Exp of GLSL.std.450); a grammar operand's field is its name in
snake case (`Vector 1` is `vector_1`). Where MLIR's spelling departs from that, the class says so in
`FIELDS`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from xdsl.ir import Operation

from xdsl_spirv.upstream import lazy_formats
from xdsl_spirv.upstream.placement import PlacedOperation

if TYPE_CHECKING:
    from xdsl_spirv.dialects.spirv.enums import Capability

lazy_formats.install()

EXTENDED_SETS = {"GL": "GLSL.std.450", "CL": "OpenCL.std"}
"""The extended instruction set that a prefix of an operation's name stands for."""

VENDORS = ("KHR", "EXT", "NV", "INTEL", "ARM", "AMD", "QCOM", "VALVE")


class SPIRVOp(PlacedOperation, ABC):
    """Base of every operation of the dialect."""

    FIELDS: ClassVar[Mapping[str, str]] = {}
    """Grammar operand name in snake case -> operand or property name, where the two differ."""

    BY_SIGNATURE: ClassVar[bool] = False
    """
    Whether the class's own rules look at types and properties only, and not at the operands'
    producers or the surrounding operations: they are then checked once for each signature
    (upstream/signatures.py).
    """

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """The capabilities that depend on the operation's types, each with its reason."""
        return ()


def instruction_of(op: Operation | type[Operation]) -> tuple[str | None, str]:
    """
    The extended instruction set (None for the core) and the name of an operation's instruction.

    >>> from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
    >>> instruction_of(IAddOp)
    (None, 'OpIAdd')
    """
    return instruction_named(op.name)


def instruction_named(operation: str) -> tuple[str | None, str]:
    """As `instruction_of`, by the operation's name."""
    parts = operation.split(".")[1:]
    if len(parts) == 2 and parts[0] in EXTENDED_SETS:
        return EXTENDED_SETS[parts[0]], parts[1]
    vendor = parts[0] if len(parts) == 2 and parts[0] in VENDORS else ""
    return None, f"Op{parts[-1]}{vendor}"
