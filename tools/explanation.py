"""
What a program will do, before anybody runs it: which nodes, by which paths, why, and for how long.

One record for all ways of showing it (text, JSON, HTML), so that they cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from xdsl_spirv.frontends.model import Node
from xdsl_spirv.runtime.expressions import Number
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import Target
from xdsl_spirv.tools.lifetimes import Lifetime, lifetimes_of
from xdsl_spirv.tools.roofline import roofline

if TYPE_CHECKING:
    from xdsl_spirv.tools.comparison import Comparison

SCHEMA = "xdsl-spirv-explanation"
VERSION = 1

Status = Literal["kernel", "no kernel", "folded", "supported", "not supported", "not tried"]


@dataclass(frozen=True)
class Covered:
    """
    A node of the model and what becomes of it.

    `kernel`: `dispatches` compute it. `no kernel`: it only reshapes, or its result is read through
    by others. `folded`: it is computed at compile time. Where the model as a whole is refused, each
    node is `supported`, or `not supported` and `reason` says why, or `not tried`, because the types
    of its operands are unknown.
    """

    node: str
    operator: str
    status: Status
    dispatches: tuple[int, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class ExplainedLayer:
    """A layer with its place in the program, its least time and what it took."""

    dispatch: int
    kernel: str
    grid: tuple[Number, ...]
    """Workgroups; where a size is known only at run time, what it is computed from."""
    workgroup_size: tuple[int, ...]
    once: bool
    layer: Layer
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    roofline_seconds: float | None
    limit: str
    measured_seconds: float | None = None
    function: str | None = None
    """Which function it is of, in a program of several."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """Everything that is shown of a model on a target."""

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
    """What hinders the model as a whole, if anything does."""
    device: str | None = None
    """Where `measured_seconds` were measured."""
    state_bytes: int = 0
    """Of what lives between runs."""
    buffers: tuple[Lifetime, ...] = field(default=(), metadata={"sparse": True})
    phases: tuple[Phase, ...] = field(default=(), metadata={"sparse": True})
    """A run with its copies, where one was measured."""

    def __repr__(self) -> str:
        """The table, as `print` shows it."""
        from xdsl_spirv.tools.explain_text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        """The page, in a frame of its own: notebooks have styles that it should not meet."""
        from xdsl_spirv.tools.explain_html import page_of
        from xdsl_spirv.tools.page import frame

        return frame(page_of(self), 700 + 26 * len(self.layers))

    def against(self, other: Explanation) -> Comparison:
        """Both explanations side by side, layer by layer."""
        from xdsl_spirv.tools.comparison import comparison_of

        return comparison_of(self, other)

    @property
    def supported(self) -> bool:
        return not self.refusals and all(n.status != "not supported" for n in self.nodes)

    @property
    def compares(self) -> bool:
        """Whether there are times of a device that the roofline says something of."""
        there = any(entry.roofline_seconds for entry in self.layers)
        return there and (self.device or "").startswith("vulkan")

    @property
    def paths(self) -> Counter[str]:
        """Dispatches by path."""
        return Counter(entry.layer.path for entry in self.layers)


def explanation_of(
    program: Program,
    model: str,
    target: Target,
    original: Sequence[Node] = (),
    imported: Sequence[Node] = (),
    measured: Sequence[float] | None = None,
    device: str | None = None,
) -> Explanation:
    """
    Explain a compiled program.

    `original` are the nodes of the model's file, `imported` those that reached the lowering;
    `measured` are the seconds of each dispatch on `device`.
    """
    manifest = program.manifest
    workgroups = {
        (k.name, e.name): e.workgroup_size for k in manifest.kernels for e in k.entry_points
    }
    functions = (manifest, *manifest.functions)
    dispatches = [(f.function, dispatch) for f in functions for dispatch in f.dispatches]
    buffers = [buffer for f in functions for buffer in f.buffers]
    layers: list[ExplainedLayer] = []
    for number, ((function, dispatch), layer) in enumerate(
        zip(dispatches, program.layers, strict=True)
    ):
        line = roofline(layer, target)
        given = [binding.buffer for binding in dispatch.bindings]
        split = len(given) - layer.results
        layers.append(
            ExplainedLayer(
                number,
                dispatch.entry_point,
                dispatch.grid,
                workgroups[dispatch.kernel, dispatch.entry_point],
                dispatch.once,
                layer,
                tuple(given[:split]),
                tuple(given[split:]),
                line.seconds,
                line.limit,
                None if measured is None else measured[number],
                function if manifest.functions else None,
            )
        )
    temporaries = [b for b in buffers if b.kind == "temporary" and b.offset is not None]
    states = {b.name: b.bytes for b in buffers if b.kind == "state"}
    return Explanation(
        SCHEMA,
        VERSION,
        model,
        target.name,
        f"{target.provenance['kind']}, {target.provenance['date']}",
        coverage(original, imported, program.layers),
        tuple(layers),
        len(workgroups),
        sum(len(code.binary) for code in program.code.values()),
        sum(array.nbytes for array in program.weights.values()),
        max(function.memory or 0 for function in functions),
        sum(b.bytes for b in temporaries),
        device=device,
        state_bytes=sum(states.values()),
        buffers=lifetimes_of(manifest),
    )


def coverage(
    original: Sequence[Node], imported: Sequence[Node], layers: Sequence[Layer]
) -> tuple[Covered, ...]:
    """What became of each node of a model that was compiled; those not `imported` were folded."""
    computed: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        for name in layer.nodes:
            computed.setdefault(name, []).append(number)
    kept = {node.name for node in imported}
    covered: list[Covered] = []
    for node in original:
        dispatches = tuple(computed.get(node.name, ()))
        without: Status = "no kernel" if node.name in kept else "folded"
        status: Status = "kernel" if dispatches else without
        covered.append(Covered(node.name, node.op_type, status, dispatches))
    return tuple(covered)


def refused(
    model: str,
    target: Target,
    original: Sequence[Node],
    reasons: Mapping[str, str],
    refusals: Sequence[str],
    tried: frozenset[str] | None = None,
) -> Explanation:
    """The explanation of a model that cannot be compiled: `reasons` by the node's name."""
    nodes: list[Covered] = []
    for node in original:
        status: Status = "supported"
        if node.name in reasons:
            status = "not supported"
        elif tried is not None and node.name not in tried:
            status = "not tried"
        nodes.append(Covered(node.name, node.op_type, status, reason=reasons.get(node.name)))
    provenance = f"{target.provenance['kind']}, {target.provenance['date']}"
    return Explanation(
        SCHEMA,
        VERSION,
        model,
        target.name,
        provenance,
        tuple(nodes),
        (),
        0,
        0,
        0,
        0,
        0,
        tuple(refusals),
    )
