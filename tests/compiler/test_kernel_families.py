"""
Every family of kernels is right on lavapipe under the validation layer, and with subgroups of 4 to
64.

Each case is a program of `xdsl-spirv compile` with one or several dispatches. On lavapipe all run
in one process, twice, and the layer with its synchronization checks must report nothing. The
emulated devices differ from lavapipe in their subgroups; the interpreter runs their programs with
all checks. Results are compared with numpy's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.passes import ModulePass

from xdsl_spirv import targets
from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.split_reductions import SplitReductionsPass
from xdsl_spirv.runtime import Program
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.testing.attention_workloads import AttentionWorkload

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).parents[1] / "runtime" / "vulkan" / "families.py"


def script(name: str) -> ModuleType:
    """Imports a script of `benchmarks/` and scripts that it imports, without torch."""
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        # Only measurements use torch, whose import takes as long as all families.
        patch.setitem(sys.modules, "torch", None)
        spec.loader.exec_module(module)
    sys.modules.pop("device_runs", None)
    return module


@dataclass(frozen=True)
class Family:
    """A function on tensors. `right` checks its results (default: `check`)."""

    name: str
    text: str
    inputs: Callable[[], list[Array]]
    right: Callable[[list[Array], Array], bool] | None = None
    passes: tuple[ModulePass, ...] = ()
    """Passes that run before the default pipeline."""

    def compiled(self, target: str) -> Program:
        ctx = context()
        module = parse_text(self.text, self.name, ctx)
        for each in self.passes:
            each.apply(ctx, module)
        return compile_module(module, target)

    def named(self, program: Program) -> dict[str, Array]:
        names = [buffer.name for buffer in program.manifest.inputs]
        return dict(zip(names, self.inputs(), strict=True))

    def assert_right(
        self, program: Program, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> None:
        if self.right is not None:
            (result,) = results.values()
            assert self.right(list(inputs.values()), result), self.name
            return
        for comparison in check(program, inputs, results):
            assert comparison.passed, f"{self.name}: {comparison}"


def integers(*shape: int, type: Any = np.int8) -> Array:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(type)


def floats(*shape: int, type: Any = np.float16) -> Array:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(type)


SPLIT = """
func.func @main(%A: tensor<8x512xf16>, %B: tensor<512x8xf16>) -> tensor<8x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.matmul ins(%A, %B : tensor<8x512xf16>, tensor<512x8xf16>)
                     outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}"""

CHAIN = """
func.func @main(%A: tensor<20x24xf16>, %B: tensor<24x16xf16>, %C: tensor<16x12xf16>)
    -> tensor<20x12xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x16xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<20x16xf32>) -> tensor<20x16xf32>
  %p = linalg.matmul ins(%A, %B : tensor<20x24xf16>, tensor<24x16xf16>)
                     outs(%i : tensor<20x16xf32>) -> tensor<20x16xf32>
  %h = tensor.empty() : tensor<20x16xf16>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                        affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<20x16xf32>) outs(%h : tensor<20x16xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.maximumf %a, %z : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<20x16xf16>
  %f = tensor.empty() : tensor<20x12xf32>
  %j = linalg.fill ins(%z : f32) outs(%f : tensor<20x12xf32>) -> tensor<20x12xf32>
  %r = linalg.matmul ins(%n, %C : tensor<20x16xf16>, tensor<16x12xf16>)
                     outs(%j : tensor<20x12xf32>) -> tensor<20x12xf32>
  return %r : tensor<20x12xf32>
}"""

RESIZED = """
func.func @main(%0: tensor<3x5x7xf32>) -> tensor<3x9x11xf32> {
  %e = tensor.empty() : tensor<3x9x11xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(c, y, x) -> (c, y, x)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%e : tensor<3x9x11xf32>) {
  ^bb0(%o: f32):
    %c = linalg.index 0 : index
    %y = linalg.index 1 : index
    %x = linalg.index 2 : index
    %n5 = arith.constant 5 : index
    %n7 = arith.constant 7 : index
    %n9 = arith.constant 9 : index
    %n11 = arith.constant 11 : index
    %a = arith.muli %y, %n5 : index
    %i = arith.divui %a, %n9 : index
    %b = arith.muli %x, %n7 : index
    %j = arith.divui %b, %n11 : index
    %v = tensor.extract %0[%c, %i, %j] : tensor<3x5x7xf32>
    linalg.yield %v : f32
  } -> tensor<3x9x11xf32>
  return %r : tensor<3x9x11xf32>
}"""

CONVOLUTION = """
func.func @main(%A: tensor<1x7x9x4xi8>, %B: tensor<3x3x4x8xi8>, %C: tensor<1x5x7x8xi32>)
    -> tensor<1x5x7x8xi32> {
  %za = arith.constant -11 : i32
  %zb = arith.constant 5 : i32
  %r = linalg.conv_2d_nhwc_hwcf_q
    ins(%A, %B, %za, %zb : tensor<1x7x9x4xi8>, tensor<3x3x4x8xi8>, i32, i32)
    outs(%C : tensor<1x5x7x8xi32>) -> tensor<1x5x7x8xi32>
  return %r : tensor<1x5x7x8xi32>
}"""

BFLOAT = """
func.func @main(%A: tensor<20x24xbf16>, %B: tensor<24x16xbf16>) -> tensor<20x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x16xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<20x16xf32>) -> tensor<20x16xf32>
  %r = linalg.matmul ins(%A, %B : tensor<20x24xbf16>, tensor<24x16xbf16>)
                     outs(%i : tensor<20x16xf32>) -> tensor<20x16xf32>
  return %r : tensor<20x16xf32>
}"""


KEPT = """
func.func @main(%a: tensor<40x100xf32>, %b: tensor<40x100xf32>)
    -> (tensor<40x100xf32>, tensor<40x100xf16>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x100xf32>
  %h = tensor.empty() : tensor<40x100xf16>
  %s = tensor.empty() : tensor<40xf32>
  %x = linalg.add ins(%a, %b : tensor<40x100xf32>, tensor<40x100xf32>)
                  outs(%e : tensor<40x100xf32>) -> tensor<40x100xf32>
  %i = linalg.fill ins(%z : f32) outs(%s : tensor<40xf32>) -> tensor<40xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<40x100xf32>) outs(%i : tensor<40xf32>) {
  ^bb0(%u: f32, %v: f32):
    %0 = arith.mulf %u, %u : f32
    %1 = arith.addf %v, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<40xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                        affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<40x100xf32>, tensor<40xf32>) outs(%h : tensor<40x100xf16>) {
  ^bb0(%u: f32, %v: f32, %o: f16):
    %0 = math.rsqrt %v : f32
    %1 = arith.mulf %u, %0 : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<40x100xf16>
  return %x, %n : tensor<40x100xf32>, tensor<40x100xf16>
}"""


def resized(inputs: list[Array], result: Array) -> bool:
    (x,) = inputs
    rows, columns = np.arange(9) * 5 // 9, np.arange(11) * 7 // 11
    return bool(np.array_equal(result, x[:, rows][:, :, columns]))


def product(inputs: list[Array], result: Array) -> bool:
    """True if the result is the product. Operands are small integers, so that sums are exact."""
    a, b = (each.astype(np.float32) for each in inputs)
    return bool(np.array_equal(result, a @ b))


def attention() -> Iterable[Family]:
    workload = AttentionWorkload(1, 2, 20, 16, 8, 8, mask="causal")
    generator = np.random.default_rng(4)
    made = workload.inputs(generator)
    yield Family("attention", workload.text(), lambda: list(made.values()))


def benchmarked() -> Iterable[Family]:
    families, contractions = script("families"), script("contractions")
    for case in families.small():
        yield Family(
            case.name,
            case.module(),
            case.inputs,
            lambda inputs, result, case=case: families.within(case, result, inputs),
        )
    for case in contractions.small():
        yield Family(
            case.name,
            case.text(),
            lambda case=case: list(case.inputs().values()),
            lambda inputs, result, case=case: contractions.within(
                case, result, dict(zip("AB", inputs, strict=True))
            ),
        )


def families() -> Iterable[Family]:
    yield from benchmarked()
    yield from attention()
    bf16 = ml_dtypes.bfloat16
    yield Family(
        "split along K",
        SPLIT,
        lambda: [integers(8, 512, type=np.float16), integers(512, 8, type=np.float16)],
        product,
        passes=(LinalgToContractionPass(), SplitReductionsPass("lavapipe", 4)),
    )
    yield Family("chain", CHAIN, lambda: [floats(20, 24), floats(24, 16), floats(16, 12)])
    yield Family("sum and norm", KEPT, lambda: [floats(40, 100, type=np.float32)] * 2)
    yield Family("resize", RESIZED, lambda: [floats(3, 5, 7, type=np.float32)], resized)
    yield Family(
        "quantized convolution", CONVOLUTION,
        lambda: [integers(1, 7, 9, 4), integers(3, 3, 4, 8), integers(1, 5, 7, 8, type=np.int32)],
    )  # fmt: skip
    yield Family(
        "matmul bf16", BFLOAT, lambda: [floats(20, 24, type=bf16), floats(24, 16, type=bf16)]
    )


FAMILIES = {family.name: family for family in families()}


def emulated(size: int, folder: Path) -> str:
    """Writes a copy of lavapipe's target file with another subgroup size."""
    known = json.loads(Path(targets.__file__).with_name("lavapipe.json").read_text())
    known["subgroup_size"] = {"default": size, "min": size, "max": size}
    path = folder / f"subgroups{size}.json"
    path.write_text(json.dumps(known))
    return str(path)


SIZES = (4, 8, 16, 32, 64)

FEW = {
    *(("sum of rows 33x65 f32 -> f32", size) for size in (4, 16, 64)),
    *(("softmax 17x65 f16", size) for size in (4, 64)),
    *(("layer norm 17x64 f32", size) for size in (4, 64)),
    *(("sum and norm", size) for size in (4, 64)),
    *(("chain", 64), ("depthwise 3x3 10x10x24 batch 2 f16 -> f16", 64)),
}
"""Families and subgroup sizes that `make test` covers: the families that use subgroups most."""

ALONE = (
    *("split along K", "chain", "sum and norm", "resize", "quantized convolution", "matmul bf16"),
    "attention",
)
"""Families that no other test runs on lavapipe, and attention, which needs a component map."""


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if (name, size) in FEW else pytest.mark.long)
        for name in FAMILIES
        for size in SIZES
    ],
)
def test_emulated_devices(name: str, size: int, tmp_path: Path):
    family = FAMILIES[name]
    program = family.compiled(emulated(size, tmp_path))
    assert program.manifest.subgroup_size == size
    inputs = family.named(program)
    checks = Checks.of("all")
    results = run(program, inputs, checks=checks)
    assert not checks.report.findings, str(checks.report)
    family.assert_right(program, inputs, results)


def test_the_quick_families_exist():
    assert {name for name, _ in FEW} | set(ALONE) <= FAMILIES.keys()


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "names", [ALONE, pytest.param(tuple(FAMILIES), marks=pytest.mark.long)], ids=["few", "all"]
)
def test_on_lavapipe(
    names: tuple[str, ...], lavapipe: Path, layered: dict[str, str], tmp_path: Path
):
    programs: dict[str, Program] = {}
    for number, name in enumerate(names):
        family = FAMILIES[name]
        program = programs[name] = family.compiled("lavapipe")
        program.save(tmp_path / f"p{number:02}")
        np.savez(tmp_path / f"p{number:02}.npz", allow_pickle=False, **family.named(program))
    assert len(programs["split along K"].manifest.dispatches) == 2
    assert len(programs["chain"].manifest.dispatches) == 2
    done = subprocess.run(
        [lavapipe, sys.executable, RUNNER, tmp_path],
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
        env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path / "cache")} | layered,
    )
    assert done.returncode == 0, done.stderr
    assert not any(json.loads(done.stdout).values()), done.stdout
    for number, (name, program) in enumerate(programs.items()):
        with np.load(tmp_path / f"p{number:02}.out.npz") as stored:
            results = {each: stored[each] for each in stored.files}
        FAMILIES[name].assert_right(program, FAMILIES[name].named(program), results)
