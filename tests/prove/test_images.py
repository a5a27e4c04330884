"""Races and bounds of texels are proved, or refuted by a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.tools.kernel_proving import Result, prove_kernel  # noqa: E402
from xdsl_spirv.tools.kernel_test.description import KernelTest  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SHADER = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0, {format}) uniform {image} source;
layout(binding = 1, {format}) uniform {image} target;
layout(binding = 2) uniform Params {{ int columns; }};
void main() {{
  ivec2 at = ivec2(gl_GlobalInvocationID.xy);
  {body}
}}
"""
COPY = "imageStore(target, {0}, imageLoad(source, {1}));"


pytestmark = pytest.mark.usefixtures("own_glslang")


def prove(body: str, folder: Path, image: str = "image2D", format: str = "rgba8") -> Result:
    path = folder / "image.comp"
    path.write_text(SHADER.format(body=body, image=image, format=format))
    return prove_kernel(KernelTest(path, path), (), Limits(5, work=1_000_000))


def test_a_copy_is_proved_for_images_as_large_as_the_grid(tmp_path: Path):
    result = prove(COPY.format("at", "at"), tmp_path)
    assert result.verdict == "proved", result.lines
    sizes = {text for text in result.offered if text.startswith("size(")}
    assert sizes == {f"size({name}).{axis} >= grid.{axis} * 8"
                     for name in ("source", "target") for axis in "xy"}  # fmt: skip
    assert result.reached == 2


def test_a_guard_by_the_size_needs_no_premise(tmp_path: Path):
    guard = "if (any(greaterThanEqual(at, imageSize(target)))) return;"
    result = prove(f"{guard} imageStore(target, at, vec4(1));", tmp_path)
    assert result.verdict == "proved", result.lines
    assert not [text for text in result.offered if text.startswith("size(")]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (COPY.format("at / 2", "at"), "RACE-"),
        (COPY.format("at", "at - ivec2(1, 0)"), "BOUNDS-01"),
        (COPY.format("at + ivec2(1, 0)", "at"), "BOUNDS-05"),
        ("imageStore(target, at, imageLoad(target, at.yx));", "RACE-"),
    ],
)
def test_a_bug_is_refuted_by_a_launch(body: str, rule: str, tmp_path: Path):
    size = "if (any(greaterThanEqual(at, min(imageSize(source), imageSize(target))))) return;"
    result = prove(f"{size} {body}", tmp_path)
    assert result.verdict == "refuted", result.lines
    assert result.found[0].rule.startswith(rule)


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        ("imageAtomicAdd(target, ivec2(0), 1);", "proved"),
        ("imageStore(target, ivec2(0), imageLoad(target, ivec2(0)) + 1);", "refuted"),
    ],
)
def test_atomics_on_a_texel_do_not_race(counted: str, verdict: str, tmp_path: Path):
    result = prove(counted, tmp_path, "iimage2D", "r32i")
    assert result.verdict == verdict, result.lines


def test_a_member_of_a_block_is_a_number_of_premises(tmp_path: Path):
    guard = "if (at.x >= columns || at.y >= imageSize(target).y) return;"
    result = prove(f"{guard} imageStore(target, at, vec4(1));", tmp_path)
    assert result.verdict == "proved", result.lines
    assert "size(target).x >= Params.columns" in result.offered
