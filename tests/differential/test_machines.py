"""Kernels for an H200 and other devices use the device's subgroup size, matrices and bfloat16."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Allowed, Checks
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.differential import Kernel, generate
from xdsl_spirv.testing.differential.families.cooperative import conversions
from xdsl_spirv.testing.differential.machine import machine
from xdsl_spirv.testing.differential.running import buffers_of, module_of
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).resolve().parents[2]
H200 = machine("nvidia-h200")
SEEDED = [
    *[(family, seed) for family in ("cooperative", "muladd", "bfloat16") for seed in (0, 1)],
    ("group", 0),
    ("rotate", 0),
    ("shared", 0),
    ("muladd", 10284),
]


@pytest.mark.parametrize(("family", "seed"), SEEDED)
def test_kernels_for_the_h200_are_valid_and_defined(family: str, seed: int, spirv_val: str):
    """No check finds anything, with either rounding to bfloat16 (BF-07)."""
    kernel = generate(seed, family, H200)
    module = module_of(kernel)
    assert khronos.spirv_val(encode(module)) == ""
    checks = Checks.all(allow=(Allowed(rule="CHOICE-03"),))
    dispatch(
        module,
        "main",
        H200.groups,
        {(0, number): array for number, array in buffers_of(kernel).items()},
        kernel.spec_constants,
        kernel.push_constants,
        options=Options(subgroup_size=H200.subgroup, checks=checks),
    )
    assert not list(checks.report), str(checks.report)


def multiplied(kernels: Iterator[Kernel]) -> set[tuple[object, ...]]:
    return {row for kernel in kernels for row in kernel.cooperative_matrix}


def test_every_listed_product_and_conversion_is_generated():
    """Every listed product of the H200 and each conversion between its matrices occurs."""
    listed = {(p.m, p.n, p.k, *p.types) for p in H200.matrices}
    assert multiplied(generate(seed, "muladd", H200) for seed in range(80)) == listed
    possible = {
        f"{name} {source} to {target}"
        for use in ("A", "Acc")
        for name, source, target in conversions(Kernel("", 0, H200), use)
    }
    assert any("bf16" in row for row in possible)
    found = {
        output.what
        for seed in range(200)
        for output in generate(seed, "cooperative", H200).outputs
        if " to " in output.what
    }
    assert found <= possible
    assert len(possible - found) <= len(possible) / 10, sorted(possible - found)


def test_mixed_signs_and_saturation_where_a_list_has_them():
    flags = set[str]()
    for target in ("amd-rdna3", "intel-xe2"):
        made = machine(target)
        for seed in range(30):
            kernel = generate(seed, "muladd", made)
            text = kernel.text()
            flags |= {f for f in ("AccSat", "<ASigned|CSigned|ResultSigned") if f in text}
    lists = [p for t in ("amd-rdna3", "intel-xe2") for p in machine(t).matrices]
    assert ("AccSat" in flags) == any(p.saturating for p in lists)
    assert ("<ASigned|CSigned|ResultSigned" in flags) == any(
        p.a[0] == "s" and p.b[0] == "u" for p in lists
    )


def test_the_script_names_missing_features(tmp_path: Path):
    script = [
        sys.executable,
        str(ROOT / "scripts" / "differential.py"),
        "1",
        "--device",
        "vulkan:99",
    ]
    done = subprocess.run(
        [*script, "--target", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no target 'nothing'" in done.stderr
    report = tmp_path / "report.json"
    done = subprocess.run([*script, "-o", report], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error: there is no device vulkan:99" in done.stderr
    assert "Traceback" not in done.stderr
    assert not report.exists()
