"""The options of a run: subgroup size, memory, and the choices that SPIR-V leaves open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from xdsl_spirv import targets
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.interpreter.errors import InterpreterError

Rounding: TypeAlias = Literal["nearest-even", "toward-zero"]
"""Rounding of binary32 to bfloat16 (BF-07)."""

Mapping: TypeAlias = str
"""
Map from invocations to components of a cooperative matrix (CM-18).

`row-major` and `column-major` deal the components out to the lanes in turn, in that order; `opaque`
deals them out in a fixed pseudo-random order, which no sensible program can depend on. `lavapipe`
and `nvidia` are what those drivers were measured to do (component_maps.py). Any other is a target
whose file has a `component_map`.
"""

RULES: tuple[Mapping, ...] = ("row-major", "column-major", "opaque", "lavapipe", "nvidia")
"""The mappings that are written in code."""


def mappings() -> tuple[Mapping, ...]:
    """Returns the names of all mappings: the ones in code, then targets'."""
    known = (name for name in targets.names() if targets.load(name).component_map)
    return *RULES, *(name for name in known if name not in RULES)


def mapping_of(target: str) -> Mapping:
    """Returns the mapping of a target whose file describes one; otherwise `row-major`."""
    return target if _has_map(target) else "row-major"


Accumulation: TypeAlias = Literal["binary32", "halves", "exact", "magnitudes"]
"""
Order of the additions in a floating-point cooperative MulAdd (CM-25).

`binary32`: products in numpy's order, then C, rounded once; `halves`: C, then the products' first
half, then the second, each sum rounded to the accumulators' type; `exact`: in binary64, rounded
once. `magnitudes` is |A| |B| + |C|, from which intervals are derived, and is not a result.
"""


def _has_map(name_or_path: str) -> bool:
    try:
        return bool(targets.load(name_or_path).component_map)
    except targets.TargetError:
        return False


@dataclass(frozen=True)
class MemoryBudget:
    """
    Limit of the bytes for values and Workgroup memory of the workgroups that run together.

    Workgroups run in chunks as large as the limit allows, at least one workgroup each. Small chunks
    also keep the values in the processor's caches: the default is a compromise measured on tiled
    matrix multiplications.
    """

    bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.bytes <= 0:
            raise InterpreterError(
                f"a memory budget of {self.bytes} bytes is not positive",
                "MemoryBudget",
                "give the number of bytes that the values of all workgroups in flight may take",
            )


@dataclass(frozen=True)
class Schedule:
    """An order of workgroups and of parts of them; equal seeds give equal orders."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InterpreterError(
                f"a schedule's seed is {self.seed}", "Schedule.seed", "give a number of at least 0"
            )


class Debugger(Protocol):
    """The protocol of debuggers, which see instructions while they run (debug.py)."""

    def attach(self, op: Operation, step: Any, compiler: Any) -> Any:
        """Returns the step of an operation, with the debugger's own step before or after it."""
        ...

    def attach_end(self, op: Operation, terminate: Any, compiler: Any) -> Any:
        """Returns the end of a block, with the debugger's own step before it."""
        ...

    def check_reached(self) -> None:
        """Raises `InterpreterError` for breakpoints that match no instruction."""
        ...


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclass(frozen=True)
class Options:
    """
    The subgroup size, limits, checks, and the choices that the specifications leave open.

    `subgroup_size` is 1 to 128, a power of two; `bfloat16_rounding` is BF-07's, `component_mapping`
    CM-18's, `accumulation` CM-25's; `memory` limits the workgroups that run together, `max_steps`
    the blocks that a launch executes, and `seconds` its time: a launch whose first workgroups show
    that it would take longer is refused. `checks` selects checks (docs/checks.md); there are none
    by default. `debug` has breakpoints and a trace (debug.py). `schedule` runs workgroups and parts
    of them in another order than lockstep (schedule.py), without checks and debugger. With
    `robust`, accesses outside of buffers follow robustBufferAccess2. `print` is called with the
    text that a DebugPrintf prints in one invocation.
    """

    subgroup_size: int = 32
    bfloat16_rounding: Rounding = "nearest-even"
    component_mapping: Mapping = "row-major"
    accumulation: Accumulation = "binary32"
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    max_steps: int | None = None
    seconds: float = 3600.0
    checks: Checks | None = None
    debug: Debugger | None = None
    schedule: Schedule | None = None
    robust: bool = False
    print: Callable[[str], None] = _print

    def __post_init__(self) -> None:
        size = self.subgroup_size
        if not 1 <= size <= 128 or size & (size - 1):
            raise InterpreterError(
                f"the subgroup size {size} is not valid",
                "Options.subgroup_size",
                "use a power of two from 1 to 128",
            )
        if self.component_mapping not in RULES and not _has_map(self.component_mapping):
            raise InterpreterError(
                f"there is no component mapping {self.component_mapping!r}",
                "Options.component_mapping",
                f"choose one of {', '.join(mappings())}, or a target file with a component_map",
            )
        if self.schedule is not None and (self.checks is not None or self.debug is not None):
            raise InterpreterError(
                "a schedule runs without checks and without breakpoints or a trace",
                "Options.schedule",
                "leave out one of them; the check `permute` runs several schedules by itself",
            )


MADE_FOR = "schedule.target"
"""The attribute of a module that names the target for which it was compiled."""


def options_for(module: Operation | None, size: int | None = None, **choices: Any) -> Options:
    """
    Returns the options for a module, with the given `choices`.

    The target that the module, or a module around it, names decides the mapping of components and,
    unless it is given, the subgroup size.
    """
    while module is not None and MADE_FOR not in module.attributes:
        module = module.parent_op()
    named = None if module is None else module.attributes[MADE_FOR]
    if isinstance(named, StringAttr):
        choices = {"component_mapping": mapping_of(named.data)} | choices
        size = targets.load(named.data).subgroup_size if size is None else size
    return Options(subgroup_size=32 if size is None else size, **choices)
