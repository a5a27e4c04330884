"""
Recurrent operators with lengths of sequences, clipping or other activations: step by step.

    RNN      h = f(x W + h R + b)
    GRU      h = (1 - z) g(x W + r h R + b) + z h
    LSTM     c = f c + i g(x W + h R + b),  h = o h(c)

torch-mlir ignores these inputs and attributes. A sequence that has ended keeps its state, and gives
zeros. A product with all of x is made once; what is left is a copy of the nodes for each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]

MOST_NODES = 8192
"""Nodes that a recurrence may become."""

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

DEFAULTS = {
    "RNN": ["Tanh"],
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
}

ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {},
    "Tanh": {},
    "Sigmoid": {},
    "Softsign": {},
    "Softplus": {},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
}
"""What an activation may be, and the defaults of its numbers."""

Activation = Callable[[str], str]


def is_plain(node: Any, attributes: Attributes) -> bool:
    """Whether torch-mlir computes a node as ONNX means it, directions and layout apart."""
    given = [name.lower() for name in attributes.get("activations") or ()]
    default = [name.lower() for name in DEFAULTS[node.op_type]]
    plain = not given or given == default * (len(given) // len(default))
    names = [*node.input, *[""] * (8 - len(node.input))]
    odd = names[4] or names[7] or attributes.get("clip") or attributes.get("input_forget", 0)
    return plain and not odd


@dataclass
class _Cell:
    """One direction of a node: what its steps read."""

    graph: Graph
    kind: str
    hidden: int
    clip: float
    functions: list[Activation]
    weights: str
    """[hidden, gates * hidden]"""
    bias: str
    """[gates * hidden], or nothing"""
    peepholes: str
    linear_before_reset: bool
    input_forget: bool

    def gates(self, x: str, count: int) -> list[str]:
        """The parts of the last dimension."""
        return self.graph.split(x, -1, count, count * self.hidden)

    def activate(self, number: int, x: str) -> str:
        """An activation of what is clipped before."""
        graph = self.graph
        if self.clip:
            ends = [graph.scalar(sign * self.clip, self.weights) for sign in (-1, 1)]
            x = graph.add("Clip", [x, *ends])
        return self.functions[number](x)

    def add(self, *names: str) -> str:
        total = names[0]
        for name in names[1:]:
            total = self.graph.add("Add", [total, name])
        return total

    def multiply(self, a: str, b: str) -> str:
        return self.graph.add("Mul", [a, b])

    def step(self, x: str, h: str, c: str) -> tuple[str, str]:
        """The next states, of what the inputs add to the gates."""
        return {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.kind](x, h, c)

    def _product(self, h: str) -> str:
        made = self.graph.add("MatMul", [h, self.weights])
        return self.add(made, self.bias) if self.bias else made

    def _rnn(self, x: str, h: str, c: str) -> tuple[str, str]:
        return self.activate(0, self.add(x, self._product(h))), c

    def _gru(self, x: str, h: str, c: str) -> tuple[str, str]:
        graph = self.graph
        given, made = self.gates(x, 3), self.gates(self._product(h), 3)
        z, r = (self.activate(0, self.add(given[i], made[i])) for i in range(2))
        if self.linear_before_reset:
            inner = self.multiply(r, made[2])
        else:
            inner = self.gates(self._product(self.multiply(r, h)), 3)[2]
        new = self.activate(1, self.add(given[2], inner))
        difference = graph.add("Sub", [h, new])
        return self.add(new, self.multiply(z, difference)), c

    def _lstm(self, x: str, h: str, c: str) -> tuple[str, str]:
        graph = self.graph
        i, o, f, g = self.gates(self.add(x, self._product(h)), 4)
        p = self.gates(self.peepholes, 3) if self.peepholes else []
        entered = self.activate(0, self.add(i, self.multiply(p[0], c)) if p else i)
        if self.input_forget:
            kept = graph.add("Sub", [graph.scalar(1.0, self.weights), entered])
        else:
            kept = self.activate(0, self.add(f, self.multiply(p[2], c)) if p else f)
        new = self.activate(1, g)
        cell = self.add(self.multiply(kept, c), self.multiply(entered, new))
        out = self.activate(0, self.add(o, self.multiply(p[1], cell)) if p else o)
        return self.multiply(out, self.functions[2](cell)), cell


def _activations(
    graph: Graph, node: Any, attributes: Attributes, ways: int, like: str
) -> list[Activation] | None:
    """The activations of all directions; None for one that is not known."""
    names = attributes.get("activations") or DEFAULTS[node.op_type] * ways
    known = {name.lower(): name for name in ACTIVATIONS}
    left = {key: list(attributes.get(f"activation_{key}") or ()) for key in ("alpha", "beta")}
    found: list[Activation] = []
    for name in names:
        kind = known.get((name.decode() if isinstance(name, bytes) else name).lower())
        if kind is None:
            return None
        numbers = {
            key: left[key].pop(0) if left[key] else value
            for key, value in ACTIVATIONS[kind].items()
        }
        found.append(_function(graph, kind, numbers))
    return found


def _function(graph: Graph, kind: str, numbers: dict[str, float]) -> Activation:
    return lambda x: graph.add(kind, [x], None, "", **numbers)


def _part(graph: Graph, name: str, way: int) -> str:
    """What of a tensor belongs to a direction."""
    return graph.add("Squeeze", [graph.slice(name, 0, way, way + 1), graph.integers(0)])


def unrolled(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A node that is not plain as its steps."""
    if is_plain(node, attributes) or attributes.get("layout", 0):
        return False
    names = [*node.input, *[""] * (8 - len(node.input))]
    shape, kind = graph.shape(names[0]), graph.type(names[0])
    recurrence = graph.shape(names[2])
    if shape is None or recurrence is None or kind is None:
        return False
    length, hidden, ways = shape[0], recurrence[2], recurrence[0]
    functions = _activations(graph, node, attributes, ways, names[0])
    if functions is None or length * ways * 30 > MOST_NODES or length == 0:
        return False
    each = len(functions) // ways
    results: list[list[str]] = []
    for way in range(ways):
        turned = attributes.get("direction", "forward") == "reverse" or way == 1
        gates = GATES[node.op_type] * hidden
        biases = graph.split(_part(graph, names[3], way), 0, 2, 2 * gates) if names[3] else []
        matrix = graph.add("Transpose", [_part(graph, names[2], way)], perm=[1, 0])
        graph.note(matrix, names[0])
        cell = _Cell(
            graph,
            node.op_type,
            hidden,
            float(attributes.get("clip", 0.0)),
            functions[way * each : (way + 1) * each],
            matrix,
            biases[1] if biases else "",
            _part(graph, names[7], way) if names[7] else "",
            bool(attributes.get("linear_before_reset", 0)),
            bool(attributes.get("input_forget", 0)),
        )
        x = _turned(graph, names[0], names[4], length) if turned else names[0]
        columns = graph.add("Transpose", [_part(graph, names[1], way)], perm=[1, 0])
        given = graph.add("MatMul", [x, columns])
        given = cell.add(given, biases[0]) if biases else given
        states = [_initial(graph, name, way, (shape[1], hidden), kind) for name in names[5:7]]
        made = _run(cell, given, states, names[4], length)
        if turned:
            made[0] = _turned(graph, made[0], names[4], length)
        results.append(made)
    for position, output in enumerate(node.output):
        if output:
            axis = 1 if position == 0 else 0
            parts = [graph.add("Unsqueeze", [r[position], graph.integers(axis)]) for r in results]
            graph.add("Concat", parts, output, axis=axis)
    return True


def _initial(graph: Graph, name: str, way: int, shape: tuple[int, int], kind: int) -> str:
    import numpy as np

    if name:
        return _part(graph, name, way)
    return graph.constant(np.zeros(shape, graph.onnx.helper.tensor_dtype_to_np_dtype(kind)))


def _turned(graph: Graph, x: str, lengths: str, length: int) -> str:
    """Each sequence backwards, within its own length."""
    import numpy as np

    if lengths:
        whole = graph.cast(lengths, graph.onnx.TensorProto.INT64)
        return graph.add("ReverseSequence", [x, whole], time_axis=0, batch_axis=1)
    places = graph.constant(np.arange(length)[::-1].copy())
    return graph.add("Gather", [x, places], axis=0)


def _run(cell: _Cell, given: str, states: list[str], lengths: str, length: int) -> list[str]:
    """All states [length, batch, hidden], and the last ones."""
    import numpy as np

    graph, (h, c) = cell.graph, states
    zero = graph.scalar(0.0, cell.weights)
    outputs: list[str] = []
    ends = graph.add("Unsqueeze", [lengths, graph.integers(1)]) if lengths else ""
    for number in range(length):
        x = graph.add("Squeeze", [graph.slice(given, 0, number, number + 1), graph.integers(0)])
        new_h, new_c = cell.step(x, h, c)
        result = new_h
        if lengths:
            runs = graph.add("Greater", [ends, graph.constant(np.array([[number]], np.int32))])
            result = graph.add("Where", [runs, new_h, zero])
            new_h = graph.add("Where", [runs, new_h, h])
            new_c = graph.add("Where", [runs, new_c, c])
        h, c = new_h, new_c
        outputs.append(graph.add("Unsqueeze", [result, graph.integers(0)]))
    return [graph.add("Concat", outputs, axis=0), h, c]


RULES: dict[str, Rule] = dict.fromkeys(GATES, unrolled)
