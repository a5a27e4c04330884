"""
`linalg`'s operations without a body, as those that have one.

    linalg.softmax     a row's largest, exponentials of the differences to it, their sum, quotients
    linalg.pack        tensor.pad, tensor.expand_shape, linalg.transpose
    linalg.unpack      linalg.transpose, tensor.collapse_shape, tensor.extract_slice
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic
from xdsl_spirv.passes import refuse, rewrite_once
from xdsl_spirv.passes.analysis.sizes import SizeCode, empty_of, extents
from xdsl_spirv.upstream.linalg_packing import PackOp, SoftmaxOp, Tiled, UnpackOp


@dataclass(frozen=True)
class DecomposeLinalgPass(ModulePass):
    """Writes softmax, pack and unpack as loops and moves of elements."""

    name = "decompose-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_once(op, Softmax(), Pack(), Unpack())


class _Code:
    """Writes operations before one, each at its place in the source."""

    def __init__(self, op: Operation):
        self.op = op
        self.build = Builder(InsertPoint.before(op))

    def insert(self, op: Operation) -> SSAValue:
        op.location = self.op.location
        return self.build.insert(op).results[0]

    def empty(self, sizes: Sequence[Size], element: Attribute) -> SSAValue:
        before, empty = empty_of(sizes, element)
        for op in before:
            self.insert(op)
        return self.insert(empty)

    def generic(
        self,
        inputs: Sequence[SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap],
        body: Callable[[Builder, Sequence[SSAValue]], Operation],
    ) -> SSAValue:
        """A generic whose loops are all parallel but for those that the output does not name."""
        assert isinstance(out.type, TensorType)
        block = Block(arg_types=[out.type.element_type] * (len(inputs) + 1))
        result = body(Builder(InsertPoint.at_end(block)), block.args)
        block.add_op(linalg.ops.YieldOp(result))
        kinds = [
            IteratorTypeAttr.parallel() if AffineDimExpr(n) in maps[-1].results
            else IteratorTypeAttr.reduction()
            for n in range(maps[-1].num_dims)
        ]  # fmt: skip
        attributes = ArrayAttr(map(AffineMapAttr, maps)), ArrayAttr(kinds)
        return self.insert(
            linalg.ops.GenericOp(inputs, [out], Region(block), *attributes, [out.type])
        )


class Softmax(RewritePattern):
    """softmax(x) -> exp(x - max(x)) / sum(exp(x - max(x)))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SoftmaxOp, rewriter: PatternRewriter) -> None:
        code, sizes = _Code(op), extents(op.input)
        type = op.input.type
        assert isinstance(type, TensorType)
        element = type.element_type
        if not isinstance(element, AnyFloat):
            refuse(DecomposeLinalgPass.name, op, f"there is no softmax of {element}: use floats")
        axis, rank = op.dimension.value.data, len(sizes)
        rows = [size for at, size in enumerate(sizes) if at != axis]
        whole = AffineMap.identity(rank)
        row = AffineMap(rank, 0, tuple(AffineDimExpr(n) for n in range(rank) if n != axis))

        def reduce_rows(x: SSAValue, start: float, by: Callable[..., Operation]) -> SSAValue:
            number = code.insert(arith.ConstantOp(FloatAttr(start, element)))
            empty = code.empty(rows, element)
            first = code.insert(linalg.ops.FillOp([number], [empty], [empty.type]))
            return code.generic([x], first, [whole, row], lambda b, v: b.insert(by(v[1], v[0])))

        def exponential(b: Builder, v: Sequence[SSAValue]) -> Operation:
            return b.insert(math.ExpOp(b.insert(arith.SubfOp(v[0], v[1])).result))

        most = reduce_rows(op.input, float("-inf"), arith.MaximumfOp)
        powers = code.generic(
            [op.input, most], code.empty(sizes, element), [whole, row, whole], exponential
        )
        total = reduce_rows(powers, 0.0, arith.AddfOp)
        shares = code.generic(
            [powers, total],
            code.empty(sizes, element),
            [whole, row, whole],
            lambda b, v: b.insert(arith.DivfOp(v[0], v[1])),
        )
        rewriter.replace(op, [], [shares])


class _Tiles:
    """A packed tensor, and one that is not: their sizes and how their dimensions go together."""

    def __init__(self, op: Tiled, plain: SSAValue):
        self.code, self.sizes = _Code(op), list(extents(plain))
        if DYNAMIC_INDEX in op.tiles:
            refuse(
                DecomposeLinalgPass.name,
                op,
                "a tile's size is known only when it runs: make inner_tiles numbers",
            )
        assert isinstance(plain.type, TensorType)
        self.element = plain.type.element_type
        tiles = dict(zip(op.positions, op.tiles, strict=True))
        rank = len(self.sizes)
        self.counts = [ceil_div(s, tiles.get(axis, 1)) for axis, s in enumerate(self.sizes)]
        self.whole = [n * tiles.get(axis, 1) for axis, n in enumerate(self.counts)]
        """The sizes of the tensor that is not packed, with full tiles."""
        self.apart: list[Size] = []
        """The same sizes with each tiled dimension as two: the tiles, and the tile's size."""
        self.groups: list[list[int]] = []
        for axis in range(rank):
            self.groups.append([len(self.apart)])
            self.apart.append(self.counts[axis])
            if axis in tiles:
                self.groups[-1].append(len(self.apart))
                self.apart.append(tiles[axis])
        outer = [self.groups[axis][0] for axis in op.order(rank)]
        self.order = outer + [self.groups[position][1] for position in op.positions]
        """For each dimension of the packed tensor its position in `apart`."""

    def type(self, sizes: Sequence[Size]) -> TensorType[Attribute]:
        shape = [DYNAMIC_INDEX if is_dynamic(size) else size for size in sizes]
        return TensorType(self.element, shape)

    @property
    def reassociation(self) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
        return ArrayAttr(ArrayAttr(IntegerAttr(n, i64) for n in g) for g in self.groups)

    def numbers(self, sizes: Sequence[Size]) -> tuple[list[SSAValue], DenseArrayBase]:
        """The dynamic ones of some sizes, and all as an attribute."""
        code = SizeCode(self.code.build.insert)
        listed = [DYNAMIC_INDEX if is_dynamic(size) else size for size in sizes]
        given = [code.value(size) for size in sizes if is_dynamic(size)]
        return given, DenseArrayBase.from_list(i64, listed)

    def transpose(self, x: SSAValue, sizes: Sequence[Size], order: Sequence[int]) -> SSAValue:
        room = self.code.empty([sizes[n] for n in order], self.element)
        permutation = DenseArrayBase.from_list(i64, order)
        return self.code.insert(linalg.ops.TransposeOp(x, room, permutation, room.type))


class Pack(RewritePattern):
    """pack(x) -> transpose(expand_shape(pad(x)))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PackOp, rewriter: PatternRewriter) -> None:
        tiles, x = _Tiles(op, op.source), op.source
        high = [whole - size for whole, size in zip(tiles.whole, tiles.sizes, strict=True)]
        if op.padding_value is None:
            # Full tiles are asked for, so the sizes are multiples.
            high = [0] * len(high)
        if any(map(is_dynamic, high)):
            refuse(
                DecomposeLinalgPass.name,
                op,
                "how much a last tile lacks is known only when it runs: make the sizes static, or "
                "leave padding_value out if tiles are full",
            )
        if any(high):
            assert op.padding_value is not None
            block = Block(arg_types=[IndexType()] * len(high))
            block.add_op(tensor.YieldOp(op.padding_value))
            low = DenseArrayBase.from_list(i64, [0] * len(high))
            above = DenseArrayBase.from_list(i64, cast(list[int], high))
            pad = tensor.PadOp(x, [], [], Region(block), low, above, tiles.type(tiles.whole))
            x = tiles.code.insert(pad)
        given, static = tiles.numbers(tiles.apart)
        apart = tensor.ExpandShapeOp.create(
            operands=[x, *given],
            result_types=[tiles.type(tiles.apart)],
            properties={"reassociation": tiles.reassociation, "static_output_shape": static},
        )
        packed = tiles.transpose(tiles.code.insert(apart), tiles.apart, tiles.order)
        rewriter.replace(op, [], [_as(tiles.code, packed, op.result.type)])


class Unpack(RewritePattern):
    """unpack(x) -> extract_slice(collapse_shape(transpose(x)))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnpackOp, rewriter: PatternRewriter) -> None:
        tiles = _Tiles(op, op.dest)
        packed = [tiles.apart[n] for n in tiles.order]
        back = [tiles.order.index(n) for n in range(len(tiles.order))]
        apart = tiles.transpose(op.source, packed, back)
        whole = tiles.code.insert(
            tensor.CollapseShapeOp.create(
                operands=[apart],
                result_types=[tiles.type(tiles.whole)],
                properties={"reassociation": tiles.reassociation},
            )
        )
        given, static = tiles.numbers(tiles.sizes)
        rank = len(tiles.sizes)
        part = tensor.ExtractSliceOp.build(
            operands=[whole, [], given, []],
            result_types=[tiles.type(tiles.sizes)],
            properties={
                "static_offsets": DenseArrayBase.from_list(i64, [0] * rank),
                "static_sizes": static,
                "static_strides": DenseArrayBase.from_list(i64, [1] * rank),
            },
        )
        result = tiles.code.insert(part)
        rewriter.replace(op, [], [_as(tiles.code, result, op.result.type)])


def _as(code: _Code, value: SSAValue, type: TensorType) -> SSAValue:
    """The value with the sizes that another type states."""
    return value if value.type == type else code.insert(tensor.CastOp(value, type))
