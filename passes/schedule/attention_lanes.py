"""
Plans an attention without cooperative matrices, and chooses its schedule.

A group of lanes holds a few rows of queries, their maxima, sums and results in registers, and
loops over the keys. All sizes may be dynamic, and any element type and head size is supported. If
few rows have many keys (a new token and its past), the keys are divided among groups, subgroups
and workgroups (`parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, inf, prod

from xdsl.dialects import linalg

from xdsl_spirv.dialects.schedule import AttentionLanesAttr, AttentionOp, bit_width
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.epilogue import definition
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Unpacking, unpacking_of
from xdsl_spirv.passes.schedule.attention import FLOATS, D, E, M, N, OfAttention, drop_guards
from xdsl_spirv.passes.schedule.kinds import MOST_BITS, check
from xdsl_spirv.passes.schedule.pipeline import LANES_ATTENTION, Pipeline
from xdsl_spirv.targets import Target
from xdsl_spirv.targets.model import LanesModel

OUTER, SHARED, FIRST, SECOND = range(4)
"""
Indices of a layout's walks (groups of loops): outer batch, shared heads, and the operand's
two other loops.
"""


@dataclass(frozen=True)
class Scores:
    """
    Distributes the scores of one step over the lanes of a group. A slot is one of a lane's scores.

    Score i belongs to row `i % pitch` and key `i // pitch`. It is in slot `i // width` of lane `i
    % width`. The lanes from index `width` on hold copies.
    """

    rows: int
    keys: int
    lanes: int

    @property
    def pitch(self) -> int:
        """Number of scores for each key; a power of two if several lanes share the scores."""
        return self.rows if self.lanes == 1 else _power_of_two(self.rows)

    @property
    def width(self) -> int:
        """Number of lanes that hold different scores. All other lanes hold copies."""
        return min(self.lanes, self.pitch * self.keys)

    @property
    def row_slots(self) -> int:
        """Number of different rows among one lane's slots (scores), including padding rows."""
        return max(1, self.pitch // self.width)

    @property
    def own_rows(self) -> int:
        """Largest number of rows, without padding rows, for which one lane holds scores."""
        return ceil_div(self.rows, min(self.pitch, self.width))

    def place(self, row: int, key: int) -> tuple[int, int]:
        """Returns the slot (index among a lane's scores) and the lane of a score."""
        return divmod(key * self.pitch + row, self.width)

    def first(self, slot: int) -> tuple[int, int]:
        """Returns row and key of the score that lane 0 holds at index `slot`."""
        key, row = divmod(slot * self.width, self.pitch)
        return row, key


@dataclass(frozen=True)
class LanesPlan(OfAttention[AttentionLanesAttr]):
    """An attention with a schedule of multiply-adds on a target."""

    @cached_property
    def shared(self) -> int:
        """Number of innermost batch loops that do not index keys or values."""
        used = self.map_of("k").used_dims() | self.map_of("v").used_dims()
        count = 0
        for loop in reversed(range(len(self.sizes.loops) - len(LOOPS))):
            if is_dynamic(self.sizes.loops[loop]) or loop in used:
                break
            count += 1
        return count

    @cached_property
    def batch(self) -> Size:
        return prod(self.sizes.loops[loop] for loop in self.batch_loops[0])

    @cached_property
    def heads(self) -> int:
        """Number of heads that share keys and values."""
        return prod(typical(self.sizes.loops[loop]) for loop in self.batch_loops[1])

    @cached_property
    def row_count(self) -> Size:
        """Number of rows of a batch: queries times `heads`."""
        return self.sizes.extents[M] * self.heads

    @property
    def batch_loops(self) -> tuple[range, ...]:
        """The batch loops, split into the outer loops and the loops of heads that share keys."""
        count = len(self.sizes.loops) - len(LOOPS)
        return range(count - self.shared), range(count - self.shared, count)

    def shape_of(self, name: str) -> Sequence[Size]:
        shape = super().shape_of(name)
        return shape[1:] if name == "result" and self.parts > 1 else shape

    def computation(self, name: str) -> linalg.ops.GenericOp | None:
        """Returns the operation that dequantizes keys or values; None if there is none."""
        op = definition(self.op.named[name]) if name in ("k", "v") else None
        return op if isinstance(op, linalg.ops.GenericOp) else None

    def unpacking(self, name: str) -> Unpacking | None:
        """Returns the dequantization of keys or values; None if they are stored unpacked."""
        op = self.computation(name)
        if op is None:
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
        """Returns the bits per element of an operand in memory: the minimum over its planes."""
        op = self.computation(name)
        if op is None:
            return bit_width(self.element_of(name))
        return min(bit_width(element_type(plane)) for plane in op.inputs)

    def width(self, name: str) -> int:
        """Returns the widest vector of elements along an operand's second loop."""
        bits = self.stored_bits(name)
        most = MOST_BITS // bits
        run = gcd(self.layout(name).run(SECOND), most)
        if name == "result":
            if self.op.parts is not None:
                # A row of a part ends with two more numbers: its sum and its maximum.
                run = gcd(run, typical(self.sizes.extents[E]) + 2)
            return gcd(run, self.vector("v") if self.across_rows else self.exchanged_at_a_time)
        return run

    def vector(self, name: str) -> int:
        """
        Returns the vector width of an operand; equal for q and k, and for operands in one buffer.
        """
        if name == "result":
            return self.width(name)
        value = self.op.named[name]
        names = {n for n, own in self.op.named.items() if own is value and n != "result"}
        if value is self.op.query:
            names |= {other for other in ("k", "v") if self.op.named[other] is self.op.key} | {"k"}
        return gcd(*(1 if len(other) > 1 else self._narrowed(other) for other in names))

    def _narrowed(self, name: str) -> int:
        """
        Returns an operand's vector width. It is halved as long as some lanes would have no vector
        to load.
        """
        width, lanes = self.width(name), self.schedule.lanes.data
        if name in ("k", "v"):
            extent = typical(self.sizes.extents[D if name == "k" else E])
            least = 1 if self.stored_bits(name) > 8 else VECTOR
            while width > least and extent // width < lanes and extent % (lanes * width // 2) == 0:
                width //= 2
        return width

    @property
    def exchanged_at_a_time(self) -> int:
        """Number of elements of a result that subgroups exchange as one vector."""
        return gcd(self.vector("v"), MOST_BITS // 32)

    @property
    def model(self) -> LanesModel:
        """The target file's parameters for choosing schedules."""
        return self.target.model.attention.lanes

    @property
    def scores(self) -> Scores:
        schedule = self.schedule
        return Scores(schedule.rows.data, schedule.keys.data, schedule.lanes.data)

    @property
    def pipeline(self) -> Pipeline:
        """
        The stages of the loop over keys.

        If keys are loaded one step early, a single masked loop handles all keys. This shortens
        the code, which is not cached when a kernel starts.
        """
        return LANES_ATTENTION[self.schedule.ahead.data]

    def vectors(self, name: str) -> int:
        """Returns the number of vectors of a key or value."""
        extent = self.sizes.extents[D if name == "k" else E]
        return typical(extent) // self.vector(name)

    def pieces(self, name: str) -> int:
        """Returns the maximum number of loads of `least_bits` that read a key or value."""
        bits = self.vector(name) * self.stored_bits(name)
        return self.vectors(name) * max(1, bits // self.model.least_bits)

    def share(self, name: str) -> int:
        """Returns the largest number of vectors of a key or value that one lane holds."""
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
        """Number of groups of lanes in a workgroup."""
        return self.groups_in_subgroup * self.schedule.subgroups.data

    @property
    def subgroup_rows(self) -> int:
        """Number of result rows of a subgroup."""
        return self.schedule.rows.data * (self.groups_in_subgroup if self.across_rows else 1)

    @property
    def tile(self) -> int:
        """Number of result rows of a workgroup."""
        return self.subgroup_rows * (self.schedule.subgroups.data if self.across_rows else 1)

    @property
    def step(self) -> int:
        """Number of keys that a workgroup processes in one iteration."""
        return self.schedule.keys.data * (1 if self.across_rows else self.groups)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along each axis: tiles of rows, batch, and parts of the keys."""
        return ceil_div(self.row_count, self.tile), self.batch, self.parts

    @property
    def workgroup_bytes(self) -> int:
        """Bytes that subgroups exchange at the end: result, sum and maximum of each row."""
        if self.across_rows:
            return 0
        width = typical(self.sizes.extents[E]) + 2
        return self.schedule.subgroups.data * self.schedule.rows.data * width * 4

    @property
    def registers(self) -> int:
        """Number of an invocation's registers for queries and results."""
        per_row = sum(self.share(name) * self.vector(name) for name in ("k", "v"))
        return self.schedule.rows.data * per_row

    def list_problems(self) -> Iterator[str]:
        op, schedule, target = self.op, self.schedule, self.target
        for name in op.named:
            if not isinstance(self.element_of(name), FLOATS):
                yield f"{name} has type {self.element_of(name)}: f16, bf16 or f32 would fit"
                return
            if self.computation(name) is not None and self.unpacking(name) is None:
                yield f"{name} is computed by other code than dequantization of vectors of integers"
        if schedule.keys.data & (schedule.keys.data - 1):
            yield f"keys = {schedule.keys.data} is not a power of two"
        if schedule.lanes.data > target.subgroup_size:
            size = target.subgroup_size
            yield f"lanes = {schedule.lanes.data}, but a subgroup of {target.name} has only {size}"
        if "subgroup-shuffle" not in target.features:
            yield f"{target.name} lacks subgroup-shuffle, which lanes need to add up scores"
        if target.held_registers is not None and self.registers > target.held_registers:
            yield (
                f"queries and results need {self.registers} registers of an invocation, but "
                f"{target.name} has {target.held_registers}: fewer rows or more lanes would fit"
            )
        yield from self.launch_problems()
        if op.parts is not None and self.across_rows:
            yield "a schedule that splits the keys into parts needs across = keys"


def least_lanes(op: AttentionOp, target: Target) -> LanesPlan:
    """Returns the plan in which one lane processes one row and one key at a time."""
    return LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)


def choose_lanes(op: AttentionOp, target: Target) -> AttentionLanesAttr:
    """
    Chooses the schedule with the fewest lanes per row that the registers allow.

    Raises `ScheduleDoesNotFit` if no schedule fits.
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
    # A CPU has few registers anyway: more keys give it more work between two exchanges.
    most_loaded = target.held_registers or inf
    if ahead:
        # Loaded values of each step need registers in addition to queries and results.
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
    True if a workgroup with twice as many subgroups needs so few parts that the target merges them
    faster.

    On an H200, merging 16 parts takes 3.8 us and 32 parts 4.8 us, for 4 rows of 128 elements
    (benchmarks/results/h200-decode-attention-schedules.json).
    """
    known = plan.target.merged_parts
    if not known or plan.across_rows or any(twice.problems()):
        return False
    if plan.registers > plan.model.resident_registers:
        return False
    elements = plan.schedule.rows.data * typical(plan.sizes.extents[E])
    return elements >= known["elements"] and parts_for(twice) <= known["most"] < parts_for(plan)


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def parts_for(plan: LanesPlan, most: int | None = None) -> int:
    """
    Returns the number of parts of the keys that keeps all compute units busy.

    `most` is an upper bound of the number of keys; None if unknown.
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
