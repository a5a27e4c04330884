"""
Computes the memory layout of types: sizes, alignments, offsets and strides in bytes.

Explicit offsets and strides of a type take precedence. For other types, a packing rule applies.
`SCALAR` aligns a value to its scalar's size (Vulkan's scalarBlockLayout, and the interpreter's
rule for memory without layout). `STD430` is GLSL's rule, which aligns a vector of 3 or 4
components to 4 components. Vulkan specification, "Offset and Stride Assignment".

>>> from xdsl.dialects.builtin import VectorType, f32, f16
>>> size_in_bytes(VectorType(f32, [3]))
12
>>> member_offsets(StructType([f16, VectorType(f32, [3])]), Packing.STD430)
(0, 16)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, VectorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.enums import Decoration
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    MatrixType,
    PointerType,
    RuntimeArrayType,
    Size,
    StructType,
)

POINTER_BYTES = 8
"""Size of a physical address in bytes (SPV_KHR_physical_storage_buffer)."""

BOOLEAN_BYTES = 4
"""Size of a Boolean in the interpreter's memory in bytes. SPIR-V does not define one."""


class Packing(Enum):
    """The alignment rule for types without explicit offsets or strides."""

    SCALAR = auto()
    STD430 = auto()


def round_up(number: int, multiple: int) -> int:
    """Rounds `number` up to a multiple."""
    return -(-number // multiple) * multiple


def array_length(length: Size, lengths: Mapping[str, int] | None = None) -> int:
    """
    Returns the length of an array: the known number, or the value in `lengths` of a specialization
    constant.

    Raises `VerifyException` if the value is missing.
    """
    if isinstance(length, IntAttr):
        return length.data
    name = length.root_reference.data
    if lengths is None or name not in lengths:
        raise VerifyException(
            f"the specialization constant @{name} is an array's length, but its value is not given"
        )
    return lengths[name]


def scalar_bytes(type: Attribute) -> int:
    """Returns the size of a scalar or pointer type. Raises `VerifyException` for other types."""
    if isinstance(type, IntegerType):
        return BOOLEAN_BYTES if type.width.data == 1 else type.width.data // 8
    if isinstance(type, AnyFloat):
        return (type.bitwidth + 7) // 8
    if isinstance(type, PointerType):
        return POINTER_BYTES
    raise VerifyException(f"{type} has no layout in memory")


def alignment(type: Attribute, packing: Packing = Packing.SCALAR) -> int:
    """
    Returns the alignment of a type in bytes.

    Raises `VerifyException` for types without a layout, such as a cooperative matrix.
    """
    match type:
        case VectorType():
            scalar = scalar_bytes(type.get_element_type())
            components = type.get_shape()[0]
            if packing is Packing.SCALAR:
                return scalar
            return scalar * (4 if components == 3 else components)
        case ArrayType() | RuntimeArrayType():
            return alignment(type.element_type, packing)
        case MatrixType():
            return alignment(type.column_type, packing)
        case StructType():
            return max((alignment(member, packing) for member in type.member_types), default=1)
        case _:
            return scalar_bytes(type)


def array_stride(
    type: ArrayType | RuntimeArrayType,
    packing: Packing = Packing.SCALAR,
    lengths: Mapping[str, int] | None = None,
) -> int:
    """
    Returns an array's element stride in bytes: the declared ArrayStride, or the stride by the
    packing rule.
    """
    if type.stride.data:
        return type.stride.data
    element = type.element_type
    return round_up(size_in_bytes(element, packing, lengths), alignment(element, packing))


def matrix_stride(type: MatrixType, packing: Packing = Packing.SCALAR) -> int:
    """Returns a matrix's column stride in bytes by the packing rule."""
    column = type.column_type
    return round_up(size_in_bytes(column, packing), alignment(column, packing))


def member_offsets(
    struct: StructType,
    packing: Packing = Packing.SCALAR,
    lengths: Mapping[str, int] | None = None,
) -> tuple[int, ...]:
    """
    Returns the offsets of a struct's members: the declared ones, or the offsets by the packing
    rule.
    """
    if struct.offsets.data:
        return tuple(offset.data for offset in struct.offsets)
    offsets: list[int] = []
    end = 0
    for member in struct.member_types:
        offsets.append(round_up(end, alignment(member, packing)))
        end = offsets[-1] + size_in_bytes(member, packing, lengths)
    return tuple(offsets)


def size_in_bytes(
    type: Attribute,
    packing: Packing = Packing.SCALAR,
    lengths: Mapping[str, int] | None = None,
) -> int:
    """
    Returns the size of a type, including the padding at the end of a struct.

    A runtime array has size 0. `lengths` gives the values of specialization constants that are
    lengths of arrays. Raises `VerifyException` for types without a layout, such as a cooperative
    matrix.
    """
    match type:
        case VectorType():
            return scalar_bytes(type.get_element_type()) * type.get_shape()[0]
        case RuntimeArrayType():
            return 0
        case ArrayType():
            return array_length(type.length, lengths) * array_stride(type, packing, lengths)
        case MatrixType():
            return matrix_stride(type, packing) * type.columns.data
        case StructType():
            return _struct_bytes(type, packing, lengths)
        case _:
            return scalar_bytes(type)


def _struct_bytes(struct: StructType, packing: Packing, lengths: Mapping[str, int] | None) -> int:
    end = 0
    offsets = member_offsets(struct, packing, lengths)
    for index, (member, offset) in enumerate(zip(struct.member_types, offsets, strict=True)):
        end = max(end, offset + _member_bytes(struct, index, member, packing, lengths))
    return round_up(end, alignment(struct, packing))


def _member_bytes(
    struct: StructType,
    index: int,
    member: Attribute,
    packing: Packing,
    lengths: Mapping[str, int] | None,
) -> int:
    if not isinstance(member, MatrixType):
        return size_in_bytes(member, packing, lengths)
    decorations = {d.decoration.data: d.value for d in struct.decorations_of(index)}
    stride = decorations.get(Decoration.MatrixStride)
    if not isinstance(stride, IntAttr):
        return size_in_bytes(member, packing, lengths)
    rows = member.column_type.get_shape()[0]
    return stride.data * (rows if Decoration.RowMajor in decorations else member.columns.data)
