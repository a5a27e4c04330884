"""
Operators at the edges of their attributes and types, beside onnxruntime without optimizations.

Each family is one model: an import costs seconds. A verdict names the graph at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.differential.onnx_graphs import RandomGraph
from xdsl_spirv.differential.onnx_judging import judged
from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR


class Graphs:
    """A family of graphs: `add(opset)` begins one."""

    def __init__(self):
        self.rng = np.random.default_rng(17)
        self.made: list[RandomGraph] = []

    def add(self, opset: int = 21) -> RandomGraph:
        self.made.append(RandomGraph(self.rng, f"t{len(self.made)}_", opset))
        return self.made[-1]

    def floats(self, *shape: int) -> Any:
        return self.rng.standard_normal(shape).astype(np.float32)


def all_ok(graphs: Graphs, worker: TorchMLIR) -> None:
    verdicts = judged([g for g in graphs.made if g.nodes], worker, "lavapipe", batch=64)
    assert len(verdicts) > 1
    bad = [str(each) for each in verdicts if each.kind != "ok"]
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)


def unsigned(g: Graphs) -> None:
    """Integers whose highest bit is set are no negative numbers."""
    for dtype in (np.uint8, np.uint32, np.uint64):
        top = int(np.iinfo(dtype).max)
        a = np.array([top, top - 1, 200, 3, 7, 1], np.uint64).astype(dtype)
        b = np.array([2, top, 3, top, 2, top - 5], np.uint64).astype(dtype)
        # Of 64 bits, divisions are refused.
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
        for to in (1, 2, 6, 7, 12):
            graph = g.add()
            graph.node("Cast", graph.input(a), to=to)
            graph = g.add()
            graph.node("Cast", graph.input(np.array([200.6, 3, 0, 127.5], np.float32)), to=to)
    graph = g.add()
    x = g.rng.integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    graph.node("MaxPool", graph.input(x), kernel_shape=[2, 3], pads=[1, 0, 0, 2])


FAMILIES: dict[str, Callable[[Graphs], None]] = {"unsigned": unsigned}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_edges_are_as_onnxruntime_has_them(family: str, onnx: Any, worker: TorchMLIR):
    graphs = Graphs()
    FAMILIES[family](graphs)
    all_ok(graphs, worker)
