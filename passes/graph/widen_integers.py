"""
Widens integers that kernels cannot compute with: i4 to sign-extended i8, and tensor elements of
type `index` to i64.

    %s = arith.addi %a, %b : i4          %t = arith.addi %a, %b : i8
                                         %u = arith.shli %t, %four : i8
                                   ->    %s = arith.shrsi %u, %four : i8

Unsigned operations get operands with the upper bits cleared. Sizes and addresses of type `index`
do not change: bodies cast between them and the elements.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import TYPE, VALUE
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.analysis.linalg_code import Code
from xdsl_spirv.passes.analysis.pointwise import as_generic
from xdsl_spirv.passes.graph.computable import WIDTHS, change_notes, values_of
from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

NAME = "decompose-linalg"
refuse = refusals(NAME)
KEPT_IN_BYTES = ("i2", "i4")
"""Types whose elements take one byte each in a buffer."""
KEEPS_SIGN = (
    *(arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.SelectOp, arith.CmpiOp, arith.ConstantOp),
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.RemSIOp, arith.ShRSIOp),
    *(arith.SIToFPOp, arith.ExtSIOp),
)
"""Operations that give sign-extended results for sign-extended operands."""
WRAPS = (
    *(arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp, arith.DivSIOp, arith.FloorDivSIOp),
    *(arith.CeilDivSIOp, arith.FPToSIOp, arith.FPToUIOp, arith.TruncIOp, arith.IndexCastOp),
)
"""Operations whose result may have wrong upper bits and must be sign-extended."""
WITHOUT_SIGN = (
    *(arith.DivUIOp, arith.RemUIOp, arith.CeilDivUIOp, arith.ShRUIOp, arith.ExtUIOp),
    *(arith.UIToFPOp,),
)
"""Operations that need zero-extended operands; their result must be sign-extended."""


def wider_type(type: Attribute) -> Attribute | None:
    """Returns the wider type that replaces a type without kernel support, else None."""
    if isinstance(type, TensorType | MemRefType):
        element = i64 if isinstance(type.element_type, IndexType) else wider_type(type.element_type)
        if element is None or isinstance(type, MemRefType):
            return None
        return TensorType(element, type.get_shape(), type.encoding)
    if not isinstance(type, IntegerType) or type.width.data in WIDTHS:
        return None
    wider = next((width for width in WIDTHS[1:] if width > type.width.data), None)
    return None if wider is None else IntegerType(wider)


def widen(function: FuncOp) -> None:
    """Widens the integers of a function that kernels cannot compute with."""
    if any(wider_type(value.type) is not None for op in function.walk() for value in values_of(op)):
        _Widener(function).write()


class _Widener:
    def __init__(self, function: FuncOp):
        self.function = function
        self.narrow: dict[SSAValue, IntegerType] = {}
        """Maps a widened scalar to its original type."""

    def write(self) -> None:
        for op in list(self.function.walk()):
            if isinstance(op, LinalgStructuredOperation) and any(map(_is_narrow, op.operands)):
                if not isinstance(op, linalg.ops.GenericOp | linalg.ops.FillOp):
                    as_generic(op)
        change_notes(self.function, _note_type)
        operations = [op for op in self.function.walk() if op is not self.function]
        for value in [v for op in [self.function, *operations] for v in values_of(op)]:
            self._retype(value)
        for op in operations:
            self._rewrite(op)
        for op in operations:
            if isinstance(op, linalg.ops.GenericOp | linalg.ops.ReduceOp) and _has_numbers(op):
                self._widen_numbers(op.regions[0].block)
        for argument in list(self.function.body.block.args):
            self._repeat_sign(argument)
        self.function.update_function_type()

    def _retype(self, value: SSAValue) -> None:
        type = wider_type(value.type)
        if type is not None:
            wider = Rewriter.replace_value_with_new_type(value, type)
            if isinstance(value.type, IntegerType):
                self.narrow[wider] = value.type

    def _widen_numbers(self, block: Block) -> None:
        for argument in block.args:
            if isinstance(argument.type, IndexType):
                Rewriter.replace_value_with_new_type(argument, i64)
        for op in list(block.ops):
            is_arithmetic = op.name.startswith("arith.") or isinstance(op, linalg.ops.YieldOp)
            before = Builder(InsertPoint.before(op))
            for place, value in enumerate(op.operands):
                if isinstance(value.type, IndexType) and is_arithmetic:
                    op.operands[place] = before.insert(arith.IndexCastOp(value, i64)).result
                elif value.type == i64 and isinstance(op, tensor.ExtractOp):
                    cast = before.insert(arith.IndexCastOp(value, IndexType()))
                    op.operands[place] = cast.result
            for result in op.results if is_arithmetic else ():
                if isinstance(result.type, IndexType):
                    Rewriter.replace_value_with_new_type(result, i64)
            if isinstance(op, arith.ConstantOp) and op.value.get_type() == IndexType():
                assert isinstance(op.value, IntegerAttr)
                op.properties["value"] = IntegerAttr(op.value.value.data, i64)
            if isinstance(op, arith.IndexCastOp | IndexCastUIOp):
                _cast_integer(op, isinstance(op, arith.IndexCastOp))

    def _rewrite(self, op: Operation) -> None:
        match op:
            case arith.ConstantOp() if op.result in self.narrow or _is_constant_tensor(op):
                op.properties["value"] = _constant(op.value)
            case linalg.ops.FillOp() | tensor.SplatOp() | tensor.YieldOp() | tensor.InsertOp():
                self._cast_numbers(op, 1)
            case tensor.ExtractOp() if isinstance(op.result.type, IndexType):
                element = Rewriter.replace_value_with_new_type(op.result, i64)
                cast = arith.IndexCastOp(element, IndexType())
                element.replace_all_uses_with(cast.result)
                cast.operands[0] = element
                Rewriter.insert_op(cast, InsertPoint.after(op))
            case tensor.FromElementsOp():
                self._cast_numbers(op, len(op.operands))
            case _ if any(v in self.narrow for v in (*op.operands, *op.results)):
                self._rewrite_scalar(op)
            case _:
                pass

    def _cast_numbers(self, op: Operation, count: int) -> None:
        """Casts the first `count` operands from `index` to i64."""
        before = Builder(InsertPoint.before(op))
        for place, value in enumerate(op.operands[:count]):
            if isinstance(value.type, IndexType):
                op.operands[place] = before.insert(arith.IndexCastOp(value, i64)).result

    def _rewrite_scalar(self, op: Operation) -> None:
        """Clears the upper bits of operands, or sign-extends the result, as the operation needs."""
        before, after = Builder(InsertPoint.before(op)), Builder(InsertPoint.after(op))
        if not isinstance(op, (*KEEPS_SIGN, *WRAPS, *WITHOUT_SIGN)):
            if op.name.startswith(("arith.", "math.")):
                types = [self.narrow[v] for v in (*op.operands, *op.results) if v in self.narrow]
                wider = wider_type(types[0])
                refuse(op, f"{op.name} is not supported in {types[0]}: use {wider}")
            return
        if isinstance(op, WITHOUT_SIGN):
            for place, value in enumerate(op.operands):
                if (old := self.narrow.get(value)) is not None:
                    assert isinstance(value.type, IntegerType)
                    mask = IntegerAttr((1 << old.width.data) - 1, value.type)
                    bits = before.insert(arith.ConstantOp(mask))
                    op.operands[place] = before.insert(arith.AndIOp(value, bits)).result
        result = op.results[0]
        old = self.narrow.get(result)
        if old is not None and isinstance(op, (*WRAPS, *WITHOUT_SIGN)):
            uses = list(result.uses)
            signed = _repeat_bits(after.insert, result, old)
            for use in uses:
                use.operation.operands[use.index] = signed
        if isinstance(op, arith.TruncIOp | arith.ExtSIOp | arith.ExtUIOp) and (
            op.operands[0].type == result.type
        ):
            result.replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)

    def _repeat_sign(self, argument: BlockArgument) -> None:
        """Sign-extends an argument, because the caller may set its upper bits to anything."""
        kind = self.function.function_type.inputs.data[argument.index]
        old = kind.element_type if isinstance(kind, TensorType) else kind
        uses = list(argument.uses)
        if not isinstance(old, IntegerType) or old.width.data in WIDTHS or not uses:
            return
        code = Code.open_behind(argument, uses[0].operation)
        if isinstance(argument.type, TensorType):
            element = argument.type.element_type
            signed = code.elementwise(
                [argument], element, lambda b, v: _repeat_bits(b.insert, v[0], old)
            )
        else:
            signed = _repeat_bits(code.build.insert, argument, old)
        for use in uses:
            use.operation.operands[use.index] = signed


def _repeat_bits(
    insert: Callable[[Operation], Operation], value: SSAValue, narrow: IntegerType
) -> SSAValue:
    """Sign-extends the low bits of a value: the bits of the type `narrow`."""
    assert isinstance(value.type, IntegerType)
    left = IntegerAttr(value.type.width.data - narrow.width.data, value.type)
    by = insert(arith.ConstantOp(left)).results[0]
    return insert(arith.ShRSIOp(insert(arith.ShLIOp(value, by)).results[0], by)).results[0]


def _has_numbers(op: Operation) -> bool:
    """True if a body has elements of type `index`."""
    block = op.regions[0].block
    yielded = block.last_op.operands if block.last_op is not None else ()
    return any(isinstance(value.type, IndexType) for value in (*block.args, *yielded))


def _cast_integer(op: Operation, signed: bool) -> None:
    """
    Rewrites a cast to or from `index` as a cast between integers, or drops a cast of i64 to i64.
    """
    (value,), (result,) = op.operands, op.results
    if value.type == result.type:
        result.replace_all_uses_with(value)
        Rewriter.erase_op(op)
        return
    if IndexType() in (value.type, result.type):
        return
    assert isinstance(value.type, IntegerType)
    assert isinstance(result.type, IntegerType)
    extend = arith.ExtSIOp if signed else arith.ExtUIOp
    kind = extend if value.type.width.data < result.type.width.data else arith.TruncIOp
    Rewriter.replace_op(op, kind(value, result.type))


def _element(type: Attribute) -> str:
    return str(type.element_type if isinstance(type, TensorType) else type)


def _is_narrow(value: SSAValue) -> bool:
    return wider_type(value.type) is not None


def _is_constant_tensor(op: arith.ConstantOp) -> bool:
    kind = op.value.get_type() if isinstance(op.value, DenseIntOrFPElementsAttr) else None
    return kind is not None and wider_type(kind) is not None


def _note_type(type: Attribute, note: dict[str, Attribute]) -> None:
    """Records the narrow type of an argument or result for callers, and widens weights."""
    if (wider := wider_type(type)) is not None:
        element = _element(type)
        note[TYPE] = StringAttr(element if element in KEPT_IN_BYTES else _element(wider))
    if isinstance(value := note.get(VALUE), DenseIntOrFPElementsAttr):
        note[VALUE] = _constant(value)


def _constant(value: Attribute) -> Attribute:
    if isinstance(value, DenseIntOrFPElementsAttr):
        type = wider_type(value.get_type())
        if not isinstance(type, TensorType):
            return value
        numbers = [int(number) for number in value.get_values()]
        return DenseIntOrFPElementsAttr.from_list(type, numbers)  # pyright: ignore
    assert isinstance(value, IntegerAttr)
    type = wider_type(value.type)
    assert isinstance(type, IntegerType)
    assert isinstance(value.type, IntegerType)
    width, number = value.type.width.data, value.value.data
    return IntegerAttr(number - ((number >> (width - 1) & 1) << width), type)
