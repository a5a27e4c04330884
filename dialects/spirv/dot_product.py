"""
SPV_KHR_integer_dot_product: six instructions in two families.

As in MLIR, the syntax gives only the first vector's type. If the second vector has another type
(allowed for SU forms), this type follows: `spirv.SUDot %a, %b : vector<4xsi8>, vector<4xui8> ->
i32`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, Signedness, VectorType
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Commutative, Pure

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import PackedVectorFormatAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import OneOrTwoTypes, SameType
from xdsl_spirv.dialects.spirv.enums import Capability


class DotSignedness(Enum):
    """Signedness of both vectors' components, which are extended by sign or by zeros (DOT-15)."""

    SIGNED = "S"
    UNSIGNED = "U"
    MIXED = "SU"


class IntegerDotOperation(SPIRVOp, ABC):
    """
    A dot product of two integer vectors, or of two packed scalars.

    `SIGNEDNESS` determines how components extend. Only the saturating family has an `accumulator`.
    """

    SIGNEDNESS: ClassVar[DotSignedness]
    FIELDS: ClassVar[Mapping[str, str]] = {"packed_vector_format": "format"}

    vector_1 = operand_def()
    vector_2 = operand_def()
    format = opt_prop_def(PackedVectorFormatAttr)
    result = result_def()
    custom_directives = (OneOrTwoTypes, SameType)

    def verify_(self) -> None:
        vector_1, vector_2 = self.vector_1.type, self.vector_2.type
        if self.SIGNEDNESS is DotSignedness.MIXED:
            rules.dot_10_mixed_vectors(vector_1, vector_2)
        else:
            rules.dot_09_same_vectors(vector_1, vector_2)
        for vector in (vector_1, vector_2):
            rules.dot_11_scalars(vector, self.format)
            rules.dot_12_vectors(vector, self.format)
        if self.SIGNEDNESS is DotSignedness.UNSIGNED:
            rules.dot_08_unsigned((vector_1, vector_2), self.result.type)
        rules.dot_07_result_width(vector_1, self.result.type)

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns the capability that the vectors' type requires (DOT-03 to DOT-05)."""
        vector = self.vector_1.type
        if not isinstance(vector, VectorType):
            capability = Capability.DotProductInput4x8BitPacked
        elif vector.get_shape() == (4,) and vector.element_type in _BYTES:
            capability = Capability.DotProductInput4x8Bit
        else:
            capability = Capability.DotProductInputAll
        yield capability, f"{self.name} on {vector}"


_BYTES = tuple(IntegerType(8, signedness) for signedness in Signedness)


class DotOperation(IntegerDotOperation, ABC):
    """The exact sum of the components' products, truncated to the result's width."""

    assembly_format = (
        "$vector_1 `,` $vector_2 (`,` $format^)? attr-dict `:` "
        "custom<OneOrTwoTypes>(type($vector_1), type($vector_2)) `->` type($result)"
    )


class DotAccumulateOperation(IntegerDotOperation, ABC, result="accumulator"):
    """A dot product added to an accumulator by a saturating addition."""

    vector_1 = operand_def()
    vector_2 = operand_def()
    accumulator = operand_def()

    traits = traits_def(Pure())
    assembly_format = (
        "$vector_1 `,` $vector_2 `,` $accumulator (`,` $format^)? attr-dict `:` "
        "custom<OneOrTwoTypes>(type($vector_1), type($vector_2)) `->` "
        "custom<SameType>(type($result), type($accumulator))"
    )

    def verify_(self) -> None:
        super().verify_()
        rules.dot_13_accumulator(self.accumulator.type, self.result.type)


class SDotOp(DotOperation):
    """Signed dot product: `spirv.SDot %a, %b, <PackedVectorFormat4x8Bit> : i32 -> i32`."""

    SIGNEDNESS: ClassVar[DotSignedness] = DotSignedness.SIGNED
    traits = traits_def(Commutative(), Pure())


class UDotOp(DotOperation):
    """Unsigned dot product: `spirv.UDot %a, %b : vector<4xi8> -> i32`."""

    SIGNEDNESS: ClassVar[DotSignedness] = DotSignedness.UNSIGNED
    traits = traits_def(Commutative(), Pure())


class SUDotOp(DotOperation):
    """Signed by unsigned: `spirv.SUDot %a, %b : vector<4xsi8>, vector<4xui8> -> i32`."""

    SIGNEDNESS: ClassVar[DotSignedness] = DotSignedness.MIXED
    traits = traits_def(Pure())


# fmt: off
class SDotAccSatOp(DotAccumulateOperation, signedness=DotSignedness.SIGNED):
    """Signed, with saturation: `spirv.SDotAccSat %a, %b, %acc : vector<4xi8> -> i32`."""
class UDotAccSatOp(DotAccumulateOperation, signedness=DotSignedness.UNSIGNED):
    """Unsigned, with saturation: `spirv.UDotAccSat %a, %b, %acc : vector<4xi8> -> i32`."""
class SUDotAccSatOp(DotAccumulateOperation, signedness=DotSignedness.MIXED):
    """Signed by unsigned, with signed saturation: `spirv.SUDotAccSat %a, %b, %acc : ... -> i32`."""
# fmt: on
