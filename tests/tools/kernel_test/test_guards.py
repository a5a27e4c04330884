"""`xdsl-spirv test --init` writes a launch with idle invocations if the kernel guards an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdsl_spirv.tools.main import main

pytestmark = pytest.mark.usefixtures("own_glslang")

KERNEL = """#version 450
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Items {{ uint items[]; }};
layout(push_constant) uniform Sizes {{ uint n; uint first; }};
shared uint tile[32];
bool is_beyond(uint at) {{ return at + first >= n; }}
void main() {{
    uint i = gl_GlobalInvocationID.x, l = gl_LocalInvocationID.x;
    {body}
}}
"""

GUARDED = {
    "a push constant": "if (i < n) items[i] = i;",
    "the length of an array": "if (i >= items.length()) return; items[i] = i;",
    "a signed number": "if (int(i) < int(n) - 1) items[i] = i;",
    "a product of a workgroup's index": (
        "uint j = gl_WorkGroupID.x * 32u + l; if (n > j) items[j] = j;"
    ),
    "a loop over steps of a workgroup": "for (uint j = l; j < n; j += 32u) items[j] = j;",
    "an argument of a function": "if (!is_beyond(i)) items[i] = i;",
}
UNGUARDED = {
    "no comparison": "items[i] = i;",
    "a constant": "if (l < 16u) tile[l] = 1u; items[i] = i;",
    "an element at the index": "if (items[i] < n) items[i] = i;",
    "a loop of each invocation": "for (uint k = 0u; k < n; k++) items[i] += k;",
}


def start(folder: Path, body: str) -> tuple[str, int]:
    """Returns the description that `--init` writes, and the exit status of its test."""
    kernel = folder / "kernel.comp"
    kernel.write_text(KERNEL.format(body=body))
    assert main(["test", str(kernel), "--init"]) == 0
    return (folder / "kernel.kernel.toml").read_text(), main(["test", str(kernel)])


@pytest.mark.parametrize("name", GUARDED)
def test_a_guarded_kernel_gets_idle_invocations(name: str, tmp_path: Path):
    text, _ = start(tmp_path, GUARDED[name])
    assert "size = 23\n" in text
    assert "32 x 1 x 1 invocations; the last one is partly idle\n" in text


@pytest.mark.parametrize("name", UNGUARDED)
def test_a_kernel_without_a_guard_gets_work_for_all(name: str, tmp_path: Path):
    text, status = start(tmp_path, UNGUARDED[name])
    assert "size = 32\n" in text
    assert "32 x 1 x 1 invocations; all have work: no guard was found\n" in text
    assert status == 0


def test_the_written_description_finds_a_guard_that_is_off_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert start(tmp_path, "if (i <= n) items[i] = i;")[1] == 1
    assert "BOUNDS-01" in capsys.readouterr().out
