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

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import lcm
from typing import TypeAlias

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, IntegerAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import SCHEDULE, ContractionAttr, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, SymbolicSize, is_dynamic
from xdsl_spirv.passes.analysis.contraction import Contraction, as_contraction
from xdsl_spirv.passes.analysis.linalg_code import (
    maps_of,
    merge_dimensions,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.sizes import extent, is_size_op, number, size_outside
from xdsl_spirv.passes.analysis.unpacking import unpacks
from xdsl_spirv.passes.analysis.values import erase_unused_ops
from xdsl_spirv.passes.graph.fuse_dispatches import part_of_columns
from xdsl_spirv.passes.schedule.fold_rows import FoldPass, Pair
from xdsl_spirv.passes.schedule.kinds import kind_of, root_of
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.targets import Target

Generic: TypeAlias = linalg.ops.GenericOp


@dataclass(frozen=True)
class FoldPartsPass(FoldPass):
    """Fuses a product with the dispatch that combines equal blocks of the product's columns."""

    name = "fold-parts"
    kind = "coopmat"
    on_processors = True

    def takes(self, first: DispatchOp, target: Target) -> bool:
        """True if a dispatch computes only a product, whose sums start from one number."""
        root = first.yielded[0].owner if len(first.outputs) == 1 else None
        if not isinstance(root, Generic) or kind_of(root) != self.kind:
            return False
        fill = root.outputs[0].owner
        return isinstance(fill, linalg.ops.FillOp) and isinstance(
            fill.outputs[0].owner, tensor.EmptyOp
        )

    def joins(self, pair: Pair) -> bool:
        """True if the reader only computes elements from slices of the product's result."""
        reader = pair.second
        if pair.read not in pair.first.results or len(reader.outputs) != 1 or reader.updates:
            return False
        slices = {op for op in reader.body.block.ops if isinstance(op, tensor.ExtractSliceOp)}
        argument = reader.body.block.args[list(reader.inputs).index(pair.read)]
        users = {use.operation for use in argument.uses if not is_size_op(use.operation)}
        return users == slices != set() and _are_elements(reader, slices)

    def rewrite(self, folded: DispatchOp, pair: Pair) -> bool:
        """
        Splits the columns, and stores the result by components if no other way fits.

        If nothing passes through Workgroup memory, subgroups get as many fragments as parts.
        """
        parts, plan = _Parts.of(folded), self.plan(pair.first, pair.target)
        if parts is None:
            return False
        parts.split(InsertPoint.before(pair.first))
        if isinstance(plan, Plan) and not plan.staged:
            parts.root.attributes[SCHEDULE] = parts.schedule = parts.widen_tile()
        if self.plan(folded, pair.target) is None:
            by_components = parts.schedule.replace_values(result="components")
            parts.root.attributes[SCHEDULE] = by_components
        return True

    def replacement(self, folded: DispatchOp, reader: Operation) -> list[Operation]:
        type = tensor_type(reader.results[0])
        rank = type.get_num_dims()
        groups = [*([d] for d in range(rank - 1)), [rank - 1, rank]]
        return [folded, merge_dimensions(folded.results[0], groups, type.get_shape())]


def _in_function(size: Size, dispatch: DispatchOp) -> Size:
    """Expresses a size inside a dispatch by sizes that no dispatch computes."""
    size = size_outside(size, dispatch, _of_operand)
    # A recursion would be as deep as the model has dispatches.
    while is_dynamic(size) and (known := dict(_before_dispatches(size))):
        size = size.replaced(known)
    return size


def _before_dispatches(size: SymbolicSize) -> Iterator[tuple[Extent, Size]]:
    """
    Yields (size, the same size in terms of the dispatch's operands) for each size in `size` that a
    dispatch computes.
    """
    for own in size.extents:
        if isinstance(own.value, OpResult) and isinstance(op := own.value.op, DispatchOp):
            inner = extent(op.yielded[own.value.index], own.dimension)
            yield own, size_outside(inner, op, _of_operand)


def _of_operand(asked: Extent) -> Size:
    is_number = isinstance(asked.value.type, IndexType)
    return number(asked.value) if is_number else extent(asked.value, asked.dimension)


def _are_elements(dispatch: DispatchOp, slices: Container[Operation]) -> bool:
    block = dispatch.body.block
    for op in block.ops:
        match op:
            case tensor.EmptyOp() | arith.ConstantOp() | YieldOp():
                continue
            case Generic():
                write = maps_of(op)[-1]
                identity = write == AffineMap.identity(write.num_dims)
                if not is_pointwise(op) or not identity or write.num_dims < 2:
                    return False
                if not all(map(_walks_columns_alike, op.inputs, maps_of(op))):
                    return False
            case _:
                if op not in slices and not is_size_op(op):
                    return False
    return isinstance(dispatch.yielded[0].owner, Generic)


def _walks_columns_alike(value: SSAValue, map: AffineMap) -> bool:
    """
    True if the result's column indexes the operand only along its last dimension.

    An argument of the dispatch, or a scalar, must not be indexed by the column at all.
    """
    column = AffineDimExpr(map.num_dims - 1)
    if isinstance(value, BlockArgument) or not isinstance(value.type, TensorType):
        return column not in map.results
    return map.results[-1] == column and column not in map.results[:-1]


@dataclass
class _Parts:
    """
    A dispatch that computes a product and combines `count` equal parts of the product's columns.

    The product's columns are reordered, so that each of `groups` blocks of columns has a fragment
    of `width` columns of every part.
    """

    dispatch: DispatchOp
    root: Generic
    schedule: ContractionAttr
    count: int
    numbers: dict[SSAValue, int]
    """Part index of each slice of the product's result."""

    @staticmethod
    def of(dispatch: DispatchOp) -> _Parts | None:
        """
        Returns a dispatch's product and the parts of its columns. Returns None if the columns
        cannot be reordered.
        """
        root = root_of(dispatch)
        assert isinstance(root, Generic)
        outside = cache(partial(_in_function, dispatch=dispatch))
        read = (use.operation for use in root.results[0].uses)
        slices = [op for op in read if isinstance(op, tensor.ExtractSliceOp)]
        parts = {op.result: part_of_columns(op, outside) for op in slices}
        numbers: dict[SSAValue, int] = {
            value: part[1] for value, part in parts.items() if part is not None
        }
        counts = {part[0] for part in parts.values() if part is not None}
        contraction, schedule = as_contraction(root), root.attributes[SCHEDULE]
        assert isinstance(schedule, ContractionAttr)
        if contraction is None or len(counts) != 1 or len(numbers) < len(slices):
            return None
        found = _Parts(dispatch, root, schedule, counts.pop(), numbers)
        return found if found._divides(contraction) else None

    def _divides(self, contraction: Contraction) -> bool:
        """
        True if a single loop indexes the columns of B, and the columns of each part are a multiple
        of `width`.
        """
        (batch, m, n, _), width = contraction.counts, self.schedule.instruction.sizes[self._side]
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
        """The dimension of B that the loop over columns indexes."""
        self.width, self.groups = width, contraction.n // self.count // width
        self.b = list(self.root.inputs).index(contraction.b)
        if isinstance(contraction.b, BlockArgument):
            return contraction.b.has_one_use()
        if not isinstance(owner, Generic) or not unpacks(owner):
            return False
        indices = (i for i in owner.body.block.ops if isinstance(i, linalg.ops.IndexOp))
        asked = [index.dim.value.data for index in indices]
        given = all(isinstance(value, BlockArgument) for value in owner.inputs)
        return given and self.column not in asked

    @property
    def _side(self) -> int:
        """Index of the columns among the schedule's sizes."""
        return 0 if self.schedule.is_transposed else 1

    def widen_tile(self) -> ContractionAttr:
        """Returns the schedule with a fragment of each part for every subgroup."""
        tile, own = list(self.schedule.tile), self.schedule.fragments[self._side]
        tile[self._side] *= lcm(own, self.count) // own
        return self.schedule.replace_values(workgroup_tile=tile)

    # Operations

    def split(self, point: InsertPoint) -> None:
        """Reorders the columns; inserts views of B's tensors at `point`."""
        ops, self.point = list(self.dispatch.body.block.ops), point
        self._split_second_operand(self.root.operands[self.b])
        self._split_root()
        for op in ops[ops.index(self.root) + 1 :]:
            if isinstance(op, Generic):
                self._split_elements(op)
        erase_unused_ops(self.dispatch.body.block, lambda _: True)
        self.dispatch.drop_unread_operands()
        (result,) = self.dispatch.yielded
        Rewriter.replace_value_with_new_type(self.dispatch.results[0], result.type)

    def _view(self, argument: SSAValue, at: int) -> None:
        assert isinstance(argument, BlockArgument)
        value = self.dispatch.inputs[argument.index]
        view = split_dimension(value, at, self.count, self.groups)
        Rewriter.insert_op(view, self.point)
        self.dispatch.operands[argument.index] = view.result
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

    def _split_root(self) -> None:
        root = self.root
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

    def _split_elements(self, op: Generic) -> None:
        numbers = self.numbers
        column, count = len(op.iterator_types) - 1, len(op.iterator_types) + 1
        maps: list[AffineMap] = []
        for at, (value, map) in enumerate(zip(op.operands, maps_of(op), strict=True)):
            results: list[AffineExpr] = list(map.results)
            if results and results[-1] == AffineDimExpr(column):
                part = [AffineConstantExpr(numbers[value])] if value in numbers else []
                results[-1:] = [AffineDimExpr(column), *part, AffineDimExpr(column + 1)]
            maps.append(AffineMap(count, 0, tuple(results)))
            if value in numbers:
                op.operands[at] = self.root.results[0]
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
    """
    Returns the map with loop `at`, and the dimension that it indexes, each split into three. The
    new map has `count` loops.
    """
    moved = [AffineDimExpr(d + 2 * (d > at)) for d in range(map.num_dims)]
    results: list[AffineExpr] = []
    for expression in map.results:
        if expression == AffineDimExpr(at):
            results += [AffineDimExpr(at + n) for n in range(3)]
        else:
            results.append(expression.replace_dims_and_symbols(moved, []))
    return AffineMap(count, 0, tuple(results))
