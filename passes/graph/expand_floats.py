"""
Rewrites 8-bit floats as bytes if kernels cannot compute with them.

    %w : tensor<64x64xf8E4M3FN>          %w : tensor<64x64xi8>
    contraction %x, %w             ->    %h = linalg.generic (n, k) ins(%w) { float of the bits }
                                         contraction %x, %h : tensor<64x64xf16>

If a body only extends an operand's elements, a separate operation converts them: to f16, or to f32
if f16 lacks some of their values. So a contraction multiplies in f16, and its kernel may read
packed bytes. Other operations on 8-bit floats compute in f32 and round.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ReducedPrecisionFloatType,
    StringAttr,
    TensorType,
    f16,
    f32,
    i8,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import TYPE, VALUE
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import Code
from xdsl_spirv.passes.analysis.pointwise import as_generic
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.graph.computable import change_notes, values_of
from xdsl_spirv.targets import Target
from xdsl_spirv.upstream.narrow_floats import NARROW_FLOATS, Bits, extend, is_part_of_half, truncate

MOVES = (arith.ConstantOp, arith.SelectOp, arith.BitcastOp)
"""Operations that copy 8-bit floats without computing with them."""


def narrow_element(type: Attribute) -> ReducedPrecisionFloatType | None:
    """Returns the 8-bit float type of a scalar or of a tensor's elements, else None."""
    element = type.element_type if isinstance(type, TensorType) else type
    known = NARROW_FLOATS.get(getattr(element, "name", ""))
    return known if known is not None and known.bitwidth == 8 else None


def expand(function: FuncOp, target: Target | None) -> None:
    """
    Rewrites a function's 8-bit floats as bytes.

    Leaves a function unchanged if only contractions with matrix instructions use its 8-bit floats.
    """
    readers = [op for op in function.walk() if any(map(_is_narrow, values_of(op)))]
    readers += [op for op in function.walk() if any(map(_is_narrow, op.operands))]
    if not readers or (target is not None and all(_is_native(op, target) for op in readers)):
        return
    change_notes(function, _note_type)
    for op in list(function.walk()):
        if isinstance(op, LinalgStructuredOperation) and any(map(_is_narrow, op.operands)):
            if not isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp):
                op = as_generic(op)
            if isinstance(op, linalg.ops.GenericOp):
                _extend_before(op)
    formats: dict[SSAValue, ReducedPrecisionFloatType] = {}
    for value in [v for op in function.walk() for v in values_of(op)]:
        if (element := narrow_element(value.type)) is not None:
            type = _in_bytes(value.type)
            formats[Rewriter.replace_value_with_new_type(value, type)] = element
    for op in [op for op in function.walk() if op is not function]:
        _compute_wide(op, formats)
    function.update_function_type()


def _is_native(op: Operation, target: Target) -> bool:
    """True for a contraction that matrix instructions compute, or an operation in its body."""
    if isinstance(op, FuncOp | ReturnOp):
        return True
    parent = op.parent_op()
    whole = parent if isinstance(parent, LinalgStructuredOperation) else op
    contraction = as_contraction(whole)
    return contraction is not None and bool(target.properties_for(contraction.types))


def _is_narrow(value: SSAValue) -> bool:
    return narrow_element(value.type) is not None


def _in_bytes(type: Attribute) -> Attribute:
    if isinstance(type, TensorType):
        return TensorType(i8, type.get_shape(), type.encoding)
    return i8


def _note_type(type: Attribute, note: dict[str, Attribute]) -> None:
    """Records the 8-bit float of an argument or result, and rewrites weights as bytes."""
    if (element := narrow_element(type)) is not None:
        note[TYPE] = StringAttr(str(element))
    if VALUE in note:
        note[VALUE] = _constant(note[VALUE])


def _constant(value: Attribute) -> Attribute:
    if isinstance(value, DenseIntOrFPElementsAttr) and narrow_element(value.get_type()):
        type = _in_bytes(value.get_type())
        assert isinstance(type, TensorType)
        return DenseIntOrFPElementsAttr(type, value.data)
    if isinstance(value, FloatAttr) and (element := narrow_element(value.type)):
        (code,) = element.pack([value.value.data])
        return IntegerAttr(code - 256 if code > 127 else code, i8)
    return value


def _extend_before(op: linalg.ops.GenericOp) -> None:
    """Inserts a conversion before the operation for each input that the body only extends."""
    code = Code(op)
    for place, value in enumerate(op.inputs):
        argument = op.body.block.args[place]
        element = narrow_element(value.type)
        readers = [use.operation for use in argument.uses]
        if element is None or not all(isinstance(reader, arith.ExtFOp) for reader in readers):
            continue
        wide = f16 if is_part_of_half(element) else f32
        sizes = extents(value)
        whole = AffineMap.identity(len(sizes))
        op.operands[place] = code.generic(
            [value],
            code.empty(sizes, wide),
            [whole, whole],
            lambda b, v, wide=wide: b.insert(arith.ExtFOp(v[0], wide)),
        )
        Rewriter.replace_value_with_new_type(argument, wide)
        for reader in readers:
            if reader.results[0].type == wide:
                reader.results[0].replace_all_uses_with(reader.operands[0])
                Rewriter.erase_op(reader)


def _compute_wide(op: Operation, formats: dict[SSAValue, ReducedPrecisionFloatType]) -> None:
    """Rewrites a scalar operation on 8-bit floats in f32, with conversions before and after."""
    if isinstance(op, arith.ConstantOp):
        op.properties["value"] = _constant(op.value)
    if not op.name.startswith(("arith.", "math.")) or isinstance(op, MOVES):
        if isinstance(op, arith.BitcastOp) and op.input.type == op.result.type:
            Rewriter.replace_op(op, [], [op.input])
        return
    before, after = Builder(InsertPoint.before(op)), Builder(InsertPoint.after(op))
    for place, value in enumerate(op.operands):
        if (element := formats.get(value)) is not None:
            number = extend(before, value, element)
            if not isinstance(op, arith.ExtFOp):
                number = Bits(before, number).cast(arith.ExtFOp, f32).value
            op.operands[place] = number
    if isinstance(op, arith.ExtFOp) and op.input.type == op.result.type:
        Rewriter.replace_op(op, [], [op.input])
        return
    for result in op.results:
        if (element := formats.get(result)) is None:
            continue
        if isinstance(op, arith.TruncFOp):
            code = truncate(before, op.input, element, False)
            formats[code] = element
            Rewriter.replace_op(op, [], [code])
            return
        uses = list(result.uses)
        code = truncate(after, Rewriter.replace_value_with_new_type(result, f32), element, False)
        formats[code] = element
        for use in uses:
            use.operation.operands[use.index] = code
