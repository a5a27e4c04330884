"""
Fuses an elementwise function of equal parts of a product's columns into the product's kernel.

    %p = contraction(%x, %w)             : m x 28672      one dispatch
    %h = f(%p[m, 14336 + j], %p[m, j])   : m x 14336      another one
                                   ->
    %p = contraction(%x, %w')            : m x 896 x 2 x 16
    %h = f(%p[m, g, 1, j], %p[m, g, 0, j])   : m x 896 x 16

A subgroup multiplies neighbouring fragments of all parts, so that an invocation has the same
column of all parts in its registers. This saves a launch and the memory traffic between two
kernels. The weights are not moved in memory: only the order of the loops that read them changes.
The pass applies to schedules with `coopmat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, ContractionAttr, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic, static
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, as_contraction
from xdsl_spirv.passes.analysis.linalg_code import (
    maps_of,
    merge_dimensions,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.sizes import extent, is_size_op, number
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.analysis.unpacking import unpacks
from xdsl_spirv.passes.analysis.values import erase_unused_ops
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, part_of_columns
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit, kind_of, plan_of
from xdsl_spirv.targets import Target

Generic: TypeAlias = linalg.ops.GenericOp


@dataclass(frozen=True)
class FoldPartsPass(ModulePass):
    """Fuses dispatches that combine equal column blocks of a product into the product's kernel."""

    name = "fold-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(kind_of(o) == "coopmat" for o in op.walk()):
            return
        target = target_of(op, self.name)
        for function in functions_of(op):
            sizes = _Sizes()
            for dispatch in [o for o in function.walk() if isinstance(o, DispatchOp)]:
                parts = _Parts.of(dispatch, sizes)
                sizes.note(dispatch if parts is None else parts.fold(target))


class _Sizes:
    """Expresses sizes in terms of a function's arguments, across the recorded dispatches."""

    def __init__(self) -> None:
        self._known: dict[Extent, Size] = {}

    def note(self, dispatch: DispatchOp) -> None:
        """Records the sizes of a dispatch's results. Earlier dispatches must be recorded first."""
        for value, result in zip(dispatch.yielded, dispatch.results, strict=True):
            for dimension, size in enumerate(tensor_type(result).get_shape()):
                if size == DYNAMIC_INDEX:
                    computed = self.inside(extent(value, dimension), dispatch)
                    self._known[Extent(result, dimension)] = computed

    def inside(self, size: Size, dispatch: DispatchOp) -> Size:
        """Translates a size inside a dispatch to sizes of the function's arguments."""
        if not is_dynamic(size):
            return size
        known: dict[Extent, Size] = {}
        for asked in size.extents:
            value = asked.value
            if isinstance(value, BlockArgument) and value.owner is dispatch.body.block:
                given = dispatch.inputs[value.index]
                counted = isinstance(given.type, IndexType)
                outer = number(given) if counted else extent(given, asked.dimension)
                known[asked] = outer.replaced(self._known) if is_dynamic(outer) else outer
        return size.replaced(known)


def _are_elements(dispatch: DispatchOp, slices: Sequence[Operation]) -> bool:
    block = dispatch.body.block
    for op in block.ops:
        match op:
            case tensor.EmptyOp() | arith.ConstantOp() | YieldOp():
                continue
            case Generic():
                write = op.get_indexing_maps().data[-1].data
                identity = write == AffineMap.identity(write.num_dims)
                if not is_pointwise(op) or not identity or write.num_dims < 2:
                    return False
                if not all(map(_walks_columns_alike, op.inputs, op.get_indexing_maps().data)):
                    return False
            case _:
                if op not in slices and not is_size_op(op):
                    return False
    return isinstance(dispatch.yielded[0].owner, Generic)


def _walks_columns_alike(value: SSAValue, map: AffineMapAttr) -> bool:
    """
    True if the result's column indexes only the last dimension of an operand.

    Arguments and scalars must not be indexed by the column at all.
    """
    column = AffineDimExpr(map.data.num_dims - 1)
    if isinstance(value, BlockArgument) or not isinstance(value.type, TensorType):
        return column not in map.data.results
    return map.data.results[-1] == column and column not in map.data.results[:-1]


def _root_of(owner: object) -> Generic | None:
    """Returns the `coopmat` product of a dispatch that computes only this product, else None."""
    if not isinstance(owner, DispatchOp) or len(owner.outputs) != 1 or owner.updates:
        return None
    root = owner.yielded[0].owner
    if not isinstance(root, Generic) or kind_of(root) != "coopmat":
        return None
    fill = root.outputs[0].owner
    is_plain = isinstance(fill, linalg.ops.FillOp) and isinstance(
        fill.outputs[0].owner, tensor.EmptyOp
    )
    return root if is_plain else None


@dataclass
class _Parts:
    """
    A dispatch that computes elements from `count` equal parts of the columns of a product.

    The product's columns are reordered, so that each of `groups` blocks of columns has a fragment
    of `width` columns of every part.
    """

    dispatch: DispatchOp
    argument: BlockArgument
    product: DispatchOp
    root: Generic
    count: int
    slices: dict[SSAValue, int]
    """Part index of each slice of the product's result."""

    @staticmethod
    def of(dispatch: DispatchOp, sizes: _Sizes) -> _Parts | None:
        if len(dispatch.outputs) != 1 or dispatch.updates:
            return None
        taken = [op for op in dispatch.body.block.ops if isinstance(op, tensor.ExtractSliceOp)]
        sources = {op.source for op in taken}
        (argument,) = sources if len(sources) == 1 else (None,)
        if not isinstance(argument, BlockArgument):
            return None
        users = {use.operation for use in argument.uses if not is_size_op(use.operation)}
        if not users.issubset(taken) or not _are_elements(dispatch, taken):
            return None
        outside = partial(sizes.inside, dispatch=dispatch)
        parts = [part_of_columns(op, outside) for op in taken]
        counts = {part[0] for part in parts if part is not None}
        value = dispatch.inputs[argument.index]
        if len(counts) != 1 or None in parts or not value.has_one_use():
            return None
        root = _root_of(value.owner)
        if root is None or not isinstance(value.owner, DispatchOp):
            return None
        numbers: dict[SSAValue, int] = {
            op.result: part[1] for op, part in zip(taken, parts, strict=True) if part
        }
        return _Parts(dispatch, argument, value.owner, root, counts.pop(), numbers)

    def fold(self, target: Target) -> DispatchOp:
        """
        Fuses the elementwise function into the product's kernel if the new kernel fits the target.

        Returns the dispatch that now computes the elements: the fused or the old dispatch.
        """
        contraction, schedule = as_contraction(self.root), self.root.attributes[SCHEDULE]
        assert isinstance(schedule, ContractionAttr)
        width = schedule.instruction.sizes[1]
        if contraction is None or not self._divides(contraction, width):
            return self.dispatch
        self.width, self.groups = width, static([contraction.n])[0] // self.count // width
        self.b = list(self.root.inputs).index(contraction.b)
        self.views: list[Operation] = []
        root = self._write()
        folded = self.folded
        for tried in (schedule, schedule.replace_values(result="components")):
            root.attributes[SCHEDULE] = tried
            with suppress(NotAContraction, ScheduleDoesNotFit):
                plan_of(root, target)
                (old,) = self.dispatch.outputs
                rank = tensor_type(old).get_num_dims()
                groups = [[d] for d in range(rank - 1)] + [[rank - 1, rank]]
                whole = merge_dimensions(folded.outputs[0], groups, old.type.get_shape())
                Rewriter.replace_op(self.dispatch, [*self.views, folded, whole])
                Rewriter.erase_op(self.product)
                return folded
        for op in (folded, *self.views):
            op.erase()
        return self.dispatch

    def _divides(self, contraction: Contraction, width: int) -> bool:
        """True if a single loop indexes B's columns, and `width` divides each part's columns."""
        batch, m, n, _ = contraction.counts
        if (batch, n) != (0, 1) or m < 1 or is_dynamic(contraction.n):
            return False
        if contraction.n % (self.count * width) or contraction.prologues[1]:
            return False
        column = AffineDimExpr(contraction.groups[2].start)
        maps, owner = contraction.maps, contraction.b.owner
        in_b = [e for e in maps[1].results if column in e.dfs()]
        if in_b != [column] or maps[2].results[-1] != column:
            return False
        self.column = maps[1].results.index(column)
        """Index of B's dimension along the columns."""
        if isinstance(contraction.b, BlockArgument):
            return contraction.b.has_one_use()
        if not isinstance(owner, Generic) or not unpacks(owner):
            return False
        indices = (i for i in owner.body.block.ops if isinstance(i, linalg.ops.IndexOp))
        asked = [index.dim.value.data for index in indices]
        given = all(isinstance(value, BlockArgument) for value in owner.inputs)
        return given and self.column not in asked

    # Operations

    def _write(self) -> Generic:
        """Builds the new dispatch without inserting it; returns its product."""
        read = self.dispatch.inputs[self.argument.index]
        self.folded = folded = fuse(self.product, self.dispatch, read)
        before, ops = list(self.product.body.block.ops), list(folded.body.block.ops)
        root = ops[before.index(self.root)]
        assert isinstance(root, Generic)
        self._split_second_operand(root.operands[self.b])
        self._split_root(root)
        numbers: dict[SSAValue, int] = {}
        for old, op in zip(self.dispatch.body.block.ops, ops[len(before) - 1 :], strict=False):
            if old.results and old.results[0] in self.slices:
                numbers[op.results[0]] = self.slices[old.results[0]]
            elif isinstance(op, Generic):
                self._split_elements(op, root, numbers)
        erase_unused_ops(folded.body.block, lambda _: True)
        folded.drop_unread_operands()
        (result,) = folded.yielded
        Rewriter.replace_value_with_new_type(folded.results[0], result.type)
        return root

    def _view(self, argument: SSAValue, at: int) -> None:
        assert isinstance(argument, BlockArgument)
        value = self.folded.inputs[argument.index]
        view = split_dimension(value, at, self.count, self.groups)
        self.views.append(view)
        self.folded.operands[argument.index] = view.result
        Rewriter.replace_value_with_new_type(argument, view.result.type)

    def _split_second_operand(self, b: SSAValue) -> None:
        """Splits the columns of B into three dimensions: parts, blocks, columns of a block."""
        at = self.column
        if isinstance(b, BlockArgument):
            self._view(b, at)
            return
        unpack = b.owner
        assert isinstance(unpack, Generic)
        column, maps = AffineDimExpr(at), maps_of(unpack)
        for plane, read in zip(list(unpack.inputs), maps, strict=False):
            if column in read.results:
                self._view(plane, read.results.index(column))
        _set_loops(unpack, [_with_loops(map, at, map.num_dims + 2) for map in maps])
        for index in unpack.body.block.ops:
            if isinstance(index, linalg.ops.IndexOp) and index.dim.value.data > at:
                index.dim = IntegerAttr(index.dim.value.data + 2, index.dim.type)
        shape = tensor_type(b).get_shape()
        split = [*shape[:at], self.count, self.groups, self.width, *shape[at + 1 :]]
        _retype([unpack.outputs[0], unpack.results[0]], split)

    def _split_root(self, root: Generic) -> None:
        at = maps_of(root)[-1].results[-1]
        assert isinstance(at, AffineDimExpr)
        count = len(root.iterator_types) + 2
        maps = [_with_loops(map, at.position, count) for map in maps_of(root)]
        # The new loops are blocks, parts, columns of a block. In B, parts come before blocks.
        place = maps_of(root)[self.b].results.index(at)
        results = list(maps[self.b].results)
        results[place : place + 2] = results[place + 1], results[place]
        maps[self.b] = AffineMap(count, 0, tuple(results))
        _set_loops(root, maps)
        shape = tensor_type(root.results[0]).get_shape()
        fill = root.outputs[0].owner
        assert isinstance(fill, linalg.ops.FillOp)
        split = [*shape[:-1], self.groups, self.count, self.width]
        _retype([fill.outputs[0], fill.results[0], root.results[0]], split)
        self.open_sizes = list(fill.outputs[0].owner.operands)  # pyright: ignore

    def _split_elements(self, op: Generic, root: Generic, numbers: dict[SSAValue, int]) -> None:
        column, count = len(op.iterator_types) - 1, len(op.iterator_types) + 1
        maps: list[AffineMap] = []
        for at, (value, map) in enumerate(zip(op.operands, maps_of(op), strict=True)):
            results: list[AffineExpr] = list(map.results)
            if results and results[-1] == AffineDimExpr(column):
                part = [AffineConstantExpr(numbers[value])] if value in numbers else []
                results[-1:] = [AffineDimExpr(column), *part, AffineDimExpr(column + 1)]
            maps.append(AffineMap(count, 0, tuple(results)))
            if value in numbers:
                op.operands[at] = root.results[0]
        _set_loops(op, maps)
        shape = tensor_type(op.results[0]).get_shape()
        op.outputs[0].owner.operands = self.open_sizes  # pyright: ignore
        _retype([op.outputs[0], op.results[0]], [*shape[:-1], self.groups, self.width])


def _retype(values: Sequence[SSAValue], shape: Sequence[int]) -> None:
    for value in values:
        type = TensorType(tensor_type(value).element_type, shape)
        Rewriter.replace_value_with_new_type(value, type)


def _set_loops(op: Generic, maps: Sequence[AffineMap]) -> None:
    more = [IteratorTypeAttr.parallel()] * (maps[0].num_dims - len(op.iterator_types))
    op.properties["iterator_types"] = ArrayAttr([*more, *op.get_iterator_types()])
    op.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, maps))


def _with_loops(map: AffineMap, at: int, count: int) -> AffineMap:
    """Returns the map with loop `at`, and the dimension that it indexes, each split into three."""
    moved = [AffineDimExpr(d + 2 * (d > at)) for d in range(map.num_dims)]
    results: list[AffineExpr] = []
    for expression in map.results:
        if expression == AffineDimExpr(at):
            results += [AffineDimExpr(at + n) for n in range(3)]
        else:
            results.append(expression.replace_dims_and_symbols(moved, []))
    return AffineMap(count, 0, tuple(results))
