"""
Rewrites operations that have no body as `linalg.generic` and `tensor` operations.

    linalg.softmax     row maximum, exponentials of the differences, their sum, division
    linalg.pack        tensor.pad, tensor.expand_shape, linalg.transpose
    linalg.unpack      linalg.transpose, tensor.collapse_shape, tensor.extract_slice
    linalg.winograd_*  a contraction with a small matrix for the rows, and one for the columns
    alloc_tensor       tensor.empty, or the tensor that it copies
    arith.*, math.*    on tensors: an elementwise linalg.generic
    from_elements      a linalg.generic that selects each element by its index
    affine.apply       in a body: `arith` operations
    *_extended         an addition with a carry, a product in twice the width
    i4, index          elements in wider integers (`widen_integers`)
    f8                 bytes, unless the target has f8 matrix instructions (`expand_floats`)

A contraction of bf16 into bf16 sums in f32 and then rounds, unless the target has matrix
instructions that sum in bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import affine, arith, bufferization, linalg, math, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    bf16,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, static
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    expand_dimensions,
    make_generic,
    maps_of,
    merge_dimensions,
    product_body,
    tensor_type,
)
from xdsl_spirv.passes.analysis.sizes import SizeCode, extents, listed_sizes
from xdsl_spirv.passes.analysis.target import load_target
from xdsl_spirv.passes.analysis.values import is_zero
from xdsl_spirv.passes.graph.expand_floats import expand
from xdsl_spirv.passes.graph.widen_integers import NAME, refuse, widen
from xdsl_spirv.passes.graph.winograd import WinogradTransform
from xdsl_spirv.targets import Target
from xdsl_spirv.upstream.linalg_packing import PackOp, SoftmaxOp, Tiled, UnpackOp
from xdsl_spirv.upstream.scalar_extensions import of_each_element

WIDEST = 64
"""Width in bits of the widest integers that kernels compute with."""


@dataclass(frozen=True)
class DecomposeLinalgPass(ModulePass):
    """Rewrites softmax, pack, Winograd and other operations without a body as `linalg.generic`."""

    name = NAME

    target: str = ""
    """A device name or the path of a target file. If empty, bf16 sums do not change."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        named = Softmax(), Pack(), Unpack(), WinogradTransform(), Allocate()
        rewrite_once(op, *named, Elementwise(), FromElements(), ApplyInBody(), Extended())
        target = load_target(self.target, op, self.name) if self.target else None
        for function in functions_of(op):
            widen(function)
            expand(function, target)
        if target is not None:
            rewrite_once(op, WidenSums(target))


class Softmax(RewritePattern):
    """softmax(x) -> exp(x - max(x)) / sum(exp(x - max(x)))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SoftmaxOp, rewriter: PatternRewriter) -> None:
        code, sizes = Code(op), extents(op.input)
        element = tensor_type(op.input).element_type
        if not isinstance(element, AnyFloat):
            refuse(op, f"softmax of {element} is not supported: use a float type")
        axis, rank = op.dimension.value.data, len(sizes)
        rows = [size for at, size in enumerate(sizes) if at != axis]
        whole = AffineMap.identity(rank)
        row = AffineMap(rank, 0, tuple(AffineDimExpr(n) for n in range(rank) if n != axis))

        def reduce_rows(x: SSAValue, start: float, by: Callable[..., Operation]) -> SSAValue:
            first = code.fill(rows, element, start)
            return code.generic([x], first, [whole, row], lambda b, v: b.insert(by(v[1], v[0])))

        def exponential(b: Builder, v: Sequence[SSAValue]) -> Operation:
            return b.insert(math.ExpOp(b.insert(arith.SubfOp(v[0], v[1])).result))

        most = reduce_rows(op.input, float("-inf"), arith.MaximumfOp)
        powers = code.elementwise([op.input, most], element, exponential, [whole, row])
        total = reduce_rows(powers, 0.0, arith.AddfOp)
        shares = code.elementwise(
            [powers, total],
            element,
            lambda b, v: b.insert(arith.DivfOp(v[0], v[1])),
            [whole, row],
        )
        rewriter.replace(op, [], [shares])


@dataclass
class WidenSums(RewritePattern):
    """out += a * b in bf16 -> truncf(extf(out) + extf(a) * extf(b)), summed in f32"""

    target: Target

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LinalgStructuredOperation, rewriter: PatternRewriter) -> None:
        types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
        if len(types) != 3 or any(type.element_type != bf16 for type in types):
            return
        contraction = as_contraction(op)
        if contraction is None or self.target.properties_for(contraction.types):
            return
        code, (init,) = Code(op), op.outputs
        if is_zero(init):
            first = code.fill(extents(init), f32, 0.0)
        else:
            first = code.elementwise([init], f32, lambda b, v: b.insert(arith.ExtFOp(v[0], f32)))
        body = product_body([bf16, bf16, f32])
        total = code.insert(make_generic(op.inputs, first, maps_of(op), body))
        result = code.elementwise([total], bf16, lambda b, v: b.insert(arith.TruncFOp(v[0], bf16)))
        rewriter.replace(op, [], [code.cast(result, tensor_type(op.results[0]))])


class Elementwise(RewritePattern):
    """addf(x, y) on tensors -> a linalg.generic that adds their elements"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        types = [result.type for result in op.results]
        if not op.name.startswith(("arith.", "math.")) or not op.operands or len(types) != 1:
            return
        (type,) = types
        if not isinstance(type, TensorType) or not isinstance(op.parent_op(), FuncOp):
            return
        code = Code(op)
        tensors = [v for v in op.operands if isinstance(v.type, TensorType)]

        def compute(b: Builder, v: Sequence[SSAValue]) -> Operation:
            elements = iter(v)
            operands = [next(elements) if x in tensors else x for x in op.operands]
            return b.insert(of_each_element(op, operands))

        result = code.elementwise(tensors, type.element_type, compute)
        rewriter.replace(op, [], [code.cast(result, type)])


class Allocate(RewritePattern):
    """alloc_tensor -> tensor.empty; alloc_tensor copy(x) -> x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: bufferization.AllocTensorOp, rewriter: PatternRewriter) -> None:
        if op.copy is None:
            rewriter.replace(op, tensor.EmptyOp(op.dynamic_sizes, op.tensor.type))
        else:
            rewriter.replace(op, [], [op.copy])


class FromElements(RewritePattern):
    """from_elements(a, b, c) -> a linalg.generic: a at index 0, b at index 1, else c"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tensor.FromElementsOp, rewriter: PatternRewriter) -> None:
        code, type = Code(op), tensor_type(op.result)
        sizes = type.get_shape()

        def constant(b: Builder, number: int) -> SSAValue:
            return b.insert(arith.ConstantOp(IntegerAttr(number, IndexType()))).result

        def choose(b: Builder, _: Sequence[SSAValue]) -> SSAValue:
            place = constant(b, 0)
            for axis, size in enumerate(sizes):
                by = constant(b, size)
                index = b.insert(linalg.ops.IndexOp(axis))
                place = b.insert(arith.AddiOp(b.insert(arith.MuliOp(place, by)), index)).result
            chosen = op.elements[-1]
            for number, element in enumerate(op.elements[:-1]):
                here = b.insert(arith.CmpiOp(place, constant(b, number), "eq"))
                chosen = b.insert(arith.SelectOp(here, element, chosen)).result
            return chosen

        result = room = code.empty(sizes, type.element_type)
        if len(op.elements) == 1:
            result = code.fill_with(op.elements[0], room)
        elif op.elements:
            result = code.generic([], room, [AffineMap.identity(len(sizes))], choose)
        rewriter.replace(op, [], [result])


class Extended(RewritePattern):
    """
    addui_extended(a, b) -> a + b, a + b < a
    mulsi_extended(a, b) -> both halves of the product in twice the width
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(
            op, arith.AddUIExtendedOp | arith.MulSIExtendedOp | arith.MulUIExtendedOp
        ):
            return
        code, (a, b) = Code(op), op.operands
        if isinstance(op, arith.AddUIExtendedOp):
            total = code.insert(arith.AddiOp(a, b))
            rewriter.replace(op, [], [total, code.insert(arith.CmpiOp(total, a, "ult"))])
            return
        narrow = a.type
        if not isinstance(narrow, IntegerType) or narrow.width.data > WIDEST // 2:
            refuse(op, f"{op.name} is unsupported in {narrow}: use i32")
        wide = IntegerType(2 * narrow.width.data)
        extend = arith.ExtSIOp if isinstance(op, arith.MulSIExtendedOp) else arith.ExtUIOp
        product = code.insert(
            arith.MuliOp(code.insert(extend(a, wide)), code.insert(extend(b, wide)))
        )
        by = code.constant(narrow.width.data, wide)
        high = code.insert(arith.ShRUIOp(product, by))
        halves = [code.insert(arith.TruncIOp(half, narrow)) for half in (product, high)]
        rewriter.replace(op, [], halves)


class ApplyInBody(RewritePattern):
    """affine.apply (d0 * 4 + s0) in the body of a loop -> muli, addi"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: affine.ApplyOp, rewriter: PatternRewriter) -> None:
        if isinstance(op.parent_op(), FuncOp):
            # The host computes sizes of tensors with it.
            return
        code, map = Code(op), op.map.data
        values = list(op.mapOperands)
        result = _arithmetic(code, map.results[0], values[: map.num_dims], values[map.num_dims :])
        rewriter.replace(op, [], [result])


def _arithmetic(
    code: Code, expression: AffineExpr, dims: Sequence[SSAValue], symbols: Sequence[SSAValue]
) -> SSAValue:
    """Writes an affine expression as `arith` operations; `mod` is never negative, as in MLIR."""
    match expression:
        case AffineConstantExpr(value=value):
            return code.constant(value, IndexType())
        case AffineDimExpr(position=position):
            return dims[position]
        case AffineSymExpr(position=position):
            return symbols[position]
        case AffineBinaryOpExpr(kind=kind):
            a, b = (_arithmetic(code, e, dims, symbols) for e in (expression.lhs, expression.rhs))
            if kind == AffineBinaryOpKind.Mod:
                whole = code.insert(arith.MuliOp(code.insert(arith.FloorDivSIOp(a, b)), b))
                return code.insert(arith.SubiOp(a, whole))
            return code.insert(_OF_AFFINE[kind](a, b))
        case _:
            raise AssertionError(f"{expression} is not an affine expression")


_OF_AFFINE = {
    AffineBinaryOpKind.Add: arith.AddiOp,
    AffineBinaryOpKind.Mul: arith.MuliOp,
    AffineBinaryOpKind.FloorDiv: arith.FloorDivSIOp,
    AffineBinaryOpKind.CeilDiv: arith.CeilDivSIOp,
}


class _Tiles:
    """Maps the dimensions of a packed tensor to the dimensions of the unpacked tensor `plain`."""

    def __init__(self, op: Tiled, plain: SSAValue):
        self.code, self.sizes = Code(op), list(extents(plain))
        sizes = listed_sizes(op.static_inner_tiles, op.inner_tiles)
        if any(map(is_dynamic, sizes)):
            refuse(op, "a tile size is dynamic: use constants for inner_tiles")
        self.element = tensor_type(plain).element_type
        tiles = dict(zip(op.positions, static(sizes), strict=True))
        rank = len(self.sizes)
        self.counts = [ceil_div(s, tiles.get(axis, 1)) for axis, s in enumerate(self.sizes)]
        self.whole = [n * tiles.get(axis, 1) for axis, n in enumerate(self.counts)]
        """Sizes of the unpacked tensor, rounded up to whole tiles."""
        self.apart: list[Size] = []
        """`whole` with each tiled dimension split in two: number of tiles, and tile size."""
        self.groups: list[list[int]] = []
        for axis in range(rank):
            self.groups.append([len(self.apart)])
            self.apart.append(self.counts[axis])
            if axis in tiles:
                self.groups[-1].append(len(self.apart))
                self.apart.append(tiles[axis])
        outer = [self.groups[axis][0] for axis in op.order(rank)]
        self.order = outer + [self.groups[position][1] for position in op.positions]
        """Index in `apart` of each dimension of the packed tensor."""

    def type(self, sizes: Sequence[Size]) -> TensorType[Attribute]:
        shape = [DYNAMIC_INDEX if is_dynamic(size) else size for size in sizes]
        return TensorType(self.element, shape)

    def numbers(self, sizes: Sequence[Size]) -> tuple[list[SSAValue], DenseArrayBase]:
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
            # `pack` without a padding value has only full tiles, so the sizes are multiples.
            high = [0] * len(high)
        if any(size != 0 for size in high):
            assert op.padding_value is not None
            block = Block(arg_types=[IndexType()] * len(high))
            block.add_op(tensor.YieldOp(op.padding_value))
            low = DenseArrayBase.from_list(i64, [0] * len(high))
            lack, above = tiles.numbers(high)
            pad = tensor.PadOp(x, [], lack, Region(block), low, above, tiles.type(tiles.whole))
            x = tiles.code.insert(pad)
        given, _ = tiles.numbers(tiles.apart)
        apart = expand_dimensions(x, tiles.groups, tiles.type(tiles.apart).get_shape(), given)
        packed = tiles.transpose(tiles.code.insert(apart), tiles.apart, tiles.order)
        rewriter.replace(op, [], [tiles.code.cast(packed, op.result.type)])


class Unpack(RewritePattern):
    """unpack(x) -> extract_slice(collapse_shape(transpose(x)))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UnpackOp, rewriter: PatternRewriter) -> None:
        tiles = _Tiles(op, op.dest)
        packed = extents(op.source)
        back = [tiles.order.index(n) for n in range(len(tiles.order))]
        apart = tiles.transpose(op.source, packed, back)
        # The packed tensor may have more tiles than the result needs.
        sizes = [prod(packed[back[n]] for n in group) for group in tiles.groups]
        shape = tiles.type(sizes).get_shape()
        whole = tiles.code.insert(merge_dimensions(apart, tiles.groups, shape))
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
        rewriter.replace(op, [], [tiles.code.cast(result, op.result.type)])
