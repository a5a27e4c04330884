"""
Reads a driver's statistics of a kernel's code, in terms that do not depend on the driver.

VK_KHR_pipeline_executable_properties leaves the statistics and their names to the driver. The
names here are from the drivers of NVIDIA, Mesa (RADV, ANV, NVK, Turnip) and AMD. A missing
statistic is None and is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

NAMES: dict[str, tuple[str, ...]] = {
    "registers": (
        *("register count", "vgprs", "vgpr", "numusedvgprs", "gprs", "number of gprs"),
        *("max live registers", "registers used", "grf registers"),
    ),
    "spilled": (
        *("spilled vgprs", "spilled sgprs", "spill count", "spills", "spills to memory"),
        *("spills to mem", "spill size", "stp count", "ldp count"),
    ),
    "scratch_bytes": ("local memory size", "scratch size", "scratch memory size", "slm size"),
    "workgroup_bytes": (
        *("shared memory size", "shared size", "shared memory", "lds size"),
        "workgroup memory size",
    ),
    "subgroups": ("subgroups per simd", "max warps/sm", "occupancy", "max waves per core"),
    "code_bytes": ("binary size", "code size"),
    "instructions": ("instructions", "instruction count"),
    "cycles": ("latency", "cycles", "cycle count", "static cycle count"),
}
"""For each field of `Resources`, the names of statistics that give it, in lower case."""


OF_32_BITS = 1 << 32
"""Modulus for statistics, because NVIDIA's driver 580 leaves the upper half undefined."""


@dataclass(frozen=True)
class Resources:
    """
    Resources of a kernel, None where a driver does not report them.

    The fields are: registers of an invocation, spilled values (or bytes, if a driver reports only
    bytes), bytes of Workgroup memory, concurrent subgroups, bytes of code, bytes of private
    memory, instructions, matrix instructions, and the driver's estimate of cycles. The estimate
    can compare schedules of one kernel but not different kernels.
    """

    registers: int | None = None
    spilled: int | None = None
    workgroup_bytes: int | None = None
    subgroups: int | None = None
    code_bytes: int | None = None
    scratch_bytes: int | None = None
    instructions: int | None = None
    matrix_instructions: int | None = None
    cycles: int | None = None

    def __str__(self) -> str:
        said = [
            (self.registers, f"{self.registers} registers"),
            (self.spilled, f"{self.spilled} spilled"),
            (self.scratch_bytes or None, f"{self.scratch_bytes} B of private memory"),
            (self.workgroup_bytes, f"{self.workgroup_bytes} B of Workgroup memory"),
            (self.subgroups, f"{self.subgroups} concurrent subgroups"),
            (self.code_bytes, f"{self.code_bytes} B of code"),
            (self.instructions, f"{self.instructions} instructions"),
            (self.matrix_instructions, f"{self.matrix_instructions} on matrices"),
            (self.cycles, f"{self.cycles} cycles"),
        ]
        return ", ".join(text for value, text in said if value is not None)


def resources_of(table: Mapping[str, int | float | bool]) -> Resources:
    """Reads a program's statistics. Uses the largest of several statistics with one meaning."""
    small = {name.strip().lower(): int(value) % OF_32_BITS for name, value in table.items()}
    figures = {
        name: max((small[key] for key in known if key in small), default=None)
        for name, known in NAMES.items()
    }
    if figures["spilled"] is None:
        figures["spilled"] = figures["scratch_bytes"]
    return Resources(**figures)


def heaviest(tables: Iterable[Mapping[str, int | float | bool]]) -> Resources:
    """Returns the maximum of each resource over programs, and the fewest concurrent subgroups."""
    resources = [resources_of(table) for table in tables]
    figures: dict[str, int | None] = {}
    for name in (one.name for one in fields(Resources)):
        values = [value for one in resources if (value := getattr(one, name)) is not None]
        choose = min if name == "subgroups" else max
        figures[name] = choose(values) if values else None
    return Resources(**figures)


def problem(used: Resources, least: Resources, room: int) -> str:
    """
    Returns the reason why a kernel's resources make timing it useless, "" if there is none.

    `least` are the resources of a kernel that is known to be fast. A kernel is timed if it spills
    no more, uses no more Workgroup memory, and has as many concurrent subgroups. `room` is the
    Workgroup memory in bytes that a workgroup may use so that enough workgroups share a compute
    unit.
    """
    if (used.spilled or 0) > (least.spilled or 0):
        registers = f" beside its {used.registers} registers" if used.registers else ""
        return f"spills {used.spilled}{registers}"
    held = used.workgroup_bytes or 0
    if held > max(room, least.workgroup_bytes or 0):
        return (
            f"uses {held} bytes of Workgroup memory, but a second workgroup fits only up to {room}"
        )
    if used.subgroups is not None and least.subgroups is not None:
        if 2 * used.subgroups < least.subgroups:
            return f"permits {used.subgroups} concurrent subgroups, fewer than {least.subgroups}"
    return ""


MATRIX = re.compile(r"\bv_s?wmmac?_|\bdpas|\b[HIDB]MMA\b|\b[hidb]mma\b")
"""Pattern of cooperative-matrix instructions in the machine code of AMD, Intel and NVIDIA."""


@dataclass(frozen=True)
class Code:
    """
    A kernel compiled by a driver: the compile time in seconds, statistics of each program, and its
    texts (machine code last), or the reason why there is no code.
    """

    kernel: str
    seconds: float
    tables: tuple[Mapping[str, int | float | bool], ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    error: str = ""

    @property
    def resources(self) -> Resources:
        return replace(heaviest(self.tables), matrix_instructions=self.matrix_instructions)

    @property
    def assembly(self) -> str:
        """The machine code as text, "" if the driver does not provide it."""
        shown = [text for name, text in self.texts.items() if "assembly" in name.lower()]
        return shown[-1] if shown else ""

    @property
    def matrix_instructions(self) -> int | None:
        """Number of matrix instructions, None if the driver does not provide machine code."""
        text = self.assembly
        return sum(1 for line in text.splitlines() if MATRIX.search(line)) if text else None
