"""
Contractions over many products of few results, cut along K into parts that run side by side.

    %r = contraction %a[m, k], %b[k, n]     %p = contraction %a[m, s, k'], %b[s, k', n] -> [s, m, n]
                                      ->    %r = sum of %p over s

The parts are a batch like any other, the operands are read where they lie (`tensor.expand_shape`),
and the contraction's epilogue follows the sum. A result of 64 x 64 is one workgroup, which a device
of a hundred units computes on one of them; in 16 parts it keeps 16 busy, for the traffic of the
sums. Whether that pays is estimated as schedules are (see `cost`).

An operand in packed planes is cut by whole blocks, and an open M stays open:

    %w = linalg.generic (n, b, h, j) of %q[n, b, j]
    sum over b, h, j of %x[m, 32 * b + 16 * h + j] * %w[n, b, h, j]
                                      ->
    %q' = tensor.expand_shape %q : [n, s, b', j]
    %w' = linalg.generic (n, s, b', h, j) of %q'
    sum over b', h, j of %x[m, 32 * (size * s + b') + 16 * h + j] * %w'[n, s, b', h, j]

Sums of floats are taken in another order, as any schedule may; partial ones are kept in the
result's type, so only binary32 and integers are cut, and only where the sum begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import Float32Type, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, YieldOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_dynamic, static, typical
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    contraction_of,
    element_type,
    shape_of,
)
from xdsl_spirv.passes.analysis.sizes import loop_extents
from xdsl_spirv.passes.analysis.target import find_target
from xdsl_spirv.passes.analysis.values import is_weight, is_zero
from xdsl_spirv.passes.schedule.assign_schedule import cheapest, choose_rows
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.paths import ROWS, Decisions, Limits
from xdsl_spirv.passes.schedule.tensor_ops import make_generic, split_dimension
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

PARTS = (2, 4, 8, 16)
"""Into how many parts K may be cut: few enough that an invocation sums them by itself."""

WRITTEN_OUT = 8
"""Parts that are summed by an operation on elements, which joins what reads the sum."""


@dataclass(frozen=True)
class SplitReductionsPass(ModulePass):
    """Cuts contractions along K where workgroups are too few for the device."""

    name = "split-reductions"

    target: str = ""
    """A device's name or target file; without it the module's, or none: nothing is cut."""

    parts: int = 0
    """Cuts every contraction that can be cut into so many parts, without an estimate."""

    only: tuple[str, ...] = ()
    """The layers that alone may take a path, each as PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """The layers that may not take a path, each as PATH=PATTERN."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = find_target(self.target, op, self.name)
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
                _replace(cut, parts[key])

    def _key(self, cut: _Cut) -> tuple[object, ...]:
        """The key of the number of parts: with limits a contraction's own name, too."""
        values = [*cut.op.inputs, *(cut.source.inputs if cut.source is not None else ())]
        own = cut.op if self.only or self.barred else str(cut.contraction)
        maps = cut.op.indexing_maps
        return own, maps, *((value.type, is_weight(value)) for value in values)

    def _parts(self, cut: _Cut, target: Target | None) -> int:
        if self.parts:
            return self.parts if cut.divides(self.parts) else 1
        limits = Limits(self.only, self.barred)
        return _best(cut, target, limits) if target is not None else 1


@dataclass(frozen=True)
class _Cut:
    """A contraction, and the loop of K that may be cut into parts."""

    op: linalg.ops.GenericOp
    contraction: Contraction
    loop: int
    """The loop's number in the operation."""
    size: int
    unpacked: int | None = None
    """The operand that is computed from packed planes, A (0) or B (1); the loop counts blocks."""

    @property
    def source(self) -> linalg.ops.GenericOp | None:
        """The operation that computes the operand in packed planes."""
        if self.unpacked is None:
            return None
        source = self.op.inputs[self.unpacked].owner
        assert isinstance(source, linalg.ops.GenericOp)
        return source

    def divides(self, parts: int) -> bool:
        return self.size % parts == 0 and self.size > parts


def _cut_of(op: linalg.ops.GenericOp) -> _Cut | None:
    """Returns the cut of a contraction; None if it cannot be cut."""
    if SCHEDULE in op.attributes or not _sums_from_zero(op):
        return None
    try:
        contraction = contraction_of(op)
    except NotAContraction:
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
            if all(_indexes_one_dimension(op, i, loop) for i in (0, 1))
        ]
    else:
        loops = []
    if not loops:
        return None
    size, loop = max(loops)
    return _Cut(op, contraction, loop, size, unpacked)


def _sums_from_zero(op: linalg.ops.GenericOp) -> bool:
    """Whether the result begins at 0 and has a type whose sums may be kept in parts."""
    if len(op.outputs) != 1 or not isinstance(op.outputs[0].type, TensorType):
        return False
    element = op.outputs[0].type.element_type
    if not isinstance(element, Float32Type | IntegerType):
        return False
    init = op.outputs[0].owner
    return isinstance(init, linalg.ops.FillOp) and is_zero(init.inputs[0])


def _is_plain(value: SSAValue) -> bool:
    """True if an operand is stored in memory, not computed while it is read."""
    owner = value.owner
    if isinstance(owner, Block | arith.ConstantOp | tensor.ExpandShapeOp | tensor.CollapseShapeOp):
        return True
    return not value.has_one_use() or _follows_sum(owner)


def _follows_sum(op: Operation) -> bool:
    """Whether an operation is a sum, or reads a sum that has no other user."""
    if not isinstance(op, linalg.ops.GenericOp):
        return False
    return any(_reduced_loops(op)) or any(
        isinstance(x.owner, Operation) and x.has_one_use() and _follows_sum(x.owner)
        for x in op.inputs
    )


def _reduced_loops(op: linalg.ops.GenericOp) -> Iterator[tuple[int, int]]:
    """Yields the summed loops of static size, each with its size."""
    for loop, (kind, size) in enumerate(zip(op.iterator_types, loop_extents(op), strict=True)):
        if kind == IteratorTypeAttr.reduction() and size is not None and not is_dynamic(size):
            yield loop, size


def _dimension(map: AffineMap, loop: int) -> int | None:
    """Returns the dimension whose index is this loop alone; None if there is none."""
    for dim, expression in enumerate(map.results):
        if isinstance(expression, AffineDimExpr) and expression.position == loop:
            return dim
    return None


def _indexes_one_dimension(op: linalg.ops.GenericOp, operand: int, loop: int) -> bool:
    """True if the loop is the index of one operand dimension, and used in no other."""
    map = op.get_indexing_maps().data[operand].data
    dim = _dimension(map, loop)
    others = [e for at, e in enumerate(map.results) if at != dim]
    return dim is not None and not any(_uses(e, loop) for e in others)


def _uses(expression: object, loop: int) -> bool:
    dfs = getattr(expression, "dfs", None)
    return dfs is not None and any(
        isinstance(e, AffineDimExpr) and e.position == loop for e in dfs()
    )


def _best(cut: _Cut, target: Target, limits: Limits) -> int:
    """The number of parts with the least estimated time; 1 where cutting is not worthwhile."""
    contraction, model = cut.contraction, target.model.reductions
    batch, m, n = map(typical, (contraction.batch, contraction.m, contraction.n))
    tiles = ceil_div(m, model.usual_tile) * ceil_div(n, model.usual_tile) * batch
    least = typical(contraction.k) // model.least_depth
    few = tiles < target.compute_units or cut.source is not None
    if target.measured_copy is None or not few or least < 2:
        return 1
    if lookup(contraction, target) is not None:
        return 1
    may_take_rows = not Decisions(limits).bars(cut.op, ROWS)
    estimate = _seconds(cut.op, cut.source, target, limits, may_take_rows)
    if estimate is None:
        return 1
    whole, by_rows = estimate
    if by_rows and cut.source is None:
        # It divides K within a workgroup.
        return 1
    may_take_rows = may_take_rows and cut.source is not None
    from xdsl_spirv.passes.analysis.unpacking import unpacks

    least_seconds = _bytes_read(cut) / target.copy_bytes_per_second
    plain = cut.source is None or by_rows
    worthwhile = model.worthwhile if plain else model.worthwhile_of_blocks
    if max(whole, least_seconds) * worthwhile <= target.model.dispatch_seconds:
        return 1
    best = max(whole, least_seconds) * worthwhile, 1
    for parts in PARTS:
        if parts > least or not cut.divides(parts):
            continue
        trial = _parts_of(cut, parts)
        product = trial[-2]
        assert isinstance(product, linalg.ops.GenericOp)
        source = next((op for op in trial if op is not product and unpacks(op)), None)
        estimate = _seconds(product, source, target, limits, may_take_rows)
        for op in reversed(trial):
            op.drop_all_references()
        if estimate is None:
            continue
        seconds = max(estimate[0], least_seconds) + seconds_of_sum(contraction, parts, target)
        best = min(best, (seconds, parts))
    return best[1]


def seconds_of_sum(contraction: Contraction, parts: int, target: Target) -> float:
    """Likely duration of the sum of a contraction's parts, a dispatch of its own."""
    sizes = contraction.batch, contraction.m, contraction.n
    size = prod(map(typical, sizes)) * bit_width(contraction.element_types[2]) // 8
    # `cost` knows what storing results takes where their number is known.
    moves = 2 * parts if contraction.is_dynamic else parts + 1
    rate = target.model.reductions.cached * target.copy_bytes_per_second
    return target.model.dispatch_seconds + moves * size / rate


def _bytes_read(cut: _Cut) -> int:
    """Returns the bytes of both operands as stored in memory."""
    values = [*cut.op.inputs]
    if cut.source is not None and cut.unpacked is not None:
        values[cut.unpacked : cut.unpacked + 1] = cut.source.inputs
    return sum(
        prod(map(typical, shape_of(value))) * bit_width(element_type(value)) // 8
        for value in values
    )


def _seconds(
    op: linalg.ops.GenericOp,
    source: Operation | None,
    target: Target,
    limits: Limits,
    may_take_rows: bool,
) -> tuple[float, bool] | None:
    """
    Likely duration of a contraction in a dispatch, where operands may be packed, and whether it
    streams by few rows.

    `source` computes an operand from packed planes; it comes into the dispatch.
    """
    fill = op.outputs[0].owner
    assert isinstance(fill, linalg.ops.FillOp)
    whole = fill.outputs[0].owner
    type = op.outputs[0].type
    assert isinstance(type, TensorType)
    moved: list[Operation | Block] = [fill.inputs[0].owner, whole, fill, op]
    inputs = [*op.inputs]
    if isinstance(source, linalg.ops.GenericOp):
        moved[:0] = [source.outputs[0].owner, source]
        at = inputs.index(source.results[0])
        inputs[at : at + 1] = source.inputs
    block, inside = DispatchOp.open_body(inputs)
    for inner in moved:
        assert isinstance(inner, Operation)
        copy = inner.clone(inside)
        inside.update(zip(inner.results, copy.results, strict=True))
        block.add_op(copy)
    root = inside[op.results[0]].owner
    assert isinstance(root, linalg.ops.GenericOp)
    block.add_op(YieldOp(root.results[0]))
    dispatch = DispatchOp(inputs, [type], Region(block))
    try:
        contraction, decisions = contraction_of(root), Decisions(limits)
        rows = choose_rows(contraction, target, decisions) if may_take_rows else ""
        by_rows = not isinstance(rows, str)
        plan = rows if by_rows else cheapest(contraction, target, decisions)
        return plan.seconds, by_rows
    except (ScheduleDoesNotFit, NotAContraction):
        return None
    finally:
        dispatch.erase()


def _replace(cut: _Cut, parts: int) -> None:
    ops = _parts_of(cut, parts)
    for op in ops:
        op.location = cut.op.location
    Rewriter.insert_op(ops, InsertPoint.before(cut.op))
    Rewriter.replace_op(cut.op, [], ops[-1].results)


def _parts_of(cut: _Cut, parts: int) -> list[Operation]:
    """Builds the operations that replace the contraction; the last two multiply and sum."""
    op, loop = cut.op, cut.loop
    count = len(op.iterator_types)
    # The new loop, over the parts, comes first; the others keep their order.
    shifted = [AffineDimExpr(d + 1) for d in range(count)]
    ops: list[Operation] = []
    operands: list[SSAValue] = []
    maps: list[AffineMap] = []
    # In an operand that stays as it is, both loops of the cut count through one dimension.
    both: list[AffineExpr] = [*shifted]
    both[loop] = AffineDimExpr(0) * (cut.size // parts) + AffineDimExpr(loop + 1)
    for number, value in enumerate(op.inputs):
        map_ = op.get_indexing_maps().data[number].data
        dim = _dimension(map_, loop)
        is_cut = number == cut.unpacked
        if dim is None or not (is_cut or _is_static(value)):
            operands.append(value)
            maps.append(map_.replace_dims_and_symbols(both, [], count + 1, 0))
            continue
        ops += _with_loop_cut(value, dim, parts) if is_cut else [split_dimension(value, dim, parts)]
        operands.append(ops[-1].results[0])
        moved = map_.replace_dims_and_symbols(shifted, [], count + 1, 0)
        results = (*moved.results[:dim], AffineDimExpr(0), *moved.results[dim:])
        maps.append(AffineMap(count + 1, 0, results))
    out = op.get_indexing_maps().data[-1].data.replace_dims_and_symbols(shifted, [], count + 1, 0)
    maps.append(AffineMap(count + 1, 0, (AffineDimExpr(0), *out.results)))
    final = op.outputs[0].type
    assert isinstance(final, TensorType)
    partial = TensorType(final.element_type, [parts, *final.get_shape()])
    fill = op.outputs[0].owner
    assert isinstance(fill, linalg.ops.FillOp)
    whole = fill.outputs[0].owner
    assert isinstance(whole, tensor.EmptyOp)
    empty = tensor.EmptyOp(whole.dynamic_sizes, partial)
    zeros = linalg.ops.FillOp([fill.inputs[0]], [empty.tensor], [partial])
    kinds = IteratorTypeAttr.parallel(), *op.get_iterator_types()
    product = make_generic(operands, zeros.results[0], maps, op.body.clone(), kinds)
    if parts <= WRITTEN_OUT:
        total = _sum_by_elements(product.results[0], whole.tensor, parts, final)
    else:
        total = _sum_of(product.results[0], op.outputs[0], final)
    return [*ops, empty, zeros, product, total]


def _loop_over_blocks(op: linalg.ops.GenericOp, operand: int) -> list[tuple[int, int]]:
    """
    Returns size and number of the outermost loop of K if the operand may be cut there.

    It may not if its values depend on the loop's count, or the loop counts through units' elements.
    """
    source, map_ = op.inputs[operand].owner, op.get_indexing_maps().data[operand].data
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


def _with_loop_cut(value: SSAValue, dim: int, parts: int) -> list[Operation]:
    """Builds an operand's operations with loop `dim` split in two: `parts`, and inside one."""
    op = value.owner
    assert isinstance(op, linalg.ops.GenericOp)
    *reads, _ = (attribute.data for attribute in op.get_indexing_maps())
    count = len(op.iterator_types) + 1
    moved = [AffineDimExpr(d + (d >= dim)) for d in range(count - 1)]
    ops: list[Operation] = []
    planes: list[SSAValue] = []
    maps: list[AffineMap] = []
    for plane, read in zip(op.inputs, reads, strict=True):
        results = [*read.replace_dims_and_symbols(moved, [], count, 0).results]
        if AffineDimExpr(dim) in read.results:
            at = read.results.index(AffineDimExpr(dim))
            ops.append(split_dimension(plane, at, parts))
            plane = ops[-1].results[0]
            results.insert(at, AffineDimExpr(dim))
        planes.append(plane)
        maps.append(AffineMap(count, 0, (*results,)))
    shape = list(static(shape_of(value)))
    shape[dim : dim + 1] = [parts, shape[dim] // parts]
    assert isinstance(value.type, TensorType)
    empty = tensor.EmptyOp([], TensorType(value.type.element_type, shape))
    body = op.body.clone()
    for index in body.block.ops:
        if isinstance(index, linalg.ops.IndexOp) and index.dim.value.data > dim:
            index.dim = IntegerAttr(index.dim.value.data + 1, index.dim.type)
    unpack = make_generic(planes, empty.tensor, (*maps, AffineMap.identity(count)), body)
    return [*ops, empty, unpack]


def _is_static(value: SSAValue) -> bool:
    return not any(map(is_dynamic, shape_of(value)))


def _sum_of(parts: SSAValue, init: SSAValue, type: TensorType[Attribute]) -> linalg.ops.GenericOp:
    """Builds the sum over the first dimension, which begins at `init`'s zeros."""
    rank = len(type.get_shape())
    element = type.element_type
    block = Block(arg_types=[element, element])
    kind = arith.AddiOp if isinstance(element, IntegerType) else arith.AddfOp
    total = kind(block.args[1], block.args[0])
    block.add_ops([total, linalg.ops.YieldOp(total.results[0])])
    # The parts are summed in the innermost loop.
    results = tuple(AffineDimExpr(d) for d in range(rank))
    maps = (
        AffineMap(rank + 1, 0, (AffineDimExpr(rank), *results)),
        AffineMap(rank + 1, 0, results),
    )
    return make_generic([parts], init, maps, block)


def _sum_by_elements(
    parts: SSAValue, empty: SSAValue, count: int, type: TensorType[Attribute]
) -> linalg.ops.GenericOp:
    """Sums the first dimension by one elementwise operation, which its reader can fuse."""
    rank = len(type.get_shape())
    element = type.element_type
    block = Block(arg_types=[element] * (count + 1))
    kind = arith.AddiOp if isinstance(element, IntegerType) else arith.AddfOp
    total: SSAValue = block.args[0]
    for part in block.args[1:count]:
        add = kind(total, part)
        block.add_op(add)
        total = add.results[0]
    block.add_op(linalg.ops.YieldOp(total))
    identity = AffineMap.identity(rank)
    reads = [AffineMap(rank, 0, (AffineConstantExpr(n), *identity.results)) for n in range(count)]
    return make_generic([parts] * count, empty, (*reads, identity), block)
