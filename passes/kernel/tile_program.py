"""Writes the kernel of a tile program, one operation after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, IntegerAttr, IntegerType, i32
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import spv, tile
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.spirv import atomic
from xdsl_spirv.passes.analysis.linalg_code import number_of_type
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import INDEX
from xdsl_spirv.passes.kernel.elements import run_body
from xdsl_spirv.passes.kernel.matrix_values import store_matrix
from xdsl_spirv.passes.kernel.tile_code import (
    Home,
    Layout,
    Matrices,
    Schedule,
    Shared,
    Spot,
    TileEmitter,
    is_index,
)
from xdsl_spirv.passes.kernel.tile_products import (
    Homes,
    MoveOp,
    Reduction,
    layout_of,
    multiply,
    operand,
    source_axes,
)
from xdsl_spirv.passes.kernel.tile_scans import scan
from xdsl_spirv.passes.kernel.tile_values import (
    Box,
    Held,
    Lazy,
    Moved,
    TileValue,
    View,
    corner_of,
    element_of,
    guarded_load,
    in_matrices,
    reshape,
    spots_of,
)

HELD_MATRICES = 16
"""Largest number of an operand's matrices that are loaded before a loop and stay in registers."""


class ProgramCode:
    """Writes the code of a tile program. `values` maps its values to values of the kernel."""

    def __init__(self, program: tile.ProgramOp, block: Block, schedule: Schedule):
        self.program, self.block = program, block
        self.b = TileEmitter(block, schedule)
        self.homes = Homes(schedule)
        self.values: dict[SSAValue, Any] = {}
        self.stored = _stored_arguments(program)

    def write(self) -> None:
        """Writes the whole kernel body."""
        self.b.current = self.program
        pairs = zip(self.program.body.block.args, self.block.args, strict=True)
        for number, (argument, given) in enumerate(pairs):
            self.values[argument] = self._argument(number, argument, given)
        self._block(self.program.body.block)

    def _argument(self, number: int, argument: SSAValue, given: SSAValue) -> View | Index:
        b, type = self.b, argument.type
        if not isinstance(type, tile.ViewType):
            if is_index(type) or type == IntegerType(64):
                return given
            if isinstance(type, Float32Type):
                word = b.once(("word", given), lambda: arith.IndexCastOp(given, i32))
                return b.once(("float", given), lambda: arith.BitcastOp(word, type))
            b.refuse(f"argument {number} has type {type}: pass numbers as i32 or f32")
        sizes: list[Index] = [
            b.dimension(given, axis) if size == DYNAMIC_INDEX else size
            for axis, size in enumerate(type.shape)
        ]
        strides: list[Index] = [1]
        for size in reversed(sizes[1:]):
            strides.insert(0, b.times(size, strides[0]))
        written = number in self.stored
        return View(b.elements_of(given), 0, tuple(sizes), tuple(strides), written)

    def _block(self, block: Block) -> Sequence[SSAValue]:
        for op in block.ops:
            self.b.current = op
            if isinstance(op, scf.YieldOp):
                return op.operands
            name = op.name.partition(".")[2]
            getattr(self, f"write_{name}", self.write_scalar)(op)
        return ()

    # Numbers of the workgroup

    def index(self, value: SSAValue) -> Index:
        """Returns the kernel's index for an integer value of the program."""
        held = self.values[value]
        assert isinstance(held, int | SSAValue)
        return held

    def ssa(self, value: SSAValue) -> SSAValue:
        """Returns the kernel's value for a number of the program, in the number's type."""
        held = self.values[value]
        return self.b.cast(held, value.type) if is_index(value.type) else held

    def write_scalar(self, op: Operation) -> None:
        """Writes an operation of `arith` or `math` on scalars that the workgroup shares."""
        if op.name.partition(".")[0] not in ("arith", "math"):
            self.b.refuse(f"lower-tiles does not support {op.name}")
        if len(op.results) == 1 and all(is_index(v.type) for v in (*op.operands, *op.results)):
            found = self._index_arithmetic(op)
            if found is not None:
                self.values[op.results[0]] = found
                return
        results = self.b.copied(op, [self.ssa(operand) for operand in op.operands])
        for result, value in zip(op.results, results, strict=True):
            self.values[result] = self.b.cast(value, INDEX) if is_index(result.type) else value

    def _index_arithmetic(self, op: Operation) -> Index | None:
        """Emits index arithmetic with known bounds and factors; None for other operations."""
        b, known = self.b, [self.index(operand) for operand in op.operands]
        *_, last = known or [0]
        match op:
            case arith.ConstantOp(value=IntegerAttr() as constant):
                return constant.value.data
            case arith.AddiOp():
                return b.plus(*known)
            case arith.MuliOp():
                return b.times(*known)
            case arith.SubiOp():
                a, c = known
                if isinstance(a, int) and isinstance(c, int):
                    return a - c
                return b.pure(arith.SubiOp, b.index(a), b.index(c))
            case arith.MinSIOp():
                return b.least(*known)
            case arith.MaxSIOp():
                return b.greatest(*known)
            case arith.IndexCastOp():
                return last
            case arith.FloorDivSIOp() | arith.DivSIOp() if b.bound(known[0]) is None:
                return None
            case arith.FloorDivSIOp() | arith.DivSIOp() | arith.DivUIOp() | arith.RemUIOp():
                if not isinstance(last, int) or last <= 0:
                    return None
                method = b.remainder if isinstance(op, arith.RemUIOp) else b.divided
                return method(known[0], last)
            case _:
                return None

    def write_place(self, op: tile.PlaceOp) -> None:
        """Writes the code of a `tile.place`."""
        b, view = self.b, cast(View, self.values[op.view])
        counts = [b.divided(b.plus(view.sizes[axis], n - 1), n) for axis, n in op.counted]
        numbers: list[Index] = []
        for dimension, count in enumerate(reversed(counts)):
            known = count if isinstance(count, int) else None
            numbers.insert(0, 0 if known == 1 else b.workgroup(dimension, known))
        if op.group is not None:
            numbers = self._place_in_groups(numbers, counts, op.group.value.data)
        for result, number, (_, size) in zip(op.firsts, numbers, op.counted, strict=True):
            self.values[result] = b.times(number, size)

    def _place_in_groups(
        self, numbers: list[Index], counts: list[Index], group: int
    ) -> list[Index]:
        """
        Returns the row and column of the tile that a workgroup computes, so that workgroups that
        run at the same time read the same data.

        `numbers` are the workgroup's row and column, `counts` the numbers of rows and columns.
        Workgroups take bands of `group` rows in order, and each band column by column.
        """
        b, (row, column), (rows, columns) = self.b, numbers, counts
        number, area = b.plus(b.times(row, columns), column), b.times(columns, group)
        first = b.times(_quotient(b, number, area), group)
        within = _remainder(b, number, area)
        fits = isinstance(rows, int) and rows % group == 0
        height = group if fits else b.least(b.minus(rows, first), group)
        places = b.plus(first, _remainder(b, within, height)), _quotient(b, within, height)
        for value, bound in zip(places, counts, strict=True):
            if isinstance(bound, int):
                b.assume(value, bound)
        return list(places)

    def write_program_id(self, op: tile.ProgramIdOp) -> None:
        """Writes the code of a `tile.program_id`."""
        axis = op.axis.value.data
        self.values[op.result] = (
            self.b.workgroup(axis, None) if op.count is None else self.b.workgroups(axis)
        )

    def write_size(self, op: tile.SizeOp) -> None:
        """Writes the code of a `tile.size`."""
        self.values[op.result] = cast(View, self.values[op.view]).sizes[op.axis.value.data]

    def write_view_of(self, op: tile.ViewOp) -> None:
        """Writes the code of a `tile.view_of`."""
        source = cast(View, self.values[op.source])
        self.values[op.result] = View(
            source.buffer,
            self.b.plus(source.offset, self.index(op.offset)),
            tuple(self.index(size) for size in op.sizes),
            tuple(self.index(stride) for stride in op.strides),
            source.is_written,
        )

    # Tiles

    def _read(self, result: SSAValue, value: Lazy, view: View) -> None:
        """
        Sets the result's tile. Its elements are read when they are used, or now if later writes may
        change them.
        """
        if view.is_written:
            layout = value.layout
            self.values[result] = Held(self.b, value.type, layout, value.in_home(layout))
        else:
            self.values[result] = value

    def write_load(self, op: tile.LoadOp) -> None:
        """Writes the code of a `tile.load`."""
        view = cast(View, self.values[op.view])
        firsts = [self.index(index) for index in op.indices]
        type = tile.tile_of(op.result)
        outside = number_of_type(0.0, view.element) if op.any is not None else op.outside
        guarded = outside is not None
        self._read(op.result, Box(self.b, type, view, firsts, outside, guarded), view)

    def write_gather(self, op: tile.GatherOp) -> None:
        """Writes the code of a `tile.gather`."""
        b, view = self.b, cast(View, self.values[op.view])
        numbers = cast(TileValue, self.values[op.numbers])
        mask = cast(TileValue, self.values[op.mask]) if op.mask else None
        zero = number_of_type(0.0, view.element)

        def element(spot: Spot) -> SSAValue:
            number = b.times(b.cast(numbers.at(spot), INDEX), view.strides[0])
            inside = mask.at(spot) if mask else True
            return guarded_load(b, view, b.plus(view.offset, number), inside, zero)

        home = layout_of(self.homes.find(op.numbers))
        self._read(op.result, Lazy(b, tile.tile_of(op.result), element, home), view)

    def write_store(self, op: tile.StoreOp) -> None:
        """Writes the code of a `tile.store`."""
        b, view = self.b, cast(View, self.values[op.view])
        value, firsts = cast(TileValue, self.values[op.tile]), [self.index(i) for i in op.indices]
        box = Box(b, value.type, view, firsts, None, False)
        clipped = op.clipped is not None and not box.is_inside()
        if not clipped and self._store_matrices(op, value, box):
            return

        def place(spot: Spot) -> tuple[Index, Any]:
            number, inside = element_of(b, view, firsts, b.coordinates(spot))
            return number, inside if clipped else True

        self._write(value, view, place)

    def _write(
        self, value: TileValue, view: View, place: Callable[[Spot], tuple[Index, Any]]
    ) -> None:
        """Stores each element once: from the first of the invocations that hold it."""
        b, owner = self.b, self.b.owner(value.layout)
        written = [(value.at(spot), *place(spot)) for spot in spots_of(value.layout)]
        for element, number, inside in written:
            condition = b.both(owner, inside)
            b.when(condition, lambda e=element, n=number: b.store(e, view.buffer, [n]))

    def _store_matrices(self, op: tile.StoreOp, value: TileValue, box: Box) -> bool:
        """Stores whole matrices if possible, and returns True if it did."""
        b, view, home = self.b, box.view, self.homes.find(op.tile)
        if not isinstance(home, Matrices):
            return False
        known = {(p.m, p.n, p.result) for p in b.target.cooperative_matrix}
        has_type = (*home.shape, str(value.type.element)) in known
        held = isinstance(value, Held) and isinstance(value.held, Matrices)
        possible = held or (home.layout is not None and has_type)
        stride = box.matrix_stride(home.shape[1]) if possible else None
        if stride is None:
            return False
        for part, number in zip(in_matrices(value, home), home.numbers, strict=True):
            at, _ = element_of(b, view, box.firsts, corner_of(b, home, number))
            store_matrix(b, part, view.buffer, [at], stride)
        return True

    def write_scatter(self, op: tile.ScatterOp) -> None:
        """Writes the code of a `tile.scatter`."""
        b, view = self.b, cast(View, self.values[op.view])
        value, numbers = (cast(TileValue, self.values[v]) for v in (op.tile, op.numbers))
        mask = cast(TileValue, self.values[op.mask]) if op.mask else None

        def place(spot: Spot) -> tuple[Index, Any]:
            number = b.times(b.cast(numbers.at(spot), INDEX), view.strides[0])
            return b.plus(view.offset, number), mask.at(spot) if mask else True

        self._write(value, view, place)

    def write_atomic(self, op: tile.AtomicOp) -> None:
        """
        Writes the code of a `tile.atomic`. The first of the invocations that hold an element
        updates it; the others get the old element through Workgroup memory.
        """
        b, view = self.b, cast(View, self.values[op.view])
        value, numbers = (cast(TileValue, self.values[v]) for v in (op.tile, op.numbers))
        mask = cast(TileValue, self.values[op.mask]) if op.mask else None
        layout, kind = value.layout, _atomic_instruction(op.kind.data)
        owner, zero = b.owner(layout), b.constant(number_of_type(0.0, view.element))
        old: list[SSAValue] = []
        for spot in spots_of(layout):
            element, number = value.at(spot), b.cast(numbers.at(spot), INDEX)
            place = b.plus(view.offset, b.times(number, view.strides[0]))
            condition = b.both(owner, mask.at(spot) if mask else True)

            def update(element: SSAValue = element, place: Index = place) -> list[SSAValue]:
                pointer = b.pointer(view.buffer, [place])
                scope, semantics = spv.Scope.QueueFamily, spv.MemorySemantics.None_
                return [b.add(kind(pointer, scope, semantics, element))]

            if isinstance(condition, bool):
                old += update() if condition else [zero]
            else:
                old += b.choose(condition, update, lambda: [zero])
        held = Held(b, value.type, layout, old)
        if owner is not True and op.result.uses:
            held = Held(b, value.type, layout, held.through_memory(layout))
        self.values[op.result] = held

    def write_barrier(self, op: tile.BarrierOp) -> None:
        """Writes the code of a `tile.barrier`."""
        self.b.buffer_barrier()
        self.b.shared = Shared()

    def write_full(self, op: tile.FullOp) -> None:
        """Writes the code of a `tile.full`."""
        owner = op.value.owner
        splat = owner.value if isinstance(owner, arith.ConstantOp) else None
        type, value = tile.tile_of(op.result), op.value
        self.values[op.result] = Lazy(
            self.b, type, lambda _: self.ssa(value), None, cast(Any, splat)
        )

    def write_range(self, op: tile.RangeOp) -> None:
        """Writes the code of a `tile.range`."""
        b, type = self.b, tile.tile_of(op.result)
        self.values[op.result] = Lazy(
            b, type, lambda spot: b.cast(b.coordinates(spot)[0], type.element)
        )

    def write_map(self, op: tile.MapOp) -> None:
        """Writes the code of a `tile.map`."""
        b, tiles = self.b, [cast(TileValue, self.values[value]) for value in op.tiles]
        block, key = op.body.block, object()

        def elements(spot: Spot) -> Sequence[SSAValue]:
            inputs = [value.at(spot) for value in tiles]
            before, b.current = b.current, op
            results = run_body(block, inputs, self.ssa, b.copied)
            b.current = before
            return results

        def element(number: int) -> Callable[[Spot], SSAValue]:
            return lambda spot: b.remembered((key, spot), b.depth, lambda: elements(spot))[number]

        home = layout_of(self.homes.find(op.outputs[0]))
        for number, output in enumerate(op.outputs):
            self.values[output] = Lazy(b, tile.tile_of(output), element(number), home)

    def write_mma(self, op: tile.MultiplyAddOp) -> None:
        """Writes the code of a `tile.mma`."""
        a, b, c = (cast(TileValue, self.values[v]) for v in (op.a, op.b, op.c))
        self.values[op.result] = multiply(op, self.homes.plan(op), a, b, c)

    def write_reduce(self, op: tile.ReduceOp) -> None:
        """Writes the code of a `tile.reduce`."""
        tiles = [cast(TileValue, self.values[value]) for value in op.tiles]
        layout = self.homes.layout_of_reduction(op)
        results = Reduction(op, tiles, layout, self.ssa).write()
        for output, result in zip(op.outputs, results, strict=True):
            is_number = isinstance(result, SSAValue) and is_index(output.type)
            self.values[output] = self.b.cast(result, INDEX) if is_number else result  # pyright: ignore[reportArgumentType]

    def write_scan(self, op: tile.ScanOp) -> None:
        """Writes the code of a `tile.scan`."""
        tiles = [cast(TileValue, self.values[value]) for value in op.tiles]
        layout = layout_of(self.homes.find(op.outputs[0])) or tiles[0].layout
        for output, result in zip(op.outputs, scan(op, tiles, layout, self.ssa), strict=True):
            self.values[output] = result

    def write_broadcast(self, op: MoveOp) -> None:
        """Writes the code of a `tile.broadcast`, a `tile.reshape` or a `tile.transpose`."""
        axes, source = source_axes(op), cast(TileValue, self.values[op.tile])
        if axes is None:
            self.values[op.result] = reshape(source, tile.tile_of(op.result))
            return
        rank = len(source.type.shape)
        if isinstance(op, tile.TransposeOp) and rank != 2:
            self.b.refuse("lower-tiles can only transpose a tile with two axes")
        results = {source: axis for axis, source in enumerate(axes) if source is not None}
        home = layout_of(self.homes.find(op.result))
        chosen = [results.get(axis) for axis in range(rank)]
        self.values[op.result] = Moved(source, tile.tile_of(op.result), chosen, home)

    write_reshape = write_transpose = write_broadcast

    # Loops and branches

    def home(self, value: SSAValue) -> Home:
        """Returns the matrices or the layout that hold a tile between iterations."""
        return self.homes.find(value) or self.b.schedule.spread(tile.tile_of(value).shape)

    def _homes(self, values: Sequence[SSAValue]) -> list[Home | None]:
        return [self.home(v) if isinstance(v.type, tile.TileType) else None for v in values]

    def _pack(self, values: Sequence[SSAValue], homes: Sequence[Home | None]) -> list[SSAValue]:
        """Returns the SSA values that a loop carries for some tiles and numbers."""
        held = zip((self.values[value] for value in values), homes, strict=True)
        parts = ([self.b.index(v)] if home is None else v.in_home(home) for v, home in held)
        return [part for own in parts for part in own]

    def _unpack(
        self, values: Sequence[SSAValue], homes: Sequence[Home | None], parts: Sequence[SSAValue]
    ) -> None:
        """Rebuilds values from the SSA values that a loop carries; the inverse of `_pack`."""
        left = iter(parts)
        for value, home in zip(values, homes, strict=True):
            if home is None:
                self.values[value] = next(left)
            else:
                own = list(islice(left, home.count))
                self.values[value] = Held(self.b, tile.tile_of(value), home, own)

    def _inner(self, block: Block, homes: Sequence[Home | None]) -> list[SSAValue]:
        """Writes the body of a loop or branch, then frees the Workgroup memory of the body."""
        b = self.b
        b.kept.append([])
        yielded = self._pack(self._block(block), homes)
        for memory in b.kept.pop():
            b.give_back(memory)
        return yielded

    def write_for(self, op: scf.ForOp) -> None:
        """Writes the code of an `scf.for`."""
        b, block = self.b, op.body.block
        lower, upper, step = (self.index(v) for v in (op.lb, op.ub, op.step))
        if not isinstance(step, int) or step < 1:
            b.refuse("the loop's step must be a positive constant")
        self._check_registers(op)
        self._load_operands(op)
        homes = self._homes(block.args[1:])
        start = self._pack(op.iter_args, homes)
        b.shared = Shared(b.shared.written, b.shared.read, True)

        def body(index: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if isinstance(index, SSAValue) and isinstance(lower, int) and isinstance(upper, int):
                last = lower + max(0, upper - 1 - lower) // step * step
                b.scopes[-1].bounds[index] = last + 1
            self.values[block.args[0]] = index
            self._unpack(block.args[1:], homes, carried)
            return self._inner(block, homes)

        results = b.loop(upper, step, start, body, block.args[0].name_hint, lower)
        b.shared = Shared(b.shared.written, b.shared.read, True)
        b.current = op
        self._unpack(op.results, homes, results)

    def _load_operands(self, op: scf.ForOp) -> None:
        """Loads loop-invariant operands of products before the loop."""
        for product in [inner for inner in op.walk() if isinstance(inner, tile.MultiplyAddOp)]:
            plan = self.homes.plan(product)
            if plan is None:
                continue
            for value, wanted in ((product.a, plan.a), (product.b, plan.b)):
                held = self.values.get(value)
                if held is None:
                    continue
                load = operand(held, wanted)
                if wanted.count <= HELD_MATRICES:
                    parts = {number: load(*number) for number in wanted.numbers}
                    key = "operand", held, wanted
                    self.b.scopes[-1].known[key] = lambda i, j, parts=parts: parts[i, j]

    def _check_registers(self, op: scf.ForOp) -> None:
        """Refuses a loop whose carried tiles need more registers than an invocation has."""
        words: dict[str, int] = {}
        per = self.b.schedule.subgroups * self.b.target.subgroup_size
        for value in op.body.block.args[1:]:
            if isinstance(type := value.type, tile.TileType):
                home = self.home(value)
                held = home.count if isinstance(home, Layout) else prod(type.shape) // per
                bits = max(8, bit_width(type.element))
                words[value.name_hint or f"value {value.index}"] = held * bits // 32
        total = sum(words.values())
        if total > REGISTERS and not self.b.target.processor:
            listed = ", ".join(f"{name} {count}" for name, count in words.items())
            fits = 1 << (self.b.schedule.subgroups * total // REGISTERS).bit_length()
            self.b.refuse(
                f"the loop carries {total} registers ({listed}), but an invocation has "
                f"{REGISTERS}: make tiles smaller, or use {fits} subgroups"
            )

    def write_if(self, op: scf.IfOp) -> None:
        """Writes the code of an `scf.if`."""
        b, homes = self.b, self._homes(op.results)
        before = b.shared
        arms: list[Callable[[], Sequence[SSAValue]]] = []
        for region in (op.true_region, op.false_region):

            def arm(region: Any = region) -> Sequence[SSAValue]:
                b.shared = Shared(set(before.written), set(before.read), True)
                return self._inner(region.block, homes) if region.blocks else ()

            arms.append(arm)
        results = b.choose(self.ssa(op.cond), *arms)
        b.shared = Shared(before.written, before.read, True)
        b.current = op
        self._unpack(op.results, homes, results)


REGISTERS = 255
"""Number of 32-bit registers that an invocation of a GPU can have."""


_ATOMICS = {
    "addf": "FAddEXT", "addi": "IAdd", "andi": "And", "assign": "Exchange", "maxs": "SMax",
    "maxu": "UMax", "mins": "SMin", "minu": "UMin", "ori": "Or", "xori": "Xor",
}  # fmt: skip


def _atomic_instruction(kind: tile.AtomicKind) -> Callable[..., Operation]:
    return getattr(atomic, f"Atomic{_ATOMICS[kind]}Op")


def _quotient(b: TileEmitter, a: Index, by: Index) -> Index:
    return (
        b.divided(a, by) if isinstance(by, int) else b.pure(arith.DivUIOp, b.index(a), b.index(by))
    )


def _remainder(b: TileEmitter, a: Index, by: Index) -> Index:
    if isinstance(by, int):
        return b.remainder(a, by)
    return b.pure(arith.RemUIOp, b.index(a), b.index(by))


def _stored_arguments(program: tile.ProgramOp) -> set[int]:
    stored: set[int] = set()
    for op in program.walk():
        if isinstance(op, tile.StoreOp | tile.ScatterOp | tile.AtomicOp):
            source = op.view
            while isinstance(source.owner, tile.ViewOp):
                source = source.owner.source
            stored.add(cast(Any, source).index)
    return stored
