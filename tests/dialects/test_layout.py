"""Sizes, alignments and offsets equal values computed manually from the specifications."""

import pytest
from xdsl.dialects.builtin import VectorType, f16, f32, f64, i1, i8, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Decoration, Scope, StorageClass
from xdsl_spirv.dialects.spirv.layout import (
    Packing,
    alignment,
    array_stride,
    member_offsets,
    size_in_bytes,
)
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MatrixType,
    MemberDecorationAttr,
    PointerType,
    RuntimeArrayType,
    StructType,
)

VEC3 = VectorType(f32, [3])


@pytest.mark.parametrize(
    ("type", "size", "scalar", "std430"),
    [
        (i8, 1, 1, 1),
        (f16, 2, 2, 2),
        (f64, 8, 8, 8),
        (i1, 4, 4, 4),
        (PointerType(f32, StorageClass.PhysicalStorageBuffer), 8, 8, 8),
        (VectorType(f16, [2]), 4, 2, 4),
        (VEC3, 12, 4, 16),
        (VectorType(i8, [16]), 16, 1, 16),
        (ArrayType(3, f16), 6, 2, 2),
        (ArrayType(3, f16, 16), 48, 2, 2),
        (StructType([f16, f32]), 8, 4, 4),
        (StructType([f32, f16]), 8, 4, 4),
        (StructType([f32, RuntimeArrayType(f16)]), 4, 4, 4),
        (StructType([f32, f32], [0, 60]), 64, 4, 4),
    ],
)
def test_size_and_alignment(type: Attribute, size: int, scalar: int, std430: int):
    assert size_in_bytes(type) == size
    assert alignment(type) == scalar
    assert alignment(type, Packing.STD430) == std430


def test_packing_decides_where_the_type_does_not():
    struct = StructType([f32, VEC3, f16])
    assert member_offsets(struct) == (0, 4, 16)
    assert member_offsets(struct, Packing.STD430) == (0, 16, 28)
    assert size_in_bytes(struct) == 20
    assert size_in_bytes(struct, Packing.STD430) == 32
    assert array_stride(RuntimeArrayType(VEC3)) == 12
    assert array_stride(RuntimeArrayType(VEC3), Packing.STD430) == 16


def test_explicit_layout_wins():
    struct = StructType([f32, VEC3], [8, 12])
    assert member_offsets(struct, Packing.STD430) == (8, 12)
    assert array_stride(ArrayType(2, VEC3, 32), Packing.STD430) == 32


def test_stride_and_majorness_of_a_matrix_are_decorations_of_the_member():
    matrix = MatrixType(2, VEC3)
    stride = MemberDecorationAttr(0, Decoration.MatrixStride, 16)
    columns = StructType([matrix], [0], [stride, MemberDecorationAttr(0, Decoration.ColMajor)])
    rows = StructType([matrix], [0], [stride, MemberDecorationAttr(0, Decoration.RowMajor)])
    assert size_in_bytes(matrix) == 24
    assert size_in_bytes(columns) == 32
    assert size_in_bytes(rows) == 48


def test_an_array_with_a_specialized_length_has_a_size():
    type = ArrayType("n", i32)
    assert size_in_bytes(type, lengths={"n": 5}) == 20
    with pytest.raises(VerifyException, match="@n is an array's length, but its value is not"):
        size_in_bytes(type)


def test_cooperative_matrix_has_no_layout():
    type = CooperativeMatrixType(8, 8, f16, Scope.Subgroup, CooperativeMatrixUse.MatrixAKHR)
    with pytest.raises(VerifyException, match="has no layout in memory"):
        size_in_bytes(type)
