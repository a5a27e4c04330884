"""Advice is a command that works as it is pasted."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.tools import advice
from xdsl_spirv.tools.advice import _conversion  # pyright: ignore[reportPrivateUsage]
from xdsl_spirv.tools.main import parser


def test_the_conversion_names_open_sizes_and_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 4] x) => (float[batch, 4] y)'
    path = tmp_path / "a model.onnx"
    onnx.save(onnx.parser.parse_model(text + "{ y = Relu(x) }"), str(path))
    found: set[str] = {"onnxconverter_common", "onnxruntime"}
    monkeypatch.setattr(advice, "find_spec", lambda name: name if name in found else None)
    words = shlex.split(_conversion(str(path)))
    arguments: Any = parser().parse_args(words[1:])
    assert (arguments.input, arguments.dims) == (str(path), ["batch=1"])
    found.clear()
    assert _conversion(str(path)).startswith("pip install 'xdsl-spirv[convert]' && xdsl-spirv")
