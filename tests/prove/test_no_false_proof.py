"""
No proof is false: random launches within the premises of a proof find nothing.

Kernels with faults that a prover may overlook are not proved.
"""

from __future__ import annotations

from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.testing.random_launches import find_bugs, tell  # noqa: E402
from xdsl_spirv.tools.kernel_proving import prove_kernel  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import KernelTest  # noqa: E402
from xdsl_spirv.tools.kernel_test.toml_file import read_test  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests/kernels"
LIMITS = Limits(3, work=1_000_000)
PREMISES = ("grid.y == 1", "grid.z == 1", "len(Nibbles) * 8 >= n", "len(Scales) * 32 >= n",
            "len(Output) >= n")  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_glslang")


def test_random_launches_find_what_a_missing_premise_allows():
    test = read_test(KERNELS / "guard-off-by-one/repaired.kernel.toml")
    ran, found = find_bugs(test, PREMISES, 6)
    assert ran
    assert not found
    rules = {problem.rule[:7] for _, problem in find_bugs(test, PREMISES[:-1], 6)[1]}
    assert rules == {"BOUNDS-"}


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(KERNELS.glob("*/repaired.kernel.toml")), ids=str)
def test_random_launches_of_proved_kernels_find_nothing(path: Path):
    test = read_test(path)
    result = prove_kernel(test, (), LIMITS)
    if result.verdict == "proved":
        _, found = find_bugs(test, (*result.premises, *result.offered), 20)
        assert not found, "\n".join(tell(*found[0]))


WRONG = {
    "a lane's store is seen behind a barrier of the subgroup": """
#version 450
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_EXT_null_initializer : enable
layout(local_size_x = 32) in;
layout(binding = 0) buffer Items { uint items[32]; };
shared uint shown[1] = {};
void main() {
    barrier();
    uint before = shown[0];
    if (gl_NumSubgroups != 1 || gl_WorkGroupID != uvec3(0)) return;
    subgroupBarrier();
    if (gl_SubgroupInvocationID == 0) shown[0] = before + 1;
    subgroupBarrier();
    bool same = shown[0] == before || gl_SubgroupInvocationID == 0;
    items[same ? gl_LocalInvocationIndex : 0] = 1;
}
""",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_not_proved(name: str, tmp_path: Path):
    path = tmp_path / "wrong.comp"
    path.write_text(WRONG[name].lstrip())
    assert prove_kernel(KernelTest(path, path), (), LIMITS).verdict != "proved"
