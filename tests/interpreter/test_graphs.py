"""TOSA operators give the results of numpy's functions and of cases from TOSA 1.0's text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv import tosa
from xdsl_spirv.dialects.spirv.graph_arm import GraphOp, GraphOutputsOp
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.graphs import OPERATORS, run_graph
from xdsl_spirv.runtime.elements import Array

ELEMENTS: dict[str, Attribute] = {"float32": f32, "int8": i8, "int32": i32}


def run(
    cls: type[tosa.TosaOp], arrays: list[Array], shape: list[int], to: Attribute, **parameters: Any
) -> Array:
    types = [TensorArmType(a.shape, ELEMENTS[a.dtype.name]) for a in arrays]
    result = TensorArmType(shape, to)
    graph = GraphOp("g", (types, [result]))
    op = cls(graph.body.block.args, result, **parameters)
    graph.body.block.add_ops([op, GraphOutputsOp([op.result])])
    return run_graph(graph, arrays)[0]


def numbers(*shape: int, least: int = -128, most: int = 127, dtype: DTypeLike = np.int8) -> Array:
    return np.random.default_rng(0).integers(least, most, shape, dtype, endpoint=True)


def test_a_convolution_subtracts_the_zero_points():
    x, w, bias = numbers(1, 5, 6, 3), numbers(4, 3, 2, 3), np.arange(4, dtype=np.int32)
    zeros = [np.array([7], np.int8), np.array([-3], np.int8)]
    pad, stride, dilation = [1, 0, 2, 1], [2, 1], [1, 2]
    result = run(
        tosa.TosaConv2DOp, [x, w, bias, *zeros], [1, 2, 7, 4], i32, pad=pad, stride=stride,
        dilation=dilation, acc_type=tosa.AccType.INT32, local_bound=False,
    )  # fmt: skip
    wide = np.zeros((1, 6, 9, 3), np.int64)
    wide[:, 1:, 2:8] = x.astype(np.int64) - 7
    for i, j, o in np.ndindex(2, 7, 4):
        window = wide[0, 2 * i : 2 * i + 3, j : j + 3 : 2]
        assert result[0, i, j, o] == (window * (w[o].astype(np.int64) + 3)).sum() + o


def test_a_transposed_convolution_scatters():
    x, w = numbers(1, 2, 3, 1, dtype=np.int8), numbers(2, 3, 3, 1)
    zeros = [np.zeros(2, np.int32), np.zeros(1, np.int8), np.zeros(1, np.int8)]
    result = run(
        tosa.TosaTransposeConv2DOp, [x, w, *zeros], [1, 4, 8, 2], i32, out_pad=[-1, 0, 1, 0],
        stride=[2, 2], acc_type=tosa.AccType.INT32, local_bound=False,
    )  # fmt: skip
    wide = np.zeros((5, 7, 2), np.int64)
    for i, j in np.ndindex(2, 3):
        wide[2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += (
            int(x[0, i, j, 0]) * w[..., 0].astype(int)
        ).transpose(1, 2, 0)
    assert (result[0, :, 1:] == wide[1:]).all()
    assert not result[0, :, 0].any()


def test_a_mean_leaves_padding_out():
    x, zero = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2, 1), np.zeros(1, np.float32)
    geometry = {"kernel": [2, 2], "stride": [1, 1], "pad": [1, 0, 1, 0]}
    result = run(tosa.TosaAvgPool2DOp, [x, zero, zero], [1, 2, 2, 1], f32,
                 acc_type=tosa.AccType.FP32, **geometry)  # fmt: skip
    assert result.ravel().tolist() == [1.0, 1.5, 2.0, 2.5]
    q, at = numbers(1, 2, 2, 1), np.zeros(1, np.int8)
    mean = run(tosa.TosaAvgPool2DOp, [q, at, at], [1, 1, 1, 1], i8,
               acc_type=tosa.AccType.INT32, kernel=[2, 2], stride=[1, 1], pad=[0] * 4)  # fmt: skip
    assert abs(mean.item() - q.astype(float).mean()) <= 0.5


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(tosa.RoundingMode.SingleRound, [2, -1, 1]), (tosa.RoundingMode.DoubleRound, [2, -2, 1])],
)
def test_a_scale_rounds_once_or_twice(mode: tosa.RoundingMode, expected: list[int]):
    x = np.array([6, -6, 4], np.int32)
    scale = [np.array([1 << 30], np.int32), np.array([32], np.int8)]
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int8)]
    flags = dict.fromkeys(("per_channel", "input_unsigned", "output_unsigned"), False)
    result = run(tosa.TosaRescaleOp, [x, *scale, *zeros], [3], i8, scale32=True,
                 rounding_mode=mode, **flags)  # fmt: skip
    assert result.tolist() == expected


def test_a_resize_samples_rows_and_columns():
    x = np.array([0, 4, 8, 12], np.float32).reshape(1, 2, 2, 1)
    places = [np.array(v, np.int32) for v in ([4, 2, 4, 2], [-1, -1], [1, 1])]
    result = run(tosa.TosaResizeOp, [x, *places], [1, 4, 4, 1], f32, mode=tosa.ResizeMode.Bilinear)
    assert result[0, 0, :, 0].tolist() == [0, 1, 3, 4]
    assert result[0, :, 0, 0].tolist() == [0, 2, 6, 8]


@pytest.mark.parametrize(
    ("cls", "arrays", "shape", "cause"),
    [
        (tosa.TosaAddOp, [np.full(1, 2**31 - 1, np.int32)] * 2, [1], "overflows"),
        (tosa.TosaIntDivOp, [np.ones(1, np.int32), np.zeros(1, np.int32)], [1], "division by zero"),
        (tosa.TosaAddOp, [np.ones((2, 1), np.int32), np.ones((2, 3), np.int32)], [2, 1], "shape"),
    ],
)
def test_undefined_results_are_refused(
    cls: type[tosa.TosaOp], arrays: list[Array], shape: list[int], cause: str
):
    with pytest.raises(InterpreterError, match=cause):
        run(cls, arrays, shape, i32)


def test_every_operator_but_two_is_executed():
    classes = {c for c in vars(tosa).values() if isinstance(c, type) and issubclass(c, tosa.TosaOp)}
    left = {c.name for c in classes - {tosa.TosaOp} - set(OPERATORS)}
    assert left == {"spirv.Tosa.FFT2D", "spirv.Tosa.RFFT2D"}
