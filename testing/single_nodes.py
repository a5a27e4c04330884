"""Models of one ONNX node, for tests of single operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

Array = Any
"""An array. Tests do not need its type information."""


@dataclass
class NodeCase:
    """
    A node. An input of None is omitted. `constant` has the indices of the inputs that are weights.
    """

    operator: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    constant: tuple[int, ...] = ()
    outputs: tuple[int, ...] = (0,)
    """Indices of the node's results that the model returns."""
    expected: Callable[..., Any] | None = None
    """
    Function that computes the result from all inputs. Given if onnxruntime has no kernel for the
    node.
    """
    domain: str = "com.microsoft"
    title: str = ""

    def __str__(self) -> str:
        named = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        return "-".join(filter(None, (self.operator, self.title, named)))[:90].replace(" ", "")

    def model(self) -> Any:
        """Returns the model. Its results have no types yet (`declare_results`)."""
        onnx = import_module("onnx")
        helper, tools = onnx.helper, onnx.numpy_helper
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        outputs = [f"y{i}" if i in self.outputs else "" for i in range(self.outputs[-1] + 1)]
        node = helper.make_node(
            self.operator, names, outputs, name="it", domain=self.domain, **self.attributes
        )
        arrays = {n: x for n, x in zip(names, self.inputs, strict=True) if x is not None}
        weights = {f"x{i}" for i in self.constant}
        graph = helper.make_graph(
            [node],
            "graph",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for n, x in arrays.items()
                if n not in weights
            ],
            [onnx.ValueInfoProto(name=n) for n in outputs if n],
            [tools.from_array(arrays[n], n) for n in sorted(weights)],
        )
        domains = {"": 17, "com.microsoft": 1, self.domain: 1 if self.domain else 17}
        opsets = [helper.make_opsetid(name, version) for name, version in domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def name_inputs(self) -> dict[str, Array]:
        """Returns the inputs of the model by name, without the weights."""
        return {
            f"x{i}": x
            for i, x in enumerate(self.inputs)
            if x is not None and i not in self.constant
        }


def declare_results(model: Any, expected: list[Array]) -> None:
    """Gives a model's results the types and shapes of the arrays `expected`."""
    helper: Any = import_module("onnx.helper")
    names = [value.name for value in model.graph.output]
    del model.graph.output[:]
    for name, array in zip(names, expected, strict=True):
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.output.append(helper.make_tensor_value_info(name, number, array.shape))
