"""
Matches onnxruntime's intermediate values with results of dispatches.

The intermediate tensors of an ONNX file become additional outputs. A dispatch's result matches a
tensor if the last operation of a node computes it (`Layer.ends`) and shape and type are equal. A
result that was transposed, packed or offset by 128 has no counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_spirv.compare.onnxruntime import exact_session
from xdsl_spirv.frontends.model import Node
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.layers import Layer

Theirs = dict[tuple[int, int], tuple[str, Array]]
"""(tensor name, values) by (layer index, result index)."""


def onnxruntime_values(
    path: str | os.PathLike[str] | bytes,
    inputs: Mapping[str, Array],
    nodes: Sequence[Node],
    layers: Sequence[Layer],
) -> Theirs:
    """
    Returns onnxruntime's values for results of layers. Optimizations are off, since they fuse
    nodes.

    `nodes` are the model's nodes at import. Raises `ProgramError` if onnxruntime refuses the
    model.
    """
    outputs = {node.name: node.outputs[0] for node in nodes if len(node.outputs) == 1}
    names = {
        (number, result): outputs[end]
        for number, layer in enumerate(layers)
        for result, end in enumerate(layer.ends)
        if end in outputs
    }
    known = intermediates(path, inputs, list(names.values()))
    return {at: (name, known[name]) for at, name in names.items() if name in known}


def intermediates(
    path: str | os.PathLike[str] | bytes, inputs: Mapping[str, Array], names: Sequence[str]
) -> dict[str, Array]:
    """Returns the named tensors by name. Names that the main graph does not compute are skipped."""
    onnx: Any = import_module("onnx")
    model = onnx.load_from_string(path) if isinstance(path, bytes) else onnx.load(os.fspath(path))
    computed = {name for node in model.graph.node for name in node.output}
    given = {value.name for value in model.graph.output}
    wanted = [name for name in dict.fromkeys(names) if name in computed]
    if not wanted:
        return {}
    for name in wanted:
        if name not in given:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    arrays = exact_session(model.SerializeToString(), inputs, wanted)
    return dict(zip(wanted, map(np.asarray, arrays), strict=True))
