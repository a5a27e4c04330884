"""Planes and formulas of block formats agree with PyPI's gguf, which is ggml's own numpy code."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_spirv.frontends.blocks import FORMATS, BlockFormat, dequantize
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F32, Tensor
from xdsl_spirv.interpreter import reference
from xdsl_spirv.runtime.elements import Array

ROWS, BLOCKS = 6, 5
SPECIAL = np.array([1, 0x8001, 0x03FF, 0x8400, 0, 0x8000, 0x7BFF], "<u2").view("<f2")
"""Scales: denormal, least normal, zero, greatest."""


def random_blocks(format: BlockFormat) -> Array:
    """Returns rows of random bytes with finite scales, many negative or denormal."""
    random = np.random.default_rng(len(format.name) + format.size)
    assert format.block is not None
    count = ROWS * BLOCKS
    blocks = random.integers(0, 256, (count, format.block.itemsize), np.uint8).view(format.block)
    for name in format.block.names or ():
        if format.block[name] == np.dtype("<f2"):
            scales = random.normal(0, 1, count).astype("<f2")
            scales[: len(SPECIAL)] = SPECIAL
            blocks[name] = random.permutation(scales)[:, None]
    if format.name == "MXFP4":
        blocks["d"] %= 241
    return blocks.view(np.uint8)


def interpreted(format: BlockFormat, planes: dict[str, Array], **options: Any) -> Array:
    entry = Block()
    b = TensorBuilder(entry)
    tensors = {name: Tensor.of(array) for name, array in planes.items()}
    for t in tensors.values():
        t.value = entry.insert_arg(t.type, len(entry.args))
    result = b.value(dequantize(b, format, tensors, F32, **options))
    entry.add_op(ReturnOp(result))
    type = FunctionType.from_lists([a.type for a in entry.args], [result.type])
    module = ModuleOp([FuncOp("main", type, Region(entry))])
    module.verify()
    return reference(module, list(planes.values()))[0]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_equal_the_numbers_of_the_gguf_package(name: str) -> None:
    if find_spec("gguf") is None:
        pytest.skip("gguf is not installed (pip install gguf)")
    format = FORMATS[name]
    blocks = random_blocks(format)
    kind = import_module("gguf.constants").GGMLQuantizationType[name]
    wanted = import_module("gguf.quants").dequantize(blocks, kind).reshape(ROWS, -1)
    numbers = interpreted(format, format.planes_of(blocks, ROWS))
    np.testing.assert_array_equal(numbers, wanted)


def test_a_table_of_several_dimensions_and_its_transpose() -> None:
    format = FORMATS["Q6_K"]
    planes = format.planes_of(random_blocks(format), ROWS)
    rows = interpreted(format, planes)
    split = {name: array.reshape(2, 3, *array.shape[1:]) for name, array in planes.items()}
    np.testing.assert_array_equal(interpreted(format, split), rows.reshape(2, 3, -1))
    np.testing.assert_array_equal(interpreted(format, planes, transposed=True), rows.T)


def test_scales_that_leave_f32_are_refused() -> None:
    blocks = np.zeros(17, np.uint8)
    blocks[0] = 241
    with pytest.raises(FrontendError, match=r"scaled by 2\^114"):
        FORMATS["MXFP4"].planes_of(blocks, 1)


def test_bytes_that_are_not_rows_of_blocks_are_refused() -> None:
    with pytest.raises(
        ValueError, match="35 bytes do not divide into 2 rows of Q4_0 blocks of 18 bytes"
    ):
        FORMATS["Q4_0"].planes_of(np.zeros(35, np.uint8), 2)
