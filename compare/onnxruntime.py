"""
Compares a model's results with onnxruntime's, within a tolerance derived from the model.

Both sides round. To first order, and if no layer amplifies a relative error, the largest error of
a result is at most

    2 (sum over contractions of ((K + 1) u + v)  +  4 v * number of other operations) max|result|

u and v are the unit roundoffs of accumulators and result (docs/numerics.md). 4 v is the largest
error of an exponential or another library function of a device. The factor 2 covers both sides.
Integers must be equal. If a model quantizes intermediate values, a value between two steps may be
rounded to either step: see `Tolerance`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation

from xdsl_spirv.compare.bounds import ACCUMULATOR, absolute_errors, unit_roundoff, warning
from xdsl_spirv.compare.steps import result_steps
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import Array, count_not_finite, dtype_of
from xdsl_spirv.runtime.errors import ProgramError

FUNCTION_ULPS = 4
"""Error of a library's exponential, tangent or division, in units in the last place."""

STEP = 2.0**-7
"""Size of a quantization step relative to the largest value, for 8 bits with a sign."""


@dataclass(frozen=True)
class Tolerance:
    """
    The allowed error, relative to a result's largest element, and the operations that cause it.

    `quantized` counts the operations that round to steps. Each may turn a difference in the last
    bit into a difference of a step.
    """

    relative: float
    contractions: int
    others: int
    quantized: int
    results: tuple[float, ...] = ()
    """
    Quantization step of each result, from the model's scales. A value between two steps may be
    rounded to either, so results may differ by one step.
    """

    def __str__(self) -> str:
        steps = f", {self.quantized} roundings to steps" if self.quantized else ""
        return (
            f"{self.relative:.2g} of the largest element "
            f"({self.contractions} contractions, {self.others} other operations{steps})"
        )


def tolerance_of(module: Operation) -> Tolerance:
    """Returns the tolerance for the results of a module on tensors."""
    total, contractions, others, quantized = 0.0, 0, 0, 0
    for op in module.walk():
        if not isinstance(op, LinalgStructuredOperation) or isinstance(op, FillOp):
            continue
        names = [str(t.element_type) for t in op.result_types if isinstance(t, TensorType)]
        quantized += any(isinstance(inner, math.RoundEvenOp) for inner in op.walk())
        try:
            contraction = contraction_of(op)
        except NotAContraction:
            others += 1
            total += FUNCTION_ULPS * max(map(_roundoff, names), default=0.0)
            continue
        contractions += 1
        accumulator = ACCUMULATOR.get(names[0], names[0])
        total += (typical(contraction.k) + 1) * _roundoff(accumulator) + _roundoff(names[0])
    own = result_steps(module) if quantized else ()
    return Tolerance(2 * total + steps(quantized), contractions, others, quantized, own)


def steps(quantized: int) -> float:
    """Returns the error that `quantized` quantizations cause, relative to the largest element."""
    return float(STEP * np.sqrt(quantized))


def _roundoff(name: str) -> float:
    import ml_dtypes

    if not name.startswith(("f", "bf")):
        return 0.0
    return unit_roundoff(ml_dtypes.finfo(dtype_of(name)))


@dataclass(frozen=True)
class Difference:
    """A result's largest difference from onnxruntime's result, and the allowed difference."""

    name: str
    max_abs: float
    allowed: float
    cosine: float
    """Cosine similarity of the finite elements, NaN if there are none."""
    not_finite: int = 0

    @property
    def passed(self) -> bool:
        return self.max_abs <= self.allowed

    def __str__(self) -> str:
        verdict = "within" if self.passed else "BEYOND"
        return (
            f"{self.name}: max abs error {self.max_abs:.3g}, {verdict} {self.allowed:.3g}; "
            f"cosine {self.cosine:.8f}{warning(self.not_finite)}"
        )


def differences(
    results: Mapping[str, Array], expected: Mapping[str, Array], tolerance: Tolerance
) -> list[Difference]:
    """Compares every result with the expected result. Another shape gives an infinite error."""
    own = tolerance.results or (0.0,) * len(results)
    return [
        difference(name, results[name], expected[name], tolerance, step)
        for name, step in zip(results, own, strict=True)
    ]


def difference(
    name: str, computed: Array, truth: Array, tolerance: Tolerance, step: float = 0.0
) -> Difference:
    """
    Compares the result `computed` with the expected result `truth`. A result may always differ by
    one quantization `step`.
    """
    if computed.shape != truth.shape:
        return Difference(name, float("inf"), 0.0, 0.0)
    if computed.size == 0:
        return Difference(name, 0.0, 0.0, 1.0)
    a, b = computed.astype(np.float64).ravel(), truth.astype(np.float64).ravel()
    error = absolute_errors(a, b)
    finite = b[np.isfinite(b)]
    largest = float(np.abs(finite).max(initial=0.0))
    is_integer = truth.dtype.kind in "biu"
    one = 1.0 if is_integer and tolerance.quantized else 0.0
    allowed = one if is_integer else max(tolerance.relative * largest, step)
    both = np.isfinite(a) & np.isfinite(b)
    x, y = a[both], b[both]
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    cosine = float(x @ y) / norms if norms > 0 else 1.0 if both.any() else float("nan")
    return Difference(name, float(error.max()), allowed, cosine, count_not_finite(computed))


def has_onnxruntime() -> bool:
    """True if the package onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


@dataclass(frozen=True)
class Expected:
    """Results of onnxruntime, its configuration in words (`how`), and its run time."""

    results: dict[str, Array]
    how: str
    seconds: float


def run_onnxruntime(
    path: str | os.PathLike[str] | bytes, inputs: Mapping[str, Array], names: Sequence[str]
) -> Expected:
    """
    Runs the model with onnxruntime on the CPU.

    Optimizations are off for models that quantize, because with them results are wrong by up to a
    sixth of the largest element. `how` warns if this processor's kernels saturate sums of two
    products at 16 bits, as they do without VNNI. Raises `ProgramError` if onnxruntime refuses the
    model.
    """
    runtime: Any = import_module("onnxruntime")
    kinds = _kinds(path)
    exact = any("quantize" in k.lower() or _is_integer(k) for k in kinds)
    model = path if isinstance(path, bytes) else os.fspath(path)
    arrays, seconds = _session(model, inputs, names, exact)
    how = f"onnxruntime {runtime.__version__}" + (" without optimizations" if exact else "")
    if any(map(_is_integer, kinds)) and _saturates():
        how += ", whose sums of products of bytes saturate on this processor: they may be wrong"
    results = {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}
    return Expected(results, how, seconds)


def exact_session(model: bytes, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Any]:
    """
    Runs a model without optimizations, and returns the tensors `names`.

    Raises `ProgramError` if onnxruntime refuses the model.
    """
    return _session(model, inputs, names, True)[0]


@stage("running onnxruntime")
def _session(
    model: bytes | str, inputs: Mapping[str, Array], names: Sequence[str], exact: bool
) -> tuple[list[Any], float]:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    if exact:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        start = time.perf_counter()
        arrays = session.run(list(names), dict(inputs))
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ProgramError(
            f"onnxruntime refuses the model: {first}", "", "leave the comparison out: --no-compare"
        ) from error
    return list(arrays), time.perf_counter() - start


def _kinds(path: str | os.PathLike[str] | bytes) -> set[str]:
    onnx: Any = import_module("onnx")
    if isinstance(path, bytes):
        model = onnx.load_from_string(path)
    else:
        model = onnx.load(os.fspath(path), load_external_data=False)
    return {node.op_type for node in model.graph.node}


INTEGER_KINDS = frozenset(
    ("MatMulInteger", "ConvInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm")
)
"""Operators that multiply integers and whose names do not begin with QLinear."""


def _is_integer(kind: str) -> bool:
    return "QLinear" in kind or kind in INTEGER_KINDS


@cache
def _saturates() -> bool:
    """True if onnxruntime computes products of bytes wrongly on this processor."""
    helper: Any = import_module("onnx.helper")
    types: Any = import_module("onnx").TensorProto
    a = np.full((4, 64), 255, np.uint8)
    b = np.full((64, 16), 127, np.int8)
    values = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("a", types.UINT8, a.shape),
            ("b", types.INT8, b.shape),
            ("y", types.INT32, (4, 16)),
        )
    ]
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    graph = helper.make_graph([node], "probe", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    products, _ = _session(model.SerializeToString(), {"a": a, "b": b}, ["y"], True)
    return bool((products[0] != a.astype(np.int32) @ b.astype(np.int32)).any())
