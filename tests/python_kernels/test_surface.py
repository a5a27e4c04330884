"""All names of `import xdsl_spirv as xs` exist, and documented code runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xdsl_spirv as xs
from xdsl_spirv import targets
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.targets import load

DOCS = Path(__file__).resolve().parents[2] / "docs"

MATMUL = """
func.func @main(%A: tensor<8x4xf32>, %B: tensor<4x6xf32>) -> tensor<8x6xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x6xf32>) -> tensor<8x6xf32>
  %r = linalg.matmul ins(%A, %B : tensor<8x4xf32>, tensor<4x6xf32>)
                     outs(%init : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %r : tensor<8x6xf32>
}
"""
A = np.arange(32, dtype=np.float32).reshape(8, 4)
B = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("name", xs.__all__)
def test_every_name_exists_and_is_documented(name: str):
    assert (getattr(xs, name).__doc__ or "").strip()
    assert name in dir(xs)
    assert f"xs.{name}" in (DOCS / "python.md").read_text()


def test_importing_costs_nothing():
    code = "import sys, xdsl_spirv; print([m for m in ('numpy', 'xdsl') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'compille'"):
        _ = xs.compille  # pyright: ignore


@pytest.mark.parametrize("page", ["kernels.md", "python.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    run = subprocess.run(
        [sys.executable, script], cwd=DOCS.parent, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    said = re.findall(r"print\(.*\)\s+# (.*?)(?:\.\.\.>|,.*)?$", "\n".join(blocks), re.MULTILINE)
    assert len(said) >= 2
    for text in said:
        assert text in run.stdout


def test_a_module_is_parsed_lowered_encoded_and_decoded():
    module = xs.parse(MATMUL)
    assert np.array_equal(xs.interpret(module, [A, B])[0], A @ B)
    lowered = xs.interpret(module, [A, B], passes="linalg-to-spirv{target=lavapipe}")
    assert np.array_equal(lowered[0], A @ B)
    program = xs.compile(module, "lavapipe")
    assert np.array_equal(program(A.tolist(), B.tolist()), A @ B)
    (code,) = program.code.values()
    decoded = xs.decode(code.binary)
    assert xs.validate(decoded) == xs.validate(code.binary) == []
    assert xs.encode(xs.decode(xs.encode(decoded))) == xs.encode(decoded)
    assert xs.assemble(xs.disassemble(decoded))[:4] == code.binary[:4]


SIZES = {load(name).subgroup_size: name for name in targets.names() if "." not in name}
"""A target for each subgroup size."""


@pytest.mark.parametrize("size", SIZES)
def test_a_lowered_module_runs_with_its_targets_subgroups(size: int):
    sizes = {"8x4": "24x40", "4x6": "40x24", "8x6": "24x24"}
    text = re.sub("|".join(sizes), lambda found: sizes[found[0]], MATMUL)
    a, b = (np.arange(960, dtype=np.float32).reshape(s) % 7 for s in ((24, 40), (40, 24)))
    checks = Checks.all()
    passes = f"linalg-to-spirv{{target={SIZES[size]}}}"
    for given in (None, checks):
        np.testing.assert_array_equal(
            xs.interpret(text, [a, b], passes=passes, checks=given)[0], a @ b
        )
    assert str(checks.report.findings) == "[]"


def test_findings_are_shown():
    (code,) = xs.compile(xs.parse(MATMUL), "lavapipe").code.values()
    text = xs.disassemble(code.binary).replace("OpMemoryModel Logical", "OpMemoryModel Physical64")
    findings = xs.validate(xs.assemble(text))
    assert findings
    assert repr(findings) == "\n".join(map(str, findings))
    assert findings[0].rule in findings._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_notebooks_show_short_texts():
    program = xs.compile(xs.parse(MATMUL), "lavapipe")
    shown = repr(program)
    assert shown.startswith("<program for lavapipe: main(A: 8x4xf32, B: 4x6xf32) -> 8x6xf32;")
    assert len(shown) < 200
    assert len(repr(load("nvidia-h200"))) < 300
    explanation = xs.explain(program)
    assert "why this path" in repr(explanation)
    html = explanation._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.startswith("<iframe srcdoc=")
    assert html.count("<") == 2


def test_a_model_without_a_target_is_for_the_best_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_SPIRV_DEVICE", "interpreter")
    program = xs.compile(xs.parse(MATMUL))
    np.testing.assert_allclose(program(A, B), A @ B, rtol=1e-5)
    assert "why this path" in repr(xs.explain(xs.parse(MATMUL)))


def test_a_program_for_a_target_file_is_explained_by_it(tmp_path: Path):
    data = json.loads((Path(targets.__file__).parent / "lavapipe.json").read_text())
    (tmp_path / "mine.json").write_text(json.dumps(data | {"name": "mine"}))
    program = xs.compile(xs.parse(MATMUL), str(tmp_path / "mine.json"))
    assert program.manifest.target == "mine"
    assert "why this path" in repr(xs.explain(program))


def test_arrays_of_another_type_are_refused():
    with pytest.raises(ProgramError, match="astype"):
        xs.compile(xs.parse(MATMUL), "lavapipe")(A, B.astype(np.float64))
