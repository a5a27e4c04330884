"""
Computes the expected results of a node by onnxruntime without optimizations, or by onnx's
evaluator.

For narrow floats, onnxruntime has no kernels for most operators. Such a node runs in f32, and its
results are rounded once. This is closer to the definition than rounding at each step. In case of
doubt ONNX's definition in f64 decides: operators are expanded to the functions that define them.
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

FLOAT, DOUBLE = 1, 11
"""ONNX's type ids of f32 and f64."""

FLOATS = (FLOAT, 10, 16)
"""ONNX's type ids of f32, f16 and bf16."""

TYPE_ATTRIBUTES = ("to", "dtype", "stash_type")
"""Attributes that give the type of the result."""

NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class NotComputed(Exception):
    """Error for a node that no reference supports. The node is then drawn again."""


def tensor_type(array: Array) -> int:
    """Returns ONNX's id of an array's element type."""
    return import_module("onnx.helper").np_dtype_to_tensor_dtype(array.dtype)


def model_of(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Array],
    opset: int,
) -> Any:
    """Returns a model of the nodes."""
    helper, numpy_helper = import_module("onnx.helper"), import_module("onnx.numpy_helper")
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "random", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset)]
    if any(node.domain == CONTRIB for node in nodes):
        opsets.append(helper.make_opsetid(CONTRIB, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def evaluated(node: Any, given: dict[str, Array], opset: int) -> list[Array]:
    """
    Returns the results of a single node, as the reference computes them. Raises `NotComputed`.
    """
    helper = import_module("onnx.helper")
    inputs = [helper.make_tensor_value_info(n, tensor_type(a), a.shape) for n, a in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    return run_model(model_of([node], inputs, outputs, {}, opset), given)


def run_model(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """
    Returns a model's results. They are computed by onnxruntime, or by another reference if
    onnxruntime lacks kernels.

    Raises `NotComputed` if no reference supports the model.
    """
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
    """Returns a model's results. Chooses the reference for each node separately."""
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
    """Runs a node on narrow floats in f32, and rounds its results to the narrow type."""
    (node,) = model.graph.node
    if node.op_type in ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear"):
        raise NotComputed("f32 operands would change the result of a conversion")
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
    """Returns the results of onnx's own evaluator. Raises `NotComputed`."""
    evaluator = import_module("onnx.reference").ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(result) for result in evaluator(model).run(None, dict(given))]
        typed = import_module("onnx.shape_inference").infer_shapes(model)
    except Exception as error:
        raise NotComputed(str(error)) from error
    return [_as_declared(a, v) for a, v in zip(arrays, typed.graph.output, strict=True)]


def run_definition(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """
    Returns a model's results by ONNX's definitions in f64, rounded once. Raises `NotComputed`.

    Operators that ONNX defines as functions are expanded, so that faster formulas and intermediate
    roundings have no effect. Integers wrap as their types require.
    """
    make_value = import_module("onnx.helper").make_tensor_value_info
    try:
        inliner: Any = import_module("onnx.inliner").inline_selected_functions
        typed = import_module("onnx.shape_inference").infer_shapes(model)
        constants = [make_value(t.name, t.data_type, t.dims) for t in model.graph.initializer]
        typed.graph.value_info.extend(constants)
        # The inliner does not know the type of a constant inside a function.
        but = [("", "CastLike")]
        expanded = inliner(typed, but, exclude=True, inline_schema_functions=True)
        _widen(expanded.graph)
    except Exception as error:
        raise NotComputed(str(error)) from error
    wide = {n: a.astype(np.float64) if _is_float(a) else a for n, a in given.items()}
    arrays = _run_nodes(expanded, wide)
    to_dtype = import_module("onnx.helper").tensor_dtype_to_np_dtype
    with np.errstate(all="ignore"):
        return [
            array.astype(to_dtype(value.type.tensor_type.elem_type)) if _is_float(array) else array
            for array, value in zip(arrays, typed.graph.output, strict=True)
        ]


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype in NARROW


def _widen(graph: Any) -> None:
    to_array, from_array = (
        getattr(import_module("onnx.numpy_helper"), name) for name in ("to_array", "from_array")
    )
    make_attribute = import_module("onnx.helper").make_attribute

    def widen(tensor: Any) -> None:
        if tensor.data_type in FLOATS:
            tensor.CopyFrom(from_array(to_array(tensor).astype(np.float64), tensor.name))

    for tensor in graph.initializer:
        widen(tensor)
    for attribute in (a for node in graph.node for a in node.attribute):
        if attribute.HasField("t"):
            widen(attribute.t)
        if attribute.name in ("value_float", "value_floats"):
            floats = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            attribute.CopyFrom(make_attribute("value", from_array(np.asarray(floats, np.float64))))
        if attribute.name in TYPE_ATTRIBUTES and attribute.i in FLOATS:
            attribute.i = DOUBLE


def _as_declared(array: Array, value: Any) -> Array:
    """
    Converts integers to the declared type, because the evaluator returns sums of a wider type.
    """
    number = value.type.tensor_type.elem_type
    if array.dtype.kind not in "iu" or not number:
        return array
    return array.astype(import_module("onnx.helper").tensor_dtype_to_np_dtype(number))


def run_onnxruntime(model: Any, given: Mapping[str, Array]) -> list[Array]:
    """Returns onnxruntime's results without optimizations. Raises `NotComputed`."""
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
