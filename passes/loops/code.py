"""
Emits the computation of an array's element from elements of the arrays that it depends on.

An element is computed once for equal indices, and hoisted as far as its indices allow. A value
that is constant along a row (a maximum, a sum) is therefore computed once for each row. A
reduction is a loop of one invocation, or of a group of invocations if all of them need the result.

An index that depends on data is clamped to the array, so that no kernel reads outside of its
buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from xdsl.dialects import arith, cf, linalg, memref, scf, tensor
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.traits import IsTerminator

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.analysis.combinations import UNROLLED_BESIDE
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Filled,
    Literal,
    Loops,
    NotLoops,
    Padded,
    Patched,
    Reshaped,
    Shape,
    Sliced,
    Stored,
    Transposed,
    Unwritten,
)
from xdsl_spirv.passes.analysis.loops_nests import Nest, Place, sources_of
from xdsl_spirv.passes.analysis.loops_reader import Reader
from xdsl_spirv.passes.analysis.values import operands_of
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.loops.groups import Lanes, Point

UNROLLED = 4
"""Largest number of steps of a reduction that is unrolled."""

MAX_LITERAL = 64
"""Largest number of elements of a constant inside of a kernel. Larger constants need a buffer."""

MAX_CHAIN = 60
"""Largest depth of dependent arrays in one kernel, since code is emitted recursively."""


class LoopsCode:
    """Emits the computation of the arrays of one kernel."""

    def __init__(self, builder: HoistingEmitter, reader: Reader, beside: int = 1):
        """`beside` is the number of neighbouring elements that an invocation computes."""
        self.b = builder
        self.most_unrolled = UNROLLED if beside == 1 else UNROLLED_BESIDE
        self.reader = reader
        self.group: Lanes | None = None
        """The invocations that reduce together; None if each invocation reduces alone."""
        self.needed: dict[tuple[Loops, tuple[SSAValue, ...]], list[Operation]] = {}
        self._chain = 0

    # Elements

    def element(self, array: Array, indices: Point) -> SSAValue:
        """Emits the element of an array at indices inside of its shape."""
        for index, size in zip(indices, array.shape, strict=True):
            self.b.assume(index, size)
        indices = tuple(
            0 if size == 1 else index for index, size in zip(indices, array.shape, strict=True)
        )
        depth = self.b.fenced(self.b.depth_of(*indices))
        return self.b.remembered(
            ("element", array, indices), depth, lambda: self._element(array, indices)
        )

    def _element(self, array: Array, indices: Point) -> SSAValue:
        b = self.b
        match array:
            case Stored():
                return b.load_once(b.elements_of(array.value), [b.linear(indices, array.shape)])
            case Filled():
                return self.scalar(array.value)
            case Computed():
                point = tuple(array.point(indices, 0))
                return self.computed(array.loops, point)[array.number]
            case Reshaped():
                source_shape = array.source.shape
                return self.element(array.source, b.reshaped(indices, array.shape, source_shape))
            case Transposed():
                return self.element(array.source, array.place(indices, 0))
            case Sliced():
                places = zip(indices, array.offsets, array.strides, strict=True)
                return self.element(
                    array.source, tuple(b.plus(b.times(i, s), o) for i, o, s in places)
                )
            case Patched():
                return self._part(array.part, indices, array.offsets, array.strides, array.base)
            case Padded(shape=shape, value=value):
                around = None if value is None else Filled(shape, array.element, value)
                ones = (1,) * len(indices)
                return self._part(array.source, indices, array.low, ones, around)
            case Literal():
                return self._literal(array, indices)
            case Unwritten():
                raise NotLoops(
                    array.op,
                    "the kernel reads a tensor that no operation has written: fill it first",
                )
            case _:
                raise TypeError(array)

    def inside(
        self, places: Sequence[Index], shape: Shape, strides: Shape | None = None
    ) -> Condition:
        """
        True if the coordinates `places` lie inside of a shape and are multiples of the strides.

        Coordinates may be negative. Default strides are 1.
        """
        b = self.b
        condition: Condition = True
        for position, (place, size) in enumerate(zip(places, shape, strict=True)):
            stride = strides[position] if strides else 1
            condition = b.both(condition, b.below(place, (size - 1) * stride + 1))
            if stride != 1:
                rest = b.remainder(place, stride)
                condition = b.both(condition, b.below(rest, 1))
        return condition

    def _existing(
        self, condition: SSAValue, places: Sequence[Index], shape: Shape, strides: Shape
    ) -> Point:
        b = self.b
        existing: list[Index] = []
        for place, size, stride in zip(places, shape, strides, strict=True):
            index = b.divided(place, stride)
            if b.below(place, (size - 1) * stride + 1) is not True:
                index = b.select(condition, index, 0)
            existing.append(index)
        return tuple(existing)

    def _part(
        self,
        part: Array,
        indices: Point,
        offsets: Shape,
        strides: Shape,
        around: Array | None,
    ) -> SSAValue:
        """
        Returns an element of an array that consists of `part` at `offsets` and of `around`
        elsewhere. If `around` is None, the array is 0 there.
        """
        b = self.b
        places = [b.plus(i, -offset) for i, offset in zip(indices, offsets, strict=True)]
        condition = self.inside(places, part.shape, strides)
        is_alone = isinstance(around, Unwritten)

        def outside() -> SSAValue:
            if around is None or is_alone:
                return b.zero(part.element)
            return self.element(around, indices)

        def inside() -> SSAValue:
            exact = zip(places, strides, strict=True)
            return self.element(part, tuple(b.divided(p, s) for p, s in exact))

        if condition is False:
            return outside() if around is None else self.element(around, indices)
        if not isinstance(condition, SSAValue):
            return inside()
        is_cheap = _is_cheap(part) and (around is None or _is_cheap(around))
        if _starts_inside(part) and (is_alone or is_cheap):
            at = self._existing(condition, places, part.shape, strides)
            element = self.element(part, at)
            return element if is_alone else b.select(condition, element, outside())
        return b.choose(condition, lambda: [inside()], lambda: [outside()])[0]

    def _literal(self, array: Literal, indices: Point) -> SSAValue:
        dense = array.dense
        if dense.is_splat():
            return self.b.constant(dense.get_attrs()[0])
        number = self.b.linear(indices, array.shape)
        values = dense.get_attrs()
        if isinstance(number, int):
            return self.b.constant(values[number])
        if len(values) > MAX_LITERAL:
            raise NotLoops(
                array.op,
                f"a kernel contains a constant of {len(values)} elements, more than {MAX_LITERAL}: "
                "pass the constant as an argument",
            )
        result = self.b.constant(values[0])
        for position, value in enumerate(values[1:], 1):
            below = self.b.below(number, position)
            if isinstance(below, SSAValue):
                result = self.b.select(below, result, self.b.constant(value))
        return result

    # Results

    def store(self, nest: Nest, point: Point, values: Sequence[SSAValue]) -> None:
        """
        Stores the results of a loop nest at a point, except elements that another nest overwrites.
        """
        b = self.b
        for (_, place), value in zip(nest.results, values, strict=True):
            terms = zip(point, place.strides, place.offsets, strict=True)
            self._store(place, tuple(b.plus(b.times(i, s), o) for i, s, o in terms), value)

    def _store(self, place: Place, at: Point, value: SSAValue) -> None:
        b = self.b
        offset, memory = b.linear(at, place.shape), b.elements_of(place.target)

        def store(left: Sequence[tuple[Shape, Shape, Shape]]) -> None:
            if not left:
                b.store(value, memory, [offset])
                return
            offsets, sizes, strides = left[0]
            places = [b.plus(i, -o) for i, o in zip(at, offsets, strict=True)]
            condition = self.inside(places, sizes, strides)
            if isinstance(condition, SSAValue):
                outside = b.pure(arith.XOrIOp, condition, b.constant(IntegerAttr(1, i1)))
            else:
                outside = not condition
            b.when(outside, lambda: store(left[1:]))

        store(place.replaced)

    # Scalars outside loops

    def scalar(self, value: SSAValue) -> SSAValue:
        """
        Returns a scalar of the kernel; emits it if an operation outside of the loops defines it.
        """
        op = value.owner
        if isinstance(op, Block) or op.parent_block() is not self.reader.block:
            return value
        if isinstance(op, tensor.ExtractOp | memref.LoadOp):
            array = self.reader.loaded[op]
            indices = [self.scalar(index) for index in op.operands[1:]]
            return self.element(array, self._limited(indices, array.shape))
        operands = [self.scalar(operand) for operand in op.operands]
        return self.pure(op, operands)[op.results.index(value)]

    # Loops

    def computed(self, loops: Loops, point: Point) -> Sequence[SSAValue]:
        """Emits the outputs of loops at a point of their parallel loops."""
        depth = self.b.fenced(self.b.depth_of(*point))
        return self.b.remembered(
            ("loops", loops, point), depth, lambda: self._computed(loops, point)
        )

    def _computed(self, loops: Loops, point: Point) -> Sequence[SSAValue]:
        self._chain += 1
        if self._chain > MAX_CHAIN:
            raise NotLoops(
                loops.op,
                f"a chain of more than {MAX_CHAIN} dependent operations is too long for a kernel",
            )
        try:
            if not loops.reduces:
                return self.body(loops, point, None)
            depth = self.b.fenced(self.b.depth_of(*point))
            with self.b.at(depth):
                return self._reduced(loops, point, depth)
        finally:
            self._chain -= 1

    def _reduced(self, loops: Loops, point: Point, depth: int) -> Sequence[SSAValue]:
        if self.group is not None and depth <= self.group.depth:
            points = self.group.neighbours(point)
            initials = [self._initial(loops, neighbour) for neighbour in points]
            reduced = self.group.reduce(loops, points, initials, self.body)
            if reduced is not None:
                for neighbour, values in zip(points[1:], reduced[1:], strict=True):
                    self.b.remembered(("loops", loops, neighbour), depth, lambda v=values: v)
                return reduced[0]
        return self.sequential(loops, point, self._initial(loops, point))

    def _initial(self, loops: Loops, point: Point) -> list[SSAValue]:
        return [
            self.element(array, self._at(map.results, point, array.shape))
            for array, map in zip(loops.outputs, loops.output_maps, strict=True)
        ]

    def sequential(
        self, loops: Loops, point: Point, initial: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """
        Emits a reduction at a point as nested loops of one invocation, in the operation's order.
        `initial` are the first values of the accumulators.
        """
        order = [loop for loop, yes in enumerate(loops.reduction) if yes]
        total: Size = prod(loops.sizes[loop] for loop in order)
        unrolled = isinstance(total, int) and total <= self.most_unrolled

        def nest(position: int, point: Point, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if position == len(order):
                return self.body(loops, point, carried)
            loop = order[position]

            def step(index: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                inner = (*point[:loop], index, *point[loop + 1 :])
                return nest(position + 1, inner, carried)

            size = loops.sizes[loop]
            if is_dynamic(size) or not unrolled:
                return self.b.loop(size, 1, carried, step)
            for index in range(size):
                carried = step(index, carried)
            return carried

        return nest(0, point, initial)

    def _at(self, exprs: Sequence[AffineExpr], point: Point, shape: Shape) -> Point:
        indices = tuple(self.affine(expr, point) for expr in exprs)
        for index, size in zip(indices, shape, strict=True):
            self.b.assume(index, size)
        return indices

    def affine(self, expr: AffineExpr, point: Point) -> Index:
        b = self.b
        match expr:
            case AffineDimExpr():
                return point[expr.position]
            case AffineConstantExpr():
                return expr.value
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
                return b.plus(self.affine(expr.lhs, point), self.affine(expr.rhs, point))
            case AffineBinaryOpExpr(kind=kind):
                return self._scaled(kind, expr, point)
            case _:
                raise ValueError(
                    f"the index expression {expr} is a symbol: use loops and constants"
                )

    def _scaled(self, kind: AffineBinaryOpKind, expr: AffineBinaryOpExpr, point: Point) -> Index:
        b = self.b
        number, by = (expr.lhs, expr.rhs)
        if isinstance(number, AffineConstantExpr):
            number, by = by, number
        if not isinstance(by, AffineConstantExpr):
            raise ValueError(f"the index expression {expr} needs a constant factor or divisor")
        value = self.affine(number, point)
        if kind == AffineBinaryOpKind.Mul:
            return b.times(value, by.value)
        if b.bound(value) is None:
            raise ValueError(f"the index expression {expr} divides a number that may be negative")
        if kind == AffineBinaryOpKind.Mod:
            return b.remainder(value, by.value)
        if kind == AffineBinaryOpKind.CeilDiv:
            value = b.plus(value, by.value - 1)
        return b.divided(value, by.value)

    # Bodies

    def body(
        self,
        loops: Loops,
        point: Point,
        carried: Sequence[SSAValue] | None,
        values: Sequence[SSAValue] | None = None,
    ) -> list[SSAValue]:
        """
        Emits the values that a body yields at a point, or other `values` of the body.

        `carried` are the values of the outputs. If None, the outputs' initial elements are used.
        """
        wanted = tuple(yields_of(loops.body) if values is None else values)
        env: dict[SSAValue, Index] = {}
        for op in self._needed(loops, wanted):
            for operand in operands_of(op):
                self._argument(loops, operand, point, carried, env)
            self._operation(loops, op, point, env)
        for value in wanted:
            self._argument(loops, value, point, carried, env)
        return [
            self.b.index(env[value]) if value in env else self.scalar(value) for value in wanted
        ]

    def _needed(self, loops: Loops, wanted: tuple[SSAValue, ...]) -> list[Operation]:
        key = (loops, wanted)
        if key not in self.needed:
            values = set(wanted)
            needed: list[Operation] = []
            for op in reversed(list(loops.body.ops)):
                if any(result in values for result in op.results):
                    needed.append(op)
                    values.update(operands_of(op))
            self.needed[key] = needed[::-1]
        return self.needed[key]

    def _argument(
        self,
        loops: Loops,
        value: SSAValue,
        point: Point,
        carried: Sequence[SSAValue] | None,
        env: dict[SSAValue, Index],
    ) -> None:
        """Emits the value of a body's argument and adds it to `env`."""
        if value in env or value.owner is not loops.body:
            return
        number = loops.body.args.index(value)  # pyright: ignore[reportArgumentType]
        exprs = loops.maps[number].results
        if number >= len(loops.inputs):
            output = number - len(loops.inputs)
            if carried is not None:
                env[value] = carried[output]
                return
            operand: Array | SSAValue = loops.outputs[output]
        else:
            operand = loops.inputs[number]
        if isinstance(operand, SSAValue):
            env[value] = self.scalar(operand)
            return
        try:
            env[value] = self.element(operand, self._at(exprs, point, operand.shape))
        except ValueError as error:
            if isinstance(error, NotLoops):
                raise
            raise NotLoops(loops.op, str(error)) from None

    def _operation(
        self, loops: Loops, op: Operation, point: Point, env: dict[SSAValue, Index]
    ) -> None:
        b = self.b
        if isinstance(op, linalg.ops.IndexOp):
            env[op.result] = point[op.dim.value.data]
            return
        if isinstance(op, cf.AssertOp):
            return
        if isinstance(op, tensor.ExtractOp | memref.LoadOp):
            array = loops.captured[op.operands[0]]
            indices = [self._value(value, env) for value in op.operands[1:]]
            env[op.results[0]] = self.element(array, self._limited(indices, array.shape))
            return
        if op.regions:
            self._nested(loops, op, point, env)
            return
        operands = [self._value(value, env) for value in op.operands]
        if isinstance(op.results[0].type, IndexType):
            folded = self._index_operation(op, operands)
            if folded is not None:
                env[op.results[0]] = folded
                return
        results = self.pure(op, [b.index(value) for value in operands])
        env.update(zip(op.results, results, strict=True))

    def _value(self, value: SSAValue, env: Mapping[SSAValue, Index]) -> Index:
        return env[value] if value in env else self.scalar(value)

    def _index_operation(self, op: Operation, operands: Sequence[Index]) -> Index | None:
        """Folds constants, sums and products of indices; None for other operations."""
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return op.value.value.data
        if isinstance(op, arith.AddiOp):
            return self.b.plus(*operands)
        if isinstance(op, arith.SubiOp) and isinstance(operands[1], int):
            return self.b.plus(operands[0], -operands[1])
        if isinstance(op, arith.MuliOp):
            for a, other in (operands, operands[::-1]):
                if isinstance(other, int):
                    return self.b.times(a, other)
        return None

    def pure(self, op: Operation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Copies a pure operation with other operands; equal copies are emitted once."""
        b = self.b
        if isinstance(op, arith.ConstantOp):
            return [b.constant(cast(IntegerAttr | FloatAttr, op.value))]
        return b.copied(op, operands)

    def _limited(self, indices: Sequence[Index], shape: Shape) -> Point:
        b = self.b
        limited: list[Index] = []
        for index, size in zip(indices, shape, strict=True):
            if b.below(index, size) is True or size == 1:
                limited.append(0 if size == 1 else index)
                continue
            least = b.pure(arith.MinUIOp, b.index(index), b.index(size - 1))
            limited.append(b.assume(least, size))
        return tuple(limited)

    def _nested(
        self, loops: Loops, op: Operation, point: Point, env: dict[SSAValue, Index]
    ) -> None:
        """Copies an operation with regions, such as `scf.if`, from the body of the loops."""
        b = self.b
        operands = [b.index(self._value(value, env)) for value in op.operands]
        regions = [
            self._inner(loops, region.block, point, env) for region in op.regions if region.blocks
        ]
        if isinstance(op, scf.IfOp) and len(regions) == 1:
            regions.append(Region())
        copy = type(op).create(
            operands=operands,
            result_types=op.result_types,
            properties=op.properties,
            regions=regions,
        )
        b.insert(copy)
        env.update(zip(op.results, copy.results, strict=True))

    def _inner(
        self, loops: Loops, block: Block, point: Point, env: dict[SSAValue, Index]
    ) -> Region:
        copy = Block(arg_types=block.arg_types)
        env.update(zip(block.args, copy.args, strict=True))
        with self.b.inside(copy):
            for op in block.ops:
                if not op.has_trait(IsTerminator):
                    self._operation(loops, op, point, env)
                    continue
                operands = [self.b.index(self._value(value, env)) for value in op.operands]
                self.b.insert(type(op).create(operands=operands, properties=op.properties))
        return Region(copy)


def _is_cheap(array: Array) -> bool:
    """True if no reduction is needed to compute an element."""
    reduces = isinstance(array, Computed) and array.loops.reduces
    return not reduces and all(map(_is_cheap, sources_of(array)))


def _starts_inside(array: Array) -> bool:
    """
    True if the first element of an array can be read even if the array is empty.

    A slice with an offset above 0, such as `x[1:]` of one element, may be empty and start outside
    of `x`.
    """
    if isinstance(array, Padded | Patched):
        return True
    if isinstance(array, Sliced) and any(
        offset != 0 and is_dynamic(size)
        for offset, size in zip(array.offsets, array.shape, strict=True)
    ):
        return False
    return all(map(_starts_inside, sources_of(array)))
