"""
`spirv-small-storage-to-words`: rewrites buffers of 8- and 16-bit data as arrays of 32-bit words.

    %x = spirv.Load %p[%i] : i8          ->  %w = spirv.Load %words[%i >> 2] : i32
                                             %x = UConvert (%w >> (%i & 3) * 8)

    spirv.Store %p[%i], %x : i8          ->  spirv.AtomicAnd %words[%i >> 2], ~(255 << shift)
                                             spirv.AtomicOr %words[%i >> 2], %x << shift

The bytes of a buffer do not change; its size must be a multiple of 4. A store that covers whole
words remains a store. A store to a part of a word becomes two atomic operations that preserve the
other bits, because other invocations may store to them. Buffers with such stores are also loaded
atomically, so that no load races with a store to a neighbouring part of the word.

Pointers become byte offsets. An offset is a constant plus a dynamic value, which is a multiple of
a known divisor. The divisor tells which bits of a word a vector's component occupies, and if a
store covers whole words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from xdsl.dialects.builtin import Float16Type, IntegerType, VectorType, f16, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter, ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.lacking import SmallTypesPass
from xdsl_spirv.passes.spirv.fallback.retype import Retyping
from xdsl_spirv.passes.spirv.requirements import small_widths

NAME = "spirv-small-storage-to-words"
refuse = refusals(NAME)

WORD = 4
"""Bytes of a word."""
ROW = 16
"""Bytes between consecutive elements of an array in a Uniform block."""

CLASSES = (spv.StorageClass.StorageBuffer, spv.StorageClass.Uniform, spv.StorageClass.PushConstant)
KEPT_ACCESS = (
    spv.MemoryAccess.Volatile
    | spv.MAKE_AVAILABLE
    | spv.MAKE_VISIBLE
    | spv.MemoryAccess.NonPrivatePointer
)
"""Bits of memory operands that an access to words keeps from the original access."""


@dataclass(frozen=True)
class Place:
    """
    A byte offset `base` + `known` in a variable.

    `known` is a constant. `base` is computed at run time, and is a multiple of `divisor`.
    """

    variable: spv.GlobalVariableOp
    type: Attribute
    base: Index = 0
    known: int = 0
    divisor: int = 0

    def at(self, type_: Attribute, offset: int) -> Place:
        """Returns the place `offset` bytes after this one, for a value of another type."""
        return replace(self, type=type_, known=self.known + offset)

    @property
    def in_words(self) -> bool:
        """True if `base` is a multiple of a word."""
        return self.divisor % WORD == 0


@dataclass(frozen=True)
class SmallStorageToWordsPass(SmallTypesPass):
    """Rewrites buffers of 8- or 16-bit scalars as arrays of words."""

    name = NAME
    FEATURES = {8: "storage-8-bit", 16: "storage-16-bit"}

    def rewrite(self, module: spv.ModuleOp, widths: frozenset[int]) -> None:
        variables = {
            op.sym_name.data: op
            for op in module.body.block.ops
            if isinstance(op, spv.GlobalVariableOp)
            and op.type.storage_class.data in CLASSES
            and widths.intersection(small_widths(op.type.pointee))
        }
        _refuse_addresses(module, widths)
        if variables:
            _Lowering(module, variables).lower()


def _refuse_addresses(module: spv.ModuleOp, widths: frozenset[int]) -> None:
    for op in module.walk():
        for value in (*op.operands, *op.results):
            type_ = value.type
            if (
                isinstance(type_, spv.PointerType)
                and type_.storage_class.data is spv.StorageClass.PhysicalStorageBuffer
                and widths.intersection(small_widths(type_.pointee))
            ):
                refuse(op, f"{type_} is a physical address of 8- or 16-bit scalars: use buffers")


class _Lowering:
    def __init__(self, module: spv.ModuleOp, variables: dict[str, spv.GlobalVariableOp]):
        self.module = module
        self.variables = variables
        self.codes = ModuleEmitter(module)
        self.code: FunctionEmitter
        self.places: dict[SSAValue, Place] = {}
        self.types = {name: v.type for name, v in variables.items()}
        self.partial: set[object] = set()

    def lower(self) -> None:
        for op in list(self.module.walk()):
            if isinstance(op, spv.CopyMemoryOp):
                _load_and_store(op)
        for variable in self.variables.values():
            if not isinstance(variable.type.pointee, spv.StructType):
                refuse(
                    variable,
                    f"{variable.type.pointee} is not a block: put it into a struct with the "
                    f"decoration Block",
                )
        pointers = [op for op in self.module.walk() if self._is_pointer(op)]
        users = [u for op in pointers for u in self._users(op) if u not in pointers]
        for op in dict.fromkeys(users):
            self._note(op)
        names = Retyping(lambda a: i32 if a in self._structs() else None)
        self._retype()
        for op in dict.fromkeys(users):
            self._access(op)
        for op in reversed(pointers):
            if op.results[0].first_use is None:
                Rewriter.erase_op(op)
        for op in list(self.module.body.block.ops):
            if isinstance(op, spv.RawGlobalOp) and names.touches(op):
                Rewriter.erase_op(op)

    def _structs(self) -> set[Attribute]:
        return {type_.pointee for type_ in self.types.values()}

    # Pointers

    def _is_pointer(self, op: Operation) -> bool:
        """True for a pointer into one of the variables; records its offset."""
        if isinstance(op, spv.AddressOfOp):
            variable = self.variables.get(op.variable.string_value())
            if variable is not None:
                self.places[op.result] = Place(variable, variable.type.pointee)
            return variable is not None
        if not isinstance(op, spv.AccessChain) or op.base not in self.places:
            return False
        self.places[op.result] = self._walked(op, None)
        return True

    def _users(self, op: Operation) -> Iterator[Operation]:
        return (use.operation for use in op.results[0].uses)

    def _walked(self, op: spv.AccessChain, code: FunctionEmitter | None) -> Place:
        """Returns the offset of an access chain; without `code`, only its static part."""
        base = op.base.owner
        place = self.places[op.base]
        if code is not None and isinstance(base, spv.AccessChain):
            place = self._walked(base, code)
        for index in op.indexes:
            place = self._inside(op, place, index, code)
        return place

    def _inside(
        self, op: Operation, place: Place, index: SSAValue, code: FunctionEmitter | None
    ) -> Place:
        number, type_ = constant_integer(index), place.type
        if isinstance(type_, spv.StructType):
            assert number is not None
            return place.at(type_.member_types[number], type_.offset(number) or 0)
        if isinstance(type_, spv.ArrayType | spv.RuntimeArrayType):
            element, stride = type_.element_type, spv.array_stride(type_)
        elif isinstance(type_, VectorType):
            element, stride = type_.element_type, spv.scalar_bytes(type_.element_type)
        else:
            refuse(op, f"an access chain selects a part of {type_}: load the whole value")
        if number is not None:
            return place.at(element, number * stride)
        offset: Index = place.base
        if code is not None:
            offset = code.plus(place.base, code.times(code.as_index(index, sign=True), stride))
        return replace(place, type=element, base=offset, divisor=gcd(place.divisor, stride))

    def _retype(self) -> None:
        for variable in self.variables.values():
            variable.properties["type"] = _words_of(variable.type)

    # Accesses

    def _note(self, op: Operation) -> None:
        """Refuses accesses other than loads and stores, and records buffers with partial stores."""
        match op:
            case spv.LoadOp() | spv.ArrayLengthOp():
                place = self.places[op.operands[0]]
            case spv.StoreOp():
                place = self.places[op.pointer]
                if any(not group.is_whole for group in _groups(place)):
                    self.partial.add(_binding(place.variable))
            case spv.AtomicOperation() if (
                spv.width_of(self.places[op.operands[0]].type) == 8 * WORD
            ):
                place = self.places[op.operands[0]]
            case _:
                refuse(
                    op, "the operation uses a pointer to 8- or 16-bit scalars: use loads or stores"
                )
        if any(isinstance(part.type, spv.MatrixType) for part, _ in _paths(place)):
            refuse(op, f"{place.type} contains matrices, which cannot be rewritten: use vectors")

    def _access(self, op: Operation) -> None:
        self.code = self.codes.before(op)
        if isinstance(op, spv.ArrayLengthOp):
            Rewriter.replace_op(op, [], [self._length(op)])
            return
        pointer = op.operands[0]
        place = self.places[pointer]
        if isinstance(pointer.owner, spv.AccessChain):
            place = self._walked(pointer.owner, self.code)
        if isinstance(op, spv.LoadOp):
            value = _Reader(self, place, op.memory).read(place)
            Rewriter.replace_op(op, [], [value])
        elif isinstance(op, spv.StoreOp):
            self._store(op, place)
            Rewriter.erase_op(op)
        else:
            op.operands[0] = self.word(place)

    def _length(self, op: spv.ArrayLengthOp) -> SSAValue:
        """Computes the length of a runtime array from the number of words in the buffer."""
        place, member = self.places[op.structure], op.array_member.value.data
        struct = place.type
        assert isinstance(struct, spv.StructType)
        array = struct.member_types[member]
        assert isinstance(array, spv.RuntimeArrayType)
        code = self.code
        address = code.address(place.variable)
        words = code.add(spv.ArrayLengthOp(address, 0))
        size = code.times(words, WORD)
        rest = code.add(spv.ISubOp(code.index(size), code.number(struct.offset(member) or 0)))
        return code.index(code.divided(rest, spv.array_stride(array)))

    # Words

    def word(self, place: Place) -> SSAValue:
        """Returns a pointer to the word that contains an offset."""
        code, variable = self.code, place.variable
        if place.in_words:
            number = code.plus(code.divided(place.base, WORD), place.known // WORD)
        else:
            number = code.divided(code.plus(place.base, place.known), WORD)
        indexes = [code.number(0), code.index(number)]
        storage = variable.type.storage_class
        if storage.data is spv.StorageClass.Uniform:
            rows, column = code.divided(number, ROW // WORD), code.remainder(number, ROW // WORD)
            indexes = [code.number(0), code.index(rows), code.index(column)]
        return code.add(spv.AccessChainOp(code.address(variable), indexes))

    def shift(self, place: Place) -> Index:
        """Returns the lowest bit of a value in its word."""
        if place.in_words:
            return 8 * (place.known % WORD)
        code = self.code
        within = code.remainder(code.plus(place.base, place.known), WORD)
        return code.times(within, 8)

    @property
    def scope(self) -> spv.Scope:
        """The widest scope that needs no additional capability."""
        vulkan = self.module.memory_model.data is spv.MemoryModel.Vulkan
        return spv.Scope.QueueFamily if vulkan else spv.Scope.Device

    def _store(self, op: spv.StoreOp, place: Place) -> None:
        code, value = self.code, op.object
        for group in _groups(place):
            bits: SSAValue | None = None
            for part, path in group.parts:
                number = value
                if path:
                    number = code.add(spv.CompositeExtractOp(value, path))
                own = self._bits(number)
                if isinstance(own, list):
                    self._store_long(op, part, own)
                    continue
                if group.is_whole and part.known % WORD:
                    shift = code.number(8 * (part.known % WORD))
                    own = code.add(spv.ShiftLeftLogicalOp(own, shift))
                bits = own if bits is None else code.add(spv.BitwiseOrOp(bits, own))
            if bits is not None:
                self._store_bits(op, group.parts[0][0], bits, group.is_whole)

    def _store_long(self, op: spv.StoreOp, part: Place, words: list[SSAValue]) -> None:
        for number, word in enumerate(words):
            self._store_bits(op, part.at(i32, number * WORD), word, whole=True)

    def _store_bits(self, op: spv.StoreOp, place: Place, bits: SSAValue, whole: bool) -> None:
        """
        Stores a whole word, or stores a part by atomic operations that preserve the other bits.
        """
        code, pointer = self.code, self.word(place)
        if whole:
            code.insert(spv.StoreOp(pointer, bits, memory=_kept_operand(op.memory, KEPT_ACCESS)))
            return
        mask, shift = (
            code.number((1 << spv.width_of(place.type)) - 1),
            code.index(self.shift(place)),
        )
        kept = code.add(spv.NotOp(code.add(spv.ShiftLeftLogicalOp(mask, shift))))
        none, moved = spv.MemorySemantics.None_, code.add(spv.ShiftLeftLogicalOp(bits, shift))
        code.insert(spv.AtomicAndOp(pointer, self.scope, none, kept))
        code.insert(spv.AtomicOrOp(pointer, self.scope, none, moved))

    def _bits(self, value: SSAValue) -> SSAValue | list[SSAValue]:
        """Returns a scalar as a zero-extended i32, or a 64-bit scalar as two words."""
        code, type_ = self.code, value.type
        width = spv.width_of(type_)
        if width == 64:
            words = code.same_bits(value, VectorType(i32, [2]))
            return [code.component(words, i) for i in range(2)]
        if isinstance(type_, Float16Type):
            pair = spv.CompositeConstructOp([value, code.number(0.0, f16)], HALVES)
            return code.same_bits(code.add(pair), i32)
        return code.resized(code.same_bits(value, IntegerType(width)), 32, sign=False)


HALVES = VectorType(f16, [2])


class _Reader:
    """Reads a value. Loads each word once, although several parts of the value may share a word."""

    def __init__(self, lowering: _Lowering, place: Place, said: spv.MemoryOperand):
        self.lowering, self.said = lowering, said
        self.code = lowering.code
        self.is_atomic = _binding(place.variable) in lowering.partial
        self._words: dict[int, SSAValue] = {}

    def read(self, place: Place) -> SSAValue:
        parts = list(_constituents(place))
        if parts:
            values = [self.read(part) for part in parts]
            return self.code.add(spv.CompositeConstructOp(values, place.type))
        return self._scalar(place)

    def _scalar(self, place: Place) -> SSAValue:
        code, type_ = self.code, place.type
        width = spv.width_of(type_)
        if width == 64:
            words = [self._word(place.at(i32, n), atomic=False) for n in (0, WORD)]
            pair = code.add(spv.CompositeConstructOp(words, VectorType(i32, [2])))
            return code.same_bits(pair, type_)
        word = self._word(place, self.is_atomic and width < 8 * WORD)
        if width == 8 * WORD:
            return code.same_bits(word, type_)
        shift = self.lowering.shift(place)
        if shift != 0:
            word = code.add(spv.ShiftRightLogicalOp(word, code.index(shift)))
        if isinstance(type_, Float16Type):
            return code.component(code.add(spv.BitcastOp(word, HALVES)), 0)
        return code.same_bits(code.resized(word, width, sign=False), type_)

    def _word(self, place: Place, atomic: bool) -> SSAValue:
        key = place.known // WORD
        if not place.in_words or key not in self._words:
            self._words[key] = self._load(self.lowering.word(place), atomic)
        return self._words[key]

    def _load(self, pointer: SSAValue, is_atomic: bool) -> SSAValue:
        if is_atomic:
            return self.code.add(
                spv.AtomicLoadOp(pointer, self.lowering.scope, spv.MemorySemantics.None_)
            )
        return self.code.add(spv.LoadOp(pointer, memory=_kept_operand(self.said, KEPT_ACCESS)))


def _load_and_store(op: spv.CopyMemoryOp) -> None:
    """Replaces a copy of 8- or 16-bit scalars by a load and a store."""
    source = op.source.type
    if not isinstance(source, spv.PointerType) or not any(small_widths(source.pointee)):
        return
    said = op.memory if op.source_memory.access is None else op.source_memory
    load = spv.LoadOp(op.source, memory=_kept_operand(said, ~spv.MAKE_AVAILABLE))
    store = spv.StoreOp(op.target, load.result, memory=_kept_operand(op.memory, ~spv.MAKE_VISIBLE))
    Rewriter.replace_op(op, [load, store], [])


def _kept_operand(said: spv.MemoryOperand, kept: spv.MemoryAccess) -> spv.MemoryOperand:
    if said.access is None or not said.access.data & kept:
        return spv.MemoryOperand()
    access = said.access.data & kept
    return spv.MemoryOperand(
        spv.MemoryAccessAttr(access),
        said.alignment if access & spv.MemoryAccess.Aligned else None,
        said.scope if access & (spv.MAKE_AVAILABLE | spv.MAKE_VISIBLE) else None,
    )


def _binding(variable: spv.GlobalVariableOp) -> object:
    """Returns a key that is equal for all variables of one buffer."""
    if variable.binding is None or variable.descriptor_set is None:
        return variable.sym_name.data
    return variable.descriptor_set.value.data, variable.binding.value.data


def _constituents(place: Place) -> Iterator[Place]:
    """Yields the offsets of a composite's constituents; none for a scalar."""
    type_ = place.type
    if isinstance(type_, spv.StructType):
        for number, member in enumerate(type_.member_types):
            yield place.at(member, type_.offset(number) or 0)
    elif isinstance(type_, VectorType):
        size = spv.scalar_bytes(type_.element_type)
        for number in range(type_.get_shape()[0]):
            yield place.at(type_.element_type, number * size)
    elif isinstance(type_, spv.ArrayType):
        for number in range(spv.known_size(type_.length) or 0):
            yield place.at(type_.element_type, number * spv.array_stride(type_))


def _paths(place: Place, path: tuple[int, ...] = ()) -> Iterator[tuple[Place, tuple[int, ...]]]:
    """Yields the place and path of each scalar in a value; a matrix counts as a scalar."""
    inner = list(_constituents(place))
    if not inner:
        yield place, path
    for number, part in enumerate(inner):
        yield from _paths(part, (*path, number))


@dataclass(frozen=True)
class _Group:
    """Scalars that one store writes: scalars that together fill a word, or a single scalar."""

    parts: list[tuple[Place, tuple[int, ...]]]
    is_whole: bool


def _groups(place: Place) -> list[_Group]:
    words: dict[int, list[tuple[Place, tuple[int, ...]]]] = {}
    alone: list[_Group] = []
    for part, path in _paths(place):
        if spv.width_of(part.type) >= 8 * WORD:
            alone.append(_Group([(part, path)], is_whole=True))
        elif part.in_words:
            words.setdefault(part.known // WORD, []).append((part, path))
        else:
            alone.append(_Group([(part, path)], is_whole=False))
    for parts in words.values():
        if sum(spv.width_of(part.type) for part, _ in parts) == 8 * WORD:
            alone.append(_Group(parts, is_whole=True))
        else:
            alone += [_Group([part], is_whole=False) for part in parts]
    return alone


def _words_of(pointer: spv.PointerType) -> spv.PointerType:
    """
    Returns the type of a variable after its struct was replaced by one array of 32-bit words
    (in the storage class Uniform, of vectors of four words).

    The array gets the access decorations (`NonWritable`, for example) that all members have.
    """
    struct = pointer.pointee
    assert isinstance(struct, spv.StructType)
    members = struct.member_types
    storage = pointer.storage_class.data
    array: Attribute = spv.RuntimeArrayType(i32, WORD)
    if storage is spv.StorageClass.PushConstant:
        array = spv.ArrayType(-(-spv.size_in_bytes(struct) // WORD), i32, WORD)
    elif storage is spv.StorageClass.Uniform:
        array = spv.ArrayType(-(-spv.size_in_bytes(struct) // ROW), VectorType(i32, [4]), ROW)
    decorations = spv.Decoration
    kept = decorations.NonWritable, decorations.Restrict, decorations.Coherent, decorations.Volatile
    shared = [
        spv.MemberDecorationAttr(0, decoration)
        for decoration in kept
        if all(any(d.decoration.data is decoration for d in struct.decorations_of(i))
               for i in range(len(members)))
    ]  # fmt: skip
    inner = spv.StructType([array], [0], shared, struct.decorations.data)
    return spv.PointerType(inner, pointer.storage_class, pointer.stride.data)
