"""
Which node torch-mlir dies of: each kind of node alone, until one does the same.

A crash leaves no message. Nodes that differ in nothing the importer sees are tried once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_file import save_model

if TYPE_CHECKING:
    from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR

SECONDS = 60.0
"""How long to look."""


def crashing_node(model: Any, worker: TorchMLIR) -> Any | None:
    """The first node of a model that crashes torch-mlir on its own; None if none is found."""
    end = time.monotonic() + SECONDS
    for node, alone in single_nodes(model):
        if time.monotonic() > end:
            return None
        with tempfile.TemporaryDirectory(prefix="xdsl-spirv-onnx-") as name:
            path = Path(name, "model.onnx")
            save_model(alone, path)
            job = {"model": str(path), "simplify": False, "lift": 1 << 30}
            try:
                worker.run(job, Path(name, "out"))
            except FrontendError as error:
                if error.kind == "crash":
                    return node
    return None


def single_nodes(model: Any) -> Iterator[tuple[Any, Any]]:
    """Every distinct node, with a model of it alone; nodes of unknown shapes are left out."""
    for nodes, alone in alone_by_kind(model):
        yield nodes[0], alone


def alone_by_kind(model: Any) -> list[tuple[list[Any], Any]]:
    """
    The nodes that differ in nothing an importer sees, and a model of one of them alone.

    Nodes of unknown shapes are left out.
    """
    onnx: Any = import_module("onnx")
    inferred = import_module("onnx.shape_inference").infer_shapes(model, data_prop=True)
    graph = inferred.graph
    values = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"
    }
    found: dict[bytes, tuple[list[Any], Any]] = {}
    for node in graph.node:
        given = [name for name in node.input if name]
        known = all(name in values or name in constants for name in given)
        if node.op_type == "Constant" or not known or any(o not in values for o in node.output):
            continue
        kept = [constants[name] for name in given if name in constants]
        tensors = [onnx.TensorProto.FromString(t.SerializeToString()) for t in kept]
        for tensor, name in zip(tensors, (n for n in given if n in constants), strict=True):
            tensor.name = name
        key = _key(node, [values[n] for n in given if n in values], tensors)
        if key in found:
            found[key][0].append(node)
            continue
        alone = onnx.helper.make_graph(
            [node],
            "alone",
            [values[name] for name in dict.fromkeys(given) if name not in constants],
            [values[name] for name in node.output],
            tensors,
        )
        made = onnx.helper.make_model(alone, opset_imports=inferred.opset_import)
        made.ir_version = inferred.ir_version
        found[key] = [node], made
    return list(found.values())


def _key(node: Any, values: list[Any], tensors: list[Any]) -> bytes:
    """What the importer sees of a node: everything but names."""
    parts = [node.op_type.encode(), *(a.SerializeToString() for a in node.attribute)]
    parts += [value.type.SerializeToString() for value in values]
    parts += [str((list(t.dims), t.data_type)).encode() for t in tensors]
    return b"|".join(parts)
