"""The tutorials and the browser's replacement modules are valid. `make tutorials` runs them."""

from __future__ import annotations

import ast
import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.utils import bitwise_casts

import xdsl_spirv as xs

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "tutorials"
BROWSER = TUTORIALS / "browser"
NOTEBOOKS = sorted(TUTORIALS.glob("*.py"))


def loaded(name: str) -> ModuleType:
    """Imports the module that replaces `name` in browsers, under another name."""
    spec = importlib.util.spec_from_file_location(f"browser_{name}", BROWSER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_is_and_checks_what_it_shows(path: Path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    cells = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    checks = [cell for cell in cells if any(isinstance(n, ast.Assert) for n in ast.walk(cell))]
    assert len(checks) >= 2
    assert "app.run()" in path.read_text()


@pytest.mark.parametrize("name", ["page.html", "worker.js"])
def test_the_browser_loads_nothing_from_elsewhere(name: str):
    assert not re.search(r"\w+://", (BROWSER / name).read_text())


@pytest.mark.parametrize(("name", "findings"), [("sum", 1), ("sum_mended", 0)])
def test_the_shipped_kernels_are_what_the_tutorial_says(name: str, findings: int):
    """The tutorial uses the shipped kernels if glslang is missing."""
    kernel = xs.assemble((TUTORIALS / "data" / f"{name}.spvasm").read_text())
    buffers: dict[str, Any] = {"Input": np.arange(128, dtype=np.float32), "Output": [0.0, 0.0]}
    assert len(xs.check(kernel, 2, buffers)) == findings


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_casts_without_ctypes_are_those_of_xdsl(bits: int):
    ours = loaded("bitwise_casts")
    to_bits, from_bits = f"convert_f{bits}_to_u{bits}", f"convert_u{bits}_to_f{bits}"
    values = [0.0, -0.0, 1.5, -2.75, 65504.0, 1e-7, 1e-30, math.inf, -math.inf]
    values += [1e300] * (
        bits > 16
    )  # A number beyond f32 becomes infinite; beyond f16, xDSL raises an error.
    for value in values:
        assert getattr(ours, to_bits)(value) == getattr(bitwise_casts, to_bits)(value)
    rng = np.random.default_rng(0)
    for pattern in map(int, rng.integers(0, 2**bits, 200, dtype=np.uint64, endpoint=False)):
        assert _equal(getattr(ours, from_bits)(pattern), getattr(bitwise_casts, from_bits)(pattern))
    with pytest.raises(OverflowError):
        ours.convert_f16_to_u16(1e6)
    assert [ours.is_power_of_two(n) for n in (-2, 0, 1, 3, 8)] == [False, False, True, False, True]


def test_nothing_is_computed_in_types_that_the_browser_lacks():
    stand_in = loaded("ml_dtypes")
    types = [n for n in vars(stand_in) if isinstance(getattr(stand_in, n), np.dtype)]
    assert "bfloat16" in types
    for name in types:
        assert getattr(stand_in, name).itemsize == np.dtype(getattr(ml_dtypes, name)).itemsize
        x = np.zeros(2, getattr(stand_in, name))
        with pytest.raises(TypeError):
            np.add(x, x)


def test_a_cell_shows_its_last_value_or_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    shell: Any = loaded("shell")
    monkeypatch.setattr(shell, "RESULT", tmp_path)
    shell.run("x = 6\nprint('said')\nx * 7", "notebook", 1)
    assert (tmp_path / "html").read_text() == "<pre>42</pre>"
    assert not (tmp_path / "error").exists()
    shell.run("\n1 / 0", "notebook", 2)
    said = capsys.readouterr().out
    assert (tmp_path / "error").exists()
    assert said.startswith("said\n")
    assert 'File "cell 2", line 2' in said
    assert "shell.py" not in said
