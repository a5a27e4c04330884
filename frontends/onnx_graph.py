"""
Rewriting an ONNX graph into nodes that torch-mlir takes: the walk, and what rules write with.

A rule replaces one node, or leaves it. What it writes may be rewritten again, with the shapes
inferred anew in between. Graphs inside nodes are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

Array: TypeAlias = Any

ROUNDS = 8
"""So many times what rules wrote is rewritten."""


LARGE = 1 << 16
"""Bytes of a tensor whose values no shape depends on."""


def inferred(model: Any) -> Any:
    """The model with the types and shapes of its values, large initializers as inputs."""
    return import_module("onnx.shape_inference").infer_shapes(bare_model(model), data_prop=True)


def bare_model(model: Any) -> Any:
    """
    A copy with large initializers as inputs.

    To infer, onnx copies a model twice; without the weights that costs nothing.
    """
    onnx: Any = import_module("onnx")
    bare = onnx.ModelProto()
    for field in ("ir_version", "domain", "producer_name"):
        setattr(bare, field, getattr(model, field))
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph, given = bare.graph, model.graph
    graph.name = given.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(given, field))
    listed = {value.name for value in given.input}
    for tensor in given.initializer:
        if tensor.ByteSize() < LARGE:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            kind, shape = tensor.data_type, list(tensor.dims)
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, kind, shape))
    return bare


class Graph:
    """A graph that is being rewritten: what is known of its values, and its new nodes."""

    def __init__(self, model: Any):
        self.onnx: Any = import_module("onnx")
        self.model = model
        self.nodes: list[Any] = []
        graph = inferred(model).graph
        self._values = {v.name: v for v in (*graph.value_info, *graph.input, *graph.output)}
        self.constants: dict[str, Any] = {t.name: t for t in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.opset = max((o.version for o in model.opset_import if not o.domain), default=0)
        self._taken = {name for node in model.graph.node for name in node.output}
        self._taken |= {*self._values, *self.constants}
        self._source: Any = None

    # What is known

    def type(self, name: str) -> int | None:
        """A value's element type by ONNX's number; None if unknown."""
        if name in self.constants:
            return self.constants[name].data_type
        value = self._values.get(name)
        return value.type.tensor_type.elem_type or None if value is not None else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """A value's shape, if all of it is known."""
        sizes = self.sizes(name)
        if sizes is None:
            return None
        known = tuple(size for size in sizes if size is not None)
        return known if len(known) == len(sizes) else None

    def sizes(self, name: str) -> tuple[int | None, ...] | None:
        """A value's sizes, None for an open one; None if not even their number is known."""
        if name in self.constants:
            return tuple(self.constants[name].dims)
        value = self._values.get(name)
        if value is None or not value.type.tensor_type.HasField("shape"):
            return None
        fields = value.type.tensor_type.shape.dim
        return tuple(f.dim_value if f.HasField("dim_value") else None for f in fields)

    def declared(self, name: str) -> Any | None:
        """What is known of a value, as ONNX writes it."""
        return self._values.get(name)

    def value(self, name: str) -> Array | None:
        """A constant's value."""
        tensor = self.constants.get(name)
        return None if tensor is None else self.onnx.numpy_helper.to_array(tensor)

    def note(self, name: str, like: str) -> None:
        """A new value has the type of another one."""
        self._values.setdefault(
            name, self.onnx.helper.make_tensor_value_info(name, self.type(like) or 0, None)
        )

    # Writing

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: Sequence[str] | str | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """A node; returns its first output."""
        names = [self.fresh(kind)] if outputs is None else outputs
        names = [names] if isinstance(names, str) else list(names)
        base = self._source.name if self._source is not None else kind
        node = self.onnx.helper.make_node(
            kind, list(inputs), names, name=base, domain=domain, **attributes
        )
        self.nodes.append(node)
        return names[0]

    def constant(self, array: Array, type: int | None = None) -> str:
        """An initializer."""
        name = self.fresh("constant")
        tensor = self.onnx.numpy_helper.from_array(array, name)
        if type is not None:
            tensor.data_type = type
        self.model.graph.initializer.append(tensor)
        self.constants[name] = tensor
        return name

    def integers(self, *values: int) -> str:
        """A list of integers, as axes and shapes are given."""
        import numpy as np

        return self.constant(np.array(values, np.int64))

    def scalar_of(self, value: float, type: int) -> str:
        """A number of a type."""
        import numpy as np

        return self.constant(np.array(value, self.onnx.helper.tensor_dtype_to_np_dtype(type)))

    def scalar(self, value: float, like: str) -> str:
        """A number of the type of another value, which has to be known."""
        type = self.type(like)
        assert type is not None
        return self.scalar_of(value, type)

    def cast(self, name: str, to: int, output: str | None = None) -> str:
        return self.add("Cast", [name], output, to=to)

    def reduce(
        self, kind: str, x: str, axes: Sequence[int], keep: bool, output: str | None = None
    ) -> str:
        """A reduction, whose axes are an attribute in older opsets."""
        if kind == "ReduceSum" or self.opset >= 18:
            return self.add(kind, [x, self.integers(*axes)], output, keepdims=int(keep))
        return self.add(kind, [x], output, axes=list(axes), keepdims=int(keep))

    def slice(self, x: str, axis: int, start: int, end: int, output: str | None = None) -> str:
        inputs = [x, *(self.integers(each) for each in (start, end, axis))]
        return self.add("Slice", inputs, output)

    def split(self, x: str, axis: int, count: int, size: int) -> list[str]:
        """Equal parts of a dimension of a size."""
        if count == 1:
            return [x]
        step = size // count
        return [self.slice(x, axis, i * step, (i + 1) * step) for i in range(count)]

    def dtype(self, name: str) -> Any:
        """numpy's type of a value whose type is known."""
        return self.onnx.helper.tensor_dtype_to_np_dtype(self.type(name))

    def reshape(self, x: str, shape: Sequence[int], output: str | None = None) -> str:
        return self.add("Reshape", [x, self.integers(*shape)], output)

    def fresh(self, base: str) -> str:
        """A name that nothing has."""
        number = len(self._taken)
        while (name := f"{base}.{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name

    def paste(self, body: Any, names: Mapping[str, str]) -> list[str]:
        """
        Another graph's nodes and constants under new names; the names of its outputs.

        `names` says what its inputs are called here.
        """
        known = dict(names)
        for tensor in body.initializer:
            known[tensor.name] = self.constant(self.onnx.numpy_helper.to_array(tensor))
        for node in body.node:
            outputs = [self.fresh(name) if name else "" for name in node.output]
            copy = type(node)()
            copy.CopyFrom(node)
            copy.input[:] = [known.get(name, name) for name in node.input]
            copy.output[:] = outputs
            copy.name = node.name or node.op_type
            known |= {old: new for old, new in zip(node.output, outputs, strict=True) if old}
            self.nodes.append(copy)
        results: list[str] = [value.name for value in body.output]
        return [known.get(name, name) for name in results]

    # The walk

    def apply(self, rules: Mapping[str, Rule]) -> bool:
        """Rewrite every node that has a rule; whether any was."""
        changed = False
        for node in self.model.graph.node:
            rule = rules.get(node.op_type)
            self._source = node
            before = len(self.nodes)
            if rule is not None and rule(self, node, attributes_of(node)):
                changed = True
                continue
            del self.nodes[before:]
            self.nodes.append(node)
        nodes = list(self.nodes)
        del self.model.graph.node[:]
        self.model.graph.node.extend(nodes)
        if changed:
            del self.model.graph.value_info[:]
        return changed


Rule: TypeAlias = Callable[[Graph, Any, dict[str, Any]], bool]
"""rule(graph, node, attributes): writes nodes with the outputs of `node`, or returns False."""


def attributes_of(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values, text as `str`."""
    get = import_module("onnx.helper").get_attribute_value
    found = {attribute.name: get(attribute) for attribute in node.attribute}
    return {n: v.decode() if isinstance(v, bytes) else v for n, v in found.items()}


def rewrite(model: Any, rules: Mapping[str, Rule]) -> bool:
    """Apply rules to a model until none applies; whether any did."""
    for number in range(ROUNDS):
        if not any(node.op_type in rules for node in model.graph.node):
            return number > 0
        if not Graph(model).apply(rules):
            return number > 0
    return True
