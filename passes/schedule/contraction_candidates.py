"""
Lists candidate schedules of a contraction, from the target file's tiles.

A tile must be a multiple of the instruction's fragments. Each tile gives one candidate for each
combination of paths of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, product
from math import lcm, prod
from typing import TypeAlias

from xdsl.ir import BlockArgument, SSAValue

from xdsl_spirv.dialects.schedule import (
    ContractionAttr,
    DirectAttr,
    DispatchOp,
    InstructionAttr,
    StagedAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    contraction_of,
    element_type,
    storage,
)
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.plan import Plan, Rates, ceil_div, fragment_of
from xdsl_spirv.passes.schedule.tiles import INNER, column_walk, k_axis_of, widest_vector
from xdsl_spirv.targets import PER_ELEMENT, ScheduleCandidate, Target

STAGED_ROW_PADDING = 16
"""Padding of a staged row in bytes. It shifts rows by four banks and preserves alignment."""

Groups: TypeAlias = Iterator[Iterator[Plan]]


def candidates_of(contraction: Contraction, target: Target) -> Groups:
    """Yields the candidates by instruction, the best instruction first."""
    for of_kind in (by_matrices, by_dots, by_multiply_adds):
        yield from of_kind(contraction, target)


def by_matrices(contraction: Contraction, target: Target) -> Groups:
    """
    Yields the candidates for each shape of the target's cooperative matrices.

    Transposed products of all shapes belong to the first group.
    """
    shapes = [listed.shape for listed in target.properties_for(contraction.types)]
    for number, shape in enumerate(shapes):
        candidates = _candidates(contraction, target, shape, "ab")
        if number == 0 and any(candidate.operands == "ba" for candidate in target.schedules):
            other = contraction_of(contraction.op, transposed=True)
            transposed = (_candidates(other, target, shape, "ba") for shape in shapes)
            candidates = chain(candidates, *transposed)
        yield candidates


def by_dots(contraction: Contraction, target: Target) -> Groups:
    """Yields the candidates with packed dot products."""
    size = typical(contraction.k)
    k = min(16, 4 * target.scalar_depth, ceil_div(size, 4) * 4)
    depth = min(4 * target.scalar_depth, ceil_div(size, k) * k)
    # Vectors have at least 4 bytes, and are contiguous along K.
    a, b = (
        StagedAttr(STAGED_ROW_PADDING, max(4, widest_vector(1, k, layout.run(INNER))))
        for layout in contraction.layouts[:2]
    )
    ways = [(a, b, 1)]
    yield _by_invocations(contraction, target, "dot", (k, depth), lambda _: ways)


def by_multiply_adds(contraction: Contraction, target: Target) -> Groups:
    """Yields the candidates with multiply-adds of each invocation."""
    size = typical(contraction.k)
    k = min(4, target.scalar_depth) if size > 2 else size
    whole = lcm(k, *(u.size for u in contraction.unpackings if u is not None))
    depth = min(target.scalar_depth, ceil_div(size, k) * k)

    def ways(shape: tuple[int, int, int]) -> Iterator[tuple[StagedAttr, StagedAttr, int]]:
        return ((*paths(contraction, shape, 4), stages) for stages in (2, 1))

    yield _by_invocations(contraction, target, "fma", (k, ceil_div(depth, whole) * whole), ways)


def _candidates(
    contraction: Contraction, target: Target, shape: tuple[int, int, int], operands: str
) -> Iterator[Plan]:
    """
    Yields a plan for each tile of the target that consists of whole fragments of `shape` and has
    this order of operands.
    """
    m, n, k = shape
    a_type, _, result = contraction.types
    bits = bit_width(contraction.element_types[2])
    a, b = paths(contraction, shape, 16)
    instruction = InstructionAttr("coopmat", shape)
    element_bytes = bit_width(contraction.element_types[0]) // 8
    packed = set(packable(contraction))
    units = {n: u for n, u in zip("ab", contraction.unpackings, strict=True) if u is not None}
    fixed = {n for n, u in units.items() if all(is_weight(plane.value) for plane in u.planes)}
    staged: dict[str, list[StagedAttr]] = {"a": [a], "b": [b]}
    for operand, (name, ways) in enumerate(staged.items()):
        panels = in_panels(contraction, operand, k) if name in packed else None
        if panels is not None:
            ways.append(panels)
    for candidate in target.schedules:
        (tile_m, tile_n), (rows, columns, *slices) = candidate.tile, candidate.subgroups
        types = f"{a_type} -> {result}"
        stream = None if units else candidate.streams.get(types, target.streams.get(types))
        rated = _rates(candidate, types, units, target.model.contraction.unpacked)
        if rated is None:
            continue
        rate, alone = rated
        rates = Rates(rate, alone, stream)
        if candidate.accumulator_bits not in (None, bits) or (candidate.rates and not rate):
            continue
        if tile_m % (rows * m) or tile_n % (columns * n) or candidate.operands != operands:
            continue
        # A dequantized operand may be read directly, but cannot be packed into fragments.
        if not packed.union(units).issuperset(candidate.direct):
            continue
        if not packed.union(fixed).issuperset({*candidate.fragments, *candidate.panels}):
            continue
        if not packed.isdisjoint({*candidate.panels} & {*candidate.direct}):
            continue
        if candidate.rows and (not units or not {*units}.isdisjoint(candidate.rows)):
            continue
        few = contraction.m if operands == "ab" else contraction.n
        if candidate.most_m and typical(few) > candidate.most_m:
            continue
        whole = _whole_depth(contraction, target, shape, candidate.direct) * prod(slices)
        deep = ceil_div(max(k, candidate.k_bytes // element_bytes // k * k), whole) * whole
        tile = tile_m, tile_n, min(deep, ceil_div(typical(contraction.k), whole) * whole)
        for stages in range(candidate.stages, 0, -1):
            # Without stages ahead, a second buffer has no use.
            buffers = candidate.buffers if stages > 1 else 1
            choices = [
                _packed_ways(contraction, candidate, operand, (k, tile[2] // prod(slices)), buffers)
                or [way.replace_values(buffers=buffers) for way in ways]
                for operand, ways in enumerate(staged.values())
            ]
            for path_a, path_b in product(*choices):
                grid, group, first = candidate.subgroups, candidate.group, candidate.first
                raster = _raster(contraction, tile) if group > 1 else "rows"
                ways = tile, grid, instruction, path_a, path_b, stages, raster
                stored = {"result": candidate.result, "operands": operands}
                schedule = ContractionAttr(*ways, group=group, first=first, **stored)
                planned = Plan(contraction, schedule, target, rates)
                others = (_has_edges, candidate.edges), (_has_functions, "elements")
                for applies, stored in others:
                    if stored and applies(planned):
                        schedule = planned.schedule.replace_values(result=stored)
                        planned = replace(planned, schedule=schedule)
                yield planned


def _raster(contraction: Contraction, tile: tuple[int, int, int]) -> str:
    """
    Returns the dimension along which consecutive workgroups are adjacent.

    With a dynamic number of tiles there are no groups of rows. Consecutive workgroups then walk the
    dimension with fewer tiles, so that concurrent workgroups share parts of both operands.
    """
    rows, columns = (
        ceil_div(typical(size), part)
        for size, part in zip((contraction.m, contraction.n), tile, strict=False)
    )
    is_static = not is_dynamic(contraction.m) and not is_dynamic(contraction.n)
    return "rows" if is_static or columns <= rows else "columns"


def _rates(
    candidate: ScheduleCandidate, types: str, units: Collection[str], unpacked: float
) -> tuple[float | None, float | None] | None:
    """
    Returns a tile's rates in TFLOPS: of large contractions, and with one workgroup for each compute
    unit.

    A rate that was not measured is None. `units` are the operands that the kernel dequantizes; if
    there are any and the tile was not measured with them, the rates without them are multiplied by
    `unpacked`. Returns None if a dequantized operand is read directly and was not measured.
    """
    rate, alone = candidate.rates.get(types), candidate.alone.get(types)
    if not units:
        return rate, alone
    measured = candidate.rates.get(f"unpacked {types}")
    if measured is not None:
        return measured, candidate.alone.get(f"unpacked {types}")
    if any(name in candidate.direct for name in units):
        return None
    return rate and unpacked * rate, alone and unpacked * alone


def _has_edges(planned: Plan) -> bool:
    """
    True if there are several tiles in both directions, and only fragments at the result's edge are
    not stored directly.
    """
    contraction, (tile_m, tile_n, _) = planned.contraction, planned.schedule.tile
    if (
        is_dynamic(contraction.m)
        or is_dynamic(contraction.n)
        or planned.result.scratch_shape is None
    ):
        return False
    several = contraction.m > tile_m and contraction.n > tile_n
    return several and planned.result.stored_directly and contraction.epilogue.is_empty


def _has_functions(planned: Plan) -> bool:
    """
    True if an instruction can store results by a function of each element.

    The target must have the instruction and must not list component positions.
    """
    m, n, _ = planned.schedule.instruction.sizes
    target = planned.target
    known = target.fragment("Acc", (m, n), 8 * planned.result.element_bytes)
    return (
        PER_ELEMENT in target.features
        and known is None
        and planned.result.scratch_shape is not None
    )


def _whole_depth(
    contraction: Contraction, target: Target, shape: tuple[int, int, int], direct: str
) -> int:
    """Returns the least depth along K that consists of whole instructions and packed units."""
    sizes = [shape[2]]
    for operand, unpacking in enumerate(contraction.unpackings):
        if unpacking is None:
            continue
        from xdsl_spirv.passes.schedule.k_order import orders_of

        is_direct = "ab"[operand] in direct
        fragment = fragment_of(contraction, target, shape, operand) if is_direct else None
        orders = () if fragment is None else orders_of(fragment, unpacking.sizes)
        sizes.append(min((order.group for order in orders), default=unpacking.size))
    return lcm(*sizes)


def _packed_ways(
    contraction: Contraction,
    candidate: ScheduleCandidate,
    operand: int,
    depths: tuple[int, int],
    buffers: int,
) -> list[StagedAttr | DirectAttr]:
    """
    Returns the possible ways to read a packed operand A (0) or B (1); [] for an unpacked operand.

    `depths` are the depths along K of the instruction and of a subgroup's part of a tile. `buffers`
    is the number of buffers of a staged tile.
    """
    k, depth = depths
    name, size = "ab"[operand], bit_width(contraction.element_types[operand]) // 8
    if name in candidate.rows:
        return [DirectAttr(layout="rows")]
    if name in candidate.direct:
        layout = "panels" if name in candidate.panels else "fragments"
        return [DirectAttr(min(candidate.ahead, depth // k), layout)]
    if name in candidate.fragments:
        return [StagedAttr(0, STAGED_ROW_PADDING // size, buffers, layout="fragments")]
    if name in candidate.panels:
        vector = min(STAGED_ROW_PADDING // size, k)
        ahead = candidate.staged_ahead if buffers > 1 else 0
        return [StagedAttr(STAGED_ROW_PADDING // size, vector, buffers, ahead, "panels")]
    return []


def in_panels(contraction: Contraction, operand: int, k: int) -> StagedAttr | None:
    """
    Returns the path that packs A (0) or B (1) into panels if these allow wider loads, else None.

    `k` is a fragment's size along K. Panels also help 8-bit operands that are contiguous across K,
    because no instruction transposes single bytes.
    """
    layout, element = contraction.layouts[operand], contraction.element_types[operand]
    size, axis = bit_width(element) // 8, k_axis_of(layout)
    vector = min(STAGED_ROW_PADDING // size, k)
    if layout.run(column_walk(axis)) % vector == 0 and (axis == 1 or size > 1):
        return None
    return StagedAttr(STAGED_ROW_PADDING // size, vector, layout="panels")


def packable(contraction: Contraction) -> Iterator[str]:
    """Yields the operands ("a", "b") that are stored in memory and need no conversion."""
    if isinstance(contraction.op.parent_op(), DispatchOp):
        for number, (name, value) in enumerate((("a", contraction.a), ("b", contraction.b))):
            if isinstance(value, BlockArgument) and not contraction.has_dynamic_size(number):
                yield name


SCALAR_SHAPES = ((8, 8), (8, 4), (4, 8), (4, 4), (2, 4), (4, 2), (1, 4), (4, 1), (2, 2), (1, 1))
"""Candidate numbers of rows and columns of the result that one invocation computes."""

SCALAR_GRIDS = ((2, 2), (1, 2), (2, 1), (4, 1), (1, 4), (1, 1))


def _by_invocations(
    contraction: Contraction,
    target: Target,
    kind: str,
    depths: tuple[int, int],
    ways: Callable[[tuple[int, int, int]], Iterable[tuple[StagedAttr, StagedAttr, int]]],
) -> Iterator[Plan]:
    """
    Yields the plans in which each invocation computes a block of the result.

    `depths` are the depths along K of the instruction and of a tile. `ways` gives the paths of A
    and B and the stages for the shape of an instruction.
    """
    lanes = target.subgroup_size
    along_m = 1 << (lanes.bit_length() - 1) // 2
    for (m, n), (rows, columns) in product(SCALAR_SHAPES, SCALAR_GRIDS):
        if m * n > target.scalar_results:
            continue
        shape = m, n, depths[0]
        tile = rows * along_m * m, columns * (lanes // along_m) * n, depths[1]
        for path_a, path_b, stages in ways(shape):
            instruction = InstructionAttr(kind, shape)
            schedule = ContractionAttr(tile, (rows, columns), instruction, path_a, path_b, stages)
            yield Plan(contraction, schedule, target)


def paths(
    contraction: Contraction, shape: tuple[int, int, int], most: int
) -> tuple[StagedAttr, StagedAttr]:
    """
    Returns staged paths of A and B with the widest vectors that divide the rows of operand and
    fragment.

    `most` is the largest number of elements in a vector.
    """

    def path(operand: int, value: SSAValue) -> StagedAttr:
        layout, size = contraction.layouts[operand], element_bytes[operand]
        axis, stored = k_axis_of(layout), bit_width(element_type(storage(value)[0]))
        rows = layout.run(column_walk(axis)), shape[2 if axis == 1 else operand]
        vector = widest_vector(size, *rows, most=min(most, 16 * 8 // stored))
        return StagedAttr(padding=STAGED_ROW_PADDING // size, vector=vector)

    element_bytes = [bit_width(type) // 8 for type in contraction.element_types]
    return path(0, contraction.a), path(1, contraction.b)
