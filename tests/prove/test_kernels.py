"""`xdsl-spirv prove` proves a kernel with premises, refutes it by a launch, or does not know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.testing.random_launches import USUAL  # noqa: E402
from xdsl_spirv.tools.kernel_proving import Result, ask_about, is_proved, prove_kernel  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import QUESTIONS, KernelTest, Misuse  # noqa: E402
from xdsl_spirv.tools.kernel_test.toml_file import read_test  # noqa: E402
from xdsl_spirv.tools.main import main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests/kernels"
LIMITS = Limits(5, work=1_000_000)
PREMISES = ("grid.y == 1", "grid.z == 1", "len(Nibbles) * 8 >= n", "len(Scales) * 32 >= n",
            "len(Output) >= n")  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_glslang")


FAST = ("coopmat-store-overlap", "scan-double-buffer")


def prove(name: str) -> Result:
    return prove_kernel(read_test(KERNELS / f"{name}.kernel.toml"), (), LIMITS)


def without_launch(premises: tuple[str, ...]) -> Result:
    """Returns the answer for a repaired kernel with premises, but without the size of its grid."""
    test = read_test(KERNELS / "guard-off-by-one/repaired.kernel.toml")
    return prove_kernel(replace(test, grid=None), premises, LIMITS)


def test_a_race_in_a_loop_is_refuted_by_a_launch():
    result = prove("reduce-without-barrier/broken")
    assert result.verdict == "refuted"
    assert result.found[0].rule.startswith("RACE-")
    assert any(line.startswith("refuted by the launch grid.x = ") for line in result.lines)


def test_a_loop_with_barriers_is_proved():
    result = prove("reduce-without-barrier/repaired")
    assert result.verdict == "proved", result.lines
    assert result.offered == [
        *("grid.y == 1", "grid.z == 1"),
        *("len(Input) >= grid.x * 256", "len(Sums) >= grid.x"),
    ]


PAIRS = {
    "barrier-of-subgroup-scope": "accesses make available, the barrier only orders",
    "barrier-trip-count": "Workgroup memory holds one number for all; contents have a bound",
    "coopmat-store-overlap": "a subgroup stores a matrix, row by row",
    "int-min-quotient": "contents are not zero",
    "layer-norm-two-passes": "one invocation of a subgroup is elected",
    "local-array-index": "a counter stays below the number that the loop compares it with",
    "scan-double-buffer": "a loop of known trips is unrolled",
    "transpose-tile": "the sizes of the launch make products of unknown numbers linear",
}
"""Kernels that are proved in their repaired form only, with the fact that the proof uses."""


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.long) for n in PAIRS]
)
def test_a_repair_is_proved_and_its_bug_is_not(name: str):
    assert prove(f"{name}/repaired").verdict == "proved", PAIRS[name]
    assert prove(f"{name}/broken").verdict != "proved"


def test_a_premise_of_contents_is_needed():
    test = read_test(KERNELS / "int-min-quotient/repaired.kernel.toml")
    result = prove_kernel(replace(test, grid=None), ("len(Output) >= grid.x * 8",), LIMITS)
    assert result.verdict != "proved"


def test_premises_that_are_given_suffice():
    result = without_launch(PREMISES)
    assert (result.verdict, result.offered) == ("proved", [])


def test_a_proof_needs_its_premises():
    assert without_launch(PREMISES[:-1]).offered == ["len(Output) >= n"]


def test_premises_that_exclude_an_access_prove_nothing():
    result = without_launch((*PREMISES, "n < 1"))
    assert result.verdict == "unknown"
    assert "never reached under the premises" in result.lines[0]


@pytest.mark.parametrize("asked", ["bounds", "division"])
@pytest.mark.parametrize(
    ("others", "named"),
    [
        (("grid.y >= 2",), r"\(grid.y == 1, grid.y >= 2\)"),
        (("n == 4", "n == 5"), r"\(n == 4, n == 5\)"),
        (("1 > 2",), r"\(1 > 2\)"),
    ],
)
def test_premises_that_contradict_each_other_are_refused(
    others: tuple[str, ...], named: str, asked: str
):
    test = replace(read_test(KERNELS / "guard-off-by-one/repaired.kernel.toml"), grid=None)
    with pytest.raises(Misuse, match=f"no launch fulfils these premises together, .* {named}"):
        prove_kernel(test, (*PREMISES, *others), LIMITS, ask_about([asked]))


def test_a_suggested_premise_that_contradicts_a_given_one_proves_nothing(tmp_path: Path):
    """No launch satisfies both premises, so that a proof under them would be vacuous."""
    path = tmp_path / "divide.comp"
    path.write_text(DIVIDE)
    result = prove_kernel(KernelTest(path, path), ("grid.y >= 2",), LIMITS, ask_about(["division"]))
    assert result.verdict != "proved"


def test_premises_that_a_proof_does_not_need_are_named():
    result = without_launch((*PREMISES, "n < 1000", "grid.x <= 7"))
    assert (result.verdict, result.unused) == ("proved", ["n < 1000", "grid.x <= 7"])


def test_a_premise_of_unknown_names_is_refused():
    with pytest.raises(Misuse, match="'m' is not a known name"):
        without_launch(("len(Output) >= m",))


def test_the_command_prints_the_premises(capsys: pytest.CaptureFixture[str]):
    kernel = str(KERNELS / "guard-off-by-one/repaired.comp")
    assumed = [word for text in PREMISES for word in ("--assume", text)]
    assert main(["prove", kernel, *assumed]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{kernel}: proved, if the premises below are true\n")
    assert all(f"premise, used but not proved: {text}" in told for text in PREMISES)


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(KERNELS.glob("*/broken.kernel.toml")), ids=str)
def test_no_broken_kernel_is_proved(path: Path):
    test = read_test(path)
    asked = tuple(prefix for name in USUAL for prefix in QUESTIONS[name])
    if any(rule.startswith(asked) for rule in test.findings):
        assert prove_kernel(test, (), LIMITS).verdict != "proved"


DIVIDE = """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer Items { uint items[]; };
void main() {
    items[0] = 12 / (1 - gl_WorkGroupID.y);
}
"""

TICKETS = """#version 450
#extension GL_EXT_null_initializer : enable
layout(local_size_x = 64) in;
layout(binding = 0) buffer Items {{ uint items[]; }};
layout(binding = 1) buffer Counter {{ uint used; }};
shared uint own = {{}};
void main() {{
    uint place = atomicAdd({counter}, 1u);
    if (place < items.length()) items[place] = 7;
}}
"""


@pytest.mark.parametrize(("counter", "verdict"), [("used", "proved"), ("own", "refuted")])
def test_tickets_of_one_counter_are_unique(counter: str, verdict: str, tmp_path: Path):
    path = tmp_path / "tickets.comp"
    path.write_text(TICKETS.format(counter=counter))
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == verdict, result.lines


SIZED = """#version 450
layout(constant_id = 0) const uint size = 64;
layout(local_size_x_id = 0) in;
layout(binding = 0) buffer Items { uint items[]; };
void main() {
    uint place = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (place < items.length()) items[place] = size;
}
"""


def test_a_constant_decides_the_size_of_workgroups(tmp_path: Path):
    path = tmp_path / "sized.comp"
    path.write_text(SIZED)
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == "proved", result.lines


ROWS = """#version 450
struct Row { uint before; uint places[2]; };
layout(push_constant) uniform Numbers { uvec2 size; float scale; };
layout(binding = 0, std430) readonly buffer Rows { uint head; Row rows[]; };
layout(binding = 1) buffer Items { uint items[]; };
void main() {
    uint row = gl_WorkGroupID.x;
    if (row != size.y || row >= rows.length() || gl_WorkGroupID.yz != uvec2(0)) return;
    uint place = rows[row].places[1];
    if (place COMPARED items.length()) items[place] = 7;
}
"""


@pytest.mark.parametrize(("compared", "verdict"), [("<", "proved"), ("<=", "refuted")])
def test_a_launch_has_numbers_in_structs_and_vectors(compared: str, verdict: str, tmp_path: Path):
    path = tmp_path / "rows.comp"
    path.write_text(ROWS.replace("COMPARED", compared))
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == verdict, result.lines
    assert verdict == "proved" or "Rows: 32 bits at " in result.lines[1]


VIEWS = """#version 450
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer Words { uint words[]; };
layout(binding = 0) VIEW buffer Quads { uvec4 quads[]; };
layout(binding = 1) buffer Items { uint items[]; };
void main() {
    uint i = gl_WorkGroupID.x * 32 + gl_LocalInvocationID.x;
    if (gl_WorkGroupID.yz != uvec2(0) || i >= items.length() || i >= quads.length()) return;
    if (i < words.length()) DONE = quads[i].x + words[i];
}
"""


@pytest.mark.parametrize(
    ("view", "done", "verdict"),
    [
        ("readonly", "items[i]", "proved"),
        ("", "if (i > 7) quads[i].y", "refuted"),
        ("", "if (i == 9) quads[i].y", "proved"),
        ("", "if (i * 4 + 1 >= words.length()) quads[i].y", "proved"),
    ],
)
def test_two_variables_for_one_buffer_may_race(view: str, done: str, verdict: str, tmp_path: Path):
    """An invocation stores to bytes that others read through another variable."""
    path = tmp_path / "views.comp"
    path.write_text(VIEWS.replace("VIEW", view).replace("DONE", done))
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == verdict, result.lines


STEPS = """#version 450
layout(local_size_x = 32) in;
layout(binding = 0) buffer Items { uint items[]; };
void main() {
    if (gl_WorkGroupID != uvec3(0) || items.length() < 32 * 8) return;
    for (uint n = 0; n < 8; ++n) items[STEP] = n;
}
"""


@pytest.mark.parametrize(
    ("step", "verdict"),
    [("gl_LocalInvocationID.x + 32 * n", "proved"), ("gl_LocalInvocationID.x + 31 * n", "refuted")],
)
def test_stores_of_an_unrolled_loop_get_their_verdict(step: str, verdict: str, tmp_path: Path):
    path = tmp_path / "steps.comp"
    path.write_text(STEPS.replace("STEP", step))
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == verdict, result.lines


PAIRS_OF_NUMBERS = """#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    y[i] = x[2 * i] + x[2 * i + 1];
}
"""


def test_lengths_of_buffers_are_the_least_that_suffice(tmp_path: Path):
    path = tmp_path / "pairs.comp"
    path.write_text(PAIRS_OF_NUMBERS)
    result = prove_kernel(KernelTest(path, path), (), LIMITS)
    assert result.verdict == "proved", result.lines
    lengths = [text for text in result.offered if text.startswith("len(")]
    assert lengths == ["len(X) >= grid.x * 2", "len(Y) >= grid.x"]


@pytest.mark.long
def test_a_number_of_the_launch_that_a_proof_does_not_need_is_no_premise():
    result = prove("transpose-tile/repaired")
    assert "columns == 32" in result.offered, result.lines
    test = read_test(KERNELS / "transpose-tile/repaired.kernel.toml")
    for text in result.offered:
        rest = [t for t in result.offered if t != text]
        assert not is_proved(test, rest, LIMITS), text


DEAD = """#version 450
layout(local_size_x = 32) in;
layout(push_constant) uniform Numbers { uint rows; };
layout(binding = 0) buffer Items { uint items[]; };
void main() {
    uint row = gl_WorkGroupID.x * 32 + gl_LocalInvocationID.x;
    if (gl_WorkGroupID.yz != uvec2(0) || row >= rows || row >= items.length()) return;
    if (row + 1 <= rows) items[row] = 1;
    else items[0] = 2;
}
"""


def test_a_proof_does_not_need_code_that_no_launch_reaches(tmp_path: Path):
    """A proof does not cover code that a premise excludes."""
    path = tmp_path / "dead.comp"
    path.write_text(DEAD)
    assert prove_kernel(KernelTest(path, path), (), LIMITS).verdict == "proved"
    result = prove_kernel(KernelTest(path, path), ("rows < 1",), LIMITS)
    assert result.lines[0].endswith("never reached under the premises")
