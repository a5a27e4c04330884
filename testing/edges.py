"""
Small models of single operators on NaN, infinities and the ends of types.

docs/numerics.md lists the results. Tests run the models on onnxruntime, the interpreter and
devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.program import Program

LARGEST = float(np.finfo(np.float32).max)
NUMBERS = np.array(
    [
        *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, LARGEST, -LARGEST),
        *(2.0**31, -(2.0**31), 2.0**32, 300.0, -300.0, 88.8, -104.0, 1e-30, 7.0, 1e9, 0.25),
    ],
    np.float32,
)
FINITE = NUMBERS[~np.isnan(NUMBERS)]
INTEGERS = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 1000], np.int32)
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, BOOL = 1, 2, 3, 4, 5, 6, 7, 9
FLOAT16, DOUBLE, UINT32, UINT64, BFLOAT16 = 10, 11, 12, 13, 16

with np.errstate(over="ignore"):
    HALVES = np.concatenate([NUMBERS, [65504.0, -65504.0, 2048.0]]).astype(np.float16)
DOUBLES = np.concatenate(
    [NUMBERS.astype(np.float64), [1e300, -1e300, 2.0**53 + 1, 2.0**63, -(2.0**63), 2.0**64]]
)
LARGE = np.concatenate(
    [NUMBERS, np.array([2.0**62, 2.0**63, -(2.0**63), 2.0**64, -0.5, 1e18], np.float32)]
)
"""Floats around the ends of 64-bit integers."""


def ends_of(dtype: str) -> Array:
    """Returns values near the ends of a type, half of the maximum, and small integers."""
    limits = np.iinfo(dtype)
    middle = limits.max // 2
    chosen = (0, 1, 2, 7, limits.max, limits.max - 1, limits.min, limits.min + 1, middle)
    return np.array(chosen, dtype)


@dataclass(frozen=True)
class Edge:
    """
    A node of an operator with edge values as operands. Two operands are given all pairs of values.
    """

    operator: str
    operands: int = 1
    numbers: Array = field(default_factory=lambda: NUMBERS)
    result: int = 0
    """ONNX's type id of the result. 0 means the type of the operands."""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[Array, ...] = ()
    shape: tuple[int, ...] = ()
    """
    Shape of the operand, which repeats the numbers. If it is empty, the operand has one dimension.
    """
    result_shape: tuple[int, ...] = ()
    rtol: float = 0.0
    as_onnxruntime: bool = True

    def inputs(self) -> dict[str, Array]:
        if self.operands == 2:
            first, second = np.meshgrid(self.numbers, self.numbers)
            return {"x": first.ravel(), "y": second.ravel()}
        if self.shape:
            return {"x": np.resize(self.numbers, self.shape)}
        return {"x": self.numbers}

    def model(self) -> Any:
        """Returns a model with the node."""
        onnx: Any = import_module("onnx")
        helper = onnx.helper
        inputs = self.inputs()
        number = helper.np_dtype_to_tensor_dtype(self.numbers.dtype)
        shape = list(next(iter(inputs.values())).shape)
        names = [f"c{n}" for n in range(len(self.constants))]
        node = helper.make_node(self.operator, [*inputs, *names], ["r"], **self.attributes)
        result = helper.make_tensor_value_info(
            "r", self.result or number, list(self.result_shape or shape)
        )
        graph = helper.make_graph(
            [node],
            "edge",
            [helper.make_tensor_value_info(name, number, shape) for name in inputs],
            [result],
            [
                onnx.numpy_helper.from_array(a, n)
                for n, a in zip(names, self.constants, strict=True)
            ],
        )
        opset = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)


FUNCTION = 1e-5
"""Allowed relative difference of functions that devices approximate differently."""

HALF = np.array(0.5, np.float32)
HALF_STEP = 2.0**-9
"""Allowed relative difference of f16 results: the error of two roundings."""

SMALL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1, -1, 0.25, 3, 1e-30], np.float32)
POWERS = np.array([np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, 2, 3, -2, 10, 1e9], np.float32)
MODERATE = np.array([0.5, -0.5, 3, -3, 7.25, -7.25, 100, np.inf], np.float32)
AT_EDGES: Mapping[str, Edge] = {
    **{name: Edge(name) for name in ("Abs", "Neg", "Ceil", "Floor", "Round", "Sign", "Relu")},
    **{name: Edge(name) for name in ("LeakyRelu", "HardSigmoid", "Reciprocal")},
    **{name: Edge(name, rtol=FUNCTION) for name in ("Sqrt", "Exp", "Log", "Sigmoid", "Tanh")},
    **{name: Edge(name, rtol=FUNCTION) for name in ("Softplus", "Erf", "Elu")},
    **{name: Edge(name, 2) for name in ("Add", "Sub", "Mul", "Min", "Max")},
    "Div": Edge("Div", 2, rtol=3e-7),
    **{name: Edge(name, 2, result=BOOL) for name in ("Equal", "Less", "GreaterOrEqual")},
    "Clip": Edge("Clip", constants=(-HALF, np.array(200.0, np.float32))),
    "IsNaN": Edge("IsNaN", result=BOOL),
    "IsInf": Edge("IsInf", result=BOOL),
    "Mod of integers": Edge("Mod", 2, INTEGERS[1:], as_onnxruntime=False),
    "Div of integers": Edge("Div", 2, INTEGERS[1:], as_onnxruntime=False),
    "Cast to uint8": Edge("Cast", result=UINT8, attributes={"to": UINT8}, as_onnxruntime=False),
    "Add of integers": Edge("Add", 2, INTEGERS),
    "Mul of integers": Edge("Mul", 2, INTEGERS),
    "Abs of integers": Edge("Abs", 1, INTEGERS),
    "Cast to int32": Edge("Cast", result=INT32, attributes={"to": INT32}, as_onnxruntime=False),
    "Cast to bool": Edge("Cast", result=BOOL, attributes={"to": BOOL}),
    "ReduceMax": Edge("ReduceMax", shape=(8, 3), result_shape=(8, 1), constants=(np.array([1]),)),
    "ReduceMin": Edge("ReduceMin", shape=(8, 3), result_shape=(8, 1), constants=(np.array([1]),)),
    "ReduceSum": Edge("ReduceSum", shape=(8, 3), result_shape=(8, 1), constants=(np.array([1]),)),
    "Softmax": Edge("Softmax", shape=(6, 4), rtol=FUNCTION),
    "MaxPool": Edge(
        "MaxPool",
        numbers=FINITE,
        shape=(1, 1, 22),
        result_shape=(1, 1, 11),
        attributes={"kernel_shape": [2], "strides": [2]},
    ),
    **{name: Edge(name, 2, result=BOOL) for name in ("LessOrEqual", "Greater")},
    **{name: Edge(name, rtol=FUNCTION) for name in ("Selu", "Celu", "Softsign", "HardSwish")},
    **{name: Edge(name, rtol=FUNCTION) for name in ("Mish", "Gelu", "Atan", "Sinh", "Cosh")},
    **{name: Edge(name, numbers=SMALL, rtol=FUNCTION) for name in ("Sin", "Cos")},
    **{name: Edge(name, numbers=SMALL, rtol=FUNCTION) for name in ("Asin", "Acos", "Atanh")},
    "ThresholdedRelu": Edge("ThresholdedRelu"),
    "PRelu": Edge("PRelu", constants=(np.array(0.25, np.float32),)),
    "Pow": Edge("Pow", 2, POWERS, rtol=FUNCTION),
    "Sum": Edge("Sum", 2),
    "Mean": Edge("Mean", 2),
    "Mod of floats": Edge("Mod", 2, MODERATE, attributes={"fmod": 1}, rtol=1e-6),
    "Clip the wrong way round": Edge("Clip", constants=(HALF, -HALF)),
    "Clip from below": Edge("Clip", constants=(-HALF,)),
    "Clip of halves from below": Edge(
        "Clip", numbers=HALVES, constants=(np.array(-2, np.float16),)
    ),
    "Clip of doubles from below": Edge("Clip", numbers=DOUBLES, constants=(np.array(-2.0),)),
    **{
        f"{name} of halves": Edge(name, numbers=HALVES)
        for name in ("Abs", "Neg", "Ceil", "Floor", "Round", "Relu")
    },
    # onnxruntime returns 0 for NaN in f16, and NaN for other types.
    "Sign of halves": Edge("Sign", numbers=HALVES, as_onnxruntime=False),
    **{
        f"{name} of halves": Edge(name, numbers=HALVES, rtol=HALF_STEP)
        for name in ("Sqrt", "Exp", "Log", "Sigmoid", "Tanh", "Reciprocal")
    },
    **{
        f"{name} of halves": Edge(name, 2, HALVES, rtol=HALF_STEP)
        for name in ("Add", "Sub", "Mul", "Div", "Min", "Max")
    },
    **{f"{name} of halves": Edge(name, 2, HALVES, BOOL) for name in ("Equal", "Less")},
    **{f"{name} of doubles": Edge(name, numbers=DOUBLES) for name in ("Abs", "Neg", "Floor")},
    **{f"{name} of doubles": Edge(name, numbers=DOUBLES) for name in ("Sign", "Relu", "Sqrt")},
    **{f"{name} of doubles": Edge(name, 2, DOUBLES) for name in ("Add", "Mul", "Min", "Max")},
    "Less of doubles": Edge("Less", 2, DOUBLES, BOOL),
    **{
        f"{name} of {dtype}": Edge(name, 2, ends_of(dtype))
        for dtype in ("int8", "uint8", "int64", "uint32", "uint64")
        for name in ("Add", "Sub", "Mul", "Min", "Max")
        # onnxruntime has no 8-bit sums.
        if "8" not in dtype or name in ("Min", "Max")
    },
    **{
        f"Less of {dtype}": Edge("Less", 2, ends_of(dtype), BOOL)
        for dtype in ("int64", "uint32", "uint64")
    },
    **{f"Abs of {dtype}": Edge("Abs", 1, ends_of(dtype)) for dtype in ("int8", "int64")},
    **{f"Neg of {dtype}": Edge("Neg", 1, ends_of(dtype)) for dtype in ("int8", "int64")},
    **{
        f"Cast to {name}": Edge(
            "Cast", numbers=LARGE, result=to, attributes={"to": to}, as_onnxruntime=False
        )
        for name, to in (("int64", INT64), ("uint64", UINT64), ("uint32", UINT32))
    },
    **{
        f"Cast to {name}": Edge("Cast", result=to, attributes={"to": to}, as_onnxruntime=False)
        for name, to in (("int8", INT8), ("int16", INT16), ("uint16", UINT16))
    },
    **{
        f"Cast to {name}": Edge("Cast", result=to, attributes={"to": to})
        for name, to in (("float16", FLOAT16), ("double", DOUBLE))
    },
    **{
        f"Cast {dtype} to float": Edge(
            "Cast", numbers=ends_of(dtype), result=FLOAT, attributes={"to": FLOAT}
        )
        for dtype in ("int8", "int32", "uint32", "int64", "uint64")
    },
    **{
        f"Cast {dtype} to int8": Edge(
            "Cast", numbers=ends_of(dtype), result=INT8, attributes={"to": INT8}
        )
        for dtype in ("uint8", "int32", "uint32", "int64", "uint64")
    },
    "Cast halves to int64": Edge(
        "Cast", numbers=HALVES, result=INT64, attributes={"to": INT64}, as_onnxruntime=False
    ),
    "Cast doubles to int64": Edge(
        "Cast", numbers=DOUBLES, result=INT64, attributes={"to": INT64}, as_onnxruntime=False
    ),
    **{
        name: Edge(name, shape=(8, 3), result_shape=(8, 1), constants=(np.array([1]),), rtol=1e-6)
        for name in ("ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    },
    **{
        name: Edge(
            name,
            numbers=SMALL,
            shape=(6, 2),
            result_shape=(6, 1),
            rtol=FUNCTION,
            constants=(np.array([1]),),
        )
        for name in ("ReduceLogSumExp", "ReduceLogSum")
    },
    "LogSoftmax": Edge("LogSoftmax", shape=(6, 4), rtol=FUNCTION),
    "Hardmax": Edge("Hardmax", numbers=FINITE, shape=(6, 4)),
    "CumSum": Edge("CumSum", numbers=SMALL, shape=(12,), constants=(np.array(0),), rtol=1e-6),
    **{
        name: Edge(
            name,
            numbers=FINITE,
            shape=(8, 3),
            result=INT64,
            result_shape=(8, 1),
            attributes={"axis": 1},
        )
        for name in ("ArgMax", "ArgMin")
    },
    "GlobalMaxPool": Edge(
        "GlobalMaxPool", numbers=FINITE, shape=(1, 2, 12), result_shape=(1, 2, 1)
    ),
    "GlobalAveragePool": Edge(
        "GlobalAveragePool", shape=(1, 4, 6), result_shape=(1, 4, 1), rtol=1e-6
    ),
    "AveragePool": Edge(
        "AveragePool",
        shape=(1, 1, 24),
        result_shape=(1, 1, 12),
        rtol=1e-6,
        attributes={"kernel_shape": [2], "strides": [2]},
    ),
    "MatMul": Edge(
        "MatMul",
        shape=(6, 4),
        result_shape=(6, 2),
        rtol=1e-6,
        constants=(np.array([[1, 0], [2, -1], [0, 0], [0.5, 3]], np.float32),),
    ),
    "QuantizeLinear": Edge(
        "QuantizeLinear", result=UINT8, constants=(HALF, np.array(128, np.uint8))
    ),
    "QuantizeLinear to int8": Edge(
        "QuantizeLinear", result=INT8, constants=(HALF, np.array(3, np.int8))
    ),
    "DequantizeLinear": Edge(
        "DequantizeLinear",
        numbers=ends_of("int8"),
        result=FLOAT,
        constants=(HALF, np.array(-128, np.int8)),
    ),
}


def edge_program(name: str, target: str) -> Program:
    """Returns the compiled model of a case."""
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    return compile_model(import_onnx(AT_EDGES[name].model()), target)


def differences(edge: Edge, result: Array, expected: Array) -> list[str]:
    """Describes the elements in which a driver's result differs. Subnormals may be flushed to 0."""
    tiny = 0.0 if expected.dtype.kind not in "f" else float(np.finfo(expected.dtype).tiny)
    close = np.isclose(result, expected, edge.rtol, tiny, equal_nan=True)
    if expected.dtype.kind in "iu":
        close = result == expected
    operands = [operand.ravel() for operand in edge.inputs().values()]
    return [
        f"{[x[place] for x in operands if x.size == close.size]}, element {place}: "
        f"{result.ravel()[place]}, expected {expected.ravel()[place]}"
        for place in np.flatnonzero(~close.ravel())[:4]
    ]
