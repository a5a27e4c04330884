"""The runner over WebGPU, written from docs/program.md: what it runs, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing import hand_made_program
from xdsl_spirv.testing.state_programs import compiled, expected, rows

RUNNER = Path(__file__).resolve().parents[2] / "examples" / "runner-wgpu" / "runner.py"
SIZE = ("--subgroup-size", "8")
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def runner(lavapipe: Path) -> Runner:
    """`runner(*words)` runs it on lavapipe, the first device that wgpu finds there."""
    if find_spec("wgpu") is None:
        pytest.skip("wgpu is not installed (pip install wgpu)")

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [lavapipe, sys.executable, RUNNER, *words],
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
        )

    return run


def test_constants_of_all_kinds_and_what_runs_once(runner: Runner, tmp_path: Path):
    x, w = np.random.default_rng(4).uniform(-1, 1, (2, hand_made_program.COUNT)).astype("f4")
    hand_made_program.program(w, "i32").save(tmp_path / "program")
    np.save(tmp_path / "x.npy", x)
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    y = np.load(tmp_path / "out" / "y.npy")
    np.testing.assert_allclose(y, hand_made_program.expected(x, w), 1e-5)


@pytest.mark.long
def test_runs_that_share_a_state(runner: Runner, tmp_path: Path):
    """Open sizes, scalars, push constants, two functions."""
    compiled().save(tmp_path / "program")
    words: list[str | Path] = [tmp_path / "program", *SIZE]
    past, steps = 0, (("prefill", 5), ("decode", 1), ("prefill", 3))
    for step, (function, n) in enumerate(steps):
        np.save(tmp_path / f"x{step}.npy", rows(n, past))
        words += ["--then"] * (step > 0)
        words += [function, f"x={tmp_path}/x{step}.npy", f"past={past}", "-o", tmp_path / f"{step}"]
        past += n
    done = runner(*words)
    assert done.returncode == 0, done.stderr
    cache, past = np.zeros((32, 8), np.float32), 0
    for step, (_, n) in enumerate(steps):
        want = expected(cache, rows(n, past), past)
        np.testing.assert_allclose(np.load(tmp_path / f"{step}" / "result0.npy"), want, 1e-4, 1e-5)
        past += n


EXP = """
func.func @main(%x: tensor<37x8xf16>) -> tensor<37x8xf16> {
  %e = tensor.empty() : tensor<37x8xf16>
  %y = linalg.exp ins(%x : tensor<37x8xf16>) outs(%e : tensor<37x8xf16>) -> tensor<37x8xf16>
  return %y : tensor<37x8xf16>
}"""


@pytest.mark.long
def test_half_precision(runner: Runner, tmp_path: Path):
    compile(parse_text(EXP), "lavapipe").save(tmp_path / "program")
    x = np.random.default_rng(4).uniform(-1, 1, (37, 8)).astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "out" / "result0.npy")
    np.testing.assert_allclose(got, np.exp(x.astype("f8")), 2e-3)


MATMUL = """
func.func @main(%x: tensor<8x8xf16>, %w: tensor<8x8xf16>, %o: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = linalg.matmul ins(%x, %w : tensor<8x8xf16>, tensor<8x8xf16>)
                     outs(%o : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}"""


@pytest.mark.long
def test_what_webgpu_lacks_is_refused_by_name(runner: Runner, tmp_path: Path):
    states, matrices, wide = (tmp_path / name for name in ("states", "matrices", "wide"))
    compiled().save(states)
    compile(parse_text(MATMUL), "lavapipe").save(matrices)
    hand_made_program.program(np.ones(hand_made_program.COUNT, np.float32)).save(wide)
    np.save(tmp_path / "x.npy", rows(2))
    np.save(tmp_path / "y.npy", np.ones(hand_made_program.COUNT, np.float32))
    x = f"x={tmp_path}/x.npy"
    for words, cause in (
        ((), "usage"),
        ((tmp_path, x), "program.json cannot be read"),
        ((states, "decode", x, "past=0"), "say --subgroup-size 8"),
        ((states, *SIZE, "decode", x, "past=0"), "x has another shape"),
        ((states, *SIZE, "prefill", x, "past=31"), "too large"),
        ((states, *SIZE, "prefill", x, "past=0", "z=1"), "no input z"),
        ((matrices, x), "WebGPU lacks CooperativeMatrixKHR"),
        ((wide, f"x={tmp_path}/y.npy"), "WebGPU refuses a kernel"),
    ):
        done = runner(*words)
        assert done.returncode == 1
        assert cause in done.stderr
        assert "Traceback" not in done.stderr
