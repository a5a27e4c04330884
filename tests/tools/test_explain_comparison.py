"""`explain A --against B` pairs layers by their nodes, and compares their costs."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.tools.comparison import comparison_of
from xdsl_spirv.tools.comparison_data import Pair, side_value
from xdsl_spirv.tools.comparison_html import page_of
from xdsl_spirv.tools.explanation import SCHEMA, ExplainedLayer, Explanation
from xdsl_spirv.tools.main import main

MATMUL = """
func.func @main(%A: tensor<64x64xf16>, %B: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %product = linalg.matmul ins(%A, %B : tensor<64x64xf16>, tensor<64x64xf16>)
                           outs(%i : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %product : tensor<64x64xf32>
}
"""


H200 = ("--target", "nvidia-h200")


def layer(number: int, nodes: tuple[str, ...], path: str, seconds: float | None) -> ExplainedLayer:
    record = Layer(nodes, (), path, "", "", "", (), 10, 20, 1)
    entry = ExplainedLayer(
        *(number, f"k{number}", (1, 1, 1), (32, 1, 1), False, record, (), (), seconds, "memory")
    )
    return entry


def explained(model: str, *layers: ExplainedLayer) -> Explanation:
    return Explanation(SCHEMA, 1, model, "t", "", (), layers, len(layers), 0, 0, 0, 0)


FUSED = explained("<fused>", layer(0, ("a", "b"), "fma", 3.0), layer(1, ("c",), "fma", 1.0))
SPLIT = explained(
    "split",
    layer(0, ("a",), "dot", 1.0),
    layer(1, ("b",), "loops", 1.0),
    layer(2, ("c",), "fma", 1.0),
    layer(3, (), "pack", 4.0),
)


def test_layers_that_share_a_node_are_a_pair():
    comparison = comparison_of(FUSED, SPLIT)
    assert comparison.measure == "roofline"
    assert comparison.pairs == (
        Pair(("a", "b"), (0,), (0, 1)),
        Pair(("c",), (1,), (2,)),
        Pair(("k3",), (), (3,)),
    )
    assert side_value(SPLIT, "roofline", (0, 1)) == 2.0
    assert side_value(SPLIT, "roofline", ()) is None
    back = comparison_of(SPLIT, FUSED)
    assert {(pair.b, pair.a) for pair in back.pairs} == {(p.a, p.b) for p in comparison.pairs}


@pytest.mark.parametrize(
    ("a", "b", "measure"),
    [(None, None, "roofline"), ("x", None, "roofline"), ("x", "y", "measured")],
)
def test_common_layers_are_compared(a: str | None, b: str | None, measure: str):
    sides = [replace(side, device=device) for side, device in ((FUSED, a), (SPLIT, b))]
    assert comparison_of(*sides).measure == measure
    without = tuple(replace(entry, roofline_seconds=None) for entry in FUSED.layers)
    assert comparison_of(FUSED, replace(SPLIT, layers=without)).measure == "work"


def test_the_page_shows_both_sides():
    page = page_of(comparison_of(FUSED, SPLIT))
    assert "<fused>" not in page
    assert page.count('class="pair') == 3
    assert "fma -&gt; dot + loops" in page
    assert "B: nothing" not in page
    assert "A: nothing" in page
    assert 'id="timeline"' in page
    comparison = FUSED.against(SPLIT)
    assert repr(comparison).startswith("A: <fused> for t")
    assert escape(page_of(comparison)) in comparison._repr_html_()  # pyright: ignore


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compared") / "x.mlir"
    path.write_text(MATMUL)
    return path


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["explain", *arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_targets_and_two_programs(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    targets = ["--target", "nvidia-h200", "--against-target", "lavapipe"]
    found = compared(capsys, str(source), *targets)
    assert (found["a"]["target"], found["b"]["target"]) == ("nvidia-h200", "lavapipe")
    assert found["pairs"] == [{"nodes": ["product"], "a": [0], "b": [0]}]
    limited = ["--except", "cooperative-matrix=product", "-o", str(tmp_path / "fma")]
    assert main(["compile", str(source), "--target", "nvidia-h200", *limited]) == 0
    arguments = ["--target", "nvidia-h200", "--against", str(tmp_path / "fma")]
    assert main(["explain", str(source), *arguments]) == 0
    text = capsys.readouterr().out
    assert "cooperative-matrix -> fma" in text
    assert "1 of 1 pairs of layers use different paths" in text
    assert "compared: roofline times" in text
    assert main(["explain", str(source), *arguments, "--against-target", "lavapipe"]) == 1
    assert "was compiled for nvidia-h200, not for lavapipe" in capsys.readouterr().err
    assert main(["explain", str(source), *H200, "--against-profile", "x"]) == 1
    assert "give --against, too" in capsys.readouterr().err


def test_a_page_without_times_says_that_there_are_none():
    sides = [
        explained(name, layer(0, ("a",), "fma", None)) for name in ("first.onnx", "second.onnx")
    ]
    comparison = comparison_of(*sides)
    assert comparison.measure == "work"
    assert "There are no times: " in page_of(comparison)
