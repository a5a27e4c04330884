"""
Converts models to other types: f16 by onnxconverter-common, int8 by onnxruntime's quantizers.

- `tensor`, `channel`: QDQ with unsigned activations and signed weights, scales by tensor or
  channel.
- `signed`: `tensor` with signed activations.
- `dynamic`: activations are quantized at run time.
- `qoperator`: operators on quantized tensors.

All except `dynamic` are calibrated on inputs of the model's domain.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from model_zoo import Inputs, Model

OPSET = 17
"""Opset of all variants, because scales by channel require at least 13."""

VARIANTS = ("f32", "f16", "tensor", "signed", "channel", "dynamic", "qoperator")


def package(name: str) -> Any:
    """Imports an optional package without type information."""
    return import_module(name)


def missing(variant: str) -> str | None:
    """Returns the first missing package of those that a variant needs, or None."""
    from importlib.util import find_spec

    needed = {"f32": (), "f16": ("onnxsim", "onnxconverter_common")}.get(
        variant, ("onnxsim", "onnxruntime", "sympy")
    )
    return next((name for name in needed if find_spec(name) is None), None)


def prepared(model: Model) -> Any:
    """Returns the model in the common opset with folded constants."""
    proto = model.proto()
    version = max(e.version for e in proto.opset_import if e.domain in ("", "ai.onnx"))
    if version < OPSET:
        proto = package("onnx.version_converter").convert_version(proto, OPSET)
    simplified, _ = package("onnxsim").simplify(proto)
    return with_initializers(simplified)


def with_initializers(proto: Any) -> Any:
    """Replaces constants by initializers: quantizers accept no other weights."""
    for node in [node for node in proto.graph.node if node.op_type == "Constant"]:
        if node.attribute[0].name == "value":
            node.attribute[0].t.name = node.output[0]
            proto.graph.initializer.append(node.attribute[0].t)
            proto.graph.node.remove(node)
    return proto


def variant_of(model: Model, variant: str) -> Any:
    """Returns the ONNX model of a variant. f32 is the original file."""
    if variant == "f32":
        return model.proto()
    proto = prepared(model)
    if variant == "f16":
        return half(proto, model.wide)
    return quantized(proto, variant, model.calibration(), model.quantize)


def nudged(proto: Any, seed: int) -> Any:
    """Returns the model with each float parameter moved by at most one unit in the last place."""
    import numpy as np

    tools, types = package("onnx.numpy_helper"), package("onnx").TensorProto
    chance = np.random.default_rng(seed)
    # Scales of a resize determine shapes.
    shapes = {name for node in proto.graph.node if node.op_type == "Resize" for name in node.input}
    copy = package("onnx").ModelProto()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if tensor.data_type == types.FLOAT and tensor.name not in shapes:
            values = tools.to_array(tensor)
            towards = chance.choice(np.array([-np.inf, 0, np.inf], np.float32), values.shape)
            moved = np.where(towards == 0, values, np.nextafter(values, towards))
            tensor.CopyFrom(tools.from_array(moved.astype(np.float32), tensor.name))
    return copy


def half(proto: Any, wide: Sequence[str] = ()) -> Any:
    """Returns the model in f16. Inputs, results and the operators `wide` stay in f32."""
    float16, types = package("onnxconverter_common.float16"), package("onnx").TensorProto
    casts = {node.output[0] for node in proto.graph.node if node.op_type == "Cast"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = [*float16.DEFAULT_OP_BLOCK_LIST, *wide]
        converted = float16.convert_float_to_float16(proto, keep_io_types=True, op_block_list=kept)
    results = {value.name for value in converted.graph.output}
    for number, node in enumerate(converted.graph.node):
        if node.op_type != "Cast":
            continue
        # The converter gives its casts duplicate names and drops existing casts from its list.
        node.name = f"{node.name}_{number}"
        if node.output[0] in casts - results and node.attribute[0].i == types.FLOAT:
            node.attribute[0].i = types.FLOAT16
    return converted


def quantized(proto: Any, variant: str, calibration: list[Inputs], operators: Sequence[str]) -> Any:
    """Returns the model in 8 bits. If `operators` is not empty, only their nodes are quantized."""
    onnx, tools = package("onnx"), package("onnxruntime.quantization")

    class Reader(tools.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(calibration)

        def get_next(self) -> Inputs | None:
            return next(self.left, None)

    logging.getLogger().setLevel(logging.ERROR)
    # The adjustment fails on weights with scales by channel that feed two nodes.
    types: dict[str, Any] = {
        "extra_options": {"QDQDisableWeightAdjustForInt32Bias": True},
        "weight_type": tools.QuantType.QInt8,
        "op_types_to_quantize": list(operators) or None,
        "per_channel": variant in ("channel", "dynamic"),
    }
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-variant-") as name:
        source, target = Path(name, "source.onnx"), Path(name, "target.onnx")
        onnx.save(package("onnx.shape_inference").infer_shapes(proto), source)
        if variant == "dynamic":
            tools.quantize_dynamic(source, target, **types)
        else:
            form = tools.QuantFormat.QOperator if variant == "qoperator" else tools.QuantFormat.QDQ
            byte = tools.QuantType.QInt8 if variant == "signed" else tools.QuantType.QUInt8
            tools.quantize_static(
                source, target, Reader(), quant_format=form, activation_type=byte, **types
            )
        return onnx.load(target)
