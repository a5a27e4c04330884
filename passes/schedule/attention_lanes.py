"""
Derives counts from an attention's schedule without matrices, and chooses one.

A group of lanes keeps a few rows of queries, their maxima and sums, and their part of the result in
registers, and goes through keys one by one. So every size may be open, every element type and head
size will do, and where few rows have many keys (a token and what came before it) the keys are what
is divided: among groups, subgroups and workgroups (`parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, inf, prod

from xdsl.dialects import linalg
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule import AttentionLanesAttr, AttentionOp, bit_width
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.epilogue import definition
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Unpacking, unpacking_of
from xdsl_spirv.passes.schedule.attention import (
    FLOATS,
    MOST_BITS,
    D,
    E,
    M,
    N,
    OfAttention,
    drop_guards,
)
from xdsl_spirv.passes.schedule.kinds import check
from xdsl_spirv.passes.schedule.pipeline import LANES_ATTENTION, Pipeline
from xdsl_spirv.targets import Target
from xdsl_spirv.targets.model import LanesModel

OUTER, SHARED, FIRST, SECOND = range(4)
"""Walks of a layout: the batch, the heads that share keys, and the two loops of the operand."""

LOOPS_OF = {"q": (M, D), "k": (N, D), "v": (N, E), "mask": (M, N), "sink": (M, N), "result": (M, E)}


@dataclass(frozen=True)
class Scores:
    """
    Assigns a step's scores to the lanes of a group; the scores of a key are neighbours.

    Score i belongs to row i mod pitch and key i / pitch. It is in slot i / width of lane i mod
    width; further lanes repeat it.
    """

    rows: int
    keys: int
    lanes: int

    @property
    def pitch(self) -> int:
        """Rows to a key, including unused ones: a power of two where lanes share them."""
        return self.rows if self.lanes == 1 else _power_of_two(self.rows)

    @property
    def width(self) -> int:
        """Number of lanes whose scores differ."""
        return min(self.lanes, self.pitch * self.keys)

    @property
    def row_slots(self) -> int:
        """Number of a lane's slots that belong to different rows."""
        return max(1, self.pitch // self.width)

    @property
    def own_rows(self) -> int:
        """The largest number of rows of a lane; counts only rows that exist."""
        return ceil_div(self.rows, min(self.pitch, self.width))

    def place(self, row: int, key: int) -> tuple[int, int]:
        """Returns the slot and the lane of a score."""
        return divmod(key * self.pitch + row, self.width)

    def first(self, slot: int) -> tuple[int, int]:
        """Returns row and key of the first lane's score in a slot."""
        key, row = divmod(slot * self.width, self.pitch)
        return row, key


@dataclass(frozen=True)
class LanesPlan(OfAttention):
    """An attention with its schedule by multiply-adds on a target."""

    op: AttentionOp
    schedule: AttentionLanesAttr
    target: Target
    LOOPS_OF = LOOPS_OF

    @cached_property
    def shared(self) -> int:
        """Number of the batch's last loops that lead to the same keys and values."""
        maps = list(map(self.map_of, "kv"))
        count = 0
        for loop in reversed(range(len(self.sizes.loops) - len(LOOPS))):
            of_loop = AffineDimExpr(loop)
            if is_dynamic(self.sizes.loops[loop]) or any(
                expression == of_loop or of_loop in expression.dfs()
                for map in maps
                for expression in map.results
            ):
                break
            count += 1
        return count

    @cached_property
    def batch(self) -> Size:
        return prod(self.sizes.loops[loop] for loop in self.batch_loops[0])

    @cached_property
    def heads(self) -> int:
        """Rows of a query: heads that share keys."""
        return prod(typical(self.sizes.loops[loop]) for loop in self.batch_loops[1])

    @cached_property
    def row_count(self) -> Size:
        """
        Rows of a matrix of the batch: for each query the rows of all heads, one after the other.
        """
        return self.sizes.extents[M] * self.heads

    @property
    def batch_loops(self) -> tuple[range, ...]:
        """The loops of the batch, and of the heads that share keys; see `OUTER`."""
        count = len(self.sizes.loops) - len(LOOPS)
        return range(count - self.shared), range(count - self.shared, count)

    def shape_of(self, name: str) -> Sequence[Size]:
        shape = super().shape_of(name)
        return shape[1:] if name == "result" and self.parts > 1 else shape

    def unpacking(self, name: str) -> Unpacking | None:
        """Returns the computation of keys or values, a vector at a time; None if they are read."""
        value = self.value(name)
        op = None if value is None else definition(value)
        if name not in ("k", "v") or not isinstance(op, linalg.ops.GenericOp):
            return None
        first, loops = len(self.op.sizes) - len(LOOPS), self.LOOPS_OF[name]
        groups = self.batch_loops[OUTER], *(range(first + n, first + n + 1) for n in loops)
        sizes, width = self.sizes.loops, self.vector(name)
        found = unpacking_of(op, self.map_of(name), sizes, groups, width)
        if found is None or found.size != width:
            return None
        planes = [replace(plane, layout=drop_guards(plane.layout)) for plane in found.planes]
        return replace(found, planes=tuple(planes))

    def stored_bits(self, name: str) -> int:
        """Bits of an operand's element in memory, of its narrowest plane where it is computed."""
        value = self.value(name)
        op = None if value is None else definition(value)
        if name not in ("k", "v") or not isinstance(op, linalg.ops.GenericOp):
            return bit_width(self.element_of(name))
        return min(bit_width(element_type(plane)) for plane in op.inputs)

    def width(self, name: str) -> int:
        """Elements of an operand's second loop that are moved at a time."""
        bits = self.stored_bits(name)
        most = MOST_BITS // bits
        run = gcd(self.layout(name).run(SECOND), most)
        if name == "result":
            if self.op.parts is not None:
                # Behind the elements of a row lie two more, in each part.
                run = gcd(run, typical(self.sizes.extents[E]) + 2)
            return gcd(run, self.vector("v") if self.across_rows else self.exchanged_at_a_time)
        return run

    def vector(self, name: str) -> int:
        """The width of a buffer's vectors: operands that share it have one width, so do q and k."""
        if name == "result":
            return self.width(name)
        value = self.value(name)
        names = {n for n, own in self.op.named.items() if own is value and n != "result"}
        if value is self.op.query:
            names |= {other for other in ("k", "v") if self.value(other) is self.op.key} | {"k"}
        return gcd(*(1 if len(other) > 1 else self._narrowed(other) for other in names))

    def _narrowed(self, name: str) -> int:
        """The width of an operand; narrower for keys and values if more lanes then have a share."""
        width, lanes = self.width(name), self.schedule.lanes.data
        if name in ("k", "v"):
            extent = typical(self.sizes.extents[D if name == "k" else E])
            least = 1 if self.stored_bits(name) > 8 else VECTOR
            while width > least and extent // width < lanes and extent % (lanes * width // 2) == 0:
                width //= 2
        return width

    @property
    def exchanged_at_a_time(self) -> int:
        """Elements of a result that subgroups exchange at a time."""
        return gcd(self.vector("v"), MOST_BITS // 32)

    @property
    def model(self) -> LanesModel:
        """The target's numbers by which schedules are chosen."""
        return self.target.model.attention.lanes

    @property
    def scores(self) -> Scores:
        schedule = self.schedule
        return Scores(schedule.rows.data, schedule.keys.data, schedule.lanes.data)

    @property
    def pipeline(self) -> Pipeline:
        """
        The stages of the loop over keys. If some are ahead, one loop goes through all keys, also
        keys that may not exist: less code is read, which is in no cache when a launch begins.
        """
        return LANES_ATTENTION[self.schedule.ahead.data]

    def vectors(self, name: str) -> int:
        """Number of vectors of a key or value."""
        extent = self.sizes.extents[D if name == "k" else E]
        return typical(extent) // self.vector(name)

    def pieces(self, name: str) -> int:
        """Pieces of keys or values that are large enough for a load."""
        bits = self.vector(name) * self.stored_bits(name)
        return self.vectors(name) * max(1, bits // self.model.least_bits)

    def share(self, name: str) -> int:
        """The largest number of vectors of a key or value in one invocation."""
        return ceil_div(self.vectors(name), self.schedule.lanes.data)

    @property
    def parts(self) -> int:
        return 1 if self.op.parts is None else self.op.parts.value.data

    @property
    def across_rows(self) -> bool:
        return self.schedule.across.data == "rows"

    @property
    def groups_in_subgroup(self) -> int:
        return self.target.subgroup_size // self.schedule.lanes.data

    @property
    def groups(self) -> int:
        """Groups of lanes in a workgroup."""
        return self.groups_in_subgroup * self.schedule.subgroups.data

    @property
    def subgroup_rows(self) -> int:
        """Rows of the result that a subgroup works on."""
        return self.schedule.rows.data * (self.groups_in_subgroup if self.across_rows else 1)

    @property
    def tile(self) -> int:
        """Rows of the result that a workgroup computes."""
        return self.subgroup_rows * (self.schedule.subgroups.data if self.across_rows else 1)

    @property
    def step(self) -> int:
        """Keys that a workgroup takes at a time."""
        return self.schedule.keys.data * (1 if self.across_rows else self.groups)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Tiles of rows, the batch, parts."""
        return ceil_div(self.row_count, self.tile), self.batch, self.parts

    @property
    def workgroup_bytes(self) -> int:
        """The bytes that subgroups exchange at the end: results, sums and maxima of each row."""
        if self.across_rows:
            return 0
        width = typical(self.sizes.extents[E]) + 2
        return self.schedule.subgroups.data * self.schedule.rows.data * width * 4

    @property
    def registers(self) -> int:
        """The registers of an invocation's queries and results."""
        per_row = sum(self.share(name) * self.vector(name) for name in ("k", "v"))
        return self.schedule.rows.data * per_row

    def problems(self) -> Iterator[str]:
        op, schedule, target = self.op, self.schedule, self.target
        for name in op.named:
            if not isinstance(self.element_of(name), FLOATS):
                yield f"{name} is {self.element_of(name)}: f16, bf16 or f32 would do"
                return
            value = self.value(name)
            of_kernel = value is not None and isinstance(definition(value), linalg.ops.GenericOp)
            if of_kernel and name in ("k", "v") and self.unpacking(name) is None:
                yield f"{name} is not computed from integers in whole vectors"
        if schedule.keys.data & (schedule.keys.data - 1):
            yield f"{schedule.keys.data} keys at a time: a power of two would do"
        if schedule.lanes.data > target.subgroup_size:
            size = target.subgroup_size
            yield f"{schedule.lanes.data} lanes: a subgroup of {target.name} has {size}"
        if "subgroup-shuffle" not in target.features:
            yield f"{target.name} has no subgroup-shuffle, by which invocations add up a score"
        if target.held_registers is not None and self.registers > target.held_registers:
            yield (
                f"{self.registers} registers of an invocation for queries and results, of which "
                f"{target.name} holds {target.held_registers}: fewer rows or more lanes would fit"
            )
        yield from self.launch_problems()
        if op.parts is not None and self.across_rows:
            yield "parts of the keys, but subgroups lie across rows: across = keys would do"


def least_lanes(op: AttentionOp, target: Target) -> LanesPlan:
    """Plans one row, one lane and one key at a time."""
    return LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)


def choose_lanes(op: AttentionOp, target: Target) -> AttentionLanesAttr:
    """
    Chooses as few lanes to a key as registers allow, so that few numbers are exchanged.

    Raises `ScheduleDoesNotFit` where none fits.
    """
    first = least_lanes(op, target)
    model, rows, across = first.model, typical(first.row_count), "keys"
    subgroups = model.subgroups_across_keys
    if rows > model.most_rows:
        rows, across, subgroups = model.most_rows, "rows", model.subgroups_across_rows
    rows, subgroups = max(1, rows), min(subgroups, target.residency.subgroups)
    least = model.side_by_side // (first.vector("k") * first.stored_bits("k") // 8)
    most = min(target.subgroup_size, _power_of_two(max(map(first.vectors, "kv"))))
    lanes = min(least, most)
    while True:
        plan = LanesPlan(op, AttentionLanesAttr(rows, lanes, 1, subgroups, across), target)
        if plan.registers <= (target.held_registers or model.registers):
            break
        if lanes < most:
            lanes *= 2
        elif rows > 1:
            rows //= 2
        else:
            break
    ahead = 0
    if across == "keys" and not target.processor:
        ahead = 2
        most = min(target.subgroup_size, _power_of_two(max(map(first.pieces, "kv"))))
        while lanes < most and plan.registers > model.resident_registers:
            lanes *= 2
            plan = replace(plan, schedule=plan.schedule.replace_values(lanes=lanes))
    loaded = sum(
        plan.share(name) * plan.vector(name) * plan.stored_bits(name) // 32 or 1
        for name in ("k", "v")
    )
    # A processor's registers are few anyway: there more keys are more work between two exchanges.
    most_loaded = target.held_registers or inf
    if ahead:
        # These stay beside queries and results, each step's by themselves.
        most_loaded = (most_loaded - plan.registers) // (1 + ahead)
    room = int(min(model.loaded_registers, most_loaded))
    room = model.most_keys * loaded if target.processor else room
    keys = max(1, min(model.most_keys, _power_of_two(room // loaded)))
    plan = replace(plan, schedule=plan.schedule.replace_values(keys=keys, ahead=ahead))
    check(plan)
    twice = replace(plan, schedule=plan.schedule.replace_values(subgroups=2 * subgroups))
    return (twice if _merges_less(plan, twice) else plan).schedule


def _merges_less(plan: LanesPlan, twice: LanesPlan) -> bool:
    """
    True if doubling the subgroups halves the parts, and the target says that this is faster.

    On an H200, merging 16 parts instead of 32 (4 rows of 128 elements) takes 3.8 us instead of 4.8
    us (benchmarks/results/h200-decode-attention-schedules.json).
    """
    known = plan.target.merged_parts
    if not known or plan.across_rows or any(twice.problems()):
        return False
    if plan.registers > plan.model.resident_registers:
        return False
    elements = plan.schedule.rows.data * typical(plan.sizes.extents[E])
    return elements >= known["elements"] and parts_for(twice) <= known["most"] < parts_for(plan)


def _power_of_two(number: int) -> int:
    """Returns the least power of two that is not below the number."""
    return 1 << max(0, number - 1).bit_length()


def parts_for(plan: LanesPlan, most: int | None = None) -> int:
    """
    Returns into how many parts to cut the keys, so that all compute units have work.

    `most` is how many keys there may be, None where nothing says.
    """
    if plan.across_rows:
        return 1
    keys = plan.sizes.extents[N]
    count = max(typical(keys), plan.model.long_past) if is_dynamic(keys) else keys
    count = count if most is None else min(count, most)
    tiles, batch, _ = plan.grid
    model = plan.model
    larger = max(1, plan.schedule.subgroups.data // model.subgroups_across_keys)
    wanted = model.waves * plan.target.compute_units // (larger * typical(tiles) * typical(batch))
    return max(1, min(model.most_parts, wanted, count // (model.fewest_steps * plan.step)))
