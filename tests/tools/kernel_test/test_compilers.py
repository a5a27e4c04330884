"""A missing barrier is found at its line in Slang, HLSL and WGSL."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.compilers import COMPILERS, compile_source
from xdsl_spirv.tools.kernel_test.description import Compile, Misuse
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import parse_test

RUNNER = Path(__file__).resolve().parents[3] / "examples" / "runner-js"

HLSL = """StructuredBuffer<float> x : register(t0);
RWStructuredBuffer<float> y : register(u1);
groupshared float tile[64];
[numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uint l : SV_GroupIndex) {
    tile[l] = x[id.x];
    BARRIER
    y[id.x] = tile[63 - l];
}
"""
WGSL = """@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<f32, 64>;
@compute @workgroup_size(64) fn main(
    @builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) l: u32) {
    tile[l] = x[id.x];
    BARRIER
    y[id.x] = tile[63u - l];
}
"""
BARRIERS = {".wgsl": "workgroupBarrier();"}


def run(path: Path, text: str) -> Outcome:
    """Returns the outcome of a kernel. Skips if its compiler is not installed."""
    path.write_text(text)
    buffer = {"type": "f32", "size": 64, "content": "range"}
    data = {"kernel": path.name, "grid": 1,
            "buffers": {"0.0": buffer, "0.1": buffer | {"expect": "arange(64)[::-1]"}}}  # fmt: skip
    (outcome,) = run_test(parse_test(data, path.with_suffix(".toml")))
    if "not installed" in outcome.misuse:
        pytest.skip(outcome.misuse)
    return outcome


@pytest.mark.parametrize("suffix", [".slang", ".hlsl", ".wgsl"])
def test_a_missing_barrier_is_found_in_every_language(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if suffix == ".wgsl" and shutil.which("naga") is None:
        if not (RUNNER / "node_modules").exists() or shutil.which("node") is None:
            pytest.skip("neither naga nor the JavaScript runner is installed")
        monkeypatch.setenv("NAGA", f"node {RUNNER / 'naga.mjs'}")
    text = WGSL if suffix == ".wgsl" else HLSL
    barrier = BARRIERS.get(suffix, "GroupMemoryBarrierWithGroupSync();")
    path = tmp_path / f"reverse{suffix}"
    right = run(path, text.replace("BARRIER", barrier))
    assert right.passed, str(right)
    assert right.compared == 64
    wrong = run(path, text.replace("BARRIER", ""))
    assert [problem.rule for problem in wrong.problems] == ["RACE-01"]
    place = wrong.problems[0].location
    assert place is not None
    if suffix != ".wgsl":  # naga in WebAssembly writes no line information.
        assert (Path(place.file).name, place.line) == (path.name, 8)
    broken = run(path, text.replace("BARRIER", "").replace("y[id.x] =", "z[id.x] ="))
    assert [problem.rule for problem in broken.problems] == ["COMPILE"]
    place = broken.problems[0].location
    assert place is not None
    assert (Path(place.file).name, place.line) == (path.name, 8)


def test_a_missing_compiler_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))  # pyright: ignore
    monkeypatch.setattr("xdsl_spirv.tools.kernel_test.compilers.FETCHED", tmp_path)
    for suffix, compilers in COMPILERS.items():
        monkeypatch.delenv(compilers[0].variable, raising=False)
        with pytest.raises(Misuse, match=f"set {compilers[0].variable}=PATH"):
            compile_source(tmp_path / f"x{suffix}", Compile())
