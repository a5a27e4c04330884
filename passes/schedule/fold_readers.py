"""
Readers of the columns of a product of one row become a part of the product's kernel.

    %p = contraction(%x * %w)           one dispatch       %p = contraction(%x * %w)
    %q = f(neighbours of %p)                         ->    %q = f(neighbours of %p)
    %k1 = insert g(%p) into %k          another one        %k1 = insert g(%p) into %k, one dispatch

The rotation of queries and keys by pairs of columns is such a reader, with the insertion of keys
and values into a state, and so is a gated activation of both halves of the columns. The sums of a
workgroup's columns meet in its memory: whoever adds up one adds up its neighbours, and has all that
decides an element. So nothing is read again, and a launch less is waited for. CPU drivers do not
gain from this, as launches are cheap and each invocation has columns of its own: there it stays as
it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, RowsAttr, YieldOp
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.analysis.sizes import is_size_op
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, views_of
from xdsl_spirv.passes.graph.loops_fusion import MOST_INPUTS
from xdsl_spirv.passes.graph.own_results import source
from xdsl_spirv.passes.schedule.kinds import kind_of, root_of
from xdsl_spirv.passes.schedule.rows import RowsPlan, dispatches_beside_rows, rows_plan
from xdsl_spirv.targets import Target

Generic = linalg.ops.GenericOp

MOST_BOUND = 8
"""Most buffers of a kernel on a device without measurements: as many as WebGPU's devices bind."""

COMPUTED = (
    Generic,
    tensor.EmptyOp,
    tensor.ExtractSliceOp,
    tensor.InsertSliceOp,
    tensor.ExpandShapeOp,
    tensor.CollapseShapeOp,
    YieldOp,
)
"""Operations of a reader, beside those that compute sizes."""


@dataclass(frozen=True)
class FoldReadersPass(ModulePass):
    """Computes what reads the columns of a product of one row in its kernel."""

    name = "fold-readers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dispatch, target in dispatches_beside_rows(op, self.name):
            if kind_of(dispatch) == "loops" and not target.processor:
                _fold(dispatch, target)


def _fold(reader: DispatchOp, target: Target) -> None:
    """Moves a reader into the product if it is the only user, or changes nothing."""
    if not all(isinstance(op, COMPUTED) or is_size_op(op) for op in reader.body.block.ops):
        return
    for value in reader.inputs:
        views = views_of(value)
        product = views[-1].operands[0].owner if views else value.owner
        if not isinstance(product, DispatchOp) or not _is_apart(product, reader, views):
            continue
        folded = fuse(product, reader, value)
        if not _fits(folded, target):
            folded.erase()
            continue
        block = reader.parent_block()
        assert block is not None
        block.insert_op_before(folded, reader)
        for old, new in zip(reader.outputs, folded.outputs, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        for op in (reader, *views, product):
            block.erase_op(op)
        return


def _is_apart(product: DispatchOp, reader: DispatchOp, views: Sequence[Operation]) -> bool:
    """True if `reader` is a product's only user, and the product can move to its place."""
    values = [*product.results, *(view.results[0] for view in views)]
    if len(product.results) != 1 or any(len(list(value.uses)) != 1 for value in values):
        return False
    if product.updates or product.parent_block() is not reader.parent_block():
        return False
    read = {source(value) for value in product.inputs}
    return not any(
        source(op.inputs[operand]) in read
        for op in _between(product, reader)
        for operand in op.updates.values()
    )


def _between(product: DispatchOp, reader: DispatchOp) -> Iterator[DispatchOp]:
    """Lists the dispatches after a product, up to its reader."""
    op = product.next_op
    while op is not None:
        if isinstance(op, DispatchOp):
            yield op
        if op is reader:
            return
        op = op.next_op


def _fits(folded: DispatchOp, target: Target) -> bool:
    """True if a product has few rows and one kernel can bind all that both read."""
    most = MOST_BOUND if target.measured_copy is None else MOST_INPUTS
    read = [value for value in folded.inputs if isinstance(value.type, TensorType)]
    if len(read) + len(folded.results) - len(folded.updates) > most:
        return False
    try:
        _take_whole_groups(folded, target)
    except (NotAContraction, NotLinear):
        return False
    plan = rows_plan(folded, target)
    return plan is not None and plan.readers is not None


def _take_whole_groups(folded: DispatchOp, target: Target) -> None:
    """Takes fewer subgroups, where only those have whole groups of columns that are read."""
    root = root_of(folded)
    schedule = None if root is None else root.attributes.get(SCHEDULE)
    if isinstance(root, Generic) and isinstance(schedule, RowsAttr):
        along_k, across = schedule.grid
        whole = across - across % RowsPlan(contraction_of(root), schedule, target).together
        subgroups = along_k, whole or across
        root.attributes[SCHEDULE] = schedule.replace_values(subgroups=subgroups)
