"""Reads an `.onnx` file, checks it, fixes dimensions, and names nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.weights import (
    Weights,
    tensors_inside,
    with_declarations,
    without_weights,
)
from xdsl_spirv.frontends.onnx.wire import refuse_strange
from xdsl_spirv.progress import stage
from xdsl_spirv.speech import did_you_mean

ELEMENT_TYPES = {
    "FLOAT": "f32",
    "UINT8": "ui8",
    "INT8": "i8",
    "UINT16": "ui16",
    "INT16": "i16",
    "INT32": "i32",
    "INT64": "i64",
    "BOOL": "i1",
    "FLOAT16": "f16",
    "DOUBLE": "f64",
    "UINT32": "ui32",
    "UINT64": "ui64",
    "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "f8E4M3FN",
    "FLOAT8E5M2": "f8E5M2",
    "FLOAT8E4M3FNUZ": "f8E4M3FNUZ",
    "FLOAT8E5M2FNUZ": "f8E5M2FNUZ",
    "FLOAT8E8M0": "f8E8M0FNU",
    "FLOAT6E2M3": "f6E2M3FN",
    "FLOAT6E3M2": "f6E3M2FN",
    "FLOAT4E2M1": "f4E2M1FN",
    "INT4": "i4",
    "UINT4": "ui4",
    "INT2": "i2",
    "UINT2": "ui2",
}
"""Maps ONNX's element types of buffers to MLIR's names."""

OF_ONNXRUNTIME = ("LayerNormalization", "SimplifiedLayerNormalization")
"""Operators that onnxruntime adds to ONNX's domain."""

Model = Any
"""An `onnx.ModelProto`; the package has no usable types."""


@stage("reading the model")
def read_model(path: str | os.PathLike[str]) -> tuple[Model, Weights]:
    """Reads and checks a model. Raises `FrontendError` if the file is not a valid model."""
    onnx = _onnx()
    name = os.fspath(path)
    try:
        model = onnx.load(name, load_external_data=False)
    except OSError as error:
        raise FrontendError(
            f"cannot read the model: {error.strerror or error}", name, "give an .onnx file"
        ) from error
    except Exception as error:
        raise FrontendError(
            f"not an ONNX model: {_first_line(error)}", name, "give an .onnx file"
        ) from error
    return checked_model(model, name, Path(name).absolute().parent)


def external_files(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the existing files that contain the tensors of a model."""
    model = _onnx().load(os.fspath(path), load_external_data=False)
    tensors = [*model.graph.initializer]
    for nodes in (model.graph, *model.functions):
        tensors += tensors_inside(nodes)
    names = {e.value for t in tensors for e in t.external_data if e.key == "location"}
    files = (Path(path).absolute().parent / name for name in sorted(names) if "\0" not in name)
    return [file for file in files if os.path.isfile(file)]


def checked_model(
    model: Model,
    name: str,
    folder: Path | None = None,
    arrays: Mapping[str, Any] | None = None,
) -> tuple[Model, Weights]:
    """
    Checks a model. Returns a copy without weights, and the weights.

    Raises `FrontendError` for a model that ONNX's checker rejects.
    """
    onnx = _onnx()
    if not model.graph.node and not model.graph.output:
        raise FrontendError("the model contains no graph", name, "give an ONNX file")
    refuse_strange(model, name)
    model, weights = without_weights(model, folder, arrays)
    _refuse_repeated(model, name)
    _move_to_own_domain(model)
    try:
        onnx.checker.check_model(_without_deprecated(with_declarations(model, weights)))
    except Exception as error:
        raise FrontendError(
            f"the model is not valid: {_first_line(error)}",
            name,
            "export the model again, or run `onnx.checker.check_model` for details",
        ) from error
    return model, weights


def _without_deprecated(model: Model) -> Model:
    """Moves operators that the checker rejects as deprecated to a domain that it does not check."""
    onnx, domain = _onnx(), "deprecated"
    versions = {o.domain: o.version for o in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 1))

    def is_deprecated(node: Any) -> bool:
        if node.domain or not onnx.defs.has(node.op_type, version, ""):
            return False
        return onnx.defs.get_schema(node.op_type, version, "").deprecated

    if not any(map(is_deprecated, nodes(model.graph))):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    copy.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    for node in filter(is_deprecated, nodes(copy.graph)):
        node.domain = domain
    return copy


def _move_to_own_domain(model: Model) -> None:
    """Moves operators of onnxruntime's optimizer from ONNX's domain to onnxruntime's domain."""
    onnx, domain = _onnx(), "com.microsoft"
    versions = {o.domain: o.version for o in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 1))
    for node in nodes(model.graph):
        if node.op_type in OF_ONNXRUNTIME and node.domain in ("", "ai.onnx"):
            schemas = onnx.defs.has(node.op_type, version, "")
            node.domain = "" if schemas else domain
            if not schemas and domain not in versions:
                model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
                versions[domain] = 1


def _refuse_repeated(model: Model, place: str) -> None:
    """Raises `FrontendError` for a name that two buffers of the program would share."""
    taken: dict[str, str] = {}
    for kind, values in (("input", inputs_of(model)), ("output", model.graph.output)):
        for value in values:
            if value.name in taken:
                raise FrontendError(
                    f"the {taken[value.name]} {value.name!r} and an {kind} have the same name",
                    place,
                    "rename one of them; if an input is also a result, add an Identity",
                )
            taken[value.name] = kind


def _onnx() -> Any:
    try:
        return import_module("onnx")
    except ImportError as error:
        raise FrontendError(
            "the package onnx is not installed", "", "pip install 'xdsl-spirv[onnx]'", "missing"
        ) from error


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def name_nodes(model: Model) -> None:
    """Gives every node without a name a unique name, made from its first output."""
    taken: set[str] = set()
    for node in nodes(model.graph):
        name = node.name or f"{node.op_type}_{next(filter(None, node.output), 'x')}"
        number = 1
        while name in taken:
            number += 1
            name = f"{node.name or node.op_type}_{number}"
        taken.add(name)
        node.name = name


def nodes(graph: Any) -> Iterator[Any]:
    """Yields every node of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)
            for inner in attribute.graphs:
                yield from nodes(inner)


def inputs_of(model: Model) -> list[Any]:
    """Returns the inputs except initializers, because old files list initializers as inputs."""
    known = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in known]


def fix_inputs(model: Model, values: Mapping[str, Any]) -> None:
    """
    Converts inputs to constants.

    Raises `FrontendError` for an unknown input, and for a value that does not fit its type.
    """
    if not values:
        return
    numpy_helper = import_module("onnx.numpy_helper")
    inputs = {value.name: value for value in inputs_of(model)}
    for name, array in as_inputs(model, values):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
        model.graph.input.remove(inputs[name])


def as_inputs(model: Model, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Converts values to the types of the model's inputs."""
    to_dtype = import_module("onnx.helper").tensor_dtype_to_np_dtype
    inputs = {value.name: value for value in inputs_of(model)}
    for name, array in values.items():
        if name not in inputs:
            raise FrontendError(
                f"there is no input {name!r}",
                f"inputs: {', '.join(inputs)}",
                did_you_mean(name, inputs, "correct the name"),
            )
        dtype = to_dtype(inputs[name].type.tensor_type.elem_type)
        try:
            array = np.asarray(array)
            converted = array.astype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            place, remedy = f"constant {name!r}", "give a number, a list of numbers or an array"
            raise FrontendError(
                f"the value of {name!r} is invalid: {error}", place, remedy
            ) from error
        if array.dtype != dtype and bool((converted.astype(array.dtype) != array).any()):
            raise FrontendError(
                f"{name!r} has type {dtype.name}, which cannot hold the given value",
                f"constant {name!r}",
                f"convert it to {dtype.name}",
            )
        yield name, converted


def size_inputs(model: Model, dims: Mapping[str, int | None]) -> list[str]:
    """Returns the scalar integer inputs that `dims` declares as dynamic sizes."""
    inputs = [value for value in inputs_of(model) if dims.get(value.name, 0) is None]
    return [
        value.name
        for value in inputs
        if set(shape_of(value)) <= {1} and element_type(value) in ("i32", "i64")
    ]


def dimension_name(value: Any, position: int) -> str:
    """Returns the name of a dimension for `--dim`, by default `input.position`."""
    name = value.type.tensor_type.shape.dim[position].dim_param
    return name if name.isidentifier() else f"{value.name}.{position}"


def fix_dimensions(
    model: Model,
    dims: Mapping[str, int | None],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """
    Sets the sizes of dynamic input dimensions, from `dims` by name or from whole `shapes`.

    A dimension that is None in `dims` stays dynamic. Raises `FrontendError` for an unknown name,
    contradicting sizes, and an input that is not a tensor.
    """
    sizes = {name: size for name, size in dims.items() if size is not None}
    kept = dims.keys() - sizes.keys()
    open_names: set[str] = set()
    for value in inputs_of(model):
        _require_tensor(value)
        given = (shapes or {}).get(value.name)
        fields = value.type.tensor_type.shape.dim
        if given is not None and len(given) != len(fields):
            raise FrontendError(
                f"the input has {len(fields)} dimensions, but the given shape has {len(given)}",
                f"input {value.name!r}",
                f"give a shape of {len(fields)} dimensions",
            )
        for position, field in enumerate(fields):
            if field.HasField("dim_value") and field.dim_value > 0:
                _refuse_contradiction(value, position, field.dim_value, sizes)
                continue
            names = (dimension_name(value, position), f"{value.name}.{position}")
            open_names.update(names)
            if kept & set(names):
                continue
            size = next((sizes[name] for name in names if name in sizes), None)
            if size is None and given is not None:
                size = sizes[names[0]] = given[position]
            if size is not None:
                field.Clear()
                field.dim_value = size
    for name in dims:
        if name not in open_names and "." not in name:
            raise FrontendError(
                f"there is no dimension {name!r}",
                f"open dimensions: {', '.join(sorted(open_names)) or 'none'}",
                did_you_mean(
                    name, open_names, "write --dim NAME=SIZE, or --dim INPUT.POSITION=SIZE"
                ),
            )


def _refuse_contradiction(value: Any, position: int, size: int, dims: Mapping[str, int]) -> None:
    wanted = dims.get(f"{value.name}.{position}", size)
    if wanted != size:
        raise FrontendError(
            f"the model fixes the dimension {value.name}.{position} at {size}, not {wanted}",
            f"input {value.name!r}",
            "leave the option out",
        )


def _require_tensor(value: Any) -> None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        kind = value.type.WhichOneof("value") or "nothing"
        kind = "tensor without a rank" if kind == "tensor_type" else kind.removesuffix("_type")
        article = "an" if kind[0] in "aeiou" else "a"
        raise FrontendError(
            f"the input {value.name!r} is {article} {kind}",
            f"input {value.name!r}",
            "use tensors of known rank",
        )


def open_dimensions(model: Model) -> dict[str, set[str]]:
    """
    Returns the names of input dimensions without a size, and the positions of each.

    A size of 0 counts as a size, as in onnxruntime.
    """
    places_of: dict[str, set[str]] = {}
    for value in inputs_of(model):
        _require_tensor(value)
        for position, field in enumerate(value.type.tensor_type.shape.dim):
            if not field.HasField("dim_value") or field.dim_value < 0:
                places = places_of.setdefault(dimension_name(value, position), set())
                places.add(f"{value.name}.{position}")
    return places_of


def refuse_open_dimensions(model: Model, kept: Collection[str] = ()) -> None:
    """Raises `FrontendError` for dimensions without a size that are not in `kept`."""
    missing = [
        name
        for name, places in open_dimensions(model).items()
        if name not in kept and not places <= set(kept)
    ]
    if missing:
        options = " ".join(f"--dim {name}=N" for name in missing)
        raise FrontendError(
            f"the inputs' dimensions {', '.join(missing)} have no size",
            ", ".join(describe(value) for value in inputs_of(model)),
            f"give {options}; N = ? (None in Python) is a size that is known only at run time",
        )


def names_of(value: Any) -> list[str]:
    """Returns the names of the dimensions of an input that have no size."""
    fields = value.type.tensor_type.shape.dim
    return [
        "" if field.HasField("dim_value") else dimension_name(value, position)
        for position, field in enumerate(fields)
    ]


def describe(value: Any) -> str:
    """Returns a description of an input, such as `x: ?x3x?x?xf32`."""
    sizes = [
        str(field.dim_value) if field.dim_value > 0 else (field.dim_param or "?")
        for field in value.type.tensor_type.shape.dim
    ]
    return f"{value.name}: {'x'.join([*sizes, element_type(value)])}"


def shape_of(value: Any) -> tuple[int, ...]:
    """Returns the shape of a value; a dynamic size is -1."""
    fields = value.type.tensor_type.shape.dim
    return tuple(f.dim_value if f.HasField("dim_value") else -1 for f in fields)


def element_type(value: Any) -> str:
    """Returns MLIR's name of a value's element type. Raises `FrontendError` for other types."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise FrontendError(
            f"{value.name!r} must be a tensor, not a {kind or 'value without type'}",
            "",
            "use tensors",
        )
    return type_name(value.type.tensor_type.elem_type, value.name)


def type_name(number: int, name: str) -> str:
    """Returns MLIR's name of an ONNX element type. `name` is the value's name for errors."""
    code = _onnx().TensorProto.DataType.Name(number)
    if code not in ELEMENT_TYPES:
        raise FrontendError(
            f"{name!r} has elements of the type {code.lower()}, which is not supported",
            "",
            f"use a supported type: {', '.join(ELEMENT_TYPES.values())}",
        )
    return ELEMENT_TYPES[code]
