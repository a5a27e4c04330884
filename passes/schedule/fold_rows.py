"""
Fuses producers and readers of a product of few rows into the product's kernel.

    %y = f(%x)                  one dispatch          %p = contraction(f(%x), %w)
    %p = contraction(%y, %w)    another one     ->    %r = g(%p)                     one dispatch
    %r = g(%p)                  a third one

`FoldPass` fuses a dispatch with all of its readers if every fused kernel fits. A subclass selects
the dispatches and rewrites the fused ones. Each fusion saves a launch and the memory traffic
between two kernels.

`fold-norms` moves factors that are constant along a row from the operand to the result:

    %s = f(sum over k of g(%x[i, k]))               %p = contraction(%x * %w, %b), and the sum
    %y = %x * %s[i] * %w                       ->   %r = %p * f(sum)
    %r = contraction(%y, %b)

Each workgroup recomputes the sum of the rows. CPU drivers do not gain from this fusion, because
they do not wait for memory, so it is skipped there.

`fold-elements` computes the elements of rows in the product that reads them, if a workgroup
computes each element once. For this, the invocations of a workgroup must cover all of K, and share
the rows' digits (bytes of scaled floats) for all columns.

`fold-readers` fuses operations that read the columns of a product of one row: a rotation of pairs
of columns, an insertion into a state, or a gated activation of both halves of the columns. Partial
sums pass through Workgroup memory. Each invocation adds up neighbouring columns, so it has all
inputs of a reader's element. CPU drivers are skipped, because their launches are cheap and no two
of their invocations share columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp, RowsAttr, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.epilogue import row_sum_of
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    groups_of,
    maps_of,
    set_operand,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import body_ops, is_pointwise
from xdsl_spirv.passes.analysis.sizes import is_size_op
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.analysis.values import erase_dead, erase_unused, erase_unused_ops, is_zero
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, part_of_columns, views_of
from xdsl_spirv.passes.graph.own_results import VIEWS, source
from xdsl_spirv.passes.schedule.kinds import (
    KernelPlan,
    ScheduleDoesNotFit,
    kind_of,
    plan_of,
    root_of,
)
from xdsl_spirv.passes.schedule.rows import RowsPlan
from xdsl_spirv.targets import Target

Generic = linalg.ops.GenericOp

MOVES = (
    tensor.ExtractSliceOp,
    tensor.InsertSliceOp,
    tensor.ExpandShapeOp,
    tensor.CollapseShapeOp,
)
"""Operations of a reader that only move elements."""

FREE = (tensor.EmptyOp, arith.ConstantOp, YieldOp)
"""Operations that every kernel may contain."""


@dataclass(frozen=True)
class Pair:
    """
    A dispatch `first` and its reader `second`. `read` is the result of `first`, or a view of it.
    """

    first: DispatchOp
    second: DispatchOp
    read: SSAValue
    target: Target


@dataclass(frozen=True)
class FoldPass(ModulePass, ABC):
    """Base class of passes that fuse a dispatch and its reader. One of the two is a product."""

    kind: ClassVar[str] = "rows"
    """Kind of the product's kernel (see `KINDS`)."""

    on_processors: ClassVar[bool] = False

    def most(self, target: Target) -> int:
        """Returns the maximum number of readers that a fused dispatch may have."""
        return 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(kind_of(inner) == self.kind for inner in op.walk()):
            return
        target = target_of(op, self.name)
        if target.processor and not self.on_processors:
            return
        for function in functions_of(op):
            for dispatch in [o for o in function.walk() if isinstance(o, DispatchOp)]:
                if dispatch.parent is not None and self.takes(dispatch, target):
                    self._fuse(dispatch, target)

    def _fuse(self, first: DispatchOp, target: Target) -> None:
        """
        Replaces the readers of a dispatch by fused dispatches, and erases the dispatch.

        Changes nothing if there are more than `most` readers, or if one of them is not fused.
        """
        if len(first.results) != 1 or first.updates:
            return
        reads = list(_reads_of(first.results[0]))
        few = 0 < len(reads) <= self.most(target)
        if not few or len({reader for reader, _ in reads}) < len(reads):
            return
        pairs: list[tuple[Operation, DispatchOp]] = []
        for reader, value in reads:
            fused = None
            if isinstance(reader, DispatchOp) and _can_move(first, reader):
                fused = self.fold(Pair(first, reader, value, target))
            if fused is None:
                for _, other in pairs:
                    other.erase()
                return
            pairs.append((reader, fused))
        for reader, fused in pairs:
            Rewriter.replace_op(reader, self.replacement(fused, reader))
        for _, value in reads:
            for view in views_of(value):
                erase_unused(view)
        Rewriter.erase_op(first)

    def fold(self, pair: Pair) -> DispatchOp | None:
        """Returns the fused dispatch; None if the pair is not fused."""
        if not self.joins(pair):
            return None
        folded = fuse(pair.first, pair.second, pair.read)
        plan = self.plan(folded, pair.target) if self.rewrite(folded, pair) else None
        if plan is not None and self.fits(plan):
            return folded
        operands = list(folded.inputs)
        folded.erase()
        for value in operands:
            erase_dead(value)
        return None

    def is_product(self, dispatch: DispatchOp) -> bool:
        """True if a dispatch computes a product of the pass's kind."""
        root = root_of(dispatch)
        return root is not None and kind_of(root) == self.kind

    def plan(self, dispatch: DispatchOp, target: Target) -> KernelPlan | None:
        """Returns the plan of a dispatch's product, or None if no plan of this kind fits."""
        if (root := root_of(dispatch)) is not None and self.is_product(dispatch):
            with suppress(NotAContraction, NotLinear, ScheduleDoesNotFit):
                return plan_of(root, target)
        return None

    @abstractmethod
    def takes(self, first: DispatchOp, target: Target) -> bool:
        """True if the pass may fuse the dispatch `first` with its readers."""

    def joins(self, pair: Pair) -> bool:
        """True if the pass may fuse the pair: a dispatch and a reader of its result."""
        return self.is_product(pair.second) and pair.read in pair.first.results

    @abstractmethod
    def rewrite(self, folded: DispatchOp, pair: Pair) -> bool:
        """Rewrites the fused dispatch in place; returns False if that is not possible."""

    def fits(self, plan: Any) -> bool:
        """True if fusing the kernel saves time."""
        return True

    def replacement(self, folded: DispatchOp, reader: Operation) -> list[Operation]:
        """Returns the fused dispatch, and the views that give its result the reader's type."""
        return [folded]


def _reads_of(value: SSAValue) -> Iterator[tuple[Operation, SSAValue]]:
    """Yields each operation that reads a value or a view of it, with the value or view."""
    for use in value.uses:
        if isinstance(use.operation, VIEWS) and use.operation.results[0].first_use:
            yield from _reads_of(use.operation.results[0])
        else:
            yield use.operation, value


def _can_move(first: DispatchOp, reader: DispatchOp) -> bool:
    """True if neither the reader nor a dispatch before it updates an operand of `first`."""
    read, op = {source(value) for value in first.inputs}, first.next_op
    while op is not None:
        if isinstance(op, DispatchOp):
            if any(source(op.inputs[operand]) in read for operand in op.updates.values()):
                return False
        if op is reader:
            return True
        op = op.next_op
    return False


def _is_small(dispatch: DispatchOp, target: Target) -> bool:
    if len(dispatch.outputs) != 1:
        return False
    type = dispatch.outputs[0].type
    return type.has_static_shape() and prod(type.get_shape()) <= target.model.rows.most_folded


# Norms


@dataclass(frozen=True)
class FoldNormsPass(FoldPass):
    """Fuses norms of few rows into the products that read them."""

    name = "fold-norms"

    def most(self, target: Target) -> int:
        return target.model.rows.norm_readers

    def takes(self, first: DispatchOp, target: Target) -> bool:
        """True if a dispatch scales few rows of f32, by one factor for each row."""
        if not _is_small(first, target):
            return False
        type = first.outputs[0].type
        if type.element_type != f32 or type.get_num_dims() < 2:
            return False
        products = list(_products(first.yielded[0]))
        if not any(is_of_row for *_, is_of_row in products):
            return False
        op, number, _ = products[-1]
        source = op.inputs[1 - number]
        if not isinstance(source, BlockArgument) or source.type != type:
            return False
        return all(_is_of_norm(op, source) for op in first.body.block.ops)

    def rewrite(self, folded: DispatchOp, pair: Pair) -> bool:
        second, root = pair.second, root_of(folded)
        uses = list(second.body.block.args[list(second.inputs).index(pair.read)].uses)
        if len(uses) != 1 or uses[0].operation is not root_of(second) or second.updates:
            return False
        assert isinstance(root, Generic)
        rows = _places_of_rows(root, uses[0].index)
        if rows is None:
            return False
        for op, number, is_of_row in list(_products(root.operands[uses[0].index])):
            if is_of_row:
                op.results[0].replace_all_uses_with(op.inputs[1 - number])
                _multiply(root, op, number, rows)
        _read_through_ones(folded.body.block)
        erase_unused_ops(folded.body.block, lambda _: True)
        return True

    def fits(self, plan: RowsPlan) -> bool:
        few = plan.row_tiles == 1 and not is_dynamic(plan.rows)
        return few and plan.contraction.batch == 1 and bool(plan.contraction.epilogue.reductions)


def _products(value: SSAValue) -> Iterator[tuple[Generic, int, bool]]:
    """
    Yields each multiplication that computes a value, the last first, with its factor as
    `_factor_of_product` returns it.
    """
    while isinstance(op := value.owner, Generic) and (factor := _factor_of_product(op)):
        yield op, *factor
        value = op.inputs[1 - factor[0]]


def _is_of_norm(op: Operation, source: SSAValue) -> bool:
    """True if a kernel of few rows can compute an operation on a row of `source`."""
    match op:
        case linalg.ops.FillOp():
            return True
        case tensor.ExpandShapeOp():
            return _adds_only_ones(op)
        case Generic() if row_sum_of(op) is not None:
            return op.inputs[0] is source and is_zero(op.outputs[0])
        case _:
            return isinstance(op, FREE) or is_pointwise(op)


def _factor_of_product(op: Generic) -> tuple[int, bool] | None:
    """
    Returns the operand index of a multiplication's factor, and True if the factor has one element
    per row.

    A divisor with one element per row also counts as a factor. Returns None for other operations.
    """
    if not is_pointwise(op) or len(op.inputs) != 2:
        return None
    ops = body_ops(op.body.block)
    if len(ops) != 1 or not isinstance(ops[0], arith.MulfOp | arith.DivfOp):
        return None
    if set(ops[0].operands) != set(op.body.block.args[:2]):
        return None
    divisor = None
    if isinstance(ops[0], arith.DivfOp):
        divisor = list(op.body.block.args).index(ops[0].rhs)  # pyright: ignore
    *reads, write = maps_of(op)
    identity = AffineMap.identity(write.num_dims)
    if write != identity:
        return None
    last = AffineDimExpr(write.num_dims - 1)
    for number in (0, 1):
        of_row = reads[1 - number] == identity and last not in reads[number].results
        if of_row and divisor in (number, None):
            return number, True
    for number in (0, 1) if divisor is None else ():
        stored = isinstance(op.inputs[number].owner, Block | arith.ConstantOp)
        if reads[1 - number] == identity and stored:
            return number, False
    return None


def _multiply(root: Generic, op: Generic, number: int, rows: list[AffineExpr]) -> None:
    """Multiplies or divides the product's result by the factor that `op` applies to each row."""
    (result,), (product,) = root.results, body_ops(op.body.block)
    kind = arith.DivfOp if isinstance(product, arith.DivfOp) else arith.MulfOp
    identity = AffineMap.identity(tensor_type(result).get_num_dims())
    places = maps_of(op)[number].replace_dims_and_symbols(rows, [], len(rows), 0).results
    scaled = Code.open_behind(result, op).elementwise(
        [result, op.inputs[number]],
        f32,
        lambda b, v: b.insert(kind(v[0], v[1])),
        [identity, AffineMap(identity.num_dims, 0, places)],
    )
    result.replace_uses_with_if(scaled, lambda use: use.operation is not scaled.owner)


def _adds_only_ones(op: tensor.ExpandShapeOp) -> bool:
    return all(len(kept) <= 1 for kept in _kept_dimensions(op))


def _kept_dimensions(op: tensor.ExpandShapeOp) -> list[list[int]]:
    shape = tensor_type(op.result).get_shape()
    return [[n for n in group if shape[n] != 1] for group in groups_of(op)]


def _read_through_ones(block: Block) -> None:
    """Replaces operands that only add dimensions of size 1 by their sources."""
    for op in [o for o in block.ops if isinstance(o, Generic)]:
        for number, value in enumerate(op.inputs):
            expand, read = value.owner, maps_of(op)[number]
            if isinstance(expand, tensor.ExpandShapeOp) and _adds_only_ones(expand):
                places: list[AffineExpr] = [
                    read.results[kept[0]] if kept else AffineConstantExpr(0)
                    for kept in _kept_dimensions(expand)
                ]
                set_operand(op, number, expand.src, places)


def _places_of_rows(root: Generic, operand: int) -> list[AffineExpr] | None:
    """
    Maps each dimension of an operand to an index of the product's result. Returns None if that is
    impossible.

    The dimension over which the product sums is mapped to 0.
    """
    result = maps_of(root)[-1].results
    *rows, last = maps_of(root)[operand].results
    if any(e in result for e in last.dfs()) or any(row not in result for row in rows):
        return None
    # Factors of rows do not depend on the summed dimension.
    places: list[AffineExpr] = [AffineDimExpr(result.index(row)) for row in rows]
    return [*places, AffineConstantExpr(0)]


# Elements


@dataclass(frozen=True)
class FoldElementsPass(FoldPass):
    """Fuses elementwise operations on few rows into the products that read them."""

    name = "fold-elements"
    on_processors = True

    def takes(self, first: DispatchOp, target: Target) -> bool:
        """True if a dispatch computes each element from elements of its operands."""
        ops = first.body.block.ops
        return (
            _is_small(first, target)
            and any(isinstance(op, Generic) for op in ops)
            and all(map(_is_of_elements, ops))
        )

    def rewrite(self, folded: DispatchOp, pair: Pair) -> bool:
        """Replaces slices that are equal parts of an operand by reads of a split view."""
        arguments: dict[tuple[SSAValue, int], SSAValue] = {}
        for op in [o for o in folded.body.block.ops if isinstance(o, tensor.ExtractSliceOp)]:
            part = part_of_columns(op)
            if part is None or not isinstance(op.source, BlockArgument):
                continue
            (count, number), source = part, folded.inputs[op.source.index]
            if (source, count) not in arguments:
                view = split_dimension(source, tensor_type(source).get_num_dims() - 1, count)
                Rewriter.insert_op(view, InsertPoint.before(pair.first))
                arguments[source, count] = folded.add_operand(view.result)
            for use in list(op.result.uses):
                assert isinstance(use.operation, Generic)
                *outer, last = maps_of(use.operation)[use.index].results
                places = *outer, AffineConstantExpr(number), last
                set_operand(use.operation, use.index, arguments[source, count], places)
            folded.body.block.erase_op(op)
        folded.drop_unread_operands()
        return True

    def fits(self, plan: RowsPlan) -> bool:
        """True if a workgroup computes each element of the rows once."""
        once = plan.is_stationary and plan.row_tiles == 1 and plan.contraction.batch == 1
        return once and plan.schedule.digits.data > 0


def _is_of_elements(op: Operation) -> bool:
    match op:
        case tensor.ExtractSliceOp():
            return isinstance(op.source, BlockArgument) and part_of_columns(op) is not None
        case Generic():
            write = maps_of(op)[-1]
            return is_pointwise(op) and write == AffineMap.identity(write.num_dims)
        case _:
            return isinstance(op, FREE)


# Readers


@dataclass(frozen=True)
class FoldReadersPass(FoldPass):
    """Fuses operations that read a one-row product's result into the product's kernel."""

    name = "fold-readers"

    def takes(self, first: DispatchOp, target: Target) -> bool:
        return self.is_product(first)

    def joins(self, pair: Pair) -> bool:
        return kind_of(pair.second) == "loops" and all(
            isinstance(op, (*FREE, *MOVES, Generic)) or is_size_op(op)
            for op in pair.second.body.block.ops
        )

    def rewrite(self, folded: DispatchOp, pair: Pair) -> bool:
        """
        Rounds the number of subgroups along the columns down to a multiple of `together`, the
        number of neighbouring columns that one invocation adds up.

        Returns False if the fused kernel has too many buffers.
        """
        read = [value for value in folded.inputs if isinstance(value.type, TensorType)]
        if len(read) + len(folded.results) - len(folded.updates) > pair.target.model.most_bound:
            return False
        root = root_of(folded)
        schedule = None if root is None else root.attributes.get(SCHEDULE)
        assert isinstance(root, Generic)
        assert isinstance(schedule, RowsAttr)
        try:
            along_k, across = schedule.grid
            whole = across - across % RowsPlan(contraction_of(root), schedule, pair.target).together
        except (NotAContraction, NotLinear):
            return False
        root.attributes[SCHEDULE] = schedule.replace_values(subgroups=(along_k, whole or across))
        return True

    def fits(self, plan: RowsPlan) -> bool:
        return plan.readers is not None
