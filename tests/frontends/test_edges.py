"""Operators at the ends of their types give the results of onnxruntime or of docs/numerics.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.testing.edges import AT_EDGES, LARGEST, Edge, edge_program


def with_onnxruntime(edge: Edge) -> Array:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(edge.model().SerializeToString())
    return session.run(None, edge.inputs())[0]


@pytest.mark.parametrize("name", [n for n, edge in AT_EDGES.items() if edge.as_onnxruntime])
def test_operators_give_the_results_of_onnxruntime(name: str, onnx: ModuleType):
    edge = AT_EDGES[name]
    result = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
    np.testing.assert_allclose(result, with_onnxruntime(edge), rtol=edge.rtol)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_floats_beyond_the_integer_type_are_clamped(dtype: str, onnx: ModuleType):
    """The result is the nearest integer of the type, and 0 for NaN."""
    edge, limits = AT_EDGES[f"Cast to {dtype}"], np.iinfo(dtype)
    imported = run_reference(import_onnx(edge.model()), edge.inputs())
    compiled = run(edge_program(f"Cast to {dtype}", "lavapipe"), edge.inputs())
    for result in (*imported.values(), *compiled.values()):
        given = {float(x): int(r) for x, r in zip(edge.numbers[1:], result[1:], strict=True)}
        assert result[0] == 0
        assert given[np.inf] == given[LARGEST] == given[float(limits.max + 1)] == limits.max
        assert given[-np.inf] == given[-LARGEST] == limits.min
        assert given[2.5] == 2
        assert given[-2.5] == max(-2, limits.min)


@pytest.mark.vulkan
@pytest.mark.long
def test_lavapipe_gives_the_same_results(lavapipe: Path, onnx: ModuleType):
    """lavapipe gives the same results, but may flush subnormal results to 0."""
    script = Path(__file__).parents[1] / "runtime" / "vulkan" / "edges.py"
    command = [lavapipe, sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["executed"] == len(AT_EDGES)
    assert found["differ"] == []


@pytest.mark.long
@pytest.mark.parametrize("name", AT_EDGES)
def test_compiled_models_give_the_same_results(name: str, onnx: ModuleType):
    edge = AT_EDGES[name]
    (result,) = run(edge_program(name, "lavapipe"), edge.inputs()).values()
    expected = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
    np.testing.assert_allclose(result, expected, rtol=edge.rtol)
