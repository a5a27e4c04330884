"""
Groups operations that are not contractions into kernels.

    %m = max over a row of %x
    %e = exp(%x - %m)                     one dispatch: a group of invocations for each row,
    %s = sum over a row of %e       ->    maximum, sum, quotients
    %r = %e / %s

A group grows from its last operation backwards, by operations whose users are all in the group. So
a result that only this group reads is not stored. Reductions may share a kernel if they reduce the
same rows. An operation is left out if each of its readers would recompute it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule import SCHEDULE, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, typical
from xdsl_spirv.passes.analysis.combinations import combinations_of
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.linalg_code import make_generic, maps_of, yields_of
from xdsl_spirv.passes.analysis.loops_arrays import Loops, NotLoops
from xdsl_spirv.passes.analysis.loops_nests import INNER, Nest, all_reductions_of, nests_of
from xdsl_spirv.passes.analysis.loops_reader import results_of_operations
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.sizes import extents, loop_extents
from xdsl_spirv.passes.analysis.values import erase_unused_ops, operands_of
from xdsl_spirv.passes.graph.grouping import Group, is_cheap, typical_size, users_of

MOVES = (
    tensor.PadOp,
    tensor.ExtractSliceOp,
    tensor.InsertSliceOp,
    tensor.ConcatOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.CastOp,
)
"""Operations that only move or view elements."""

RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.CastOp)
"""Operations that need no kernel."""

LARGEST = 96
"""Maximum number of operations of a group."""

MOST_COMPUTED = 32
"""Maximum number of `linalg` operations of a group: kernels limit the length of a chain."""

MOST_NUMBERS = 32
"""Maximum number of dynamic sizes and offsets of a kernel: push constants have room for 32."""

MOST_INPUTS = 12
"""Maximum number of buffers that a kernel reads, because devices limit bindings."""

CHEAP = 8
"""Maximum number of instructions of a result that each of its readers may recompute."""

FUNCTION = 16
"""Estimated number of instructions of a `math` function."""

ROUND = (math.FloorOp, math.CeilOp, math.TruncOp, math.RoundEvenOp, math.AbsFOp, math.FmaOp)
"""The `math` operations that a device computes with a single instruction."""

FEWEST_KEPT, MOST_KEPT = 32, 1 << 14
"""Minimum and maximum length of a row that a workgroup holds in registers to reduce it."""

LEAST_ROWS = 32
"""
Minimum number of rows for fusing a sum with the norm that reads the sum. With fewer rows, the norm
is fused into a product.
"""

LEAST_ROUNDED_ROWS = 8
"""`LEAST_ROWS` for a norm that is rounded to 16 bits, which matrix products cannot compute."""

MOST_REPEATED = 4
"""Maximum number of times that a kernel recomputes a row's reduction."""

FEW_ROWS, LONG_ROW = 16, 1 << 16
"""For at most this many rows of at least this length, a workgroup for each row is too slow."""


def form_loops(root: Operation, computes: Callable[[Operation], bool]) -> None:
    """
    Makes a dispatch of an operation and of cheap producers whose results nothing else reads.
    `computes` tells which operations may be fused.
    """
    group = Group(root)
    _grow(group, operands_of(root), computes)
    _add_kept(group, computes)
    _leave_reshapes(group)
    group.contract()


def _grow(group: Group, values: Sequence[SSAValue], computes: Callable[[Operation], bool]) -> None:
    """
    Adds to the group the producers of values that only the group reads, and their producers.
    `computes` tells which operations may be added.
    """
    waiting = list(values)
    while waiting and len(group.members) < LARGEST:
        owner = waiting.pop(0).owner
        if owner in group or not isinstance(owner, Operation) or not _is_candidate(owner, group):
            continue
        if not (isinstance(owner, RESHAPES) or computes(owner)) or _repeats(owner, group):
            continue
        group.add(owner)
        if _fits(group):
            waiting += operands_of(owner)
        else:
            del group.members[owner]


def _add_kept(group: Group, computes: Callable[[Operation], bool]) -> None:
    """
    Adds a tensor's producer to the group although other groups read the tensor, if a workgroup can
    hold the tensor's rows in registers.

      %x = %a + %b                                 one dispatch: an invocation holds its elements
      %r = %x / root of the mean of %x * %x   ->   of %x in registers, and stores %x and %r
      %y = f(%x), in another group                 another dispatch, which loads %x
    """
    if not any(map(_reduces, group.members)):
        return
    for value in dict.fromkeys(v for op in group.ordered() for v in group.outside(op)):
        owner = value.owner
        if not isinstance(owner, linalg.ops.GenericOp) or not computes(owner):
            continue
        if not _is_kept(owner, group) or _is_needed_between(owner, group):
            continue
        group.add(owner)
        if _fits(group) and _is_one_nest(group):
            _grow(group, operands_of(owner), lambda op: computes(op) and _reads_rows(op))
        else:
            del group.members[owner]


def _reads_rows(op: Operation) -> bool:
    """True if an elementwise operation reads each operand contiguously along a row."""
    if not isinstance(op, linalg.ops.GenericOp) or not is_pointwise(op):
        return False
    *reads, write = (map.data for map in op.get_indexing_maps())
    if write != AffineMap.identity(write.num_dims) or write.num_dims < 2:
        return False
    last = AffineDimExpr(write.num_dims - 1)
    return all(last not in read.results[:-1] for read in reads)


def _is_kept(op: linalg.ops.GenericOp, group: Group) -> bool:
    """
    True if a group may also compute the operation's result: a workgroup can hold a row of it in
    registers.
    """
    if op.parent_block() is not group.block or SCHEDULE in op.attributes:
        return False
    if not _reads_rows(op) or _cost(op) > CHEAP or len(group.members) >= LARGEST:
        return False
    *rows, columns = extents(op.results[0])
    if is_dynamic(columns) or not FEWEST_KEPT <= columns <= MOST_KEPT:
        return False
    element = element_type(group.root.results[0])
    least = LEAST_ROWS if bit_width(element) > 16 else LEAST_ROUNDED_ROWS
    return typical(prod(rows)) >= least


def _is_needed_between(op: Operation, group: Group) -> bool:
    """
    True if an operation outside of the group depends on `op`, and the group depends on that
    operation.
    """
    direct, tainted = set(op.results), set[SSAValue]()
    last = group.ordered()[-1]
    following = op.next_op
    while following is not None:
        reads = operands_of(following)
        if following in group:
            if not tainted.isdisjoint(reads):
                return True
        elif not (direct.isdisjoint(reads) and tainted.isdisjoint(reads)):
            tainted.update(following.results)
        if following is last:
            return False
        following = following.next_op
    return True


def _is_one_nest(group: Group) -> bool:
    """True if a group stores results of one shape and reduces only along their rows."""
    _, results = results_of_operations(group.ordered(), group.results())
    nests = nests_of(results)
    if len(nests) != 1:
        return False
    (nest,) = nests
    rows = frozenset(axis for axis, size in enumerate(nest.shape[:-1]) if size != 1)
    return all(
        combinations_of(loops) is not None and needed == rows
        for loops, needed in all_reductions_of(nest)
    )


def drop_unused_results(op: Operation) -> None:
    """
    Removes the unused results of a `linalg.generic` that no other result needs.

    Front ends compute a maximum together with its index, and most programs need only the maximum.
    """
    if not isinstance(op, linalg.ops.GenericOp) or len(op.res) < 2:
        return
    block, first = op.body.block, len(op.inputs)
    last = block.last_op
    assert last is not None
    kept = [number for number, result in enumerate(op.res) if result.first_use is not None]
    unused = [number for number in range(len(op.res)) if number not in kept]
    needed = {last.operands[number] for number in kept}
    for inner in reversed(list(block.ops)):
        if inner is not last and any(result in needed for result in inner.results):
            needed.update(v for nested in inner.walk() for v in nested.operands)
    if not kept or not unused or any(block.args[first + number] in needed for number in unused):
        return
    body = op.body.clone()
    copy = body.block
    end = linalg.ops.YieldOp(*(yields_of(copy)[number] for number in kept))
    Rewriter.replace_op(copy.last_op, end, [])  # pyright: ignore
    erase_unused_ops(copy, lambda _: True)
    for number in reversed(unused):
        copy.erase_arg(copy.args[first + number])
    numbers = [*range(first), *(first + number for number in kept)]
    maps = maps_of(op)
    outputs, read = [op.outputs[number] for number in kept], [maps[number] for number in numbers]
    generic = make_generic(op.inputs, outputs, read, body, op.get_iterator_types())
    generic.location = op.location
    results = iter(generic.results)
    replaced = [next(results) if number in kept else None for number in range(len(op.res))]
    Rewriter.replace_op(op, generic, replaced)


def _is_candidate(op: Operation, group: Group) -> bool:
    """True if no dispatch contains the operation yet, and only the group reads its results."""
    if op.parent_block() is not group.block or SCHEDULE in op.attributes:
        return False
    if not isinstance(op, (LinalgStructuredOperation, *MOVES)) or _is_cheap(op):
        return False
    if not all(isinstance(value.type, TensorType) for value in op.results):
        return False
    members = set(group.members)
    users = set[Operation]().union(*(users_of(value, group.block) for value in op.results))
    if isinstance(op, tensor.InsertSliceOp) and isinstance(op.dest, BlockArgument):
        # An insertion that updates a state in place is fused only with the inserted elements, and
        # with the next insertions of parts of the same tensor.
        inserted = _find_whole(op.source)
        for other in (group.root, *users):
            if (
                not isinstance(other, tensor.InsertSliceOp)
                or _find_whole(other.source) is not inserted
            ):
                return False
    return users <= members


def _find_whole(value: SSAValue) -> SSAValue:
    """Returns the tensor from which slices and reshapes make the value."""
    while isinstance(owner := value.owner, (tensor.ExtractSliceOp, *RESHAPES)):
        value = owner.operands[0]
    return value


def _is_cheap(op: Operation) -> bool:
    return isinstance(op, linalg.ops.FillOp)


def _repeats(op: Operation, group: Group) -> bool:
    """True if the group would compute an expensive element more than once."""
    if _cost(op) <= CHEAP or _after_reduction(op, group.block, 8):
        return False
    count = min(typical_size(value) for value in op.results)
    for value in op.results:
        for user in users_of(value, group.block):
            if value not in user.operands:
                return True
            if _points(user) > 2 * count:
                return True
    return False


def _cost(op: Operation) -> int:
    return sum(_instructions(o) for region in op.regions for b in region.blocks for o in b.ops)


def _instructions(op: Operation) -> int:
    if isinstance(op, arith.ConstantOp | linalg.ops.IndexOp | linalg.ops.YieldOp):
        return 0
    if op.name.startswith("math."):
        return 1 if isinstance(op, ROUND) else FUNCTION
    return 4 if isinstance(op, arith.DivfOp | arith.DivSIOp | arith.DivUIOp) else 1


def _after_reduction(op: Operation, block: Block, steps: int) -> bool:
    """True if an operation reduces, or reads a reduction through at most `steps` operations."""
    if _reduces(op):
        return True
    return steps > 0 and any(
        isinstance(value.owner, (LinalgStructuredOperation, *RESHAPES))
        and value.owner.parent_block() is block
        and _after_reduction(value.owner, block, steps - 1)
        for value in op.operands
    )


def _reduces(op: Operation) -> bool:
    return isinstance(op, LinalgStructuredOperation) and _points(op) > min(
        typical_size(value) for value in op.results
    )


def _points(op: Operation) -> int:
    if isinstance(op, linalg.ops.GenericOp):
        sizes = loop_extents(op)
        if None not in sizes:
            return typical(prod(size for size in sizes if size is not None))
    return max(
        typical_size(v) for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)
    )


def count_numbers(inputs: Iterable[SSAValue]) -> int:
    """Returns the number of indices and of different dynamic sizes among a kernel's inputs."""
    sizes, indices = set[Size](), 0
    for value in inputs:
        if isinstance(value.type, TensorType):
            sizes.update(filter(is_dynamic, extents(value)))
        indices += isinstance(value.type, IndexType)
    return indices + len(sizes)


def _count_computed(group: Group) -> int:
    return sum(isinstance(op, linalg.ops.GenericOp) for op in group.members)


def _fits(group: Group) -> bool:
    """True if one kernel can run the group: few buffers, and reductions of the same rows."""
    inputs = {v for op in group.members for v in group.outside(op)}
    few = count_numbers(inputs) <= MOST_NUMBERS and _count_computed(group) <= MOST_COMPUTED
    if sum(not is_cheap(value) for value in inputs) > MOST_INPUTS or not few:
        return False
    try:
        _, results = results_of_operations(group.ordered(), group.results())
        nests = nests_of(results)
    except NotLoops:
        return False
    return all(map(_agrees, nests))


def _agrees(nest: Nest) -> bool:
    reductions = all_reductions_of(nest)
    if any(_recomputes(loops, rows, nest) for loops, rows in reductions):
        return False
    if len(reductions) < 2:
        return not any(INNER in rows for _, rows in reductions)
    kinds = {
        frozenset(a for a in rows if a == INNER or nest.shape[a] != 1) for _, rows in reductions
    }
    if len(kinds) > 1 or any(INNER in rows for rows in kinds):
        return False
    (rows,) = kinds
    count = typical(prod(nest.shape[axis] for axis in rows))
    return not (count < FEW_ROWS and typical(prod(nest.shape)) // max(1, count) > LONG_ROW)


def _recomputes(loops: Loops, rows: frozenset[int], nest: Nest) -> bool:
    """True if a kernel would compute a costly reduction of one row again for many results."""
    steps = prod(loops.reduced)
    if INNER in rows or typical(steps) <= CHEAP:
        return False
    count = prod(nest.shape[axis] for axis in rows)
    return typical(count * steps) > MOST_REPEATED * typical(prod(loops.sizes))


def _leave_reshapes(group: Group) -> None:
    changed = True
    while changed:
        changed = False
        for op in list(group.members):
            if isinstance(op, RESHAPES) and not group.produces(op.operands[0]):
                del group.members[op]
                changed = True
