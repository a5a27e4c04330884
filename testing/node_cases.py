"""The job kind `node case`: imports, compiles and runs one of the `onnx` package's node cases."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.frontends import FrontendError
from xdsl_spirv.onnx_backend import REFUSALS, Backend

STEPS = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2**-23}
"""Distance from 1 to the next number, by type (machine epsilon)."""

ROUNDINGS = 4
"""
Allowed error as a multiple of machine epsilon, relative to the largest element. Covers several
roundings.
"""

Outcome = tuple[str, str]
"""A status, and the reason if the status is not ok."""
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """A model of one operator, its inputs and results. Values that are not arrays are None."""

    model: bytes
    inputs: dict[str, Array]
    expected: list[Array | None]
    rtol: float
    atol: float

    def data(self) -> dict[str, Any]:
        """Returns the case as the data of a job."""
        return {
            "model": self.model,
            "inputs": {name: _pack_array(array) for name, array in self.inputs.items()},
            "expected": [a if a is None else _pack_array(a) for a in self.expected],
            "rtol": self.rtol,
            "atol": self.atol,
        }


def node_case(data: Mapping[str, Any]) -> list[str]:
    """Runs a case. Returns its status and the reason."""
    case = Case(
        data["model"],
        {name: _unpack_array(table) for name, table in data["inputs"].items()},
        [table if table is None else _unpack_array(table) for table in data["expected"]],
        data["rtol"],
        data["atol"],
    )
    with np.errstate(all="ignore"):
        return list(outcome(case, data["target"]))


def _pack_array(array: Array) -> dict[str, Any]:
    return {"type": array.dtype.name, "shape": list(array.shape), "elements": array.tobytes()}


def _unpack_array(table: Mapping[str, Any]) -> Array:
    return np.frombuffer(table["elements"], np.dtype(table["type"])).reshape(table["shape"]).copy()


def collect(modules: Iterable[str] | None = None) -> dict[str, Case]:
    """
    Returns the cases by name. The package creates them in memory, which takes about ten seconds.

    `modules` selects modules of `onnx.backend.test.case.node`.
    """
    node: Any = import_module("onnx.backend.test.case.node")
    with np.errstate(all="ignore"):
        if modules is None:
            cases = node.collect_testcases(None)
        else:
            for name in modules:
                import_module(f"onnx.backend.test.case.node.{name}")
            cases = getattr(node, "_NodeTestCases")
    return {case.name: _case(case) for case in sorted(cases, key=lambda case: case.name)}


def array_of(value: Any) -> Any:
    """Converts a value of a case to an array. Returns None for a value that is not a tensor."""
    if hasattr(value, "data_type"):
        return import_module("onnx.numpy_helper").to_array(value)
    if value is None or isinstance(value, list | dict):
        return None
    array = np.asarray(value)
    return None if array.dtype.kind in "OUS" else array


def _case(case: Any) -> Case:
    given, expected = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    arrays = {name: array_of(a) for name, a in zip(names, given, strict=False)}
    return Case(
        case.model.SerializeToString(),
        {name: array for name, array in arrays.items() if array is not None},
        [array_of(value) for value in expected],
        case.rtol,
        case.atol,
    )


def outcome(case: Case, target: str) -> Outcome:
    """Runs a case as `onnx.backend` does, and returns its status."""
    try:
        prepared = Backend.prepare(
            import_module("onnx").ModelProto.FromString(case.model), target=target
        )
        results = prepared.run(case.inputs)
        wrong = first_difference(case, results)
    except FrontendError as error:
        return "refused", str(error)
    except REFUSALS as error:
        return "unsupported", str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return "crash", f"{type(error).__name__}: {error} ({where})"
    if wrong is not None or prepared.refusal is None:
        return wrong or ("ok", "")
    return "constants", prepared.refusal


def first_difference(case: Case, results: Sequence[Any]) -> Outcome | None:
    """Describes the first wrong result. Returns None if all results are right."""
    rounded: Outcome | None = None
    for number, (result, truth) in enumerate(zip(results, case.expected, strict=True)):
        if truth is None:
            return "mismatch", f"result {number} is an array, but the case expects another value"
        if result.shape != truth.shape or result.dtype != truth.dtype:
            words = f"{result.dtype}{result.shape}, not {truth.dtype}{truth.shape}"
            return "mismatch", f"result {number}: {words}"
        if truth.dtype.kind in "biu":
            if not np.array_equal(result, truth):
                count = int(np.sum(result != truth))
                return "mismatch", f"result {number} differs in {count} elements"
            continue
        a, b = result.astype(np.float64), truth.astype(np.float64)
        if np.allclose(a, b, case.rtol, case.atol, equal_nan=True):
            continue
        with np.errstate(all="ignore"):
            largest = float(np.nanmax(np.abs(a - b)))
            words = f"result {number}: largest difference {largest:.3g}"
            most = ROUNDINGS * STEPS.get(truth.dtype.name, 0.0) * float(np.nanmax(np.abs(b)))
        if not np.allclose(a, b, 0.0, most, equal_nan=True):
            return "mismatch", words
        rounded = ("rounded", words)
    return rounded
