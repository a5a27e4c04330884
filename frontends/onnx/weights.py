"""
Separates weights from a model, so that checks and copies of the model do not touch them.

Weights stay in the caller's message, or are memory-mapped from the file next to the model.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.values import Array

LARGE = 1024
"""Minimum size in bytes of an initializer that counts as a weight."""

EXTERNAL = 1
"""Value of `data_location` for tensors in separate files."""

STRING = 8
"""ONNX's code of the type string."""


@dataclass(frozen=True)
class Weights:
    """The large initializers of a graph by name, and the folder of the model's files, if any."""

    tensors: dict[str, Any]
    folder: Path | None = None
    _arrays: dict[str, Array] = field(default_factory=dict[str, Array])

    def array(self, name: str) -> Array:
        """Returns the values of a weight. Raises `FrontendError` for missing or truncated data."""
        if name not in self._arrays:
            self._arrays[name] = self._read(self.tensors[name])
        return self._arrays[name]

    def _read(self, tensor: Any) -> Array:
        if tensor.data_location == EXTERNAL:
            return _map_values(tensor, self.folder)
        return array_of(tensor)


def array_of(tensor: Any) -> Array:
    """Returns the elements of a stored tensor. Raises `FrontendError` if their number is wrong."""
    if tensor.data_type == STRING:
        raise _refusal(
            tensor,
            "the data is text, but kernels read only numbers",
            "convert the text to numbers on the host",
        )
    try:
        return import_module("onnx.numpy_helper").to_array(tensor)
    except Exception as error:
        raise _refusal(tensor, f"the data does not fit its shape {list(tensor.dims)}") from error


def without_weights(
    model: Any, folder: Path | None = None, arrays: Mapping[str, Array] | None = None
) -> tuple[Any, Weights]:
    """Splits a model into a model without large initializers, and the initializers as `Weights`."""
    graph, weights = model.graph, {}
    kept: list[Any] = []
    for tensor in graph.initializer:
        is_large = tensor.data_location == EXTERNAL or tensor.ByteSize() >= LARGE
        if tensor.name in weights:
            raise FrontendError(f"two initializers have the name {tensor.name!r}", "", "rename one")
        if is_large:
            weights[tensor.name] = tensor
        else:
            kept.append(tensor)
    bare = _copy_message(model, "graph")
    bare.graph.MergeFrom(_copy_message(graph, "initializer"))
    bare.graph.initializer.extend(kept)
    for value in [value for value in bare.graph.input if value.name in weights]:
        bare.graph.input.remove(value)
    _read_inside(bare, folder)
    return bare, Weights(weights, folder, dict(arrays or {}))


def _read_inside(model: Any, folder: Path | None) -> None:
    """Reads the external data of tensors in nodes and subgraphs."""
    from_array = import_module("onnx.numpy_helper").from_array
    for nodes in (model.graph, *model.functions):
        for tensor in tensors_inside(nodes):
            if tensor.data_location == EXTERNAL:
                tensor.CopyFrom(from_array(_map_values(tensor, folder), tensor.name))


def tensors_inside(graph: Any) -> Iterator[Any]:
    """Yields the tensors in the nodes of a graph or function."""
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from inner.initializer
            yield from tensors_inside(inner)


def with_declarations(model: Any, weights: Weights) -> Any:
    """
    Copies a model for ONNX's checker: weights become inputs, and every tensor gets a shape.

    The checker requires a shape of every input and output, but does not compare shapes.
    """
    helper: Any = import_module("onnx.helper")
    copy = type(model)()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    copy.graph.input.extend(
        helper.make_tensor_value_info(name, t.data_type, list(t.dims))
        for name, t in weights.tensors.items()
    )
    return copy


def _copy_message(message: Any, left_out: str) -> Any:
    """Copies a message without one of its fields."""
    copy = type(message)()
    for descriptor, value in message.ListFields():
        if descriptor.name == left_out:
            continue
        if hasattr(value, "extend"):
            getattr(copy, descriptor.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(copy, descriptor.name).CopyFrom(value)
        else:
            setattr(copy, descriptor.name, value)
    return copy


def _map_values(tensor: Any, folder: Path | None) -> Array:
    """Memory-maps the external data of a tensor."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise _refusal(
            tensor,
            "the data is in another file, but the model's folder is unknown",
            "give the path of the model",
        )
    location = entries.get("location", "")
    if not location.isprintable():
        raise _refusal(tensor, f"the data is in {location!a}, which is not a file name")
    path = Path(folder, location)
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise _refusal(tensor, f"the data is in a file outside of the model's folder: {path}")
    if not os.path.isfile(path):
        raise _refusal(tensor, f"the data is in {path}, which is not a file")
    bits, dtype = _width(tensor)
    offset = entries.get("offset") or "0"
    if not (offset.isascii() and offset.isdecimal() and len(offset) < 20):
        raise _refusal(tensor, f"the data must begin at an offset in bytes, not {offset!a}")
    start, count = int(offset), math.prod(tensor.dims)
    size = (count * bits + 7) // 8
    if start < 0 or size < 0 or start + size > os.path.getsize(path):
        raise _refusal(
            tensor, f"the data needs {size} bytes at offset {start}, but {path} is too short"
        )
    if bits < 8:
        copy = type(tensor)(dims=tensor.dims, data_type=tensor.data_type)
        with path.open("rb") as file:
            file.seek(start)
            copy.raw_data = file.read(size)
        return array_of(copy)
    shape = tuple(tensor.dims)
    return np.memmap(path, dtype, "r", start, shape) if size else np.zeros(shape, dtype)


def _width(tensor: Any) -> tuple[int, Any]:
    """Returns the bits of an element in a file, and its numpy type."""
    onnx: Any = import_module("onnx")
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    if name in ("STRING", "UNDEFINED"):
        raise _refusal(tensor, f"the data has the type {name.lower()}, which is not numeric")
    narrow = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return narrow.get(name, 8 * dtype.itemsize), dtype


def _refusal(
    tensor: Any,
    cause: str,
    remedy: str = "export the model again, or put the file with its data next to the model",
) -> FrontendError:
    return FrontendError(cause, f"initializer {tensor.name!r}", remedy)
