"""Findings name their lines in every language and form of debug information."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import parse_test

SOURCE = """RWStructuredBuffer<int> x : register(u0);
RWStructuredBuffer<int> y : register(u1);
groupshared int tile[8];
int take(int at) {
    int r = tile[at & 7];
    return r;
}
int part(int a, int b) {
    int r = a;
    FUNCTION
    return r;
}
[numthreads(8, 1, 1)]
void main(uint3 id : SV_DispatchThreadID) {
    int i = int(id.x), sum = 0;
    tile[i] = x[i];
    BARRIER
    for (int n = 0; n < 3; n++) {
        if ((n & 1) == 0) {
            LOOP
            sum += part(n + 1, i + 1);
        }
    }
    sum += take(i + 1);
    y[i] = sum;
}
"""
SYNC = "GroupMemoryBarrierWithGroupSync();"
FAULTS = {
    "a race": ("BARRIER", "", ("RACE-01",), "int r = tile[at & 7];"),
    "a store beyond the buffer": ("LOOP", "y[i * 9 + n + 90] = n;", ("BOUNDS-01",), "n + 90"),
    "a division by 0": ("FUNCTION", "r = a / (b - 3);", ("UNDEF-04",), "a / (b - 3)"),
    "a shift by the width": ("FUNCTION", "r = a << (b + 30);", ("UNDEF-03",), "a << (b + 30)"),
}
FORMS = {".hlsl": ("-g", "-gVS"), ".slang": ("-g1", "-g2", "-g3")}
"""Options for OpLine only, and for NonSemantic.Shader.DebugInfo.100."""


def run(path: Path, text: str, option: str, optimize: bool) -> Outcome:
    path.write_text(text)
    buffer = {"type": "i32", "size": 8, "content": "range"}
    data = {"kernel": path.name, "grid": 1, "allow": ["VUL-13"],
            "compile": {"options": [option], "optimize": optimize},
            "buffers": {"0.0": buffer, "0.1": buffer}}  # fmt: skip
    (outcome,) = run_test(parse_test(data, path.with_suffix(".toml")))
    if "not installed" in outcome.misuse:
        pytest.skip(outcome.misuse)
    assert not outcome.misuse
    return outcome


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(("suffix", "option"), [(s, o) for s in FORMS for o in FORMS[s]])
def test_a_finding_names_its_line(
    fault: str, suffix: str, option: str, optimize: bool, tmp_path: Path
):
    hole, faulty, rules, line = FAULTS[fault]
    right = SOURCE if hole == "BARRIER" else SOURCE.replace("BARRIER", SYNC)
    text = right.replace(hole, faulty)
    for name in ("BARRIER", "LOOP", "FUNCTION"):
        text = text.replace(name, "")
    path = tmp_path / f"kernel{suffix}"
    outcome = run(path, text, option, optimize)
    assert [problem.rule for problem in outcome.problems] == list(rules)
    (problem,) = outcome.problems
    # An undefined value is reported at its store, with the line of its origin.
    places = [problem.location, *(problem.related if rules[0].startswith("UNDEF") else ())]
    expected = next(n for n, each in enumerate(text.splitlines(), 1) if line in each)
    named = [(Path(place.file).name, place.line) for place in places if place is not None]
    assert (path.name, expected) in named
