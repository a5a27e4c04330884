"""
An elementwise function of equal parts of a product's columns becomes a part of the product's
kernel.

    %p = contraction(%x, %w)             : m x 28672      one dispatch
    %h = f(%p[m, 14336 + j], %p[m, j])   : m x 14336      another one
                                   ->
    %p = contraction(%x, %w')            : m x 896 x 2 x 16
    %h = f(%p[m, g, 1, j], %p[m, g, 0, j])   : m x 896 x 16

A subgroup multiplies a fragment of each part side by side, so that an invocation has the same
column of all parts in its own registers: neither a launch nor what was written and read between the
two remains. The layout of the weights' loops chooses the columns of a fragment; the weights lie as
they did. This is done for schedules of `coopmat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import CONSIDERED, SCHEDULE, ContractionAttr, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.linalg_code import (
    make_generic,
    merge_dimensions,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.sizes import extent, is_size_op, number
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.analysis.unpacking import unpacks
from xdsl_spirv.passes.graph.fuse_dispatches import part_of_columns
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit, kind_of, plan_of
from xdsl_spirv.targets import Target

Generic: TypeAlias = linalg.ops.GenericOp


@dataclass(frozen=True)
class FoldPartsPass(ModulePass):
    """Computes elements of several parts of a product's columns in the product's kernel."""

    name = "fold-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheduled = [
            o for o in op.walk() if isinstance(o.attributes.get(SCHEDULE), ContractionAttr)
        ]
        if not scheduled:
            return
        target = target_of(op, self.name)
        for function in functions_of(op):
            sizes = _Sizes()
            for dispatch in [o for o in function.walk() if isinstance(o, DispatchOp)]:
                parts = _Parts.of(dispatch, sizes)
                sizes.note(dispatch if parts is None else _fold(parts, target))


class _Sizes:
    """Sizes in terms of a function's arguments, through the noted dispatches."""

    def __init__(self) -> None:
        self._known: dict[Extent, Size] = {}

    def note(self, dispatch: DispatchOp) -> None:
        """Note the sizes of a dispatch's results; earlier dispatches have been noted."""
        for value, result in zip(dispatch.yielded, dispatch.results, strict=True):
            for dimension, size in enumerate(tensor_type(result).get_shape()):
                if size == DYNAMIC_INDEX:
                    computed = self.inside(extent(value, dimension), dispatch)
                    self._known[Extent(result, dimension)] = computed

    def inside(self, size: Size, dispatch: DispatchOp) -> Size:
        """A size in terms of a dispatch's arguments, translated to the outside."""
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


@dataclass(frozen=True)
class _Parts:
    """A dispatch that computes elements from `count` parts of the result of `product`."""

    dispatch: DispatchOp
    argument: BlockArgument
    product: DispatchOp
    root: Generic
    count: int
    slices: dict[SSAValue, int]
    """The slices of the product's result, and which part each of them is."""

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


def _are_elements(dispatch: DispatchOp, slices: Sequence[Operation]) -> bool:
    """True if a dispatch only slices, and computes elements from the same column of slices."""
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
    """True if computed operands are indexed by the column last, and arguments not by it at all."""
    column = AffineDimExpr(map.data.num_dims - 1)
    if isinstance(value, BlockArgument) or not isinstance(value.type, TensorType):
        return column not in map.data.results
    return map.data.results[-1] == column and column not in map.data.results[:-1]


def _root_of(owner: object) -> Generic | None:
    """Returns the product by matrices if it is all that a dispatch computes, else None."""
    if not isinstance(owner, DispatchOp) or len(owner.outputs) != 1 or owner.updates:
        return None
    root = owner.yielded[0].owner
    if not isinstance(root, Generic):
        return None
    if kind_of(root) != "coopmat":
        return None
    fill = root.outputs[0].owner
    if not isinstance(fill, linalg.ops.FillOp) or not isinstance(
        fill.outputs[0].owner, tensor.EmptyOp
    ):
        return None
    return root


def _fold(parts: _Parts, target: Target) -> DispatchOp:
    """
    Computes the elements in the product's kernel, or leaves everything as it is.

    Returns the dispatch that then computes them.
    """
    try:
        contraction = contraction_of(parts.root)
    except NotAContraction:
        return parts.dispatch
    schedule = parts.root.attributes[SCHEDULE]
    assert isinstance(schedule, ContractionAttr)
    for tried in (schedule, _with_components(schedule)):
        writer = _Writer(parts, contraction, schedule.instruction.sizes[1])
        if not writer.can_write():
            return parts.dispatch
        folded = writer.write(tried)
        if _fits(folded, target):
            writer.replace(folded)
            return folded
        folded.erase()
        for view in writer.views:
            view.erase()
    return parts.dispatch


def _fits(dispatch: DispatchOp, target: Target) -> bool:
    root = next(op for op in dispatch.body.block.ops if SCHEDULE in op.attributes)
    try:
        plan_of(root, target)
    except (NotAContraction, ScheduleDoesNotFit):
        return False
    return True


def _with_components(schedule: ContractionAttr) -> ContractionAttr:
    """The schedule whose results do not pass through Workgroup memory."""
    return ContractionAttr.new(
        [StringAttr("components") if p is schedule.result else p for p in schedule.parameters]
    )


class _Writer:
    """Rewrites a product's dispatch so that a block of columns has a fragment of each part."""

    def __init__(self, parts: _Parts, contraction: Contraction, width: int):
        self.parts, self.contraction, self.width = parts, contraction, width
        self.groups = contraction.n // parts.count // width if not is_dynamic(contraction.n) else 0
        self.views: list[Operation] = []
        self.block = Block()
        self.inputs: list[SSAValue] = []
        self.inside: dict[SSAValue, SSAValue] = {}

    def can_write(self) -> bool:
        """Whether the columns are one loop of the second operand, and parts are made of blocks."""
        contraction = self.contraction
        batch, m, n, _ = contraction.counts
        if (batch, n) != (0, 1) or m < 1 or is_dynamic(contraction.n):
            return False
        if contraction.n % (self.parts.count * self.width) or contraction.prologues[1]:
            return False
        column = AffineDimExpr(contraction.groups[2].start)
        maps = contraction.maps
        in_b = [e for e in maps[1].results if column in e.dfs()]
        if in_b != [column] or maps[2].results[-1] != column:
            return False
        owner = contraction.b.owner
        if isinstance(contraction.b, BlockArgument):
            return contraction.b.has_one_use()
        if not isinstance(owner, Generic) or not unpacks(owner):
            return False
        at = self._column_in_unpacking(owner)
        asked = (
            i.dim.value.data for i in owner.body.block.ops if isinstance(i, linalg.ops.IndexOp)
        )
        return at not in asked and all(isinstance(v, BlockArgument) for v in owner.inputs)

    def _column_in_unpacking(self, op: Generic) -> int:
        """The loop of an operation that unpacks B which walks the product's columns."""
        column = AffineDimExpr(self.contraction.groups[2].start)
        return list(self.contraction.maps[1].results).index(column)

    # Shapes and maps

    def _split(self, shape: Sequence[int], at: int) -> list[int]:
        """Splits the column dimension of a shape into parts, blocks, columns of a block."""
        return [*shape[:at], self.parts.count, self.groups, self.width, *shape[at + 1 :]]

    def _view(self, value: SSAValue, at: int) -> SSAValue:
        """Returns a view, outside the dispatch, that splits dimension `at` of a tensor."""
        view = split_dimension(value, at, self.parts.count, self.groups)
        self.views.append(view)
        return view.result

    def _argument(self, value: SSAValue) -> SSAValue:
        """Returns the new dispatch's argument for an outside value; adds it if it is missing."""
        if value not in self.inputs:
            self.inputs.append(value)
            self.block.insert_arg(value.type, len(self.block.args))
        return self.block.args[self.inputs.index(value)]

    # Operations

    def write(self, schedule: ContractionAttr) -> DispatchOp:
        """Builds the new dispatch without inserting it."""
        product, root = self.parts.product, self.parts.root
        old = product.body.block
        b = self.contraction.b
        planes = [b] if isinstance(b, BlockArgument) else []
        source = b.owner
        if isinstance(source, Generic):
            planes = [value for value in source.inputs if isinstance(value, BlockArgument)]
        for argument in old.args:
            value = product.inputs[argument.index]
            if argument in planes and (at := self._column_of(argument)) is not None:
                value = self._view(value, at)
            self.inside[argument] = self._argument(value)
            self.inside[argument].name_hint = argument.name_hint
        for op in old.ops:
            if isinstance(op, YieldOp):
                break
            if op is root:
                copy = self._root(schedule)
            elif op is source and isinstance(op, Generic):
                copy = self._unpacking(op)
            elif isinstance(op, tensor.EmptyOp) and self._is_split(op):
                copy = self._empty(op, source)
            elif isinstance(op, linalg.ops.FillOp) and op.results[0] is root.outputs[0]:
                out = self.inside[op.outputs[0]]
                copy = linalg.ops.FillOp([self.inside[op.inputs[0]]], [out], [out.type])
            else:
                copy = op.clone(self.inside)
            self._add(op, copy)
        self._elements()
        result = self.inside[self.parts.dispatch.yielded[0]]
        self.block.add_op(YieldOp(result))
        folded = DispatchOp(self.inputs, [result.type], Region(self.block))
        folded.location = product.location
        return folded

    def _add(self, op: Operation, copy: Operation) -> None:
        copy.location = op.location
        self.block.add_op(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
            self.inside[old] = new

    def _column_of(self, argument: BlockArgument) -> int | None:
        """The dimension of a plane, or of B itself, that the product's columns walk."""
        contraction = self.contraction
        if argument is contraction.b:
            return list(contraction.maps[1].results).index(self._loop)
        source = contraction.b.owner
        assert isinstance(source, Generic)
        read = source.get_indexing_maps().data[list(source.inputs).index(argument)].data
        column = AffineDimExpr(self._column_in_unpacking(source))
        return list(read.results).index(column) if column in read.results else None

    @property
    def _loop(self) -> AffineDimExpr:
        return AffineDimExpr(self.contraction.groups[2].start)

    def _is_split(self, op: tensor.EmptyOp) -> bool:
        """True if an empty tensor is the destination of the product or of B."""
        root = self.parts.root
        fill = root.outputs[0].owner
        written = [fill.outputs[0]] if isinstance(fill, linalg.ops.FillOp) else []
        if isinstance(source := self.contraction.b.owner, Generic):
            written += source.outputs
        return op.tensor in written

    def _empty(self, op: tensor.EmptyOp, source: object) -> tensor.EmptyOp:
        type = op.tensor.type
        shape = list(type.get_shape())
        if isinstance(source, Generic) and op.tensor in source.outputs:
            split = self._split(shape, self._column_in_unpacking(source))
        else:
            split = [*shape[:-1], self.groups, self.parts.count, self.width]
        sizes = [self.inside[value] for value in op.dynamic_sizes]
        return tensor.EmptyOp(sizes, TensorType(type.element_type, split))

    def _unpacking(self, op: Generic) -> Generic:
        """Rewrites the operation that unpacks B with its column loop split into three."""
        at, count = self._column_in_unpacking(op), len(op.iterator_types) + 2
        maps = [_with_loops(m.data, at, count) for m in op.get_indexing_maps()]
        body = op.body.clone()
        for index in body.block.ops:
            if isinstance(index, linalg.ops.IndexOp) and index.dim.value.data > at:
                index.dim = IntegerAttr(index.dim.value.data + 2, index.dim.type)
        return self._generic(op, maps, body)

    def _root(self, schedule: ContractionAttr) -> Generic:
        """Rewrites the product with its columns split into blocks of parts."""
        op = self.parts.root
        contraction, own = self.contraction, op.get_indexing_maps().data
        at = own[-1].data.results[-1]
        assert isinstance(at, AffineDimExpr)
        b = list(op.inputs).index(contraction.b)
        count = len(op.iterator_types) + 2
        maps: list[AffineMap] = []
        # The new loops are blocks, parts and columns of a block; B has its parts outermost.
        for operand, map in enumerate(own):
            split = _with_loops(map.data, at.position, count)
            if operand == b:
                place = list(map.data.results).index(at)
                results = list(split.results)
                results[place : place + 2] = results[place + 1], results[place]
                split = AffineMap(count, 0, tuple(results))
            maps.append(split)
        root = self._generic(op, maps, op.body.clone())
        root.attributes.update(op.attributes)
        root.attributes[SCHEDULE] = schedule
        return root

    def _generic(self, op: Generic, maps: Sequence[AffineMap], body: Region) -> Generic:
        out = self.inside[op.outputs[0]]
        more = [IteratorTypeAttr.parallel()] * (maps[0].num_dims - len(op.iterator_types))
        inputs = [self.inside[value] for value in op.inputs]
        return make_generic(inputs, out, maps, body, [*more, *op.get_iterator_types()])

    def _elements(self) -> None:
        """Rewrites the operations on parts with their columns split into blocks."""
        parts = self.parts
        root = self.inside[parts.root.results[0]]
        fill = parts.root.outputs[0].owner
        assert isinstance(fill, linalg.ops.FillOp)
        whole = fill.outputs[0].owner
        assert isinstance(whole, tensor.EmptyOp)
        for op in parts.dispatch.body.block.ops:
            match op:
                case Generic():
                    self._add(op, self._element(op, root))
                case tensor.EmptyOp():
                    shape = op.tensor.type.get_shape()
                    split = [*shape[:-1], self.groups, self.width]
                    sizes = [self.inside[value] for value in whole.dynamic_sizes]
                    self._add(
                        op, tensor.EmptyOp(sizes, TensorType(op.tensor.type.element_type, split))
                    )
                case arith.ConstantOp():
                    self._add(op, op.clone())
                case _:
                    continue

    def _element(self, op: Generic, root: SSAValue) -> Generic:
        column, count = len(op.iterator_types) - 1, len(op.iterator_types) + 1
        maps: list[AffineMap] = []
        for value, map in zip((*op.inputs, *op.outputs), op.get_indexing_maps(), strict=True):
            results: list[AffineExpr] = list(map.data.results)
            if results and results[-1] == AffineDimExpr(column):
                blocks = AffineDimExpr(column)
                part = (
                    [AffineConstantExpr(self.parts.slices[value])]
                    if value in self.parts.slices
                    else []
                )
                results[-1:] = [blocks, *part, AffineDimExpr(column + 1)]
            maps.append(AffineMap(count, 0, tuple(results)))
            if value in self.parts.slices:
                self.inside[value] = root
            elif isinstance(value, BlockArgument):
                self.inside[value] = self._argument(self.parts.dispatch.inputs[value.index])
        copy = self._generic(op, maps, op.body.clone())
        copy.attributes.update(op.attributes)
        copy.attributes.pop(CONSIDERED, None)
        return copy

    # The new dispatch in the place of both

    def replace(self, folded: DispatchOp) -> None:
        dispatch, product = self.parts.dispatch, self.parts.product
        block = dispatch.parent_block()
        assert block is not None
        (old,) = dispatch.outputs
        rank = tensor_type(old).get_num_dims()
        groups = [[d] for d in range(rank - 1)] + [[rank - 1, rank]]
        whole = merge_dimensions(folded.outputs[0], groups, old.type.get_shape())
        for op in (*self.views, folded, whole):
            block.insert_op_before(op, dispatch)
        whole.result.name_hint = old.name_hint
        old.replace_all_uses_with(whole.result)
        block.erase_op(dispatch)
        block.erase_op(product)


def _with_loops(map: AffineMap, at: int, count: int) -> AffineMap:
    """Returns a map in which loop `at` is three loops, and its dimension three dimensions."""
    moved = [AffineDimExpr(d + 2 * (d > at)) for d in range(map.num_dims)]
    results: list[AffineExpr] = []
    for expression in map.results:
        if expression == AffineDimExpr(at):
            results += [AffineDimExpr(at + n) for n in range(3)]
        else:
            results.append(expression.replace_dims_and_symbols(moved, []))
    return AffineMap(count, 0, tuple(results))
