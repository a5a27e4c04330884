"""docs/program.schema.json is current, accepts written manifests and refuses invalid ones."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.state_programs import compiled

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "program.schema.json").read_text())
OPEN = """
func.func @main(%x: tensor<?x8xf16>) -> tensor<?x8xf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf16>
  %e = tensor.empty(%n) : tensor<?x8xf16>
  %y = linalg.exp ins(%x : tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}"""


FIXED = OPEN.replace("?x8", "4x8").replace("empty(%n)", "empty()")


@cache
def program(name: str) -> Program:
    if name == "states":
        return compiled()
    if name == "open":
        return compile(parse_text(OPEN), "nvidia-h200")
    lines = [line for line in FIXED.splitlines() if "%c0" not in line]
    return compile(parse_text("\n".join(lines)), "lavapipe")


def manifest(name: str, folder: Path) -> Any:
    program(name).save(folder)
    return json.loads((folder / "program.json").read_text())


def test_the_schema_is_current(tmp_path: Path):
    code = "import generate_program_schema; print(generate_program_schema.text(), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True
    )
    assert done.stdout == (ROOT / "docs" / "program.schema.json").read_text(), (
        "run scripts/generate_program_schema.py"
    )


@pytest.mark.parametrize("name", ["fixed", "open", "states"])
def test_written_manifests_follow_the_schema(name: str, tmp_path: Path):
    jsonschema.validate(manifest(name, tmp_path / "p"), SCHEMA)


@pytest.mark.parametrize(
    "damage",
    [
        lambda m: m.pop("target"),
        lambda m: m.update(version=9),
        lambda m: m.update(subgroup_size="8"),
        lambda m: m["buffers"][0].update(kind="other"),
        lambda m: m["buffers"][0].pop("shape"),
        lambda m: m["dispatches"][0].update(grid=[1, 1]),
        lambda m: m["dispatches"][0]["bindings"][0].update(colour="red"),
    ],
)
def test_the_schema_and_the_reader_refuse_other_manifests(damage: Any, tmp_path: Path):
    changed = manifest("fixed", tmp_path / "p")
    damage(changed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, SCHEMA)
    (tmp_path / "p" / "program.json").write_text(json.dumps(changed))
    with pytest.raises(Exception, match=r"program\.json|schema"):
        Program.load(tmp_path / "p")
