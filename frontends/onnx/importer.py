"""
Imports an ONNX model as a function of `linalg` on tensors.

The arguments of the function are the model's inputs, then its weights. Every operation has the
location of its node.
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
    Imports an ONNX file, or a `ModelProto`.

    - `dims`: sizes of dynamic input dimensions by name (`batch`, or `x.0` for the first dimension
      of the input `x`); None keeps a dimension dynamic. If the value of an integer input
      determines sizes, None for its name makes the input a dynamic size.
    - `shapes`: the shapes of whole inputs
    - `dynamic`: keep all other dimensions dynamic
    - `constants`: values of inputs; required for inputs that determine shapes
    - `context`: turn values that each run passes to the next into states with room for this many
      tokens; the functions are then `prefill` and `decode`
    - `state`: maps an input to its next value, an output, if the names do not show the pair

    Raises `FrontendError` for a file that is not a model, for dimensions without a size, and for
    nodes that cannot be imported.
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
    """Imports a graph whose dynamic dimensions are decided; `sizes` names inputs that set sizes."""
    declare(nodes, onnx_file.inputs_of(nodes.model), sizes)
    import_nodes(nodes, weights)


def _finish_model(nodes: Nodes) -> ImportedModel:
    inputs = {value.name: nodes.values[value.name] for value in onnx_file.inputs_of(nodes.model)}
    results = results_of(nodes)
    function = function_of(nodes, FUNCTION, inputs, results)
    given = [value_of(name, t) for name, t in inputs.items()]
    outputs = [value_of(name, t) for name, t in results.items()]
    return ImportedModel(ModuleOp([function]), nodes.weights, given, outputs, nodes_of(nodes))
