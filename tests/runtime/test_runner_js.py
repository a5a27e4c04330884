"""The runner in JavaScript gives right results with naga and Dawn, or refuses programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing import every_operator, hand_made_program
from xdsl_spirv.testing.state_programs import compiled, expected, rows
from xdsl_spirv.testing.step_programs import STEPS

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "runner-js"
PACKAGES = ("naga-wasm", "webgpu")
RNG = np.random.default_rng(4)
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def runner(lavapipe: Path) -> Runner:
    """Returns a function that starts the runner on lavapipe with the given arguments."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed (Debian: nodejs)")
    for package in PACKAGES:
        if not (FOLDER / "node_modules" / package).exists():
            pytest.skip(f"{package} is not installed (npm ci --prefix examples/runner-js)")

    def start(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [lavapipe, node, FOLDER / "runner.mjs", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)

    return start


def results(
    runner: Runner, program: Program, inputs: Mapping[str, Array], folder: Path
) -> dict[str, Array]:
    """Returns the runner's results, after comparing them with the interpreter's."""
    program.save(folder / "program")
    words: list[str] = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        words.append(f"{name}={folder / name}.npy")
    done = runner(folder / "program", *words, "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return {path.stem: np.load(path) for path in (folder / "out").iterdir()}


def test_constants_of_all_kinds_are_right(runner: Runner, tmp_path: Path):
    x, w = RNG.uniform(-1, 1, (2, hand_made_program.COUNT)).astype("f4")
    program = hand_made_program.program(w, "i32")
    got = results(runner, program, {"x": x}, tmp_path)
    np.testing.assert_allclose(got["y"], program.session().run(x=x)["y"], 1e-6)
    np.testing.assert_allclose(got["y"], hand_made_program.expected(x, w), 1e-5)


@pytest.mark.long
def test_every_instruction_is_right_with_naga(runner: Runner, tmp_path: Path):
    program, inputs = every_operator.program(), every_operator.inputs()
    got = results(runner, program, inputs, tmp_path)["out"]
    wrong = (got != run(program, inputs)["out"]).any(0)
    assert every_operator.instructions_at(np.flatnonzero(wrong)) == []


def matmul(element: str, result: str, target: str) -> Program:
    """Returns a program for `x w` with a dynamic number of rows."""
    a, b, c = f"tensor<?x70x{element}>", f"tensor<70x45x{element}>", f"tensor<?x45x{result}>"
    text = f"""
    func.func @main(%x: {a}, %w: {b}) -> {c} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {a}
      %zero = arith.constant {"0.0" if result[0] == "f" else "0"} : {result}
      %e = tensor.empty(%n) : {c}
      %i = linalg.fill ins(%zero : {result}) outs(%e : {c}) -> {c}
      %r = linalg.matmul ins(%x, %w : {a}, {b}) outs(%i : {c}) -> {c}
      return %r : {c}
    }}"""
    return compile(parse_text(text), target)


def elementwise(type: str, body: str) -> Program:
    """Returns a program that computes `y` from each element `%a` of `x`, of dynamic sizes."""
    x = f"tensor<?x8x{type}>"
    text = f"""
    #id = affine_map<(i, j) -> (i, j)>
    func.func @main(%x: {x}) -> {x} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {x}
      %e = tensor.empty(%n) : {x}
      %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
          ins(%x : {x}) outs(%e : {x}) {{
      ^bb0(%a: {type}, %o: {type}):
        {body}
        linalg.yield %y : {type}
      }} -> {x}
      return %r : {x}
    }}"""
    return compile(parse_text(text), "webgpu")


LARGEST = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<33x70xf32>) -> tensor<33xf32> {
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<33xf32>
  %i = linalg.fill ins(%least : f32) outs(%e : tensor<33xf32>) -> tensor<33xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<33x70xf32>) outs(%i : tensor<33xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<33xf32>
  return %r : tensor<33xf32>
}"""


def number(*shape: int, type: str) -> Array:
    if type.startswith("f"):
        return RNG.uniform(-1, 1, shape).astype(type)
    return RNG.integers(-128, 128, shape).astype(type)


LONG = """%m = arith.muli %a, %a : i64
        %y = arith.subi %m, %a : i64"""

CASES: dict[str, Callable[[], tuple[Program, dict[str, Array], float]]] = {
    "f16, open sizes": lambda: (
        matmul("f16", "f32", "webgpu"),
        {"x": number(33, 70, type="f2"), "w": number(70, 45, type="f2")},
        1e-4,
    ),
    "i8 in words": lambda: (
        matmul("i8", "i32", "webgpu"),
        {"x": number(33, 70, type="i1"), "w": number(70, 45, type="i1")},
        0,
    ),
    "f32 in lavapipe's subgroups": lambda: (
        matmul("f32", "f32", "lavapipe"),
        {"x": number(33, 70, type="f4"), "w": number(70, 45, type="f4")},
        1e-4,
    ),
    "f16 functions": lambda: (
        elementwise("f16", "%y = math.exp %a : f16"),
        {"x": number(37, 8, type="f2")},
        2e-3,
    ),
    "i64 in words": lambda: (
        elementwise("i64", LONG),
        {"x": RNG.integers(-(2**40), 2**40, (37, 8))},
        0,
    ),
    "a loop of an open number of steps": lambda: (
        compile(parse_text(STEPS), "webgpu"),
        {
            "x": number(9, 2, 3, type="f4"),
            "w": number(3, 3, type="f4"),
            "h0": number(2, 3, type="f4"),
        },
        1e-5,
    ),
    "infinite constants": lambda: (
        compile(parse_text(LARGEST), "webgpu"),
        {"x": number(33, 70, type="f4")},
        0,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_runner_gives_the_results_of_the_interpreter(runner: Runner, tmp_path: Path, name: str):
    program, inputs, tolerance = CASES[name]()
    want = run(program, inputs)
    got = results(runner, program, inputs, tmp_path)
    assert got.keys() == want.keys()
    for result, array in got.items():
        assert array.dtype == want[result].dtype
        assert array.shape == want[result].shape
        np.testing.assert_allclose(array, want[result], tolerance, tolerance)


@pytest.mark.long
def test_runs_share_a_state(runner: Runner, tmp_path: Path):
    compiled(target="webgpu").save(tmp_path / "program")
    words: list[str | Path] = [tmp_path / "program"]
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


def _without_features(manifest: Any) -> None:
    manifest["requires"].pop("features", None)


@pytest.mark.long
def test_inputs_that_do_not_fit_are_refused_by_name(runner: Runner, tmp_path: Path):
    states, matrices, wide = (tmp_path / name for name in ("states", "matrices", "wide"))
    compiled(target="webgpu").save(states)
    matmul("f16", "f32", "lavapipe").save(matrices)
    hand_made_program.program(np.ones(hand_made_program.COUNT, np.float32)).save(wide)
    halves = tmp_path / "halves"
    elementwise("f16", "%y = math.exp %a : f16").save(halves)
    manifest = json.loads((halves / "program.json").read_text())
    _without_features(manifest)
    (halves / "program.json").write_text(json.dumps(manifest))
    np.save(tmp_path / "half.npy", rows(2).astype(np.float16))
    np.save(tmp_path / "x.npy", rows(2))
    np.save(tmp_path / "double.npy", rows(2).astype(np.float64))
    np.save(tmp_path / "wide.npy", np.zeros((2, 9), np.float32))
    x = f"x={tmp_path}/x.npy"
    for words, cause in (
        ((), "usage"),
        ((tmp_path, x), "program.json cannot be read"),
        ((states, "encode", x, "past=0"), "no function encode"),
        ((states, "prefill", x), "past is not given"),
        ((states, "prefill", x, "past=-1"), "no number"),
        ((states, "prefill", x, "past=31"), "too large"),
        ((states, "prefill", x, "past=0", "z=1"), "no input z"),
        ((states, "decode", x, "past=0"), "x has another shape"),
        ((states, "prefill", f"x={tmp_path}/wide.npy", "past=0"), "another shape"),
        ((states, "prefill", f"x={tmp_path}/double.npy", "past=0"), "<f8, and f32 is wanted"),
        ((states, "--adapter", "none", "prefill", x, "past=0"), "WebGPU finds no device none"),
        ((matrices, x), "cooperative matrices"),
        ((wide, x), "WebGPU lacks Int64"),
        ((halves, f"x={tmp_path}/half.npy"), "kernel elementwise_Dx8: WebGPU refuses it"),
    ):
        done = runner(*words)
        assert done.returncode == 1
        assert cause in done.stderr
        assert "at async" not in done.stderr


DAMAGE: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda m: m.update(version=7), "version 7 of xdsl-spirv-program is not known"),
    (lambda m: m["dispatches"][0].update(indirect=True), "field dispatches.indirect is not known"),
    (lambda m: m["kernels"][0].update(binary="../scale.spv"), "no file of this folder"),
    (lambda m: m["requires"]["limits"][0].update(least=1 << 30), "and llvmpipe"),
    (lambda m: m["requires"]["limits"][0].update(limit="maxPatience"), "WebGPU does not know"),
    (lambda m: m["dispatches"][0].update(grid=[1 << 17, 1, 1]), "at most 65535"),
    (_without_features, "the kernel scale: naga refuses it: error: Override"),
)


@pytest.mark.long
@pytest.mark.parametrize(("damage", "cause"), DAMAGE)
def test_a_wrong_program_is_refused(
    runner: Runner, tmp_path: Path, damage: Callable[[Any], Any], cause: str
):
    weight = np.ones(hand_made_program.COUNT, np.float32)
    integer = "i64" if damage is _without_features else "i32"
    hand_made_program.program(weight, integer).save(tmp_path)
    path = tmp_path / "program.json"
    manifest = json.loads(path.read_text())
    damage(manifest)
    path.write_text(json.dumps(manifest))
    np.save(tmp_path / "x.npy", weight)
    done = runner(tmp_path, f"x={tmp_path}/x.npy")
    assert done.returncode == 1
    assert cause in done.stderr
