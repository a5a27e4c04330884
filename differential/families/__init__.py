"""
What is generated: families of kernels, each a function that fills an empty `Kernel`.

A seed chooses the family in turn and everything else at random, so any range of seeds has them all.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl_spirv.differential.families import (
    bfloat16,
    control,
    cooperative,
    dot,
    group,
    memory,
    operations,
    programs,
)
from xdsl_spirv.differential.kernel import Kernel

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
"""Families by seed: those with the most to try more often."""


def generate(seed: int, family: str | None = None) -> Kernel:
    """The kernel of a seed, of a family if one is named."""
    kernel = Kernel(family or ORDER[seed % len(ORDER)], seed)
    FAMILIES[kernel.family](kernel)
    return kernel
