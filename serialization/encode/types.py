"""
Declares types and constants, each once, in the order of first use. Also writes decorations.

SPIR-V forbids two declarations of one scalar, vector or pointer type, and MLIR has several
spellings of some types (`i32` and `ui32` are both OpTypeInt 32 0). Declarations are therefore
compared by their words. Declarations with different decorations (an array's stride, a struct's
offsets) are distinct. Comparing words also separates 0.0 from -0.0, and NaNs with different bits.

If a type needs a specialization constant (the rows of a cooperative matrix, for example), the
constant is defined before the type.

An attribute that has a decoration's name becomes this decoration: `binding = 0 : i32` on a variable
is Binding with the literal 0, `no_contraction` on an addition is NoContraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    NoneType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.keyed import KeyedAttr
from xdsl_spirv.grammar import Operand, decoration_of, grammar, integer_words
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.raw.words import ModuleWords, Section, string_words


def literals(attribute: Attribute, parameters: Sequence[Operand], op: Operation) -> list[int]:
    """
    Returns the words of an enumerant's literal parameters. A unit attribute has no parameters. A
    number, enumerant or string is one parameter. An array contains several.
    """
    if isinstance(attribute, UnitAttr | NoneAttr):
        return []
    values = attribute.data if isinstance(attribute, ArrayAttr) else (attribute,)
    values = attribute.parameters if isinstance(attribute, KeyedAttr) else values
    words: list[int] = []
    for value, parameter in zip(values, parameters, strict=False):
        words += _literal(value, parameter, op)
    return words


def _is_list(attribute: ArrayAttr[Attribute]) -> bool:
    return len(attribute) > 0 and all(isinstance(a, ArrayAttr | KeyedAttr) for a in attribute.data)


def _literal(value: Attribute, parameter: Operand, op: Operation) -> list[int]:
    if isinstance(value, IntegerAttr):
        return [value.value.data & 0xFFFFFFFF]
    if isinstance(value, IntAttr):
        return [value.data & 0xFFFFFFFF]
    if isinstance(value, spv.EnumerationAttr):
        return [int(value.data)]
    if isinstance(value, StringAttr):
        if parameter.kind == "LiteralString":
            return string_words(value.data)
        kind = grammar().kind(parameter.kind)
        if value.data in kind:
            return [kind[value.data].value]
        raise SPIRVEncodeError(
            f"the decoration's value must be a {parameter.kind}, not {value.data!r}", op
        )
    raise SPIRVEncodeError(f"the decoration's value must be a {parameter.kind}, not {value}", op)


class Decorations:
    """
    Writes the annotation section. Each decoration of an id is written once.

    `operand_id` returns the id of a number or symbol, for decorations with id operands.
    """

    def __init__(
        self, words: ModuleWords, operand_id: Callable[[Attribute, Operation | None], int]
    ):
        self._words = words
        self._operand_id = operand_id
        self._written: set[tuple[int, ...]] = set()
        table = grammar()
        self._decorate = table.instruction("OpDecorate").opcode
        self._decorate_id = table.instruction("OpDecorateId").opcode
        self._decorate_member = table.instruction("OpMemberDecorate").opcode

    def _add(self, opcode: int, *operands: int) -> None:
        key = (opcode, *operands)
        if key not in self._written:
            self._written.add(key)
            self._words.add(Section.ANNOTATIONS, opcode, operands)

    def add(self, target: int, decoration: int, *values: int) -> None:
        """Decorates an id with an enumerant. `values` are the words of its literals."""
        self._add(self._decorate, target, decoration, *values)

    def add_member(self, struct: int, member: int, decoration: int, *values: int) -> None:
        """Decorates a member of a struct with the enumerant `decoration`."""
        self._add(self._decorate_member, struct, member, decoration, *values)

    def add_attribute(self, target: int, name: str, attribute: Attribute, op: Operation) -> None:
        """
        Decorates an id as an attribute of an operation says. Ignores names with a dialect's prefix
        (`test.note`). Raises `SPIRVEncodeError` if the name is not a decoration.
        """
        decoration = decoration_of(name)
        if decoration is None:
            if "." in name:
                return
            raise SPIRVEncodeError(
                f"the attribute {name!r} is not a decoration of SPIR-V; remove the attribute, or "
                "prefix its name with a dialect (test.note) to have it ignored",
                op,
            )
        parameters = decoration.parameters
        if isinstance(attribute, ArrayAttr) and _is_list(attribute):
            for one in attribute.data:
                self.add_attribute(target, name, one, op)
            return
        if parameters and parameters[0].kind.startswith("Id"):
            given = attribute.data if isinstance(attribute, ArrayAttr) else (attribute,)
            ids = [self._operand_id(value, op) for value in given]
            self._add(self._decorate_id, target, decoration.value, *ids)
            return
        words = literals(attribute, parameters, op)
        if parameters and not words:
            raise SPIRVEncodeError(f"the decoration {decoration.name} needs a value", op)
        self._add(self._decorate, target, decoration.value, *words)


SymbolId: TypeAlias = Callable[[str, Operation | None], int]
"""A function that returns the id of a symbol. The first call writes the symbol's definition."""

FLOATS: dict[type[Attribute], tuple[int, spv.FPEncoding | None]] = {
    Float16Type: (16, None),
    Float32Type: (32, None),
    Float64Type: (64, None),
    BFloat16Type: (16, spv.FPEncoding.BFloat16KHR),
    Float8E4M3FNType: (8, spv.FPEncoding.Float8E4M3EXT),
    Float8E5M2Type: (8, spv.FPEncoding.Float8E5M2EXT),
    Float8E8M0FNUType: (8, spv.FPEncoding.Float8UnsignedE8M0EXT),
    Float6E2M3FNType: (6, spv.FPEncoding.Float6E2M3EXT),
    Float6E3M2FNType: (6, spv.FPEncoding.Float6E3M2EXT),
    Float4E2M1FNType: (4, spv.FPEncoding.Float4E2M1EXT),
}
"""Maps a float type to its width in bits and its FP Encoding (None for IEEE 754)."""

I32 = IntegerType(32)

BLOCK_CLASSES = (
    spv.StorageClass.Uniform,
    spv.StorageClass.StorageBuffer,
    spv.StorageClass.PushConstant,
    spv.StorageClass.PhysicalStorageBuffer,
)
"""
Storage classes in which the struct of a variable is an interface block (Vulkan, "Shader Resource
Interface").
"""


class Ids:
    """Allocates result ids: 1, 2, 3, ..."""

    def __init__(self) -> None:
        self.bound = 1

    def fresh(self) -> int:
        fresh = self.bound
        self.bound = fresh + 1
        return fresh


class Declarations:
    """Writes declarations for `TypeTable` and `ConstantTable`, without duplicates."""

    def __init__(self, words: ModuleWords, ids: Ids):
        self._words = words
        self._ids = ids
        self._declared: dict[tuple[object, ...], int] = {}

    def emit(
        self,
        name: str,
        result_type: int | None,
        operands: Sequence[int],
        result: int | None = None,
    ) -> int:
        """Writes a declaration, even if an equal declaration exists, and returns its id."""
        if result is None:
            result = self._ids.fresh()
        head = (result,) if result_type is None else (result_type, result)
        opcode = grammar().instruction(name).opcode
        self._words.add(Section.GLOBALS, opcode, (*head, *operands))
        return result

    def declare(
        self, name: str, result_type: int | None, operands: Sequence[int], apart: object = None
    ) -> tuple[int, bool]:
        """
        Returns the id of a declaration, and True if the declaration is new. Declarations with equal
        words are distinct if they differ in `apart`.
        """
        key = (name, result_type, apart, *operands)
        known = self._declared.get(key)
        if known is not None:
            return known, False
        id = self._declared[key] = self.emit(name, result_type, operands)
        return id, True

    def forward_pointer(self, storage_class: int) -> int:
        """
        Writes OpTypeForwardPointer and returns the id of the pointer type. `point` declares the
        type later.
        """
        pointer = self._ids.fresh()
        opcode = grammar().instruction("OpTypeForwardPointer").opcode
        self._words.add(Section.GLOBALS, opcode, (pointer, storage_class))
        return pointer

    def point(self, pointer: int, storage_class: int, pointee: int, stride: int) -> None:
        """Declares the pointer type for which `forward_pointer` returned the id."""
        operands = (storage_class, pointee)
        self.emit("OpTypePointer", None, operands, pointer)
        self._declared["OpTypePointer", None, stride, *operands] = pointer


class TypeTable:
    """Declares types and returns their ids."""

    def __init__(
        self,
        declarations: Declarations,
        decorations: Decorations,
        size_id: Callable[[Attribute, Operation | None], int],
        carried: Callable[[Attribute, Operation | None], int],
    ):
        """
        `size_id` returns the id of an array's length. `carried` declares a type that has no class
        in the dialect.
        """
        self._declarations = declarations
        self._decorations = decorations
        self._size_id = size_id
        self._carried = carried
        self._by_identity: dict[int, tuple[int, Attribute]] = {}
        self._by_attribute: dict[Attribute, int] = {}
        self._open: set[spv.StructType] = set()
        """Structs with identifiers whose members are being declared."""
        self._forward: dict[spv.PointerType, int] = {}
        """Pointers to structs that contain a struct of `_open`. They are declared after it."""
        self.name: Callable[[int, str], None] | None = None
        """Function that writes the OpName of an id. None if the caller does not want names."""
        self._makers: dict[type[Attribute], Callable[..., int]] = {
            NoneType: self._nothing,
            IntegerType: self._integer,
            VectorType: self._vector,
            spv.PointerType: self._pointer,
            spv.UntypedPointerType: self._untyped_pointer,
            spv.ArrayType: self._array,
            spv.RuntimeArrayType: self._runtime_array,
            spv.MatrixType: self._matrix,
            spv.StructType: self._struct,
            spv.CooperativeMatrixType: self._cooperative_matrix,
            FunctionType: self._function,
            **{float_type: self._float for float_type in FLOATS},
        }

    def id(self, attribute: Attribute, op: Operation | None = None) -> int:
        """Returns the id of a type. Error messages name `op`."""
        known = self._by_identity.get(id(attribute))
        if known is not None:
            return known[0]
        number = self._by_attribute.get(attribute)
        if number is None:
            maker: Callable[..., int] | None = self._makers.get(type(attribute))
            if isinstance(attribute, spv.DeclaredType):
                maker = self._declared
            elif attribute.name == "spirv.raw":
                maker = self._carried
            if maker is None:
                raise SPIRVEncodeError(
                    f"the type {attribute} has no SPIR-V form; convert it to a type of the spirv "
                    "dialect first",
                    op,
                )
            number = self._by_attribute[attribute] = maker(attribute, op)
        # The table refers to the attribute, so that Python does not reuse its identity.
        self._by_identity[id(attribute)] = (number, attribute)
        return number

    def _nothing(self, t: Attribute, op: Operation | None) -> int:
        return self.void()

    def void(self) -> int:
        return self._declare("OpTypeVoid", ())

    def _declare(self, name: str, operands: Sequence[int]) -> int:
        return self._declarations.declare(name, None, operands)[0]

    def _integer(self, t: IntegerType, op: Operation | None) -> int:
        if t.width.data == 1:
            return self._declare("OpTypeBool", ())
        signed = t.signedness.data is Signedness.SIGNED
        return self._declare("OpTypeInt", (t.width.data, int(signed)))

    def _float(self, t: spv.FloatType, op: Operation | None) -> int:
        width, encoding = FLOATS[type(t)]
        return self._declare("OpTypeFloat", (width,) if encoding is None else (width, encoding))

    def _vector(self, t: VectorType, op: Operation | None) -> int:
        shape = t.get_shape()
        if len(shape) != 1 or shape[0] < 2 or t.get_num_scalable_dims():
            raise SPIRVEncodeError(
                f"the type {t} has no SPIR-V form: a vector has one dimension of 2 or more", op
            )
        return self._declare("OpTypeVector", (self.id(t.element_type, op), shape[0]))

    def _matrix(self, t: spv.MatrixType, op: Operation | None) -> int:
        return self._declare("OpTypeMatrix", (self.id(t.column_type, op), t.columns.data))

    def _pointer(self, t: spv.PointerType, op: Operation | None) -> int:
        storage_class, stride = int(t.storage_class.data), t.stride.data
        # A forward pointer must point to a struct.
        is_new = isinstance(t.pointee, spv.StructType) and t.pointee not in self._by_attribute
        if is_new and self._open and self._leads_to_open(t.pointee, set()):
            self._forward[t] = number = self._declarations.forward_pointer(storage_class)
            if stride:
                self._decorations.add(number, spv.Decoration.ArrayStride, stride)
            return number
        pointee = self.id(t.pointee, op)
        # Declaring the pointee may have declared the pointer.
        known = self._by_attribute.get(t)
        return known or self._strided("OpTypePointer", (storage_class, pointee), stride)

    def _leads_to_open(self, t: Attribute, seen: set[Attribute]) -> bool:
        if isinstance(t, spv.PointerType):
            return self._leads_to_open(t.pointee, seen)
        if isinstance(t, spv.ArrayType | spv.RuntimeArrayType):
            return self._leads_to_open(t.element_type, seen)
        if not isinstance(t, spv.StructType) or t in seen:
            return False
        seen.add(t)
        return t in self._open or any(self._leads_to_open(m, seen) for m in t.member_types)

    def _untyped_pointer(self, t: spv.UntypedPointerType, op: Operation | None) -> int:
        return self._declare("OpTypeUntypedPointerKHR", (int(t.storage_class.data),))

    def _declared(self, t: spv.DeclaredType, op: Operation | None) -> int:
        kinds = [o.kind for o in grammar().instruction(t.INSTRUCTION).operands[1:]]
        kinds += kinds[-1:] * (len(t.declaration) - len(kinds))
        words = [
            int(part.data)
            if isinstance(part, spv.EnumerationAttr) and not kind.startswith("Id")
            else self._size_id(part, op)
            for part, kind in zip(t.declaration, kinds, strict=False)
        ]
        return self._declare(t.INSTRUCTION, words)

    def _function(self, t: FunctionType, op: Operation | None) -> int:
        if len(t.outputs) > 1:
            raise SPIRVEncodeError("a SPIR-V function can return at most one value", op)
        result = self.id(t.outputs.data[0], op) if t.outputs.data else self.void()
        parameters = [self.id(i, op) for i in t.inputs]
        return self._declare("OpTypeFunction", (result, *parameters))

    def _array(self, t: spv.ArrayType, op: Operation | None) -> int:
        element, length = self.id(t.element_type, op), self._size_id(t.length, op)
        return self._strided("OpTypeArray", (element, length), t.stride.data)

    def _runtime_array(self, t: spv.RuntimeArrayType, op: Operation | None) -> int:
        return self._strided("OpTypeRuntimeArray", (self.id(t.element_type, op),), t.stride.data)

    def _strided(self, name: str, operands: Sequence[int], stride: int) -> int:
        type_id, new = self._declarations.declare(name, None, operands, apart=stride)
        if new and stride:
            self._decorations.add(type_id, spv.Decoration.ArrayStride, stride)
        return type_id

    def _cooperative_matrix(self, t: spv.CooperativeMatrixType, op: Operation | None) -> int:
        component = self.id(t.element_type, op)
        sizes = (self._size_id(a, op) for a in (t.scope, t.rows, t.columns, t.use))
        return self._declare("OpTypeCooperativeMatrixKHR", (component, *sizes))

    def _struct(self, t: spv.StructType, op: Operation | None) -> int:
        if t.is_reference or t in self._open:
            raise SPIRVEncodeError(
                f"the struct {t.identifier.data} contains itself without a pointer in between", op
            )
        if t.identifier.data:
            self._open.add(t)
        # Member types are declared without their surroundings, so that structs which point to each
        # other are declared once, no matter which comes first.
        members = [self.id(m, op) for m in t.member_types]
        self._open.discard(t)
        notes = (t.identifier, t.offsets, t.member_decorations, t.decorations)
        type_id, new = self._declarations.declare("OpTypeStruct", None, members, apart=notes)
        self._by_attribute[t] = type_id
        if new:
            self._decorate_struct(type_id, t)
            if self.name is not None and t.identifier.data:
                self.name(type_id, t.identifier.data)
        while (pointer := self._find_declarable(t)) is not None:
            number, pointee = self._forward.pop(pointer), self.id(pointer.pointee, op)
            storage_class = int(pointer.storage_class.data)
            self._declarations.point(number, storage_class, pointee, pointer.stride.data)
        return type_id

    def _find_declarable(self, declared: spv.StructType) -> spv.PointerType | None:
        """
        Returns a forward pointer that can be declared after the struct `declared`, or None. The
        struct that it points to must not need a struct of `_open`.
        """
        for pointer in self._forward:
            if pointer.pointee == declared or not self._leads_to_open(pointer.pointee, set()):
                return pointer
        return None

    def _decorate_struct(self, struct: int, t: spv.StructType) -> None:
        for i, offset in enumerate(t.offsets):
            self._decorations.add_member(struct, i, spv.Decoration.Offset, offset.data)
        for d in t.member_decorations:
            values = (d.value.data,) if isinstance(d.value, IntAttr) else ()
            self._decorations.add_member(struct, d.member.data, d.decoration.data, *values)
        for d in t.decorations:
            values = (d.value.data,) if isinstance(d.value, IntAttr) else ()
            self._decorations.add(struct, d.decoration.data, *values)

    def decorate_block(self, t: Attribute) -> None:
        """
        Decorates a struct with Block, unless it has BufferBlock. For an array, decorates the
        structs in it.
        """
        while isinstance(t, spv.ArrayType | spv.RuntimeArrayType):
            t = t.element_type
        if isinstance(t, spv.StructType) and not t.has_decoration(spv.Decoration.BufferBlock):
            self._decorations.add(self.id(t), spv.Decoration.Block)


class ConstantTable:
    """Declares constants and returns their ids."""

    def __init__(self, declarations: Declarations, types: TypeTable, symbol_id: SymbolId):
        self._declarations = declarations
        self._types = types
        self._symbol_id = symbol_id
        self._by_identity: dict[tuple[int, int], tuple[int, Attribute, Attribute]] = {}

    def integer(self, value: int) -> int:
        """
        Returns the id of a 32-bit integer constant (a scope, a layout or a size, for example).
        """
        return self._declare("OpConstant", self._types.id(I32), (value & 0xFFFFFFFF,))

    def operand(self, attribute: Attribute, op: Operation | None) -> int:
        """Returns the id of an operand that is an attribute: a number, symbol or type."""
        if isinstance(attribute, spv.EnumerationAttr | IntAttr):
            return self.integer(int(attribute.data))
        if isinstance(attribute, IntegerAttr):
            if isinstance(attribute.type, IntegerType):
                return self.id(attribute, attribute.type, op)
            return self.integer(attribute.value.data)
        if isinstance(attribute, SymbolRefAttr):
            return self._symbol_id(attribute.string_value(), op)
        if attribute.name == "spirv.constant_ref":
            assert isinstance(attribute, spv.ConstantRefAttr)
            return self.id(attribute.value, attribute.type, op)
        if isinstance(attribute, ArrayAttr):
            return self.id(attribute, spv.ArrayType(len(attribute), I32), op)
        if isinstance(attribute, FloatAttr):
            return self.id(attribute, attribute.type, op)
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            tensor = spv.TensorArmType(attribute.get_shape(), attribute.get_element_type())
            return self.id(attribute, tensor, op)
        return self._types.id(attribute, op)

    def id(self, value: Attribute, t: Attribute, op: Operation | None) -> int:
        """Returns the id of the constant with this value and type."""
        key = (id(value), id(t))
        known = self._by_identity.get(key)
        if known is not None:
            return known[0]
        number = self._make(value, t, op)
        self._by_identity[key] = (number, value, t)
        return number

    def replicated(self, value: Attribute, types: Sequence[Attribute], op: Operation | None) -> int:
        """
        Returns the id of a nested composite in which all elements are `value`. `types` lists its
        types, beginning with the outermost.
        """
        constituent = self.id(value, types[-1], op)
        for t in reversed(types[:-1]):
            type_id = self._types.id(t, op)
            constituent = self._declare("OpConstantCompositeReplicateEXT", type_id, (constituent,))
        return constituent

    def null(self, t: Attribute, op: Operation | None) -> int:
        return self._declare("OpConstantNull", self._types.id(t, op), ())

    def undefined(self, t: Attribute, op: Operation | None) -> int:
        """Returns the id of a type's undefined value (OpUndef), which is declared once."""
        return self._declare("OpUndef", self._types.id(t, op), ())

    def _declare(self, name: str, result_type: int, operands: Sequence[int]) -> int:
        return self._declarations.declare(name, result_type, operands)[0]

    def _make(self, value: Attribute, t: Attribute, op: Operation | None) -> int:
        if isinstance(value, IntegerAttr | FloatAttr):
            if isinstance(t, spv.CooperativeMatrixType):
                return self.composite([self.id(value, t.element_type, op)], t, op)
            return self._scalar(scalar_words(value, t, op), t, op)
        if isinstance(value, DenseIntOrFPElementsAttr):
            return self._nested(dense_elements(value), t, op)
        types = spv.constituent_types(t)
        if isinstance(value, ArrayAttr) and types is not None and len(types) == len(value):
            pairs = zip(value, types, strict=True)
            return self.composite([self.id(v, of, op) for v, of in pairs], t, op)
        raise SPIRVEncodeError(f"{value} is not a constant of type {t}", op)

    def _scalar(self, words: Sequence[int], t: Attribute, op: Operation | None) -> int:
        type_id = self._types.id(t, op)
        if isinstance(t, IntegerType) and t.width.data == 1:
            return self._declare("OpConstantTrue" if words[0] else "OpConstantFalse", type_id, ())
        return self._declare("OpConstant", type_id, words)

    def composite(self, constituents: Sequence[int], t: Attribute, op: Operation | None) -> int:
        return self._declare("OpConstantComposite", self._types.id(t, op), constituents)

    def _nested(self, elements: list[int], t: Attribute, op: Operation | None) -> int:
        """Returns the id of a composite from the bit patterns of its elements."""
        scalar = _scalar_width(t)
        if scalar is not None:
            width, signed = scalar
            return self._scalar(integer_words(elements[0], width, signed), t, op)
        types = spv.constituent_types(t)
        if not types or len(elements) % len(types):
            raise SPIRVEncodeError(f"the type {t} does not have {len(elements)} elements", op)
        step = len(elements) // len(types)
        constituents = [
            self._nested(elements[i * step : (i + 1) * step], of, op) for i, of in enumerate(types)
        ]
        return self.composite(constituents, t, op)


def scalar_words(value: IntegerAttr | FloatAttr, t: Attribute, op: Operation | None) -> list[int]:
    """Returns the words of a number of type `t`. Raises `SPIRVEncodeError` if it does not fit."""
    if _scalar_width(t) is None:
        raise SPIRVEncodeError(f"{value} is not a constant of type {t}", op)
    try:
        return spv.literal_words(value, t)
    except ValueError as error:
        raise SPIRVEncodeError(str(error), op) from None


def dense_elements(value: DenseIntOrFPElementsAttr) -> list[int]:
    """Returns the bit patterns of a dense attribute's elements, in row-major order."""
    data, size = value.data.data, value.get_element_type().compile_time_size
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def _scalar_width(t: Attribute) -> tuple[int, bool] | None:
    if isinstance(t, IntegerType):
        return t.width.data, t.signedness.data is Signedness.SIGNED
    if type(t) in FLOATS:
        return FLOATS[type(t)][0], False
    return None
