"""
Conversions (SPIR-V 3.42.11) between numeric types, elementwise, and between bit patterns.

The conversions that SPV_KHR_cooperative_matrix lists also accept cooperative matrices (CM-19).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, Float32Type, FloatAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    Cast,
    Predicate,
    UnaryOperation,
    component_count,
    is_float,
    is_integer,
    is_numeric,
    require,
    width_of,
)
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.folding import Compute, Foldable, IntegerFoldable
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, PointerType

_INTEGER: tuple[Predicate, str] = (is_integer, "integer")
_FLOAT: tuple[Predicate, str] = (is_float, "floating-point")


class NumericConversion(Cast, ABC):
    """
    Converts components to another kind of numbers. The shape does not change.

    Matrices may differ only in their components (CM-19).
    """

    SOURCE: ClassVar[tuple[Predicate, str]] = _INTEGER
    TARGET: ClassVar[tuple[Predicate, str]] = _INTEGER

    def verify_(self) -> None:
        from_type, to_type = self.operand.type, self.result.type
        rules.cm_19_conversion(from_type, to_type)
        require(self, [from_type], *self.SOURCE, matrices=True)
        is_target, wanted = self.TARGET
        if not is_target(rules.element_of(to_type)):
            raise VerifyException(f"{self.name} cannot give {to_type}: use {wanted} components")
        matrix = isinstance(from_type, CooperativeMatrixType)
        if not matrix and component_count(from_type) != component_count(to_type):
            raise VerifyException(
                f"{self.name} cannot change the number of components: {from_type} to {to_type}"
            )


class FloatToInteger(NumericConversion, ABC):
    """Rounds floats toward zero to integers. A result that does not fit is undefined."""

    SOURCE: ClassVar[tuple[Predicate, str]] = _FLOAT


class ConvertFToSOp(FloatToInteger):
    """Converts floats to signed integers."""


class ConvertFToUOp(FloatToInteger):
    """Converts floats to unsigned integers."""


class IntegerToFloat(NumericConversion, ABC):
    """Converts integers to floats, rounded to the float's precision."""

    TARGET: ClassVar[tuple[Predicate, str]] = _FLOAT


class ConvertSToFOp(IntegerToFloat):
    """Converts signed integers to floats."""


class ConvertUToFOp(IntegerToFloat):
    """Converts unsigned integers to floats."""


class WidthConversion(NumericConversion, ABC):
    """Converts between widths of integers or of floats. A float may also change its encoding."""

    def verify_(self) -> None:
        super().verify_()
        source, target = (rules.element_of(v.type) for v in (self.operand, self.result))
        same = source == target if is_float(source) else width_of(source) == width_of(target)
        if same:
            raise VerifyException(
                f"{self.name} must change the component's width, not {source} to {target}; "
                "remove it, or use spirv.Bitcast to change the signedness"
            )


class FConvertOp(WidthConversion, Foldable):
    """Converts floats to floats, through binary32 if a type is bfloat16 (BF-06)."""

    SOURCE: ClassVar[tuple[Predicate, str]] = _FLOAT
    TARGET: ClassVar[tuple[Predicate, str]] = _FLOAT

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """
        Folds a conversion of a constant if it is exact. Other conversions depend on the rounding
        mode of the execution.
        """
        folded, value = super().fold(), ConstantLike.get_constant_value(self.operand)
        result = folded[0] if folded else None
        if not isinstance(result, FloatAttr) or not isinstance(value, FloatAttr):
            return None
        return folded if result.value == value.value else None

    def evaluate(self, operands: Sequence[Attribute | None]) -> Attribute | None:
        """
        Returns the nearest value in the result type. Returns None if the operand is beyond the
        largest value.
        """
        (value,), type_ = operands, self.result.type
        if not isinstance(value, FloatAttr) or not isinstance(type_, AnyFloat):
            return None
        try:
            return FloatAttr(next(type_.iter_unpack(type_.pack((value.value.data,)))), type_)
        except OverflowError:
            return None


class SConvertOp(WidthConversion, IntegerFoldable):
    """Converts integers to another width, by sign extension or truncation."""

    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = int


class UConvertOp(WidthConversion, IntegerFoldable):
    """Converts integers to another width, by zero extension or truncation."""

    COMPUTE: ClassVar[Compute] = int


class QuantizeToF16Op(UnaryOperation):
    """Rounds an f32 to a value that f16 can represent. The result is an f32."""

    def verify_(self) -> None:
        require(self, [self.operand.type], lambda t: isinstance(t, Float32Type), "f32")


class BitcastOp(Cast, IntegerFoldable):
    """Reinterprets the bits of pointers, scalars, vectors, or matrices (CM-19) as another type."""

    COMPUTE: ClassVar[Compute] = int

    def verify_(self) -> None:
        source, target = self.operand.type, self.result.type
        rules.cm_19_conversion(source, target, bitcast=True)
        if isinstance(source, CooperativeMatrixType):
            return
        pointers = [isinstance(t, PointerType) for t in (source, target)]
        if any(pointers):
            return
        for type_ in (source, target):
            require(self, [type_], is_numeric, "numerical")
        bits = [component_count(t) * width_of(rules.element_of(t)) for t in (source, target)]
        if bits[0] != bits[1]:
            raise VerifyException(
                f"{self.name}: {source} has {bits[0]} bits, but {target} has {bits[1]}"
            )


def _pointer(op: Operation, type_: Attribute) -> PointerType:
    if not isinstance(type_, PointerType):
        raise VerifyException(f"{op.name} needs a pointer here, not {type_}")
    return type_


def _address(op: Operation, type_: Attribute) -> None:
    if not is_integer(type_):
        raise VerifyException(f"{op.name} takes or gives an integer scalar, not {type_}")


class ConvertPtrToUOp(SPIRVOp):
    """Converts a pointer to an integer with its address."""

    pointer = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$pointer attr-dict `:` type($pointer) `to` type($result)"

    def verify_(self) -> None:
        _pointer(self, self.pointer.type)
        _address(self, self.result.type)


class ConvertUToPtrOp(Cast):
    """Converts an integer to a pointer with this address."""

    def verify_(self) -> None:
        _address(self, self.operand.type)
        _pointer(self, self.result.type)


class PointerCast(SPIRVOp, ABC):
    """Changes the storage class of a pointer: `spirv.X %p : pointer type to pointer type`."""

    pointer = operand_def(PointerType)
    result = result_def(PointerType)
    traits = traits_def(Pure())
    assembly_format = "$pointer attr-dict `:` type($pointer) `to` type($result)"

    def check_classes(self, source: bool, target: bool) -> None:
        """
        Checks the storage classes. The operand must be a Generic pointer exactly if `source` is
        True, and the result exactly if `target` is True.
        """
        before, after = _pointer(self, self.pointer.type), _pointer(self, self.result.type)
        for generic, type_ in ((source, before), (target, after)):
            if (type_.storage_class.data is StorageClass.Generic) != generic:
                raise VerifyException(
                    f"{self.name}: the storage class of {type_} must "
                    f"{'' if generic else 'not '}be Generic"
                )
        if before.pointee != after.pointee:
            raise VerifyException(
                f"{self.name} cannot change the pointee type: {before} to {after}"
            )


class PtrCastToGenericOp(PointerCast):
    """Converts a pointer to a Generic pointer."""

    def verify_(self) -> None:
        self.check_classes(source=False, target=True)


class GenericCastToPtrOp(PointerCast):
    """Converts a Generic pointer to a pointer of another storage class."""

    def verify_(self) -> None:
        self.check_classes(source=True, target=False)
