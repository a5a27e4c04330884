"""
Splits contractions with few results along K into parts that are computed concurrently.

    %r = contraction %a[m, k], %b[k, n]     %p = contraction %a[m, s, k'], %b[s, k', n] -> [s, m, n]
                                      ->    %r = sum of %p over s

The parts are batch loops, the operands are read in place (`tensor.expand_shape`), and the epilogue
follows the sum. A result of 64 x 64 is one workgroup, which uses only one of a hundred compute
units; 16 parts use 16, at the cost of storing and adding partial sums. The schedules' estimates
(see `cost`) decide whether that is faster.

An operand of packed (quantized) weights is split by whole blocks. M may be dynamic.

    %w = linalg.generic (n, b, h, j) of %q[n, b, j]
    sum over b, h, j of %x[m, 32 * b + 16 * h + j] * %w[n, b, h, j]
                                      ->
    %q' = tensor.expand_shape %q : [n, s, b', j]
    %w' = linalg.generic (n, s, b', h, j) of %q'
    sum over b', h, j of %x[m, 32 * (size * s + b') + 16 * h + j] * %w'[n, s, b', h, j]

Float sums change their order, as with any schedule. Partial sums have the result's type, so only
f32 and integer results are split, and only sums that start at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import Float32Type, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_dynamic, static, typical
from xdsl_spirv.passes.analysis.contraction import Contraction, as_contraction, bytes_of, shape_of
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    dimension_of,
    make_generic,
    maps_of,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.sizes import loop_extents
from xdsl_spirv.passes.analysis.values import is_weight, is_zero
from xdsl_spirv.passes.schedule.assign_schedule import try_plan
from xdsl_spirv.passes.schedule.paths import ROWS, TILED, LimitedPass, Limits
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

PARTS = (2, 4, 8, 16)
"""Allowed numbers of parts of K. One invocation can add up the partial sums of an element."""

WRITTEN_OUT = 8
"""Maximum number of partial results that an elementwise operation, which may be fused, adds up."""


@dataclass(frozen=True)
class SplitReductionsPass(LimitedPass):
    """Splits contractions along K if the device has more compute units than workgroups."""

    name = "split-reductions"

    parts: int = 0
    """Number of parts of every contraction that can be split. 0 selects the fastest number."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        cuts = [
            cut
            for function in functions_of(op)
            for generic in list(function.body.block.ops)
            if isinstance(generic, linalg.ops.GenericOp) and (cut := _cut_of(generic))
        ]
        parts: dict[tuple[object, ...], int] = {}
        for cut in cuts:
            if (key := self._key(cut)) not in parts:
                parts[key] = self._parts(cut, target)
            if parts[key] > 1:
                _, _, total = _parts_of(cut, parts[key])
                Rewriter.replace_op(cut.op, [], [total])

    def _key(self, cut: _Cut) -> tuple[object, ...]:
        """Returns the key under which a contraction's number of parts is cached."""
        values = [*cut.op.inputs, *(cut.source.inputs if cut.source is not None else ())]
        own = cut.op if self.only or self.barred else str(cut.contraction)
        maps = cut.op.indexing_maps
        return own, maps, *((value.type, is_weight(value)) for value in values)

    def _parts(self, cut: _Cut, target: Target | None) -> int:
        if self.parts:
            return self.parts if cut.divides(self.parts) else 1
        limits = self.limits
        return _best(cut, target, limits) if target is not None else 1


@dataclass(frozen=True)
class _Cut:
    """A contraction, and the loop of K that can be split."""

    op: linalg.ops.GenericOp
    contraction: Contraction
    loop: int
    """Index of the loop."""
    size: int
    unpacked: int | None = None
    """
    Index of the operand of packed weights whose blocks the loop counts: 0 (A), 1 (B), or None.
    """

    @property
    def source(self) -> linalg.ops.GenericOp | None:
        """The operation that dequantizes the packed operand."""
        if self.unpacked is None:
            return None
        source = self.op.inputs[self.unpacked].owner
        assert isinstance(source, linalg.ops.GenericOp)
        return source

    def divides(self, parts: int) -> bool:
        return self.size % parts == 0 and self.size > parts


def _cut_of(op: linalg.ops.GenericOp) -> _Cut | None:
    """Returns the loop at which a contraction can be split, else None."""
    if SCHEDULE in op.attributes or not _sums_from_zero(op):
        return None
    contraction = as_contraction(op)
    if contraction is None:
        return None
    if any(map(is_dynamic, (contraction.batch, contraction.n, contraction.k))):
        return None
    unpacked = next((at for at in (0, 1) if contraction.unpacking(at) is not None), None)
    if unpacked is not None:
        loops = _loop_over_blocks(op, unpacked)
    elif all(map(_is_plain, op.inputs)):
        loops = [
            (size, loop)
            for loop, size in _reduced_loops(op)
            if all(dimension_of(map, loop) is not None for map in maps_of(op)[:2])
        ]
    else:
        loops = []
    if not loops:
        return None
    size, loop = max(loops)
    return _Cut(op, contraction, loop, size, unpacked)


def _sums_from_zero(op: linalg.ops.GenericOp) -> bool:
    """True if the sums start at 0 and their type allows partial sums."""
    if len(op.outputs) != 1 or not isinstance(op.outputs[0].type, TensorType):
        return False
    element = op.outputs[0].type.element_type
    if not isinstance(element, Float32Type | IntegerType):
        return False
    init = op.outputs[0].owner
    return isinstance(init, linalg.ops.FillOp) and is_zero(init.inputs[0])


def _is_plain(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, Block | arith.ConstantOp | tensor.ExpandShapeOp | tensor.CollapseShapeOp):
        return True
    return not value.has_one_use() or _follows_sum(owner)


def _follows_sum(op: Operation) -> bool:
    if not isinstance(op, linalg.ops.GenericOp):
        return False
    return any(_reduced_loops(op)) or any(
        isinstance(x.owner, Operation) and x.has_one_use() and _follows_sum(x.owner)
        for x in op.inputs
    )


def _reduced_loops(op: linalg.ops.GenericOp) -> Iterator[tuple[int, int]]:
    for loop, (kind, size) in enumerate(zip(op.iterator_types, loop_extents(op), strict=True)):
        if kind == IteratorTypeAttr.reduction() and size is not None and not is_dynamic(size):
            yield loop, size


def _best(cut: _Cut, target: Target, limits: Limits) -> int:
    """Returns the number of parts with the least estimated time; 1 if splitting does not pay."""
    contraction, model = cut.contraction, target.model.reductions
    batch, m, n = map(typical, (contraction.batch, contraction.m, contraction.n))
    tiles = ceil_div(m, model.usual_tile) * ceil_div(n, model.usual_tile) * batch
    least = typical(contraction.k) // model.least_depth
    few = tiles < target.compute_units or cut.source is not None
    if target.measured_copy is None or not few or least < 2:
        return 1
    if lookup(contraction, target) is not None:
        return 1
    may_take_rows = limits.against(ROWS, cut.op) is None
    estimate = _seconds(cut.op, cut.source, target, limits, may_take_rows)
    if estimate is None:
        return 1
    whole, by_rows = estimate
    if by_rows and cut.source is None:
        # A schedule of few rows already divides K within a workgroup.
        return 1
    may_take_rows = may_take_rows and cut.source is not None
    from xdsl_spirv.passes.analysis.unpacking import unpacks

    values = [*cut.op.inputs]
    if cut.source is not None and cut.unpacked is not None:
        values[cut.unpacked : cut.unpacked + 1] = cut.source.inputs
    least_seconds = sum(map(bytes_of, values)) / target.copy_bytes_per_second
    plain = cut.source is None or by_rows
    worthwhile = model.worthwhile if plain else model.worthwhile_of_blocks
    if max(whole, least_seconds) * worthwhile <= target.model.dispatch_seconds:
        return 1
    best = max(whole, least_seconds) * worthwhile, 1
    for parts in PARTS:
        if parts > least or not cut.divides(parts):
            continue
        code, product, _ = _parts_of(cut, parts)
        source = next((op for op in code.written if op is not product and unpacks(op)), None)
        estimate = _seconds(product, source, target, limits, may_take_rows)
        code.erase()
        if estimate is None:
            continue
        seconds = max(estimate[0], least_seconds) + seconds_of_sum(contraction, parts, target)
        best = min(best, (seconds, parts))
    return best[1]


def seconds_of_sum(contraction: Contraction, parts: int, target: Target) -> float:
    """Estimates the seconds of the dispatch that adds up a contraction's parts."""
    sizes = contraction.batch, contraction.m, contraction.n
    size = prod(map(typical, sizes)) * bit_width(contraction.element_types[2]) // 8
    # With static sizes, `cost` already includes the time to store the parts.
    moves = 2 * parts if contraction.is_dynamic else parts + 1
    rate = target.model.reductions.cached * target.copy_bytes_per_second
    return target.model.dispatch_seconds + moves * size / rate


def _seconds(
    op: linalg.ops.GenericOp,
    source: Operation | None,
    target: Target,
    limits: Limits,
    may_take_rows: bool,
) -> tuple[float, bool] | None:
    """
    Estimates the seconds of a contraction. Also returns True if the kernel has a schedule of few
    rows.

    `source` is an operation that dequantizes an operand in the same kernel. Returns None if no
    schedule fits.
    """
    fill = op.outputs[0].owner
    assert isinstance(fill, linalg.ops.FillOp)
    moved = [fill.inputs[0].owner, fill.outputs[0].owner, fill, op]
    if isinstance(source, linalg.ops.GenericOp):
        moved[:0] = [source.outputs[0].owner, source]
    from xdsl_spirv.passes.graph.fuse_dispatches import copy_to_dispatch

    dispatch = copy_to_dispatch([inner for inner in moved if isinstance(inner, Operation)])
    root, paths = dispatch.yielded[0].owner, (ROWS, *TILED) if may_take_rows else TILED
    assert isinstance(root, linalg.ops.GenericOp)
    plan = try_plan(root, target, limits, paths)
    estimate = None if plan is None else (plan.seconds, plan.path == ROWS)
    dispatch.erase()
    return estimate


def _parts_of(cut: _Cut, parts: int) -> tuple[Code, linalg.ops.GenericOp, SSAValue]:
    """Emits the product of all parts, and their sum."""
    op, code = cut.op, Code(cut.op)
    unpacked = None if cut.unpacked is None else op.inputs[cut.unpacked]

    def split(value: SSAValue, dim: int) -> SSAValue | None:
        if value is unpacked:
            return _with_loop_cut(code, value, dim, parts)
        if any(map(is_dynamic, shape_of(value))):
            return None
        return code.insert(split_dimension(value, dim, parts))

    # The new loop over the parts comes first.
    operands, maps = _split_operands(op, cut.loop, 0, cut.size // parts, split)
    write, count = maps_of(op)[-1], len(op.iterator_types) + 1
    out = write.replace_dims_and_symbols([AffineDimExpr(d) for d in range(1, count)], [], count, 0)
    maps.append(AffineMap(count, 0, (AffineDimExpr(0), *out.results)))
    final = tensor_type(op.outputs[0])
    fill = op.outputs[0].owner
    assert isinstance(fill, linalg.ops.FillOp)
    whole = fill.outputs[0].owner
    assert isinstance(whole, tensor.EmptyOp)
    partial = TensorType(final.element_type, [parts, *final.get_shape()])
    empty = code.insert(tensor.EmptyOp(whole.dynamic_sizes, partial))
    zeros = code.fill_with(fill.inputs[0], empty)
    kinds = IteratorTypeAttr.parallel(), *op.get_iterator_types()
    product = make_generic(operands, zeros, maps, op.body.clone(), kinds)
    code.insert(product)
    rooms = whole.tensor, op.outputs[0]
    return code, product, _sum_parts(code, product.results[0], parts, *rooms)


def _split_operands(
    op: linalg.ops.GenericOp,
    loop: int,
    outer: int,
    size: int,
    split: Callable[[SSAValue, int], SSAValue | None],
) -> tuple[list[SSAValue], list[AffineMap]]:
    """
    Splits a loop of an operation; the new loop `outer` counts pieces of `size` iterations.

    `split` splits a dimension of an operand. If it returns None, the dimension is indexed by both
    loops.
    """
    count = len(op.iterator_types) + 1
    moved: list[AffineExpr] = [AffineDimExpr(d + (d >= outer)) for d in range(count - 1)]
    both = [*moved]
    both[loop] = AffineDimExpr(outer) * size + moved[loop]
    operands: list[SSAValue] = []
    maps: list[AffineMap] = []
    for value, read in zip(op.inputs, maps_of(op), strict=False):
        dim = dimension_of(read, loop)
        part = None if dim is None else split(value, dim)
        replaced = read.replace_dims_and_symbols(both if part is None else moved, [], count, 0)
        results = [*replaced.results]
        if dim is not None and part is not None:
            results.insert(dim, AffineDimExpr(outer))
        operands.append(value if part is None else part)
        maps.append(AffineMap(count, 0, (*results,)))
    return operands, maps


def _loop_over_blocks(op: linalg.ops.GenericOp, operand: int) -> list[tuple[int, int]]:
    """
    Returns [(size, index)] of the outermost loop of K if the packed operand can be split there,
    else [].

    The operand's values must not depend on the loop's index, and the loop must not be innermost.
    """
    source, map_ = op.inputs[operand].owner, maps_of(op)[operand]
    assert isinstance(source, linalg.ops.GenericOp)
    first = list(op.get_iterator_types()).index(IteratorTypeAttr.reduction())
    loops = [e.position for e in map_.results if isinstance(e, AffineDimExpr)]
    if first not in loops or loops[-1] == first:
        return []
    dim = loops.index(first)
    indices = (i for i in source.body.block.ops if isinstance(i, linalg.ops.IndexOp))
    if any(index.dim.value.data == dim for index in indices):
        return []
    size = shape_of(op.inputs[operand])[dim]
    return [] if is_dynamic(size) else [(size, first)]


def _with_loop_cut(code: Code, value: SSAValue, dim: int, parts: int) -> SSAValue:
    """Emits an operand's dequantization, with loop `dim` split into an outer loop of `parts`."""
    op = value.owner
    assert isinstance(op, linalg.ops.GenericOp)
    shape = list(static(shape_of(value)))
    shape[dim : dim + 1] = [parts, shape[dim] // parts]
    planes, maps = _split_operands(
        op,
        dim,
        dim,
        shape[dim + 1],
        lambda plane, at: code.insert(split_dimension(plane, at, parts)),
    )
    empty = code.empty(shape, tensor_type(value).element_type)
    body = op.body.clone()
    for index in body.block.ops:
        if isinstance(index, linalg.ops.IndexOp) and index.dim.value.data > dim:
            index.dim = IntegerAttr(index.dim.value.data + 1, index.dim.type)
    return code.insert(make_generic(planes, empty, (*maps, AffineMap.identity(len(shape))), body))


def _sum_parts(
    code: Code, value: SSAValue, count: int, empty: SSAValue, init: SSAValue
) -> SSAValue:
    """
    Emits the sum over the first dimension, of size `count`.

    A short sum is an elementwise operation, which can be fused and has `empty` as output. A long
    sum has a loop, which starts from `init`.
    """
    type = tensor_type(init)
    whole, rank = AffineMap.identity(type.get_num_dims()), type.get_num_dims()
    kind = arith.AddiOp if isinstance(type.element_type, IntegerType) else arith.AddfOp
    if count > WRITTEN_OUT:
        read = AffineMap(rank + 1, 0, (AffineDimExpr(rank), *whole.results))
        maps = [read, AffineMap(rank + 1, 0, whole.results)]
        return code.generic([value], init, maps, lambda b, v: b.insert(kind(v[1], v[0])))
    reads = [AffineMap(rank, 0, (AffineConstantExpr(n), *whole.results)) for n in range(count)]

    def total(b: Builder, v: Sequence[SSAValue]) -> SSAValue:
        return reduce(lambda before, part: SSAValue.get(b.insert(kind(before, part))), v[:count])

    return code.generic([value] * count, empty, [*reads, whole], total)
