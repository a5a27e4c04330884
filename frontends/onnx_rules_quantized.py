"""
Quantization with a scale for each channel or block, where torch-mlir lacks it or has it wrong.

    QuantizeLinear(x, s, z)     Clip(Round(x / s) + z)
    DequantizeLinear(q, s, z)   (q - z) * s
    QuantizeLinear(x, s)        QuantizeLinear(x, s, 0)

torch-mlir extends the unsigned zero points of channels by their highest bit.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule
from xdsl_spirv.frontends.onnx_narrow import spread

Attributes = dict[str, Any]


def quantize(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Scales that are no constants, or of blocks; and 16 bits, which torch-mlir dies of."""
    x, scale = node.input[:2]
    zero = node.input[2] if len(node.input) > 2 else ""
    size, kind = attributes.get("block_size", 0), graph.type(node.output[0])
    shape = graph.shape(scale)
    types = graph.onnx.TensorProto
    limits = {
        types.UINT8: (0, 255),
        types.INT8: (-128, 127),
        types.UINT16: (0, 65535),
        types.INT16: (-32768, 32767),
    }
    if shape is None or kind is None or kind not in limits or graph.shape(x) is None:
        return False
    is_unsigned = kind == types.UINT8
    of_channels = shape not in ((), (1,)) and (is_unsigned or graph.value(scale) is None)
    if not (size or of_channels or kind in (types.UINT16, types.INT16)):
        return False
    axis = attributes.get("axis", 1)
    wide = graph.cast(x, types.FLOAT)
    ratio = graph.add("Div", [wide, graph.cast(spread(graph, x, scale, axis, size), types.FLOAT)])
    moved = graph.add("Round", [ratio])
    if zero:
        number = graph.cast(zero, types.FLOAT)
        moved = graph.add("Add", [moved, spread(graph, x, number, axis, size, zero)])
    ends = [graph.scalar_of(float(each), types.FLOAT) for each in limits[kind]]
    clipped = graph.add("Clip", [moved, *ends])
    # Not from a float to few bits without sign, which importers take to be signed.
    graph.cast(graph.cast(clipped, types.INT32), kind, node.output[0])
    return True


def dequantize(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Scales of blocks, and zero points of channels without a sign."""
    x, scale = node.input[:2]
    zero = node.input[2] if len(node.input) > 2 else ""
    size, shape = attributes.get("block_size", 0), graph.shape(scale)
    types = graph.onnx.TensorProto
    result = graph.type(node.output[0])
    if shape is None or graph.shape(x) is None or result is None:
        return False
    unsigned = bool(zero) and graph.type(zero) in (types.UINT8, types.UINT16)
    if not (size or (unsigned and shape not in ((), (1,)) and _large(graph, zero))):
        return False
    axis = attributes.get("axis", 1)
    number = graph.cast(x, types.FLOAT)
    if zero:
        origin = graph.cast(zero, types.FLOAT)
        number = graph.add("Sub", [number, spread(graph, x, origin, axis, size, zero)])
    factor = graph.cast(spread(graph, x, scale, axis, size), types.FLOAT)
    graph.cast(graph.add("Mul", [number, factor]), result, node.output[0])
    return True


def _large(graph: Graph, zero: str) -> bool:
    """Whether a zero point has its highest bit, as far as is known."""
    value = graph.value(zero)
    return value is None or bool((value >> (8 * value.itemsize - 1)).any())


def with_zero(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A zero point of zero, where it is left out."""
    import numpy as np

    if len(node.input) > 2 and node.input[2]:
        return False
    types = graph.onnx.TensorProto
    kind = graph.type(node.output[0] if node.op_type == "QuantizeLinear" else node.input[0])
    shape = graph.shape(node.input[1])
    if shape is None or kind not in (types.UINT8, types.INT8, types.INT32):
        return False
    zero = graph.constant(np.zeros(shape, graph.onnx.helper.tensor_dtype_to_np_dtype(kind)))
    graph.add(node.op_type, [*node.input[:2], zero], node.output[0], **attributes)
    return True


ZEROS: dict[str, Rule] = dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), with_zero)

RULES: dict[str, Rule] = {"QuantizeLinear": quantize, "DequantizeLinear": dequantize}
