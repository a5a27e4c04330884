"""
Decodes types: from an id to an attribute.

A struct's name becomes its identifier. Structs that differ only in their names therefore stay
distinct, and a struct that contains pointers to itself can refer to itself. If the dialect lacks a
type, its declaration is kept as words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    Signedness,
    TensorType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import types_declared
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.decode.annotations import Annotations, Note
from xdsl_spirv.serialization.decode.module_index import ModuleIndex
from xdsl_spirv.serialization.encode.types import FLOATS as ENCODED_FLOATS
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.upstream.on_demand import attributes_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.globals import GlobalTable

MAX_DEPTH = 100
"""Maximum nesting of types. Attributes are created, compared and printed recursively."""

MAX_PARTS = 4096
"""
Maximum number of parts of a type. Each use of another type counts with all of its parts.

The limit exists because a type is printed in full at each use.
"""

MAX_INTEGER_BITS = 4096
"""
Maximum width of an integer type. Compilers for SPV_ALTERA_arbitrary_precision_integers use far
smaller widths.
"""

MAX_ZEROS = 1 << 16
"""
Maximum number of elements of a tensor of zeros (OpConstantNull) that is expanded to a `dense`
literal.
"""

MAX_COMPONENTS = 64
"""
Maximum number of components of a vector. SPIR-V 2.16.1 allows 16 in OpTypeVector.

The limit exists because a constant of three words may expand to a literal of all components.
"""

FLOATS: dict[tuple[int, int | None], type[Attribute]] = {
    form: cls for cls, form in ENCODED_FLOATS.items()
}
"""Maps the width and FP Encoding (None for IEEE 754) of a float to its type."""

IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
"""Pattern of a struct's identifier. A name that does not match remains a raw OpName operation."""


@cache
def declared_types() -> dict[str, type[spv.DeclaredType]]:
    """Returns a map from the name of a type instruction to the class that represents its types."""
    types = attributes_of([types_declared])
    return {c.INSTRUCTION: c for c in types if issubclass(c, spv.DeclaredType)}


class TypeReader:
    """Decodes types by id. Caches the results."""

    globals: GlobalTable

    def __init__(self, index: ModuleIndex, annotations: Annotations):
        self.index = index
        self.annotations = annotations
        self.known: dict[int, Attribute] = {}
        self.notes: dict[int, tuple[int, Note, int | None]] = {}
        """
        Maps a number to a decoration that a type cannot hold: type id, decoration, and member (None
        for the whole type).
        """
        self._open: dict[int, str] = {}
        """Maps the ids of structs whose members are being decoded to their identifiers."""
        self._names: dict[int, str] = {}
        self._identifiers: set[str] = set()
        self._next: dict[str, int] = {}
        """Maps an identifier that is taken to the next number to try as its suffix."""
        self._structs: dict[Attribute, int] = {}
        self._referred: set[int] = set()
        self._parts: dict[int, int] = {}
        """Maps a type's id to the number of its parts, including the type itself."""
        self._counts: list[int] = []
        """
        Number of parts, so far, of each type that is being decoded. The outermost type is first.
        """
        self._makers: dict[str, Callable[[Sequence[int]], Attribute]] = {
            "OpTypeVoid": lambda words: NoneType(),
            "OpTypeBool": lambda words: IntegerType(1),
            "OpTypeInt": self._integer,
            "OpTypeFloat": self._float,
            "OpTypeVector": self._vector,
            "OpTypeMatrix": self._matrix,
            "OpTypePointer": self._pointer,
            "OpTypeUntypedPointerKHR": self._untyped_pointer,
            "OpTypeArray": self._array,
            "OpTypeRuntimeArray": self._runtime_array,
            "OpTypeStruct": self._struct,
            "OpTypeFunction": self._function,
            "OpTypeCooperativeMatrixKHR": self._cooperative_matrix,
        }

    def is_type(self, id: int) -> bool:
        row = self.index.definitions.get(id)
        return row is not None and (self.index.name(row) or "").startswith("OpType")

    def type(self, id: int) -> Attribute:
        """Returns the type with this id. Raises `SPIRVDecodeError` if the id is not a type."""
        known = self.known.get(id)
        # An attribute that refers to open structs is not reused: it depends on the open structs.
        if known is not None and not (id in self._cyclic and self._cyclic & self._open.keys()):
            if self._counts:
                self._counts[-1] += self._parts.get(id, 1)
            return known
        if id in self._open:
            return self._reference(id)
        row = self.index.definitions.get(id)
        name = None if row is None else self.index.name(row)
        if row is None or name is None or not name.startswith("OpType"):
            raise self.index.error(f"%{id} is not a type")
        self._counts.append(1)
        if len(self._counts) > MAX_DEPTH:
            raise self.index.error(f"the nesting of types exceeds the limit of {MAX_DEPTH}")
        attribute = self._make(name, row)
        parts = self._parts[id] = self._counts.pop()
        if parts > MAX_PARTS:
            raise self.index.error(f"a type has more than {MAX_PARTS} parts, the limit")
        if self._counts:
            self._counts[-1] += parts
        if not self._referred:
            self.known[id] = attribute
        return attribute

    def _make(self, name: str, row: int) -> Attribute:
        words, maker = self.index.rows[row], self._makers.get(name)
        try:
            if maker is not None:
                return maker(words)
            declared = declared_types().get(name)
            return self._carry(row) if declared is None else self._read_declared(declared, row)
        except (ValueError, VerifyException, IndexError) as error:
            at, self.index.at = self.index.at, row
            if isinstance(error, VerifyException) or type(error) in (ValueError, IndexError):
                refused = self.index.error(str(error).strip() or "the type is incomplete")
                self.index.at = at
                raise refused from error
            raise

    def _reference(self, id: int) -> Attribute:
        self._referred.add(id)
        return spv.StructType(None, identifier=self._open[id])

    @cached_property
    def _cyclic(self) -> frozenset[int]:
        """
        Ids of the types that contain themselves. Such a type has a pointer that is declared after
        it.
        """
        rows, definitions = self.index.rows, self.index.definitions
        pointers = {
            part
            for opcode in map(opcode_of, ("OpTypeStruct", "OpTypeArray", "OpTypeRuntimeArray"))
            for row in np.flatnonzero(self.index.raw.opcodes == opcode).tolist()
            for part in rows[row][2:]
            if definitions.get(part, -1) > row and self.is_type(part)
        }
        if not pointers:
            return frozenset()
        parts = {
            id: [part for part in rows[row][2:] if self.is_type(part)]
            for id, row in definitions.items()
            if self.is_type(id)
        }
        holders: dict[int, list[int]] = {}
        for id, held in parts.items():
            for part in held:
                holders.setdefault(part, []).append(id)
        return _reachable(pointers, parts) & _reachable(pointers, holders)

    def _unique(self, name: str) -> str:
        candidate, count = name, self._next.get(name, 1)
        while candidate in self._identifiers:
            candidate, count = f"{name}_{count}", count + 1
        self._next[name] = count
        self._identifiers.add(candidate)
        return candidate

    def _word(self, words: Sequence[int], place: int) -> int:
        return self.index.word(words, place)

    def size(self, id: int) -> spv.Size:
        """Returns the number of a constant. For a specialization constant, returns its symbol."""
        number = self.globals.constant(id)
        if number is None:
            return self.globals.symbol_reference(id)
        return IntAttr(number & 0xFFFFFFFF)

    def _stride(self, id: int) -> int:
        note = self.annotations.find(id, spv.Decoration.ArrayStride)
        value = None if note is None else note.literal()
        return value or 0

    def _integer(self, words: Sequence[int]) -> Attribute:
        signed = Signedness.SIGNED if self._word(words, 3) else Signedness.SIGNLESS
        width = self._word(words, 2)
        if width > MAX_INTEGER_BITS:
            raise ValueError(f"an integer has {width} bits, above the limit of {MAX_INTEGER_BITS}")
        return IntegerType(width, signed)

    def _float(self, words: Sequence[int]) -> Attribute:
        encoding = words[3] if len(words) > 3 else None
        float_type = FLOATS.get((self._word(words, 2), encoding))
        if float_type is None:
            raise ValueError(f"a float of {words[2]} bits has no type in the dialect")
        return float_type()

    def _vector(self, words: Sequence[int]) -> Attribute:
        count = self._word(words, 3)
        if count > MAX_COMPONENTS:
            raise ValueError(
                f"a vector has {count} components, above the limit of {MAX_COMPONENTS}"
            )
        return VectorType(self.type(self._word(words, 2)), [count])

    def _matrix(self, words: Sequence[int]) -> Attribute:
        column = self.type(self._word(words, 2))
        if not isinstance(column, VectorType):
            raise ValueError("a matrix's columns must be vectors")
        return spv.MatrixType(self._word(words, 3), cast("VectorType", column))

    def _pointer(self, words: Sequence[int]) -> Attribute:
        storage_class = spv.StorageClass(self._word(words, 2))
        stride = self._stride(words[1])
        return spv.PointerType(self.type(self._word(words, 3)), storage_class, stride)

    def _untyped_pointer(self, words: Sequence[int]) -> Attribute:
        return spv.UntypedPointerType(spv.StorageClass(self._word(words, 2)))

    def _array(self, words: Sequence[int]) -> Attribute:
        element, length = self.type(self._word(words, 2)), self.size(self._word(words, 3))
        return spv.ArrayType(length, element, self._stride(words[1]))

    def _runtime_array(self, words: Sequence[int]) -> Attribute:
        return spv.RuntimeArrayType(self.type(self._word(words, 2)), self._stride(words[1]))

    def _function(self, words: Sequence[int]) -> Attribute:
        result, *parameters = (self.type(i) for i in words[2:])
        return FunctionType.from_lists(parameters, [] if result == NoneType() else [result])

    def _cooperative_matrix(self, words: Sequence[int]) -> Attribute:
        component = self.type(self._word(words, 2))
        scope, use = self.globals.constant(self._word(words, 3)), None
        if len(words) > 6:
            use = self.globals.constant(words[6])
        if use is None:
            return self._carry(self.index.definitions[words[1]])
        return spv.CooperativeMatrixType(
            self.size(words[4]),
            self.size(words[5]),
            component,
            self.globals.symbol_reference(words[3]) if scope is None else spv.Scope(scope),
            spv.CooperativeMatrixUse(use),
        )

    def _struct(self, words: Sequence[int]) -> Attribute:
        id = words[1]
        first = id not in self._names
        if first:
            name = self.annotations.names.get(id, "")
            if not IDENTIFIER.fullmatch(name):
                name = "node" if id in self._cyclic else ""
            self._names[id] = name and self._unique(name)
        identifier = self._open[id] = self._names[id]
        outer, self._referred = self._referred, set()
        members = [self.type(m) for m in words[2:]]
        del self._open[id]
        self._referred = outer | self._referred - {id}
        notes = self._members(id, len(members), first)
        struct = spv.StructType(members, *notes, identifier=identifier)
        if self._structs.setdefault(struct, id) != id:
            self._names[id] = self._unique("struct")
            struct = spv.StructType(members, *notes, identifier=self._names[id])
            self._structs[struct] = id
        return struct

    def _members(
        self, id: int, count: int, first: bool
    ) -> tuple[list[int], list[spv.MemberDecorationAttr], list[spv.StructDecorationAttr]]:
        """
        Returns the offsets of a struct's members, the members' other decorations, and the struct's
        decorations. With `first`, records decorations that the type cannot hold.
        """
        offsets: dict[int, int] = {}
        decorations: dict[spv.MemberDecorationAttr, None] = {}
        for member, note in self.annotations.member_notes.get(id, ()):
            value = note.literal() if note.is_number() else None
            if member >= count or not note.is_number():
                if first:
                    self.notes[-len(self.notes) - 1] = (id, note, member)
            elif note.decoration == spv.Decoration.Offset and value is not None:
                offsets[member] = value
            else:
                decorations[
                    spv.MemberDecorationAttr(member, spv.Decoration(note.decoration), value)
                ] = None
        if len(offsets) != count:
            partial = {
                spv.MemberDecorationAttr(m, spv.Decoration.Offset, v): None
                for m, v in offsets.items()
            }
            decorations = partial | decorations
            offsets = {}
        whole: dict[spv.StructDecorationAttr, None] = {}
        for note in self.annotations.notes.get(id, ()):
            if note.is_number():
                whole[spv.StructDecorationAttr(spv.Decoration(note.decoration), note.literal())] = (
                    None
                )
            elif first:
                self.notes[-len(self.notes) - 1] = (id, note, None)
        return [offsets[m] for m in sorted(offsets)], list(decorations), list(whole)

    def _read_declared(self, cls: type[spv.DeclaredType], row: int) -> Attribute:
        try:
            kinds = [o.kind for o in grammar().instruction(cls.INSTRUCTION).operands[1:]]
            words = self.index.rows[row][2:]
            repeated = kinds[-1:] * (len(words) - len(kinds))
            operands = zip(words, kinds + repeated, strict=False)
            return cls.of(
                [
                    self._operand(word) if kind.startswith("Id") else IntegerAttr(word, i32)
                    for word, kind in operands
                ]
            )
        except (ValueError, VerifyException):
            return self._carry(row)

    def _operand(self, id: int) -> Attribute:
        if self.is_type(id):
            return self.type(id)
        value = self.globals.attribute(id)
        return self.globals.symbol_reference(id) if value is None else value

    def _carry(self, row: int) -> Attribute:
        name = self.index.name(row) or ""
        return spv.RawType(name, self.globals.layout(row))


def _reachable(starts: Iterable[int], edges: Mapping[int, Sequence[int]]) -> frozenset[int]:
    found, waiting = set(starts), list(starts)
    while waiting:
        fresh = [node for node in edges.get(waiting.pop(), ()) if node not in found]
        found.update(fresh)
        waiting += fresh
    return frozenset(found)


def zero_of(t: Attribute) -> Attribute | None:
    """Returns the zero of a type as an attribute. Returns None if no attribute can hold it."""
    if isinstance(t, IntegerType):
        return IntegerAttr(0, t)
    if isinstance(t, AnyFloat):
        return FloatAttr(0.0, t)
    if isinstance(t, VectorType):
        element = t.get_element_type()
        if isinstance(element, IntegerType | AnyFloat):
            return dense_of(t, bytes(element.compile_time_size * t.get_shape()[0]))
    if isinstance(t, spv.TensorArmType) and isinstance(t.element_type, IntegerType | AnyFloat):
        count = math.prod(t.extents)
        if 0 < count <= MAX_ZEROS:
            return dense_of(t.literal_type, bytes(t.element_type.compile_time_size * count))
    return None


def dense_of(t: VectorType | TensorType[Attribute], data: bytes) -> Attribute:
    """Creates a `dense` literal of a vector or tensor of numbers from the bytes of its elements."""
    return DenseIntOrFPElementsAttr(cast("VectorType[IntegerType]", t), BytesAttr(data))


def pack_numbers(
    values: Sequence[Attribute | None], element: IntegerType | AnyFloat
) -> bytes | None:
    """
    Packs numbers of one type into bytes. Returns None if a value is not a number of this type.
    """
    data: list[bytes] = []
    for value in values:
        if not isinstance(value, IntegerAttr | FloatAttr) or value.type != element:
            return None
        if isinstance(element, IntegerType):
            size, number = element.compile_time_size, int(value.value.data)
            data.append((number & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
        else:
            data.append(element.pack((value.value.data,)))
    return b"".join(data)


def tensor_of(t: spv.TensorArmType, values: Sequence[Attribute | None]) -> Attribute | None:
    """
    Creates a tensor's `dense` literal from elements or from smaller tensors. Returns None if they
    do not fit.
    """
    element = t.element_type
    if t.extents[:1] != (len(values),) or not isinstance(element, IntegerType | AnyFloat):
        return None
    if len(t.extents) == 1:
        data = pack_numbers(values, element)
        return None if data is None else dense_of(t.literal_type, data)
    inner = spv.TensorArmType(t.extents[1:], element).literal_type
    parts = [
        v.data.data for v in values if isinstance(v, DenseIntOrFPElementsAttr) and v.type == inner
    ]
    return dense_of(t.literal_type, b"".join(parts)) if len(parts) == len(values) else None
