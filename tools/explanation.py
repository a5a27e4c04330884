"""
What a program will do, before anybody runs it: which nodes, by which paths, why, and for how long.

One record for all ways of showing it (text, JSON, HTML), so that they cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl_spirv.frontends.model import Node
from xdsl_spirv.runtime.expressions import Number
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import Target
from xdsl_spirv.tools.roofline import roofline

SCHEMA = "xdsl-spirv-explanation"
VERSION = 1

Status = Literal[
    "kernel", "merged", "no kernel", "folded", "supported", "not supported", "not tried"
]

OF_SHAPES = frozenset({"Shape", "Size"})
"""Operators whose results depend on their inputs' shapes alone."""


@dataclass(frozen=True)
class Covered:
    """
    A node of the model and what becomes of it.

    `kernel`: `dispatches` compute it. `merged`: simplification of the graph has put it into another
    node, which `dispatches` compute, or has found it to do nothing. `no kernel`: it only reshapes,
    or its result is read through by others. `folded`: it is computed at compile time. Where the
    model as a whole is refused, each node is `supported`, or `not supported` and `reason` says why,
    or `not tried`, because its shapes are unknown or looking took too long.
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


@dataclass(frozen=True)
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

    @property
    def supported(self) -> bool:
        return not self.refusals and all(n.status != "not supported" for n in self.nodes)

    @property
    def paths(self) -> Counter[str]:
        """Dispatches by path."""
        return Counter(entry.layer.path for entry in self.layers)


def explanation_of(
    program: Program,
    model: str,
    target: Target,
    original: Sequence[Node] = (),
    simplified: Sequence[Node] = (),
    measured: Sequence[float] | None = None,
    device: str | None = None,
) -> Explanation:
    """
    Explain a compiled program.

    `original` are the nodes of the model's file, `simplified` those that reached the lowering;
    `measured` are the seconds of each dispatch on `device`.
    """
    manifest = program.manifest
    workgroups = {
        (k.name, e.name): e.workgroup_size for k in manifest.kernels for e in k.entry_points
    }
    layers: list[ExplainedLayer] = []
    for number, (dispatch, layer) in enumerate(
        zip(manifest.dispatches, program.layers, strict=True)
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
            )
        )
    temporaries = [b for b in manifest.buffers if b.kind == "temporary" and b.offset is not None]
    return Explanation(
        SCHEMA,
        VERSION,
        model,
        target.name,
        f"{target.provenance['kind']}, {target.provenance['date']}",
        coverage(original, simplified, program.layers, [value.name for value in manifest.inputs]),
        tuple(layers),
        len(workgroups),
        sum(len(code.binary) for code in program.code.values()),
        sum(array.nbytes for array in program.weights.values()),
        manifest.memory or 0,
        sum(b.bytes for b in temporaries),
        device=device,
    )


def coverage(
    original: Sequence[Node],
    simplified: Sequence[Node],
    layers: Sequence[Layer],
    inputs: Collection[str],
) -> tuple[Covered, ...]:
    """What became of each node of a model of these `inputs` that was compiled."""
    computed: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        for name in layer.nodes:
            computed.setdefault(name, []).append(number)
    kept = {node.name for node in simplified}
    makers = {value: node.name for node in simplified for value in node.outputs}
    computing = _computing(original, inputs)
    readers: dict[str, list[str]] = {}
    for node in original:
        for value in node.inputs if node.name in computing else ():
            readers.setdefault(value, []).append(node.name)
    covered: dict[str, Covered] = {}
    for node in reversed(original):
        dispatches = tuple(computed.get(node.name, ()))
        status: Status = "kernel"
        if not dispatches and node.name in kept:
            status = "no kernel"
        elif not dispatches and node.name in computing:
            status = "merged"
            absorbing = {makers[value] for value in node.outputs if value in makers}
            dispatches = tuple(sorted({n for name in absorbing for n in computed.get(name, ())}))
            users = [reader for value in node.outputs for reader in readers.get(value, ())]
            if not absorbing and len(users) == 1 and users[0] in covered:
                dispatches = covered[users[0]].dispatches
        elif not dispatches:
            status = "folded"
        covered[node.name] = Covered(node.name, node.op_type, status, dispatches)
    return tuple(covered[node.name] for node in original)


def _computing(nodes: Sequence[Node], inputs: Collection[str]) -> set[str]:
    """The nodes whose results depend on the numbers in the inputs."""
    data = set(inputs)
    names: set[str] = set()
    for node in nodes:
        if node.op_type not in OF_SHAPES and not data.isdisjoint(node.inputs):
            data.update(node.outputs)
            names.add(node.name)
    return names


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
