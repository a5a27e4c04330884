"""
Data of an explanation: nodes, lowering paths with reasons, and times.

All formats (text, JSON, HTML) are made from these records, so that the formats agree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from xdsl_spirv.runtime.expressions import Number
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.runtime.vulkan.statistics import Resources
from xdsl_spirv.tools.lifetimes import Lifetime

Status = Literal["kernel", "no kernel", "folded", "supported", "not supported", "not tried"]


@dataclass(frozen=True)
class Covered:
    """
    A node of the model and how the node is compiled, its `status`.

    - `kernel`: `dispatches` compute the node.
    - `no kernel`: the node only reshapes, or kernels that read its result compute it.
    - `folded`: the compiler computes the result.

    If the model as a whole is refused, the status is `supported`, `not supported` (with a
    `reason`), or `not tried` because the types of operands are unknown.
    """

    node: str
    operator: str
    status: Status
    dispatches: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class ExplainedLayer:
    """A dispatch with its layer's description, its roofline time, and its measured time."""

    dispatch: int
    kernel: str
    grid: tuple[Number, ...]
    """Number of workgroups along each axis; an expression if a size is known only at run time."""
    workgroup_size: tuple[int, ...]
    once: bool
    layer: Layer
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    roofline_seconds: float | None
    limit: str
    measured_seconds: float | None = None
    function: str | None = None
    """Name of the layer's function, if the program has several functions."""


@dataclass(frozen=True)
class KernelCode:
    """The resources used by a kernel's machine code on a device, or the driver's error."""

    kernel: str
    device: str
    driver: str
    seconds: float
    resources: Resources
    error: str = ""


@dataclass(frozen=True)
class ExplanationData:
    """All data of an explanation of a model on a target."""

    schema: str
    version: int
    model: str
    target: str
    provenance: str
    nodes: tuple[Covered, ...]
    layers: tuple[ExplainedLayer, ...]
    kernels: int
    binary_bytes: int
    weight_bytes: int
    memory_bytes: int
    temporary_bytes: int
    refusals: tuple[str, ...] = ()
    """Reasons why the model as a whole cannot be compiled."""
    device: str | None = None
    """Device on which the times were measured."""
    state_bytes: int = 0
    """Size of the buffers that persist between runs, in bytes."""
    buffers: tuple[Lifetime, ...] = field(default=(), metadata={"sparse": True})
    phases: tuple[Phase, ...] = field(default=(), metadata={"sparse": True})
    """Phases of a measured run with its copies; empty if no run was measured."""
    code: tuple[KernelCode, ...] = field(default=(), metadata={"sparse": True})
    """Machine code of the kernels by driver, if requested."""

    @property
    def supported(self) -> bool:
        return not self.refusals and all(n.status != "not supported" for n in self.nodes)

    @property
    def compares(self) -> bool:
        """True if measured times of a device can be compared with the roofline."""
        there = any(entry.roofline_seconds for entry in self.layers)
        return there and (self.device or "").startswith("vulkan")

    @property
    def paths(self) -> Counter[str]:
        """Returns the number of dispatches of each lowering path."""
        return Counter(entry.layer.path for entry in self.layers)
