"""
Makes functions of `linalg` on tensors from a graph's inputs, nodes and outputs.

The arguments of a function are the inputs, then weights. Every operation has the location of its
node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, FunctionType, IndexType, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_spirv.dialects.program import FLOATS
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import Node, Value, annotate
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.nodes import MOST_ELEMENTS, Nodes, element_numbered, least_count
from xdsl_spirv.frontends.onnx.values import Listed, Tensor
from xdsl_spirv.frontends.onnx.weights import STRING, Weights, array_of


def import_nodes(nodes: Nodes, weights: Weights) -> None:
    """Imports the nodes and weights of a graph whose inputs are declared."""
    graph = nodes.model.graph
    for tensor in graph.initializer:
        nodes.values[tensor.name] = Tensor.of(array_of(tensor), tensor.name)
    for name in weights.tensors:
        nodes.values[name] = Tensor.of(weights.array(name), name)
    nodes.run(graph.node)


def results_of(nodes: Nodes) -> dict[str, Tensor]:
    """Returns the outputs by name. Raises `FrontendError` for an output of the wrong type."""
    outputs = nodes.model.graph.output
    results = [nodes.values[value.name] for value in outputs]
    _refuse_sequences(outputs, results)
    _refuse_other_types(outputs, results)
    return {value.name: t for value, t in zip(outputs, results, strict=True)}


def function_of(
    nodes: Nodes, name: str, inputs: Mapping[str, Tensor], results: Mapping[str, Tensor]
) -> FuncOp:
    """
    Makes a function from imported nodes. `inputs` are its first arguments, `results` its results.
    """
    tensors = [t for t in nodes.values.values() if not isinstance(t, Listed)]
    floats = [t.element for t in tensors if t.element.is_float]
    widest = max(floats, key=lambda element: element.bits).name if floats else ""
    sizes = {v.name: onnx_file.names_of(v) for v in onnx_file.inputs_of(nodes.model)}
    arguments = [value_of(name, t) for name, t in inputs.items()]
    return write_function(nodes, name, arguments, results, widest, sizes)


def write_function(
    b: TensorBuilder,
    name: str,
    arguments: Sequence[Value],
    results: Mapping[str, Tensor],
    floats: str,
    sizes: Mapping[str, Sequence[str]] | None = None,
    describe: Callable[[str, Tensor], Value] | None = None,
) -> FuncOp:
    """
    Makes a function from the operations that a builder has added. The tensors `results` are
    returned.

    `arguments` describes the arguments except the weights, which come last. `floats` names the
    widest float type, and `sizes` the dynamic sizes of arguments. `describe` replaces `value_of`.
    """
    block = b.entry
    returned = [b.value(t) for t in results.values()]
    block.add_op(ReturnOp(*returned))
    erase_unused(block)
    type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in returned])
    function = FuncOp(name, type, Region(block))
    weights = [value_of(n, Tensor.of(array)) for n, array in b.weights.items()]
    outputs = [(describe or value_of)(n, t) for n, t in results.items()]
    annotate(function, [*arguments, *weights], outputs, sizes)
    if floats:
        function.attributes[FLOATS] = StringAttr(floats)
    return function


def nodes_of(nodes: Nodes) -> list[Node]:
    """Returns the nodes that are computed at run time, not while importing."""
    return [
        Node(n.name, n.op_type, tuple(n.input), tuple(n.output))
        for n in nodes.model.graph.node
        if n.name not in nodes.folded
    ]


def _refuse_sequences(outputs: Sequence[Any], results: Sequence[Tensor]) -> None:
    for value, result in zip(outputs, results, strict=True):
        if isinstance(result, Listed):
            raise FrontendError(
                f"the output {value.name!r} must be a tensor, not {result.kind}",
                f"output {value.name!r}",
                result.remedy,
            )


def _refuse_other_types(outputs: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Raises `FrontendError` for an output whose element type differs from its declaration."""
    for value, result in zip(outputs, results, strict=True):
        declared = onnx_file.element_type(value) if value.type.tensor_type.elem_type else ""
        if declared and declared != result.element.name:
            raise FrontendError(
                f"the output {value.name!r} is declared as {declared}, but computed as "
                f"{result.element}",
                f"output {value.name!r}",
                "correct the declaration, or cast the result",
            )


def declare(nodes: Nodes, inputs: Sequence[Any], numbers: Collection[str] = ()) -> None:
    """
    Adds a function argument for each input. Dynamic sizes with the same name are equal.

    Inputs in `numbers` are integers that determine sizes; callers pass them as numbers.
    """
    named: dict[str, Size] = {}
    for value in inputs:
        if value.name in numbers:
            nodes.values[value.name] = _number(nodes, value)
            continue
        try:
            element = element_numbered(value.type.tensor_type.elem_type)
        except ValueError as error:
            text = value.type.tensor_type.elem_type == STRING
            remedy = (
                "convert the text to numbers on the host, and pass the numbers"
                if text
                else "cast it before"
            )
            raise FrontendError(str(error), f"input {value.name!r}", remedy) from error
        shape = onnx_file.shape_of(value)
        type = TensorType(element.type, [s if s >= 0 else DYNAMIC_INDEX for s in shape])
        argument = nodes.entry.insert_arg(type, len(nodes.entry.args))
        names = onnx_file.names_of(value)
        sizes: list[Size] = []
        for dimension, (size, name) in enumerate(zip(shape, names, strict=True)):
            own: Size = size if size >= 0 else symbol(Extent(argument, dimension, name))
            sizes.append(own if size >= 0 or not name else named.setdefault(name, own))
        nodes.values[value.name] = tensor = Tensor(element, sizes, argument)
        if least_count(tensor) > MOST_ELEMENTS:
            raise FrontendError(
                f"the input {value.name!r} is too large: {tensor}",
                f"input {value.name!r}",
                f"use at most {MOST_ELEMENTS} elements",
            )


def _number(nodes: Nodes, value: Any) -> Tensor:
    """
    Returns the value of an integer input that determines sizes, with its declared type and shape.
    """
    argument = nodes.entry.insert_arg(IndexType(), len(nodes.entry.args))
    known = np.empty([1] * len(onnx_file.shape_of(value)), object)
    known[...] = symbol(Extent(argument, 0, value.name))
    element = element_numbered(value.type.tensor_type.elem_type)
    return Tensor(element, known.shape, known=known)


def value_of(name: str, t: Tensor) -> Value:
    """Describes an argument or result for callers; a size has type `index` and no shape."""
    if t.known is not None and t.numbers is None and t.value is None:
        return Value(name, "index", ())
    return Value(name, t.element.name, tuple(s if isinstance(s, int) else -1 for s in t.sizes))


def erase_unused(block: Block) -> None:
    """Erases operations without users, such as unused shapes and masks."""
    for op in list(reversed(block.ops)):
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                erase_unused(inner)
