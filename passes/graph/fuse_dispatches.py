"""
Fuses two dispatches into one: a producer and the consumer of its result, or independent ones.

    %h = schedule.dispatch(%x) { f }           %r = schedule.dispatch(%x, %w) {
    %r = schedule.dispatch(%h, %w) { g }  ->     %h = f(%x)
                                                 g(%h, %w) }

The calling passes decide which dispatches to fuse, and check that one kernel can run them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, i64
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from xdsl_spirv.dialects.schedule import CONSIDERED, SCHEDULE, UPDATES, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.analysis.linalg_code import tensor_type
from xdsl_spirv.passes.analysis.sizes import SizeCode, extents, listed_sizes, number
from xdsl_spirv.passes.graph.own_results import VIEWS, readers_of, source


def copy_to_dispatch(ops: Sequence[Operation]) -> DispatchOp:
    """
    Builds a dispatch that contains copies of operations and returns the last operation's results.
    """
    made = {value for op in ops for value in op.results}
    inputs = list(dict.fromkeys(v for op in ops for v in op.operands if v not in made))
    block, inside = DispatchOp.open_body(inputs)
    for op in ops:
        block.add_op(op.clone(inside))
    block.add_op(YieldOp(*(inside[value] for value in ops[-1].results)))
    return DispatchOp(inputs, ops[-1].result_types, Region(block))


def views_of(value: SSAValue) -> list[Operation]:
    """Returns the reshapes between a value and its source tensor, the last reshape first."""
    views: list[Operation] = []
    while isinstance(value.owner, VIEWS):
        views.append(value.owner)
        value = value.owner.operands[0]
    return views


def fuse(first: DispatchOp, second: DispatchOp, read: SSAValue | None = None) -> DispatchOp:
    """
    Builds one dispatch from two, without inserting it into the block.

    `read` is an operand of the second dispatch. The first dispatch must have a single result, and
    `read` is this result or a view of it; the result then stays inside the kernel. Without `read`,
    the fused dispatch also returns the first dispatch's `stored_results`.
    """
    between = [value for value in second.inputs if source(value).owner is first]
    views = list(dict.fromkeys(v for value in between for v in reversed(views_of(value))))
    sizes = {v: number(v) for view in views for v in view.operands if isinstance(v.type, IndexType)}
    inputs = [*first.inputs, *(value for value in second.inputs if value not in between)]
    inputs += [e.value for size in sizes.values() if is_dynamic(size) for e in size.extents]
    inputs = [v for v in dict.fromkeys(inputs) if v.owner is not first]
    block, inside = DispatchOp.open_body(inputs)
    inside |= zip(first.results, _clone_body(first, block, inside), strict=True)
    code = SizeCode(block.add_op, inside)
    for view in views:
        inside |= {v: code.value(sizes[v]) for v in view.operands if v in sizes}
        block.add_op(view.clone(inside))
    kept = [] if read is not None else stored_results(first, second)
    last = _clone_body(second, block, inside)
    block.add_op(YieldOp(*(inside[value] for value in kept), *last))
    stored = *kept, *second.results
    fused = DispatchOp(inputs, [result.type for result in stored], Region(block))
    # A dispatch with a loop schedule passes on no attributes: that schedule is for its own loops.
    main = second if SCHEDULE in first.attributes else first
    fused.attributes.update(main.attributes)
    fused.location = main.location
    updated = {
        dispatch.results[number]: inputs.index(dispatch.inputs[operand])
        for dispatch in (first, second)
        for number, operand in dispatch.updates.items()
    }
    updates = [updated.get(result, -1) for result in stored]
    fused.attributes[UPDATES] = DenseArrayBase.from_list(i64, updates)
    if max(updates) < 0:
        del fused.attributes[UPDATES]
    if read is not None:
        for op in block.ops:
            if SCHEDULE not in op.attributes:
                op.attributes.pop(CONSIDERED, None)
    return fused


def stored_results(first: DispatchOp, second: DispatchOp) -> list[OpResult]:
    """Returns the first dispatch's results that are states, or that other operations read."""
    return [
        result
        for number, result in enumerate(first.results)
        if number in first.updates or set(readers_of(result)) != {second}
    ]


def _clone_body(
    dispatch: DispatchOp, block: Block, given: dict[SSAValue, SSAValue]
) -> Sequence[SSAValue]:
    """
    Clones a dispatch's operations to the end of a block; `given` maps its inputs to values of the
    block. Returns the clones of the yielded values.
    """
    inside: dict[SSAValue, SSAValue] = {
        argument: given[value]
        for argument, value in zip(dispatch.body.block.args, dispatch.inputs, strict=True)
    }
    for op in dispatch.body.block.ops:
        if not isinstance(op, YieldOp):
            block.add_op(op.clone(inside))
    return [inside[value] for value in dispatch.yielded]


def part_of_columns(
    op: tensor.ExtractSliceOp, outside: Callable[[Size], Size] = lambda size: size
) -> tuple[int, int] | None:
    """
    Returns (number of parts, index of the part) if a slice is an equal part of the last dimension.

    Returns None for any other slice. `outside` converts sizes to the form in which they are
    compared.
    """
    whole, size = (tensor_type(v).get_shape()[-1] for v in (op.source, op.result))
    *begins, begin = op.static_offsets.iter_values()
    rows = zip(listed_sizes(op.static_sizes, op.sizes)[:-1], extents(op.source), strict=False)
    if any(begins) or set(op.static_strides.iter_values()) != {1}:
        return None
    if tensor_type(op.result).get_num_dims() <= len(begins):
        return None
    if any(outside(length) != outside(all_rows) for length, all_rows in rows):
        return None
    if DYNAMIC_INDEX in (whole, size, begin) or whole % size or begin % size:
        return None
    return whole // size, begin // size
