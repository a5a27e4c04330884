"""
Lists all nodes of a model that the import refuses.

After a refused node, the import continues with placeholders for its results.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_graph
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.values import Tensor
from xdsl_spirv.frontends.onnx.weights import Weights, with_declarations


def refused_nodes(
    path: str | os.PathLike[str],
    dims: Mapping[str, int | None],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, str], frozenset[str]]:
    """
    Returns the reasons for refused nodes by name, and the names of all tried nodes.

    `dims` and `shapes` set the sizes of dynamic dimensions, as in `import_onnx`.
    """
    model, weights = onnx_file.read_model(path)
    onnx_file.fix_dimensions(model, dims, shapes)
    onnx_file.name_nodes(model)
    nodes = _TolerantNodes(Block(), model, weights)
    import_graph(nodes, weights)
    return nodes.reasons, frozenset(nodes.tried)


class _TolerantNodes(Nodes):
    """Imports all nodes whose operand types are known, even after errors."""

    def __init__(self, entry: Block, model: Any, weights: Weights):
        super().__init__(entry, model)
        inferred: Any = import_module("onnx.shape_inference").infer_shapes(
            with_declarations(model, weights)
        )
        self.types = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
        self.reasons: dict[str, str] = {}
        self.tried: set[str] = set()

    def _results(self, node: Any) -> Sequence[Tensor | None]:
        if any(name and name not in self.values for name in node.input):
            return [None] * len(node.output)
        self.tried.add(node.name)
        try:
            return super()._results(node)
        except FrontendError as error:
            self.reasons[node.name] = error.cause
            return [self._stand_in(name) for name in node.output]

    def _stand_in(self, name: str) -> Tensor | None:
        """
        Returns a placeholder of the type that ONNX infers, or None if the inferred type is
        incomplete.
        """
        value = self.types.get(name)
        if value is None or not value.type.tensor_type.HasField("shape"):
            return None
        try:
            element = element_numbered(value.type.tensor_type.elem_type)
        except ValueError:
            return None
        shape = onnx_file.shape_of(value)
        type = TensorType(element.type, [s if s >= 0 else DYNAMIC_INDEX for s in shape])
        argument = self.entry.insert_arg(type, len(self.entry.args))
        sizes: list[Size] = [
            size if size >= 0 else symbol(Extent(argument, i)) for i, size in enumerate(shape)
        ]
        return Tensor(element, sizes, argument)
