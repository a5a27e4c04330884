"""Kinds of random graphs: operators, edge values, dynamic sizes, quantization, control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential import (
    onnx_contrib,
    onnx_open,
    onnx_operators_more,
    onnx_operators_rest,
)
from xdsl_spirv.testing.differential.onnx_draws import Draw, schema_of
from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph, Value
from xdsl_spirv.testing.differential.onnx_operators import RECORDS, Record
from xdsl_spirv.testing.differential.onnx_references import NotComputed

NEWEST = 27
"""The newest opset that onnxruntime supports."""

OLDEST = 7

CONTROL = ("If", "Loop", "Scan")

DATA = ("Constant", "NonZero", "Unique", "NonMaxSuppression", "Compress")
"""
Operators that are not drawn with dynamic sizes, because the contents of an operand determine their
shapes.
"""

NOT_AT_EDGES = ("RNN", "GRU", "LSTM", "LRN")
OMITTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("MaxPool", "MaxRoiPool"), ("nan",)),
    **dict.fromkeys(("DFT", "STFT"), ("inf", "huge")),
    **dict.fromkeys(
        ("DynamicQuantizeLinear", "DynamicQuantizeMatMul"), ("nan", "inf", "huge", "tiny")
    ),
    **dict.fromkeys(("BatchNormalization", "CDist"), ("inf", "huge")),
    **dict.fromkeys(("Resize", "RoiAlign", "Upsample"), ("nan", "inf", "huge")),
    "OneHot": ("nan", "inf", "huge"),
}
"""
Maps an operator to the kinds of edge values that are not drawn for it.

docs/onnx-tests.md gives the reasons under "Where no reference decides", also for values that
records omit.
"""

LENGTHS = (2, 3, 3, 4, 5)


def opset_of(rng: np.random.Generator, record: Record) -> int:
    """Returns a random opset that contains the operator. Opset 21 is frequent."""
    opset = 21 if rng.random() < 0.3 else int(rng.integers(OLDEST, NEWEST + 1))
    if record.domain:
        return 21
    for _ in range(8):
        try:
            schema_of(record.name, record.domain, opset)
            return opset
        except NotComputed:
            opset = int(rng.integers(OLDEST, NEWEST + 1))
    raise NotComputed(f"no drawn opset has the operator {record.name}")


def chosen(rng: np.random.Generator, records: list[Record]) -> Record:
    return records[int(rng.integers(len(records)))]


def _ordinary(only_chains: bool = False) -> list[Record]:
    return [r for r in RECORDS.values() if r.name not in CONTROL and (r.chains or not only_chains)]


def single(g: RandomGraph) -> None:
    """Fills the graph with one operator."""
    record = chosen(g.rng, _ordinary())
    g.opset = opset_of(g.rng, record)
    record.draw(Draw(g, record.name, record.domain))


def contrib(g: RandomGraph) -> None:
    """Fills the graph with one of onnxruntime's own operators."""
    record = chosen(g.rng, [r for r in RECORDS.values() if r.domain])
    record.draw(Draw(g, record.name, record.domain))


def edge(g: RandomGraph) -> None:
    """Fills the graph with one operator on NaN, infinities, denormals and extremes."""
    g.edges = True
    record = chosen(g.rng, [r for r in _ordinary() if r.name not in NOT_AT_EDGES])
    g.omitted = OMITTED.get(record.name, ("huge",) if record.bound == "sum" else ())
    g.opset = opset_of(g.rng, record)
    record.draw(Draw(g, record.name, record.domain))


def several(g: RandomGraph) -> None:
    """Fills the graph with operators that read each other's results."""
    records = _ordinary(only_chains=True)
    record = chosen(g.rng, records)
    g.opset = opset_of(g.rng, record)
    g.static_share = float(g.rng.choice([0.2, 0.5, 0.8]))
    pool: list[Value] = []
    length = int(g.rng.choice(LENGTHS))
    for _ in range(60):
        try:
            pool += record.draw(Draw(g, record.name, record.domain, pool)) or _newest(g)
        except NotComputed:
            pass
        if len(g.nodes) >= length:
            return
        record = chosen(g.rng, records)
    raise NotComputed("the graph has too few nodes")


def _newest(g: RandomGraph) -> list[Value]:
    return [Value(name, g.results[name]) for name in g.nodes[-1].output if name]


def open_sizes(g: RandomGraph) -> None:
    """Fills the graph with one or several operators on inputs with dynamic sizes."""
    g.open_sizes = True
    g.static_share = 0.6
    if g.rng.random() < 0.6:
        records = [r for r in _ordinary() if r.name not in DATA]
        record = chosen(g.rng, records)
        g.opset = opset_of(g.rng, record)
        record.draw(Draw(g, record.name, record.domain))
    else:
        several(g)
    if not any(set(a.shape) & {11, 13, 17} for a in g.inputs.values()):
        raise NotComputed("the graph has no dynamic size")


def control(g: RandomGraph) -> None:
    """Fills the graph with an If, Loop or Scan."""
    record = RECORDS["", str(g.rng.choice(CONTROL))]
    g.opset = opset_of(g.rng, record)
    record.draw(Draw(g, record.name))


def quantized(g: RandomGraph) -> None:
    """Fills the graph with an operator between DequantizeLinear and QuantizeLinear."""
    g.opset = int(g.rng.integers(13, NEWEST + 1))
    g.static_share = 1.0
    QUANTIZED[int(g.rng.integers(len(QUANTIZED)))](g, QDQ(g))


class QDQ:
    """Adds nodes that quantize and dequantize values."""

    def __init__(self, g: RandomGraph):
        self.g = g
        self.kind = np.dtype((np.uint8, np.int8)[int(g.rng.choice(2))])

    def points(self, step: float) -> tuple[Value, Value]:
        """Returns a random scale and a random zero point for activations."""
        zero = {0: 0, 1: 128 if self.kind == np.uint8 else 0}.get(
            int(self.g.rng.integers(3)), int(self.g.rng.integers(1, 100))
        )
        factor = np.float32(step * (0.5 + self.g.rng.random()))
        return self.g.constant(factor), self.g.constant(np.array(zero, self.kind))

    def around(self, x: Value, step: float = 0.02) -> Value:
        points = self.points(step)
        return self.g.node("DequantizeLinear", self.g.node("QuantizeLinear", x, *points), *points)

    def weights(self, shape: tuple[int, ...], axis: int | None) -> Value:
        rng = self.g.rng
        data = self.g.constant(rng.integers(-127, 128, shape).astype(np.int8))
        scales = () if axis is None else (shape[axis],)
        factor = self.g.constant((0.005 + 0.01 * rng.random(scales)).astype(np.float32))
        zero = self.g.constant(np.zeros(scales, np.int8))
        named = {} if axis is None else {"axis": axis}
        return self.g.node("DequantizeLinear", data, factor, zero, **named)

    def floats(self, *shape: int) -> Value:
        return self.g.input(self.g.rng.standard_normal(shape).astype(np.float32))

    def bias(self, count: int) -> list[Value]:
        if self.g.rng.random() < 0.4:
            return []
        return [self.g.constant(self.g.rng.standard_normal(count).astype(np.float32))]


def _quantized_conv(g: RandomGraph, q: QDQ) -> None:
    d = Draw(g, "Conv")
    rank = d.number(1, 2)
    named = onnx_operators_more.window(d, rank)
    groups = d.pick((1, 1, 2))
    x = q.around(q.floats(1, 2 * groups, *[d.number(5, 8) for _ in range(rank)]))
    w = q.weights((3 * groups, 2, *named["kernel_shape"]), d.pick((None, 0)))
    y = g.node("Conv", x, w, *q.bias(3 * groups), group=groups, **named)
    if d.chance(0.5):
        y = g.node("Relu", y)
    q.around(y, 0.05)


def _quantized_product(g: RandomGraph, q: QDQ) -> None:
    d = Draw(g, "MatMul")
    k, n = d.number(1, 9), d.number(1, 6)
    if d.chance(0.5):
        x = q.around(q.floats(d.number(1, 4), k))
        y = g.node("Gemm", x, q.weights((n, k), d.pick((None, 0))), *q.bias(n), transB=1)
    else:
        x = q.around(q.floats(*d.shape(0, 2), d.number(1, 4), k))
        other = q.weights((k, n), d.pick((None, 1)))
        y = g.node("MatMul", x, other)
        if d.chance(0.5):
            y = g.node("Add", y, g.constant(g.rng.standard_normal(n).astype(np.float32)))
    q.around(y, 0.05)


def _quantized_others(g: RandomGraph, q: QDQ) -> None:
    d = Draw(g, "Add")
    shape = (1, d.number(1, 3), d.number(2, 6), d.number(2, 6))
    x = q.around(q.floats(*shape))
    kind = d.pick(
        (
            "Add",
            "Mul",
            "Concat",
            "MaxPool",
            "AveragePool",
            "GlobalAveragePool",
            "Sigmoid",
            "Relu",
            "Transpose",
            "Reshape",
            "Softmax",
            "LeakyRelu",
        )
    )
    if kind in ("Add", "Mul"):
        y = g.node(kind, x, q.around(q.floats(*shape)))
    elif kind == "Concat":
        y = g.node(kind, x, q.around(q.floats(*shape)), axis=1)
    elif kind in ("MaxPool", "AveragePool"):
        y = g.node(kind, x, kernel_shape=[2, 2], pads=[0, 1, 1, 0])
    elif kind == "Reshape":
        y = g.node(kind, x, g.constant(np.array([1, -1])))
    else:
        y = g.node(kind, x)
    q.around(y, 0.03)


def _dynamic(g: RandomGraph, q: QDQ) -> None:
    """Adds dynamic quantization to the graph, in the form that onnxruntime's tool writes."""
    d = Draw(g, "MatMul")
    k, n = d.number(1, 9), d.number(1, 6)
    x = q.floats(*d.shape(1, 2), d.number(1, 4), k)
    data, factor, zero = g.nodes_of("DynamicQuantizeLinear", x, outputs=3)
    w = g.constant(g.rng.integers(-127, 128, (k, n)).astype(np.int8))
    product = g.node("MatMulInteger", data, w, zero, g.constant(np.int8(0)))
    both = g.node("Mul", factor, g.constant(np.float32(0.01)))
    y = g.node("Mul", g.node("Cast", product, to=1), both)
    if d.chance(0.5):
        g.node("Add", y, g.constant(g.rng.standard_normal(n).astype(np.float32)))


QUANTIZED: tuple[Callable[[RandomGraph, QDQ], Any], ...] = (
    _quantized_conv,
    _quantized_product,
    _quantized_others,
    _dynamic,
)

KINDS: dict[str, Callable[[RandomGraph], None]] = {
    "single": single,
    "several": several,
    "quantized": quantized,
    "open": open_sizes,
    "open-chain": onnx_open.open_chain,
    "control": control,
    "contrib": contrib,
    "edge": edge,
}

EXCEPTIONS = onnx_operators_rest.EXCEPTIONS | onnx_contrib.EXCEPTIONS
"""Maps operators that the importer supports but random graphs do not contain to the reason."""

__all__ = ["EXCEPTIONS", "KINDS", "RECORDS", "RandomGraph"]
