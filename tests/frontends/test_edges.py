"""Operators at the ends of their types: as onnxruntime has them, or as docs/numerics.md says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.testing.edges import AT_EDGES, LARGEST, Edge, edge_program


def with_onnxruntime(edge: Edge) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(edge.model().SerializeToString())
    return session.run(None, edge.inputs())[0]


@pytest.mark.parametrize("name", [n for n, edge in AT_EDGES.items() if edge.as_onnxruntime])
def test_as_onnxruntime(name: str, onnx: Any):
    edge = AT_EDGES[name]
    result = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
    np.testing.assert_allclose(result, with_onnxruntime(edge), rtol=edge.rtol)


def test_floats_that_no_integer_holds(onnx: Any):
    """The nearest integer that there is, and 0 for NaN."""
    edge = AT_EDGES["Cast to int32"]
    result = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
    given = {float(x): int(r) for x, r in zip(edge.numbers[1:], result[1:], strict=True)}
    assert result[0] == 0
    assert given[np.inf] == given[LARGEST] == given[2.0**31] == 2**31 - 1
    assert given[-np.inf] == given[-LARGEST] == -(2**31)
    assert given[2.5] == 2
    assert given[-2.5] == -2


@pytest.mark.long
@pytest.mark.parametrize("name", AT_EDGES)
def test_compiled_it_is_the_same(name: str, onnx: Any):
    edge = AT_EDGES[name]
    (result,) = run(edge_program(name, "lavapipe"), edge.inputs()).values()
    expected = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
    np.testing.assert_allclose(result, expected, rtol=edge.rtol)
