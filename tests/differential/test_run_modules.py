"""scripts/run_modules.py gives the right verdicts for a shader, a race and a shader with images."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from xdsl_spirv.testing.differential.optimized import made_up_case
from xdsl_spirv.tools.kernel_test.compilers import CompileError, compile_source
from xdsl_spirv.tools.kernel_test.description import Compile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

run_modules: ModuleType = import_module("run_modules")

HEAD = """#version 450
layout(local_size_x = 8) in;
struct S { uint count; float mass; vec3 place; };
layout(std430, binding = 0) buffer B { S part[]; };
"""
BODIES = {
    "right": "part[gl_LocalInvocationIndex].mass *= 2.0;",
    "found": "part[0].count = gl_LocalInvocationIndex;",
}


def compile_body(folder: Path, body: str) -> bytes:
    path = folder / "a.comp"
    path.write_text(HEAD + f"void main() {{ {body} }}")
    try:
        return compile_source(path, Compile())
    except CompileError as error:
        pytest.skip(f"glslang: {error}")


def test_the_script_gives_the_right_verdicts(tmp_path: Path) -> None:
    for kind, body in BODIES.items():
        data = compile_body(tmp_path, body)
        assert run_modules.has_lines(data)
        assert run_modules.attempt(data, "main", False)[0] == kind
    data = compile_body(tmp_path, BODIES["right"])
    assert run_modules.attempt(data, "another", False)[0] == "refused"


def test_generated_buffers_have_the_types_of_the_module(tmp_path: Path) -> None:
    case = made_up_case(compile_body(tmp_path, BODIES["right"]))
    words = case.buffers[0, 0].reshape(-1, 8)
    assert words[:, 0].max() < 16
    assert (np.abs(words[:, [1, 4, 5, 6]].view(np.float32) - 2) < 2).all()
