"""
SwiftShader, a second Vulkan driver, gives the results of lavapipe and the interpreter.

It has subgroups of four, no cooperative matrices and only 32-bit types. Programs are compiled for
the target file that `devices --write-target` writes for this driver.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing import swiftshader
from xdsl_spirv.testing.edges import AT_EDGES, differences, edge_program
from xdsl_spirv.testing.workloads import workload

pytestmark = [pytest.mark.vulkan, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "tests" / "runtime" / "vulkan" / "families.py"
MAIN = (sys.executable, "-m", "xdsl_spirv.tools.main")
CONTRACTIONS = 40
OF_THE_DRIVER = ("Exp", "Log", "Sigmoid", "Selu", "Cosh", "Atanh", "ReduceLogSum")
"""Functions that this driver supports on finite arguments only, as Vulkan allows."""
NARROW = ("Cast to uint8",)
SMALL = ("magika", "centerface", "minilm", "ppocr_cls")

Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """`start(program, argument, ...)` runs a program with this driver only."""
    library = swiftshader.library()
    if library is None:
        pytest.skip(f"no SwiftShader: install Chromium, or set {swiftshader.VARIABLE}")
    added = swiftshader.environment(library, tmp_path_factory.mktemp("swiftshader"))

    def start(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | added,
            cwd=ROOT,
            **options,
        )

    if "no Vulkan loader" in start(*MAIN, "devices").stderr:
        pytest.skip("there is no Vulkan loader")
    return start


@pytest.fixture(scope="module")
def target(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "swiftshader.json"
    done = start(*MAIN, "devices", "--write-target", path)
    assert done.returncode == 0, done.stderr
    return path


def test_a_driver_that_refuses_newer_versions_is_found(start: Start, target: Path):
    """SwiftShader is listed, although it wrongly refuses Vulkan 1.4 instances."""
    done = start(*MAIN, "devices", "--json")
    assert "SwiftShader" in done.stdout, done.stderr
    described = json.loads(target.read_text())
    assert described["subgroup_size"]["default"] == 4
    assert described["cooperative_matrix"] == []


def test_generated_kernels_agree_with_the_interpreter(start: Start, target: Path):
    script = ROOT / "scripts" / "differential.py"
    done = start(sys.executable, script, 96, "--device", "vulkan", "--target", target)
    assert done.returncode == 0, done.stdout + done.stderr


def executed(
    start: Start, folder: Path, programs: dict[str, tuple[Program, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Returns the programs' results on SwiftShader by name."""
    for name, (program, inputs) in programs.items():
        program.save(folder / name)
        np.savez(folder / f"{name}.npz", **inputs)
    done = start(sys.executable, FAMILIES, folder, timeout=1000)
    assert done.returncode == 0, done.stderr
    results: dict[str, dict[str, Any]] = {}
    for name in programs:
        with np.load(folder / f"{name}.out.npz") as stored:
            results[name] = {output: stored[output] for output in stored.files}
    return results


def test_random_contractions_are_right(start: Start, target: Path, tmp_path: Path):
    programs: dict[str, tuple[Program, dict[str, Any]]] = {}
    for seed in range(CONTRACTIONS):
        made = workload(seed, ("f32 -> f32", "s32 -> s32"), 40)
        program = compile_module(parse_text(made.text()), str(target))
        programs[f"{seed:02} {made}".replace(" ", "_")] = (
            program,
            made.inputs(np.random.default_rng(seed)),
        )
    for name, results in executed(start, tmp_path, programs).items():
        program, inputs = programs[name]
        for comparison in check(program, inputs, results):
            assert comparison.passed, f"{name}: {comparison}"


def test_operators_are_right_at_edge_values(start: Start, target: Path, tmp_path: Path):
    """NaN, infinities and extremes give the results of docs/numerics.md."""
    pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    programs: dict[str, tuple[Program, dict[str, Any]]] = {}
    refused: list[str] = []
    for name, edge in AT_EDGES.items():
        try:
            programs[name.replace(" ", "_")] = edge_program(name, str(target)), dict(edge.inputs())
        except (ProgramError, DiagnosticException):
            refused.append(name)
    # SwiftShader has no 64-bit integers and no 16-bit or 64-bit floats.
    assert len(programs) > 80, refused
    differ: list[str] = []
    for name, results in executed(start, tmp_path, programs).items():
        edge = AT_EDGES[name.replace("_", " ")]
        if name.replace("_", " ") in (*OF_THE_DRIVER, *NARROW):
            continue
        (result,), (expected,) = results.values(), run(*programs[name]).values()
        differ += [f"{name}: {where}" for where in differences(edge, result, expected)]
    assert not differ, "\n".join(differ)


def test_small_models_give_the_results_of_onnxruntime(start: Start, target: Path, tmp_path: Path):
    """Models that take less than a minute give onnxruntime's results."""
    onnxruntime = pytest.importorskip("onnxruntime")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    zoo = importlib.import_module("model_zoo")
    models = {m.name: m for m in zoo.MODELS if m.name in SMALL and m.missing() is None}
    if not models:
        pytest.skip("no model of benchmarks/model_zoo.py is installed")
    programs = {
        name: (compile_model(import_onnx(model.proto()), str(target)), model.inputs())
        for name, model in models.items()
    }
    for name, results in executed(start, tmp_path, programs).items():
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        model = models[name].proto().SerializeToString()
        session = onnxruntime.InferenceSession(model, options)
        expected = session.run(None, programs[name][1])
        for result, wanted in zip(results.values(), expected, strict=True):
            error = np.abs(result - wanted).max() / max(np.abs(wanted).max(), 1e-6)
            assert error < 1e-5, f"{name}: {error}"


def test_a_page_of_text_is_read(start: Start, target: Path):
    """Detector, classifier and recogniser read the same text as with onnxruntime."""
    pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    script = (
        "import sys, json; sys.path.insert(0, 'benchmarks'); import ocr;"
        "needed = ocr.missing();"
        "figures = {'missing': needed} if needed else"
        f" ocr.measure(ocr.page(), 'vulkan', {str(target)!r});"
        "print(json.dumps(figures, default=str))"
    )
    done = start(sys.executable, "-c", script, timeout=3000)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    if figures.get("missing"):
        pytest.skip(f"pip install --no-deps {figures['missing']}")
    assert figures["same_text"], figures
