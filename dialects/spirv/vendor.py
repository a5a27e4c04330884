"""
Matrices, dot products and tensors of single vendors.

They are from SPV_NV_cooperative_matrix (the predecessor of the KHR extension),
SPV_VALVE_mixed_float_dot_product, SPV_QCOM_cooperative_matrix_conversion, and Qualcomm's bfloat16
multiply-add. MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntegerType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryWriteEffect, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import MemoryOperands, is_integer
from xdsl_spirv.dialects.spirv.enums import Capability
from xdsl_spirv.dialects.spirv.pointers import (
    MAKE_AVAILABLE,
    MAKE_VISIBLE,
    MemoryAccessing,
    ReadsMemory,
)
from xdsl_spirv.dialects.spirv.types import ArrayType, CooperativeMatrixType, PointerType
from xdsl_spirv.dialects.spirv.types_declared import CooperativeMatrixNVType

# SPV_NV_cooperative_matrix


class MatrixNVMemory(MemoryAccessing, ABC):
    """Loads or stores a matrix, whose row (or column) i begins at `pointer[i * stride]`."""

    custom_directives = (MemoryOperands,)
    STORES: ClassVar[bool]

    def verify_(self) -> None:
        stride, column_major = self.operands[-2:]
        if not is_integer(stride.type) or column_major.type != i1:
            raise VerifyException(
                f"{self.name}: the stride must be an integer and Column Major a Boolean, not "
                f"{stride.type} and {column_major.type}"
            )
        if self.STORES:
            self.memory.verify(MAKE_VISIBLE, "a store")
        else:
            self.memory.verify(MAKE_AVAILABLE, "a load")


class CooperativeMatrixLoadNVOp(MatrixNVMemory, name="spirv.NV.CooperativeMatrixLoad"):
    """Loads a matrix: `spirv.NV.CooperativeMatrixLoad %p, %st, %major ["Aligned", 16] : types`."""

    STORES: ClassVar[bool] = False
    pointer = operand_def(PointerType)
    stride = operand_def()
    column_major = operand_def()
    result = result_def(CooperativeMatrixNVType)
    traits = traits_def(ReadsMemory())
    assembly_format = (
        "operands custom<MemoryOperands>($memory_access, $alignment, $memory_scope) attr-dict `:` "
        "type(operands) `->` type($result)"
    )


class CooperativeMatrixStoreNVOp(MatrixNVMemory, name="spirv.NV.CooperativeMatrixStore"):
    """Stores a matrix: `spirv.NV.CooperativeMatrixStore %p, %m, %st, %major : types`."""

    STORES: ClassVar[bool] = True
    pointer = operand_def(PointerType)
    object = operand_def(CooperativeMatrixNVType)
    stride = operand_def()
    column_major = operand_def()
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "operands custom<MemoryOperands>($memory_access, $alignment, $memory_scope) attr-dict `:` "
        "type(operands)"
    )


class CooperativeMatrixMulAddNVOp(SPIRVOp, name="spirv.NV.CooperativeMatrixMulAdd"):
    """
    Computes a * b + c of MxK, KxN and MxN: `spirv.NV.CooperativeMatrixMulAdd %a, %b, %c : A, B ->
    C`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    a = operand_def(CooperativeMatrixNVType)
    b = operand_def(CooperativeMatrixNVType)
    c = operand_def(T)
    result = result_def(T)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)"

    def verify_(self) -> None:
        a, b, c = self.a.type, self.b.type, self.c.type
        assert isinstance(a, CooperativeMatrixNVType)  # the constraints
        assert isinstance(b, CooperativeMatrixNVType)
        if not isinstance(c, CooperativeMatrixNVType):
            raise VerifyException(f"{self.name}: C must be a matrix, not {c}")
        agree = (a.columns, a.rows, b.columns) == (b.rows, c.rows, c.columns)
        if not agree or not a.scope == b.scope == c.scope:
            raise VerifyException(
                f"{self.name} needs matrices MxK, KxN and MxN of one scope, not {a}, {b}, {c}"
            )


class CooperativeMatrixLengthNVOp(SPIRVOp, name="spirv.NV.CooperativeMatrixLength"):
    """
    Number of components that an invocation stores: `spirv.NV.CooperativeMatrixLength : matrix
    type`.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {"type": "cooperative_matrix_type"}
    cooperative_matrix_type = prop_def(TypeAttribute)
    result = result_def(IntegerType(32))
    traits = traits_def(NoMemoryEffect())
    assembly_format = "attr-dict `:` $cooperative_matrix_type"

    def verify_(self) -> None:
        if not isinstance(self.cooperative_matrix_type, CooperativeMatrixNVType):
            raise VerifyException(
                f"{self.name} needs a type !spirv.NV.coopmatrix, not {self.cooperative_matrix_type}"
            )


# SPV_VALVE_mixed_float_dot_product


class MixedDotProduct(SPIRVOp, ABC):
    """
    A dot product of small floats, accumulated in a wider type: `spirv.X %a, %b, %acc : vector ->
    f32`.
    """

    COMPONENTS: ClassVar[int] = 2
    INPUTS: ClassVar[tuple[type[Attribute], ...]] = (Float16Type, BFloat16Type)
    RESULTS: ClassVar[tuple[type[Attribute], ...]] = (Float32Type,)
    V: ClassVar = VarConstraint("V", AnyAttr())
    R: ClassVar = VarConstraint("R", AnyAttr())
    vector_1 = operand_def(V)
    vector_2 = operand_def(V)
    accumulator = operand_def(R)
    result = result_def(R)
    traits = traits_def(Pure())
    assembly_format = (
        "$vector_1 `,` $vector_2 `,` $accumulator attr-dict `:` type($vector_1) `->` type($result)"
    )

    def verify_(self) -> None:
        vector, result = self.vector_1.type, self.result.type
        if (
            not isinstance(vector, VectorType)
            or vector.get_shape() != (self.COMPONENTS,)
            or not isinstance(vector.element_type, self.INPUTS)
        ):
            raise VerifyException(
                f"{self.name} takes {self.COMPONENTS} "
                f"{' or '.join(t.name for t in self.INPUTS)}, not {vector}"
            )
        if not isinstance(result, self.RESULTS):
            raise VerifyException(
                f"{self.name} must return {' or '.join(t.name for t in self.RESULTS)}, not {result}"
            )

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns the capability for a product of two components. It depends on the types."""
        if self.COMPONENTS != 2:
            return
        if isinstance(rules.element_of(self.vector_1.type), BFloat16Type):
            yield Capability.DotProductBFloat16AccVALVE, self.name
        elif Float32Type in self.RESULTS:
            yield Capability.DotProductFloat16AccFloat32VALVE, self.name
        else:
            yield Capability.DotProductFloat16AccFloat16VALVE, self.name


class FDot2MixAcc32Op(MixedDotProduct, name="spirv.VALVE.FDot2MixAcc32"):
    """The dot product of two f16 or bf16 components, accumulated in f32."""


class FDot2MixAcc16Op(MixedDotProduct, name="spirv.VALVE.FDot2MixAcc16"):
    """The dot product of two f16 or bf16 components, accumulated in the type of the components."""

    RESULTS: ClassVar[tuple[type[Attribute], ...]] = (Float16Type, BFloat16Type)

    def verify_(self) -> None:
        super().verify_()
        if rules.element_of(self.vector_1.type) != self.result.type:
            raise VerifyException(
                f"{self.name} must return the components' type, not {self.result.type}"
            )


class FDot4MixAcc32Op(MixedDotProduct, name="spirv.VALVE.FDot4MixAcc32"):
    """The dot product of four 8-bit floats, accumulated in f32."""

    COMPONENTS: ClassVar[int] = 4
    INPUTS: ClassVar[tuple[type[Attribute], ...]] = (Float8E4M3FNType, Float8E5M2Type)


# SPV_QCOM_cooperative_matrix_conversion, BFloat16MulAddQCOM


class ArrayConversion(SPIRVOp, ABC):
    """Converts between arrays and cooperative matrices: `spirv.X %x : type to type`."""

    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def check_types(self, source: type[Attribute], result: type[Attribute]) -> None:
        """Checks that the operand and result types have these classes."""
        for what, value, kind in (
            ("must take", self.source, source),
            ("must return", self.result, result),
        ):
            if not isinstance(value.type, kind):
                raise VerifyException(f"{self.name} {what} a !{kind.name}, not {value.type}")


class BitCastArrayOp(ArrayConversion, name="spirv.QCOM.BitCastArray"):
    """Reinterprets the bits of an array as another array type."""

    def verify_(self) -> None:
        self.check_types(ArrayType, ArrayType)


class CompositeConstructCoopMatOp(ArrayConversion, name="spirv.QCOM.CompositeConstructCoopMat"):
    """Builds a cooperative matrix from this invocation's components."""

    def verify_(self) -> None:
        self.check_types(ArrayType, CooperativeMatrixType)


class CompositeExtractCoopMatOp(ArrayConversion, name="spirv.QCOM.CompositeExtractCoopMat"):
    """Returns this invocation's components of a cooperative matrix."""

    def verify_(self) -> None:
        self.check_types(CooperativeMatrixType, ArrayType)


class ExtractSubArrayOp(SPIRVOp, name="spirv.QCOM.ExtractSubArray"):
    """A part of an array: `spirv.QCOM.ExtractSubArray %a[%i] : array type, i32 -> array type`."""

    source_array = operand_def(ArrayType)
    index = operand_def()
    result = result_def(ArrayType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source_array `[` $index `]` attr-dict `:` type($source_array) `,` type($index) "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        before, after = self.source_array.type, self.result.type
        assert isinstance(before, ArrayType)  # the constraints
        assert isinstance(after, ArrayType)
        if before.element_type != after.element_type:
            raise VerifyException(
                f"{self.name} cannot change the element type: {before} to {after}"
            )
        if not is_integer(self.index.type):
            raise VerifyException(
                f"{self.name}: the index must be an integer, not {self.index.type}"
            )


class BFloat16MulAddOp(SPIRVOp, name="spirv.QCOM.BFloat16MulAdd"):
    """
    Computes a * b + c, where c is an f32: `spirv.QCOM.BFloat16MulAdd %a, %b, %c : bf16 -> f32`.
    """

    x = operand_def(BFloat16Type)
    y = operand_def(BFloat16Type)
    z = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y `,` $z attr-dict `:` type($x) `->` type($result)"
