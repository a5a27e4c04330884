"""
Builds random ONNX graphs. onnxruntime computes the values node by node.

Graphs are made with `onnx.helper` and numpy only, and share no code with the tested importer.
Every node runs separately, without optimizations, so that array, type and shape of each value are
known immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.onnx_references import (
    Array,
    NotComputed,
    evaluated,
    model_of,
    run_model,
    tensor_type,
)

OPSET = 21

OPEN = (11, 13, 17)
"""Sizes that stand for dynamic dimensions of inputs."""

ONE = "one"
"""Name of dynamic dimensions whose size can only be 1."""

OTHER_SIZES = (1, 2, 3, 4, 7, 8, 16, 19, 33)
"""Dynamic sizes that a second run of the same program uses."""


@dataclass(frozen=True)
class Value:
    """A tensor of a graph."""

    name: str
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


@dataclass(frozen=True)
class Run:
    """A model's inputs, and its expected outputs."""

    inputs: dict[str, Array]
    expected: dict[str, Array]


@dataclass
class RandomGraph:
    """A graph under construction. `prefix` makes names unique if graphs are joined."""

    rng: np.random.Generator
    prefix: str = ""
    opset: int = OPSET
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    nodes: list[Any] = field(default_factory=list[Any])
    results: dict[str, Array] = field(default_factory=dict[str, Array])
    read: set[str] = field(default_factory=set[str])
    open_sizes: bool = False
    """True if dimensions with the sizes in `OPEN` become dynamic."""
    static_share: float = 0.5
    """Probability that a tensor is a constant if it could also be an input."""
    edges: bool = False
    """True if the graph has edge values: NaN, infinities, denormals and extremes."""
    least_size: int = 1
    """Minimum of dynamic sizes. It must not be smaller than a window of the graph."""
    ones: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Dynamic dimensions of inputs that have the size 1 in every run."""
    omitted: Sequence[str] = ()
    """Kinds of edge values that are not drawn: "nan", "inf", "huge", "tiny"."""
    remake: dict[str, Callable[[tuple[int, ...]], Array]] = field(
        default_factory=dict[str, Callable[[tuple[int, ...]], Array]]
    )
    """Maps an input to a function that draws its values with another shape."""

    def input(self, array: Any, remake: Callable[[tuple[int, ...]], Array] | None = None) -> Value:
        """
        Adds an input with this value to the graph. `remake` draws the value with another shape.
        """
        value = Value(f"{self.prefix}x{len(self.inputs)}", np.asarray(array))
        self.inputs[value.name] = value.array
        if remake is not None:
            self.remake[value.name] = remake
        return value

    def constant(self, array: Any) -> Value:
        """Adds a constant to the graph."""
        value = Value(f"{self.prefix}c{len(self.constants)}", np.asarray(array))
        self.constants[value.name] = value.array
        return value

    def either(self, array: Any, remake: Callable[[tuple[int, ...]], Array] | None = None) -> Value:
        """
        Adds an input or a constant to the graph, at random. A tensor with dynamic sizes becomes an
        input.
        """
        is_open = self.open_sizes and bool(set(np.shape(array)) & set(OPEN))
        if is_open or self.rng.random() >= self.static_share:
            return self.input(array, remake)
        return self.constant(array)

    def nodes_of(
        self,
        kind: str,
        *given: Value | None,
        outputs: int | Sequence[bool] = 1,
        domain: str = "",
        **attributes: Any,
    ) -> list[Value]:
        """Adds a node to the graph. Returns its outputs, with values computed by onnxruntime."""
        helper = import_module("onnx.helper")
        names = [value.name if value is not None else "" for value in given]
        while names and not names[-1]:
            names.pop()
        number = len(self.nodes)
        wanted = [True] * outputs if isinstance(outputs, int) else outputs
        results = [f"{self.prefix}y{number}.{i}" if w else "" for i, w in enumerate(wanted)]
        name = f"{self.prefix}{kind}{number}"
        node = helper.make_node(kind, names, results, name=name, domain=domain, **attributes)
        arrays = evaluated(node, {v.name: v.array for v in given if v is not None}, self.opset)
        self.nodes.append(node)
        self.read.update(names)
        kept = [name for name in results if name]
        values = [Value(n, np.asarray(a)) for n, a in zip(kept, arrays, strict=True)]
        self.results |= {value.name: value.array for value in values}
        return values

    def node(self, kind: str, *given: Value | None, **attributes: Any) -> Value:
        """Adds a node with one output to the graph. Returns the output."""
        return self.nodes_of(kind, *given, **attributes)[0]

    @property
    def expected(self) -> dict[str, Array]:
        """Returns the outputs: the values that no node reads."""
        return {n: a for n, a in self.results.items() if n not in self.read}

    def runs(self) -> list[Run]:
        """Returns the graph's runs: one with the drawn values, and one with other dynamic sizes."""
        first = Run(self.inputs, self.expected)
        return [first, *self._other_sizes()] if self.open_sizes else [first]

    def _other_sizes(self) -> list[Run]:
        runs: list[Run] = []
        model = assemble_model([self])
        for _ in range(4):
            others = [size for size in OTHER_SIZES if size >= self.least_size]
            drawn: list[int] = self.rng.choice(others, len(OPEN)).tolist()
            sizes: dict[int, int] = dict(zip(OPEN, drawn, strict=True))
            try:
                inputs = {n: self._again(n, a, sizes) for n, a in self.inputs.items()}
                results = run_model(model, inputs)
            except NotComputed:
                continue
            runs.append(Run(inputs, dict(zip(self.expected, results, strict=True))))
        if not runs:
            raise NotComputed("the model cannot run with other sizes")
        return runs[:2]

    def _again(self, name: str, array: Array, sizes: dict[int, int]) -> Array:
        shape = tuple(sizes[size] if size in sizes else size for size in array.shape)
        other = self.remake[name](shape) if name in self.remake else array
        if other.shape != shape:
            raise NotComputed(f"{name} has a fixed shape")
        return other

    def describe(self) -> str:
        """Returns the nodes, their attributes, and the shapes of inputs and constants."""
        get = import_module("onnx.helper").get_attribute_value
        nodes: list[str] = []
        for node in self.nodes:
            attributes = ", ".join(f"{a.name}={_short(get(a))}" for a in node.attribute)
            nodes.append(f"{node.op_type}({', '.join(node.input)}; {attributes})")
        tensors = [
            f"{n}: {a.dtype}{list(a.shape)}" + (f"={a.tolist()}" if a.size < 6 else "")
            for n, a in (self.inputs | self.constants).items()
        ]
        return f"opset {self.opset}: {' '.join(nodes)} {' '.join(tensors)}"


def _short(value: Any) -> str:
    return "<graph>" if hasattr(value, "node") else str(value)[:80].replace("\n", " ")


def assemble_model(graphs: Sequence[RandomGraph]) -> Any:
    """Joins several graphs to one model."""
    helper = import_module("onnx.helper")

    def values(part: RandomGraph) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                name,
                tensor_type(a),
                [
                    ONE if i in part.ones.get(name, ()) else _declare_size(part, size)
                    for i, size in enumerate(a.shape)
                ],
            )
            for name, a in part.inputs.items()
        ]

    return model_of(
        [node for part in graphs for node in part.nodes],
        [value for part in graphs for value in values(part)],
        [value for part in graphs for value in _outputs(part)],
        {n: a for part in graphs for n, a in part.constants.items()},
        graphs[0].opset,
    )


def _declare_size(part: RandomGraph, size: int) -> str | int:
    return f"size{size}" if part.open_sizes and size in OPEN else size


def _outputs(graph: RandomGraph) -> list[Any]:
    """Declares the outputs of a graph. If sizes are dynamic, declares only the rank."""
    helper = import_module("onnx.helper")
    return [
        helper.make_tensor_value_info(
            name,
            tensor_type(a),
            [f"{name}.{i}" for i in range(a.ndim)] if graph.open_sizes else a.shape,
        )
        for name, a in graph.expected.items()
    ]
