"""`compile`, `run`, `translate` and `interpret` write their files, or refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.main import main

MATMUL = """
func.func @main(%A: tensor<33x70xf16>, %B: tensor<70x45xf16>) -> tensor<33x45xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<33x45xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<33x45xf32>) -> tensor<33x45xf32>
  %r = linalg.matmul ins(%A, %B : tensor<33x70xf16>, tensor<70x45xf16>)
                     outs(%init : tensor<33x45xf32>) -> tensor<33x45xf32>
  return %r : tensor<33x45xf32>
}
"""
SCHEDULED = """linalg.matmul {{schedule = #schedule.contraction<
    workgroup_tile = [{tile}], subgroups = [{subgroups}], instruction = coopmat {shape},
    a = staged<>, b = staged<>>}}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the working directory with a matmul and its inputs."""
    monkeypatch.chdir(tmp_path)
    Path("x.mlir").write_text(MATMUL)
    generator = np.random.default_rng(3)
    np.save("a.npy", generator.uniform(-1, 1, (33, 70)).astype(np.float16))
    np.save("b.npy", generator.uniform(-1, 1, (70, 45)).astype(np.float16))
    return tmp_path


INPUTS = ["--input", "A=a.npy", "--input", "B=b.npy"]


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_a_compiled_program_runs(
    target: str, folder: Path, capsys: pytest.CaptureFixture[str], spirv_val: str
):
    assert main(["compile", "x.mlir", "--target", target, "-o", "out"]) == 0
    manifest = json.loads(Path("out/program.json").read_text())
    assert manifest["target"] == target
    for kernel in manifest["kernels"]:
        assert khronos.spirv_val(Path("out", kernel["binary"]).read_bytes()) == ""
    capsys.readouterr()
    assert main(["run", "out", *INPUTS, "--check", "-o", "r.npz"]) == 0
    printed = capsys.readouterr().out
    assert "result0: 33x45xfloat32, from " in printed
    assert "within the bound" in printed
    exact = np.load("a.npy").astype(np.float64) @ np.load("b.npy").astype(np.float64)
    assert np.abs(np.load("r.npz")["result0"] - exact).max() < 1e-4


def test_a_result_beyond_its_bound_exits_with_1(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "x.mlir", "--target", "lavapipe", "-o", "out"]) == 0
    source = Path("out/source.mlir")
    text = source.read_text()
    assert "0.000000e+00 : f32" in text
    source.write_text(text.replace("0.000000e+00 : f32", "1.000000e+00 : f32"))
    assert main(["run", "out", *INPUTS, "--check"]) == 1
    assert "BEYOND the bound" in capsys.readouterr().out


def test_every_stage_gives_the_same_numbers(folder: Path):
    stages = ["linalg-to-contraction", "assign-schedule{target=lavapipe}", "outline-dispatches"]
    stages += ["contraction-to-cooperative-matrix", "kernel-to-spirv"]
    for n in range(len(stages) + 1):
        options = ["-p", ",".join(stages[:n]), "--check", "all", "-o", f"{n}.npz"]
        assert main(["interpret", "x.mlir", *INPUTS, *options]) == 0
    first = np.load("0.npz")["result0"]
    np.savez("both.npz", A=np.load("a.npy"), B=np.load("b.npy"))
    both = ["--input", "A=both.npz", "--input", "B=both.npz", "-o", "both-out.npz"]
    assert main(["interpret", "x.mlir", *both]) == 0
    assert np.array_equal(np.load("both-out.npz")["result0"], first)
    for n in range(1, len(stages) + 1):
        assert np.abs(np.load(f"{n}.npz")["result0"] - first).max() < 1e-5


def test_translate_lowers_to_a_valid_binary(folder: Path, spirv_val: str):
    options = ["-p", "linalg-to-spirv{target=nvidia-h200}", "-o", "x.spv", "--names"]
    assert main(["translate", "x.mlir", *options]) == 0
    assert khronos.spirv_val(Path("x.spv").read_bytes()) == ""


def scheduled(tile: str = "64, 64, 32", subgroups: str = "2, 2", shape: str = "16x16x16") -> str:
    schedule = SCHEDULED.format(tile=tile, subgroups=subgroups, shape=shape)
    return MATMUL.replace("linalg.matmul", schedule)


COMPLEX = """
func.func @main(%A: tensor<4xcomplex<f32>>, %B: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %empty = tensor.empty() : tensor<4xcomplex<f32>>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
                                        affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%A, %B : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>)
      outs(%empty : tensor<4xcomplex<f32>>) {
  ^bb0(%a: complex<f32>, %b: complex<f32>, %o: complex<f32>):
    %s = complex.add %a, %b : complex<f32>
    linalg.yield %s : complex<f32>
  } -> tensor<4xcomplex<f32>>
  return %r : tensor<4xcomplex<f32>>
}
"""
COMPILE = ["compile", "x.mlir", "--target", "nvidia-h200", "-o", "out"]
BAD = [
    ("func.func @main(", "cannot be parsed", COMPILE),
    (MATMUL.replace("70x45xf16", "71x45xf16"), "('linalg.matmul' (%r) in @main)", COMPILE),
    (MATMUL.replace("@main", "@f") + MATMUL.replace("@main", "@g"), "no function @main", COMPILE),
    (COMPLEX, "kernels cannot compute with tensor<4xcomplex<f32>>", COMPILE),
    (MATMUL, "there is no target 'gpu'", [*COMPILE[:3], "gpu", "-o", "out"]),
    (scheduled(tile="512, 512, 64"), "exceeds nvidia-h200's 49152", COMPILE),
    (scheduled(tile="60, 64, 32"), "M = 60 is not a multiple of 32", COMPILE),
    (scheduled(shape="16x16x4"), "it has 16x16x16", COMPILE),
    (scheduled(subgroups="64, 1", tile="1024, 64, 32"), "allows 1024", COMPILE),
    (scheduled(tile="256, 256, 256", subgroups="4, 4"), "K = 32 instead of 256 would fit", COMPILE),
    (MATMUL, "functions: @main", [*COMPILE, "--function", "f"]),
    (MATMUL, "cannot read the weights", [*COMPILE, "--weights", "none.safetensors"]),
    (MATMUL, "not a safetensors file", [*COMPILE, "--weights", "x.mlir"]),
    (MATMUL, "pass-pipeline:1:1", ["translate", "x.mlir", "-p", "{", "-o", "out"]),
    (MATMUL, "no spirv.module", ["translate", "x.mlir", "-o", "out"]),
    (MATMUL, "'A' is missing", ["interpret", "x.mlir", "-o", "out"]),
    (MATMUL, "not a numpy array", ["interpret", "x.mlir", "--input", "A=x.mlir", "-o", "out"]),
    (MATMUL, "has no file", ["interpret", "x.mlir", "--input", "A", "-o", "out"]),
    (MATMUL, "must be 33x70xf16", ["interpret", "x.mlir", "--input", "A=b.npy", "-o", "out"]),
]


@pytest.mark.parametrize(("text", "message", "command"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input_leaves_one_message_and_nothing_else(
    text: str, message: str, command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
):
    Path("x.mlir").write_text(text)
    before = sorted(os.listdir())
    assert main(command) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert sorted(os.listdir()) == before


def test_the_place_of_an_error_is_named(folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("x.mlir").write_text("\nfunc.func private @f() attributes {\n  a = 300 : i8}\n")
    main(COMPILE)
    assert "(x.mlir:3)" in capsys.readouterr().err
    Path("x.mlir").write_text(scheduled(tile="60, 64, 32"))
    main(COMPILE)
    said = capsys.readouterr().err
    assert "x.mlir:6:55" in said
    assert "M = 60 is not a multiple of 32" in said


def test_missing_files_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "none.mlir", "--target", "lavapipe", "-o", "out"]) == 1
    assert "none.mlir" in capsys.readouterr().err
    assert main(["run", "none"]) == 1
    assert "none/program.json" in capsys.readouterr().err
    assert main(["translate", "x.mlir", "-p", "linalg-to-spirv{target=lavapipe}",
                 "-o", "no/such/x.spv"]) == 1  # fmt: skip
    assert "no/such/x.spv" in capsys.readouterr().err


def test_the_command_has_a_version_and_needs_a_subcommand():
    """The command prints its version, and returns 2 without a subcommand."""
    command = [sys.executable, "-m", "xdsl_spirv.tools.main"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("xdsl-spirv ")
    usage = subprocess.run(command, capture_output=True, text=True, check=False)
    assert usage.returncode == 2
    assert "usage" in usage.stderr
