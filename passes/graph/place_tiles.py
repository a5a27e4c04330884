"""
Rewrites tile programs for a known launch, so that `tile.place` assigns tiles to workgroups.

    %p = tile.program_id 0                                 %i, %j = tile.place %c tile [64, 64] ...
    %v = tile.view_of %a[f(%p)] sizes ... strides ...  ->  %x = tile.load %a[%i, %at]
    %x = tile.load %v[%zero, %zero]

f is any arithmetic, which is evaluated for every workgroup of the launch. A box is the part of a
buffer that one load or store accesses. The movement of the boxes between workgroups gives the
buffer's axes. The boxes must cover the buffer exactly, and no two workgroups may store the same
element. A mask becomes the size of an axis, or is dropped if it cuts no box. `NotRaised` gives the
cause if a program does not have this form for every workgroup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce

from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.passes.graph.program_numbers import Digits, Numbers, Source, constant
from xdsl_spirv.passes.graph.tile_nodes import NotRaised

INDEX = IndexType()


@dataclass(frozen=True)
class Axis:
    """
    An axis of a buffer with `extent` elements, and the part that one load or store covers.

    The part has `tile` elements. `number` is the axis of the loaded or stored tile, or None.
    """

    stride: int
    tile: int
    extent: int
    source: Source
    number: int | None


@dataclass(frozen=True)
class Access:
    """A load or store of a rectangular box of elements: its first element, sizes and strides."""

    op: tile.LoadOp | tile.StoreOp
    buffer: BlockArgument
    start: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    rooms: tuple[Array | None, ...]
    """
    Number of elements up to the end of the mask along each axis; None if no mask cuts the box.
    """


def placed_programs(
    program: tile.ProgramOp, grid: Sequence[int], given: Mapping[int, int | float]
) -> Iterator[tile.ProgramOp]:
    """
    Yields equivalent programs for this grid and these arguments, with tile indices in place of
    workgroup ids.

    If several mixed-radix digits of the workgroup id could index an axis, yields one program for
    each. Raises `NotRaised` if there is no such program.
    """
    if not any(isinstance(op, tile.MultiplyAddOp) for op in program.walk()):
        raise NotRaised("the program has no product of tiles")
    if any(isinstance(op, tile.GatherOp | tile.ScatterOp) for op in program.walk()):
        raise NotRaised("a gather or scatter has no form on whole tensors")
    numbers = Numbers(program, grid, given)
    ops = [op for op in program.walk() if isinstance(op, tile.LoadOp | tile.StoreOp)]
    accesses = [_access(numbers, op) for op in ops]
    stores = [a for a in accesses if isinstance(a.op, tile.StoreOp)]
    if not stores or any(a.op.parent_op() is not program for a in stores):
        raise NotRaised("a store is in a loop or branch" if stores else "the program has no store")
    rooms = [room for access in accesses for room in access.rooms if room is not None]
    digits = Digits(numbers, stores[0].start, [*(a.start for a in accesses), *rooms])
    if (count := digits.digits) > 3:
        raise NotRaised("workgroups divide the tiles along more than three axes")
    causes, found = list[NotRaised](), False
    for joined in (c for n in range(count, -1, -1) for c in combinations(range(count), n)):
        try:
            made = _Placed(numbers, digits, accesses, frozenset(joined)).write(program)
        except NotRaised as error:
            causes.append(error)
        else:
            found = True
            yield made
    if not found:
        raise causes[0]


def _access(numbers: Numbers, op: tile.LoadOp | tile.StoreOp) -> Access:
    view, known, made = op.view, numbers.known, op.view.owner
    box = tile.tile_of(op.result if isinstance(op, tile.LoadOp) else op.tile).shape
    is_cut = op.clipped if isinstance(op, tile.StoreOp) else op.any or op.outside
    parts = (made.offset, *made.sizes, *made.strides) if isinstance(made, tile.ViewOp) else ()
    if any(value not in known for value in (*parts, *op.indices)):
        raise NotRaised("an index is not computed from workgroup ids and loop indices")
    if isinstance(made, tile.ViewOp):
        view, start = made.source, known[made.offset]
        sizes: Sequence[Any] = [known[value] for value in made.sizes]
        strides: Sequence[Any] = [constant(known[value]) for value in made.strides]
    else:
        sizes, start = tile.view_of(view).shape, np.asarray(0)
        strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    if not isinstance(view, BlockArgument):
        raise NotRaised("a load or store uses a view of another view, not of an argument")
    box, rooms = (1,) * (len(sizes) - len(box)) + box, list[Array | None]()
    for index, size, step, count in zip(op.indices, sizes, strides, box, strict=True):
        if step is None or step < (count > 1):
            raise NotRaised("the stride along an axis of a loaded or stored box is not constant")
        start = start + known[index] * step
        room = size - known[index]
        if is_cut and known[index].min() < 0:
            raise NotRaised("a load or store begins before its view")
        rooms.append(room if is_cut and room.min() < count else None)
    return Access(op, view, start, box, tuple(s or 0 for s in strides), tuple(rooms))


class _Placed:
    """
    Writes a program in which tile indices replace workgroup ids.

    A digit of the workgroup id in `joined` selects a tile along an axis of the accessed box. Each
    other digit is the index of a separate axis.
    """

    def __init__(
        self, numbers: Numbers, digits: Digits, accesses: Sequence[Access], joined: frozenset[int]
    ):
        self.numbers, self.digits, self.joined = numbers, digits, joined
        self.tiles: dict[Source, int] = {d: 1 for d in range(digits.digits) if d not in joined}
        """Maps each variable (workgroup digit or loop index) to its step in elements."""
        self.extents: dict[Source, int] = {}
        self.axes: dict[Operation, list[Axis]] = {a.op: self._axes(a) for a in accesses}
        self.accesses: dict[Operation, Access] = {a.op: a for a in accesses}
        self.shapes: dict[BlockArgument, tuple[int, ...]] = {}
        for access in accesses:
            shape = tuple(axis.extent for axis in self.axes[access.op])
            if self.shapes.setdefault(access.buffer, shape) != shape:
                raise NotRaised(
                    "loads and stores of one buffer imply different shapes of the buffer"
                )
        self.values: dict[SSAValue, SSAValue] = {}
        self.firsts: dict[Source, SSAValue] = {}

    # Axes of buffers

    def _axes(self, access: Access) -> list[Axis]:
        """Returns the buffer's axes along which an access moves, the slowest first."""
        walks = self.digits.split(access.start)
        if walks is None:
            raise NotRaised("the loads or stores of workgroups do not form a regular grid")
        start = walks.pop(None)
        made = list[Axis]()
        for number, size in enumerate(access.shape):
            if size > 1:
                made.append(self._axis(access, number, walks))
            elif access.rooms[number] is not None:
                raise NotRaised("a mask hides a whole load or store")
        for source, step in walks.items():
            self._agree(self.tiles, source, 1)
            self._agree(self.extents, source, self.digits.counts[source])
            made.append(Axis(step, 1, self.digits.counts[source], source, None))
        made.sort(key=lambda axis: (-axis.stride, -axis.extent))
        left = prod(tile.view_of(access.buffer).shape)
        for axis in made:
            if start or axis.stride * axis.extent != left:
                raise NotRaised(
                    "the loads or stores of all workgroups do not cover a buffer exactly"
                )
            left = axis.stride
        if left != 1:
            raise NotRaised("elements along a buffer's last axis are not contiguous")
        return made

    def _axis(self, access: Access, number: int, walks: dict[Source, int]) -> Axis:
        """
        Returns the buffer axis for axis `number` of an access.

        `walks` maps each variable that moves the access to its step. Removes the variable of this
        axis from `walks`.
        """
        size, stride = access.shape[number], access.strides[number]
        room, source = access.rooms[number], None
        for walk in (w for w, step in walks.items() if step == size * stride):
            if not isinstance(walk, int) or walk in self.joined:
                source = walk
                del walks[walk]
                break
        count = self.digits.counts.get(source, 1)
        extent = size * count if room is None else self._extent(room, source, size)
        if -(-extent // size) != count:
            raise NotRaised("a mask hides a whole load or store")
        if source is not None:
            self._agree(self.tiles, source, size)
            self._agree(self.extents, source, extent)
        return Axis(stride, size, extent, source, number)

    def _extent(self, room: Array, source: Source, size: int) -> int:
        """
        Returns the size of an axis whose last tile is cut by a mask. `room` is the number of
        elements that the mask leaves in each workgroup.
        """
        terms = self.digits.split(room) or {}
        extent = terms.pop(None, 0)
        if terms != ({} if source is None else {source: -size}):
            raise NotRaised("a mask ends at different elements of an axis in different workgroups")
        return extent

    def _agree(self, known: dict[Source, int], source: Source, number: int) -> None:
        if known.setdefault(source, number) != number:
            raise NotRaised("loads and stores along one axis differ in tile size or step")

    # The program

    def write(self, program: tile.ProgramOp) -> tile.ProgramOp:
        made = program.clone(value_mapper=self.values)
        block, pairs = made.body.block, list(zip(program.walk(), made.walk(), strict=True))
        for argument, shape in self.shapes.items():
            type = tile.view_type(shape, tile.view_of(argument).element)
            new = Rewriter.replace_value_with_new_type(self.values[argument], type)
            self.values[argument] = new
        self._place(next(op for op in self.axes if isinstance(op, tile.StoreOp)), block)
        for old, op in pairs[1:]:
            self.b, self.location = Builder(InsertPoint.before(op)), old.location
            match old:
                case tile.LoadOp():
                    self._load(old, op)
                case tile.StoreOp():
                    self._store(old, op)
                case scf.ForOp():
                    self._loop(old, op)
                case tile.ViewOp():
                    pass
                case _ if not set(old.results) & self.numbers.known.keys():
                    for number, value in enumerate(old.operands):
                        if value in self.numbers.known:
                            op.operands[number] = self.value(value)
                case _:
                    pass
        for old, op in reversed(pairs):
            self._inline(old, op)
        region_dce(made.body)
        for argument in list(block.args):
            if not isinstance(argument.type, tile.ViewType) and argument.first_use is None:
                block.erase_arg(argument)
        made.verify()
        return made

    def _place(self, store: tile.StoreOp, block: Block) -> None:
        """Inserts the `tile.place` that gives each workgroup its tile of the stored buffer."""
        sources = [axis.source for axis in self.axes[store]]
        digits = list(reversed(range(self.digits.digits)))
        if digits:
            tiles, axes = [self.tiles[d] for d in digits], [sources.index(d) for d in digits]
            place = tile.PlaceOp(self.values[self.accesses[store].buffer], tiles, axes)
            place.location = store.location
            Builder(InsertPoint.at_start(block)).insert(place)
            self.firsts.update(zip(digits, place.firsts, strict=True))

    def _add(self, op: Operation) -> SSAValue:
        op.location = self.location
        return self.b.insert(op).results[0]

    def value(self, value: SSAValue) -> SSAValue:
        """Returns the new program's value for a value of the old program."""
        known, op = self.numbers.known.get(value), value.owner
        if known is None:
            return self.values[value]
        if (number := constant(known)) is not None:
            return self._constant(number, value.type)
        total = None if value.type == IntegerType(1) else self._sum(known)
        if total is not None:
            return total if value.type == INDEX else self._add(arith.IndexCastOp(total, value.type))
        if not isinstance(op, Operation) or isinstance(op, tile.ProgramIdOp):
            raise NotRaised("a workgroup id is used for something other than a tile's index")
        operands = [self.value(operand) for operand in op.operands]
        types = [value.type]
        return self._add(op.create(operands=operands, result_types=types, properties=op.properties))

    def _constant(self, number: Any, type: Attribute) -> SSAValue:
        attribute = FloatAttr if isinstance(type, AnyFloat) else IntegerAttr
        return self._add(arith.ConstantOp(attribute(number, cast(Any, type))))

    def _sum(self, number: Array) -> SSAValue | None:
        """Writes a number as a sum of the first indices of tiles; None if that is impossible."""
        terms = self.digits.split(number)
        if terms is None:
            return None
        rest = terms.pop(None)
        if any(factor % self.tiles[source] for source, factor in terms.items()):
            return None
        parts = [
            self._add(arith.MuliOp(self.firsts[source], self._constant(share, INDEX)))
            if (share := factor // self.tiles[source]) != 1
            else self.firsts[source]
            for source, factor in terms.items()
        ]
        if rest or not parts:
            parts.append(self._constant(rest, INDEX))
        return reduce(lambda a, b: self._add(arith.AddiOp(a, b)), parts)

    def _loop(self, old: scf.ForOp, op: Operation) -> None:
        """Replaces a loop by a loop over the elements at which its loads and stores begin."""
        index = old.body.block.args[0]
        if (trips := self.numbers.trips.get(index)) is None:
            raise NotRaised("a loop's first index, step or end is not known")
        self.firsts[index] = op.regions[0].block.args[0]
        own_step = constant(self.numbers.known[old.step])
        step = self.tiles.setdefault(index, own_step)
        extent = self.extents.get(index, int(trips.max()) * step)
        upper = self._constant(extent, INDEX)
        if (trips != trips.max()).any():
            if own_step != step or self.numbers.known[old.lb].any():
                raise NotRaised(
                    "a loop's end depends on the workgroup, and its index does not count elements"
                )
            ends = [old.ub]
            if isinstance(
                old.ub.owner, arith.MinSIOp
            ):  # the minimum of the axis's size and another bound
                ends = list(old.ub.owner.operands)
            others = [end for end in ends if constant(self.numbers.known[end]) != extent]
            upper = reduce(self._least, [upper, *map(self.value, others)])
        bounds = self._constant(0, INDEX), upper, self._constant(step, INDEX)
        for number, bound in enumerate(bounds):
            op.operands[number] = bound

    def _least(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._add(arith.MinSIOp(a, b))

    def _inline(self, old: Operation, op: Operation) -> None:
        """
        Inlines loops of one iteration, and branches on a condition that is the same everywhere.
        """
        region, values = None, list[SSAValue]()
        if isinstance(old, scf.ForOp):
            if (self.numbers.trips[old.body.block.args[0]] == 1).all():
                region, zero = op.regions[0], arith.ConstantOp(IntegerAttr(0, INDEX))
                Rewriter.insert_op(zero, InsertPoint.before(op))
                values = [zero.result, *op.operands[3:]]
        elif isinstance(old, scf.IfOp):
            chosen = constant(self.numbers.known.get(old.cond))
            if chosen is None:
                raise NotRaised("workgroups or loop iterations branch differently")
            region = op.regions[0 if chosen else 1]
        if region is not None and region.blocks:
            end = region.block.last_op
            assert end is not None
            for result, value in zip(op.results, end.operands, strict=True):
                result.replace_all_uses_with(value)
            Rewriter.erase_op(end)
            Rewriter.inline_block(region.block, InsertPoint.before(op), values)
        if region is not None:
            Rewriter.erase_op(op)

    # Boxes

    def _box(self, op: tile.LoadOp | tile.StoreOp) -> tuple[list[SSAValue], list[int], bool]:
        """
        Returns first indices and sizes of a load or store, and True if it may exceed the buffer.
        """
        axes = self.axes[op]
        indices = [
            self._constant(0, INDEX) if a.source is None else self.firsts[a.source] for a in axes
        ]
        return indices, [a.tile for a in axes], any(a.extent % a.tile for a in axes)

    def _orders(self, op: Operation) -> tuple[list[int], bool]:
        """
        Returns the sizes above 1 of a loaded or stored tile, and True if the buffer holds the tile
        transposed.
        """
        access, axes = self.accesses[op], self.axes[op]
        order = [axis.number for axis in axes if axis.number is not None]
        turned = order != sorted(order)
        if turned and len(order) > 2:
            raise NotRaised("a load or store permutes more than two axes")
        return [size for size in access.shape if size > 1] or [1], turned

    def _move(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        same = tile.tile_of(value).shape == tuple(shape)
        return value if same else self._add(tile.ReshapeOp(value, shape))

    def _load(self, old: tile.LoadOp, op: Operation) -> None:
        view = self.values[self.accesses[old].buffer]
        (indices, shape, is_cut), (sizes, turned) = self._box(old), self._orders(old)
        load = tile.LoadOp(view, indices, shape, old.outside if is_cut else None)
        if is_cut and old.any is not None:
            load.properties["any"] = UnitAttr()
        value = self._add(load)
        if turned:
            value = self._add(tile.TransposeOp(self._move(value, sizes[::-1])))
        self.values[old.result] = self._move(value, tile.tile_of(old.result).shape)
        Rewriter.replace_op(op, [], [self.values[old.result]])

    def _store(self, old: tile.StoreOp, op: Operation) -> None:
        view, value = self.values[self.accesses[old].buffer], self.value(old.tile)
        (indices, shape, is_cut), (sizes, turned) = self._box(old), self._orders(old)
        if turned:
            value = self._add(tile.TransposeOp(self._move(value, sizes)))
        store = tile.StoreOp(self._move(value, shape), view, indices, is_cut)
        store.location = old.location
        Rewriter.replace_op(op, [store], [])
