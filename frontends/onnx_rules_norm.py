"""
Normalisations, activations and reductions that torch-mlir lacks, or knows with constant axes only.

    RMSNormalization(x, w)    x / sqrt(mean(x^2) + epsilon) * w
    Swish(x)                  x * sigmoid(alpha x)
    ReduceMax(x, axes)        the axes that the declared shape of the output shows
"""

from __future__ import annotations

from math import pi, prod
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]


def rms_normalization(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """In the precision that `stash_type` asks for."""
    x, scale = node.input[:2]
    shape, kind = graph.shape(x), graph.type(x)
    if shape is None or kind is None:
        return False
    stash = attributes.get("stash_type", 1)
    axes = range(attributes.get("axis", -1) % len(shape), len(shape))
    wide = graph.cast(x, stash)
    mean = graph.reduce("ReduceMean", graph.add("Mul", [wide, wide]), axes, True)
    epsilon = graph.scalar_of(attributes.get("epsilon", 1e-5), stash)
    root = graph.add("Sqrt", [graph.add("Add", [mean, epsilon])])
    normal = graph.cast(graph.add("Div", [wide, root]), kind)
    graph.add("Mul", [normal, scale], node.output[0])
    return True


def swish(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """x sigmoid(alpha x)."""
    x = node.input[0]
    if graph.type(x) is None:
        return False
    alpha = attributes.get("alpha", 1.0)
    scaled = x if alpha == 1.0 else graph.add("Mul", [x, graph.scalar(alpha, x)])
    graph.add("Mul", [x, graph.add("Sigmoid", [scaled])], node.output[0])
    return True


def gelu(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The approximation by tanh, whose constants torch-mlir rounds."""
    x = node.input[0]
    if attributes.get("approximate", "none") != "tanh" or graph.type(x) is None:
        return False
    cube = graph.add("Mul", [graph.add("Mul", [x, x]), x])
    bent = graph.add("Add", [x, graph.add("Mul", [cube, graph.scalar(0.044715, x)])])
    inner = graph.add("Mul", [bent, graph.scalar((2 / pi) ** 0.5, x)])
    whole = graph.add("Add", [graph.add("Tanh", [inner]), graph.scalar(1.0, x)])
    half = graph.add("Mul", [x, graph.scalar(0.5, x)])
    graph.add("Mul", [half, whole], node.output[0])
    return True


def lp_normalization(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """x / its norm along an axis, and 0 where that is 0."""
    x = node.input[0]
    if graph.type(x) is None:
        return False
    kind = "ReduceL1" if attributes.get("p", 2) == 1 else "ReduceL2"
    norm = graph.reduce(kind, x, [attributes.get("axis", -1)], True)
    zero = graph.scalar(0.0, x)
    nothing = graph.add("Equal", [norm, zero])
    divisor = graph.add("Where", [nothing, graph.scalar(1.0, x), norm])
    graph.add("Div", [x, divisor], node.output[0])
    return True


def reduction(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """
    Axes that are no constant, where the shapes leave no choice.

    A dimension that is 1 before and after may be reduced or not: the result is the same.
    """
    if len(node.input) < 2 or not node.input[1] or graph.value(node.input[1]) is not None:
        return False
    shape, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    count = graph.shape(node.input[1])
    if shape is None or declared is None or count is None:
        return False
    if count == (0,):
        axes = [] if attributes.get("noop_with_empty_axes", 0) else list(range(len(shape)))
    elif attributes.get("keepdims", 1) and len(declared) == len(shape):
        axes = [i for i, size in enumerate(shape) if size != declared[i]]
        if 1 in (shape[i] for i in axes) or (not axes and prod(shape) != 1):
            return False
        axes = axes or list(range(len(shape)))
    elif not declared:
        axes = list(range(len(shape)))
    else:
        return False
    inputs = [node.input[0], graph.integers(*axes)]
    graph.add(node.op_type, inputs, node.output[0], **attributes)
    return True


def recurrent(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Other directions than forward: each by itself, on the sequence turned round."""
    direction = attributes.get("direction", "forward")
    if direction == "forward" or attributes.get("layout", 0):
        return False
    names = [*node.input, *[""] * (8 - len(node.input))]
    if names[4]:
        # Where sequences have lengths of their own, turning one round moves its end.
        return False
    ways = [True] if direction == "reverse" else [False, True]
    made: list[list[str]] = []
    for number, turned in enumerate(ways):
        inputs = [
            name if not name or position in (0, 4) else _direction(graph, name, number, len(ways))
            for position, name in enumerate(names)
        ]
        inputs[0] = _turned(graph, names[0]) if turned else names[0]
        # W, R and B, the sequences' lengths, the initial states, the peepholes.
        inputs = [inputs[position] for position in range(len(node.input))]
        own = dict(attributes) | {"direction": "forward"}
        for key in ("activations", "activation_alpha", "activation_beta"):
            if key in own:
                step = len(own[key]) // len(ways)
                own[key] = own[key][number * step : (number + 1) * step]
        outputs = [graph.fresh(node.op_type) for _ in range(3 if node.op_type == "LSTM" else 2)]
        graph.add(node.op_type, inputs, outputs, **own)
        if turned:
            outputs[0] = _turned(graph, outputs[0])
        made.append(outputs)
    for position, output in enumerate(node.output):
        if output:
            parts = [outputs[position] for outputs in made]
            axis = 1 if position == 0 else 0
            graph.add("Concat", parts, output, axis=axis)
    return True


def _direction(graph: Graph, name: str, number: int, count: int) -> str:
    """The part of weights or states that belongs to one direction."""
    return name if count == 1 else graph.slice(name, 0, number, number + 1)


def _turned(graph: Graph, name: str) -> str:
    """Backwards along the sequence."""
    first = [graph.integers(-1), graph.integers(-(1 << 31)), graph.integers(0), graph.integers(-1)]
    return graph.add("Slice", [name, *first])


REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)

RULES: dict[str, Rule] = {
    "RMSNormalization": rms_normalization,
    "Swish": swish,
    "Gelu": gelu,
    "LpNormalization": lp_normalization,
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
}
