"""
`spirv-bfloat16-to-bits`: stores bfloat16 as 16-bit integers, and computes in binary32.

    FConvert %x : bf16 to f32  ->  Bitcast (UConvert %x : i16 to i32) << 16
    FConvert %x : f32 to bf16  ->  ((bits + 0x7FFF + bit 16) >> 16), or a quiet NaN for a NaN

Only conversions and OpDot are rewritten: conversions go through binary32 (BF-06), and OpDot
multiplies and sums in binary32 (BF-08). Operations that move values move 16-bit integers. Rounding
is to nearest even or, by the option, toward zero (BF-07). Conversions are bit operations and
preserve denormals. Arithmetic flushes denormals on devices that flush binary32 denormals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IntegerType, f32, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.function_emitter import ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.lacking import LackingPass
from xdsl_spirv.passes.spirv.fallback.retype import MOVES_OF_SCALARS, Retyping
from xdsl_spirv.passes.spirv.requirements import operations

NAME = "spirv-bfloat16-to-bits"
refuse = refusals(NAME)
ROUNDINGS = ("nearest-even", "toward-zero")
BITS = IntegerType(16)

CONVERSIONS = (
    spv.FConvertOp,
    spv.ConvertFToSOp,
    spv.ConvertFToUOp,
    spv.ConvertSToFOp,
    spv.ConvertUToFOp,
)
COMPUTES = (*CONVERSIONS, spv.DotOp)

MOVES = MOVES_OF_SCALARS | operations(
    "mlir.referenceof SpecConstant SpecConstantComposite SpecConstantOperation mlir.yield "
    "RawGlobal CopyLogical Select Switch Return Bitcast ConvertPtrToU ConvertUToPtr PtrEqual "
    "PtrNotEqual PtrDiff EXT.ConstantCompositeReplicate EXT.SpecConstantCompositeReplicate "
    "EXT.CompositeConstructReplicate"
)
"""Operations that only move values."""


@dataclass(frozen=True)
class BFloat16ToBitsPass(LackingPass):
    """Rewrites bfloat16 as 16-bit integers, and its conversions and dot products in f32."""

    name = NAME
    FEATURES = {16: "bfloat16-type"}

    rounding: str = "nearest-even"
    """Rounding of conversions: `nearest-even` or `toward-zero`."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        if self.rounding not in ROUNDINGS:
            raise PassFailedException(
                f"{NAME}: rounding must be {' or '.join(ROUNDINGS)}, not {self.rounding!r}"
            )
        super().apply(ctx, op)

    def rewrite(self, module: spv.ModuleOp, widths: frozenset[int]) -> None:
        lower_bfloat16(module, to_nearest=self.rounding == "nearest-even")


def _bits(attribute: Attribute) -> Attribute | None:
    if isinstance(attribute, BFloat16Type):
        return BITS
    if isinstance(attribute, FloatAttr) and isinstance(attribute.type, BFloat16Type):
        packed = attribute.type.pack((attribute.value.data,))
        return spv.integer_attribute(int.from_bytes(packed, "little"), BITS)
    return None


def lower_bfloat16(module: spv.ModuleOp, *, to_nearest: bool = True) -> None:
    """
    Rewrites a module's bfloat16. Raises `PassFailedException` for operations without a rewrite.
    """
    retype = Retyping(_bits)
    touched = [op for op in module.walk() if op is not module and retype.touches(op)]
    if not touched:
        return
    for op in touched:
        _check(op, retype)
    computing = [op for op in touched if isinstance(op, COMPUTES)]
    before = [(op, op.operands[0].type, op.results[0].type) for op in computing]
    bitcasts = [op for op in module.walk() if isinstance(op, spv.BitcastOp)]
    retype.apply(module)
    lowering = Lowering(ModuleEmitter(module), to_nearest)
    for op, source, target in before:
        lowering.rewrite(op, source, target)
    for op in bitcasts:
        if op.operand.type == op.result.type:
            Rewriter.replace_op(op, [], [op.operand])


def _check(op: Operation, retype: Retyping) -> None:
    types = (*op.operand_types, *op.result_types, *op.properties.values())
    for type_ in filter(retype.changes, types):
        if matrix := _inside(type_, spv.CooperativeMatrixType):
            refuse(
                op,
                f"the components of {matrix} cannot be rewritten: run "
                f"spirv-cooperative-matrix-to-invocations first",
            )
        if declared := _inside(type_, spv.DeclaredType):
            refuse(op, f"{declared} needs bfloat16: use another type")
    wrapped = isinstance(op.parent_op(), spv.SpecConstantOperationOp) and isinstance(op, COMPUTES)
    raw = isinstance(op, spv.RawGlobalOp) and op.instruction.data == "OpSpecConstantOp"
    if wrapped or raw:
        refuse(op, "a specialization constant computes with bfloat16: run spirv-specialize first")
    if isinstance(op, spv.Carried):
        refuse(op, "the pass cannot rewrite a raw instruction on bfloat16: use another type")
    if op.name not in MOVES and not isinstance(op, COMPUTES):
        refuse(op, "the pass cannot rewrite this operation on bfloat16: use f32")


def _inside(attribute: Attribute, kind: type[Attribute]) -> Attribute | None:
    """Finds an attribute of class `kind`: the attribute itself, or the first one nested in it."""
    if isinstance(attribute, kind):
        return attribute
    parts: tuple[Attribute, ...] = ()
    if isinstance(attribute, ParametrizedAttribute):
        parts = tuple(attribute.parameters)
    elif isinstance(data := getattr(attribute, "data", None), tuple):
        parts = cast("tuple[Attribute, ...]", data)
    return next(filter(None, (_inside(p, kind) for p in parts)), None)


class Lowering:
    """Rewrites operations on bfloat16 after values have become 16-bit integers."""

    def __init__(self, codes: ModuleEmitter, to_nearest: bool):
        self.codes = codes
        self.to_nearest = to_nearest

    def rewrite(self, op: Operation, source: Attribute, target: Attribute) -> None:
        """Rewrites an operation with original operand type `source` and result type `target`."""
        code = self.codes.before(op)
        values = list(op.operands)
        if isinstance(spv.element_of(source), BFloat16Type):
            values = [self.to_float(code, v) for v in values]
        wide = (
            spv.with_element(target, f32)
            if isinstance(spv.element_of(target), BFloat16Type)
            else target
        )
        if isinstance(op, spv.DotOp):
            result = code.add(spv.DotOp(*values))
        elif values[0].type == wide:
            (result,) = values
        else:
            result = code.add(type(op).create(operands=values, result_types=[wide]))
        if wide != target:
            result = self.to_bits(code, result)
        Rewriter.replace_op(op, [], [result])

    @staticmethod
    def to_float(code: SpirvEmitter, bits: SSAValue) -> SSAValue:
        """Converts bfloat16 bits to binary32 exactly: they become the upper 16 bits."""
        wide = code.resized(bits, 32, sign=False)
        shifted = code.add(spv.ShiftLeftLogicalOp(wide, code.number(16, wide.type)))
        return code.add(spv.BitcastOp(shifted, spv.with_element(bits.type, f32)))

    def to_bits(self, code: SpirvEmitter, value: SSAValue) -> SSAValue:
        """Rounds binary32 to bfloat16 bits. A NaN keeps its upper 16 bits and becomes quiet."""
        type_ = spv.with_element(value.type, i32)

        def number(n: int) -> SSAValue:
            return code.number(n, type_)

        bits = code.add(spv.BitcastOp(value, type_))
        upper = code.add(spv.ShiftRightLogicalOp(bits, number(16)))
        rounded = upper
        if self.to_nearest:
            odd = code.add(spv.BitwiseAndOp(upper, number(1)))
            rounding_bias = code.add(spv.IAddOp(odd, number(0x7FFF)))
            sum_ = code.add(spv.IAddOp(bits, rounding_bias))
            rounded = code.add(spv.ShiftRightLogicalOp(sum_, number(16)))
        magnitude = code.add(spv.BitwiseAndOp(bits, number(0x7FFFFFFF)))
        is_nan = code.add(spv.UGreaterThanOp(magnitude, number(0x7F800000)))
        quiet = code.add(spv.BitwiseOrOp(upper, number(0x40)))
        return code.resized(code.select(is_nan, quiet, rounded), 16, sign=False)
