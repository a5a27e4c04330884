"""The onnx package's node cases have the statuses that are committed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

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
"""Cases by the module of `onnx.backend.test.case.node` that makes them: making all takes long."""


def known() -> dict[str, str]:
    lines = STATUSES.read_text().splitlines()
    return dict(line.split()[:2] for line in lines if line and not line.startswith("#"))


def check(*options: str) -> None:
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_nothing_is_wrong_or_crashes():
    counts = Counter(known().values())
    assert not counts.keys() - {"ok", "rounded", "constants", "refused", "unsupported"}
    assert sum(counts.values()) == 1884
    assert counts["ok"] >= 1000


def test_the_sample_has_many_statuses():
    statuses = known()
    names = [name for each in SAMPLE.values() for name in each]
    assert {statuses[name] for name in names} >= {"ok", "refused"}


def test_a_sample(onnx: Any):
    names = [name for each in SAMPLE.values() for name in each]
    check("--modules", ",".join(SAMPLE), "--names", ",".join(names))


@pytest.mark.long
def test_all_cases(onnx: Any):
    check()


def test_the_table_is_that_of_the_statuses():
    sys.path.insert(0, str(SCRIPT.parent))
    script: Any = __import__("onnx_backend")
    assert script.BEGIN + script.table() + script.END in script.DOCUMENT.read_text()
