"""
Decodes an instruction to an operation. Inverse of `encode/operations.py`.

Each class of operation gets one decoder: a list of the instruction's operands in the grammar's
order. Each entry names the operand or property of the class that holds it. Properties are made as
the class declares them (an enumeration attribute, a number, a symbol), so new classes need no code
in this module. If a class cannot hold an instruction (a scope that is a specialization constant,
for example), the decoder raises `NotDeclared`, and the instruction becomes a raw operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Protocol, TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    NoneType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OptOperandDef,
    VarOperandDef,
    VarResultDef,
)
from xdsl.irdl.constraints import AnyAttr

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv import attributes as enumeration_attributes
from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr
from xdsl_spirv.dialects.spirv.base import EXTENDED_SETS, instruction_named, instruction_of
from xdsl_spirv.grammar import Category, Operand, grammar
from xdsl_spirv.serialization.encode.operations import (
    PARAMETERS,
    field_of,
    instruction_for,
    properties_of,
)
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.upstream.on_demand import attributes_of

ENUMERATIONS: Mapping[str, type[EnumerationAttr[Any]]] = {
    cls.ENUM.__name__: cast("type[EnumerationAttr[Any]]", cls)
    for cls in attributes_of([enumeration_attributes])
    if issubclass(cls, EnumerationAttr)
}
"""Maps a kind of operand to the class of attributes for its enumerants."""


class NotDeclared(Exception):
    """Raised if the class declares no field for a part of an instruction, or no such value."""


class Known(Protocol):
    """Interface of the tables that decoders read: ids to values, types and attributes."""

    location: LocationAttr
    """Location of the current instruction."""

    def value(self, id: int) -> SSAValue: ...
    def type(self, id: int) -> Attribute: ...
    def attribute(self, id: int) -> Attribute | None:
        """
        Converts an id to an attribute: a constant's value, a symbol of the module, or a type.
        Returns None for other ids.
        """
        ...

    def constant(self, id: int) -> int | None:
        """Returns the number of an integer constant. Returns None for other ids."""
        ...


class Words:
    """
    State while one instruction is decoded: its words, and the operands and properties made so far.
    """

    __slots__ = ("at", "derived", "known", "operands", "properties", "segments", "words")

    def __init__(self, known: Known, words: Sequence[int], at: int):
        self.known = known
        self.words = words
        self.at = at
        self.operands: list[SSAValue] = []
        self.segments: list[int] = []
        self.properties: dict[str, Attribute] = {}
        self.derived: dict[str, int] = {}

    def next(self) -> int:
        at = self.at
        if at >= len(self.words):
            raise NotDeclared("the instruction lacks an operand")
        self.at = at + 1
        return self.words[at]


Reader: TypeAlias = Callable[[Words], None]

Decode: TypeAlias = Callable[[Known, Sequence[int]], Operation]
"""
A function that creates an operation from words. Raises `NotDeclared` if its class cannot hold them.
"""


@cache
def operation_names() -> Mapping[tuple[str | None, int], str]:
    """
    Maps (extended set, opcode) to the name of the operation. The set is None for core instructions.
    """
    names: dict[tuple[str | None, int], str] = {}
    for name in SPIRV.names:
        in_set, instruction = instruction_named(name)
        try:
            opcode = grammar().instruction(instruction, in_set).opcode
        except KeyError:
            continue
        names[in_set, opcode] = name
    return names


def class_of(in_set: str | None, opcode: int) -> type[IRDLOperation] | None:
    """
    Imports and returns the class of operation for an instruction. Returns None if there is none.
    """
    name = operation_names().get((in_set, opcode))
    if name is None:
        return None
    return cast("type[IRDLOperation]", SPIRV.operation(name))


@cache
def core_decoder(opcode: int) -> Decode | None:
    """
    Returns the decoder of a core instruction. Returns None if the dialect has no class for it.
    """
    cls = class_of(None, opcode)
    if cls is None:
        return None
    decode = decoder_of(cls)
    return _copy_decoder(decode) if opcode == opcode_of("OpCopyLogical") else decode


def _copy_decoder(logical: Decode) -> Decode:
    """
    Decodes OpCopyLogical as `spirv.CopyObject` if the dialect represents both types as the same
    type.
    """
    plain = core_decoder(opcode_of("OpCopyObject"))
    assert plain is not None

    def decode(known: Known, words: Sequence[int]) -> Operation:
        is_plain = known.type(words[1]) == known.value(words[3]).type
        return (plain if is_plain else logical)(known, words)

    return decode


@lru_cache(maxsize=4096)
def extended_decoder(instruction_set: str, number: int) -> Decode | None:
    """
    Returns the decoder of an extended instruction. Returns None if the dialect has no class for it.
    """
    if instruction_set not in EXTENDED_SETS.values():
        return None
    cls = class_of(instruction_set, number)
    return None if cls is None else decoder_of(cls)


@cache
def decoder_of(cls: type[IRDLOperation]) -> Decode:
    """Returns the decoder of a class of operations."""
    instruction = instruction_for(cls)
    definition = cls.get_irdl_definition()
    order = [name for name, _ in definition.operands]
    extended = instruction_of(cls)[0] is not None
    has_type = instruction.has_result_type or extended
    has_result = instruction.has_result or extended
    begin = 1 + has_type + has_result + 2 * extended
    inputs = [o for o in instruction.operands if o.kind not in ("IdResultType", "IdResult")]
    names = [field_of(cls, o) for o in inputs]
    if names == order and not has_several_segments(cls) and has_type and has_result:
        return _plain(cls, inputs, begin)
    readers = [(o, _reader(cls, o)) for o in inputs]
    # Operands come in the grammar's order, so the class must declare them in this order.
    # A mask's parameters follow the mask, which is the last operand.
    parameters = [n for n in order if n not in names and n in PARAMETERS.values()]
    shuffled = [n for n in names if n in order] + parameters != order
    needs_result = any(not isinstance(d, VarResultDef) for _, d in definition.results)
    if instruction.has_result and not definition.results:
        return _symbol
    sized = any(isinstance(o, AttrSizedOperandSegments) for o in definition.options)

    def decode(known: Known, words: Sequence[int]) -> Operation:
        state = Words(known, words, begin)
        for operand, read in readers:
            if operand.quantifier and state.at >= len(words):
                if read is not None and field_of(cls, operand) in order:
                    state.segments.append(0)
                continue
            if read is None:
                raise NotDeclared("the class has no field for an operand of the instruction")
            read(state)
        if state.at != len(words) or shuffled:
            raise NotDeclared("the instruction has more operands than the class has fields")
        properties = state.properties
        if sized:
            properties["operandSegmentSizes"] = _array(tuple(state.segments))
        types: Sequence[Attribute] = ()
        if has_type:
            types = (known.type(words[1]),)
            if not definition.results or isinstance(types[0], NoneType):
                types = ()
            if not types and needs_result:
                raise NotDeclared("the instruction has no result type")
        op = cls.create(
            operands=state.operands,
            result_types=types,
            properties=properties,
            location=known.location,
        )
        for field, word in state.derived.items():
            if int(getattr(op, field).data) != word:
                raise NotDeclared(f"{field} contradicts the types")
        return op

    return decode


def _symbol(known: Known, words: Sequence[int]) -> Operation:
    """Raises `NotDeclared`, because a function cannot contain operations that declare symbols."""
    raise NotDeclared("symbols are not allowed in a function")


def has_several_segments(cls: type[IRDLOperation]) -> bool:
    """True if a class has several optional or variadic operands."""
    definitions = [d for _, d in cls.get_irdl_definition().operands]
    return sum(isinstance(d, VarOperandDef | OptOperandDef) for d in definitions) > 1


def _plain(cls: type[IRDLOperation], inputs: Sequence[Operand], begin: int) -> Decode:
    least = begin + sum(not o.quantifier for o in inputs)
    most = 1 << 16 if any(o.quantifier == "*" for o in inputs) else begin + len(inputs)
    create = cls.create

    def decode(known: Known, words: Sequence[int]) -> Operation:
        if not least <= len(words) <= most:
            raise NotDeclared("the instruction has too few or too many operands")
        value = known.value
        return create(
            operands=[value(w) for w in words[begin:]],
            result_types=(known.type(words[1]),),
            location=known.location,
        )

    return decode


def _reader(cls: type[IRDLOperation], operand: Operand) -> Reader | None:
    field = field_of(cls, operand)
    if any(name == field for name, _ in cls.get_irdl_definition().operands):
        return _ssa(operand)
    properties = properties_of(cls)
    if field not in properties:
        return _derived_reader(field) if isinstance(getattr(cls, field, None), property) else None
    name = properties[field]
    accepted = _accepted_classes(cls, name)
    match grammar().kind(operand.kind).category:
        case Category.ID:
            return _id_reader(operand, name, accepted)
        case Category.VALUE | Category.BITS:
            return _enumerant_reader(cls, operand, name)
        case Category.LITERAL:
            return _literal(operand, name, accepted)
        case Category.COMPOSITE:
            return None


def _derived_reader(field: str) -> Reader:
    def read(state: Words) -> None:
        state.derived[field] = state.next()

    return read


def _accepted_classes(cls: type[IRDLOperation], name: str) -> Sequence[type[Attribute]]:
    definition = cls.get_irdl_definition()
    declared = definition.properties.get(name) or definition.attributes.get(name)
    if declared is None or isinstance(declared.constr, AnyAttr):
        return ()
    bases = declared.constr.get_bases()
    return () if bases is None else sorted(bases, key=lambda b: b.__name__)


def _ssa(operand: Operand) -> Reader:
    many = operand.quantifier == "*"

    def read(state: Words) -> None:
        before = len(state.operands)
        if many:
            state.operands += [state.known.value(w) for w in state.words[state.at :]]
            state.at = len(state.words)
        else:
            state.operands.append(state.known.value(state.next()))
        state.segments.append(len(state.operands) - before)

    return read


def _id_reader(operand: Operand, name: str, accepted: Sequence[type[Attribute]]) -> Reader:
    many = operand.quantifier == "*"

    def read(state: Words) -> None:
        if not many:
            state.properties[name] = _of_id(state.known, state.next(), accepted)
            return
        ids = state.words[state.at :]
        state.at = len(state.words)
        state.properties[name] = ArrayAttr([_of_id(state.known, i, ()) for i in ids])

    return read


def _of_id(known: Known, id: int, accepted: Sequence[type[Attribute]]) -> Attribute:
    """
    Converts an id to the attribute of a property. Raises `NotDeclared` if the attribute has none of
    the classes `accepted`. If `accepted` is empty, all classes are accepted.
    """
    for cls in accepted:
        if issubclass(cls, EnumerationAttr):
            number = known.constant(id)
            if number is not None:
                return _enumerant(cast("type[EnumerationAttr[Any]]", cls), number & 0xFFFFFFFF)
    attribute = known.attribute(id)
    if attribute is None:
        raise NotDeclared("an operand is not a constant, symbol or type")
    if accepted and not isinstance(attribute, tuple(accepted)):
        if not (isinstance(attribute, TypeAttribute) and TypeAttribute in accepted):
            raise NotDeclared("a property of the class does not allow the operand")
    return attribute


def _enumerant(cls: type[EnumerationAttr[Any]], value: int) -> Attribute:
    try:
        return cls(cls.ENUM(value))
    except ValueError:
        raise NotDeclared(f"{value} is not a {cls.ENUM.__name__}") from None


def _enumerant_reader(cls: type[IRDLOperation], operand: Operand, name: str) -> Reader | None:
    attribute = ENUMERATIONS.get(operand.kind)
    if attribute is None:
        return None
    kind = grammar().kind(operand.kind)
    properties = properties_of(cls)
    prefix = name.removesuffix("memory_access").removesuffix("memory_operand")
    prefix = "" if prefix == name else prefix
    operands = {field for field, _ in cls.get_irdl_definition().operands}
    known_bits = sum({kind[n].value for n in kind.names}) if kind.category is Category.BITS else 0

    @cache
    def parameters(value: int) -> Sequence[Reader]:
        readers: list[Reader] = []
        for enumerant in kind.used(value):
            for parameter in enumerant.parameters:
                field = prefix + PARAMETERS.get(enumerant.name, parameter.field)
                if field in operands:
                    readers.append(_ssa(parameter))
                    continue
                where = properties.get(field)
                if where is None:
                    raise NotDeclared(
                        f"the operation has no field for a parameter of {enumerant.name}"
                    )
                accepted = _accepted_classes(cls, where)
                if parameter.kind.startswith("Id"):
                    readers.append(_id_reader(parameter, where, accepted))
                    continue
                literal = _literal(parameter, where, accepted)
                if literal is None:
                    raise NotDeclared(f"the class cannot hold the string of {enumerant.name}")
                readers.append(literal)
        return readers

    def read(state: Words) -> None:
        value = state.next()
        if known_bits and value & ~known_bits:
            raise NotDeclared("a mask has an unknown bit")
        if not known_bits and value not in kind:
            raise NotDeclared("an enumerant is unknown")
        for parameter in parameters(value):
            parameter(state)
        state.properties[name] = _enumerant(attribute, value)

    return read


def _literal(operand: Operand, name: str, accepted: Sequence[type[Attribute]]) -> Reader | None:
    if operand.kind == "LiteralString":
        return None
    many = operand.quantifier == "*"

    def read(state: Words) -> None:
        if many:
            numbers = list(state.words[state.at :])
            state.at = len(state.words)
        else:
            numbers = [state.next()]
        signed = [n - (1 << 32) if n >> 31 else n for n in numbers]
        if DenseArrayBase in accepted:
            state.properties[name] = _array(tuple(signed))
        elif many or ArrayAttr in accepted:
            state.properties[name] = ArrayAttr([_number(n) for n in signed])
        elif accepted and IntegerAttr not in accepted and IntAttr in accepted:
            state.properties[name] = IntAttr(numbers[0])
        else:
            state.properties[name] = _number(signed[0])

    return read


# Equal numbers share one attribute, which makes comparisons fast.


@lru_cache(maxsize=4096)
def _number(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)


@lru_cache(maxsize=4096)
def _array(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, values)
