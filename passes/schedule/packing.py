"""
Packs each operand that a schedule reads directly or in panels, in a dispatch before its readers.

    %r = schedule.dispatch(%A, %B) {          %p = schedule.dispatch(%B) { schedule.pack }
      ... matmul {schedule = #schedule.   ->  %r = schedule.dispatch(%A, %p) {
          contraction<..., b = direct>}         %b = schedule.packed_view %p
    }                                           ... matmul ins(%a, %b) }

A packed weight does not change from run to run. `plan_pack` plans the kernel that packs an operand
into fragments or panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    DispatchOp,
    PackedSizes,
    PackedViewOp,
    PackingAttr,
    PackOp,
    StagedAttr,
    YieldOp,
    bit_width,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_dynamic,
    is_multiple,
    named_sizes,
    surely_below,
    symbol,
)
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import NotAContraction, element_type, packing_of
from xdsl_spirv.passes.analysis.layout import layout_of
from xdsl_spirv.passes.analysis.linalg_code import Code
from xdsl_spirv.passes.analysis.sizes import SizeCode, extents, number, size_outside
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.kinds import KernelPlan, ScheduleDoesNotFit, kind_of, plan_of
from xdsl_spirv.passes.schedule.plan import UNROLLED, Plan, row_panels
from xdsl_spirv.passes.schedule.tiles import (
    PackedTile,
    StagedTile,
    column_walk,
    k_axis_of,
    staged_tile,
    widest_vector,
)
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class PackPlan(KernelPlan):
    """
    A kernel that packs an operand into fragments, or into panels (fragments of one row).

    `staged` is a workgroup's tile in Workgroup memory. It has `counts` fragments along M or N, and
    along K.
    """

    sizes: PackedSizes
    target: Target
    subgroups: int
    staged: StagedTile
    counts: tuple[int, int]

    @property
    def packing(self) -> PackingAttr:
        return self.sizes.packing

    @property
    def tile(self) -> PackedTile:
        return PackedTile(self.packing, self.staged.element_type, self.target.subgroup_size)

    @property
    def depth(self) -> int:
        """Number of a workgroup's elements along K."""
        return self.counts[1] * self.packing.fragment_sizes[1]

    @property
    def vector(self) -> int:
        """
        Number of elements that an invocation stores at a time, if operands are packed into panels.
        """
        return widest_vector(self.staged.element_bytes, self.depth)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along each axis: M or N, K, and batch."""
        batch, inner, outer, _ = self.sizes.shape
        return outer // self.counts[0], inner // self.counts[1], batch

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def kernel_name(self) -> str:
        return f"pack_{named_sizes(self.sizes.extents[1:])}"


def plan_pack(op: PackOp, target: Target) -> PackPlan:
    """Plans the kernel that packs a tensor or memref."""
    sizes = op.packing.sized([number(value) for value in op.numbers])
    model, (outer_size, inner_size) = target.model.packing, op.packing.fragment_sizes
    _, inner_count, outer_count, _ = sizes.shape
    if op.packing.is_panels:
        bytes, subgroups = bit_width(element_type(op.source)) // 8, model.subgroups
        vector = widest_vector(bytes, inner_size)
        invocations = subgroups * target.subgroup_size
        most = min(UNROLLED * vector * invocations, model.tile_bytes // bytes) // inner_size
        few = (r for r in (64, 32, 16, 8, 4, 2, 1) if is_multiple(outer_count, r))
        counts = next(r for r in few if r <= most or r == 1), 1
        # An operand that runs across K is transposed element by element.
        run = 1, vector
    else:
        subgroups = next(n for n in (model.subgroups, 2, 1) if is_multiple(outer_count, n))
        counts = subgroups, next(n for n in (model.depth, 2, 1) if is_multiple(inner_count, n))
        run = outer_size, inner_size
    staged = _stage_operand(op.source, sizes, counts, run)
    return PackPlan(sizes, target, subgroups, staged, counts)


def _stage_operand(
    source: SSAValue,
    sizes: PackedSizes,
    counts: tuple[int, int],
    rows: tuple[int, int],
) -> StagedTile:
    """
    Returns the tile that a workgroup packs, of `counts` fragments along M or N, and along K.

    `rows` are two lengths in elements: a vector must divide the first if the tile's columns run
    along M or N, and the second if they run along K.
    """
    packing, element = sizes.packing, element_type(source)
    layout = layout_of(packing.map.data, extents(source), None, sizes.sizes, packing.loops)
    axis, bytes = k_axis_of(layout), bit_width(element) // 8
    path = StagedAttr(16 // bytes, widest_vector(bytes, layout.run(column_walk(axis)), rows[axis]))
    shape = (count * size for count, size in zip(counts, packing.fragment_sizes, strict=True))
    pairs = list(zip(shape, sizes.extents[1:], strict=True))
    tile = staged_tile(path, element, pairs[0], pairs[1], layout)
    _, inner, outer, _ = sizes.shape
    tiles = outer // counts[0], inner // counts[1]
    # Tiles beyond the operand are packed as zeros.
    beyond = [
        not surely_below(number, ceil_div(extent, size) + 1)
        for number, (size, extent) in zip(tiles, pairs, strict=True)
    ]
    return replace(tile, beyond=(beyond[1 - axis], beyond[axis]))


Packed: TypeAlias = dict[tuple[SSAValue, PackingAttr, tuple[Size, ...]], SSAValue]
"""Maps (source, packing, dynamic sizes) to the result of the dispatch that packs the source."""


@dataclass(frozen=True)
class PackOperandsPass(ModulePass):
    """Packs every operand whose path in the schedule is `direct` or uses panels."""

    name = "pack-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        packed: Packed = {}
        for root in [o for o in op.walk() if (s := schedule_of(o)) is not None and s.packs]:
            try:
                plan = plan_of(root, target_of(op, self.name))
            except (NotAContraction, ScheduleDoesNotFit) as error:
                refuse(self.name, root, str(error))
            for reader, at, packing, sizes in plan.packings():
                value = reader.operands[at]
                if packing_of(value) is not None:
                    continue
                dispatch = reader.parent_op()
                if not isinstance(dispatch, DispatchOp):
                    message = "the operation is not in a schedule.dispatch: run form-dispatches"
                    refuse(self.name, reader, f"{message} first")
                if not isinstance(value, BlockArgument):
                    message = "the dispatch computes an operand that its schedule packs: use staged"
                    refuse(self.name, reader, message)
                indices = [value for value in reader.operands if isinstance(value.type, IndexType)]
                known = {number(index): index for index in reversed(indices)}
                numbers = [known[size] for size in sizes]
                source = _pack_operand(dispatch, value, packing, packed, numbers)
                argument = dispatch.add_operand(source)
                argument.name_hint = f"{value.name_hint or 'operand'}_packed"
                view = PackedViewOp(argument, packing, value.type, numbers)
                Rewriter.insert_op(view, InsertPoint.before(reader))
                reader.operands[at] = view.result
            if isinstance(plan, Plan) and (rows := row_panels(plan)) is not None:
                _write_in_panels(root, *rows, plan.target)
            if isinstance(dispatch := root.parent_op(), DispatchOp):
                dispatch.drop_unread_operands()


def _write_in_panels(
    reader: Operation, value: SSAValue, packing: PackingAttr, target: Target
) -> None:
    """Lets the dispatch of loops that computes an operand store panels, if it has one reader."""
    dispatch = reader.parent_op()
    if not isinstance(dispatch, DispatchOp) or not isinstance(value, BlockArgument):
        return
    result = dispatch.inputs[value.index]
    writer, number = result.owner, list(reader.operands).index(value)
    if not isinstance(writer, DispatchOp) or kind_of(writer) != "loops" or writer.updates:
        return
    if not result.has_one_use() or not value.has_one_use():
        return
    from xdsl_spirv.passes.schedule.loops_schedule import choose_loops

    assert isinstance(result, OpResult)
    last, type = writer.body.block.last_op, value.type
    assert last is not None
    code, stored = Code(last), last.operands[result.index]
    empty = code.empty(packing.shape, element_type(stored))
    _, panel, row, place = map(AffineDimExpr, range(4))
    read = AffineMap(4, 0, (row, panel * packing.fragment_sizes[1] + place))
    whole = [read, AffineMap.identity(4)]
    last.operands[result.index] = code.generic([stored], empty, whole, lambda b, v: v[0])
    writer.attributes[SCHEDULE] = choose_loops(writer, target, PackOperandsPass.name)
    Rewriter.replace_value_with_new_type(result, empty.type)
    argument = Rewriter.replace_value_with_new_type(value, empty.type)
    view = PackedViewOp(argument, packing, type)
    Rewriter.insert_op(view, InsertPoint.before(reader))
    reader.operands[number] = view.result


def _pack_operand(
    dispatch: DispatchOp,
    value: BlockArgument,
    packing: PackingAttr,
    packed: Packed,
    numbers: Sequence[SSAValue],
) -> SSAValue:
    """
    Returns the operand in the form of `packing`, from an existing dispatch in `packed` or a new
    one. `numbers` are the packing's dynamic sizes.
    """
    source = dispatch.inputs[value.index]
    sizes = tuple(size_outside(number(value), dispatch, symbol) for value in numbers)
    key = (source, packing, sizes)
    if key in packed:
        return packed[key]
    assert isa(source.type, TensorType)
    asked = [extent.value for size in sizes if is_dynamic(size) for extent in size.extents]
    inputs = list(dict.fromkeys([source, *asked]))
    block, inside = DispatchOp.open_body(inputs)
    code = SizeCode(block.add_op, inside)
    empty = code.empty(packing.sized(sizes).shape, source.type.element_type)
    pack = PackOp(block.args[0], empty, packing, [code.value(size) for size in sizes])
    assert pack.result is not None
    block.add_ops([pack, YieldOp(pack.result)])
    packer = DispatchOp(inputs, [empty.type], Region(block))
    packer.outputs[0].name_hint = f"{source.name_hint or 'operand'}_packed"
    packer.location = dispatch.location
    # A packing with static sizes is placed after the definition, before every reader.
    owner = source.owner
    early = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    Rewriter.insert_op(packer, InsertPoint.before(dispatch) if asked else early)
    packed[key] = packer.outputs[0]
    return packer.outputs[0]
