"""Products with parts of a tensor that data select are right if a dimension has one index."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_spirv.compiler import compile
from xdsl_spirv.frontends.blocks import FORMATS
from xdsl_spirv.frontends.experts import Matrices
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F16, F32, I32, Tensor
from xdsl_spirv.runtime import run
from xdsl_spirv.testing.packed_planes import numbers, planes_of


@pytest.mark.parametrize(
    ("shape", "rows", "path"),
    [
        # One expert of each of two tokens; one block of 32 tokens; one block of few tokens.
        ((2, 1), (), "rows"),
        ((1,), (32,), "cooperative-matrix"),
        ((1,), (2,), "rows"),
    ],
)
def test_a_dimension_of_one_index_selects_a_part(
    shape: tuple[int, ...], rows: tuple[int, ...], path: str
) -> None:
    format, parts, n, k = FORMATS["MXFP4"], 5, 32, 64
    stored = planes_of(format, parts * n, k)
    planes = {p: array.reshape(parts, n, *array.shape[1:]) for p, array in stored.items()}
    entry = Block()
    b = TensorBuilder(entry)
    x, chosen = Tensor(F32, [shape[0], *rows, k]), Tensor(I32, [*shape])
    tensors = {p: Tensor.of(array) for p, array in planes.items()}
    for t in (x, chosen, *tensors.values()):
        t.value = entry.insert_arg(t.type, len(entry.args))
    product = b.value(Matrices(tensors, format).multiply(b, x, chosen, F16))
    entry.add_op(ReturnOp(product))
    type = FunctionType.from_lists([a.type for a in entry.args], [product.type])
    program = compile(ModuleOp([FuncOp("main", type, Region(entry))]), "nvidia-h200")
    assert program.layers[-1].path == path
    values = np.random.default_rng(0).normal(0, 1, (shape[0], *rows, k)).astype(np.float32)
    own = np.array([3, 1][: prod(shape)], np.int32).reshape(shape)
    names = [buffer.name for buffer in program.manifest.inputs]
    given = dict(zip(names, (values, own, *planes.values()), strict=True))
    (result,) = run(program, given).values()
    matrices = numbers(format, stored).reshape(parts, n, k)[own.ravel()]
    lines = values.reshape(prod(shape), -1, k).astype(np.float64)
    columns = matrices.swapaxes(1, 2)
    exact, bound = lines @ columns, abs(lines) @ abs(columns)
    assert (abs(result.reshape(exact.shape) - exact) <= 2.0**-9 * bound).all()
