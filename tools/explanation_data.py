"""
The data of an explanation: nodes, the paths by which they are computed, reasons, and times.

All formats (text, JSON, HTML) are made from this record, so that they cannot differ.
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
    A node of the model and how it is compiled.

    `kernel`: `dispatches` compute it. `no kernel`: it only reshapes, or its readers compute it on
    the fly. `folded`: it is computed at compile time. If the model as a whole is refused, each node
    is `supported`, or `not supported` with a `reason`, or `not tried` because the types of its
    operands are unknown.
    """

    node: str
    operator: str
    status: Status
    dispatches: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class ExplainedLayer:
    """A layer with its place in the program, its minimum time, and its measured time."""

    dispatch: int
    kernel: str
    grid: tuple[Number, ...]
    """Number of workgroups; an expression if a size is known only at run time."""
    workgroup_size: tuple[int, ...]
    once: bool
    layer: Layer
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    roofline_seconds: float | None
    limit: str
    measured_seconds: float | None = None
    function: str | None = None
    """Name of its function, if the program has several."""


@dataclass(frozen=True)
class KernelCode:
    """A kernel's machine code for a device with its resources, or the reason why there is none."""

    kernel: str
    device: str
    driver: str
    seconds: float
    resources: Resources
    error: str = ""


@dataclass(frozen=True)
class ExplanationData:
    """All data that is shown of a model on a target."""

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
    """Reasons why the model as a whole cannot be compiled, if any."""
    device: str | None = None
    """The device on which `measured_seconds` were measured."""
    state_bytes: int = 0
    """Bytes of buffers that live between runs."""
    buffers: tuple[Lifetime, ...] = field(default=(), metadata={"sparse": True})
    phases: tuple[Phase, ...] = field(default=(), metadata={"sparse": True})
    """Phases of a run with its copies, if one was measured."""
    code: tuple[KernelCode, ...] = field(default=(), metadata={"sparse": True})
    """The drivers' code of the kernels, if requested."""

    @property
    def supported(self) -> bool:
        return not self.refusals and all(n.status != "not supported" for n in self.nodes)

    @property
    def compares(self) -> bool:
        """True if there are times of a device that can be compared with the roofline."""
        there = any(entry.roofline_seconds for entry in self.layers)
        return there and (self.device or "").startswith("vulkan")

    @property
    def paths(self) -> Counter[str]:
        """Number of dispatches by path."""
        return Counter(entry.layer.path for entry in self.layers)
