"""`xdsl-spirv explain` reports the compiler's decisions equally in all three formats."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import load
from xdsl_spirv.tools.explain_text import ranges
from xdsl_spirv.tools.main import main

MATMULS = """
func.func @main(%A: tensor<40x64xf16>, %B: tensor<64x48xf16>, %C: tensor<48x16xf32>)
    -> tensor<40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x48xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<40x48xf32>) -> tensor<40x48xf32>
  %half = linalg.matmul ins(%A, %B : tensor<40x64xf16>, tensor<64x48xf16>)
                        outs(%i : tensor<40x48xf32>) -> tensor<40x48xf32>
  %e2 = tensor.empty() : tensor<40x16xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<40x16xf32>) -> tensor<40x16xf32>
  %full = linalg.matmul ins(%half, %C : tensor<40x48xf32>, tensor<48x16xf32>)
                        outs(%i2 : tensor<40x16xf32>) -> tensor<40x16xf32>
  return %full : tensor<40x16xf32>
}
"""

DYNAMIC = """
func.func @main(%A: tensor<?x64xf32>, %B: tensor<64x48xf32>) -> tensor<?x48xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %rows = tensor.dim %A, %first : tensor<?x64xf32>
  %e = tensor.empty(%rows) : tensor<?x48xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x48xf32>) -> tensor<?x48xf32>
  %r = linalg.matmul ins(%A, %B : tensor<?x64xf32>, tensor<64x48xf32>)
                     outs(%i : tensor<?x48xf32>) -> tensor<?x48xf32>
  return %r : tensor<?x48xf32>
}
"""

DEPTHWISE = """
func.func @main(%x: tensor<1x18x18x64xf32>, %w: tensor<3x3x64xf32>) -> tensor<1x16x16x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x16x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32>
  %r = linalg.depthwise_conv_2d_nhwc_hwc
      ins(%x, %w : tensor<1x18x18x64xf32>, tensor<3x3x64xf32>)
      outs(%i : tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32>
  return %r : tensor<1x16x16x64xf32>
}
"""

SINE = """
func.func @main(%A: tensor<8x8xf64>) -> tensor<8x8xf64> {
  %e = tensor.empty() : tensor<8x8xf64>
  %sine = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%A : tensor<8x8xf64>) outs(%e : tensor<8x8xf64>) {
    ^bb0(%a: f64, %o: f64):
      %s = math.sin %a : f64
      linalg.yield %s : f64
  } -> tensor<8x8xf64>
  return %sine : tensor<8x8xf64>
}
"""


@pytest.fixture
def matmuls(tmp_path: Path) -> str:
    """Returns a file with a contraction of f16 and one of f32."""
    path = tmp_path / "matmuls.mlir"
    path.write_text(MATMULS)
    return str(path)


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Returns the JSON of an explanation."""
    assert main(["explain", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def paths(found: Any) -> list[str]:
    return [each["layer"]["path"] for each in found["layers"]]


def reason(layer: Any, path: str) -> str:
    return next(c["reason"] for c in layer["considered"] if c["path"] == path)


def test_every_layer_says_why_no_faster_path_was_taken(
    matmuls: str, capsys: pytest.CaptureFixture[str]
):
    found = explained(capsys, matmuls, "--target", "nvidia-h200")
    assert paths(found) == ["cooperative-matrix", "fma"]
    half, full = (each["layer"] for each in found["layers"])
    assert (half["nodes"], full["nodes"]) == (["half"], ["full"])
    assert "no cooperative matrices of f32 x f32 -> f32" in reason(full, "cooperative-matrix")
    assert "dot multiplies s8 and u8" in reason(full, "dot")
    assert half["operations"] == 2 * 40 * 64 * 48
    assert half["bytes"] == 2 * (40 * 64 + 64 * 48) + 4 * 40 * 48
    assert {each["limit"] for each in found["layers"]} <= {"memory", "arithmetic"}
    moved = full["bytes"] / load("nvidia-h200").copy_bytes_per_second
    computed = full["operations"] / (load("nvidia-h200").rates["fma f32"] * 1e12)
    assert found["layers"][1]["roofline_seconds"] == pytest.approx(max(moved, computed))


def test_a_target_that_was_not_measured_has_no_roofline(
    matmuls: str, capsys: pytest.CaptureFixture[str]
):
    found = explained(capsys, matmuls, "--target", "amd-rdna3")
    assert {each["limit"] for each in found["layers"]} == {"unknown"}
    assert not any("roofline_seconds" in each for each in found["layers"])


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (("--except", "cooperative-matrix=half"), ["fma", "fma"]),
        (("--except", "cooperative-matrix=full"), ["cooperative-matrix", "fma"]),
        (("--only", "cooperative-matrix=f*"), ["fma", "fma"]),
        (("--only", "cooperative-matrix=h*,full"), ["cooperative-matrix", "fma"]),
    ],
)
def test_layers_are_chosen_for_a_path(
    option: tuple[str, str], expected: list[str], matmuls: str, capsys: pytest.CaptureFixture[str]
):
    found = explained(capsys, matmuls, "--target", "nvidia-h200", *option)
    assert paths(found) == expected
    if expected[0] == "fma":
        assert reason(found["layers"][0]["layer"], "cooperative-matrix").startswith("barred: --")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "cooperative-matrix=nobody",
            "layer with a multiplication is named 'nobody' (layers: half",
        ),
        ("tensor-cores=half", "paths: cooperative-matrix, rotate, rows, dot, fma"),
        ("fma", "does not have the form PATH=LAYER"),
        ("fma=full", "no path is left: the options must allow fma"),
    ],
)
def test_impossible_limits_are_refused(
    option: str, message: str, matmuls: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["explain", matmuls, "--target", "nvidia-h200", "--except", option]) == 1
    said = "".join(capsys.readouterr())
    assert message in said
    assert "Traceback" not in said


def test_a_program_explains_itself(
    matmuls: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = str(tmp_path / "program")
    assert main(["compile", matmuls, "--target", "nvidia-h200", "-o", folder]) == 0
    capsys.readouterr()
    of_program = explained(capsys, folder)
    of_model = explained(capsys, matmuls, "--target", "nvidia-h200")
    assert of_program["layers"] == of_model["layers"]
    assert len(Program.load(folder).layers) == 2
    (tmp_path / "program" / "layers.json").unlink()
    assert Program.load(folder).layers == ()
    assert main(["explain", folder]) == 1
    assert "compile it again" in capsys.readouterr().err


def test_text_names_each_layer_and_each_reason_once(
    matmuls: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["explain", matmuls, "--target", "lavapipe", "--device", "interpreter"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^0 +cooperative-matrix .* half$", text, re.MULTILINE)
    assert re.search(r"^1 +rows .* full$", text, re.MULTILINE)
    assert text.count("rows: the result has few rows: the larger operand is streamed once") == 1
    assert "measured" in text
    assert "for lavapipe (target file: measured, " in text
    assert "no roofline: the target file of lavapipe has no measured rates" in text


def test_a_dispatch_by_loops_has_the_reasons_of_its_largest_operation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "depthwise.mlir"
    path.write_text(DEPTHWISE)
    assert main(["explain", str(path), "--target", "nvidia-h200"]) == 0
    text = capsys.readouterr().out
    assert "loops: channels are contiguous" in text
    assert "it has 1 input" not in text
    assert "why no faster path" not in text


class Page(HTMLParser):
    """A parser that checks that tags are nested, and collects the references of a page."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_complete_and_loads_no_other_files(matmuls: str, tmp_path: Path):
    page = tmp_path / "page.html"
    assert main(["explain", matmuls, "--target", "nvidia-h200", "-o", str(page)]) == 0
    parsed = Page()
    parsed.feed(page.read_text())
    assert parsed.open == []
    assert {"#layer-0", "#layer-1", "#note-1"} <= set(parsed.links)
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)
    assert "no cooperative matrices of f32" in page.read_text()


def test_unsupported_nodes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "sine.mlir"
    path.write_text(SINE)
    assert main(["explain", str(path), "--target", "lavapipe"]) == 1
    text = capsys.readouterr().out
    assert "NOT SUPPORTED" in text
    assert "math.sin" in text


def test_dynamic_sizes_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "dynamic.mlir"
    path.write_text(DYNAMIC)
    (layer,) = explained(capsys, str(path), "--target", "nvidia-h200")["layers"]
    assert layer["limit"] == "unknown"
    assert "operations" not in layer["layer"]
    assert any(isinstance(count, str) for count in layer["grid"])
    assert main(["explain", str(path), "--target", "nvidia-h200"]) == 0
    text = capsys.readouterr().out
    assert "matmul_Dx" in text
    assert "work: at least 0 FLOP; no roofline: sizes are known only at run time" in text


def test_numbers_are_abbreviated_to_ranges():
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7, 8"
    assert ranges([3]) == "3"


def table(text: str) -> list[list[str]]:
    """Returns the cells of the text's table without its head."""
    _, _, behind = text.partition("#  path")
    lines = behind.split("\n\n")[0].splitlines()
    return [re.split(r"  +", line.strip()) for line in lines[1:]]


def test_rows_are_sorted_and_say_their_share(matmuls: str, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", matmuls, "--target", "nvidia-h200", "--sort", "work"]) == 0
    rows = table(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["0", "1"]
    assert [row[4] for row in rows] == ["246 kFLOP", "61.4 kFLOP"]
    shares = [float(row[7].removesuffix(" %")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert main(["explain", matmuls, "--target", "nvidia-h200", "--sort", "share"]) == 0
    sorted_shares = [float(row[7].removesuffix(" %")) for row in table(capsys.readouterr().out)]
    assert sorted_shares == sorted(shares, reverse=True)


REPEATED = """
func.func @main(%A: tensor<64x64xf16>, %B: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<64x64xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<64x64xf16>) -> tensor<64x64xf16>
  %r0 = linalg.matmul ins(%A, %B : tensor<64x64xf16>, tensor<64x64xf16>)
                      outs(%i : tensor<64x64xf16>) -> tensor<64x64xf16>
  %r1 = linalg.matmul ins(%r0, %B : tensor<64x64xf16>, tensor<64x64xf16>)
                      outs(%i : tensor<64x64xf16>) -> tensor<64x64xf16>
  return %r1 : tensor<64x64xf16>
}
"""


def test_dispatches_of_a_kernel_are_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "repeated.mlir"
    path.write_text(REPEATED)
    assert main(["explain", str(path), "--target", "nvidia-h200", "--group"]) == 0
    (row,) = table(capsys.readouterr().out)
    assert row[0] == "0, 1"
    assert row[4] == "1.05 MFLOP"
    assert row[7] == "100.0 %"
    assert "(2 times)" in " ".join(row)
