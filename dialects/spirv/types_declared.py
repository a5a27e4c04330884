"""
Types of extensions that consist of the operands of their declaring instruction.

Each class names its instruction and lists the operands in the grammar's order. Encoding and
required capabilities follow from this list. A number, enumerant or Boolean that SPIR-V takes from a
constant instruction may be a specialization constant's `@name`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import AnyOf, BaseAttr, irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import BOOLEAN, TYPE, LocatedAttribute, SpelledAttribute, or_symbol
from xdsl_spirv.dialects.spirv.attributes import (
    DimAttr,
    EnumerationAttr,
    ImageArrayedAttr,
    ImageDepthAttr,
    ImageFormatAttr,
    ImageSamplerAttr,
    ImageSamplingAttr,
    ScopeAttr,
    TensorClampModeAttr,
    as_attribute,
    name_of,
)
from xdsl_spirv.dialects.spirv.enums import Scope, TensorClampMode
from xdsl_spirv.dialects.spirv.rules_types import is_integer
from xdsl_spirv.dialects.spirv.types import (
    LENGTH,
    MATRIX,
    SIZE,
    WORD,
    FloatType,
    Size,
    known_size,
    size,
)

MAX_ARM_RANK = 32
"""Maximum rank of a tensor. A type lists each extent, and SPV_ARM_tensors has no limit."""

TENSOR_RANKS = range(1, 6)
"""Numbers of dimensions of a tensor layout or view (SPV_NV_tensor_addressing)."""

DYNAMIC = DYNAMIC_INDEX
"""Number that stands for an unknown extent of an ARM tensor."""


class DeclaredType(LocatedAttribute, TypeAttribute, ABC):
    """A type that consists of the operands of its declaration."""

    INSTRUCTION: ClassVar[str]

    @property
    def declaration(self) -> Sequence[Attribute]:
        """The operands of `INSTRUCTION` in the grammar's order, without the result."""
        return self.parameters

    @classmethod
    def of(cls, declaration: Sequence[Attribute]) -> Self:
        """
        Creates the type from the operands of a declaration. Inverse of `declaration`.

        A constant is given by its value or symbol. Raises `VerifyException` or `ValueError` if the
        operands do not fit.
        """
        definitions = [d for _, d in cls.get_irdl_definition().parameters]
        return cls.new(
            [
                _parameter(operand, definition.constr.get_bases() or set())
                for operand, definition in zip(declaration, definitions, strict=True)
            ]
        )


def _parameter(operand: Attribute, bases: set[type[Attribute]]) -> Attribute:
    if not isinstance(operand, IntegerAttr):
        return operand
    number = operand.value.data & WORD
    for base in bases:
        if issubclass(base, EnumerationAttr):
            return base(base.ENUM(number))
    return IntAttr(number) if IntAttr in bases else operand


def _is_number(type_: Attribute) -> bool:
    return is_integer(type_) or isinstance(type_, FloatType)


def _parse_number(parser: AttrParser) -> Attribute:
    return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))


NUMBER = or_symbol((_parse_number, lambda printer, value: printer.print_int(value.data)))
"""Parser and printer of a number: an integer (`2`) or the symbol of a constant (`@rank`)."""


def _parse_further(parser: AttrParser) -> Attribute:
    numbers: list[Attribute] = []
    while parser.parse_optional_punctuation(","):
        numbers.append(NUMBER[0](parser))
    return ArrayAttr(numbers)


def _print_further(printer: Printer, numbers: ArrayAttr[Attribute]) -> None:
    for number in numbers:
        printer.print_string(", ")
        NUMBER[1](printer, number)


@irdl_attr_definition
class CooperativeVectorType(SpelledAttribute, DeclaredType):
    """
    OpTypeCooperativeVectorNV: `!spirv.coopvec<16 x f16>`, `!spirv.coopvec<@n x f16>`.

    In SPV_EXT_long_vector, the instruction's name is OpTypeVectorIdEXT.
    """

    name = "spirv.coopvec"
    SPELLING: ClassVar[Any] = (("length", LENGTH), ("element_type", TYPE))
    INSTRUCTION: ClassVar[str] = "OpTypeCooperativeVectorNV"
    element_type: Attribute
    length: Size = param_def(SIZE)

    def __init__(self, length: int | str | Size, element_type: Attribute):
        super().__init__(element_type, size(length))

    def verify(self) -> None:
        if not _is_number(self.element_type) and self.element_type != i1:
            raise VerifyException(
                f"a cooperative vector must have scalar components, not {self.element_type}"
            )
        if known_size(self.length) == 0:
            raise VerifyException("a cooperative vector must have at least one component")


@irdl_attr_definition
class CooperativeMatrixNVType(SpelledAttribute, DeclaredType):
    """OpTypeCooperativeMatrixNV: `!spirv.NV.coopmatrix<16x16xf16, Subgroup>`."""

    name = "spirv.NV.coopmatrix"
    SPELLING: ClassVar[Any] = MATRIX
    INSTRUCTION: ClassVar[str] = "OpTypeCooperativeMatrixNV"
    element_type: Attribute
    scope: ScopeAttr | SymbolRefAttr = param_def(
        AnyOf((BaseAttr(ScopeAttr), FlatSymbolRefAttrConstr))
    )
    rows: Size = param_def(SIZE)
    columns: Size = param_def(SIZE)

    def __init__(
        self,
        rows: int | str | Size,
        columns: int | str | Size,
        element_type: Attribute,
        scope: Scope | ScopeAttr | SymbolRefAttr,
    ):
        super().__init__(element_type, as_attribute(scope), size(rows), size(columns))

    def verify(self) -> None:
        if not _is_number(self.element_type):
            raise VerifyException(
                f"a cooperative matrix's component must be a scalar number, not {self.element_type}"
            )


ClampMode: TypeAlias = TensorClampModeAttr | SymbolRefAttr


@irdl_attr_definition
class TensorLayoutType(SpelledAttribute, DeclaredType):
    """
    OpTypeTensorLayoutNV: `!spirv.NV.tensor_layout<2, Undefined>`.

    The parameters are the number of dimensions, and the clamp mode for elements outside of the
    tensor.
    """

    name = "spirv.NV.tensor_layout"
    SPELLING: ClassVar[Any] = (
        ("rank", NUMBER),
        None,
        ("clamp_mode", or_symbol(name_of(TensorClampModeAttr))),
    )
    INSTRUCTION: ClassVar[str] = "OpTypeTensorLayoutNV"
    rank: Size = param_def(SIZE)
    clamp_mode: ClampMode = param_def(
        AnyOf((BaseAttr(TensorClampModeAttr), FlatSymbolRefAttrConstr))
    )

    def __init__(
        self,
        rank: int | str | Size,
        clamp_mode: TensorClampMode | ClampMode = TensorClampMode.Undefined,
    ):
        super().__init__(size(rank), as_attribute(clamp_mode))

    def verify(self) -> None:
        _check_rank(self.rank)


def _check_rank(rank: Size) -> None:
    number = known_size(rank)
    if number is not None and number not in TENSOR_RANKS:
        raise VerifyException(
            f"a tensor layout or view needs {TENSOR_RANKS[0]} to {TENSOR_RANKS[-1]} dimensions, "
            f"not {number}"
        )


@irdl_attr_definition
class TensorViewType(SpelledAttribute, DeclaredType):
    """
    OpTypeTensorViewNV: `!spirv.NV.tensor_view<2, false, 1, 0>`.

    The parameters are the number of dimensions, a Boolean (true if the view has sizes of its own),
    and the permutation of the dimensions.
    """

    name = "spirv.NV.tensor_view"
    SPELLING: ClassVar[Any] = (
        ("rank", NUMBER),
        None,
        ("has_dimensions", or_symbol(BOOLEAN)),
        ("permutation", (_parse_further, _print_further)),
    )
    INSTRUCTION: ClassVar[str] = "OpTypeTensorViewNV"
    rank: Size = param_def(SIZE)
    has_dimensions: IntegerAttr | SymbolRefAttr = param_def(
        AnyOf((BaseAttr(IntegerAttr), FlatSymbolRefAttrConstr))
    )
    permutation: ArrayAttr[Size]

    def __init__(
        self,
        rank: int | str | Size,
        has_dimensions: bool | SymbolRefAttr | IntegerAttr,
        permutation: Sequence[int | str | Size],
    ):
        order = ArrayAttr([size(dimension) for dimension in permutation])
        super().__init__(size(rank), as_attribute(has_dimensions), order)

    @property
    def declaration(self) -> Sequence[Attribute]:
        return self.rank, self.has_dimensions, *self.permutation

    @classmethod
    def of(cls, declaration: Sequence[Attribute]) -> Self:
        rank, has_dimensions, *order = declaration
        sizes = [_parameter(operand, {IntAttr}) for operand in (rank, *order)]
        return cls.new([sizes[0], has_dimensions, ArrayAttr(sizes[1:])])

    def verify(self) -> None:
        _check_rank(self.rank)
        if isinstance(self.has_dimensions, IntegerAttr) and self.has_dimensions.type != i1:
            raise VerifyException("HasDimensions of a tensor view must be a Boolean")
        rank, order = known_size(self.rank), [known_size(p) for p in self.permutation]
        if rank is None or None in order:
            return
        if sorted(p for p in order if p is not None) != list(range(rank)):
            raise VerifyException(
                f"a tensor view of {rank} dimensions needs a permutation of 0 to {rank - 1}, "
                f"not {order}"
            )


@irdl_attr_definition
class TensorArmType(DeclaredType):
    """
    OpTypeTensorARM in MLIR's syntax: `!spirv.arm.tensor<1x16xf32>`, `<?x?xf32>`, `<*xf32>`.

    Either all extents are known, or none. The rank of `*` is also unknown.
    """

    name = "spirv.arm.tensor"
    INSTRUCTION: ClassVar[str] = "OpTypeTensorARM"
    element_type: Attribute
    shape: ArrayAttr[IntAttr]

    def __init__(self, shape: Sequence[int], element_type: Attribute):
        """
        Creates a tensor type. `DYNAMIC` is an unknown extent. An empty shape means an unknown rank.
        """
        super().__init__(element_type, ArrayAttr([IntAttr(extent) for extent in shape]))

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape, with `DYNAMIC` for unknown extents."""
        return tuple(extent.data for extent in self.shape)

    @property
    def literal_type(self) -> TensorType[Attribute]:
        """The type of a `dense` literal with a constant of this type."""
        return TensorType(self.element_type, self.extents)

    @property
    def declaration(self) -> Sequence[Attribute]:
        extents = [extent.data for extent in self.shape]
        if not extents:
            return [self.element_type]
        rank = IntAttr(len(extents))
        if DYNAMIC in extents:
            return self.element_type, rank
        return self.element_type, rank, ArrayAttr([IntegerAttr(e, i32) for e in extents])

    @classmethod
    def of(cls, declaration: Sequence[Attribute]) -> Self:
        element_type, *rest = declaration
        numbers = [part for part in rest if isinstance(part, IntegerAttr)]
        rank = numbers[0].value.data if numbers else 0
        if rank > MAX_ARM_RANK:
            raise VerifyException(
                f"a tensor has {rank} dimensions, above the limit of {MAX_ARM_RANK}"
            )
        shape = [DYNAMIC] * rank
        if len(rest) == 2 and isinstance(rest[1], ArrayAttr):
            shape = [e.value.data for e in rest[1] if isinstance(e, IntegerAttr)]
        known = cls(shape, element_type)
        if len(numbers) != min(len(rest), 1) or len(known.declaration) != len(declaration):
            raise VerifyException("a tensor's rank must be the number of its extents")
        return known

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_punctuation("*"):
                parser.parse_shape_delimiter()
                return parser.parse_type(), ArrayAttr[IntAttr]([])
            shape, element_type = parser.parse_ranked_shape()
            return element_type, ArrayAttr([IntAttr(extent) for extent in shape])

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if not self.shape.data:
                printer.print_string("*x")
            for extent in self.shape:
                printer.print_string("?x" if extent.data == DYNAMIC else f"{extent.data}x")
            printer.print_attribute(self.element_type)

    def verify(self) -> None:
        if not isinstance(self.element_type, IntegerType | FloatType):
            raise VerifyException(f"a tensor must have scalar elements, not {self.element_type}")
        extents = [extent.data for extent in self.shape]
        if DYNAMIC in extents and set(extents) != {DYNAMIC}:
            raise VerifyException(
                "either all extents of a tensor must be known, or none: write ? for each"
            )
        if any(extent < 1 and extent != DYNAMIC for extent in extents):
            raise VerifyException(f"a tensor's extents must be at least 1, not {extents}")


@irdl_attr_definition
class ImageType(SpelledAttribute, DeclaredType):
    """
    OpTypeImage without an access qualifier, in MLIR's syntax: `!spirv.image<f32, Dim2D, NoDepth,
    NonArrayed, SingleSampled, NoSampler, Rgba32f>`.
    """

    name = "spirv.image"
    SPELLING: ClassVar[Any] = (
        ("element_type", TYPE),
        None,
        ("dim", name_of(DimAttr)),
        None,
        ("depth", name_of(ImageDepthAttr)),
        None,
        ("arrayed", name_of(ImageArrayedAttr)),
        None,
        ("sampling", name_of(ImageSamplingAttr)),
        None,
        ("sampler", name_of(ImageSamplerAttr)),
        None,
        ("format", name_of(ImageFormatAttr)),
    )
    INSTRUCTION: ClassVar[str] = "OpTypeImage"
    element_type: Attribute
    dim: DimAttr
    depth: ImageDepthAttr
    arrayed: ImageArrayedAttr
    sampling: ImageSamplingAttr
    sampler: ImageSamplerAttr
    format: ImageFormatAttr


@irdl_attr_definition
class SampledImageType(SpelledAttribute, DeclaredType):
    """OpTypeSampledImage: `!spirv.sampled_image<!spirv.image<...>>`."""

    name = "spirv.sampled_image"
    SPELLING: ClassVar[Any] = (("image_type", TYPE),)
    INSTRUCTION: ClassVar[str] = "OpTypeSampledImage"
    image_type: Attribute

    def verify(self) -> None:
        # An image with an access qualifier is a `RawType`.
        if self.image_type.name not in (ImageType.name, "spirv.raw"):
            raise VerifyException(f"a sampled image must have an image type, not {self.image_type}")


@irdl_attr_definition
class SamplerType(DeclaredType):
    """OpTypeSampler: `!spirv.sampler`. MLIR has no such type."""

    name = "spirv.sampler"
    INSTRUCTION: ClassVar[str] = "OpTypeSampler"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        return ()
