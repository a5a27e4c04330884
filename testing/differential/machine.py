"""
Describes the device for which kernels are generated: workgroups, subgroups, types, matrix shapes.

The lavapipe machine is fixed, because a seed must always give the same kernel. Other machines are
read from target files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl_spirv.targets import CooperativeMatrixProperty, load

Shape = tuple[int, int]
"""Numbers of rows and columns."""
KIND = {"s": "i", "u": "i"}
FEATURES = {"i8": "int8", "i16": "int16", "i64": "int64", "f16": "float16", "f64": "float64"}
"""Maps an optional type to the feature that declares it in a target file."""
CLUSTERED, ROTATE = "ClusteredReduce", "GroupNonUniformRotateKHR"
WORD = re.compile(rf"(?:(?<![A-Za-wyz_])|(?<=[su]))[if]\d+\b|{CLUSTERED}|{ROTATE}")


@dataclass(frozen=True)
class Machine:
    """A device. Kernels are launched on it in `groups` workgroups of `local` invocations."""

    name: str
    subgroup: int
    local: tuple[int, int, int]
    groups: tuple[int, int, int]
    matrices: tuple[CooperativeMatrixProperty, ...]
    bfloat16: bool
    bfloat16_dot: bool
    """True if the device supports OpDot on bfloat16."""
    padding: tuple[int, ...]
    """Possible numbers of padding elements after a matrix's line."""
    lacking: frozenset[str] = frozenset()
    """Scalar types and operation names that kernels must not contain."""

    @property
    def invocations(self) -> int:
        return self.local[0] * self.groups[0]

    @property
    def settled(self) -> bool:
        """True if a seed must always give the same kernel for this machine."""
        return self.name == "lavapipe"

    def lacks(self, text: str) -> bool:
        """True if a kernel's text needs a feature that the machine lacks."""
        return not self.lacking.isdisjoint(WORD.findall(text))

    def shapes(self, use: str) -> dict[str, list[Shape]]:
        """Returns the listed matrix shapes for a use (A, B or Acc), by component type."""
        by_component: dict[str, list[Shape]] = {}
        for p in self.matrices:
            shape = {"A": (p.m, p.k), "B": (p.k, p.n), "Acc": (p.m, p.n)}[use]
            for name in {"A": (p.a,), "B": (p.b,), "Acc": (p.c, p.result)}[use]:
                shapes = by_component.setdefault(component(name), [])
                if shape not in shapes:
                    shapes.append(shape)
        return by_component


def component(name: str) -> str:
    """
    Converts an element type of a target file to the dialect's type, where integers are signless.
    """
    return KIND.get(name[0], name[0]) + name[1:]


def machine(target: str = "lavapipe") -> Machine:
    """Returns the machine that a target file describes. Raises `TargetError`."""
    device = load(target)
    lacking = {scalar for scalar, name in FEATURES.items() if name not in device.features}
    if "subgroup-rotate-clustered" not in device.features:
        lacking.add(CLUSTERED)
    if "subgroup-rotate" not in device.features:
        lacking.add(ROTATE)
    lavapipe, size = device.name == "lavapipe", device.subgroup_size
    return Machine(
        device.name,
        size,
        (32 if lavapipe else 2 * size, 1, 1),
        (2, 1, 1),
        tuple(p for p in device.cooperative_matrix if p.scope == "Subgroup"),
        "bfloat16-type" in device.features,
        "bfloat16-dot-product" in device.features,
        # lavapipe accepts any padding. Elsewhere lines are aligned to 16 bytes (ALIGN-03).
        (0, 0, 4, 8, 24) if lavapipe else (0, 0, 16, 32),
        frozenset(lacking),
    )


LAVAPIPE = machine()
