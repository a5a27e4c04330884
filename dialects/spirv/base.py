"""
Base class of the `spirv` dialect's operations, which maps an operation to a SPIR-V instruction.

An operation declares its operands, properties and verification rules. The grammar table
(`grammar/core.json`) gives the instruction's opcode, the order of its words, and its capabilities.

A subclass of `SPIRVOp` is an operation, unless `ABC` is one of its bases: then it is a family.
Operations that differ in few facts form a table of one-line classes, with the facts in the header:

    class UDivOp(UnsignedArithmetic, compute=operator.floordiv): \"""Unsigned division.\"""

The operation's name follows from the class name (`operation_name`) unless the header has a `name`.

The instruction's name follows from the operation's (`spirv.IAdd` is OpIAdd, `spirv.KHR.AssumeTrue`
is OpAssumeTrueKHR, `spirv.GL.Exp` is Exp of GLSL.std.450). The field of a grammar operand is its
name in snake case (`Vector 1` is `vector_1`). `FIELDS` of a class lists names that MLIR changes.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.traits import Commutative

from xdsl_spirv.dialects.spirv import operation_name
from xdsl_spirv.dialects.spirv.attributes import as_attribute
from xdsl_spirv.upstream import lazy_formats, signatures
from xdsl_spirv.upstream.placement import PlacedOperation

if TYPE_CHECKING:
    from xdsl.dialects.builtin import VectorType

    from xdsl_spirv.dialects.spirv.enums import Capability

lazy_formats.install()

EXTENDED_SETS = {"GL": "GLSL.std.450", "CL": "OpenCL.std", "Tosa": "TOSA.001000.1"}
"""Prefix of an operation's name -> the extended instruction set."""

VENDORS = ("KHR", "EXT", "NV", "INTEL", "ARM", "AMD", "QCOM", "VALVE")


Value = SSAValue | Operation
"""An operand for a constructor: a value, or an operation that stands for its result."""


class Facts(TypedDict, total=False):
    """Class attributes that a class's header may set, in lower case."""

    fields: Mapping[str, str]
    compute: Callable[..., Any]
    signed: bool
    neutral: int | None
    absorbing: int | None
    matrices: bool
    component: str
    kind: tuple[Callable[[Attribute], bool], str]
    signedness: Enum
    uniform: tuple[str, str] | None
    vector: VectorType
    packed: Attribute
    result: Attribute


class SPIRVOp(PlacedOperation, ABC):
    """Base class of all operations of the dialect."""

    FIELDS: ClassVar[Mapping[str, str]] = {}
    """Grammar operand name in snake case -> operand or property name, if they differ."""

    BY_SIGNATURE: ClassVar[bool] = False
    """
    True if verification depends only on types and properties, not on producers or surrounding
    operations. Each signature is then verified once (upstream/signatures.py).
    """

    def __init_subclass__(
        cls, *, name: str | None = None, commutative: bool = False, **facts: Unpack[Facts]
    ) -> None:
        """Defines an operation from the class's header and body. Does nothing for families."""
        super().__init_subclass__()
        for fact, value in facts.items():
            constant = fact.upper()
            if not any(constant in base.__annotations__ for base in cls.__mro__[1:-1]):
                raise TypeError(f"{cls.__name__}: none of its base classes declares {constant}")
            cls.__annotations__[constant] = ClassVar
            setattr(cls, constant, value)
        if commutative:
            cls.traits = traits_def(Commutative())
        if ABC not in cls.__bases__:
            cls.name = name or operation_name(cls.__name__)
            signatures.define(cls)

    def __init__(
        self,
        operands: Sequence[Value | Sequence[Value] | None] = (),
        result_types: Sequence[Attribute | Sequence[Attribute] | None] = (),
        *,
        properties: Mapping[str, Attribute | None] | None = None,
        regions: Sequence[Region | Sequence[Region]] = (),
        successors: Sequence[Block | Sequence[Block]] = (),
        attributes: Mapping[str, Attribute | None] | None = None,
        **named: Attribute | Enum | int | str | None,
    ):
        """Sets `named` as properties: enumerants, numbers and symbol names become attributes."""
        given = {key: as_attribute(value) for key, value in named.items() if value is not None}
        super().__init__(
            operands=operands,
            result_types=result_types,
            properties={**properties, **given} if properties else given,
            attributes=attributes,
            successors=successors,
            regions=regions,
        )

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns the capabilities that the operation's types require, each with the reason."""
        return ()


def instruction_of(op: Operation | type[Operation]) -> tuple[str | None, str]:
    """
    Returns the extended instruction set (None for core) and the name of the instruction.

    >>> from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
    >>> instruction_of(IAddOp)
    (None, 'OpIAdd')
    """
    return instruction_named(op.name)


def instruction_named(operation: str) -> tuple[str | None, str]:
    """Returns the instruction set and instruction of an operation's name, like `instruction_of`."""
    parts = operation.split(".")[1:]
    if len(parts) == 2 and parts[0] in EXTENDED_SETS:
        name = _tosa_name(parts[1]) if parts[0] == "Tosa" else parts[1]
        return EXTENDED_SETS[parts[0]], name
    vendor = parts[0] if len(parts) == 2 and parts[0] in VENDORS else ""
    return None, f"Op{parts[-1]}{vendor}"


def _tosa_name(mnemonic: str) -> str:
    """
    Converts MLIR's name of a TOSA operator to TOSA's name.

    >>> _tosa_name("DepthwiseConv2D"), _tosa_name("ArgMax")
    ('DEPTHWISE_CONV2D', 'ARGMAX')
    """
    if mnemonic in ("ArgMax", "IntDiv", "MatMul"):
        return mnemonic.upper()
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", mnemonic).upper()
