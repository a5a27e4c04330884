"""Programs with dynamic sizes are right for every size after one compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compare.translation import check_passes
from xdsl_spirv.compiler.compiler import compile_module, pipeline_of
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.expressions import evaluate
from xdsl_spirv.runtime.manifest import PLAIN
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program

Shape = Sequence[int | str]


def tensor(shape: Shape, element: str) -> str:
    return f"tensor<{'x'.join('?' if isinstance(s, str) else str(s) for s in shape)}x{element}>"


def matmul(a: Shape, b: Shape, c: Shape, types: tuple[str, str], name: str = "matmul") -> str:
    """Returns a product. Dimensions with equal letters are equal and dynamic."""
    ta, tb, tc = tensor(a, types[0]), tensor(b, types[0]), tensor(c, types[1])
    lines: list[str] = []
    sizes: list[str] = []
    for axis, size in enumerate(c):
        if isinstance(size, str):
            source, shape, type = ("%A", a, ta) if size in a else ("%B", b, tb)
            lines += [
                f"%p{axis} = arith.constant {list(shape).index(size)} : index",
                f"%s{axis} = tensor.dim {source}, %p{axis} : {type}",
            ]
            sizes.append(f"%s{axis}")
    newline = "\n      "
    zero = "0" if types[1].startswith("i") else "0.0"
    return f"""
    func.func @main(%A: {ta}, %B: {tb}) -> {tc} {{
      {newline.join(lines)}
      %zero = arith.constant {zero} : {types[1]}
      %e = tensor.empty({", ".join(sizes)}) : {tc}
      %i = linalg.fill ins(%zero : {types[1]}) outs(%e : {tc}) -> {tc}
      %r = linalg.{name} ins(%A, %B : {ta}, {tb}) outs(%i : {tc}) -> {tc}
      return %r : {tc}
    }}"""


def inputs_of(program: Program, sizes: Mapping[str, int]) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    found: dict[str, Array] = {}
    for buffer in program.manifest.inputs:
        shape = tuple(evaluate(size, sizes, buffer.name) for size in buffer.shape)
        dtype = dtype_of(buffer.type)
        if dtype.kind in "iu":
            found[buffer.name] = generator.integers(-8, 8, shape).astype(dtype)
        else:
            found[buffer.name] = generator.uniform(-1, 1, shape).astype(dtype)
    return found


def assert_right(program: Program, sizes: Mapping[str, int]) -> None:
    """Checks that the interpreter's results are right, and that its checks find nothing."""
    inputs = inputs_of(program, sizes)
    checks = Checks.of("all")
    results = run(program, inputs, checks=checks)
    assert not checks.report.findings, str(checks.report)
    for comparison in check(program, inputs, results):
        assert comparison.passed, f"{sizes}: {comparison}"


F16, F32, I8 = ("f16", "f32"), ("f32", "f32"), ("i8", "i32")

CASES: dict[str, tuple[str, list[dict[str, int]]]] = {
    "rows, matrices": (
        matmul(("m", 40), (40, 77), ("m", 77), F16),
        [{"A_0": m} for m in (1, 0, 45, 64)],
    ),
    "rows, multiply-adds": (matmul(("m", 20), (20, 12), ("m", 12), F32), [{"A_0": 1}, {"A_0": 9}]),
    "rows, dot products": (matmul(("m", 20), (20, 12), ("m", 12), I8), [{"A_0": 1}, {"A_0": 33}]),
    "columns": (matmul((33, 16), (16, "n"), (33, "n"), F16), [{"B_1": 1}, {"B_1": 45}]),
    "depth": (
        matmul((9, "k"), ("k", 12), (9, 12), F32),
        [{"A_1": 1}, {"A_1": 0}, {"A_1": 37}],
    ),
    "all": (
        matmul(("m", "k"), ("k", "n"), ("m", "n"), F16),
        [{"A_0": 1, "A_1": 1, "B_1": 1}, {"A_0": 17, "A_1": 33, "B_1": 9}],
    ),
    "batch and all": (
        matmul(("b", "m", 24), ("b", 24, "n"), ("b", "m", "n"), F16, "batch_matmul"),
        [{"A_0": 1, "A_1": 1, "B_2": 1}, {"A_0": 3, "A_1": 33, "B_2": 9}],
    ),
}

EPILOGUE = """
func.func @main(%A: tensor<?x24xf16>, %B: tensor<24x40xf16>, %X: tensor<?x40xf32>)
    -> tensor<?x40xf16> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %X, %c0 : tensor<?x40xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?x40xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x40xf32>) -> tensor<?x40xf32>
  %p = linalg.matmul ins(%A, %B : tensor<?x24xf16>, tensor<24x40xf16>)
                     outs(%i : tensor<?x40xf32>) -> tensor<?x40xf32>
  %h = tensor.empty(%m) : tensor<?x40xf16>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
                       affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%p, %X : tensor<?x40xf32>, tensor<?x40xf32>) outs(%h : tensor<?x40xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %0 = arith.addf %a, %b : f32
    %1 = arith.maximumf %0, %z : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<?x40xf16>
  return %r : tensor<?x40xf16>
}
"""

CONVOLUTION = """
func.func @main(%A: tensor<?x6x6x4xf16>, %B: tensor<3x3x4x8xf16>) -> tensor<?x3x3x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %A, %c0 : tensor<?x6x6x4xf16>
  %z = arith.constant 0.0 : f32
  %zh = arith.constant 0.0 : f16
  %p = tensor.pad %A low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %zh : f16
  } : tensor<?x6x6x4xf16> to tensor<?x8x8x4xf16>
  %e = tensor.empty(%n) : tensor<?x3x3x8xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x3x3x8xf32>) -> tensor<?x3x3x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>,
                                 dilations = dense<1> : tensor<2xi64>}
      ins(%p, %B : tensor<?x8x8x4xf16>, tensor<3x3x4x8xf16>)
      outs(%i : tensor<?x3x3x8xf32>) -> tensor<?x3x3x8xf32>
  return %r : tensor<?x3x3x8xf32>
}
"""

CONCATENATION = """
func.func @main(%A: tensor<?x5xf32>, %B: tensor<?x5xf32>) -> tensor<?x5xf32> {
  %r = tensor.concat dim(0) %A, %B : (tensor<?x5xf32>, tensor<?x5xf32>) -> tensor<?x5xf32>
  return %r : tensor<?x5xf32>
}
"""

HEADS = """
func.func @main(%A: tensor<?x?x24xf32>) -> tensor<?x3x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %A, %c0 : tensor<?x?x24xf32>
  %s = tensor.dim %A, %c1 : tensor<?x?x24xf32>
  %x = tensor.expand_shape %A [[0], [1], [2, 3]] output_shape [%b, %s, 3, 8]
      : tensor<?x?x24xf32> into tensor<?x?x3x8xf32>
  %e = tensor.empty(%b, %s) : tensor<?x3x?x8xf32>
  %r = linalg.transpose ins(%x : tensor<?x?x3x8xf32>) outs(%e : tensor<?x3x?x8xf32>)
      permutation = [0, 2, 1, 3]
  return %r : tensor<?x3x?x8xf32>
}
"""

QUANTIZED = """
func.func @main(%A: tensor<?x24xi8>, %B: tensor<24x12xi8>, %C: tensor<?x12xi32>)
    -> tensor<?x12xi32> {
  %za = arith.constant 10 : i32
  %zb = arith.constant 3 : i32
  %r = linalg.quantized_matmul
      ins(%A, %B, %za, %zb : tensor<?x24xi8>, tensor<24x12xi8>, i32, i32)
      outs(%C : tensor<?x12xi32>) -> tensor<?x12xi32>
  return %r : tensor<?x12xi32>
}
"""

FUSED: dict[str, tuple[str, list[dict[str, int]]]] = {
    "quantized": (QUANTIZED, [{"A_0": 1}, {"A_0": 19}]),
    "epilogue": (EPILOGUE, [{"A_0": m} for m in (1, 0, 33)]),
    "convolution": (CONVOLUTION, [{"A_0": n} for n in (1, 0, 3)]),
    "concatenation": (CONCATENATION, [{"A_0": 0, "B_0": 3}, {"A_0": 7, "B_0": 12}]),
    "heads": (HEADS, [{"A_0": 1, "A_1": 1}, {"A_0": 2, "A_1": 5}]),
}

CASES.update(FUSED)

SOFTMAX = """
func.func @main(%A: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %A, %c0 : tensor<?x?xf32>
  %n = tensor.dim %A, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %row = tensor.empty(%m) : tensor<?xf32>
  %low = arith.constant 0xFF800000 : f32
  %z = arith.constant 0.0 : f32
  %i = linalg.fill ins(%low : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
  %iz = linalg.fill ins(%z : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
  %mx = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%A : tensor<?x?xf32>) outs(%i : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.maximumf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %ex = linalg.generic {indexing_maps = [#all, #row, #all],
                        iterator_types = ["parallel", "parallel"]}
      ins(%A, %mx : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?xf32>
  %sm = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%ex : tensor<?x?xf32>) outs(%iz : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#all, #row, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%ex, %sm : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
""".replace("#all", "affine_map<(i, j) -> (i, j)>").replace("#row", "affine_map<(i, j) -> (i)>")


def test_a_softmax_of_dynamic_sizes_is_right():
    program = compile_module(parse_text(SOFTMAX), "lavapipe")
    for m, n in ((1, 1), (5, 70), (3, 300)):
        a = np.random.default_rng(0).uniform(-4, 4, (m, n)).astype(np.float32)
        checks = Checks.of("all")
        (found,) = run(program, {"A": a}, checks=checks).values()
        assert not checks.report.findings, str(checks.report)
        powers = np.exp(a - a.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


MEANS = """
func.func @main(%A: tensor<?x?xf16>, %B: tensor<?x40xf16>) -> (tensor<?x40xf32>, tensor<40xf32>) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %A, %c0 : tensor<?x?xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?x40xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x40xf32>) -> tensor<?x40xf32>
  %p = linalg.matmul ins(%A, %B : tensor<?x?xf16>, tensor<?x40xf16>)
                     outs(%i : tensor<?x40xf32>) -> tensor<?x40xf32>
  %k = tensor.dim %B, %c0 : tensor<?x40xf16>
  %wide = arith.index_cast %k : index to i64
  %m64 = arith.index_cast %m : index to i64
  %mk = arith.muli %wide, %m64 : i64
  %depth = arith.sitofp %mk : i64 to f32
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<?x40xf32>) outs(%e : tensor<?x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.divf %a, %depth : f32
    linalg.yield %0 : f32
  } -> tensor<?x40xf32>
  %e2 = tensor.empty() : tensor<40xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#all, affine_map<(i, j) -> (j)>],
                       iterator_types = ["reduction", "parallel"]}
      ins(%r : tensor<?x40xf32>) outs(%i2 : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<40xf32>
  %m2 = tensor.dim %r, %c0 : tensor<?x40xf32>
  %rows = arith.index_cast %m2 : index to i64
  %count = arith.sitofp %rows : i64 to f32
  %mean = linalg.generic {indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>],
                          iterator_types = ["parallel"]}
      ins(%s : tensor<40xf32>) outs(%e2 : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.divf %a, %count : f32
    linalg.yield %0 : f32
  } -> tensor<40xf32>
  return %r, %mean : tensor<?x40xf32>, tensor<40xf32>
}
""".replace("#all", "affine_map<(i, j) -> (i, j)>")


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "qualcomm-adreno"])
def test_numbers_that_are_computed_from_sizes_are_right(target: str):
    program = compile_module(parse_text(MEANS), target)
    for m, k in ((1, 1), (17, 33), (70, 5)):
        generator = np.random.default_rng(0)
        a, b = (generator.uniform(-1, 1, s).astype(np.float16) for s in ((m, k), (k, 40)))
        checks = Checks.of("all")
        scaled, mean = run(program, {"A": a, "B": b}, checks=checks).values()
        assert not checks.report.findings, str(checks.report)
        expected = a.astype(np.float64) @ b.astype(np.float64) / (m * k)
        np.testing.assert_allclose(scaled, expected, rtol=2e-3, atol=1e-5)
        np.testing.assert_allclose(mean, expected.mean(axis=0), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_contractions_of_dynamic_sizes_are_right(name: str):
    text, sizes = CASES[name]
    program = compile_module(parse_text(text), "lavapipe")
    assert program.manifest.version == PLAIN
    for each in sizes:
        assert_right(program, each)


def test_every_pass_keeps_the_results():
    ctx = context()
    module = parse_text(EPILOGUE, ctx=ctx)
    passes = pipeline_of("linalg-to-spirv{target=lavapipe}").passes
    report = check_passes(module, passes, ctx, inputs=3)
    assert report.finding is None, str(report)
    assert "results" in str(report)


def test_inputs_with_different_sizes_of_one_dimension_are_refused():
    program = compile_module(parse_text(CASES["depth"][0]), "lavapipe")
    a, b = np.zeros((9, 5), np.float32), np.zeros((7, 12), np.float32)
    with pytest.raises(ProgramError, match="'B' must both be A_1, but they are 5 and 7"):
        run(program, {"A": a, "B": b})


def test_inputs_with_too_many_elements_are_refused():
    program = compile_module(parse_text(CASES["rows, multiply-adds"][0]), "lavapipe")
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**28, 20), (0, 0))
    with pytest.raises(ProgramError, match="5368709120 elements with A_0 = 268435456"):
        run(program, {"A": huge, "B": np.zeros((20, 12), np.float32)})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("all", marks=pytest.mark.long),
        pytest.param("epilogue", marks=pytest.mark.long),
        "heads",
    ],
)
def test_programs_of_dynamic_sizes_run_on_vulkan(
    name: str, lavapipe: Path, layered: dict[str, str], tmp_path: Path
):
    text, sizes = CASES[name]
    program = compile_module(parse_text(text), "lavapipe")
    program.save(tmp_path / "program")
    for each in sizes:
        given: list[str] = []
        inputs = inputs_of(program, each)
        for key, array in inputs.items():
            np.save(tmp_path / f"{key}.npy", array)
            given += ["--input", f"{key}={tmp_path / key}.npy"]
        command = [lavapipe, sys.executable, "-m", "xdsl_spirv.tools.main", "run"]
        options = ["--device", "vulkan:0", "--check", "-o", tmp_path / "r.npz"]
        done = subprocess.run(
            [*command, tmp_path / "program", *given, *options],
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path / "cache")} | layered,
        )
        assert done.returncode == 0, done.stderr
        # Messages of the validation layer would be on standard error.
        assert done.stderr == ""
        expected = run(program, inputs)["result0"].astype(np.float64)
        found = np.load(tmp_path / "r.npz")["result0"].astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_a_saved_program_keeps_its_dynamic_sizes(tmp_path: Path):
    program = compile_module(parse_text(CASES["columns"][0]), "lavapipe")
    program.save(tmp_path / "program")
    loaded = Program.load(tmp_path / "program")
    assert loaded.manifest == program.manifest
    assert_right(loaded, {"B_1": 5})


def test_expressions_of_sizes_are_evaluated_or_refused():
    values = {"m": 7, "n_1": 3}
    assert evaluate("(m + 31) / 32 * n_1 - 1", values, "") == 2
    assert evaluate("min(m * 8, 50) + min(4, n_1)", values, "") == 53
    for wrong in ("min(m)", "m +", "(m", "m // 2", "k", "m / (n_1 - 3)", ""):
        with pytest.raises(ProgramError, match="is not a valid size"):
            evaluate(wrong, values, "grid")


REPRODUCED = """
import hashlib, json, sys
addresses = [object() for _ in range(int(sys.argv[1]))]  # which others have now
import xdsl_spirv
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.manifest import to_json
program = xdsl_spirv.compile(parse_text(sys.argv[2]), "lavapipe")
print(json.dumps(to_json(program.manifest)))
print(*(hashlib.sha256(code.binary).hexdigest() for code in program.code.values()))
"""

EXPONENTIALS = """
func.func @main(%x: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?x?xf32>
  %d1 = tensor.dim %x, %c1 : tensor<?x?x?xf32>
  %d2 = tensor.dim %x, %c2 : tensor<?x?x?xf32>
  %e = tensor.empty(%d0, %d1, %d2) : tensor<?x?x?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>,
      affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %q = math.exp %a : f32
    linalg.yield %q : f32
  } -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}
"""


def test_every_process_makes_the_same_program():
    """Products of sizes are ordered by first occurrence, not by address."""
    programs = {
        subprocess.run(
            [sys.executable, "-c", REPRODUCED, str(count), EXPONENTIALS],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in (1, 333, 1000, 77777)
    }
    assert len(programs) == 1, programs
