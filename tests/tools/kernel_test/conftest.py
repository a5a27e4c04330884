"""Kernels and their tests, written into a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.tools.kernel_test.compilers import find_glslang
from xdsl_spirv.tools.kernel_test.description import Misuse
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test

SAXPY = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool twice = false;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Output { float y[]; } result;
layout(push_constant) uniform P { uint n; float scale; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) result.y[i] = x[i] * (twice ? 2.0 : 1.0) + scale;
}
"""
SAXPY_TEST = """kernel = "saxpy.comp"
grid = 4
[specialization]
0 = 32
twice = true
[push-constants]
n = 100
scale = 0.5
[buffers.Input]
type = "f32"
size = 100
content = "random"
[buffers.Output]
type = "f32"
size = 100
content = "zeros"
expect = "Input * 2 + scale"
tolerance = { absolute = 1e-6, relative = 1e-5 }
"""
SUM = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float sums[]; };
shared float tile[64];
void main() {
    uint l = gl_LocalInvocationID.x;
    tile[l] = x[gl_GlobalInvocationID.x];
    barrier();
    for (uint s = 32; s > 0; s /= 2) {
        if (l < s)
            tile[l] += tile[l + s];
        barrier();
    }
    if (l == 0)
        sums[gl_WorkGroupID.x] = tile[0];
}
"""
SUM_TEST = """kernel = "sum.comp"
grid = 2
[buffers.Input]
size = 128
content = "random"
[buffers.Output]
size = 2
content = "zeros"
expect = "sum(reshape(Input, (2, 64)), axis=1)"
tolerance = 1e-5
"""


@pytest.fixture(scope="session")
def glslang() -> list[str]:
    """Returns the command that compiles GLSL."""
    try:
        return find_glslang()
    except Misuse as error:
        pytest.skip(str(error))


@pytest.fixture
def saxpy(glslang: list[str], tmp_path: Path) -> Path:
    """Returns the test of a correct kernel with all arguments that a launch can have."""
    (tmp_path / "saxpy.comp").write_text(SAXPY)
    (tmp_path / "saxpy.kernel.toml").write_text(SAXPY_TEST)
    return tmp_path / "saxpy.kernel.toml"


@pytest.fixture
def racy(glslang: list[str], tmp_path: Path) -> Path:
    """Returns a sum over a workgroup without the first barrier."""
    (tmp_path / "sum.comp").write_text(SUM.replace("    barrier();\n    for", "    for"))
    (tmp_path / "sum.kernel.toml").write_text(SUM_TEST)
    return tmp_path / "sum.kernel.toml"


@pytest.fixture
def run_glsl(glslang: list[str], tmp_path: Path) -> Callable[..., list[Outcome]]:
    """`run_glsl(source, description)` returns the outcomes of a kernel `x.comp`."""

    def run(source: str, description: str, **files: Any) -> list[Outcome]:
        (tmp_path / "x.comp").write_text(source)
        path = tmp_path / "x.kernel.toml"
        path.write_text('kernel = "x.comp"\n' + description)
        return run_test(read_test(path))

    return run
