"""
The extended instruction set TOSA.001000.1: operators on whole tensors, for graphs.

The syntax is MLIR's. The operands of an operation follow from the grammar: operands in
`PARAMETERS` are constants, which MLIR writes as attributes (`pad = [1, 1, 1, 1]`). The others are
tensors.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import operation_name
from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr, parse_integer
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value, instruction_named
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.grammar import grammar

# These numbers are from the extension's text, since Khronos' grammar lacks them.
AccType = IntEnum("AccType", ["INT32", "FP16", "FP32", "INT48"])
NaNMode = IntEnum("NaNMode", ["Propagate", "Ignore"])
RoundingMode = IntEnum("RoundingMode", ["SingleRound", "InexactRound", "DoubleRound"])
ResizeMode = IntEnum("ResizeMode", ["NearestNeighbor", "Bilinear"])


# fmt: off
class AccTypeAttr(EnumerationAttr[AccType], name="spirv.tosa_ext_acc_type"):
    """The accumulator type of a sum of products."""
class NaNModeAttr(EnumerationAttr[NaNMode], name="spirv.tosa_ext_nan_mode"):
    """Result of a maximum or minimum with a NaN."""
class RoundingModeAttr(EnumerationAttr[RoundingMode], name="spirv.tosa_ext_rounding_mode"):
    """Rounding mode of RESCALE."""
class ResizeModeAttr(EnumerationAttr[ResizeMode], name="spirv.tosa_ext_resize_mode"):
    """Sampling mode of RESIZE."""
# fmt: on


VECTORS = ("kernel", "stride", "pad", "dilation", "out_pad", "perms")
"""Parameters that are tensors of rank 1, written `[1, 2]`."""

FLAGS = (
    *("local_bound", "inverse", "round", "scale32"),
    *("per_channel", "input_unsigned", "output_unsigned"),
)

PARAMETERS: Mapping[str, tuple[type[Attribute], ...]] = {
    "axis": (IntegerAttr,),
    "min_val": (IntegerAttr, FloatAttr),
    "max_val": (IntegerAttr, FloatAttr),
    "acc_type": (AccTypeAttr,),
    "nan_mode": (NaNModeAttr,),
    "rounding_mode": (RoundingModeAttr,),
    "mode": (ResizeModeAttr,),
    **dict.fromkeys(VECTORS, (DenseIntOrFPElementsAttr,)),
    **dict.fromkeys(FLAGS, (IntegerAttr,)),
}
"""Maps a grammar operand that is a property to the attribute classes that it allows."""


def vector_attribute(numbers: Sequence[int]) -> DenseIntOrFPElementsAttr:
    """Creates the attribute of a parameter that is a tensor of rank 1."""
    return DenseIntOrFPElementsAttr.from_list(TensorType(i32, [len(numbers)]), list(numbers))


class TosaOp(SPIRVOp, ABC):
    """An operator: `spirv.Tosa.ReduceSum axis = 1, %x : !spirv.arm.tensor<..> -> ...`."""

    PARAMETERS: ClassVar[Sequence[str]]
    """Names of the instruction's operands that are properties, in order. They precede `TENSORS`."""
    TENSORS: ClassVar[Sequence[str]]
    """Names of the instruction's operands that are values, in order."""

    result = result_def()
    traits = traits_def(Pure())

    def __init_subclass__(cls) -> None:
        """Declares the operands of the instruction that the class represents."""
        in_set, name = instruction_named(operation_name(cls.__name__))
        instruction = grammar().instruction(name, in_set)
        fields = [operand.field for operand in instruction.operands]
        split = {
            "PARAMETERS": [field for field in fields if field in PARAMETERS],
            "TENSORS": [field for field in fields if field not in PARAMETERS],
        }
        for constant, names in split.items():
            cls.__annotations__[constant] = ClassVar
            setattr(cls, constant, names)
        for operand in instruction.operands:
            accepted = PARAMETERS.get(operand.field)
            if accepted is None:
                define = var_operand_def if operand.quantifier else operand_def
                declared: object = define(TensorArmType)
            elif len(accepted) == 1:
                declared = prop_def(accepted[0])
            else:
                declared = prop_def(IntegerAttr | FloatAttr)
            setattr(cls, operand.field, declared)
        super().__init_subclass__()

    def __init__(
        self, tensors: Sequence[Value], result_type: Attribute, **parameters: object
    ) -> None:
        """
        Creates an operator. `parameters` are numbers, lists of numbers and enumerants, which become
        attributes.
        """
        operands: Sequence[Value | Sequence[Value]] = tensors
        if isinstance(self, TosaConcatOp):
            operands = [tensors]
        names = [name for name, _ in self.get_irdl_definition().operands]
        super().__init__(
            result_type=result_type,
            **dict(zip(names, operands, strict=False)),
            **{name: _attribute(name, value) for name, value in parameters.items()},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {}
        for name in cls.PARAMETERS:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            properties[name] = _parse_parameter(parser, name)
            parser.parse_punctuation(",")
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) != len(unresolved):
            count = len(unresolved)
            parser.raise_error(
                f"{count} tensors need {count} types, but the text has {len(types)}", start
            )
        parser.parse_punctuation("->")
        operands = parser.resolve_operands(unresolved, types, start)
        return cls.create(
            operands=operands,
            properties=properties,
            attributes=attributes,
            result_types=[parser.parse_type()],
        )

    def print(self, printer: Printer) -> None:
        for name in self.PARAMETERS:
            printer.print_string(f" {name} = ")
            _print_parameter(printer, name, self.properties[name])
            printer.print_string(",")
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def vector(self, name: str) -> list[int]:
        """Returns the numbers of a parameter that is a tensor of rank 1."""
        value = self.properties[name]
        assert isinstance(value, DenseIntOrFPElementsAttr)  # the property's constraint
        return [int(number) for number in value.get_values()]

    def number(self, name: str) -> int | float:
        """Returns the number of a parameter, or the value of its enumerant."""
        value = self.properties[name]
        if isinstance(value, IntegerAttr | FloatAttr):
            return value.value.data
        assert isinstance(value, EnumerationAttr)
        return int(value.data)

    def verify_(self) -> None:
        for name in VECTORS:
            value = self.properties.get(name)
            if isinstance(value, DenseIntOrFPElementsAttr) and (
                value.get_element_type() != i32 or len(value.get_shape()) != 1
            ):
                raise VerifyException(f"{self.name}: {name} must be a list of i32, not {value}")


def _attribute(name: str, value: object) -> Attribute:
    if isinstance(value, Attribute):
        return value
    (accepted, *_) = PARAMETERS[name]
    if issubclass(accepted, EnumerationAttr):
        return accepted(value)
    if isinstance(value, bool):
        return IntegerAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i32)
    return vector_attribute(cast("Sequence[int]", value))


def _parse_parameter(parser: Parser, name: str) -> Attribute:
    (accepted, *_) = PARAMETERS[name]
    if issubclass(accepted, EnumerationAttr):
        return accepted.new(accepted.parse_parameter(parser))
    if name in VECTORS:
        numbers = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_integer(parser).value.data
        )
        return vector_attribute(numbers)
    if name in FLAGS:
        return IntegerAttr.from_bool(parser.parse_boolean())
    if name == "axis":
        return parse_integer(parser)
    return parser.parse_attribute()


def _print_parameter(printer: Printer, name: str, value: Attribute) -> None:
    if isinstance(value, EnumerationAttr):
        value.print_parameter(printer)
    elif isinstance(value, DenseIntOrFPElementsAttr):
        printer.print_string(f"[{', '.join(str(number) for number in value.get_values())}]")
    elif name == "axis" and isinstance(value, IntegerAttr):
        printer.print_string(str(value.value.data))
    else:
        printer.print_attribute(value)


# fmt: off
class TosaArgMaxOp(TosaOp): """Index of the first largest element along the axis."""
class TosaAvgPool2DOp(TosaOp): """Mean over windows of an NHWC tensor; padding does not count."""
class TosaConv2DOp(TosaOp):
    """Convolution of NHWC input by OHWI weights."""
class TosaConv3DOp(TosaOp):
    """Convolution of NDHWC input by ODHWI weights."""
class TosaDepthwiseConv2DOp(TosaOp): """Depthwise convolution of NHWC input by HWCM weights."""
class TosaFFT2DOp(TosaOp):
    """Discrete Fourier transform of matrices, as a struct of two tensors."""
class TosaMatMulOp(TosaOp): """Batched matrix product, after subtracting the zero points."""
class TosaMaxPool2DOp(TosaOp): """Maximum over windows of an NHWC tensor."""
class TosaRFFT2DOp(TosaOp): """FFT2D of real numbers, only the first half of the result."""
class TosaTransposeConv2DOp(TosaOp): """Transposed convolution of NHWC input by OHWI weights."""
class TosaClampOp(TosaOp): """min(max(x, min_val), max_val)."""
class TosaErfOp(TosaOp): """Error function."""
class TosaSigmoidOp(TosaOp): """1 / (1 + exp(-x))."""
class TosaTanhOp(TosaOp): """Hyperbolic tangent."""
class TosaAddOp(TosaOp): """Sum."""
class TosaArithmeticRightShiftOp(TosaOp):
    """Arithmetic right shift, rounded half up if `round` is set."""
class TosaBitwiseAndOp(TosaOp): """Bitwise and."""
class TosaBitwiseOrOp(TosaOp): """Bitwise or."""
class TosaBitwiseXorOp(TosaOp): """Bitwise exclusive or."""
class TosaIntDivOp(TosaOp): """Integer quotient, rounded towards zero."""
class TosaLogicalAndOp(TosaOp): """Logical and."""
class TosaLogicalLeftShiftOp(TosaOp): """Shifts left."""
class TosaLogicalRightShiftOp(TosaOp): """Shifts right and fills with zeros."""
class TosaLogicalOrOp(TosaOp): """Logical or."""
class TosaLogicalXorOp(TosaOp): """Logical exclusive or."""
class TosaMaximumOp(TosaOp): """Maximum."""
class TosaMinimumOp(TosaOp): """Minimum."""
class TosaMulOp(TosaOp): """Product. An i32 product is shifted right by `shift`, rounded half up."""
class TosaPowOp(TosaOp): """input1 to the power of input2."""
class TosaSubOp(TosaOp): """Difference."""
class TosaTableOp(TosaOp):
    """Table look-up by 8-bit numbers, or with interpolation by 16-bit numbers."""
class TosaAbsOp(TosaOp): """Absolute value."""
class TosaBitwiseNotOp(TosaOp): """Bitwise complement."""
class TosaCeilOp(TosaOp): """Rounds towards infinity."""
class TosaClzOp(TosaOp): """Number of leading zero bits."""
class TosaCosOp(TosaOp): """Cosine."""
class TosaExpOp(TosaOp): """e to the power of x."""
class TosaFloorOp(TosaOp): """Rounds towards minus infinity."""
class TosaLogOp(TosaOp): """Natural logarithm."""
class TosaLogicalNotOp(TosaOp): """Logical negation."""
class TosaNegateOp(TosaOp): """Negation with zero points."""
class TosaReciprocalOp(TosaOp): """1 / x."""
class TosaRsqrtOp(TosaOp): """1 / sqrt(x)."""
class TosaSinOp(TosaOp): """Sine."""
class TosaSelectOp(TosaOp): """input2 if input1 is true, else input3."""
class TosaEqualOp(TosaOp): """True if input1 = input2."""
class TosaGreaterOp(TosaOp): """True if input1 > input2."""
class TosaGreaterEqualOp(TosaOp): """True if input1 >= input2."""
class TosaReduceAllOp(TosaOp): """Logical and along the axis."""
class TosaReduceAnyOp(TosaOp): """Logical or along the axis."""
class TosaReduceMaxOp(TosaOp): """Maximum along the axis."""
class TosaReduceMinOp(TosaOp): """Minimum along the axis."""
class TosaReduceProductOp(TosaOp): """Product along the axis."""
class TosaReduceSumOp(TosaOp): """Sum along the axis."""
class TosaConcatOp(TosaOp): """Concatenates tensors along the axis."""
class TosaPadOp(TosaOp): """Pads with `pad_const` before and after each axis."""
class TosaReshapeOp(TosaOp): """Changes the shape."""
class TosaReverseOp(TosaOp): """Reverses elements along the axis."""
class TosaSliceOp(TosaOp): """Slices `size` elements from `start` on."""
class TosaTileOp(TosaOp): """Repeats a tensor."""
class TosaTransposeOp(TosaOp): """Result dimension i is input dimension perms[i]."""
class TosaGatherOp(TosaOp): """Selects rows of `values` by `indices`, in each batch."""
class TosaScatterOp(TosaOp): """`values_in` with the rows at `indices` replaced by `input`."""
class TosaResizeOp(TosaOp): """Resamples an NHWC image at another scale."""
class TosaCastOp(TosaOp): """Converts the element type."""
class TosaRescaleOp(TosaOp): """Scales integers by a multiplier and a shift, with zero points."""
# fmt: on
