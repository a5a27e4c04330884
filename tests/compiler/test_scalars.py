"""`index` arguments of the caller determine sizes, offsets, masks and grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compare.translation import check_passes
from xdsl_spirv.compiler.compiler import compile_module, pipeline_of
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.manifest import PLAIN
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main

SOURCE = """
#row = affine_map<(m, n, k) -> (m, k)>
#column = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<?x8xf32> {program.name = "x", program.sizes = ["n", ""]},
                %past: index {program.name = "past"}, %k: tensor<32x8xf32> {program.name = "k"})
    -> (tensor<?x?xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %z = arith.constant 0.0 : f32
  %low = arith.constant -1.0 : f32
  %total = arith.addi %past, %n : index
  %keys = tensor.extract_slice %k[0, 0] [%total, 8] [1, 1] : tensor<32x8xf32> to tensor<?x8xf32>
  %e = tensor.empty(%n, %total) : tensor<?x?xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.matmul indexing_maps = [#row, #column, #result]
      ins(%x, %keys : tensor<?x8xf32>, tensor<?x8xf32>)
      outs(%i : tensor<?x?xf32>) -> tensor<?x?xf32>
  %masked = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %last = arith.addi %r, %past : index
    %seen = arith.cmpi ule, %c, %last : index
    %v = arith.select %seen, %a, %low : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  %part = tensor.extract_slice %k[%past, 0] [%n, 8] [1, 1] : tensor<32x8xf32> to tensor<?x8xf32>
  %f = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %part : tensor<?x8xf32>, tensor<?x8xf32>) outs(%f : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<?x8xf32>
  return %masked, %y : tensor<?x?xf32>, tensor<?x8xf32>
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_module(parse_text(SOURCE), "lavapipe")


def inputs(n: int, past: Any) -> dict[str, Any]:
    generator = np.random.default_rng(n)
    x, k = (generator.uniform(-1, 1, shape).astype("f4") for shape in ((n, 8), (32, 8)))
    return {"x": x, "k": k, "past": past}


@pytest.mark.parametrize(("n", "past"), [(3, 0), (1, 5), (7, 25), (0, 4)])
def test_sizes_follow_from_a_number(program: Program, n: int, past: int) -> None:
    given = inputs(n, past)
    checks = Checks.of("all")
    masked, y = run(program, given, checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    scores = given["x"] @ given["k"][: past + n].T
    seen = np.arange(past + n) <= np.arange(n)[:, None] + past
    np.testing.assert_allclose(masked, np.where(seen, scores, -1), atol=1e-5)
    np.testing.assert_array_equal(y, given["x"] + given["k"][past : past + n])


@pytest.mark.parametrize(
    ("past", "message"),
    [
        (30, r"past \+ n is 33, but must be at most 32"),
        (-1, "'past' must be a whole number"),
        (2.5, "'past' must be a whole number"),
        (np.zeros(2, int), "'past' must be a whole number"),
    ],
)
def test_other_numbers_are_refused(program: Program, past: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        run(program, inputs(3, past))


def test_a_missing_number_is_named(program: Program) -> None:
    given = inputs(3, 0)
    del given["past"]
    with pytest.raises(ProgramError, match="the input 'past' is missing"):
        run(program, given)


def test_a_saved_program_knows_its_numbers(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "program")
    loaded = Program.load(tmp_path / "program")
    assert loaded.manifest == program.manifest
    assert loaded.manifest.version == PLAIN
    given = inputs(2, 9)
    for name, result in run(loaded, given).items():
        np.testing.assert_array_equal(result, run(program, given)[name])


def test_every_pass_keeps_what_follows_from_a_number() -> None:
    ctx = context()
    passes = pipeline_of("linalg-to-spirv{target=lavapipe}").passes
    report = check_passes(parse_text(SOURCE, ctx=ctx), passes, ctx, inputs=3)
    assert report.finding is None, str(report.finding)
    assert report.inputs == 3


def test_numbers_of_other_types_are_given_as_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scalar argument that fills a tensor can be passed from Python and from the command line."""
    text = """
    func.func @f(%a: tensor<4xf32>, %s: f32, %n: i32) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %b = linalg.fill ins(%s : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %r = linalg.add ins(%a, %b : tensor<4xf32>, tensor<4xf32>)
        outs(%e : tensor<4xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    program, a = compile_module(parse_text(text), "lavapipe"), np.arange(4, dtype="f4")
    assert run(program, {"a": a, "s": 2.5, "n": 3})["result0"].tolist() == [2.5, 3.5, 4.5, 5.5]
    for wrong in (3.5, 2**40):
        with pytest.raises(ProgramError, match="'n' must be i32"):
            run(program, {"a": a, "s": 2.5, "n": wrong})
    program.save(tmp_path / "p")
    np.save(tmp_path / "a.npy", a)
    given = ["--input", f"a={tmp_path / 'a.npy'}", "--input", "s=2.5", "--device", "interpreter"]
    assert main(["run", str(tmp_path / "p"), *given, "--input", "n=3"]) == 0
    assert "from 2.5 to 5.5" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "p"), *given, "--input", "n=3.5"]) == 1
    assert "'n' must be i32" in capsys.readouterr().err
