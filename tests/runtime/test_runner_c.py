"""The runner in C follows docs/program.md, builds without warnings, and runs programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing import hand_made_program
from xdsl_spirv.testing.state_programs import compiled, expected, rows
from xdsl_spirv.testing.step_programs import STEPS

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "runner-c" / "runner.c"
HEADERS = ("vulkan/vulkan.h", "cjson/cJSON.h")
RNG = np.random.default_rng(3)

Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def runner(lavapipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """`runner(*words)` runs the compiled runner.c on lavapipe."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (Debian: gcc)")
    for header in HEADERS:
        if not Path("/usr/include", header).exists():
            pytest.skip(f"{header} is not installed (Debian: libvulkan-dev libcjson-dev)")
    built = tmp_path_factory.mktemp("runner") / "runner"
    command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", built, SOURCE, "-lvulkan", "-lcjson"], check=True)

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [lavapipe, built, *words],
            env=os.environ | {"VVL": "1"},  # The validation layer, if installed.
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
        )
        assert "VUID" not in done.stdout + done.stderr
        return done

    return run


def matmul(rows: str, element: str, result: str, factor: float = 1.0) -> str:
    """Returns the text of a function that computes `x w`."""
    open_size = "%d" if rows == "?" else ""
    a, b, c = (
        f"tensor<{rows}x70x{element}>",
        f"tensor<70x45x{element}>",
        f"tensor<{rows}x45x{result}>",
    )
    return f"""
func.func @main(%x: {a}, %w: {b} {{program.name = "w"}}) -> {c} {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : {a}
  %zero = arith.constant {"0.0" if result[0] == "f" else "0"} : {result}
  %empty = tensor.empty({open_size}) : {c}
  %init = linalg.fill ins(%zero : {result}) outs(%empty : {c}) -> {c}
  %r = linalg.matmul ins(%x, %w : {a}, {b}) outs(%init : {c}) -> {c}
  return %r : {c}
}}"""


ELEMENTS = {"f16": np.float16, "f32": np.float32, "i8": np.int8}


def operands(element: str, rows: int) -> tuple[Array, Array]:
    shapes = (rows, 70), (70, 45)
    if element == "i8":
        x, w = (RNG.integers(-128, 128, shape) for shape in shapes)
    else:
        x, w = (RNG.uniform(-1, 1, shape) for shape in shapes)
    return x.astype(ELEMENTS[element]), w.astype(ELEMENTS[element])


@pytest.mark.parametrize(
    ("size", "element", "result"),
    [("33", "f16", "f32"), ("?", "f16", "f32"), ("33", "f32", "f32"), ("?", "i8", "i32")],
)
def test_a_product_is_right(runner: Runner, tmp_path: Path, size: str, element: str, result: str):
    x, w = operands(element, 33)
    module = parse_text(matmul(size, element, result))
    compile(module, "lavapipe", weights={"w": w}).save(tmp_path / "program")
    np.save(tmp_path / "x.npy", x)
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "out" / "result0.npy")
    np.testing.assert_allclose(got, x.astype(np.float64) @ w.astype(np.float64), 1e-4, 1e-4)
    assert got.dtype.name.startswith(result[0] if result[0] == "f" else "int")


def test_runs_share_a_state(runner: Runner, tmp_path: Path):
    compiled().save(tmp_path / "program")
    words: list[str | Path] = [tmp_path / "program"]
    steps = (("prefill", 5), ("decode", 1), ("prefill", 3))
    past = 0
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


CHAIN = """
#same = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
!x = tensor<64x32xf32>
func.func @main(%x: !x) -> (!x, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : !x
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    %c = arith.mulf %b, %half : f32
    linalg.yield %c : f32
  } -> !x
  %f = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#same, #row], iterator_types = ["parallel", "reduction"]}
      ins(%y : !x) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %o : f32
    linalg.yield %b : f32
  } -> tensor<64xf32>
  return %y, %s : !x, tensor<64xf32>
}
"""


def test_names_that_are_not_file_names_are_refused(runner: Runner, tmp_path: Path):
    named = CHAIN.replace("(!x, tensor<64xf32>)", '(!x {program.name = "a/b"}, tensor<64xf32>)', 1)
    program = compile(parse_text(named), "lavapipe")
    assert program.manifest.results[0] == "a/b"
    program.save(tmp_path / "program")
    np.save(tmp_path / "x.npy", np.zeros((64, 32), np.float32))
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "out" / "a_b.npy"), np.full((64, 32), 0.5))


def test_several_results_are_written(runner: Runner, tmp_path: Path):
    compile(parse_text(CHAIN), "lavapipe").save(tmp_path / "program")
    x = RNG.uniform(-1, 1, (64, 32)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    y, s = (np.load(tmp_path / "out" / f"result{n}.npy") for n in (0, 1))
    np.testing.assert_allclose(y, np.exp(x) / 2, 1e-5)
    np.testing.assert_allclose(s, np.exp(x).sum(1) / 2, 1e-5)


@pytest.mark.parametrize("steps", [0, 9])
def test_a_loop_with_a_dynamic_number_of_steps_runs(runner: Runner, tmp_path: Path, steps: int):
    program = compile(parse_text(STEPS), "lavapipe")
    program.save(tmp_path / "program")
    shapes = {"x": (steps, 2, 3), "w": (3, 3), "h0": (2, 3)}
    inputs = {name: RNG.uniform(-1, 1, s).astype(np.float32) for name, s in shapes.items()}
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"{name}={tmp_path}/{name}.npy" for name in inputs]
    done = runner(tmp_path / "program", *given, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name, array in run(program, inputs).items():
        np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), array, 1e-5, 1e-6)


def test_wrong_arguments_are_refused(runner: Runner, tmp_path: Path):
    program = compiled()
    program.save(tmp_path / "program")
    np.save(tmp_path / "x.npy", rows(2))
    np.save(tmp_path / "double.npy", rows(2).astype(np.float64))
    np.save(tmp_path / "wide.npy", np.zeros((2, 9), np.float32))
    at, x = tmp_path / "program", f"x={tmp_path}/x.npy"
    for words, cause in (
        ((), "usage"),
        ((tmp_path,), "program.json"),
        ((at, "encode", x, "past=0"), "no function encode"),
        ((at, "prefill", x), "past is not given"),
        ((at, "prefill", x, "past=31"), "too large"),
        ((at, "prefill", x, "past=-1"), "no number"),
        ((at, "prefill", x, "past=0", "z=1"), "no input z"),
        ((at, "prefill", f"x={tmp_path}/double.npy", "past=0"), "<f8, and f32 is wanted"),
        ((at, "prefill", f"x={tmp_path}/wide.npy", "past=0"), "another shape"),
        ((at, "--device", "7", "prefill", x, "past=0"), "no device 7"),
    ):
        done = runner(*words)
        assert done.returncode == 1
        assert cause in done.stderr


def test_constants_of_all_kinds_are_right(runner: Runner, tmp_path: Path):
    x, w = (RNG.uniform(-1, 1, hand_made_program.COUNT).astype(np.float32) for _ in range(2))
    hand_made_program.program(w).save(tmp_path / "program")
    program = Program.load(tmp_path / "program")
    assert [d.once for d in program.manifest.dispatches] == [True, False]
    np.testing.assert_allclose(
        program.session().run(x=x)["y"], hand_made_program.expected(x, w), 1e-5
    )
    np.save(tmp_path / "x.npy", x)
    done = runner(tmp_path / "program", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    y = np.load(tmp_path / "out" / "y.npy")
    np.testing.assert_allclose(y, hand_made_program.expected(x, w), 1e-5)


@pytest.mark.long
def test_states_begin_with_the_values_of_the_file(runner: Runner, tmp_path: Path):
    first = RNG.uniform(-1, 1, (32, 8)).astype(np.float32)
    program = compiled(first=f"dense<{first.tolist()}>")
    assert "k" in program.weights
    program.save(tmp_path / "program")
    np.save(tmp_path / "x.npy", rows(1))
    words = ["decode", f"x={tmp_path}/x.npy", "past=4", "-o", tmp_path / "out"]
    done = runner(tmp_path / "program", *words)
    assert done.returncode == 0, done.stderr
    want = expected(first.copy(), rows(1), 4)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "result0.npy"), want, 1e-4, 1e-5)


FEATURE = {"feature": "shaderTelepathy", "structure": "VkPhysicalDeviceVulkan12Features"}
OPERATION = {"property": "subgroupSupportedOperations", "bit": "VK_SUBGROUP_FEATURE_DANCE_BIT"}


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda r: r.update(vulkan="1.9"), "the device has no Vulkan 1.9"),
        (lambda r: r["features"][0].update(any=[FEATURE]), "lacks"),
        (lambda r: r["features"][0].update(any=[OPERATION]), "lacks"),
        (lambda r: r["features"][0].update(any=[{"version": "1.9"}]), "lacks"),
        (lambda r: r["features"][0].update(any=[{"extensions": ["VK_X"]}]), "lacks"),
        (lambda r: r["limits"][0].update(least=1 << 30), "and the device has"),
        (lambda r: r["cooperative_matrices"][0].update(k=7), "no cooperative matrices 8x8x7"),
    ],
)
def test_missing_features_are_reported_before_the_device_sees_a_kernel(
    runner: Runner, product: Path, damage: Any, cause: str
):
    manifest = json.loads((product / "program.json").read_text())
    damage(manifest["requires"])
    (product / "program.json").write_text(json.dumps(manifest))
    done = runner(product, f"x={product}/x.npy")
    assert done.returncode == 1
    assert cause in done.stderr


@pytest.fixture
def product(tmp_path: Path, product_of_f16: Program) -> Path:
    """Returns the folder of a program with cooperative matrices, and of its input."""
    product_of_f16.save(tmp_path / "p")
    return tmp_path / "p"


@pytest.fixture(scope="module")
def product_of_f16() -> Program:
    return compile(
        parse_text(matmul("33", "f16", "f32")), "lavapipe", weights={"w": operands("f16", 33)[1]}
    )
