"""
Random launches of kernels with proved initialization read no unwritten Workgroup memory.

Kernels that are almost right are not proved.
"""

from __future__ import annotations

from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.testing.random_launches import find_bugs, tell  # noqa: E402
from xdsl_spirv.tools.kernel_proving import Result, ask_about, limit_work, prove_kernel  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import KernelTest  # noqa: E402
from xdsl_spirv.tools.kernel_test.toml_file import read_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests/kernels"
ASKED = ("initialization",)


pytestmark = pytest.mark.usefixtures("own_glslang")


def ask(test: KernelTest) -> Result:
    return prove_kernel(test, (), limit_work(3, 60), ask_about(ASKED))


BODIES = {
    "the neighbour's element": ("s[i] = x[i]; barrier(); y[i] = s[(i + 1) % 64];", "proved"),
    "a reversed order": ("s[63 - i] = x[i]; barrier(); y[i] = s[i];", "unknown"),
    "pieces of a loop": (
        "for (uint k = i; k < 256; k += 64) s[k] = x[k]; barrier(); y[i] = s[i * 4 + 3];",
        "proved",
    ),
    "rows and columns": (
        "s[i % 8 * 9 + i / 8] = x[i]; barrier(); y[i] = s[i / 8 * 9 + i % 8];",
        "proved",
    ),
    "a vector by its components": (
        "v[i].x = x[i]; v[i].y = 1; v[i].z = 2; v[i].w = 3; barrier(); vec4 r = v[63 - i]; "
        "y[i] = r.x + r.w;",
        "proved",
    ),
    "one invocation writes for all": (
        "if (i == 5) s[0] = x[0]; barrier(); y[i] = s[0];",
        "unknown",
    ),
    "the first writes for all": ("if (i == 0) s[0] = x[0]; barrier(); y[i] = s[0];", "proved"),
    "a component that is missing": (
        "v[i].x = x[i]; v[i].y = 1; v[i].w = 3; barrier(); vec4 r = v[i]; y[i] = r.x + r.z;",
        "refuted",
    ),
    "a row that is missing": (
        "for (uint k = i; k < 192; k += 64) s[k] = x[i]; barrier(); y[i] = s[i * 4 + 3];",
        "refuted",
    ),
    "no barrier": ("s[i] = x[i]; y[i] = s[(i + 1) % 64];", "unknown"),
    "the write comes behind": ("y[i] = s[i]; barrier(); s[i] = x[i];", "refuted"),
    "a write that contents decide": (
        "if (x[i] > 0) s[i] = x[i]; barrier(); y[i] = s[i];",
        "refuted",
    ),
    "a loop that may have no trip": (
        "for (uint k = 0; k < n; ++k) s[i] = x[k]; barrier(); y[i] = s[i];",
        "refuted",
    ),
    "a write of the last iteration": (
        "float sum = 0; for (uint k = 0; k < 100 + n % 2; ++k) "
        "{ if (k > 0) sum += s[i]; barrier(); s[i] = x[k]; barrier(); } y[i] = sum;",
        "unknown",
    ),
}
"""
Code that reads shared memory `s` or `v`, and whether its initialization is proved.

The prover does not solve decreasing indices. If an index gives no information, it tries only the
invocations with the reader's index and with 0. A missing barrier is a race, which is another
question.
"""

KERNEL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) writeonly buffer Y {{ float y[]; }};
layout(push_constant) uniform Sizes {{ uint n; }};
shared float s[256];
shared vec4 v[64];
void main() {{
    uint i = gl_LocalInvocationID.x;
    {body}
}}
"""


@pytest.mark.parametrize("name", BODIES)
def test_workgroup_memory_is_written_before_it_is_read(name: str, tmp_path: Path):
    path, (body, verdict) = tmp_path / "kernel.comp", BODIES[name]
    path.write_text(KERNEL.format(body=body))
    test = KernelTest(path, path)
    result = ask(test)
    assert result.verdict == verdict, result.lines
    if verdict == "refuted":
        assert result.found[0].rule == "UNDEF-01"
    if verdict == "proved":
        lengths = [f"len({name}) >= 65536" for name in "XY"]
        ran, found = find_bugs(test, (*result.premises, *lengths), 4, questions=ASKED)
        assert ran
        assert not found, "\n".join(tell(*found[0]))


@pytest.mark.parametrize(("name", "verdict"), [("broken", "refuted"), ("repaired", "proved")])
def test_a_histogram_begins_at_zero(name: str, verdict: str):
    assert ask(read_test(KERNELS / f"histogram-not-zeroed/{name}.kernel.toml")).verdict == verdict


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(KERNELS.glob("*/*.kernel.toml")), ids=str)
def test_random_launches_of_proved_kernels_find_nothing(path: Path):
    test = read_test(path)
    result = ask(test)
    if result.verdict == "proved":
        premises = (*result.premises, *result.offered)
        _, found = find_bugs(test, premises, 10, questions=ASKED)
        assert not found, "\n".join(tell(*found[0]))
