"""
Operators with edge values of attributes and types give onnxruntime's unoptimized results.

Each family runs on the reference interpreter and as one program. A verdict names the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph
from xdsl_spirv.testing.differential.onnx_judging import compared, executor, judge


class Graphs:
    """A family of graphs. `add(opset)` starts a new graph."""

    def __init__(self):
        self.rng = np.random.default_rng(17)
        self.made: list[RandomGraph] = []

    def add(self, opset: int = 21) -> RandomGraph:
        self.made.append(RandomGraph(self.rng, f"t{len(self.made)}_", opset))
        return self.made[-1]

    def floats(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)


def all_ok(graphs: Graphs) -> None:
    drawn = [g for g in graphs.made if g.nodes]
    assert len(drawn) > 1
    verdicts = [(graph, *judge(graph)) for graph in drawn]
    for opset in {g.opset for g in drawn}:
        of_opset = [g for g in drawn if g.opset == opset]
        results = executor(of_opset, "lavapipe")(
            {name: array for graph in of_opset for name, array in graph.inputs.items()}
        )
        verdicts += [(graph, *compared(graph, graph.runs()[0], results)) for graph in of_opset]
    bad = [f"{kind}: {g.describe()}\n    {detail}" for g, kind, detail in verdicts if kind != "ok"]
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)


def unsigned(g: Graphs) -> None:
    """Adds operators on unsigned integers with the highest bit set."""
    for dtype in (np.uint8, np.uint32, np.uint64):
        top = int(np.iinfo(dtype).max)
        a = np.array([top, top - 1, 200, 3, 7, 1], np.uint64).astype(dtype)
        b = np.array([2, top, 3, top, 2, top - 5], np.uint64).astype(dtype)
        # 64-bit divisions are refused.
        divisions = ("Div", "Mod") if dtype is not np.uint64 else ()
        for kind in (*divisions, "Max", "Min", "Less", "GreaterOrEqual", "Equal", "Mul", "Sub"):
            graph = g.add()
            graph.node(kind, graph.input(a), graph.input(b))
        for kind in ("Abs", "Sign", "ArgMax", "TopK", "ReduceMax", "ReduceMin"):
            graph = g.add()
            rest = [graph.constant(np.array([2]))] if kind == "TopK" else []
            graph.nodes_of(kind, graph.input(a), *rest, outputs=1 + len(rest))
        graph = g.add()
        ends = graph.constant(np.array(5, dtype)), graph.constant(np.array(top - 1, dtype))
        graph.node("Clip", graph.input(a), *ends)
        for direction in ("LEFT", "RIGHT"):
            graph = g.add()
            shift = graph.input(np.array([3, 1, 0, 2, 1, 7], dtype))
            graph.node("BitShift", graph.input(a), shift, direction=direction)
        for to in (1, 2, 6, 7, 12) if dtype is not np.uint32 else (1,):
            graph = g.add()
            graph.node("Cast", graph.input(a), to=to)
            graph = g.add()
            graph.node("Cast", graph.input(np.array([200.6, 3, 0, 127.5], np.float32)), to=to)
    graph = g.add()
    x = g.rng.integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    graph.node("MaxPool", graph.input(x), kernel_shape=[2, 3], pads=[1, 0, 0, 2])


def products(g: Graphs) -> None:
    """Adds Gemm with and without a third operand, transposed and scaled."""
    for given in ({"alpha": 2.0}, {"alpha": -1.0, "transA": 1}, {"alpha": 0.5, "transB": 1}, {}):
        for third in (False, True):
            graph = g.add()
            a = g.floats(*((7, 2) if "transA" in given else (2, 7)))
            b = g.floats(*((3, 7) if "transB" in given else (7, 3)))
            rest = [graph.constant(g.floats(3))] if third else []
            scale = {"beta": 3.0} if third else {}
            graph.node("Gemm", graph.input(a), graph.constant(b), *rest, **given, **scale)


def places(g: Graphs) -> None:
    """Adds backward slices from beyond the end, DepthToSpace, and scatters of Booleans."""
    for reduction in ("add", "mul"):
        graph = g.add(18)
        truths = graph.input(np.array([True, True, False, False]))
        into = graph.constant(np.array([[0], [1], [2], [3]]))
        new = graph.input(np.array([True, False, True, False]))
        graph.node("ScatterND", truths, into, new, reduction=reduction)
    for start, end, step in (
        (1000, -1000, -1),
        (5, -6, -2),
        (5, 2, -1),
        (1000, 0, -3),
        (-1, 1, -2),
    ):
        graph = g.add()
        numbers = [graph.constant(np.array([v])) for v in (start, end, 0, step)]
        graph.node("Slice", graph.input(g.floats(5, 2)), *numbers)
    for mode in ("CRD", "DCR"):
        graph = g.add()
        graph.node("DepthToSpace", graph.input(g.floats(2, 12, 2, 3)), blocksize=2, mode=mode)


def reductions(g: Graphs) -> None:
    """Adds sums of large powers, reductions of vectors, and axes of size 1."""
    for value in (100.0, np.inf, -np.inf):
        graph = g.add()
        x = np.concatenate([g.floats(2, 3), np.full((2, 1), value, np.float32)], 1)
        graph.node("ReduceLogSumExp", graph.input(x), graph.constant(np.array([-1])), keepdims=0)
    graph = g.add()
    # A 32-bit root that a 32-bit float cannot represent.
    wide = np.array([[3_000_000_019, 1], [2**31 + 5, 2**31 - 9]], np.uint64)
    graph.node("ReduceL2", graph.input(wide), graph.constant(np.array([-1])), keepdims=0)
    for kind in ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ReduceMax", "ReduceMin"):
        graph = g.add()
        graph.node(kind, graph.input(g.floats(8)))
    for kind, shape, axis in (("LogSoftmax", (1, 8, 7, 9), 0), ("Softmax", (2, 1, 3), 1)):
        graph = g.add()
        graph.node(kind, graph.input(g.floats(*shape)), axis=axis)


def not_a_number(g: Graphs) -> None:
    """Adds operators on NaN and infinities, and Acosh on numbers below 1."""
    graph = g.add()
    graph.node("Acosh", graph.input(np.array([-1e20, -5992.1, -1, 0.5, 1, 1.5, 3e20], np.float32)))
    x = np.array([np.nan, 1, np.inf, -np.inf, -0.3, 2], np.float32)
    y = np.array([0, np.nan, 3, 4, np.nan, 1], np.float32)
    for kind in ("Max", "Min"):
        for other in (y, np.float32(0.5)):
            graph = g.add()
            graph.node(kind, graph.input(x), graph.constant(other))
        graph = g.add()
        graph.node(kind, graph.input(y), graph.input(x), graph.input(-x))
    for kind in ("Relu", "Sign", "Clip"):
        graph = g.add()
        ends = [graph.constant(np.float32(v)) for v in (-0.5, 0.5)] if kind == "Clip" else []
        graph.node(kind, graph.input(x), *ends)


def windows(g: Graphs) -> None:
    """Adds pooling with indices of maxima, partial last windows and asymmetric pads."""
    image = g.floats(2, 2, 6, 7)
    odd: dict[str, Any] = {
        "kernel_shape": [3, 2],
        "strides": [2, 2],
        "ceil_mode": 1,
        "pads": [1, 1, 0, 1],
    }
    for include in (0, 1):
        graph = g.add()
        graph.node("AveragePool", graph.input(image), **odd, count_include_pad=include)
    for order in (0, 1):
        graph = g.add()
        graph.nodes_of("MaxPool", graph.input(image), outputs=2, **odd, storage_order=order)
    for dtype in (np.float16, np.int8, np.uint8):
        graph = g.add()
        x = g.rng.integers(-9, 9, image.shape).astype(np.int8).astype(dtype)
        graph.node("MaxPool", graph.input(x), kernel_shape=[3, 4], pads=[2, 0, 0, 2])
    graph = g.add()
    graph.node("LpPool", graph.input(image), **odd, p=3)
    graph = g.add()
    one = graph.constant(np.full((1, 1, 1, 1), 2, np.float32))
    graph.node("Conv", graph.input(g.floats(2, 1, 6, 7)), one, strides=[2, 1])


def recurrences(g: Graphs) -> None:
    """Adds recurrences with lengths, clipping and other activations, in every direction."""
    for kind, gates, kinds in (
        ("RNN", 1, ("clip", "lengths")),
        ("GRU", 3, ("activations",)),
        ("LSTM", 4, ("lengths",)),
    ):
        names = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"]}
        functions = names.get(kind, ["HardSigmoid", "Relu", "Tanh"])
        for odd in kinds:
            direction = "bidirectional" if odd == "lengths" else "forward"
            ways = 2 if direction == "bidirectional" else 1
            w, r = g.floats(ways, gates * 2, 3), g.floats(ways, gates * 2, 2)
            x, b = g.floats(2, 2, 3), g.floats(ways, 2 * gates * 2)
            graph = g.add()
            lengths = graph.input(np.array([2, 1], np.int32)) if odd == "lengths" else None
            attributes: dict[str, dict[str, Any]] = {
                "clip": {"clip": 0.4},
                "activations": {"activations": functions},
            }
            given = attributes.get(odd, {})
            operands = [graph.input(x), *map(graph.constant, (w, r, b)), lengths]
            outputs = 3 if kind == "LSTM" else 2
            graph.nodes_of(
                kind, *operands, outputs=outputs, hidden_size=2, direction=direction, **given
            )


def old(g: Graphs) -> None:
    """Adds operators whose meaning changed in opset 13 or 11."""
    for opset in (11, 12, 13):
        graph = g.add(opset)
        graph.node("Hardmax", graph.input(g.floats(2, 3, 4)), axis=1)
    scales = np.array([1, 1, 2, 1.5], np.float32)
    for opset, kind in ((9, "Upsample"), (10, "Resize")):
        for mode in ("linear", "nearest"):
            graph = g.add(opset)
            graph.node(kind, graph.input(g.floats(1, 2, 4, 4)), graph.constant(scales), mode=mode)


def bytes_(g: Graphs) -> None:
    """Adds nodes that multiply or quantize signed and unsigned bytes, some with zero points."""
    for kind, shapes in (
        ("MatMulInteger", ((3, 6), (6, 5))),
        ("ConvInteger", ((1, 2, 6, 5), (4, 2, 3, 3))),
    ):
        for first, second, zeros in (
            (np.uint8, np.int8, ()),
            (np.int8, np.uint8, (3,)),
            (np.uint8, np.uint8, (3, 2)),
        ):
            for cast in (False, True):
                graph = g.add()
                a, b = (
                    g.rng.integers(0, 60, shape).astype(dtype)
                    for shape, dtype in zip(shapes, (first, second), strict=True)
                )
                types = zip(zeros, (first, second), strict=False)
                rest = [graph.constant(np.array(zero, dtype)) for zero, dtype in types]
                made = graph.node(kind, graph.input(a), graph.constant(b), *rest)
                if cast:
                    graph.node("Cast", made, to=1)
    for kind, x in (
        ("QuantizeLinear", g.floats(2, 3)),
        ("DequantizeLinear", np.arange(6, dtype=np.uint8)),
    ):
        graph = g.add()
        graph.node(kind, graph.input(x), graph.constant(np.float32(0.02)))


def quantized_convolutions(g: Graphs) -> None:
    """Adds convolutions with one-sided padding by zero points, and with an odd bias."""
    for dtype, zero in ((np.uint8, 128), (np.uint8, 0), (np.int8, 5)):
        for pads in ([0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 1]):
            graph = g.add()
            scale, origin = graph.constant(np.float32(0.02)), graph.constant(np.array(zero, dtype))
            x = graph.input(g.floats(1, 3, 6, 6))
            q = graph.node("QuantizeLinear", x, scale, origin)
            w = graph.constant(g.rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8))
            by, none = graph.constant(np.float32(0.01)), graph.constant(np.int8(0))
            operands = [
                graph.node("DequantizeLinear", q, scale, origin),
                graph.node("DequantizeLinear", w, by, none),
            ]
            graph.node("Conv", *operands, graph.constant(g.floats(4)), pads=pads)


FAMILIES: dict[str, Callable[[Graphs], None]] = {
    "unsigned": unsigned,
    "products": products,
    "places": places,
    "reductions": reductions,
    "not a number": not_a_number,
    "windows": windows,
    "recurrences": recurrences,
    "old opsets": old,
    "bytes": bytes_,
    "quantized convolutions": quantized_convolutions,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_edge_values_give_the_results_of_onnxruntime(family: str, onnx: ModuleType):
    graphs = Graphs()
    FAMILIES[family](graphs)
    all_ok(graphs)


OPENED: dict[str, tuple[tuple[int, ...], list[Any], dict[str, Any]]] = {
    "Unsqueeze": ((11, 4, 6), [[2]], {}),
    "Flatten": ((11, 4, 6), [], {}),
    "Squeeze": ((11, 1, 6), [[1]], {}),
    "Reshape": ((11, 4, 6), [[0, 2, 2, 6]], {}),
    "DepthToSpace": ((11, 12, 2, 13), [], {"blocksize": 2, "mode": "CRD"}),
    "ReduceLogSumExp": ((11, 4), [[1]], {"keepdims": 0}),
}


@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize("target", ["", "lavapipe"])
def test_results_of_open_sizes_have_the_shapes_of_the_model(
    kind: str, target: str, onnx: ModuleType
):
    shape, lists, attributes = OPENED[kind]
    graphs = Graphs()
    graph = graphs.add()
    graph.open_sizes = True
    x = graph.node("Relu", graph.input(graphs.floats(*shape), lambda s: graphs.floats(*s)))
    graph.node(kind, x, *(graph.constant(np.array(numbers)) for numbers in lists), **attributes)
    runs = graph.runs()
    assert len({tuple(a.shape for a in run.inputs.values()) for run in runs}) > 1
    assert judge(graph, target, runs) == ("ok", "")
