"""
Imports a model with states that persist between runs, as functions that share weights and states.

    func.func @decode(%input_ids: 1x1, %past: index, %k: 1x2x2048x64 {program.state = 1}, weights)

`prefill` takes any number of tokens, `decode` one token. If the number of tokens is fixed, or no
input determines it, there is only one function, `main`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.model import FUNCTION, ImportedModel
from xdsl_spirv.frontends.onnx.functions import (
    declare,
    function_of,
    import_nodes,
    nodes_of,
    results_of,
    value_of,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.scalars import Number
from xdsl_spirv.frontends.onnx.sessions import (
    DERIVED,
    MASK,
    PAST,
    Session,
    fix_session,
    token_input,
)
from xdsl_spirv.frontends.onnx.values import I64, Array, Front, Tensor
from xdsl_spirv.frontends.onnx.weights import Weights
from xdsl_spirv.frontends.states import tie_states

PREFILL, DECODE = "prefill", "decode"


def import_session(
    model: Any,
    weights: Weights,
    session: Session,
    numbers: Collection[str],
    head_size: int | None,
) -> ImportedModel:
    """
    Imports the functions of a model whose states `session` lists.

    `numbers` are the inputs that become size arguments. `head_size` replaces a dynamic head size.
    """
    fix_session(model, session, head_size)
    grows = any(state.axis is not None for state in session.held.values())
    if not grows or onnx_file.shape_of(token_input(model))[1] > 0:
        return _import_functions({FUNCTION: model}, weights, session, numbers)
    one = type(model)()
    one.CopyFrom(model)
    count = token_input(one).type.tensor_type.shape.dim[1]
    count.Clear()
    count.dim_value = 1
    return _import_functions({PREFILL: model, DECODE: one}, weights, session, numbers)


def _import_functions(
    models: Mapping[str, Any], weights: Weights, session: Session, numbers: Collection[str]
) -> ImportedModel:
    functions: list[FuncOp] = []
    values: dict[str, Array] = {}
    first: ImportedModel | None = None
    module = ModuleOp([])
    for name, model in models.items():
        nodes = Nodes(Block(), model)
        fronts: dict[str, Front] = {}
        inputs = _declare(nodes, session, numbers, fronts)
        import_nodes(nodes, weights)
        results = {
            output: _next(nodes, session, fronts, output, t)
            for output, t in results_of(nodes).items()
        }
        _rename(nodes, name, values)
        function = function_of(nodes, name, inputs, results)
        tie_states(function, {name: state.output for name, state in session.held.items()})
        functions.append(function)
        values |= nodes.weights
        first = first or ImportedModel(
            module,
            values,
            [value_of(n, t) for n, t in inputs.items() if n not in session.held],
            [value_of(n, t) for n, t in results.items() if n not in session.outputs],
            nodes_of(nodes),
            function=name,
            functions=tuple(models) if len(models) > 1 else (),
        )
    module.body.block.add_ops(functions)
    assert first is not None
    return first


def _rename(nodes: Nodes, function: str, values: Mapping[str, Array]) -> None:
    """
    Lets functions share equal weights. Renames a weight whose name an earlier function uses for
    other values.
    """
    weights, nodes.weights = nodes.weights, {}
    for name, array in weights.items():
        other = values.get(name, array)
        is_same = other.dtype == array.dtype and np.array_equal(other, array)
        nodes.weights[name if is_same else f"{name}.{function}"] = other if is_same else array


def _declare(
    nodes: Nodes, session: Session, numbers: Collection[str], fronts: dict[str, Front]
) -> dict[str, Tensor]:
    """
    Adds arguments for inputs, the number of past tokens, and states. Returns them by name.

    If a state grows with the tokens, `fronts` gets the filled part of its tensor. Nodes read only
    this part.
    """
    given = onnx_file.inputs_of(nodes.model)
    grows = any(state.axis is not None for state in session.held.values())
    derived = [v for v in given if grows and v.name in DERIVED and len(onnx_file.shape_of(v)) == 2]
    held = [value for value in given if value.name in session.held]
    others = [value for value in given if value not in derived and value not in held]
    declare(nodes, others, numbers)
    inputs = {value.name: nodes.values[value.name] for value in others}
    past: Size = 0
    if grows:
        argument = nodes.entry.insert_arg(IndexType(), len(nodes.entry.args))
        past = symbol(Extent(argument, 0, PAST))
        known = np.empty((), object)
        known[...] = past
        inputs[PAST] = Tensor(I64, (), known=known)
    for value in held:
        declare(nodes, [value])
        inputs[value.name] = whole = nodes.values[value.name]
        axis = session.held[value.name].axis
        if axis is not None:
            fronts[value.name] = nodes.front(nodes.value(whole), whole, past, axis)
    nodes.values |= fronts
    for value in derived:
        length = nodes.values[token_input(nodes.model).name].sizes[1]
        nodes.values[value.name] = _derive_from_past(nodes, value, past, length)
    return inputs


def _derive_from_past(nodes: Nodes, value: Any, past: Size, length: Size) -> Tensor:
    """
    Returns the value of an input that follows from the numbers of tokens: a mask of ones for all
    tokens, or the positions of the `length` new tokens after `past` tokens.
    """
    element = element_numbered(value.type.tensor_type.elem_type)
    if value.name == MASK:
        sizes = [1, past + length]
        t = Tensor(element, sizes, nodes.fill(1, sizes, element))
        t.progression = (1, 0)
        return t
    first = nodes.integer(past)
    t = nodes.mapped(
        lambda s: (s.index(1) + Number(s, first, I64)).to(element), [], [1, length], element
    )
    t.progression = (past, 1)
    return t


def _next(
    nodes: Nodes, session: Session, fronts: Mapping[str, Front], output: str, t: Tensor
) -> Tensor:
    """Returns an output's tensor. For a growing state, returns the whole updated state."""
    state = next((s for s in session.held.values() if s.output == output), None)
    if state is None or state.axis is None:
        return t
    front = fronts[state.input]
    if isinstance(t, Front) and t.state is front.state and t.axis == state.axis:
        return t.whole
    value = nodes.insert_slice(t, front.state, [0] * t.rank)
    return Tensor(t.element, front.whole.sizes, value)
