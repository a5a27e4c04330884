"""
Families of generated kernels. Each family is a function that fills an empty `Kernel`.

Consecutive seeds use the families in turn, so that any range of seeds covers all families. All
other choices are random.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl_spirv.testing.differential.families import (
    bfloat16,
    control,
    cooperative,
    dot,
    group,
    memory,
    operations,
    programs,
)
from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.machine import LAVAPIPE, ROTATE, Machine

FAMILIES: dict[str, Callable[[Kernel], None]] = {
    "operations": operations.operations,
    "programs": programs.programs,
    "dot": dot.dot_products,
    "group": group.group_operations,
    "rotate": group.rotations,
    "divergent": group.in_branches,
    "control": control.control_flow,
    "memory": memory.layouts,
    "shared": memory.workgroup_memory,
    "atomic": memory.atomics,
    "constants": memory.constants,
    "matrices": operations.matrices,
    "cooperative": cooperative.components,
    "muladd": cooperative.multiply_add,
    "bfloat16": bfloat16.bfloat16,
}

ORDER = [
    "operations", "programs", "operations", "dot", "group", "operations", "programs", "rotate",
    "muladd", "operations", "memory", "control", "operations", "programs", "shared", "cooperative",
    "operations", "divergent", "atomic", "constants", "operations", "matrices", "programs", "dot",
]  # fmt: skip
"""
Names of families. Seed n uses entry n modulo the length. A name that is listed several times is
used more often.
"""


ATTEMPTS = 1_000
"""Maximum number of times that a kernel is drawn again because its machine lacks a feature."""

BFLOAT16_ORDER = [*ORDER, "bfloat16", "muladd", "bfloat16", "cooperative"]
"""Names of families, as in `ORDER`, for machines with bfloat16."""


def generate(seed: int, family: str | None = None, machine: Machine = LAVAPIPE) -> Kernel:
    """Returns the kernel of a seed. If `family` is None, the seed determines the family."""
    order = [name for name in (BFLOAT16_ORDER if machine.bfloat16 else ORDER) if has(machine, name)]
    chosen = family or order[seed % len(order)]
    for attempt in range(ATTEMPTS):
        kernel = Kernel(chosen, seed, machine, attempt=attempt)
        FAMILIES[chosen](kernel)
        if not machine.lacks(kernel.text()):
            return kernel
    raise ValueError(
        f"{machine.name} lacks features that every kernel of the family {chosen} needs"
    )


def has(machine: Machine, family: str) -> bool:
    """True if a machine has the features that all kernels of a family need."""
    if family in ("cooperative", "muladd"):
        return bool(machine.matrices)
    return family != "rotate" or ROTATE not in machine.lacking
