"""
The truth about a node: what onnxruntime computes without optimizations, else onnx's own evaluator.

onnxruntime has no kernels of narrow floats for most operators: such a node runs in f32 and its
results are rounded once, which is nearer to the definition than an evaluator that rounds at each
step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

IR_VERSION = 10

CONTRIB = "com.microsoft"

FLOAT = 1
"""ONNX's number of f32."""

NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class NotComputed(Exception):
    """No reference takes a node: the draw is repeated."""


def tensor_type(array: Array) -> int:
    """ONNX's number of an array's element type."""
    return import_module("onnx.helper").np_dtype_to_tensor_dtype(array.dtype)


def model_of(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Array],
    opset: int,
) -> Any:
    """A model of nodes."""
    helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "random", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset)]
    if any(node.domain == CONTRIB for node in nodes):
        opsets.append(helper.make_opsetid(CONTRIB, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def evaluated(node: Any, given: dict[str, Array], opset: int) -> list[Array]:
    """What the reference computes for a node alone; raises `NotComputed`."""
    helper = import_module("onnx.helper")
    inputs = [helper.make_tensor_value_info(n, tensor_type(a), a.shape) for n, a in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    return run_model(model_of([node], inputs, outputs, {}, opset), given)


def run_model(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """A model's results by the first reference that has its kernels; raises `NotComputed`."""
    narrow = [a.dtype for a in given.values() if a.dtype in NARROW]
    try:
        if ml_dtypes.bfloat16 in narrow:
            raise NotComputed("NOT_IMPLEMENTED")
        return run_onnxruntime(model, given)
    except NotComputed as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
    if len(model.graph.node) > 1:
        return _run_nodes(model, given)
    if narrow:
        try:
            return _run_wide(model, given)
        except NotComputed:
            pass
    return run_evaluator(model, given)


def _run_nodes(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """A model's results, each node by its own reference."""
    to_array = import_module("onnx.numpy_helper").to_array
    values = {t.name: to_array(t) for t in model.graph.initializer} | dict(given)
    (opset,) = (o.version for o in model.opset_import if not o.domain)
    for node in model.graph.node:
        if any(a.HasField("g") for a in node.attribute):
            return run_evaluator(model, given)
        arrays = evaluated(node, {n: values[n] for n in node.input if n}, opset)
        values |= dict(zip(filter(None, node.output), arrays, strict=True))
    return [values[value.name] for value in model.graph.output]


def _run_wide(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """A node of narrow floats in f32; its results of their type are rounded."""
    (node,) = model.graph.node
    if node.op_type in ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear"):
        raise NotComputed("the type matters")
    narrow = next(a.dtype for a in given.values() if a.dtype in NARROW)
    wide = {n: a.astype(np.float32) if a.dtype in NARROW else a for n, a in given.items()}
    copy = type(model)()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        if given[value.name].dtype in NARROW:
            value.type.tensor_type.elem_type = FLOAT
    for value in copy.graph.output:
        value.ClearField("type")
    results = run_onnxruntime(copy, wide)
    with np.errstate(all="ignore"):
        return [r.astype(narrow) if r.dtype == np.float32 else r for r in results]


def run_evaluator(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """What onnx's own evaluator computes; raises `NotComputed`."""
    evaluator = import_module("onnx.reference").ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(result) for result in evaluator(model).run(None, dict(given))]
        typed = import_module("onnx.shape_inference").infer_shapes(model)
    except Exception as error:
        raise NotComputed(str(error)) from error
    return [_as_declared(a, v) for a, v in zip(arrays, typed.graph.output, strict=True)]


def _as_declared(array: Array, value: Any) -> Array:
    """Integers in the type that the definition says: the evaluator's sums are wider."""
    number = value.type.tensor_type.elem_type
    if array.dtype.kind not in "iu" or not number:
        return array
    return array.astype(import_module("onnx.helper").tensor_dtype_to_np_dtype(number))


def run_onnxruntime(model: Any, given: Mapping[str, Array]) -> list[Array]:
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
        return [np.asarray(result) for result in session.run(None, dict(given))]
    except Exception as error:
        raise NotComputed(str(error)) from error
