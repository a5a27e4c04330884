"""The test cases of the package onnx for operators have the statuses in the committed list."""

from __future__ import annotations

import importlib
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "onnx_backend.py"
STATUSES = ROOT / "tests" / "frontends" / "onnx_backend_status.txt"

SAMPLE = {
    "adam": ["test_adam_multiple"],
    "batch_normalization": ["test_batchnorm_example_training_mode"],
    "momentum": ["test_nesterov_momentum"],
    "add": ["test_add_uint8"],
    "cast": ["test_cast_FLOAT_to_FLOAT8E4M3FN", "test_cast_INT4_to_INT8"],
    "compress": ["test_compress_0"],
    "conv": ["test_conv_with_strides_and_asymmetric_padding"],
    "convtranspose": ["test_convtranspose_group_2"],
    "image_decoder": ["test_image_decoder_decode_bmp_rgb"],
    "layernormalization": ["test_layer_normalization_2d_axis1"],
    "matmul": ["test_matmul_1d_3d", "test_matmul_3d"],
    "maxpool": ["test_maxpool_2d_ceil"],
    "rmsnormalization": ["test_rms_normalization_2d_axis0"],
    "scan": ["test_scan9_sum"],
    "softmax": ["test_softmax_axis_1"],
    "unique": ["test_unique_sorted_without_axis"],
}
"""Cases that `make test` runs, by their module in `onnx.backend.test.case.node`."""


def known() -> dict[str, str]:
    lines = STATUSES.read_text().splitlines()
    return dict(line.split()[:2] for line in lines if line and not line.startswith("#"))


def check(*options: str) -> None:
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_no_committed_status_is_wrong_or_a_crash():
    counts = Counter(known().values())
    assert not counts.keys() - {"ok", "rounded", "constants", "refused", "unsupported"}
    assert sum(counts.values()) == 1884
    assert counts["ok"] >= 1000


def test_the_sample_has_many_statuses():
    statuses = known()
    names = [name for each in SAMPLE.values() for name in each]
    assert {statuses[name] for name in names} >= {"ok", "refused"}


def test_a_sample_of_cases_has_the_committed_statuses(onnx: ModuleType):
    names = [name for each in SAMPLE.values() for name in each]
    check("--modules", ",".join(SAMPLE), "--names", ",".join(names))


def make_model(
    onnx: ModuleType, node: NodeProto, *shapes: list[Any], element: int = 1
) -> ModelProto:
    values = [
        onnx.helper.make_tensor_value_info(name, element, shape)
        for name, shape in zip((*node.input, *node.output), shapes, strict=True)
    ]
    graph = onnx.helper.make_graph([node], "graph", values[:-1], values[-1:])
    return onnx.helper.make_model(graph)


def test_a_prepared_model_runs_inputs_of_several_shapes(onnx: ModuleType):
    from xdsl_spirv import onnx_backend as backend

    node = onnx.helper.make_node("Mul", ["x", "y"], ["z"])
    prepared = backend.prepare(make_model(onnx, node, ["n"], [1], ["n"]))
    for size in (3, 5):
        (z,) = prepared.run([np.arange(size, dtype=np.float32), np.array([2], np.float32)])
        np.testing.assert_array_equal(z, np.arange(size) * 2)
    assert len(prepared.programs) == 2
    assert prepared.refusal is None
    with pytest.raises(ProgramError, match="3 inputs were given, but the model has 2"):
        prepared.run([z, z, z])
    with pytest.raises(ProgramError, match="there is no device 'CUDA'"):
        backend.prepare(prepared.model, "CUDA")


def test_inputs_that_determine_sizes_become_constants(onnx: ModuleType):
    from xdsl_spirv import onnx_backend as backend

    node = onnx.helper.make_node("ConstantOfShape", ["shape"], ["ones"])
    (ones,) = backend.run_node(node, [np.array([2, 3], np.int64)])
    assert ones.shape == (2, 3)
    prepared = backend.prepare(make_model(onnx, node, [1], [None], element=onnx.TensorProto.INT64))
    with pytest.raises(FrontendError):
        prepared.run({"shape": np.array([1.5], np.float32)})


def test_onnx_judges_the_backend(onnx: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """In ONNX's runner, cases with the status ok or constants pass, and others fail."""
    runner = importlib.import_module("onnx.backend.test.runner")
    import xdsl_spirv.onnx_backend as backend

    modules = ["compress", "softmax", "unique"]
    names = [name for module in modules for name in SAMPLE[module]]
    node = importlib.import_module("onnx.backend.test.case.node")
    for module in modules:
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    cases = [case for case in node._NodeTestCases if case.name in names]
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: cases if kind == "node" else [])
    judged = onnx.backend.test.BackendTest(backend, __name__)
    result = unittest.TestResult()
    judged.test_suite.run(result)
    failed = {test.id().rpartition(".")[2] for test, _ in (*result.errors, *result.failures)}
    passed = [name for name in names if f"{name}_cpu" not in failed]
    assert passed == [name for name in names if known()[name] in ("ok", "constants")]
    assert failed


@pytest.mark.long
def test_all_cases_have_the_committed_statuses(onnx: ModuleType):
    check()


def test_the_table_agrees_with_the_statuses():
    sys.path.insert(0, str(SCRIPT.parent))
    script: Any = __import__("onnx_backend")
    assert script.BEGIN + script.table() + script.END in script.DOCUMENT.read_text()
