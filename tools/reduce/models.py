"""
Defines edits that make an ONNX model smaller: they remove nodes, attributes and stored tensors.

A tensor without a producer becomes an input, and a tensor without a reader becomes an output.
ONNX's shape inference supplies their types. If a type is unknown, the edit is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.reduce.searching import Case, Edits


def load(path: str) -> bytes:
    """Reads a model's file with all weights. Raises `ProgramError` if it cannot be read."""
    try:
        import onnx
    except ImportError as error:
        remedy = "pip install 'xdsl-spirv[onnx]'"
        raise ProgramError("onnx is not installed", path, remedy) from error
    try:
        data = onnx.load(path).SerializeToString()
        _parse(data)
    except OSError:
        raise
    except Exception as error:
        cause = f"the model cannot be read: {error}"
        raise ProgramError(cause, path, "give an ONNX file of less than 2 GiB") from error
    return data


@lru_cache(maxsize=2)
def _parse(data: bytes) -> tuple[Any, dict[str, Any]]:
    """Returns a model, and the declarations of all tensors with known types by name."""
    import onnx

    model = onnx.load_from_string(data)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    known = {one.name: one for one in (*inferred.value_info, *inferred.input, *inferred.output)}
    for tensor in model.graph.initializer:
        known.setdefault(
            tensor.name,
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)),
        )
    return model, known


def _reads(node: Any) -> Iterator[str]:
    """Yields the names of tensors that a node and its subgraphs read."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (one.name for one in graph.output)


def _rebuild(case: Case, kept: Sequence[Any], stored: set[str]) -> Case | None:
    """
    Makes a model from the nodes `kept` and the tensors `stored`. Returns None if a type is unknown.
    """
    import onnx

    model, known = _parse(case.data)
    old = model.graph
    made = {name for node in kept for name in node.output if name}
    read = {name for node in kept for name in _reads(node)}
    before = {one.name for one in old.input} | {t.name for t in old.initializer}
    before |= {name for node in old.node for name in node.output}
    needed = [n for n in dict.fromkeys(n for node in kept for n in _reads(node))
              if n in before and n not in made and n not in stored]  # fmt: skip
    ends = [one.name for one in old.output if one.name in made]
    optional = {name for node in kept for name in node.output[1:]}
    more = [n for node in kept for n in node.output if n and n not in read and n not in ends]
    ends += [n for n in more if n in known or n not in optional]
    if not kept or not ends or any(name not in known for name in (*needed, *ends)):
        return None
    smaller = onnx.ModelProto()
    smaller.CopyFrom(model)
    graph = smaller.graph
    del graph.node[:], graph.initializer[:], graph.input[:], graph.output[:]
    del graph.value_info[:], graph.quantization_annotation[:]
    graph.node.extend(kept)
    graph.initializer.extend(t for t in old.initializer if t.name in stored & read)
    graph.input.extend(known[name] for name in needed)
    graph.output.extend(known[name] for name in ends)
    return replace(case, data=smaller.SerializeToString(deterministic=True))


Part = tuple[int | str, ...]
"""
A removable part: a node index; a node index with an attribute's name or an input's index; or a
stored tensor's name.
"""


def _nodes(case: Case) -> list[Part]:
    return [(k,) for k in reversed(range(len(_parse(case.data)[0].graph.node)))]


def _tensors(case: Case) -> list[Part]:
    return [(tensor.name,) for tensor in _parse(case.data)[0].graph.initializer]


def _attributes(case: Case) -> list[Part]:
    nodes = _parse(case.data)[0].graph.node
    return [(k, one.name) for k, node in enumerate(nodes) for one in node.attribute]


def _operands(case: Case) -> list[Part]:
    """Returns the inputs of nodes, last nodes first."""
    nodes = _parse(case.data)[0].graph.node
    return [(k, i) for k, n in enumerate(nodes) for i in reversed(range(1, len(n.input)))]


def _leave_out(case: Case, chosen: Sequence[Part]) -> Case | None:
    """Makes the model without some nodes, attributes, inputs or stored tensors."""
    import onnx

    graph, gone = _parse(case.data)[0].graph, set(chosen)
    stored = {tensor.name for tensor in graph.initializer if (tensor.name,) not in gone}
    kept: list[Any] = []
    for k, node in enumerate(graph.node):
        if (k,) in gone:
            continue
        smaller = onnx.NodeProto()
        smaller.CopyFrom(node)
        del smaller.attribute[:], smaller.input[:]
        smaller.attribute.extend(one for one in node.attribute if (k, one.name) not in gone)
        names = ["" if (k, i) in gone else name for i, name in enumerate(node.input)]
        while names and not names[-1]:
            names.pop()
        smaller.input.extend(names)
        kept.append(smaller)
    return _rebuild(case, kept, stored)


MODEL = (
    Edits("nodes", _nodes, _leave_out),
    Edits("stored tensors", _tensors, _leave_out),
    Edits("attributes", _attributes, _leave_out),
    Edits("operands", _operands, _leave_out),
)


def count(data: bytes) -> str:
    """Returns the size of a model as a text such as `3 nodes`."""
    graph = _parse(data)[0].graph
    nodes, stored = len(graph.node), len(graph.initializer)
    return f"{nodes} node{'s' * (nodes != 1)}, {stored} stored tensor{'s' * (stored != 1)}"
