"""Commands in advice work when pasted."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import xdsl_spirv as xs
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
    explanation = xs.explain(str(path), "lavapipe", dims={"batch": 256})
    words = shlex.split(_conversion(explanation))
    arguments: Any = parser().parse_args(words[1:])
    assert (arguments.input, arguments.dims) == (str(path), ["batch=256"])
    dynamic = xs.explain(str(path), "lavapipe", dims={"batch": None})
    assert "--dim batch=1 " in _conversion(dynamic)
    found.clear()
    assert _conversion(dynamic).startswith("pip install 'xdsl-spirv[convert]' && xdsl-spirv")


def test_prove_without_solvers_says_what_to_install(tmp_path: Path):
    kernel = tmp_path / "empty.comp"
    kernel.write_text("#version 450\nvoid main() {}\n")
    code = (
        "import sys; sys.modules['z3'] = None; "
        f"from xdsl_spirv.tools.main import main; sys.exit(main(['prove', {str(kernel)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'xdsl-spirv[prove]'" in done.stderr
    assert "has a defect" not in done.stderr
