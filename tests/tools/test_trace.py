"""`--trace-passes` records the text after every pass that changed something."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from xdsl_spirv.runtime.modules import parse, parse_text
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.trace import Trace
from xdsl_spirv.tools.trace_html import page_of

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
    page = html.unescape((trace / "index.html").read_text())
    added = "\n".join(re.findall("<ins>(.*?)</ins>", page))
    removed = "\n".join(re.findall("<del>(.*?)</del>", page))
    assert "schedule.dispatch" in added
    assert "#schedule.contraction" in added
    assert "spirv.KHR.CooperativeMatrixMulAdd" in added
    assert "linalg.matmul" in removed
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    table = re.sub("<[^>]*>", " ", page[: page.index('class="bar"')])
    assert re.search(r"kernel-to-spirv +matmul_16x16x32 \+\d+ -\d+ ~[1-9]", table)
    assert page.count("<details") > page.count('class="unit" open')
    first = page[page.index('id="stage-0"') :]
    assert first.index("<details") < first.index("linalg.matmul")
    assert not re.match(r"<details[^>]* open", first[first.index("<details") :])
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


def test_a_folder_with_other_files_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A folder with an `index.html` may be a site, and is not replaced either."""
    arguments = ["--target", "lavapipe", "-o", str(tmp_path / "program")]
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("mine")
    for folder in (tmp_path, site):
        assert main(["compile", str(source), *arguments, "--trace-passes", str(folder)]) == 1
        assert "contains something other than a trace" in capsys.readouterr().err
    assert not (tmp_path / "program").exists()
    assert (site / "index.html").read_text() == "mine"


NAMED = """
builtin.module {
  func.func @"<b>main</b>"(%a: tensor<4xf32>) -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %f = arith.constant dense<1.0> : tensor<4xf32>
    %sum = arith.addf %a, %f : tensor<4xf32>
    %twice = arith.addf %sum, %sum : tensor<4xf32>
    func.return %twice : tensor<4xf32>
  }
}
"""


def test_rows_name_their_operations():
    trace = Trace("<script>")
    for name, text in (("", NAMED), ("a&b", NAMED.replace("%sum, %sum", "%sum, %a"))):
        trace.observe(name, parse_text(text))
    trace.failure = "<i>"
    page = page_of(trace)
    assert not re.search("<script>&|<b>main|<i>|a&b", page)
    options = dict(re.findall(r'<option value="(\d+)">(\w+)', page))
    number = next(n for n, name in options.items() if name == "twice")
    section = page[page.index('id="stage-1"') :]
    (row,) = re.findall(r'<tr class="changed" data-n="([\d ]+)"', section)
    assert row == number
    assert re.search(rf'<details class="unit" open data-lines="1" data-n="[\d ]*{number}', section)


def test_a_trace_of_nothing_has_a_page():
    trace = Trace("x")
    trace.failure = "the module is not valid"
    page = page_of(trace)
    assert "the module is not valid" in page
    assert "<script>" not in page


def test_dispatches_are_followed_to_their_kernels(source: Path, tmp_path: Path):
    trace = tmp_path / "trace"
    pipeline = ["-p", "linalg-to-spirv{target=lavapipe}", "-o", str(tmp_path / "out")]
    assert main(["opt", str(source), *pipeline, "--trace-passes", str(trace)]) == 0
    page = (trace / "index.html").read_text()
    assert re.findall(r'<option value="\d*">(\w+)', page) == ["everything", "r"]
    for stage in ("contraction-to-cooperative-matrix", "kernel-to-spirv", "spirv-update-vce"):
        section = page[page.index(f'data-name="{stage}"') :].split("</section>")[0]
        assert re.search(r'data-lines="0" data-n="0"><summary><code>matmul_16x16x32', section)
