"""
Estimates the times of candidates without a device, from a driver's machine code.

The driver reports the cycles of a subgroup, and counts a loop's body a fixed number of times. The
estimate uses the loop's trip count instead. N concurrent subgroups of a compute unit hide latency,
and are estimated to be sqrt(N) times as fast as a single subgroup. `benchmarks/static_ranking.py`
compares estimates with measured times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod, sqrt

from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.compilers import Compiler, work_of
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.tools.tuning.bench import Replay
from xdsl_spirv.tools.tuning.candidates import Source, compiled
from xdsl_spirv.tools.tuning.kinds import PACKING, pricing_of
from xdsl_spirv.tools.tuning.results import PRUNED, Known, Outcome

WEIGHTS = {"latency": 8, "cycles": 10, "static cycle count": 10}
"""Maps the cycle statistic of each driver (RADV, ANV, NVK) to the assumed trip count of loops."""
LABEL = re.compile(r"^(?:block\S* \d+ )?(\w+)(?::| \[)")
"""Matches a label in machine code."""
BACK = re.compile(r"\s*BRANCH\S* .*offset:(-\d+)$")
"""Matches a backward branch by an instruction offset, which PanVK prints instead of a label."""
CLOCK = 1000.0
"""Cycles per estimated microsecond, at a clock of 1 GHz."""


def loop_share(assembly: str) -> float:
    """Returns the fraction of the machine code's lines that are inside loops."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    looped: set[int] = set()
    instructions: list[int] = []
    for number, line in enumerate(lines):
        if line.strip():
            instructions.append(number)
        if label := LABEL.match(line):
            labels[label[1]] = number
        elif back := BACK.match(line):
            looped.update(range(instructions[max(int(back[1]), -len(instructions))], number + 1))
        else:
            for name in re.findall(r"\w+", line.split("//")[0]):
                looped.update(range(labels.get(name, number + 1), number + 1))
    return len(looped) / max(1, len(lines))


def cycles_of(code: Code, trips: int) -> float:
    """Scales the driver's cycles (or else instructions) to `trips` iterations of the loops."""
    share = loop_share(code.assembly)
    names = {name.strip().lower() for table in code.tables for name in table}
    weight = next((n for name, n in WEIGHTS.items() if name in names), 1)
    cycles = code.resources.cycles or code.resources.instructions or 0
    return cycles * (1 - share + share * trips) / (1 - share + share * weight)


def estimate(source: Source, schedule: str, program: Program, codes: Sequence[Code]) -> float:
    """
    Estimates a schedule's microseconds at 1 GHz, including packing of non-constant operands.

    `codes` are the kernels of `program` as the driver compiled them.
    """
    target = pricing_of(source).target
    planned = Plan(pricing_of(source).contraction, parse_schedule(schedule), target)
    depth = planned.schedule.tile[2] * planned.pipeline.unroll
    by_name = {code.kernel: code for code in codes}
    total = 0.0
    for dispatch in program.manifest.dispatches:
        if dispatch.once:
            continue
        code, groups = by_name[dispatch.entry_point], prod(dispatch.workgroups)
        own = not dispatch.entry_point.startswith(PACKING)
        trips = ceil(typical(planned.contraction.k) / depth) if own else 1
        subgroups = groups * (planned.schedule.subgroup_count if own else 1)
        side = code.resources.subgroups or 1
        rounds = max(1.0, subgroups / (target.compute_units * sqrt(side)))
        total += cycles_of(code, trips) * rounds
    return total / CLOCK


@dataclass
class StaticBench(Replay):
    """Estimates times from machine code instead of measuring."""

    compiler: Compiler = field(kw_only=True)
    found: dict[tuple[str, str], Outcome] = field(default_factory=dict[tuple[str, str], Outcome])
    defaults: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """Outcome of each contraction's default schedule."""

    @staticmethod
    def on(compiler: Compiler) -> StaticBench:
        driver = compiler.driver
        named = f"{driver.title} of Mesa {driver.mesa}"
        return StaticBench(Known(), driver.device, named, compiler=compiler)

    def _outcome(self, source: Source, schedule: str, turn: int) -> Outcome:
        place = source.key, schedule
        if place not in self.found:
            with self.lock:
                self.found[place] = self._estimate(source, schedule)
            self.defaults.setdefault(source.key, self.found[place])
        found, default = self.found[place], self.defaults[source.key]
        return replace(found, reference=default.microseconds if found.right else 0.0)

    def _estimate(self, source: Source, schedule: str) -> Outcome:
        outcome = Outcome(
            *(source.key, schedule, self.device, self.driver, "refused"), estimated=True
        )
        program = compiled(source, schedule)
        if isinstance(program, ProgramError):
            return replace(outcome, cause=program.cause)
        codes = self.compiler.compile(work_of(program))
        if wrong := next((code.error for code in codes if code.error), ""):
            return replace(outcome, status="failed", cause=wrong)
        tables = [dict(table) for code in codes for table in code.tables]
        if spilled := max((code.resources.spilled or 0 for code in codes), default=0):
            return replace(outcome, status=PRUNED, cause=f"spills {spilled}", statistics=tables)
        took = estimate(source, schedule, program, codes)
        return replace(outcome, status="ok", microseconds=took, runs=1, statistics=tables)
