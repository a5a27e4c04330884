"""
Checks that a schedule of tiles fits a contraction and a target.

Every error text names the value that does not fit, the limit, and the nearest fitting value.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule import DirectAttr, PackingAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, is_multiple, typical
from xdsl_spirv.passes.analysis.contraction import element_type, packing_of, shape_of, storage
from xdsl_spirv.passes.schedule.kinds import FEATURES
from xdsl_spirv.passes.schedule.paths import no_matrices
from xdsl_spirv.passes.schedule.plan import UNROLLED, Plan, ceil_div
from xdsl_spirv.passes.schedule.stored_result import STRIP_BYTES, moves_together
from xdsl_spirv.passes.schedule.tiles import PackedTile, StagedTile, Tile, UnitTile
from xdsl_spirv.targets import PER_ELEMENT

MOST_BUFFERS = 2
"""Largest number of buffers for an operand's tile in Workgroup memory."""

MOST_STAGES = 2
"""Largest number of K tiles in flight if fragments are loaded for the current tile."""

MOST_AHEAD = 5
"""Largest number of K tiles in flight if fragments are loaded one tile ahead."""

PACKED = 4
"""Number of 8-bit elements in a word of packed dot products."""

ACCUMULATED = ("f16", "f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
"""Types in which an invocation can accumulate."""


def problems_of(plan: Plan) -> Iterator[str]:
    """Yields the reasons why the schedule does not fit."""
    wrong = list(_instruction(plan) if plan.schedule.is_cooperative else _invocations(plan))
    if plan.schedule.kind == "dot":
        wrong += _dots(plan)
    yield from wrong
    if wrong:
        return
    for name, tile, path in zip("ab", (plan.a, plan.b), plan.schedule.paths, strict=True):
        if isinstance(tile, PackedTile):
            yield from _fragments(name, tile, plan, path.layout.data)
        elif isinstance(tile, UnitTile):
            yield from _unpacking_problems(name, tile, plan)
        elif isinstance(path, DirectAttr):
            other = "b" if name == "a" else "a"
            yield (
                f"{name}: layout = rows needs {other} = direct for a dequantized operand, and rows "
                f"of {name} that are contiguous along K and not converted: use staged"
            )
        else:
            yield from _operand(name, tile, plan)
        planes = () if isinstance(tile, PackedTile) or not tile.unpacking else tile.unpacking.planes
        if any(plane.by_data for plane in planes):
            yield f"{name}: data select weights along M, N or K: use a schedule of rows"
    yield from _limits(plan)
    yield from _stages(plan)
    if plan.contraction.epilogue.parts > 1:
        yield from _parts(plan)
    if plan.result.stores_rows:
        yield from _rows(plan)
    if plan.schedule.result.data == "components":
        yield from _components(plan)
    if plan.result.stores_elements:
        yield from _elements(plan)


def _instruction(plan: Plan) -> Iterator[str]:
    target, types = plan.target, plan.contraction.types
    listed = target.properties_for(types)
    named = f"{types[0]} x {types[1]} -> {types[2]}"
    if missing := no_matrices(plan.contraction, target):
        yield missing
    elif plan.schedule.instruction.sizes not in [p.shape for p in listed]:
        shape = "x".join(str(s) for s in plan.schedule.instruction.sizes)
        shapes = ", ".join("x".join(str(s) for s in p.shape) for p in listed)
        yield (
            f"CM-29: {target.name} has no cooperative matrices {shape} of {named}; it has {shapes}"
        )


def _invocations(plan: Plan) -> Iterator[str]:
    target, types = plan.target, plan.contraction.types
    kind = plan.schedule.kind
    needed = {FEATURES.get(name) for name in types}
    for feature in sorted(name for name in needed if name and name not in target.features):
        named = f"{types[0]} x {types[1]} -> {types[2]}"
        yield f"{kind} of {named} needs {feature}, which {target.name} does not list"
    if types[2] not in ACCUMULATED:
        yield f"{kind} supports results of {', '.join(ACCUMULATED)}, not {types[2]}"
    if plan.schedule.slices > 1:
        yield f"{kind} does not support slices of K: give only rows and columns of subgroups"
    for at, path in enumerate(plan.schedule.paths):
        if path.packs and not path.in_panels:
            way = "direct" if at in plan.schedule.direct else "fragments"
            yield f"{'ab'[at]} = {way} needs coopmat: use staged, by rows or panels, for {kind}"
    if any(tile.reads_ahead for tile in plan.staged):
        yield f"{kind} does not support ahead: use coopmat"
    if (result := plan.schedule.result.data) != "fragments":
        yield f"{kind} does not support result = {result}: use coopmat"
    if plan.contraction.epilogue.parts > 1:
        yield f"{kind} does not support results of several parts: use coopmat"
    along_m, along_n, _ = plan.schedule.fragments
    if along_m * along_n != target.subgroup_size:
        m, n, _ = plan.schedule.instruction.sizes
        rows, columns = plan.schedule.grid
        yield (
            f"{kind}: a subgroup computes {target.subgroup_size} blocks of {m} x {n} elements, but "
            f"the workgroup_tile has {along_m} x {along_n} blocks for each subgroup: use a tile of "
            f"{rows * columns * m * n * target.subgroup_size} elements"
        )


def _dots(plan: Plan) -> Iterator[str]:
    target, types = plan.target, plan.contraction.types
    feature = "integer-dot-product"
    if feature not in target.features:
        yield f"dot needs {feature}, which {target.name} does not list"
    if any(name not in ("s8", "u8") for name in types[:2]) or types[2] not in ("s32", "u32"):
        yield (
            f"dot multiplies s8 and u8 into 32 bits, not {types[0]} x {types[1]} -> {types[2]}: "
            "use fma"
        )
    _, _, k = plan.schedule.instruction.sizes
    if k % PACKED:
        yield f"dot: K = {k} is not a multiple of {PACKED}: use {ceil_div(k, PACKED) * PACKED}"
    for name, tile in (("a", plan.a), ("b", plan.b)):
        if isinstance(tile, StagedTile) and tile.vector % PACKED:
            yield f"{name}: vector = {tile.vector} is not a multiple of {PACKED}, which dot needs"


def _operand(name: str, tile: StagedTile, plan: Plan) -> Iterator[str]:
    vector, size = tile.vector, tile.element_bytes
    if tile.in_fragments:
        yield from _staged_fragments(name, tile, plan)
        return
    if vector & (vector - 1) or vector * size > 16:
        best = 16 // size
        yield f"{name}: vector = {vector} is not a power of two of at most 16 bytes: use {best}"
        return
    if vector > 4 and vector * size % 4:
        yield f"{name}: vector = {vector} of {size} bytes is not a whole number of 32-bit words"
    stored = bit_width(tile.stored_type) // 8
    if vector * stored > 16:
        yield (
            f"{name}: vector = {vector} elements of {stored} bytes in memory exceed 16 bytes: "
            f"vector = {16 // stored} would fit"
        )
    fitting = next(v for v in (16, 8, 4, 2, 1) if v <= vector and tile.run % v == 0)
    if fitting != vector and not tile.gathered:
        yield (
            f"{name}: vector = {vector} does not divide the operand's rows of {tile.run} "
            f"contiguous elements: use {fitting}"
        )
    m, n, k = plan.schedule.instruction.sizes
    columns = k if tile.k_axis == 1 else (m if name == "a" else n)
    if columns % vector:
        yield f"{name}: vector = {vector} does not divide a fragment's row of {columns} elements"
    if plan.schedule.kind == "fma" and vector > 4:
        yield f"{name}: vector = {vector}, but fma supports at most 4"
    if tile.padding % vector:
        yield (
            f"{name}: padding = {tile.padding} is not a multiple of vector = {vector}: "
            f"use {-(-tile.padding // vector) * vector}"
        )
    needed = min(plan.target.cooperative_matrix_alignment, columns * size)
    if not plan.schedule.is_cooperative:
        needed = 1
    row = (tile.shape[1] + tile.padding) * size
    if row % needed:
        padding = (-tile.shape[1] * size % needed) // size
        yield (
            f"{name}: rows of {row} bytes in Workgroup memory are not a multiple of {needed}, "
            f"which cooperative loads need: use padding = {padding}"
        )
    if tile.packing is not None:
        yield from _packing(name, tile.packing, plan)
    elif tile.unpacking is not None and tile.shape[1] % (size := tile.unpacking.size):
        yield (
            f"{name}: K = {tile.shape[1]} of a tile is not a multiple of the {size} elements that "
            f"are dequantized together: use {ceil_div(tile.shape[1], size) * size}"
        )
    elif packing_of(plan.contraction.a if name == "a" else plan.contraction.b):
        yield f"{name}: layout = rows, but the operand is packed: use panels or fragments"


def _staged_fragments(name: str, tile: StagedTile, plan: Plan) -> Iterator[str]:
    assert tile.packing is not None
    packed = PackedTile(tile.packing, tile.element_type, plan.target.subgroup_size)
    yield from _fragments(name, packed, plan)
    if tile.vector != packed.components or tile.padding:
        yield (
            f"{name}: an invocation copies all its {packed.components} elements of a fragment at "
            f"once: use vector = {packed.components} and padding = 0"
        )


def _fragments(name: str, tile: PackedTile, plan: Plan, layout: str = "fragments") -> Iterator[str]:
    if layout == "panels":
        yield f"{name}: layout = panels is only for dequantized operands: use staged"
    if not plan.target.even_fragments:
        yield f"{name}: {plan.target.name} does not list how fragments are distributed: use staged"
    steps = plan.schedule.fragments[2]
    if tile.ahead > steps:
        yield f"{name}: ahead = {tile.ahead} exceeds a K tile's {steps} instructions"
    yield from _packing(name, tile.packing, plan)
    if tile.words not in (1, 2, 4):
        yield (
            f"{name}: an invocation's {tile.components} elements of a fragment are not 1, 2 or 4 "
            "words of 32 bits"
        )


def _unpacking_problems(name: str, tile: UnitTile, plan: Plan) -> Iterator[str]:
    target = plan.target
    if tile.fragment is None:
        yield (
            f"{name} = direct for a dequantized operand needs component positions, which "
            f"{target.name} does not list: use staged"
        )
        return
    size = tile.unpacking.size
    if tile.order is None:
        from xdsl_spirv.passes.schedule.k_order import orders_of

        groups = [order.group for order in orders_of(tile.fragment, tile.unpacking.sizes)]
        yield (
            f"{name} = direct for a dequantized operand: K = {plan.slice_depth} of a subgroup's "
            f"tile is not a multiple of the {min(groups)} elements that are dequantized together"
            if groups
            else f"{name} = direct: the {size} elements of a unit cannot be divided among the "
            f"invocations that share a fragment on {target.name}: use staged"
        )
        return
    if tile.in_panels and not tile.panels():
        yield (
            f"{name}: layout = panels, but no tensor of packed weights divides into panels of "
            f"the {tile.order.group} elements that invocations share: use layout = rows"
        )
    other, rest = (plan.b, "b") if name == "a" else (plan.a, "a")
    if isinstance(other, UnitTile):
        if other.order != tile.order:
            yield f"{name} and {rest} = direct need different orders along K: use {rest} = staged"
    elif not isinstance(other, StagedTile) or other.packing is not None or other.k_axis != 1:
        yield (
            f"{name} = direct for a dequantized operand needs {rest} = staged, by rows that are "
            "contiguous along K"
        )
    elif other.unpacking is not None:
        yield f"{name} = direct, but both operands are dequantized: use staged for both"
    elif size % other.vector:
        yield f"{rest}: vector = {other.vector} does not divide the {size} elements of a unit"


def _packing(name: str, packing: PackingAttr, plan: Plan) -> Iterator[str]:
    """Yields the reasons why an operand cannot have the packing that the schedule needs."""
    operand = 0 if name == "a" else 1
    value = (plan.contraction.a, plan.contraction.b)[operand]
    needed = plan.packing_for(operand)
    kind = "panels" if needed.is_panels else "direct"
    if packing_of(value) is None and storage(value)[0] is not value:
        yield f"{name} = {kind}, but the operand is computed or padded in the kernel: use staged"
    if any(not isinstance(e, AffineDimExpr) for e in packing.map.data.results):
        yield f"{name} = {kind}, but the operand is read through windows: use staged"
    _, inner_count, outer_count, _ = packing.shape
    _, inner_needed, outer_needed, _ = needed.shape
    if (
        _meaning(packing) != _meaning(needed)
        or inner_count < inner_needed
        or outer_count < outer_needed
    ):
        yield f"{name}: the operand is packed as {packing}, but the schedule needs {needed}"


def _meaning(packing: PackingAttr) -> tuple[Attribute, ...]:
    """Returns the fields of a packing, except the size of its zero padding."""
    meant = packing.use, packing.fragment, packing.map, packing.sizes, packing.groups
    return *meant, packing.words


def _stages(plan: Plan) -> Iterator[str]:
    stages = plan.schedule.stages.data
    for name, tile in (("a", plan.a), ("b", plan.b)):
        if not isinstance(tile, StagedTile):
            continue
        if tile.buffers > MOST_BUFFERS:
            yield f"{name}: buffers = {tile.buffers} exceeds {MOST_BUFFERS}"
        elif tile.buffers > 1 and stages == 1:
            yield f"{name}: buffers = {tile.buffers} needs stages = {MOST_STAGES}"
        elif tile.buffers != max(staged.buffers for staged in plan.staged):
            yield f"{name}: buffers = {tile.buffers} is less than the other operand has"
    ahead = {tile.reads_ahead for tile in plan.staged}
    if True in ahead:
        yield from _read_ahead_problems(plan)
    most = MOST_AHEAD if ahead == {True} else MOST_STAGES
    if stages > most:
        yield f"stages = {stages} exceeds {most}"
    if stages == 1:
        return
    for name, tile in (("a", plan.a), ("b", plan.b)):
        if isinstance(tile, StagedTile) and (moves := plan.moves(tile)) * (stages - 1) > UNROLLED:
            yield (
                f"stages = {stages}: each invocation copies {moves} vectors of {name}, but only "
                f"{UNROLLED // (stages - 1)} fit in registers: use a smaller K or stages = 1"
            )


def _read_ahead_problems(plan: Plan) -> Iterator[str]:
    for name, tile in (("a", plan.a), ("b", plan.b)):
        if not isinstance(tile, StagedTile):
            yield f"{name} = direct, but the other operand has ahead = 1: use staged for both"
        elif not tile.reads_ahead or tile.buffers != MOST_BUFFERS:
            yield f"{name}: ahead = 1 needs ahead = 1 and buffers = 2 of both operands"
    if is_dynamic(plan.contraction.k):
        yield "ahead = 1 needs a static K"


def _rows(plan: Plan) -> Iterator[str]:
    if plan.schedule.slices > 1:
        yield "result = rows does not support slices of K: use result = fragments"
    contraction = plan.contraction
    results = contraction.epilogue.results
    m, n, _ = plan.schedule.instruction.sizes
    if not (is_multiple(contraction.m, m) and is_multiple(contraction.n, n)):
        yield f"result = rows: {contraction.m} x {contraction.n} is not a multiple of {m} x {n}"
    elif not plan.result.stored_directly or len(results) != 1:
        yield "result = rows needs one result that cooperative stores can write: use fragments"
    elif not moves_together(
        contraction.layout_of_result(results[0].map, results[0].shape),
        bit_width(results[0].element_type) // 8,
        plan.result.strip_width,
    ):
        yield f"result = rows: rows are not a multiple of {STRIP_BYTES} bytes: use fragments"


def _components(plan: Plan) -> Iterator[str]:
    m, n, _ = plan.schedule.instruction.sizes
    if plan.result.component_places is None:
        yield (
            f"result = components: {plan.target.name} lists no component positions for {m} x {n} "
            f"results of {8 * plan.result.element_bytes} bits: use result = fragments"
        )


def _parts(plan: Plan) -> Iterator[str]:
    if plan.result.stores_rows:
        yield "results of several parts do not support result = rows"
        return
    epilogue, side = plan.contraction.epilogue, 0 if plan.schedule.is_transposed else 1
    n, count = plan.schedule.instruction.sizes[side], plan.schedule.fragments[side]
    if side == 0 and plan.schedule.fragments[1] > 1:
        yield "results of several parts need a single fragment along N if operands = ba"
    if epilogue.root.shape[-1] != n:
        yield f"a part of the result has {epilogue.root.shape[-1]} columns, but a fragment {n}"
    if count % epilogue.parts:
        yield f"{epilogue.parts} parts do not divide a subgroup's {count} fragments along N"
    if plan.result.scratch_shape is not None:
        yield (
            "results of several parts cannot go through Workgroup memory: use result = "
            "components, or tiles that divide the result"
        )


def _elements(plan: Plan) -> Iterator[str]:
    if PER_ELEMENT not in plan.target.features:
        yield (
            f"result = elements, but {plan.target.name} does not list {PER_ELEMENT}: use result = "
            "fragments"
        )


def _limits(plan: Plan) -> Iterator[str]:
    target, contraction = plan.target, plan.contraction
    yield from _registers(plan)
    yield from plan.launch_problems()
    sizes = (
        ("A", _bytes(contraction.a, plan.a)),
        ("B", _bytes(contraction.b, plan.b)),
        ("the result", prod(shape_of(contraction.init)) * plan.result.element_bytes),
    )
    for name, size in sizes:
        if not is_dynamic(size) and size > target.storage_buffer_max_bytes:
            yield (
                f"{name} has {size} bytes, but a storage buffer of {target.name} has at most "
                f"{target.storage_buffer_max_bytes}: split the contraction"
            )


def _registers(plan: Plan) -> Iterator[str]:
    registers, held = plan.target.registers, plan.target.held_registers
    if not plan.schedule.is_cooperative:
        m, n, _ = plan.schedule.instruction.sizes
        words = m * n + plan.waiting_bytes // 4
        if held is not None and plan.pipeline.read and words > held:
            yield (
                f"results and staged values need {words} registers of an invocation, but "
                f"{plan.target.name} has {held}: stages = 1 or more subgroups would fit"
            )
        return
    if registers is None:
        return
    if plan.fragment_bytes > (room := registers.bytes - registers.kept):
        yield (
            f"fragments need {plan.fragment_bytes} bytes of a subgroup's registers, but only "
            f"{room} are free on {plan.target.name} ({registers.bytes}, of which the driver needs "
            f"{registers.kept}): use more subgroups or a smaller workgroup_tile"
        )


def _bytes(operand: SSAValue, tile: Tile) -> Size:
    if not isinstance(tile, PackedTile) and tile.unpacking is not None:
        planes = [plane.value for plane in tile.unpacking.planes]
        sizes = [bit_width(element_type(plane)) // 8 * prod(shape_of(plane)) for plane in planes]
        return max(sizes, key=typical)
    stored, _ = storage(operand)
    return prod(shape_of(stored)) * tile.element_bytes
