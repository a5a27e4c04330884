"""
Random ONNX graphs whose values onnxruntime computes node by node while they are built.

A graph is made of nothing but `onnx.helper` and numpy: it shares no code with the importer that it
tests. Every node runs alone, without optimizations, so each value has its array, its type and its
shape as soon as the node stands. Several graphs become one model, as an import costs seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

OPSET = 21
IR_VERSION = 10


class NotComputed(Exception):
    """onnxruntime refuses a node: the draw is repeated."""


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


@dataclass
class RandomGraph:
    """A graph that is being drawn; names begin with `prefix`, so that several fit one model."""

    rng: np.random.Generator
    prefix: str = ""
    opset: int = OPSET
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    nodes: list[Any] = field(default_factory=list[Any])
    results: dict[str, Array] = field(default_factory=dict[str, Array])
    read: set[str] = field(default_factory=set[str])
    step: float = 0.0
    """What a result may differ by where a sum lies on a tie between two steps, in few places."""
    open_sizes: bool = False
    """Whether the first size of every input is left open."""

    def input(self, array: Any) -> Value:
        """A tensor that the caller gives."""
        value = Value(f"{self.prefix}x{len(self.inputs)}", np.asarray(array))
        self.inputs[value.name] = value.array
        return value

    def constant(self, array: Any) -> Value:
        """A tensor of the model."""
        value = Value(f"{self.prefix}c{len(self.constants)}", np.asarray(array))
        self.constants[value.name] = value.array
        return value

    def either(self, array: Any) -> Value:
        """An input or a constant, by chance."""
        return self.input(array) if self.rng.random() < 0.5 else self.constant(array)

    def nodes_of(self, kind: str, *given: Value | None, outputs: int = 1, **attributes: Any):
        """Add a node; returns its outputs, as onnxruntime computes them."""
        helper = import_module("onnx.helper")
        names = [value.name if value is not None else "" for value in given]
        number = len(self.nodes)
        results = [f"{self.prefix}y{number}.{i}" for i in range(outputs)]
        name = f"{self.prefix}{kind}{number}"
        node = helper.make_node(kind, names, results, name=name, **attributes)
        arrays = evaluated(node, {v.name: v.array for v in given if v is not None}, self.opset)
        self.nodes.append(node)
        self.read.update(names)
        values = [Value(n, np.asarray(a)) for n, a in zip(results, arrays, strict=True)]
        self.results |= {value.name: value.array for value in values}
        return values

    def node(self, kind: str, *given: Value | None, **attributes: Any) -> Value:
        """Add a node of one output."""
        return self.nodes_of(kind, *given, **attributes)[0]

    @property
    def expected(self) -> dict[str, Array]:
        """The values that no node reads: the outputs."""
        return {n: a for n, a in self.results.items() if n not in self.read}

    def describe(self) -> str:
        """The nodes with their attributes, and the shapes of inputs and constants."""
        get = import_module("onnx.helper").get_attribute_value
        nodes: list[str] = []
        for node in self.nodes:
            attributes = ", ".join(f"{a.name}={get(a)}" for a in node.attribute)
            nodes.append(f"{node.op_type}({', '.join(node.input)}; {attributes})")
        tensors = [
            f"{n}: {a.dtype}{list(a.shape)}" + (f"={a.tolist()}" if a.size < 6 else "")
            for n, a in (self.inputs | self.constants).items()
        ]
        return f"opset {self.opset}: {' '.join(nodes)} {' '.join(tensors)}"


def tensor_type(array: Array) -> int:
    """ONNX's number of an array's element type."""
    return import_module("onnx.helper").np_dtype_to_tensor_dtype(array.dtype)


def evaluated(node: Any, given: dict[str, Array], opset: int) -> list[Array]:
    """
    What onnxruntime computes for a node alone, or onnx's evaluator where onnxruntime has no kernel.

    Raises `NotComputed`.
    """
    helper = import_module("onnx.helper")
    inputs = [helper.make_tensor_value_info(n, tensor_type(a), a.shape) for n, a in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION
    )
    try:
        return run_onnxruntime(model, given)
    except NotComputed as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return run_evaluator(model, given)


def run_evaluator(model: Any, given: dict[str, Array]) -> list[Array]:
    """What onnx's own evaluator computes; raises `NotComputed`."""
    evaluator = import_module("onnx.reference").ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in evaluator(model).run(None, dict(given))]
    except Exception as error:
        raise NotComputed(str(error)) from error


def run_onnxruntime(model: Any, given: dict[str, Array]) -> list[Array]:
    """A model's results without any optimization; raises `NotComputed`."""
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, given)
    except Exception as error:
        raise NotComputed(str(error)) from error


def assembled(graphs: Sequence[RandomGraph]) -> Any:
    """One model of several graphs."""
    helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")

    def values(arrays: dict[str, Array], is_open: bool) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                name, tensor_type(a), ["N", *a.shape[1:]] if is_open and a.ndim else a.shape
            )
            for name, a in arrays.items()
        ]

    graph = helper.make_graph(
        [node for part in graphs for node in part.nodes],
        "random",
        [value for part in graphs for value in values(part.inputs, part.open_sizes)],
        [value for part in graphs for value in _outputs(part, values)],
        [numpy_helper.from_array(a, n) for part in graphs for n, a in part.constants.items()],
    )
    opsets = [helper.make_opsetid("", graphs[0].opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _outputs(graph: RandomGraph, values: Any) -> list[Any]:
    """The outputs' declarations; of open sizes only the rank is known."""
    outputs = values(graph.expected, False)
    for value in outputs if graph.open_sizes else ():
        for number, size in enumerate(value.type.tensor_type.shape.dim):
            size.Clear()
            size.dim_param = f"{value.name}.{number}"
    return outputs
