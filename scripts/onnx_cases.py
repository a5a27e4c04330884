"""
The `onnx` package's node cases: models of one operator, with inputs and results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


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


def inputs_of(case: Any) -> dict[str, Array]:
    """The arrays among a case's inputs, by name."""
    given, _ = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    arrays = {name: array_of(a) for name, a in zip(names, given, strict=False)}
    return {name: array for name, array in arrays.items() if array is not None}


def constants_of(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs that decide shapes: sizes, axes, scales of Resize, the condition of Compress."""
    named = ("scales", "roi", "condition")
    return {n: a for n, a in inputs.items() if decides_shapes(a) or (n in named and a.ndim == 1)}


def expected_of(case: Any) -> list[Any]:
    """The results; None for what is no array."""
    _, expected = case.data_sets[0]
    return [array_of(value) for value in expected]
