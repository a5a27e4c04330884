"""Small ONNX models, and skips that name a missing package."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto


@pytest.fixture(scope="session")
def onnx() -> ModuleType:
    """Returns the package `onnx`. Skips if onnx or onnxruntime is not installed."""
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed (pip install '.[onnx]' onnxruntime)")
    return import_module("onnx")


class Builder:
    """A builder of models with a few nodes."""

    def __init__(self, onnx: ModuleType):
        self.onnx = onnx
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        name = attributes.pop("name", f"my_{kind}_{len(self.nodes)}")
        made = self.onnx.helper.make_node(kind, inputs, [output], name=name, **attributes)
        self.nodes.append(made)
        return output

    def constant(self, name: str, array: Array | np.generic) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def model(
        self,
        inputs: dict[str, tuple[str, list[Any]]],
        outputs: dict[str, tuple[str, list[Any]]],
        opset: int = 17,
    ) -> ModelProto:
        def values(of: dict[str, tuple[str, list[Any]]]) -> list[ValueInfoProto]:
            types = self.onnx.TensorProto
            return [
                self.onnx.helper.make_tensor_value_info(name, getattr(types, type), shape)
                for name, (type, shape) in of.items()
            ]

        graph = self.onnx.helper.make_graph(
            self.nodes, "g", values(inputs), values(outputs), self.constants
        )
        opsets = [self.onnx.helper.make_opsetid("", opset)]
        return self.onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture
def build(onnx: ModuleType) -> Builder:
    """Returns a builder of an empty model."""
    return Builder(onnx)
