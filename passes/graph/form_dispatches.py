"""
Groups the operations of a host function into dispatches, each of which becomes one kernel.

    %f = linalg.fill ...                          %r = schedule.dispatch(%A, %B, %bias) {
    %0 = linalg.generic (contraction) outs(%f)      ^bb0(%a, %b, %row):
    %1 = linalg.generic (%0 + %bias)           ->     fill; contraction; + row; max 0
    %2 = linalg.generic (max %1, 0)                   schedule.yield %2 }

A contraction is fused with elementwise producers of one operand, if they are cheap and have no
other user, and with elementwise operations on its result. All other computations become dispatches
of loops (`loops_fusion`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, linalg, scf, tensor
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, bit_width
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    as_contraction,
    contraction_of,
    element_type,
    padding_of,
    storage,
)
from xdsl_spirv.passes.analysis.linalg_code import Code, tensor_type
from xdsl_spirv.passes.analysis.pointwise import (
    body_ops,
    compose_map,
    generalize,
    is_permutation,
    is_plain,
    is_pointwise,
    loops_of,
    moves_only,
)
from xdsl_spirv.passes.analysis.sizes import is_size_op, resolve_sizes
from xdsl_spirv.passes.analysis.values import erase_unused, erase_unused_ops, is_zero, operands_of
from xdsl_spirv.passes.graph.grouping import Group, is_cheap, is_computed, typical_size, users_of

MOST_RESULTS = 2
"""
Maximum results of a contraction's dispatch. Each result needs another pass over the fragments.
"""

PROLOGUE_OPS = {False: 10, True: 4}
"""Maximum instructions per element of a fused producer. The key is True for sliding windows."""

EXPENSIVE = (arith.DivfOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)

TENSOR_OPS = (tensor.PadOp, tensor.ExtractSliceOp, tensor.InsertSliceOp, tensor.ConcatOp)
"""Operations of `tensor` that need a kernel. Reshapes need none, and stay on the host."""


@dataclass(frozen=True)
class FormDispatchesPass(ModulePass):
    """Groups the operations of a host function into `schedule.dispatch`, one for each kernel."""

    name = "form-dispatches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            for block in _blocks(function.body.block):
                form(block)


def _blocks(block: Block) -> list[Block]:
    blocks = [block]
    for op in block.ops:
        if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                for inner in region.blocks:
                    blocks += _blocks(inner)
    return blocks


def form(block: Block) -> None:
    """Groups the operations of one block into dispatches."""
    resolve_sizes(block)
    for op in reversed([op for op in block.ops if len(op.results) > 1]):
        from xdsl_spirv.passes.graph.loops_fusion import drop_unused_results

        drop_unused_results(op)
    for op in list(block.ops):
        if SCHEDULE not in op.attributes:
            generalize(op)
    if any(isinstance(op, tensor.ExpandShapeOp | tensor.CollapseShapeOp) for op in block.ops):
        from xdsl_spirv.passes.graph.sink_reshapes import sink_reshapes

        sink_reshapes(block)
    for op in list(block.ops):
        contraction = _contraction(op)
        if contraction is not None:
            form_contraction(contraction)
    # Fills come last: dispatches that read a fill have their own copies by then.
    rest = sorted(reversed(list(block.ops)), key=lambda op: isinstance(op, linalg.ops.FillOp))
    for op in rest:
        if op.parent_block() is not block or not _computes(op):
            continue
        if any(result.first_use for result in op.results):
            from xdsl_spirv.passes.graph.loops_fusion import form_loops

            form_loops(op, _computes)
        else:
            erase_unused(op)
    emptied = linalg.ops.FillOp | tensor.EmptyOp | tensor.PadOp
    erase_unused_ops(block, lambda op: isinstance(op, emptied) or is_size_op(op))


def _contraction(op: Operation) -> Contraction | None:
    contraction = as_contraction(op)
    if contraction is None or not op.results:
        return None
    if contraction.channels_lie_side_by_side and SCHEDULE not in op.attributes:
        return None
    plain = all(isinstance(value.type, TensorType) for value in op.operands)
    return contraction if plain else None


def _computes(op: Operation) -> bool:
    if isinstance(op, linalg.ops.FillOp):
        # A constant tensor needs a kernel if it is read outside of all dispatches.
        (result,) = op.res or (None,)
        return result is not None and result.first_use is not None
    if not isinstance(op, (LinalgStructuredOperation, *TENSOR_OPS)):
        return False
    values = (*operands_of(op), *op.results)
    if not all(isinstance(v.type, TensorType) or is_cheap(v) for v in values):
        return False
    return bool(op.results) and all(is_plain(value.type) for value in values)


# Contractions


def form_contraction(contraction: Contraction, alone: bool = False) -> None:
    """
    Makes a contraction the root of a dispatch, and fuses its neighbours into the dispatch.

    With `alone`, fuses only the addition of the initial value.
    """
    contraction, addition = _init_as_epilogue(contraction)
    group = Group(contraction.op, lambda value: _is_read_through(value, contraction))
    if alone:
        group.grow(lambda op: op is addition)
    else:
        for operand in (contraction.a, contraction.b):
            _add_prologue(group, operand, contraction)
        fused = list(group.members)
        group.grow(_Chain(group).accept)
        if len(group.results()) > MOST_RESULTS:
            group.members = dict.fromkeys(fused)
            group.grow(_Chain(group, one_user=True).accept)
        _add_producers(group, fused)
    group.contract()


def _is_read_through(value: SSAValue, contraction: Contraction) -> bool:
    """True if a contraction's kernel computes the value, such as a constant padding."""
    owner = value.owner
    if isinstance(owner, tensor.PadOp):
        return padding_of(owner) is not None and value in (contraction.a, contraction.b)
    if not is_cheap(value):
        return False
    unpacked = [
        contraction.unpacking(n) for n in (0, 1) if not is_cheap((contraction.a, contraction.b)[n])
    ]
    planes = [plane.value for u in unpacked if u is not None for plane in u.planes]
    memory = (storage(contraction.a)[0], storage(contraction.b)[0], *planes)
    return value not in memory


def _init_as_epilogue(contraction: Contraction) -> tuple[Contraction, Operation | None]:
    """
    Moves the initial value of the sums into the epilogue, since kernels begin their sums at zero.

        outs(%c)  ->  outs(zeros), then + %c

    Returns the contraction and the addition, if there is one.
    """
    root, init = contraction.op, contraction.init
    element = contraction.element_types[2]
    if is_zero(init) or isinstance(init.owner, tensor.EmptyOp):
        return contraction, None
    add = arith.AddiOp if isinstance(element, IntegerType) else arith.AddfOp
    code, result = Code(root), root.results[0]
    fill = code.fill_with(code.constant(0, element), code.empty_like(init))
    last = code.empty_like(init)
    code = Code(root, InsertPoint.after(root))
    total = code.generic([result, init], last, None, lambda b, v: b.insert(add(v[0], v[1])))
    result.replace_uses_with_if(total, lambda use: use.operation is not total.owner)
    root.operands[len(root.operands) - 1] = fill
    return contraction_of(root), cast(Operation, total.owner)


def _add_prologue(group: Group, operand: SSAValue, contraction: Contraction) -> None:
    """Adds an operand's elementwise or unpacking producer to the group if nothing else reads it."""
    owner = operand.owner
    if isinstance(owner, linalg.ops.GenericOp):
        from xdsl_spirv.passes.analysis.unpacking import unpacks

        if unpacks(owner):
            number = 0 if operand is contraction.a else 1
            if contraction.unpacking(number) is not None:
                from xdsl_spirv.passes.graph.selected_parts import view_selected_parts

                for op in (*view_selected_parts(owner, contraction, number), owner):
                    group.add(op)
            return
    padded: tensor.PadOp | None = None
    if isinstance(owner, tensor.PadOp) and padding_of(owner) is not None:
        padded = owner
        operand, owner = padded.source, padded.source.owner
        if len(users_of(padded.result, group.block)) > 1:
            return
    map = contraction.maps[0 if operand in (contraction.a, storage(contraction.a)[0]) else 1]
    windows = any(not isinstance(e, AffineDimExpr) for e in map.results)
    budget = PROLOGUE_OPS[windows]
    while isinstance(owner, linalg.ops.GenericOp) and _is_unary(owner):
        budget -= _cost(owner)
        if budget < 0 or len(users_of(operand, group.block)) > 1:
            return
        if _rounds(owner) and _has_kernel(owner.inputs[0], group.block):
            return
        if padded is not None:
            group.add(padded)
        group.add(owner)
        operand = owner.inputs[0]
        owner = operand.owner


def _is_inlined(op: Operation) -> bool:
    """True if an operation is elementwise and reads no scalars except constants."""
    return is_pointwise(op) and not any(map(is_computed, operands_of(op)))


def _is_unary(op: linalg.ops.GenericOp) -> bool:
    """
    True if an operation has one input, and computes each element from the input's element at the
    same index.
    """
    if not _is_inlined(op) or len(op.inputs) != 1 or moves_only(op):
        return False
    read, write = (attribute.data for attribute in op.get_indexing_maps())
    narrow = all(bit_width(element_type(value)) <= 32 for value in (op.inputs[0], op.outputs[0]))
    return read == write and narrow


def _rounds(op: linalg.ops.GenericOp) -> bool:
    ops = body_ops(op.body.block)
    return len(ops) == 1 and isinstance(ops[0], arith.TruncFOp)


def _has_kernel(value: SSAValue, block: Block) -> bool:
    """True if the value needs a separate kernel: an elementwise result of several inputs."""
    owner = value.owner
    if not isinstance(owner, linalg.ops.GenericOp) or SCHEDULE in owner.attributes:
        return False
    computes = is_pointwise(owner) and not moves_only(owner) and len(owner.inputs) > 1
    return computes and len(users_of(value, block)) == 1


def _cost(op: linalg.ops.GenericOp) -> int:
    """
    Returns the number of instructions per element. Divisions and functions have a number above
    every limit.
    """
    ops = body_ops(op.body.block)
    dear = any(
        isinstance(body_op, EXPENSIVE) or body_op.name.startswith("math.") for body_op in ops
    )
    return len(ops) + (max(PROLOGUE_OPS.values()) + 1) * dear


class _Chain:
    """
    Elementwise operations on the result of a group's root, such as a contraction.

    `places` maps the dimensions of each value to dimensions of the root's result.
    """

    def __init__(self, group: Group, one_user: bool = False):
        self.group = group
        self.one_user = one_user
        (result,) = group.root.results
        self.rank = tensor_type(result).get_num_dims()
        identity = AffineMap.identity(self.rank).results
        self.places: dict[SSAValue, tuple[AffineExpr, ...]] = {result: identity}

    def accept(self, op: Operation) -> bool:
        """
        Adds an operation that computes each element from one element of the chain; True if added.
        """
        if SCHEDULE in op.attributes or not _is_inlined(op):
            return False
        assert isinstance(op, linalg.ops.GenericOp)
        *reads, write = (attribute.data for attribute in op.get_indexing_maps())
        if not all(isinstance(v.type, TensorType) or is_cheap(v) for v in self.group.outside(op)):
            return False
        loops_read: set[tuple[AffineExpr | None, ...]] = set()
        for value, map in zip(op.inputs, reads, strict=True):
            if value not in self.places:
                continue
            if not is_permutation(map):
                return False
            if self.one_user and len(users_of(value, self.group.block)) > 1:
                return False
            loops_read.add(tuple(loops_of(map, self.places[value])))
        if len(loops_read) != 1:
            return False
        place = compose_map(write, next(iter(loops_read)), self.rank)
        if place is None:
            return False
        self.places[op.results[0]] = place.results
        return True


def _add_producers(group: Group, others: list[Operation]) -> None:
    """Adds broadcasts and conversions that the epilogue reads and `others` do not read."""
    waiting = [op for op in group.members if op not in others]
    while waiting:
        op = waiting.pop()
        for value in group.outside(op):
            owner = value.owner
            if not isinstance(owner, linalg.ops.GenericOp) or SCHEDULE in owner.attributes:
                continue
            if owner.parent_block() is not group.block or not _is_inlined(owner):
                continue
            users = users_of(value, group.block)
            if not users <= set(group.members) or users & set(others):
                continue
            if moves_only(owner) or typical_size(value) >= typical_size(group.root.results[0]):
                group.add(owner)
                waiting.append(owner)
