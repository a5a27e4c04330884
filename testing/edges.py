"""
Operators on NaN, infinities and numbers at the ends of their types: one small model for each.

docs/numerics.md says what each gives. Tests ask onnxruntime, the interpreter and devices for the
same models, so that a case stands in one place.
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
UINT8, INT32, BOOL = 2, 6, 9


@dataclass(frozen=True)
class Edge:
    """A node of an operator on numbers at edges; with two operands on all pairs of them."""

    operator: str
    operands: int = 1
    numbers: Array = field(default_factory=lambda: NUMBERS)
    result: int = 0
    """ONNX's number of the result's type; 0 for the operands'."""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[Array, ...] = ()
    shape: tuple[int, ...] = ()
    """Of the operand, repeated as often as it takes; without one it is flat."""
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
        """The node as a model."""
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
"""Relative difference of functions that are approximated, each device by its own formula."""

HALF = np.array(0.5, np.float32)
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
}


def edge_program(name: str, target: str) -> Program:
    """The model of a case, compiled."""
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    return compile_model(import_onnx(AT_EDGES[name].model()), target)
