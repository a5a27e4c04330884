"""Detector, classifier and recogniser read a page of text (`benchmarks/ocr.py`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def ocr() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ocr", ROOT / "benchmarks/ocr.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["ocr"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_boxes_are_connected_components(ocr: ModuleType):
    found = np.zeros((64, 96), np.float32)
    found[8:16, 10:60] = 0.9
    found[16:18, 40:50] = 0.9
    found[40:50, 5:90] = 0.8
    found[60, 60] = 1
    found[25:30, 70:90] = 0.35
    (top, bottom, left, right), second = ocr.boxes(found)
    assert (top, left) < (8, 10)
    assert (bottom, right) > (18, 60)
    assert second[0] < 40 < 50 < second[1]


def test_a_page_is_read_with_onnxruntime(ocr: ModuleType, onnx: ModuleType):
    if needed := ocr.missing():
        pytest.skip(f"pip install --no-deps {needed}")
    lines = ocr.read_page(ocr.page(), ocr.with_onnxruntime)
    assert [line.upside_down for line in lines] == [False, False, True]
    without = [line.text.replace(" ", "") for line in lines]
    assert without == [text.replace(" ", "") for text in ocr.TEXT]


@pytest.mark.long
def test_a_page_is_read_by_our_kernels(ocr: ModuleType, onnx: ModuleType):
    if needed := ocr.missing():
        pytest.skip(f"pip install --no-deps {needed}")
    figures = ocr.measure(ocr.page(), "interpreter", "lavapipe")
    assert figures["same_text"], figures
    assert [line["upside_down"] for line in figures["lines"]] == [False, False, True]
