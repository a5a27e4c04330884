"""
Imports an ONNX model as a function of `linalg` on tensors, without another process.

The function takes the model's inputs, then its weights; every operation has the location of the
node that it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.model import FUNCTION, ImportedModel
from xdsl_spirv.frontends.onnx import operators
from xdsl_spirv.frontends.onnx.functions import (
    declare,
    function_of,
    import_nodes,
    nodes_of,
    results_of,
    value_of,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.session_import import import_session
from xdsl_spirv.frontends.onnx.sessions import head_size_beside, session_of
from xdsl_spirv.frontends.onnx.values import Array
from xdsl_spirv.frontends.onnx.weights import Weights
from xdsl_spirv.upstream.collection import without_collection

operators.load()


@without_collection()
def import_onnx(
    model: str | os.PathLike[str] | Any,
    dims: Mapping[str, int | None] | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, ArrayLike] | None = None,
    dynamic: bool = False,
    context: int | None = None,
    state: Mapping[str, str] | None = None,
    weights: Mapping[str, Array] | None = None,
) -> ImportedModel:
    """
    Import an ONNX file, or a `ModelProto`.

    `dims` gives dynamic input dimensions their sizes by name (`batch`, or `x.0` for the first of
    the input `x`); `shapes` does so by whole inputs. Dimensions whose size is None stay dynamic;
    with `dynamic`, all others do, too. An integer input that determines sizes becomes a dynamic
    size itself if `dims` gives it as None. `constants` gives inputs their values, which inputs need
    on which shapes depend.

    With `context`, values that each run passes to the next become states, with room for that many
    tokens. `state` maps such inputs to their outputs if their names do not show it (see
    `sessions`). The model's functions are then `prefill` and `decode`.

    Raises `FrontendError` for a file that is not a model, for dimensions without a size, and for
    nodes that cannot be imported, naming the node.
    """
    if isinstance(model, str | os.PathLike):
        proto, held = onnx_file.read_model(model)
    else:
        proto, held = onnx_file.checked_model(model, "the model", arrays=weights)
    onnx_file.fix_inputs(proto, constants or {})
    sizes = onnx_file.size_inputs(proto, dims or {})
    given = {name: size for name, size in (dims or {}).items() if name not in sizes}
    onnx_file.fix_dimensions(proto, given, shapes)
    onnx_file.name_nodes(proto)
    session = session_of(proto, context, state)
    if session is not None:
        return import_session(proto, held, session, sizes, head_size_beside(model))
    if not dynamic:
        kept = [name for name, size in given.items() if size is None]
        onnx_file.refuse_open_dimensions(proto, kept)
    nodes = Nodes(Block(), proto)
    import_graph(nodes, held, sizes)
    return _finish_model(nodes)


def import_graph(nodes: Nodes, weights: Weights, sizes: Collection[str] = ()) -> None:
    """
    Imports the graph of a model whose dynamic dimensions are decided; `sizes` names inputs that are
    sizes.
    """
    declare(nodes, onnx_file.inputs_of(nodes.model), sizes)
    import_nodes(nodes, weights)


def _finish_model(nodes: Nodes) -> ImportedModel:
    """Makes the function of imported nodes, with its interface."""
    inputs = {value.name: nodes.values[value.name] for value in onnx_file.inputs_of(nodes.model)}
    results = results_of(nodes)
    function = function_of(nodes, FUNCTION, inputs, results)
    given = [value_of(name, t) for name, t in inputs.items()]
    outputs = [value_of(name, t) for name, t in results.items()]
    return ImportedModel(ModuleOp([function]), nodes.weights, given, outputs, nodes_of(nodes))
