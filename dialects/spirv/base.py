"""
Base class of the `spirv` dialect's operations, which maps an operation to a SPIR-V instruction.

An operation declares its operands, properties and verification rules. The grammar table
(`grammar/core.json`) gives the instruction's opcode, the order of its words, and its capabilities.

A subclass of `SPIRVOp` is an operation, unless `ABC` is one of its bases: then it is a family.
Operations that differ in few facts form a table of one-line classes, with the facts in the header:

    class UDivOp(UnsignedArithmetic, compute=operator.floordiv): \"""Unsigned division.\"""

The operation's name follows from the class name (`operation_name`) unless the header has a `name`.

The constructor of an operation takes the fields that the class declares, in the order of the
declarations; fields of base classes come first. For the result it takes `result_type`:

    AtomicIAddOp(pointer, Scope.Device, MemorySemantics.None_, value)
    BitcastOp(value, f32)

Optional fields follow all others. The result's type is optional if it follows from the operands: by
a constraint variable, or by the class's `RESULT`. Sequences are the values of a variadic operand,
or the elements of an array. Enumerants, numbers and symbols become attributes. A class that
computes more than this has its own constructor.

The instruction's name follows from the operation's (`spirv.IAdd` is OpIAdd, `spirv.KHR.AssumeTrue`
is OpAssumeTrueKHR, `spirv.GL.Exp` is Exp of GLSL.std.450). The field of a grammar operand is its
name in snake case (`Vector 1` is `vector_1`). SSA operands may have other names, since they are
also matched in order. `FIELDS` of a class lists other names of properties.
"""

from __future__ import annotations

import re
from abc import ABC, ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, Unpack

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OpDef,
    OptionalDef,
    VariadicDef,
    VerificationContext,
    traits_def,
)
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
"""Maps the prefix of an operation's name to the extended instruction set."""

VENDORS = ("KHR", "EXT", "NV", "INTEL", "ARM", "AMD", "QCOM", "VALVE")


Value = SSAValue | Operation
"""An operand for a constructor. It is a value, or an operation with one result."""

Argument: TypeAlias = (
    "Value | Attribute | Enum | int | str | Block | Region | Sequence[Argument] | None"
)
"""An argument of a constructor (see `SPIRVOp`)."""

RESULT_TYPE = "result_type"
"""Name of the constructor parameter for the type of the result."""


class Facts(TypedDict, total=False):
    """
    Class attributes that can be set in the header of a class: the keyword `compute = f` sets
    `COMPUTE`.
    """

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
    result: Attribute | str | Callable[[Attribute], Attribute]


class OperationClass(ABCMeta):
    """Metaclass that shows the parameters of constructors to `help`, `inspect` and editors."""

    @property
    def __signature__(cls) -> Signature | None:
        """
        The constructor's signature. None for families, and for classes that define their own
        constructor.
        """
        has_own = cls.__init__ is not SPIRVOp.__init__ or ABC in cls.__bases__
        return None if has_own else constructor_of(cls).signature


class SPIRVOp(PlacedOperation, ABC, metaclass=OperationClass):
    """Base class of all operations of the dialect."""

    FIELDS: ClassVar[Mapping[str, str]] = {}
    """
    Maps the name of a grammar operand (in snake case) to the name of its operand or property, if
    they differ.
    """

    BY_SIGNATURE: ClassVar[bool] = False
    """
    True if verification depends only on types and properties, not on surrounding operations or on
    the operations that define the operands. Operations with equal types and properties are then
    verified only once (upstream/signatures.py).
    """

    def __init_subclass__(
        cls, *, name: str | None = None, commutative: bool = False, **facts: Unpack[Facts]
    ) -> None:
        """
        Sets the class attributes that the class header gives. An operation gets a name, a family
        does not.
        """
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

    RESULT: ClassVar[Attribute | str | Callable[[Attribute], Attribute] | None] = None
    """
    The type of the result, if no constraint determines it: a type, the name of an operand with the
    same type, or a function of the first operand's type. None if the caller of the constructor
    chooses it.
    """

    def __init__(self, *arguments: Argument, **named: Argument):
        """
        Takes the values of the declared fields in order, or by name (see the module's docstring).

        Raises `TypeError` if a required field is missing or an argument has no field.
        """
        form = constructor_of(type(self))
        initialize = Operation.__init__ if form.is_plain else IRDLOperation.__init__
        initialize(self, **form.parts(arguments, named))

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns the capabilities that the operation's types require, each with the reason."""
        return ()


class Constructor:
    """The parameters of an operation's constructor, which follow from the class's declarations."""

    def __init__(self, cls: type[SPIRVOp]):
        self.definition = definition = cls.get_irdl_definition()
        fields = {name: field for field, (name, _) in definition.accessor_names.items()}
        self.properties = [
            (fields.get(name, name), name, d.constr.get_bases() == {StringAttr})
            for name, d in definition.properties.items()
        ]
        """
        List of parameter, property, and a bool: True if a string argument is a text, False if it is
        a symbol's name.
        """
        results = dict[str, object](definition.results)
        declared = results | dict[str, object](
            (*definition.operands, *definition.successors, *definition.regions)
        )
        self.is_plain = not any(isinstance(d, VariadicDef) for d in declared.values())
        """
        True if the operation has no optional or variadic operand, result, region or successor.
        """
        declared |= {field: definition.properties[name] for field, name, _ in self.properties}
        self.infer = _inference(cls, definition) if results else None
        if self.infer is not None:
            declared |= dict.fromkeys(results, OptionalDef())
        order = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
        names = [name for name in order if name in declared]
        names.sort(key=lambda name: isinstance(declared[name], OptionalDef))
        parameters = {name: RESULT_TYPE if name in results else name for name in names}
        self.names = tuple(parameters.values())
        self.allowed = frozenset(self.names)
        self.required = [
            parameters[name] for name in names if not isinstance(declared[name], VariadicDef)
        ]

    @property
    def signature(self) -> Signature:
        """The signature of the constructor. The default of an optional parameter is None."""
        kind = Parameter.POSITIONAL_OR_KEYWORD
        defaults = (Parameter.empty if name in self.required else None for name in self.names)
        pairs = zip(self.names, defaults, strict=True)
        return Signature([Parameter(name, kind, default=default) for name, default in pairs])

    def parts(self, arguments: Sequence[Argument], named: Mapping[str, Argument]) -> dict[str, Any]:
        """
        Converts the arguments to arguments of xDSL's constructor. Raises `TypeError` if they do not
        fit.
        """
        definition = self.definition
        given: dict[str, Any] = dict(zip(self.names, arguments, strict=False)) | dict(named)
        fits = len(given) == len(arguments) + len(named) and given.keys() <= self.allowed
        if not fits or any(given.get(name) is None for name in self.required):
            names = ", ".join(n if n in self.required else f"[{n}]" for n in self.names)
            raise TypeError(
                f"{definition.name} takes the arguments ({names}), but {len(arguments)} are given "
                f"by position and ({', '.join(named)}) by name"
            )
        result_type = given.get(RESULT_TYPE)
        if result_type is None and self.infer is not None:
            result_type = self.infer(given)
        return {
            "operands": [
                SSAValue.get(given[name]) if self.is_plain else given.get(name)
                for name, _ in definition.operands
            ],
            "result_types": [result_type] if definition.results else [],
            "properties": {
                name: as_attribute(given[field], text=text)
                for field, name, text in self.properties
                if given.get(field) is not None
            },
            "successors": [given.get(name) for name, _ in definition.successors],
            "regions": [given.get(name) for name, _ in definition.regions],
        }


constructor_of = cache(Constructor)
"""Returns the constructor of a class of operations."""


def _inference(
    cls: type[SPIRVOp], definition: OpDef
) -> Callable[[Mapping[str, Any]], Attribute] | None:
    """
    Returns the function that computes the result's type. Returns None if the caller must give the
    type.
    """
    operands, constraint = dict(definition.operands), definition.results[0][1].constr
    source = cls.RESULT
    if source is None and constraint.variables():
        source = next((name for name, d in operands.items() if d.constr == constraint), None)
    if source is None and constraint.can_infer(set(), length_known=True):
        (source,) = constraint.infer(VerificationContext(), length=1)
    if source is None or isinstance(source, Attribute):
        return source and (lambda given: source)
    if isinstance(source, str):
        return lambda given: SSAValue.get(given[source]).type
    first = next(iter(operands))
    return lambda given: source(SSAValue.get(given[first]).type)


def instruction_of(op: Operation | type[Operation]) -> tuple[str | None, str]:
    """
    Returns the extended instruction set (None for core) and the name of the instruction.

    >>> from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
    >>> instruction_of(IAddOp)
    (None, 'OpIAdd')
    """
    return instruction_named(op.name)


@cache
def instruction_named(operation: str) -> tuple[str | None, str]:
    """
    Returns the instruction set and the instruction that an operation's name stands for, like
    `instruction_of`.
    """
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
