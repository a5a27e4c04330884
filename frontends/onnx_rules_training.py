"""
The optimizers of `ai.onnx.preview.training`, by the formulas of their specification.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]


class _Formula:
    """Arithmetic on values of one type, all of it nodes."""

    def __init__(self, graph: Graph, like: str):
        self.graph, self.like = graph, like

    def op(self, kind: str, *inputs: str | float, to: str | None = None) -> str:
        names = [x if isinstance(x, str) else self.graph.scalar(x, self.like) for x in inputs]
        return self.graph.add(kind, names, to)

    def regularized(self, gradient: str, x: str, factor: float) -> str:
        return self.op("Add", self.op("Mul", x, factor), gradient)

    def first(self, count: str, then: float, otherwise: float) -> str:
        """`then` in the update number 0, `otherwise` later."""
        zero = self.graph.scalar(0, count)
        values = [self.graph.scalar(each, self.like) for each in (then, otherwise)]
        return self.graph.add("Where", [self.graph.add("Equal", [count, zero]), *values])


def adagrad(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """H += G^2; X -= R / (1 + T decay) G / (sqrt(H) + epsilon)."""
    rate, count, *tensors = node.input
    third = len(tensors) // 3
    for i in range(third):
        x, gradient, sums = tensors[i], tensors[third + i], tensors[2 * third + i]
        f = _Formula(graph, x)
        kind = graph.type(x)
        assert kind is not None
        steps = f.op("Mul", graph.cast(count, kind), attributes.get("decay_factor", 0.0))
        r = f.op("Div", rate, f.op("Add", steps, 1.0))
        g = f.regularized(gradient, x, attributes.get("norm_coefficient", 0.0))
        h = f.op("Add", sums, f.op("Mul", g, g), to=node.output[third + i])
        root = f.op("Add", f.op("Sqrt", h), attributes.get("epsilon", 1e-6))
        f.op("Sub", x, f.op("Div", f.op("Mul", r, g), root), to=node.output[i])
    return True


def adam(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Running means of gradient and square, the step corrected for the number of updates."""
    rate, count, *tensors = node.input
    fourth = len(tensors) // 4
    alpha, beta = attributes.get("alpha", 0.9), attributes.get("beta", 0.999)
    for i in range(fourth):
        x, gradient, mean, square = (tensors[i + n * fourth] for n in range(4))
        f = _Formula(graph, x)
        kind = graph.type(x)
        assert kind is not None
        g = f.regularized(gradient, x, attributes.get("norm_coefficient", 0.0))
        news = f.op("Mul", g, 1 - alpha)
        v = f.op("Add", f.op("Mul", mean, alpha), news, to=node.output[fourth + i])
        squared = f.op("Mul", f.op("Mul", g, g), 1 - beta)
        h = f.op("Add", f.op("Mul", square, beta), squared, to=node.output[2 * fourth + i])
        root = f.op("Add", f.op("Sqrt", h), attributes.get("epsilon", 1e-6))
        number = graph.cast(count, kind)
        left = [f.op("Sub", 1.0, f.op("Pow", base, number)) for base in (alpha, beta)]
        corrected = f.op("Div", f.op("Mul", rate, f.op("Sqrt", left[1])), left[0])
        later = graph.add("Greater", [count, graph.scalar(0, count)])
        r = graph.add("Where", [later, corrected, rate])
        moved = f.op("Sub", x, f.op("Div", f.op("Mul", r, v), root))
        post = attributes.get("norm_coefficient_post", 0.0)
        f.op("Mul", moved, 1 - post, to=node.output[i])
    return True


def momentum(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """V = alpha V + beta G, beta 1 at first; X -= R V, or with Nesterov's look ahead."""
    rate, count, *tensors = node.input
    third = len(tensors) // 3
    alpha, beta = attributes["alpha"], attributes["beta"]
    for i in range(third):
        x, gradient, velocity = tensors[i], tensors[third + i], tensors[2 * third + i]
        f = _Formula(graph, x)
        g = f.regularized(gradient, x, attributes.get("norm_coefficient", 0.0))
        weight = f.first(count, 1.0, beta)
        news = f.op("Mul", g, weight)
        v = f.op("Add", f.op("Mul", velocity, alpha), news, to=node.output[third + i])
        step = v
        if attributes["mode"] == "nesterov":
            step = f.op("Add", g, f.op("Mul", v, alpha))
        f.op("Sub", x, f.op("Mul", rate, step), to=node.output[i])
    return True


RULES: dict[str, Rule] = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum}
