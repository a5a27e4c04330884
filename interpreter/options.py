"""Defines the options of a run: subgroup size, limits, and choices that SPIR-V leaves open."""

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
Name of a map from invocations to components of a cooperative matrix (CM-18).

`row-major` and `column-major` distribute the components over the lanes in turn, in that order.
`opaque` uses a fixed pseudo-random order, so that programs that rely on an order fail. `lavapipe`
and `nvidia` were measured on those drivers (component_maps.py). Any other name is a target whose
file has a `component_map`.
"""

RULES: tuple[Mapping, ...] = ("row-major", "column-major", "opaque", "lavapipe", "nvidia")
"""The mappings that are implemented in code."""


def mappings() -> tuple[Mapping, ...]:
    """
    Returns the names of all mappings: first the ones that are implemented in code, then the
    targets'.
    """
    known = (name for name in targets.names() if targets.load(name).component_map)
    return *RULES, *(name for name in known if name not in RULES)


def mapping_of(target: str) -> Mapping:
    """Returns the mapping that a target's file describes, or `row-major` if it describes none."""
    return target if _has_map(target) else "row-major"


Accumulation: TypeAlias = Literal["binary32", "halves", "exact", "magnitudes"]
"""
Order of the additions in a floating-point cooperative MulAdd (CM-25).

- `binary32`: products in numpy's order, then C, rounded once.
- `halves`: C, then the products' first half, then the second half. Each sum is rounded to the
  accumulator's type.
- `exact`: in binary64, rounded once.
- `magnitudes`: |A| |B| + |C| instead of the result. Error bounds are derived from it.
"""


def _has_map(name_or_path: str) -> bool:
    try:
        return bool(targets.load(name_or_path).component_map)
    except targets.TargetError:
        return False


@dataclass(frozen=True)
class MemoryBudget:
    """
    Limit, in bytes, for the values and Workgroup memory of workgroups that run together.

    Workgroups run in chunks that are as large as the limit allows, with at least one workgroup. A
    small limit lets a chunk fit the processor's caches. The default was measured on tiled matrix
    multiplications.
    """

    bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.bytes <= 0:
            raise InterpreterError(
                f"a memory budget of {self.bytes} bytes is not positive",
                "MemoryBudget",
                "give the maximum bytes for the values of all workgroups that run together",
            )


@dataclass(frozen=True)
class Schedule:
    """A pseudo-random order of workgroups and of their invocations, determined by `seed`."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InterpreterError(
                f"a schedule's seed must not be negative, but is {self.seed}",
                "Schedule.seed",
                "give a number of at least 0",
            )


class Debugger(Protocol):
    """Interface of debuggers, which observe instructions while they run (debug.py)."""

    def attach(self, op: Operation, step: Any, compiler: Any) -> Any:
        """Returns the step of an operation, extended by the debugger's actions."""
        ...

    def attach_end(self, op: Operation, terminate: Any, compiler: Any) -> Any:
        """Returns the terminator of a block, extended by the debugger's actions."""
        ...

    def check_reached(self) -> None:
        """Raises `InterpreterError` if a breakpoint matches no instruction."""
        ...


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclass(frozen=True)
class Options:
    """
    The subgroup size, limits, checks, and the choices that the specifications leave open.

    - `subgroup_size`: a power of two from 1 to 128.
    - `bfloat16_rounding` (BF-07), `component_mapping` (CM-18), `accumulation` (CM-25).
    - `memory`: limits the workgroups that run together.
    - `max_steps`: limits the blocks that a launch executes.
    - `seconds`: limits the time. A launch is refused if its first workgroups show that it would
      take longer.
    - `checks`: enabled checks (docs/checks.md), none by default.
    - `debug`: breakpoints and a trace (debug.py).
    - `schedule`: runs workgroups and their parts in another order than lockstep (schedule.py).
      Excludes checks and debugger.
    - `robust`: accesses outside of buffers follow robustBufferAccess2.
    - `print`: called with the text that a DebugPrintf prints in one invocation.
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
                "the option schedule excludes the options checks and debug",
                "Options.schedule",
                "leave out schedule, or the others; the check `permute` runs several schedules",
            )


MADE_FOR = "schedule.target"
"""Name of the module attribute that states the target for which the module was compiled."""


def options_for(module: Operation | None, size: int | None = None, **choices: Any) -> Options:
    """
    Returns the options for a module, with the given `choices`.

    The module, or a module around it, may name its target. The target determines the component
    mapping and, if `size` is None, the subgroup size.
    """
    while module is not None and MADE_FOR not in module.attributes:
        module = module.parent_op()
    named = None if module is None else module.attributes[MADE_FOR]
    if isinstance(named, StringAttr):
        choices = {"component_mapping": mapping_of(named.data)} | choices
        size = targets.load(named.data).subgroup_size if size is None else size
    return Options(subgroup_size=32 if size is None else size, **choices)
