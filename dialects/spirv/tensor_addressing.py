"""
SPV_NV_tensor_addressing: the position of a matrix in a tensor in memory.

A layout describes the tensor's elements in memory and selects a part. A view reorders or clips
this part when it is loaded or stored. Instructions copy a layout or view and change one property:
`spirv.NV.TensorLayoutSetDimension %layout[%rows, %columns] : !spirv.NV.tensor_layout<2,
Undefined>, i32, i32`. MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import BaseAttr, VarConstraint, operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import TensorClampModeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import is_numeric
from xdsl_spirv.dialects.spirv.enums import TensorClampMode
from xdsl_spirv.dialects.spirv.types import known_size
from xdsl_spirv.dialects.spirv.types_declared import TensorLayoutType, TensorViewType


class CreateTensorLayoutOp(SPIRVOp, name="spirv.NV.CreateTensorLayout"):
    """Creates a default layout: `spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<...>`."""

    result = result_def(TensorLayoutType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


class CreateTensorViewOp(SPIRVOp, name="spirv.NV.CreateTensorView"):
    """Creates an identity view: `spirv.NV.CreateTensorView : !spirv.NV.tensor_view<...>`."""

    result = result_def(TensorViewType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


def check_values(op: Operation, values: Sequence[SSAValue], wanted: int | None) -> None:
    """
    Checks that all values are 32-bit integers. If `wanted` is given, also checks their number.
    """
    if wanted is not None and len(values) != wanted:
        raise VerifyException(f"{op.name} takes {wanted} numbers, not {len(values)}")
    for value in values:
        if not isinstance(value.type, IntegerType) or value.type.width.data != 32:
            raise VerifyException(f"{op.name} takes 32-bit integers, not {value.type}")


class TensorLayoutChange(SPIRVOp, ABC):
    """
    Copies a layout and sets one property, which has `PER_DIMENSION` numbers for each dimension.
    """

    PER_DIMENSION: ClassVar[int] = 1
    T: ClassVar = VarConstraint("T", BaseAttr(TensorLayoutType))
    tensor_layout = operand_def(T)
    values = var_operand_def(IntegerType)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor_layout `[` $values `]` attr-dict `:` type($tensor_layout) (`,` type($values)^)?"
    )

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, TensorLayoutType)  # the result's constraint
        rank = known_size(type_.rank)
        check_values(self, self.values, None if rank is None else rank * self.PER_DIMENSION)


class TensorLayoutSetDimensionOp(TensorLayoutChange, name="spirv.NV.TensorLayoutSetDimension"):
    """Sets the extents, slowest dimension first, and resets the slice to the whole tensor."""


class TensorLayoutSetStrideOp(TensorLayoutChange, name="spirv.NV.TensorLayoutSetStride"):
    """Sets the stride of each dimension, in elements."""


class TensorLayoutSliceOp(TensorLayoutChange, name="spirv.NV.TensorLayoutSlice"):
    """Selects a slice of the tensor by an offset and a span for each dimension."""

    PER_DIMENSION: ClassVar[int] = 2


class TensorLayoutSetBlockSizeOp(TensorLayoutChange, name="spirv.NV.TensorLayoutSetBlockSize"):
    """Sets the size of a block in memory, in elements of each dimension."""


class TensorLayoutSetClampValueOp(SPIRVOp, name="spirv.NV.TensorLayoutSetClampValue"):
    """
    Sets the value of elements outside of the tensor, under the clamp mode Constant.

    `spirv.NV.TensorLayoutSetClampValue %layout, %value : !spirv.NV.tensor_layout<...>, i32`.
    """

    T: ClassVar = VarConstraint("T", BaseAttr(TensorLayoutType))
    tensor_layout = operand_def(T)
    value = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor_layout `,` $value attr-dict `:` type($tensor_layout) `,` type($value)"
    )

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, TensorLayoutType)  # the result's constraint
        if not is_numeric(self.value.type):
            raise VerifyException(f"{self.name} takes a number, not {self.value.type}")
        mode = type_.clamp_mode
        if isinstance(mode, TensorClampModeAttr) and mode.data is not TensorClampMode.Constant:
            raise VerifyException(
                f"{self.name} requires the clamp mode Constant, not {mode.data.name}"
            )


class TensorViewChange(SPIRVOp, ABC):
    """Copies a view and sets one property, which has a number for each dimension."""

    T: ClassVar = VarConstraint("T", BaseAttr(TensorViewType))
    tensor_view = operand_def(T)
    values = var_operand_def(IntegerType)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor_view `[` $values `]` attr-dict `:` type($tensor_view) (`,` type($values)^)?"
    )

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, TensorViewType)  # the result's constraint
        check_values(self, self.values, known_size(type_.rank))
        if type_.has_dimensions == IntegerAttr(0, i1):
            raise VerifyException(f"{self.name} requires a view that has dimensions, not {type_}")


class TensorViewSetDimensionOp(TensorViewChange, name="spirv.NV.TensorViewSetDimension"):
    """Sets the extents of the view, slowest dimension first."""


class TensorViewSetStrideOp(TensorViewChange, name="spirv.NV.TensorViewSetStride"):
    """Sets the strides of the view, by dimension."""


class TensorViewSetClipOp(SPIRVOp, name="spirv.NV.TensorViewSetClip"):
    """
    Sets the rows and columns of the matrix that are loaded or stored.

    `spirv.NV.TensorViewSetClip %view[%row, %rows, %column, %columns] : !spirv.NV.tensor_view<...>,
    i32, i32, i32, i32`.
    """

    T: ClassVar = VarConstraint("T", BaseAttr(TensorViewType))
    tensor_view = operand_def(T)
    clip_row_offset = operand_def(IntegerType)
    clip_row_span = operand_def(IntegerType)
    clip_col_offset = operand_def(IntegerType)
    clip_col_span = operand_def(IntegerType)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor_view `[` $clip_row_offset `,` $clip_row_span `,` $clip_col_offset `,` "
        "$clip_col_span `]` attr-dict `:` type($tensor_view) `,` type($clip_row_offset) `,` "
        "type($clip_row_span) `,` type($clip_col_offset) `,` type($clip_col_span)"
    )

    def verify_(self) -> None:
        check_values(self, self.operands[1:], 4)
