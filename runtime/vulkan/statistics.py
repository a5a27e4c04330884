"""
Statistics of a kernel's code from a driver, in terms that do not depend on the driver.

VK_KHR_pipeline_executable_properties leaves the statistics and their names to the driver. The names
here are used by NVIDIA's driver, Mesa's (RADV, ANV, NVK, Turnip) and AMD's; a missing statistic is
None, which says neither good nor bad of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

NAMES: dict[str, tuple[str, ...]] = {
    "registers": ("register count", "vgprs", "vgpr", "numusedvgprs", "gprs", "max live registers"),
    "spilled": (
        *("local memory size", "scratch size", "scratch memory size", "spilled vgprs"),
        *("spilled sgprs", "spill count", "spills to memory", "spills to mem", "spill size"),
    ),
    "workgroup_bytes": ("shared memory size", "shared size", "shared memory", "lds size"),
    "subgroups": ("subgroups per simd", "max warps/sm", "occupancy"),
    "code_bytes": ("binary size", "code size"),
}
"""A field of `Resources` -> the statistics that may give it, in lower case."""


OF_32_BITS = 1 << 32
"""NVIDIA's driver 580 leaves the upper half of a local memory's size undefined (16 * 2^32 + 32)."""


@dataclass(frozen=True)
class Resources:
    """
    Registers of an invocation, spills (bytes or registers, as the driver counts; 0 is none), bytes
    of Workgroup memory, subgroups that run side by side, bytes of code.
    """

    registers: int | None = None
    spilled: int | None = None
    workgroup_bytes: int | None = None
    subgroups: int | None = None
    code_bytes: int | None = None

    def __str__(self) -> str:
        said = [
            (self.registers, f"{self.registers} registers"),
            (self.spilled, f"{self.spilled} spilled"),
            (self.workgroup_bytes, f"{self.workgroup_bytes} B of Workgroup memory"),
            (self.subgroups, f"{self.subgroups} subgroups side by side"),
            (self.code_bytes, f"{self.code_bytes} B of code"),
        ]
        return ", ".join(text for value, text in said if value is not None)


def resources_of(table: Mapping[str, int | float | bool]) -> Resources:
    """A program's statistics; of several that mean the same the largest counts."""
    small = {name.strip().lower(): int(value) % OF_32_BITS for name, value in table.items()}
    figures = {
        name: max((small[key] for key in known if key in small), default=None)
        for name, known in NAMES.items()
    }
    return Resources(**figures)


def heaviest(tables: Iterable[Mapping[str, int | float | bool]]) -> Resources:
    """The most that any of several programs takes, and the fewest subgroups side by side."""
    resources = [resources_of(table) for table in tables]
    figures: dict[str, int | None] = {}
    for name in (field.name for field in fields(Resources)):
        values = [value for one in resources if (value := getattr(one, name)) is not None]
        choose = min if name == "subgroups" else max
        figures[name] = choose(values) if values else None
    return Resources(**figures)


def problem(used: Resources, least: Resources, room: int) -> str:
    """
    The reason why a kernel is not worth timing, by its resources; empty if there is none.

    `least` is what a kernel that is known to do well takes: what spills no more than that, holds no
    more Workgroup memory and leaves as much room for others is timed. `room` is how many bytes of
    Workgroup memory a workgroup may hold so that enough of them share a compute unit.
    """
    if (used.spilled or 0) > (least.spilled or 0):
        registers = f" beside its {used.registers} registers" if used.registers else ""
        return f"spills {used.spilled}{registers}"
    held = used.workgroup_bytes or 0
    if held > max(room, least.workgroup_bytes or 0):
        return f"holds {held} bytes of Workgroup memory, and {room} leave room for another"
    if used.subgroups is not None and least.subgroups is not None:
        if 2 * used.subgroups < least.subgroups:
            return f"leaves room for {used.subgroups} subgroups, not {least.subgroups}"
    return ""
