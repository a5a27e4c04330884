"""
Emits products of tiles, by the target's matrix instructions or by multiply-adds of each
invocation.

An operand's matrices are loaded from its buffer if the tile lies completely inside of the view. If
the operand is held in registers in the layout of these matrices, they are built from the
registers. Otherwise the operand goes through Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes.analysis.contraction import type_name
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.elements import convert_factor, multiply_add
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, multiply_matrices
from xdsl_spirv.passes.kernel.tile_code import Schedule
from xdsl_spirv.passes.kernel.tile_layout import Matrices, matrices
from xdsl_spirv.passes.kernel.tile_values import (
    LAYOUTS,
    Box,
    Held,
    Moved,
    Stored,
    TileValue,
    corner_of,
    element_of,
    in_matrices,
    join_matrices,
    spots_of,
)


@dataclass(frozen=True)
class Product:
    """Plan of a product on matrix instructions: the matrices of A, B and C."""

    a: Matrices
    b: Matrices
    c: Matrices

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K of the matrix instruction."""
        return *self.c.shape, self.a.shape[1]


def types_of(op: tile.MultiplyAddOp) -> tuple[str, str, str]:
    """Returns the target's names for the element types of A, B and the result."""
    a, c = (type_name(tile.tile_of(value).element, op.unsigned is None) for value in (op.a, op.c))
    return a, a, c


def plan_product(
    op: tile.MultiplyAddOp, schedule: Schedule, refuse: Callable[[str], object]
) -> Product | None:
    """Plans the matrices of a product; None for multiply-adds. Refuses tiles that do not fit."""
    a, c = tile.tile_of(op.a), tile.tile_of(op.c)
    types = types_of(op)
    target, grid = schedule.target, schedule.grid
    known = target.properties_for(types)
    asked = schedule.instruction
    if asked == "fma" or (asked is None and not known):
        return None
    sizes = (*c.shape, a.shape[1])
    shapes = [p.shape for p in known if asked is None or p.shape == asked]
    if not shapes:
        listed = ", ".join("x".join(map(str, p.shape)) for p in known) or "no matrices"
        asked_shape = "x".join(map(str, asked or ()))
        refuse(
            f"{target.name} has no {asked_shape} matrices for {types[0]} -> {types[2]}: write "
            f"{listed} or fma"
        )
        return None
    steps = [(m * grid[0], n * grid[1], k) for m, n, k in shapes]
    fitting = [shape for shape, step in zip(shapes, steps, strict=True) if _divides(step, sizes)]
    if not fitting:
        step = steps[0]
        nearest = [max(1, round(size / s)) * s for size, s in zip(sizes, step, strict=True)]
        refuse(
            f"a product of {'x'.join(map(str, sizes))} (M, N, K) is not a multiple of "
            f"{'x'.join(map(str, step))}, which {grid[0]}x{grid[1]} subgroups of {target.name} "
            f"multiply at once: use {'x'.join(map(str, nearest))}, or write "
            'instruction="fma"'
        )
        return None
    m, n, k = fitting[0]
    bits = [bit_width(type.element) for type in (a, c)]
    return Product(
        matrices(target, "A", (sizes[0], sizes[2]), (m, k), grid, bits[0]),
        matrices(target, "B", (sizes[2], sizes[1]), (k, n), grid, bits[0]),
        matrices(target, "Acc", (sizes[0], sizes[1]), (m, n), grid, bits[1]),
    )


def _divides(step: Sequence[int], sizes: Sequence[int]) -> bool:
    return all(size % part == 0 for size, part in zip(sizes, step, strict=True))


Operand = Callable[[int, int], SSAValue]
"""Function that returns the subgroup's operand matrix at (row, column)."""


def operand(value: TileValue, wanted: Matrices) -> Operand:
    """Returns an operand's matrices; stages the operand in Workgroup memory if necessary."""
    b, key = value.b, ("operand", value, wanted)
    return b.remembered(key, b.depth, lambda: _operand(value, wanted))


def _operand(value: TileValue, wanted: Matrices) -> Operand:
    b = value.b
    layout = wanted.layout
    if layout is not None and value.home == layout:
        held = join_matrices(value, wanted, layout)
        return lambda i, j: held[i * wanted.counts[1] + j]
    turned = isinstance(value, Moved) and value.is_transpose
    source = value.source if turned else value
    if isinstance(source, Box) and (found := _direct(source, wanted, turned)):
        return found
    bits = bit_width(source.type.element)
    pad = 0 if b.target.processor else 128 // bits
    place = Stored(source, pad).fill()
    b.kept[-1].append(place.memory)

    def load(i: int, j: int) -> SSAValue:
        b.will_read(place.memory)
        return place.matrix(wanted, (i, j), turned)

    return load


def _direct(box: Box, wanted: Matrices, turned: bool) -> Operand | None:
    """Loads matrices from the buffer; None if elements lie outside or rows are not aligned."""
    b, view = box.b, box.view
    if view.is_written or not box.is_inside():
        return None
    stride = box.matrix_stride(wanted.shape[0 if turned else 1])
    if stride is None:
        return None
    type = wanted.type_of(box.type.element)

    def load(i: int, j: int) -> SSAValue:
        places = corner_of(b, wanted, (i, j))
        at, _ = element_of(b, view, box.firsts, places[::-1] if turned else places)
        return load_matrix(b, type, view.buffer, [at], stride, LAYOUTS[turned])

    return load


def multiply(
    op: tile.MultiplyAddOp, plan: Product | None, a: TileValue, b: TileValue, c: TileValue
) -> TileValue:
    """Emits a * b + c and returns the tile."""
    if plan is None:
        return _multiply_elements(op, a, b, c)
    emitter = c.b
    accumulators = in_matrices(c, plan.c)
    left, right = operand(a, plan.a), operand(b, plan.b)
    rows, columns = plan.c.counts
    for depth in range(plan.a.counts[1]):
        lefts = [left(i, depth) for i in range(rows)]
        factors = (right(depth, j) for j in range(columns))
        accumulators = multiply_matrices(emitter, lefts, factors, accumulators, types_of(op))
    return Held(emitter, c.type, plan.c, accumulators)


def _multiply_elements(
    op: tile.MultiplyAddOp, a: TileValue, b: TileValue, c: TileValue
) -> TileValue:
    emitter = c.b
    layout = emitter.schedule.spread(c.type.shape)
    left, right = (Stored(value).fill() for value in (a, b))
    for place in (left, right):
        emitter.will_read(place.memory)
    start = c.in_home(layout)
    element, unsigned = c.type.element, op.unsigned is not None

    def step(k: Index, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
        factors: dict[object, SSAValue] = {}

        def factor(place: Stored, at: tuple[Index, Index]) -> SSAValue:
            if (place, at) not in factors:
                factors[place, at] = convert_factor(
                    emitter, place.element(at), element, not unsigned
                )
            return factors[place, at]

        results: list[SSAValue] = []
        for spot, total in zip(spots_of(layout), totals, strict=True):
            row, column = emitter.coordinates(spot)
            x, y = factor(left, (row, k)), factor(right, (k, column))
            results.append(multiply_add(emitter, x, y, total))
        return results

    totals = emitter.loop(a.type.shape[1], 1, start, step, "k")
    for place in (left, right):
        emitter.give_back(place.memory)
    return Held(emitter, c.type, layout, totals)
