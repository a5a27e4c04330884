"""A compiled program's kernels are proved for the grid, buffers and sizes of their dispatches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.runtime.program import Program  # noqa: E402
from xdsl_spirv.tools.main import main  # noqa: E402
from xdsl_spirv.tools.program_proving import Launch, Result, list_launches, prove_launch  # noqa: E402

LIMITS = Limits(5, work=1_000_000)
ADD = """
func.func @main(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %zero = arith.constant 0 : index
  %size = tensor.dim %a, %zero : tensor<{n}xf32>
  %e = tensor.empty({size}) : tensor<{n}xf32>
  %r = linalg.generic {{
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]
  }} ins(%a : tensor<{n}xf32>) outs(%e : tensor<{n}xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %sum = arith.addf %x, %x : f32
    linalg.yield %sum : f32
  }} -> tensor<{n}xf32>
  return %r : tensor<{n}xf32>
}}
"""


def compile_add(size: object, folder: Path, *options: str) -> int:
    source = folder / "add.mlir"
    source.write_text(ADD.format(n=size, size="%size" if size == "?" else ""))
    wanted = ["--target", "lavapipe", "--no-cache", "-o", str(folder / "program")]
    return main(["compile", str(source), *wanted, *options])


def only_launch(folder: Path) -> tuple[bytes, Launch]:
    program = Program.load(folder / "program")
    (launch,) = list_launches(program)
    return program.code[launch.dispatch.kernel].binary, launch


def prove_with(launch: Launch, binary: bytes, **changes: object) -> Result:
    """Returns the result for a launch whose dispatch has changed fields, as by a compiler's bug."""
    dispatch = replace(launch.dispatch, **changes)  # pyright: ignore[reportArgumentType]
    return prove_launch(binary, replace(launch, dispatch=dispatch), LIMITS)


def test_a_program_is_proved_where_it_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert compile_add(1000, tmp_path, "--prove") == 0
    told = capsys.readouterr().out
    assert "1 of 1 launch proved, for all contents of buffers" in told, told


def test_a_larger_grid_is_refuted_by_the_interpreter(tmp_path: Path):
    compile_add(1024, tmp_path)
    binary, launch = only_launch(tmp_path)
    x, y, z = launch.dispatch.workgroups
    result = prove_with(launch, binary, grid=(x + 1, y, z))
    assert result.verdict == "refuted", result.lines
    assert result.found[0].rule.startswith(("BOUNDS-", "RACE-"))


def test_a_buffer_that_is_bound_twice_is_not_proved(tmp_path: Path):
    compile_add(1024, tmp_path)
    binary, launch = only_launch(tmp_path)
    same = tuple(replace(b, buffer=launch.dispatch.bindings[-1].buffer)
                 for b in launch.dispatch.bindings)  # fmt: skip
    result = prove_with(launch, binary, bindings=same)
    assert result.verdict == "unknown"
    assert "share memory" in result.lines[0]


def test_dynamic_sizes_are_proved_for_all_values(tmp_path: Path):
    compile_add("?", tmp_path)
    binary, launch = only_launch(tmp_path)
    assert launch.manifest.is_dynamic
    result = prove_launch(binary, launch, LIMITS)
    assert result.verdict == "proved", result.lines
    assert prove_with(launch, binary, grid=("A_0", 1, 1)).verdict != "proved"
