"""Splits a random graph into single nodes with their operands, and prints graphs as programs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import numpy as np

from xdsl_spirv.testing.differential.onnx_graphs import RandomGraph, assemble_model
from xdsl_spirv.testing.differential.onnx_references import Array

SCRIPT = '''\
import numpy as np, onnx, onnxruntime
from onnx import parser
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.onnx.importer import import_onnx

model = onnx.ModelProto.FromString(bytes.fromhex("""{model}"""))
print(onnx.printer.to_text(model))
inputs = {{{inputs}}}
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
print("wanted", session.run(None, inputs))
print("computed", run_reference(import_onnx(model), inputs))
'''


def alone(graph: RandomGraph) -> Iterator[RandomGraph]:
    """
    Yields every node of a graph as a separate graph. Its operands become inputs unless they are
    constants.
    """
    for node in graph.nodes:
        part = RandomGraph(graph.rng, graph.prefix, graph.opset)
        for name in node.input:
            if name in graph.constants:
                part.constants[name] = graph.constants[name]
            elif name:
                part.inputs[name] = graph.inputs.get(name, graph.results.get(name, np.empty(0)))
        part.nodes = [node]
        part.results = {name: graph.results[name] for name in node.output if name}
        if not any(a.HasField("g") for a in node.attribute):
            yield part


def script(graph: RandomGraph) -> str:
    """Returns a program that prints a graph's expected and actual results."""
    printer = import_module("onnx.printer")
    comment = "\n".join(
        f"# {line}" for line in printer.to_text(assemble_model([graph])).splitlines()
    )
    inputs = ",\n    ".join(f"{name!r}: {_literal(array)}" for name, array in graph.inputs.items())
    text = SCRIPT.format(model=assemble_model([graph]).SerializeToString().hex(), inputs=inputs)
    return f"{comment}\n{text}"


def _literal(array: Array) -> str:
    data = np.ascontiguousarray(array).tobytes().hex()
    return (
        f"np.frombuffer(bytes.fromhex({data!r}), np.dtype({array.dtype.name!r}))"
        f".reshape({array.shape})"
    )
