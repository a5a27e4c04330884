"""Makes explanations of compiled programs and of refused models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl_spirv.frontends.model import Node
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import Target
from xdsl_spirv.tools.explanation_data import Covered, ExplainedLayer, ExplanationData, Status
from xdsl_spirv.tools.lifetimes import lifetimes_of
from xdsl_spirv.tools.roofline import roofline

if TYPE_CHECKING:
    from xdsl_spirv.tools.comparison import Comparison

SCHEMA = "xdsl-spirv-explanation"
VERSION = 1


@dataclass(frozen=True, repr=False)
class Explanation(ExplanationData):
    """An explanation of a model on a target, with text (`print`) and HTML (notebooks) forms."""

    def __repr__(self) -> str:
        """Returns the explanation as a text table."""
        from xdsl_spirv.tools.explain_text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from xdsl_spirv.tools.explain_html import page_of
        from xdsl_spirv.tools.page import frame

        return frame(page_of(self), 700 + 26 * len(self.layers))

    def against(self, other: Explanation) -> Comparison:
        """Compares two explanations layer by layer."""
        from xdsl_spirv.tools.comparison import comparison_of

        return comparison_of(self, other)


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
    Explains a compiled program.

    `original` are the nodes of the model's file, and `imported` the nodes that the frontend did
    not fold. `measured` are the seconds of each dispatch on `device`.
    """
    manifest = program.manifest
    functions = (manifest, *manifest.functions)
    layers = _layers_of(program, target, measured)
    buffers = [buffer for f in functions for buffer in f.buffers]
    temporaries = [b for b in buffers if b.kind == "temporary" and b.offset is not None]
    states = {b.name: b.bytes for b in buffers if b.kind == "state"}
    return Explanation(
        SCHEMA,
        VERSION,
        model,
        target.name,
        f"{target.provenance['kind']}, {target.provenance['date']}",
        coverage(original, imported, program.layers),
        layers,
        sum(len(kernel.entry_points) for kernel in manifest.kernels),
        sum(len(code.binary) for code in program.code.values()),
        sum(array.nbytes for array in program.weights.values()),
        max(function.memory or 0 for function in functions),
        sum(b.bytes for b in temporaries),
        device=device,
        state_bytes=sum(states.values()),
        buffers=lifetimes_of(manifest),
    )


def _layers_of(
    program: Program, target: Target, measured: Sequence[float] | None
) -> tuple[ExplainedLayer, ...]:
    manifest = program.manifest
    workgroups = {
        (k.name, e.name): e.workgroup_size for k in manifest.kernels for e in k.entry_points
    }
    functions = (manifest, *manifest.functions)
    dispatches = [(f.function, dispatch) for f in functions for dispatch in f.dispatches]
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
    return tuple(layers)


def coverage(
    original: Sequence[Node], imported: Sequence[Node], layers: Sequence[Layer]
) -> tuple[Covered, ...]:
    """Returns how each original node is computed. Nodes that are not in `imported` were folded."""
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
    """
    Explains a model that cannot be compiled.

    `reasons` are the reasons against single nodes by name, `refusals` the reasons against the whole
    model. Nodes that are not in `tried` were not tried.
    """
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
