"""
Packs each operand that a schedule reads directly or in panels, in a dispatch before its readers.

    %r = schedule.dispatch(%A, %B) {          %p = schedule.dispatch(%B) { schedule.pack }
      ... matmul {schedule = #schedule.   ->  %r = schedule.dispatch(%A, %p) {
          contraction<..., b = direct>}         %b = schedule.packed_view %p
    }                                           ... matmul ins(%a, %b) }

A packed weight does not change from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.dialects.schedule import (
    DispatchOp,
    PackedViewOp,
    PackingAttr,
    PackOp,
    YieldOp,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic, symbol
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import NotAContraction, packing_of
from xdsl_spirv.passes.analysis.sizes import SizeCode, number
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit, plan_of

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
                numbers = _numbers_of_sizes(reader, sizes)
                source = _pack_operand(dispatch, value, packing, packed, numbers)
                argument = dispatch.add_operand(source)
                argument.name_hint = f"{value.name_hint or 'operand'}_packed"
                view = PackedViewOp(argument, packing, value.type, numbers)
                Rewriter.insert_op(view, InsertPoint.before(reader))
                reader.operands[at] = view.result
            if isinstance(dispatch := root.parent_op(), DispatchOp):
                dispatch.drop_unread_operands()


def _pack_operand(
    dispatch: DispatchOp,
    value: BlockArgument,
    packing: PackingAttr,
    packed: Packed,
    numbers: Sequence[SSAValue],
) -> SSAValue:
    """Returns the packed operand, from an existing dispatch or a new one."""
    source = dispatch.inputs[value.index]
    sizes = tuple(_outside(dispatch, number(value)) for value in numbers)
    key = (source, packing, sizes)
    if key in packed:
        return packed[key]
    assert isa(source.type, TensorType)
    type = TensorType(source.type.element_type, packing.dimensions)
    asked = [extent.value for size in sizes if is_dynamic(size) for extent in size.extents]
    inputs = list(dict.fromkeys([source, *asked]))
    block, inside = DispatchOp.open_body(inputs)
    code = SizeCode(block.add_op, inside)
    shape = packing.sized(sizes).shape
    empty = tensor.EmptyOp([code.value(size) for size in shape if is_dynamic(size)], type)
    pack = PackOp(block.args[0], empty.tensor, packing, [code.value(size) for size in sizes])
    assert pack.result is not None
    block.add_ops([empty, pack, YieldOp(pack.result)])
    packer = DispatchOp(inputs, [type], Region(block))
    packer.outputs[0].name_hint = f"{source.name_hint or 'operand'}_packed"
    packer.location = dispatch.location
    # A packing with static sizes is placed after the definition, before every reader.
    owner = source.owner
    early = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    Rewriter.insert_op(packer, InsertPoint.before(dispatch) if asked else early)
    packed[key] = packer.outputs[0]
    return packer.outputs[0]


def _numbers_of_sizes(op: Operation, sizes: Sequence[Size]) -> list[SSAValue]:
    indices = [value for value in op.operands if isinstance(value.type, IndexType)]
    known = {number(value): value for value in reversed(indices)}
    return [known[size] for size in sizes]


def _outside(dispatch: DispatchOp, size: Size) -> Size:
    """Translates a size inside a dispatch to sizes of the dispatch's operands."""
    if not is_dynamic(size):
        return size
    known: dict[Extent, Size] = {}
    for extent in size.extents:
        assert isinstance(extent.value, BlockArgument)
        value = dispatch.inputs[extent.value.index]
        known[extent] = symbol(replace(extent, value=value))
    return size.replaced(known)
