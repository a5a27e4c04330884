"""
The `onnx` package's node cases on disk: what torch-mlir makes of each, its inputs and its results.

Importing needs onnx and torch-mlir; what follows needs the files alone, so that it can run on
another machine, in many processes. A folder a case:

    case.json        names and tolerances; for each variant a refusal, or interface and locations
    plain.mlir       the case as it is
    constants.mlir   with the integer inputs of at most one dimension (shapes, axes) as constants
    arrays.npz       inputs, expected results and weights, as unsigned integers of their width
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import ImportedModel, Value

PLAIN, CONSTANTS = "plain", "constants"


def collect(modules: Iterable[str] | None = None) -> dict[str, Any]:
    """
    The cases by name; the package makes them in memory, which takes it some ten seconds.

    `modules` are those of `onnx.backend.test.case.node` to make them from.
    """
    node: Any = import_module("onnx.backend.test.case.node")
    with np.errstate(all="ignore"):
        if modules is None:
            cases = node.collect_testcases(None)
        else:
            for name in modules:
                import_module(f"onnx.backend.test.case.node.{name}")
            cases = getattr(node, "_NodeTestCases")
    return {case.name: case for case in sorted(cases, key=lambda case: case.name)}


def array_of(value: Any) -> Any:
    """An array of a case, some of which are tensors of the format; None for what is no array."""
    if hasattr(value, "data_type"):
        return import_module("onnx.numpy_helper").to_array(value)
    if value is None or isinstance(value, list | dict):
        return None
    array = np.asarray(value)
    return None if array.dtype.kind in "OUS" else array


def decides_shapes(array: Any) -> bool:
    """Whether an input may be a shape, axes or the like."""
    return array.ndim <= 1 and array.dtype in (np.int32, np.int64)


@dataclass
class Variant:
    """One import of a case: `refusal` says why there is none."""

    refusal: str = ""
    fixed: list[str] = field(default_factory=list[str])
    """The inputs that are constants."""
    interface: dict[str, Any] = field(default_factory=dict[str, Any])
    locations: list[str] = field(default_factory=list[str])
    weights: list[str] = field(default_factory=list[str])
    inputs: list[list[Any]] = field(default_factory=list[list[Any]])
    sizes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass
class Case:
    """A case on disk."""

    name: str
    operators: list[str]
    rtol: float
    atol: float
    outputs: int
    variants: dict[str, Variant]
    dtypes: dict[str, str]

    @property
    def operator(self) -> str:
        return self.operators[0]


# To disk


def import_case(case: Any, worker: Any, folder: Path) -> Case:
    """Import a case and write its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    given, expected = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    arrays = {name: array_of(a) for name, a in zip(names, given, strict=False)}
    kept = {f"input.{name}": a for name, a in arrays.items() if a is not None}
    kept |= {f"output.{i}": a for i, e in enumerate(expected) if (a := array_of(e)) is not None}
    variants: dict[str, Variant] = {}
    binding = {n: a for n, a in arrays.items() if a is not None and decides_shapes(a)}
    for name, fixed in ((PLAIN, {}), (CONSTANTS, binding)):
        if name == CONSTANTS and not (fixed and _may_help(folder, variants[PLAIN])):
            continue
        variant, text, weights = _import(case, arrays, fixed, worker)
        variants[name] = variant
        kept |= {f"weight.{name}.{n}": a for n, a in weights.items()}
        if text:
            (folder / f"{name}.mlir").write_text(text)
    made = Case(
        case.name,
        sorted({node.op_type for node in case.model.graph.node}),
        float(case.rtol),
        float(case.atol),
        len(expected),
        variants,
        {key: array.dtype.name for key, array in kept.items()},
    )
    np.savez(folder / "arrays.npz", **{key: _raw(array) for key, array in kept.items()})
    (folder / "case.json").write_text(json.dumps(asdict(made)))
    return made


def _may_help(folder: Path, plain: Variant) -> bool:
    """Whether constants may make more of a case: it was refused, or its sizes are dynamic."""
    return (
        bool(plain.refusal)
        or "tensor<?" in (text := (folder / "plain.mlir").read_text())
        or ("x?" in text)
    )


def _import(
    case: Any, arrays: dict[str, Any], fixed: dict[str, Any], worker: Any
) -> tuple[Variant, str, dict[str, Any]]:
    from xdsl_spirv.frontends.onnx_import import lower_onnx

    proto = type(case.model)()
    proto.CopyFrom(case.model)
    try:
        lowered = lower_onnx(
            proto,
            shapes={n: a.shape for n, a in arrays.items() if a is not None and n not in fixed},
            constants=fixed,
            dynamic=True,
            worker=worker,
            find_crashes=False,
        )
    except FrontendError as error:
        return Variant(str(error), list(fixed)), "", {}
    variant = Variant(
        "",
        list(fixed),
        lowered.interface,
        lowered.locations,
        list(lowered.weights),
        [[v.name, v.type, list(v.shape)] for v in lowered.inputs],
        dict(lowered.sizes),
    )
    return variant, lowered.text, dict(lowered.weights)


def _raw(array: Any) -> Any:
    """Bytes that numpy's files can hold: types of its own are stored as integers."""
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return array
    # Not ascontiguousarray, which gives scalars a dimension.
    return np.asarray(array, order="C").view(f"u{array.dtype.itemsize}")


# From disk


def read_case(folder: Path) -> Case:
    """A case without its arrays."""
    found = json.loads((folder / "case.json").read_text())
    variants = {name: Variant(**variant) for name, variant in found.pop("variants").items()}
    return Case(**found, variants=variants)


def read_arrays(case: Case, folder: Path) -> dict[str, Any]:
    """The arrays by `input.NAME`, `output.NUMBER`, `weight.VARIANT.NAME`."""
    import ml_dtypes

    found: dict[str, Any] = {}
    with np.load(folder / "arrays.npz") as stored:
        for key, name in case.dtypes.items():
            dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
            array = stored[key]
            found[key] = array if array.dtype == dtype else array.view(dtype)
    return found


def read_model(case: Case, folder: Path, name: str, arrays: dict[str, Any]) -> ImportedModel:
    """A variant as a model; raises `FrontendError`."""
    from xdsl_spirv.frontends.onnx_import import Lowered

    variant = case.variants[name]
    if variant.refusal:
        raise FrontendError(variant.refusal)
    return Lowered(
        (folder / f"{name}.mlir").read_text(),
        variant.interface,
        variant.locations,
        {n: arrays[f"weight.{name}.{n}"] for n in variant.weights},
        [Value(n, type, tuple(shape)) for n, type, shape in variant.inputs],
        variant.sizes,
    ).model()
