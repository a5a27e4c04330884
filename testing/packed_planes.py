"""
Block-quantized weights for tests: random data of a format, and the weights that the data
represents.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_spirv.frontends.blocks import BlockFormat, dequantize
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F32, Tensor
from xdsl_spirv.interpreter import reference

Array = np.ndarray[Any, np.dtype[Any]]


def planes_of(format: BlockFormat, rows: int, columns: int) -> dict[str, Array]:
    """
    Returns the arrays (planes) of a format with random contents and small scales. f8 scales are far
    from the ends of the range.
    """
    random = np.random.default_rng(rows)
    arrays: dict[str, Array] = {}
    for name, plane in format.planes.items():
        shape = rows, columns // format.size, *format.sizes(name)
        if plane.element.is_float:
            arrays[name] = random.normal(0, 0.1, shape).astype(plane.element.dtype)
        else:
            # A scale of one byte is an exponent with the bias of f32.
            least, most = (0, 256) if plane.loops else (134, 142)
            if (format.name, name) == ("NVFP4", "d"):
                least, most = 16, 48
            bytes = random.integers(least, most, prod(shape), np.uint8)
            arrays[name] = bytes.view(plane.element.dtype).reshape(shape)
    return arrays


def numbers(format: BlockFormat, planes: dict[str, Array]) -> Array:
    """Returns the dequantized weights. test_blocks.py compares them with gguf."""
    entry = Block()
    b = TensorBuilder(entry)
    tensors = {name: Tensor.of(array) for name, array in planes.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    result = b.value(dequantize(b, format, tensors, F32))
    entry.add_op(ReturnOp(result))
    type = FunctionType.from_lists([a.type for a in entry.args], [result.type])
    module = ModuleOp([FuncOp("main", type, Region(entry))])
    return reference(module, list(planes.values()))[0].astype(np.float64)
