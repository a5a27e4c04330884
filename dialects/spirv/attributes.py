"""
Enumerations as attributes, with Khronos' names in MLIR's spelling.

An enumeration attribute is written `<Subgroup>` where an operation's syntax expects it, and
`#spirv.scope<Subgroup>` elsewhere. A mask is written `<AcquireRelease|WorkgroupMemory>`. If MLIR
shortens a Khronos name (`RowMajor` for `RowMajorKHR`), the short form is printed, and both forms
are parsed.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum, IntFlag
from functools import cache
from typing import Any, ClassVar, Generic, cast, get_args

from typing_extensions import TypeVar, get_original_bases
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import Spelling
from xdsl_spirv.dialects.spirv import enums
from xdsl_spirv.grammar import integer_words

EnumT = TypeVar("EnumT", bound=IntEnum | IntFlag)


ATTRIBUTE_OF: dict[type[Enum], Callable[[Any], Attribute]] = {}
"""Maps an enumeration to the class of its attributes."""


class EnumerationAttr(Data[EnumT], ABC, Generic[EnumT]):
    """
    An enumerant of one SPIR-V operand kind.

    `ENUM` is the generated enumeration. `SPELLING` maps a Khronos member name to MLIR's name, if
    they differ.
    """

    ENUM: ClassVar[type[IntEnum | IntFlag]]
    SPELLING: ClassVar[Mapping[str, str]] = {}
    RULE: ClassVar[str] = ""
    """The rule of docs/rules.md that lists the valid enumerants."""

    def __init_subclass__(
        cls, *, name: str, spelling: Mapping[str, str] | None = None, rule: str = ""
    ) -> None:
        """Defines the attribute class. The class's type argument is the enumeration."""
        super().__init_subclass__()
        (base,) = get_original_bases(cls)
        (enum,) = get_args(base)
        cls.name = name
        for constant, value in {"ENUM": enum, "SPELLING": spelling or {}, "RULE": rule}.items():
            setattr(cls, constant, value)
        irdl_attr_definition(cls)
        ATTRIBUTE_OF[enum] = cls

    @classmethod
    def parse_enumerant(cls, parser: AttrParser) -> EnumT:
        """Parses an enumerant's name, or several names joined by `|` for a mask."""
        value = cls._parse_one(parser)
        while issubclass(cls.ENUM, IntFlag) and parser.parse_optional_punctuation("|"):
            value = cast(EnumT, value | cls._parse_one(parser))
        return value

    @classmethod
    def _parse_one(cls, parser: AttrParser) -> EnumT:
        start = parser.pos
        digits = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        text = "" if digits is None else str(digits)
        text += parser.parse_optional_identifier() or ""
        if (value := cls.from_text(text)) is not None:
            return value
        rule = cls.RULE and f"{cls.RULE}: "
        parser.raise_error(f"{rule}{text!r} is not a {cls.ENUM.__name__}", start, parser.pos)

    @classmethod
    def from_text(cls, text: str) -> EnumT | None:
        """
        Returns the enumerant with this MLIR or Khronos name. Returns None if the name is unknown.
        """
        for name, spelled in cls.SPELLING.items():
            if spelled == text:
                text = name
        for name in (text, text + "_", cls.ENUM.__name__ + text):
            if name in cls.ENUM.__members__:
                return cast(EnumT, cls.ENUM.__members__[name])
        if issubclass(cls.ENUM, IntFlag) and text == "None":
            return cast(EnumT, cls.ENUM(0))
        if issubclass(cls.ENUM, IntFlag) and text.isdecimal() and int(text) < 1 << 32:
            # Unknown bits are written as numbers.
            return cast(EnumT, cls.ENUM(int(text)))
        return None

    @classmethod
    def spell(cls, value: IntEnum | IntFlag) -> str:
        """Returns the text of an enumerant, or of a mask with its bits in ascending order."""
        if isinstance(value, IntFlag):
            if not value:
                return "None"
            bits = [cls.ENUM(1 << i) for i in range(32) if value >> i & 1]
            return "|".join(cls._spell_one(b) for b in bits)
        return cls._spell_one(value)

    @classmethod
    def _spell_one(cls, value: IntEnum | IntFlag) -> str:
        name = value.name or str(int(value))
        if name in cls.SPELLING:
            return cls.SPELLING[name]
        name = _intel_names(cls.ENUM).get(int(value), name)
        if name.startswith(cls.ENUM.__name__) and name[len(cls.ENUM.__name__)].isdigit():
            return name[len(cls.ENUM.__name__) :]
        return name.rstrip("_")

    @classmethod
    def parse_quoted(cls, parser: AttrParser) -> EnumT:
        """Parses an enumerant's name, or several names joined by `|`, in quotation marks."""
        start = parser.pos
        value: EnumT | None = None
        for text in parser.parse_str_literal().split("|"):
            if (one := cls.from_text(text)) is None or (value is not None and not cls.is_mask()):
                parser.raise_error(f"{text!r} is not a {cls.ENUM.__name__}", start, parser.pos)
            value = one if value is None else cast(EnumT, value | one)
        return cast(EnumT, value)

    @classmethod
    def is_mask(cls) -> bool:
        """True if enumerants are bits that can be combined."""
        return issubclass(cls.ENUM, IntFlag)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> EnumT:
        with parser.in_angle_brackets():
            return cls.parse_enumerant(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.spell(self.data))


@cache
def _intel_names(enum: type[IntEnum | IntFlag]) -> Mapping[int, str]:
    """
    Returns the names that MLIR uses for enumerants that Khronos has renamed, such as
    `MemoryALTERA`.
    """
    names = enum.__members__.items()
    return {int(value): name for name, value in names if name.endswith("INTEL")}


def name_of(cls: type[EnumerationAttr[Any]]) -> Spelling:
    """Returns the spelling of an enumerant as its name without brackets: `Subgroup`."""
    return (
        lambda parser: cls(cls.parse_enumerant(parser)),
        lambda printer, value: printer.print_string(cls.spell(value.data)),
    )


def in_brackets(cls: type[EnumerationAttr[Any]]) -> Spelling:
    """Returns the spelling of an enumerant in angle brackets: `<Subgroup>`."""
    return (
        lambda parser: cls(cls.parse_parameter(parser)),
        lambda printer, value: value.print_parameter(printer),
    )


def as_attribute(value: Any, *, text: bool = False) -> Attribute:
    """
    Converts a Python value to an attribute: an enumerant, a Boolean, a 32-bit number, a string, or
    a sequence of these.

    A string is the name of a symbol. With `text`, it becomes a string attribute.
    """
    if isinstance(value, Attribute):
        return value
    if isinstance(value, Enum):
        return ATTRIBUTE_OF[type(value)](value)
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, str):
        return StringAttr(value) if text else SymbolRefAttr(value)
    if isinstance(value, Sequence):
        return ArrayAttr([as_attribute(element) for element in cast(Sequence[Any], value)])
    return IntegerAttr(value, i32)


def parse_integer(parser: AttrParser, type: IntegerType = i32) -> IntegerAttr:
    """Parses a number within the range of `type`."""
    start = parser.pos
    value = parser.parse_integer(allow_boolean=False)
    try:
        return IntegerAttr(value, type)
    except VerifyException as error:
        parser.raise_error(str(error), start, parser.pos)


# fmt: off
class ScopeAttr(EnumerationAttr[enums.Scope], name="spirv.scope"):
    """Scope <id> (SPIR-V 3.27), as a known constant."""
class StorageClassAttr(EnumerationAttr[enums.StorageClass], name="spirv.storage_class"):
    """Storage Class (SPIR-V 3.7), also used as the memory space of a memref."""
class MemoryAccessAttr(EnumerationAttr[enums.MemoryAccess], name="spirv.memory_access"):
    """Memory Operands, SPIR-V 3.26, without their parameters."""
class GroupOperationAttr(EnumerationAttr[enums.GroupOperation], name="spirv.group_operation"):
    """Group Operation, SPIR-V 3.28."""
class SelectionControlAttr(EnumerationAttr[enums.SelectionControl], name="spirv.selection_control"):
    """Selection Control, SPIR-V 3.22."""
class LoopControlAttr(EnumerationAttr[enums.LoopControl], name="spirv.loop_control"):
    """Loop Control, SPIR-V 3.23."""
class FunctionControlAttr(EnumerationAttr[enums.FunctionControl], name="spirv.function_control"):
    """Function Control, SPIR-V 3.24."""
class AddressingModelAttr(EnumerationAttr[enums.AddressingModel], name="spirv.addressing_model"):
    """Addressing Model, SPIR-V 3.4."""
class MemoryModelAttr(EnumerationAttr[enums.MemoryModel], name="spirv.memory_model"):
    """Memory Model, SPIR-V 3.5."""
class ExecutionModelAttr(EnumerationAttr[enums.ExecutionModel], name="spirv.execution_model"):
    """Execution Model, SPIR-V 3.3."""
class DecorationAttr(EnumerationAttr[enums.Decoration], name="spirv.decoration"):
    """Decoration, SPIR-V 3.20, without its operands."""
class FPFastMathModeAttr(EnumerationAttr[enums.FPFastMathMode], name="spirv.fastmath_mode"):
    """FP Fast Math Mode, SPIR-V 3.15."""
class BuiltInAttr(EnumerationAttr[enums.BuiltIn], name="spirv.built_in"):
    """BuiltIn, SPIR-V 3.21."""
class LinkageTypeAttr(EnumerationAttr[enums.LinkageType], name="spirv.linkage_type"):
    """Linkage Type, SPIR-V 3.17."""
class FPRoundingModeAttr(EnumerationAttr[enums.FPRoundingMode], name="spirv.fp_rounding_mode"):
    """FP Rounding Mode, SPIR-V 3.16."""
class CooperativeMatrixReduceAttr(
    EnumerationAttr[enums.CooperativeMatrixReduce], name="spirv.coop_matrix_reduce_nv"
):
    """Cooperative Matrix Reduce of SPV_NV_cooperative_matrix2."""
class TensorAddressingOperandsAttr(
    EnumerationAttr[enums.TensorAddressingOperands], name="spirv.tensor_addressing_operands_nv"
):
    """Tensor Addressing Operands of SPV_NV_cooperative_matrix2, without their parameters."""
class TensorClampModeAttr(
    EnumerationAttr[enums.TensorClampMode], name="spirv.tensor_clamp_mode_nv"
):
    """Tensor Clamp Mode of SPV_NV_tensor_addressing."""
class CooperativeVectorMatrixLayoutAttr(
    EnumerationAttr[enums.CooperativeVectorMatrixLayout], name="spirv.coop_vector_matrix_layout_nv"
):
    """Cooperative Vector Matrix Layout of SPV_NV_cooperative_vector."""
class ComponentTypeAttr(EnumerationAttr[enums.ComponentType], name="spirv.component_type_nv"):
    """Component Type of SPV_NV_cooperative_vector: the number format of a matrix or vector."""
class RawAccessChainOperandsAttr(
    EnumerationAttr[enums.RawAccessChainOperands], name="spirv.raw_access_chain_operands_nv"
):
    """Raw Access Chain Operands of SPV_NV_raw_access_chains."""
class ImageFormatAttr(EnumerationAttr[enums.ImageFormat], name="spirv.image_format"):
    """Image Format, SPIR-V 3.11."""
# fmt: on


class LoadCacheControlAttr(
    EnumerationAttr[enums.LoadCacheControl],
    name="spirv.load_cache_control",
    spelling={
        "UncachedINTEL": "Uncached",
        "CachedINTEL": "Cached",
        "StreamingINTEL": "Streaming",
        "InvalidateAfterReadINTEL": "InvalidateAfterR",
        "ConstCachedINTEL": "ConstCached",
    },
):
    """Load Cache Control of SPV_INTEL_cache_controls."""


class StoreCacheControlAttr(
    EnumerationAttr[enums.StoreCacheControl],
    name="spirv.store_cache_control",
    spelling={
        "UncachedINTEL": "Uncached",
        "WriteThroughINTEL": "WriteThrough",
        "WriteBackINTEL": "WriteBack",
        "StreamingINTEL": "Streaming",
    },
):
    """Store Cache Control of SPV_INTEL_cache_controls."""


class MemorySemanticsAttr(
    EnumerationAttr[enums.MemorySemantics],
    name="spirv.memory_semantics",
    spelling={"Relaxed": "None"},
):
    """Memory Semantics <id> (SPIR-V 3.25), as a known constant."""


class ExecutionModeAttr(
    EnumerationAttr[enums.ExecutionMode],
    name="spirv.execution_mode",
    spelling={
        "DerivativeGroupQuadsKHR": "DerivativeGroupQuadsNV",
        "DerivativeGroupLinearKHR": "DerivativeGroupLinearNV",
    },
):
    """Execution Mode, SPIR-V 3.6, without its operands."""


class CapabilityAttr(
    EnumerationAttr[enums.Capability],
    name="spirv.capability",
    spelling={
        "UniformAndStorageBuffer16BitAccess": "StorageUniform16",
        "ComputeDerivativeGroupQuadsKHR": "ComputeDerivativeGroupQuadsNV",
        "ComputeDerivativeGroupLinearKHR": "ComputeDerivativeGroupLinearNV",
        "StorageTensorArrayDynamicIndexingARM": "StorageTensorArrayDynamicIndexingEXT",
        "StorageTensorArrayNonUniformIndexingARM": "StorageTensorArrayNonUniformIndexingEXT",
        "BlockingPipesALTERA": "BlockingPipesALTERA",
        "LongCompositesINTEL": "LongConstantCompositeINTEL",
        "BFloat16ConversionINTEL": "Bfloat16ConversionINTEL",
    },
):
    """Capability, SPIR-V 3.31."""


class PackedVectorFormatAttr(
    EnumerationAttr[enums.PackedVectorFormat],
    name="spirv.packed_vector_format",
    rule="DOT-11",
    spelling={"PackedVectorFormat4x8Bit": "PackedVectorFormat4x8Bit"},
):
    """Packed Vector Format of SPV_KHR_integer_dot_product."""


class CooperativeMatrixUseAttr(
    EnumerationAttr[enums.CooperativeMatrixUse],
    name="spirv.coop_matrix_use_khr",
    rule="CM-06",
    spelling={
        "MatrixAKHR": "MatrixA",
        "MatrixBKHR": "MatrixB",
        "MatrixAccumulatorKHR": "MatrixAcc",
    },
):
    """Cooperative Matrix Use of SPV_KHR_cooperative_matrix."""


class CooperativeMatrixLayoutAttr(
    EnumerationAttr[enums.CooperativeMatrixLayout],
    name="spirv.coop_matrix_layout_khr",
    rule="CM-11",
    spelling={"RowMajorKHR": "RowMajor", "ColumnMajorKHR": "ColumnMajor"},
):
    """Cooperative Matrix Layout of SPV_KHR_cooperative_matrix."""


class CooperativeMatrixOperandsAttr(
    EnumerationAttr[enums.CooperativeMatrixOperands],
    name="spirv.cooperative_matrix_operands_khr",
    rule="CM-22",
    spelling={
        "NoneKHR": "None",
        "MatrixASignedComponentsKHR": "ASigned",
        "MatrixBSignedComponentsKHR": "BSigned",
        "MatrixCSignedComponentsKHR": "CSigned",
        "MatrixResultSignedComponentsKHR": "ResultSigned",
        "SaturatingAccumulationKHR": "AccSat",
    },
):
    """Cooperative Matrix Operands of SPV_KHR_cooperative_matrix."""


class DimAttr(
    EnumerationAttr[enums.Dim],
    name="spirv.dim",
    spelling={name: name for name in ("Dim1D", "Dim2D", "Dim3D")},
):
    """The operand Dim of OpTypeImage (SPIR-V 3.8)."""


ImageDepth = IntEnum("ImageDepth", ["NoDepth", "IsDepth", "DepthUnknown"], start=0)
ImageArrayed = IntEnum("ImageArrayed", ["NonArrayed", "Arrayed"], start=0)
ImageSampling = IntEnum("ImageSampling", ["SingleSampled", "MultiSampled"], start=0)
ImageSampler = IntEnum("ImageSampler", ["SamplerUnknown", "NeedSampler", "NoSampler"], start=0)
"""MLIR's names for the operand Sampled of OpTypeImage."""


# fmt: off
class ImageDepthAttr(EnumerationAttr[ImageDepth], name="spirv.image_depth_info"):
    """The operand Depth of OpTypeImage."""
class ImageArrayedAttr(EnumerationAttr[ImageArrayed], name="spirv.image_arrayed_info"):
    """The operand Arrayed of OpTypeImage."""
class ImageSamplingAttr(EnumerationAttr[ImageSampling], name="spirv.image_sampling_info"):
    """The operand MS of OpTypeImage: single- or multisampled."""
class ImageSamplerAttr(EnumerationAttr[ImageSampler], name="spirv.image_sampler_use_info"):
    """The operand Sampled of OpTypeImage."""
class TensorOperandsAttr(EnumerationAttr[enums.TensorOperands], name="spirv.tensor_operands_arm"):
    """Tensor Operands of SPV_ARM_tensors, without their parameters."""
# fmt: on


def literal_words(value: IntegerAttr | FloatAttr, type: Attribute) -> list[int]:
    """Returns the words of a number. Raises `ValueError` if the number does not fit its type."""
    if isinstance(value, IntegerAttr) and isinstance(type, IntegerType):
        is_signed = type.signedness.data is Signedness.SIGNED
        return integer_words(value.value.data, type.width.data, is_signed)
    if isinstance(value, IntegerAttr) or not isinstance(type, AnyFloat):
        raise ValueError(f"{value} is not a constant of type {type}")
    try:
        packed = type.pack((value.value.data,))
    except OverflowError:
        raise ValueError(f"{value.value.data} is beyond the range of {type}") from None
    return integer_words(int.from_bytes(packed, "little"), type.bitwidth)
