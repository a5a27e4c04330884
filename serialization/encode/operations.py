"""
Encodes an operation as one instruction, as the grammar describes the instruction.

Each class of operation gets one encoder: a list of the instruction's operands in the grammar's
order, each with the SSA operand or property that holds it (`field_of`). No code in this module
names an instruction, so new instructions need no code. Creating an encoder fails if the class lacks
an operand that the grammar requires.

An enumerant's parameters are properties, too: the parameter of `Aligned` is `alignment`, and the
parameter of `MakePointerAvailable` and `MakePointerVisible` is `memory_scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, OperandDef, OptOperandDef, VarOperandDef

from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp, instruction_of
from xdsl_spirv.grammar import Category, Enumerant, Instruction, Operand, grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.raw.words import MAX_WORD_COUNT, string_words

PARAMETERS = {
    "Aligned": "alignment",
    "MakePointerAvailable": "memory_scope",
    "MakePointerVisible": "memory_scope",
    "TensorView": "tensor_view",
    "DecodeFunc": "decode_func",
    "DecodeVectorFunc": "decode_vector_func",
    "OutOfBoundsValueARM": "out_of_bounds_value",
    "MakeElementAvailableARM": "available_scope",
    "MakeElementVisibleARM": "visible_scope",
}
"""Maps an enumerant to the property or SSA operand that holds its parameter."""

OTHER_NAMES = {
    "cooperative_matrix_operands": "matrix_operands",
    "execution": "execution_scope",
    "indexes": "indices",
    "memory": "memory_scope",
    "operation": "group_operation",
    "semantics": "memory_semantics",
}
"""Maps the grammar's name of an operand to the property that holds it in most classes."""

IMPLICIT = ("IdResultType", "IdResult")


operands_of: Callable[[Operation], tuple[SSAValue, ...]] = attrgetter("_operands")
"""Returns the operands of an operation. Faster than `op.operands`, which wraps the tuple."""


class IdSource(Protocol):
    """Interface that gives encoders the ids of values, types and symbols."""

    values: dict[int, int]
    """Maps the identity of a value to its id, once the id has been requested."""

    def value(self, value: SSAValue) -> int: ...
    def type(self, attribute: Attribute, op: Operation | None = None) -> int: ...
    def operand(self, attribute: Attribute, op: Operation | None = None) -> int: ...
    def extended_set(self, name: str) -> int: ...
    def void(self) -> int: ...
    def fresh(self) -> int: ...


Writer: TypeAlias = Callable[[IdSource, Operation], Sequence[int] | None]
"""
A function that returns the words of one operand. Returns None if the operation omits the operand.
"""

Encode: TypeAlias = Callable[[IdSource, Operation], Sequence[int]]
"""A function that returns the words of an operation's instruction."""


def encoder_of(op: Operation) -> Encode:
    """
    Returns the encoder of an operation's class. Creates it at the first request.

    Raises `SPIRVEncodeError` if the operation is not SPIR-V, or its class contradicts the grammar.
    """
    if not isinstance(op, SPIRVOp):
        raise SPIRVEncodeError(
            "the operation is not SPIR-V; lower it to the spirv dialect first", op
        )
    try:
        return _class_encoder(type(op))
    except SPIRVEncodeError as error:
        raise SPIRVEncodeError(error.cause, op) from None


@cache
def _class_encoder(cls: type[Operation]) -> Encode:
    instruction = instruction_for(cls)
    in_set = instruction_of(cls)[0]
    writers = [(o, _writer(cls, instruction, o)) for o in _inputs(instruction)]
    absent = [o.field for o, w in writers if w is None and not o.quantifier]
    if absent:
        raise SPIRVEncodeError(
            f"the class of {cls.name} lacks {', '.join(absent)}, which {instruction.name} "
            "requires; declare the operand, or map its name in FIELDS"
        )
    present = [(o, w) for o, w in writers if w is not None]
    if in_set is not None:
        return _extended_encoder(in_set, instruction.opcode, present)
    if _only_ssa(cls, present) and instruction.has_result_type:
        return _plain(instruction.opcode)
    return _general(instruction, present)


def instruction_for(cls: type[Operation]) -> Instruction:
    """
    Returns the grammar's entry for a class of operation.

    Raises `SPIRVEncodeError` if the grammar has no such instruction.
    """
    in_set, name = instruction_of(cls)
    try:
        return grammar().instruction(name, in_set)
    except KeyError:
        where = "the core grammar" if in_set is None else in_set
        raise SPIRVEncodeError(
            f"{cls.name} cannot be encoded: {where} has no {name}; lower the operation first"
        ) from None


def _inputs(instruction: Instruction) -> list[Operand]:
    return [o for o in instruction.operands if o.kind not in IMPLICIT]


def _plain(opcode: int) -> Encode:
    def encode(ids: IdSource, op: Operation) -> Sequence[int]:
        result = op.results[0]
        words = [0, ids.type(result.type, op), ids.value(result)]
        known = ids.values.get
        words += [known(id(o)) or ids.value(o) for o in operands_of(op)]
        words[0] = len(words) << 16 | opcode
        return words

    return encode


def _extended_encoder(
    in_set: str, opcode: int, operands: Sequence[tuple[Operand, Writer]]
) -> Encode:
    ext_inst = grammar().instruction("OpExtInst").opcode

    def encode(ids: IdSource, op: Operation) -> Sequence[int]:
        result = op.results[0]
        words = [0, ids.type(result.type, op), ids.value(result), ids.extended_set(in_set), opcode]
        for _, writer in operands:
            words += writer(ids, op) or ()
        words[0] = len(words) << 16 | ext_inst
        return words

    return encode


def _general(instruction: Instruction, operands: Sequence[tuple[Operand, Writer]]) -> Encode:
    opcode = instruction.opcode
    has_result, has_type = instruction.has_result, instruction.has_result_type

    def encode(ids: IdSource, op: Operation) -> Sequence[int]:
        words = [0]
        results = op.results
        if has_type:
            words.append(ids.type(results[0].type, op) if results else ids.void())
        if has_result:
            words.append(ids.value(results[0]) if results else ids.fresh())
        left_out: list[Operand] = []
        for operand, writer in operands:
            written = writer(ids, op)
            if written is None:
                left_out.append(operand)
                continue
            if left_out:
                words += _stand_ins(left_out, operand, op)
                left_out = []
            words += written
        if len(words) > MAX_WORD_COUNT:
            raise SPIRVEncodeError(
                f"the instruction has {len(words)} words, above SPIR-V's limit of {MAX_WORD_COUNT}",
                op,
            )
        words[0] = len(words) << 16 | opcode
        return words

    return encode


def _stand_ins(left_out: Sequence[Operand], later: Operand, op: Operation) -> list[int]:
    """
    Returns the words that stand for omitted operands before the operand `later`: an empty mask for
    each.

    Raises `SPIRVEncodeError` if an omitted operand is not an optional mask.
    """
    words: list[int] = []
    for operand in left_out:
        if operand.quantifier == "*":
            continue
        if not operand.quantifier or grammar().kind(operand.kind).category is not Category.BITS:
            raise SPIRVEncodeError(
                f"{later.field} is given without {operand.field}; add {operand.field}", op
            )
        words.append(0)
    return words


def fields(cls: type[Operation]) -> dict[str, Operand]:
    """
    Maps the fields of a class to the operands of its instruction.

    Raises `SPIRVEncodeError` if the grammar has no such instruction.
    """
    return {field_of(cls, o): o for o in _inputs(instruction_for(cls))}


def _only_ssa(cls: type[Operation], operands: Sequence[tuple[Operand, Writer]]) -> bool:
    if not issubclass(cls, IRDLOperation):
        return False
    names = [name for name, _ in cls.get_irdl_definition().operands]
    return names == [field_of(cls, o) for o, _ in operands]


def field_of(cls: type[Operation], operand: Operand) -> str:
    """Returns the name of the field that holds an operand of the grammar in a class."""
    return _field_names(cls)[operand.field]


@cache
def _field_names(cls: type[Operation]) -> Mapping[str, str]:
    """
    Maps each operand in the grammar to the field of the class that holds it.

    A field has the operand's name, or the name given by `FIELDS` or `OTHER_NAMES`. SSA operands
    that are left over are matched in order.
    """
    given: Mapping[str, str] = getattr(cls, "FIELDS", {})
    operands, properties = list[str](), dict[str, str]()
    if issubclass(cls, IRDLOperation):
        operands = [name for name, _ in cls.get_irdl_definition().operands]
        properties = properties_of(cls)

    def has(field: str) -> bool:
        computed = isinstance(getattr(cls, field, None), property) and not hasattr(Operation, field)
        return field in operands or field in properties or computed

    names: dict[str, str] = {}
    for field in (o.field for o in _inputs(instruction_for(cls))):
        other = OTHER_NAMES.get(field, field)
        names[field] = given.get(field) or (field if has(field) or not has(other) else other)
    used = {*names.values(), *PARAMETERS.values()}
    left = [name for name in operands if name not in used]
    missing = [field for field, name in names.items() if field not in given and not has(name)]
    if len(left) == len(missing):
        names |= zip(missing, left, strict=True)
    return names


def properties_of(cls: type[IRDLOperation]) -> dict[str, str]:
    """Maps the Python fields for properties and attributes of a class to their names in the IR."""
    definition = cls.get_irdl_definition()
    own = {name: name for name in (*definition.properties, *definition.attributes)}
    return own | {field: name for field, (name, _) in definition.accessor_names.items()}


def _writer(cls: type[Operation], instruction: Instruction, operand: Operand) -> Writer | None:
    """
    Returns the writer of a grammar operand. Returns None if the class has no field for the operand.
    """
    if not issubclass(cls, IRDLOperation):
        return None
    field = field_of(cls, operand)
    definitions = cls.get_irdl_definition().operands
    names = [name for name, _ in definitions]
    if field in names:
        return _ssa(field, names, [type(d) for _, d in definitions])
    properties = properties_of(cls)
    if field not in properties:
        return _computed_writer(field) if isinstance(getattr(cls, field, None), property) else None
    name = properties[field]
    match grammar().kind(operand.kind).category:
        case Category.ID:
            return _id_writer(name)
        case Category.VALUE | Category.BITS:
            return _enumerant_writer(cls, operand, name)
        case Category.LITERAL:
            return _literal(operand, name)
        case Category.COMPOSITE:
            raise SPIRVEncodeError(
                f"{cls.name}: {instruction.name} has operands of kind {operand.kind}, which need "
                "an encoder of their own"
            )


def _ssa(field: str, names: Sequence[str], definitions: Sequence[type[OperandDef]]) -> Writer:
    index = names.index(field)
    lengths = [issubclass(d, VarOperandDef | OptOperandDef) for d in definitions]
    if sum(lengths) > 1:

        def by_name(ids: IdSource, op: Operation) -> Sequence[int] | None:
            value: SSAValue | Sequence[SSAValue] | None = getattr(op, field)
            if isinstance(value, SSAValue):
                return (ids.value(value),)
            return [ids.value(v) for v in value] if value else None

        return by_name

    after = len(names) - index - 1
    if lengths[index]:

        def segment(ids: IdSource, op: Operation) -> Sequence[int] | None:
            operands = operands_of(op)
            values = operands[index : len(operands) - after]
            return [ids.value(v) for v in values] if values else None

        return segment

    place = -after - 1 if any(lengths[:index]) else index

    def one(ids: IdSource, op: Operation) -> Sequence[int]:
        value = operands_of(op)[place]
        return (ids.values.get(id(value)) or ids.value(value),)

    return one


def _attribute(op: Operation, name: str) -> Attribute | None:
    property = op.properties.get(name)
    return op.attributes.get(name) if property is None else property


def _computed_writer(field: str) -> Writer:
    def write(ids: IdSource, op: Operation) -> Sequence[int]:
        return integers(getattr(op, field), op)

    return write


def _id_writer(name: str) -> Writer:
    def write(ids: IdSource, op: Operation) -> Sequence[int] | None:
        attribute = _attribute(op, name)
        if attribute is None:
            return None
        if isinstance(attribute, ArrayAttr):
            return [ids.operand(a, op) for a in attribute.data]
        return (ids.operand(attribute, op),)

    return write


def _enumerant_writer(cls: type[IRDLOperation], operand: Operand, name: str) -> Writer:
    kind = grammar().kind(operand.kind)
    properties = properties_of(cls)
    prefix = name.removesuffix("memory_access").removesuffix("memory_operand")
    prefix = "" if prefix == name else prefix
    operands = {field for field, _ in cls.get_irdl_definition().operands}

    @cache
    def parameters(value: int) -> list[tuple[Enumerant, Operand, str]]:
        with_parameters: list[tuple[Enumerant, Operand, str]] = []
        for enumerant in kind.used(value):
            for parameter in enumerant.parameters:
                field = prefix + PARAMETERS.get(enumerant.name, parameter.field)
                with_parameters.append((enumerant, parameter, properties.get(field, field)))
        return with_parameters

    def write(ids: IdSource, op: Operation) -> Sequence[int] | None:
        attribute = _attribute(op, name)
        if attribute is None:
            return None
        if not isinstance(attribute, EnumerationAttr):
            raise SPIRVEncodeError(f"{name} must be a {kind.name}, not {attribute}", op)
        value = int(attribute.data)
        words = [value]
        for enumerant, parameter, field in parameters(value):
            if field in operands:
                given = getattr(op, field)
                if isinstance(given, SSAValue):
                    words.append(ids.value(given))
                    continue
            given = _attribute(op, field)
            if given is None:
                raise SPIRVEncodeError(f"{enumerant.name} needs {field}; add it", op)
            if parameter.kind.startswith("Id"):
                words.append(ids.operand(given, op))
            else:
                words += integers(given, op)
        return words

    return write


def _literal(operand: Operand, name: str) -> Writer:
    if operand.kind == "LiteralString":

        def text(ids: IdSource, op: Operation) -> Sequence[int] | None:
            attribute = _attribute(op, name)
            return string_words(attribute.data) if isinstance(attribute, StringAttr) else None

        return text

    def numbers(ids: IdSource, op: Operation) -> Sequence[int] | None:
        attribute = _attribute(op, name)
        return None if attribute is None else integers(attribute, op)

    return numbers


def integers(attribute: Attribute, op: Operation | None) -> list[int]:
    """Returns one word for each number of an integer or an array. Raises `SPIRVEncodeError`."""
    if isinstance(attribute, IntegerAttr):
        return [attribute.value.data & 0xFFFFFFFF]
    if isinstance(attribute, IntAttr):
        return [attribute.data & 0xFFFFFFFF]
    if isinstance(attribute, EnumerationAttr):
        return [int(attribute.data)]
    if isinstance(attribute, ArrayAttr):
        return [word for a in attribute.data for word in integers(a, op)]
    if isinstance(attribute, DenseArrayBase):
        return [int(v) & 0xFFFFFFFF for v in attribute.iter_values()]
    raise SPIRVEncodeError(
        f"the attribute must be an integer or an array of integers, not {attribute}", op
    )
