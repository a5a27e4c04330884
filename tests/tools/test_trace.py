"""`--trace-passes`: every pass that changed something has its text, and the page says what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xdsl_spirv.runtime.modules import parse
from xdsl_spirv.tools.main import main

MATMUL = """
func.func @main(%A: tensor<16x32xf16>, %B: tensor<32x16xf16>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %r = linalg.matmul ins(%A, %B : tensor<16x32xf16>, tensor<32x16xf16>)
                     outs(%i : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "x.mlir"
    path.write_text(MATMUL)
    return path


@pytest.mark.parametrize("command", ["compile", "opt"])
def test_every_change_is_written_and_shown(
    command: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = tmp_path / "trace"
    if command == "compile":
        arguments = ["--target", "lavapipe", "-o", str(tmp_path / "program")]
    else:
        arguments = ["-p", "linalg-to-spirv{target=lavapipe}"]
    assert main([command, str(source), *arguments, "--trace-passes", str(trace)]) == 0
    files = sorted(path.name for path in trace.glob("*.mlir"))
    names = [name.partition("-")[2].removesuffix(".mlir") for name in files]
    assert names[0] == "source"
    for name in ("form-dispatches", "assign-schedule", "kernel-to-spirv"):
        assert name in names
    assert "contraction-to-dot" not in names
    for name in files:
        parse(trace / name)
    page = (trace / "index.html").read_text()
    added = "\n".join(re.findall("<ins>(.*?)</ins>", page))
    removed = "\n".join(re.findall("<del>(.*?)</del>", page))
    assert "schedule.dispatch" in added
    assert "#schedule.contraction" in added
    assert "spirv.KHR.CooperativeMatrixMulAdd" in added
    assert "linalg.matmul" in removed
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert "contraction-to-dot" in page[page.index("changed nothing") :].split("</p>")[0]


def test_a_refusal_leaves_the_trace_up_to_it(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = tmp_path / "trace"
    arguments = ["--target", "lavapipe", "-o", str(tmp_path / "program"), "--except", "fma=*"]
    barred = [*arguments, "--except", "cooperative-matrix=*", "--trace-passes", str(trace)]
    assert main(["compile", str(source), *barred]) == 1
    assert "no path is left" in (trace / "index.html").read_text()
    assert not (tmp_path / "program").exists()
    assert "no path is left" in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = ["--target", "lavapipe", "-o", str(tmp_path / "program")]
    assert main(["compile", str(source), *arguments, "--trace-passes", str(tmp_path)]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert not (tmp_path / "program").exists()
