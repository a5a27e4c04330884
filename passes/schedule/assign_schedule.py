"""
A schedule for every contraction, from the target's data and the shape.

The target's file lists tiles that do well on it, best first. Of those that fit, the one with the
least estimated time is taken: rounds of workgroups over the compute units, times what a tile costs,
its multiplications and (weighted by `LOAD_WEIGHT`) the rows and columns that it must fetch. So a
large result gets large tiles and a small one enough workgroups to go round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import SCHEDULE, ContractionAttr, InstructionAttr, StagedAttr
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check, problems_of
from xdsl_spirv.passes.schedule.plan import Plan, StagedTile, ceil_div, plan
from xdsl_spirv.passes.schedule.target import TARGET, load_target
from xdsl_spirv.targets import ScheduleCandidate, Target

LOAD_WEIGHT = 64
"""What fetching a row or column of a tile costs, in multiplications."""

STAGED_ROW_PADDING = 16
"""Bytes: shifts each row by four banks, and keeps cooperative loads aligned."""


@dataclass(frozen=True)
class AssignSchedulePass(ModulePass):
    """Chooses a schedule for each contraction that has none; checks those that have one."""

    name = "assign-schedule"

    target: str = ""
    """A known device's name or the path of a target file."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = op.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        target = load_target(name, op, self.name)
        op.attributes[TARGET] = StringAttr(name)
        for each in op.walk():
            if not isinstance(each, LinalgStructuredOperation):
                continue
            try:
                contraction = contraction_of(each)
            except NotAContraction:
                continue
            self._assign(contraction, target)

    def _assign(self, contraction: Contraction, target: Target) -> None:
        op = contraction.op
        given = op.attributes.get(SCHEDULE)
        try:
            if given is None:
                op.attributes[SCHEDULE] = choose(contraction, target)
            elif isinstance(given, ContractionAttr):
                check(plan(contraction, given, target))
            else:
                refuse(self.name, op, f"its schedule {given} is not a #schedule.contraction")
        except ScheduleDoesNotFit as error:
            refuse(self.name, op, f"{contraction}: {error}")


def choose(contraction: Contraction, target: Target) -> ContractionAttr:
    """The cheapest of the target's tiles; raises `ScheduleDoesNotFit` where none fits."""
    plans = [plan(contraction, schedule, target) for schedule in _candidates(contraction, target)]
    fitting = [each for each in plans if not any(problems_of(each))]
    if fitting:
        return min(fitting, key=_cost).schedule
    if plans:
        check(plans[-1])
    properties = sorted({f"{p.a} x {p.b} -> {p.result}" for p in target.cooperative_matrix})
    raise ScheduleDoesNotFit(
        f"CM-29: {target.name} has no cooperative matrices for it; it has {', '.join(properties)}"
    )


def _candidates(contraction: Contraction, target: Target) -> Iterator[ContractionAttr]:
    """Each of the target's tiles with each instruction that divides it."""
    for listed in target.properties_for(contraction.types):
        for candidate in target.schedules:
            schedule = _schedule(contraction, target, candidate, listed.shape)
            if schedule is not None:
                yield schedule


def _schedule(
    contraction: Contraction,
    target: Target,
    candidate: ScheduleCandidate,
    shape: tuple[int, int, int],
) -> ContractionAttr | None:
    m, n, k = shape
    (tile_m, tile_n), (rows, columns) = candidate.tile, candidate.subgroups
    if tile_m % (rows * m) or tile_n % (columns * n):
        return None
    instruction = InstructionAttr("coopmat", shape)
    plain = ContractionAttr(
        (tile_m, tile_n, k), candidate.subgroups, instruction, StagedAttr(), StagedAttr()
    )
    bare = plan(contraction, plain, target)
    if candidate.accumulator_bits not in (None, bare.result_bytes * 8):
        return None
    tile_k = max(k, candidate.k_bytes // max(bare.a.element_bytes, 1) // k * k)
    tile_k = min(tile_k, ceil_div(contraction.k, k) * k)
    return ContractionAttr(
        (tile_m, tile_n, tile_k),
        candidate.subgroups,
        instruction,
        _path(bare.a, m, k),
        _path(bare.b, n, k),
    )


def _path(tile: StagedTile, outer: int, k: int) -> StagedAttr:
    """The widest vectors that divide the operand's rows and a fragment's."""
    size = tile.element_bytes
    columns = k if tile.k_axis == 1 else outer
    widths = [v for v in (16, 8, 4, 2) if v * size in (4, 8, 16)]
    vector = next((v for v in widths if tile.extent[1] % v == 0 and columns % v == 0), 1)
    return StagedAttr(padding=STAGED_ROW_PADDING // size, vector=vector)


def _cost(made: Plan) -> int:
    tile_m, tile_n, _ = made.schedule.tile
    rows, columns = made.tiles
    rounds = ceil_div(rows * columns, made.target.compute_units)
    resident = made.target.residency.bytes_for(made.schedule.subgroup_count)
    crowded = 2 if made.workgroup_bytes > resident else 1
    return rounds * (tile_m * tile_n + LOAD_WEIGHT * (tile_m + tile_n)) * crowded
