"""Physical pointers refer to buffers of the launch, which may alias."""

from __future__ import annotations

from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.tools.kernel_proving import Result, prove_kernel  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import KernelTest  # noqa: E402
from xdsl_spirv.tools.kernel_test.toml_file import read_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(5, work=1_000_000)
SHADER = """#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 16) in;
layout(buffer_reference, std430) buffer Words {{ uint v[]; }};
layout(push_constant) uniform Parameters {{ uint64_t source; Words target; uint n; }};
void main() {{
  uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  {body}
}}
"""


pytestmark = pytest.mark.usefixtures("own_glslang")


def prove(body: str, folder: Path, *premises: str) -> Result:
    path = folder / "address.comp"
    path.write_text(SHADER.format(body=body))
    return prove_kernel(KernelTest(path, path), premises, LIMITS)


@pytest.mark.parametrize(("name", "verdict"), [("broken", "refuted"), ("repaired", "proved")])
def test_a_store_beyond_a_buffer_is_found(name: str, verdict: str):
    test = read_test(ROOT / f"tests/kernels/address-beyond-buffer/{name}.kernel.toml")
    result = prove_kernel(test, (), LIMITS)
    assert result.verdict == verdict, result.lines
    assert not result.found or result.found[0].rule == "BOUNDS-01"


def test_a_copy_between_addresses_needs_two_buffers(tmp_path: Path):
    result = prove("target.v[i] = Words(source).v[i + 1];", tmp_path, "len(source) > n", "n >= 1")
    assert result.verdict == "proved", result.lines
    assert "addresses.distinct" in result.offered
    assert any(text.startswith("len(target) >= ") for text in result.offered)


def test_elements_that_overlap_race(tmp_path: Path):
    """Invocation i stores a word at byte offset 2 * i, so that adjacent words overlap."""
    result = prove("Words(source + i * 2).v[0] = i;", tmp_path)
    assert result.verdict == "refuted", result.lines
    assert result.found[0].rule.startswith(("RACE-", "ALIGN-", "BOUNDS-"))


def test_an_offset_in_bytes_selects_an_element(tmp_path: Path):
    body = "Words(source + i * 8 + 4).v[0] = i; target.v[i] = i;"
    result = prove(body, tmp_path, "len(source) >= n * 2", "n < 10000")
    assert result.verdict == "proved", result.lines


def test_an_address_that_is_chosen_is_unknown(tmp_path: Path):
    chosen = "Words(i < 3 ? source : source + 64).v[i] = i;"
    result = prove(chosen, tmp_path)
    assert result.verdict == "unknown"
    assert "an address must be a push constant" in result.lines[0]


NAMED = """#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 16) in;
layout(buffer_reference, std430) buffer Words {{ uint v[]; }};
layout(std430, binding = 0) buffer {0} {{ uint w[]; }} bound;
layout(push_constant) uniform Parameters {{ Words target; }} given;
void main() {{ given.target.v[gl_GlobalInvocationID.x] = bound.w[gl_GlobalInvocationID.x]; }}
"""


@pytest.mark.parametrize(("name", "verdict"), [("source", "proved"), ("target", "unknown")])
def test_an_address_with_the_name_of_a_buffer_is_refused(name: str, verdict: str, tmp_path: Path):
    path = tmp_path / "address.comp"
    path.write_text(NAMED.format(name))
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == verdict, result.lines
    assert verdict == "proved" or "has the same name as a buffer" in result.lines[0]
