"""
SPV_ARM_tensors: reads and writes of tensor resources by elements or runs of elements.

MLIR has the type `!spirv.arm.tensor<1x16xf32>`, but not the instructions.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import ScopeAttr, TensorOperandsAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import is_integer
from xdsl_spirv.dialects.spirv.enums import Scope, TensorOperands
from xdsl_spirv.dialects.spirv.pointers import ReadsMemory
from xdsl_spirv.dialects.spirv.types import ArrayType, known_size
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType

SCOPES = {
    "available_scope": TensorOperands.MakeElementAvailableARM,
    "visible_scope": TensorOperands.MakeElementVisibleARM,
}
"""Maps the property of a scope to the operand bit that is set for it."""


class TensorAccess(SPIRVOp, ABC):
    """Accesses an element, or a run of elements along the last dimension, at given coordinates."""

    tensor_operands = opt_prop_def(TensorOperandsAttr)
    available_scope = opt_prop_def(ScopeAttr)
    visible_scope = opt_prop_def(ScopeAttr)

    def check(self, object: Attribute, outside: SSAValue | None, forbidden: TensorOperands) -> None:
        """Checks coordinates, element type, and the agreement of operands with the operand bits."""
        tensor, place = self.operands[0].type, self.operands[1].type
        assert isinstance(tensor, TensorArmType)  # the operand's constraint
        ranked = len(tensor.shape)
        if not isinstance(place, ArrayType) or not is_integer(place.element_type):
            raise VerifyException(
                f"{self.name}: coordinates must be an array of integers, not {place}"
            )
        if ranked and known_size(place.length) not in (None, ranked):
            raise VerifyException(f"{self.name}: {tensor} needs {ranked} coordinates, not {place}")
        element = object.element_type if isinstance(object, ArrayType) else object
        if rules.element_of(element) != tensor.element_type:
            raise VerifyException(f"{self.name}: {tensor} has no elements of type {object}")
        bits = TensorOperands(0) if self.tensor_operands is None else self.tensor_operands.data
        if bits & forbidden:
            raise VerifyException(f"{self.name} does not take {forbidden.name}")
        given = {name: bit for name, bit in SCOPES.items() if name in self.properties}
        if outside is not None:
            given["outside"] = TensorOperands.OutOfBoundsValueARM
        wanted = [
            bit for bit in (*SCOPES.values(), TensorOperands.OutOfBoundsValueARM) if bits & bit
        ]
        if sorted(given.values()) != sorted(wanted):
            raise VerifyException(
                f"{self.name}: each of `outside`, `available` and `visible` must be given exactly "
                "if its bit is set in the tensor operands"
            )


def _mask(
    operands: TensorOperands, outside: Value | None, available: Scope | None, visible: Scope | None
) -> dict[str, Attribute]:
    properties: dict[str, Attribute] = {}
    if outside is not None:
        operands |= TensorOperands.OutOfBoundsValueARM
    for (name, bit), scope in zip(SCOPES.items(), (available, visible), strict=True):
        if scope is not None:
            operands |= bit
            properties[name] = ScopeAttr(scope)
    if operands:
        properties["tensor_operands"] = TensorOperandsAttr(operands)
    return properties


class TensorReadOp(TensorAccess, name="spirv.ARM.TensorRead"):
    """
    OpTensorReadARM: reads elements of a tensor.

    `spirv.ARM.TensorRead %t[%at], <OutOfBoundsValueARM> outside(%zero) : !spirv.arm.tensor<...>,
    !spirv.array<2 x i32>, f32 -> f32`.
    """

    tensor = operand_def(TensorArmType)
    coordinates = operand_def()
    out_of_bounds_value = opt_operand_def()
    result = result_def()
    traits = traits_def(ReadsMemory())
    assembly_format = (
        "$tensor `[` $coordinates `]` (`,` $tensor_operands^)? "
        "(`outside` `(` $out_of_bounds_value^ `)`)? (`available` `(` $available_scope^ `)`)? "
        "(`visible` `(` $visible_scope^ `)`)? attr-dict `:` type($tensor) `,` type($coordinates) "
        "(`,` type($out_of_bounds_value)^)? `->` type($result)"
    )

    def __init__(
        self,
        tensor: Value,
        coordinates: Value,
        result_type: Attribute,
        operands: TensorOperands = TensorOperands.NoneARM,
        outside: Value | None = None,
        visible: Scope | None = None,
    ):
        properties = _mask(operands, outside, None, visible)
        super().__init__(tensor, coordinates, result_type, outside, **properties)

    def verify_(self) -> None:
        bit = TensorOperands.MakeElementAvailableARM
        self.check(self.result.type, self.out_of_bounds_value, bit)
        outside = self.out_of_bounds_value
        if outside is not None and rules.element_of(self.result.type) != outside.type:
            element = getattr(self.result.type, "element_type", self.result.type)
            if element != outside.type:
                raise VerifyException(
                    f"{self.name}: the operand `outside` must be {element}, not {outside.type}"
                )


class TensorWriteOp(TensorAccess, name="spirv.ARM.TensorWrite"):
    """OpTensorWriteARM: `spirv.ARM.TensorWrite %t[%at], %v : tensor type, coordinates, f32`."""

    tensor = operand_def(TensorArmType)
    coordinates = operand_def()
    object = operand_def()
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$tensor `[` $coordinates `]` `,` $object (`,` $tensor_operands^)? "
        "(`available` `(` $available_scope^ `)`)? (`visible` `(` $visible_scope^ `)`)? "
        "attr-dict `:` type($tensor) `,` type($coordinates) `,` type($object)"
    )

    def __init__(
        self,
        tensor: Value,
        coordinates: Value,
        object: Value,
        operands: TensorOperands = TensorOperands.NoneARM,
        available: Scope | None = None,
    ):
        super().__init__(tensor, coordinates, object, **_mask(operands, None, available, None))

    def verify_(self) -> None:
        self.check(self.object.type, None, TensorOperands.MakeElementVisibleARM)
        if self.tensor_operands is not None:
            if self.tensor_operands.data & TensorOperands.OutOfBoundsValueARM:
                raise VerifyException(f"{self.name} does not take OutOfBoundsValueARM")


class TensorQuerySizeOp(SPIRVOp, name="spirv.ARM.TensorQuerySize"):
    """The extent of a dimension: `spirv.ARM.TensorQuerySize %t[%d] : tensor type, i32 -> i32`."""

    FIELDS: ClassVar[Mapping[str, str]] = {}
    tensor = operand_def(TensorArmType)
    dimension = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor `[` $dimension `]` attr-dict `:` type($tensor) `,` type($dimension) "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        for type_ in (self.dimension.type, self.result.type):
            if not is_integer(type_):
                raise VerifyException(f"{self.name} takes and returns an integer, not {type_}")
        if not rules.is_constant(self.dimension):
            raise VerifyException(
                f"{self.name}: the dimension must come from a constant instruction"
            )
