"""A kernel and its launch must respect the target's limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xdsl_spirv.targets import load
from xdsl_spirv.tools.kernel_test.limits import has_capability
from xdsl_spirv.tools.kernel_test.problems import Outcome

Run = Callable[..., list[Outcome]]

KERNEL = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint extra = 1;
layout(std430, binding = 0) buffer Data { uint x[]; };
layout(push_constant) uniform P { uint n; uint more[64]; } p;
shared uint tile[1024 * extra];
void main() {
    tile[gl_LocalInvocationID.x] = p.n + p.more[0];
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) x[i] = tile[gl_LocalInvocationID.x];
}
"""
LAUNCH = """grid = 1
subgroup-sizes = 8
target = "lavapipe"
compile.target-env = "vulkan1.2"
specialization = {{ 0 = {size}, extra = {extra} }}
[push-constants]
n = 1
more = {more}
[buffers.Data]
size = 16
content = "zeros"
"""
FEW = str([0] * 64)


def rules(outcomes: list[Outcome]) -> list[str]:
    (outcome,) = outcomes
    assert not outcome.misuse
    return [problem.rule for problem in outcome.problems]


def launch(size: int = 32, extra: int = 1) -> str:
    return LAUNCH.format(size=size, extra=extra, more=FEW)


def test_push_constants_and_other_small_limits_are_checked(run_glsl: Run):
    assert (
        rules(run_glsl(KERNEL.replace("[64]", "[63]"), launch().replace(FEW, str([0] * 63)))) == []
    )
    assert rules(run_glsl(KERNEL, launch())) == ["LIMIT-05"]


SMALL = KERNEL.replace("[64]", "[1]")


def small(**keywords: int) -> str:
    return launch(**keywords).replace(FEW, "[0]")


@pytest.mark.parametrize(("size", "wrong"), [(1024, []), (1025, ["LIMIT-01"])])
def test_the_number_of_invocations_is_checked(size: int, wrong: list[str], run_glsl: Run):
    assert rules(run_glsl(SMALL.replace("[1024 * extra]", "[2048]"), small(size=size))) == wrong


@pytest.mark.parametrize(("extra", "wrong"), [(8, []), (9, ["LIMIT-02"])])
def test_shared_memory_is_checked_after_specialization(extra: int, wrong: list[str], run_glsl: Run):
    outcomes = run_glsl(SMALL, small(extra=extra))
    assert rules(outcomes) == wrong
    if wrong:
        (problem,) = outcomes[0].problems
        assert "a workgroup shares 36864 bytes of memory, but lavapipe has 32768" in problem.text
        assert "tile" in problem.text


@pytest.mark.parametrize("wrong", [False, True])
def test_blocks_of_shared_memory_alias(wrong: bool, run_glsl: Run):
    """Two blocks of 20 kB alias, two variables do not."""
    body = "{ uint y[5000]; }"
    if wrong:
        declared = f"struct B {body}; shared B b0; shared B b1;"
    else:
        declared = f"shared B0 {body} b0; shared B1 {body} b1;"
    kernel = SMALL.replace("shared uint tile[1024 * extra];", declared).replace(
        "#version 450", "#version 450\n#extension GL_EXT_shared_memory_block : require"
    )
    kernel = kernel.replace("tile[gl_LocalInvocationID.x] = ", "b0.y[gl_LocalInvocationID.x] = ")
    kernel = kernel.replace("= tile[gl_LocalInvocationID.x]", "= b1.y[gl_LocalInvocationID.x]")
    found = rules(run_glsl(kernel, small()))
    assert ("LIMIT-02" in found) is wrong


def test_subgroup_sizes_and_grids_are_checked(run_glsl: Run):
    text = small().replace("subgroup-sizes = 8", "subgroup-sizes = [8, 32]")
    first, second = run_glsl(SMALL, text)
    assert first.passed, first
    assert [p.rule for p in second.problems] == ["LIMIT-03"]
    (own,) = run_glsl(SMALL, small().replace("subgroup-sizes = 8\n", ""))
    assert own.subgroup_size == 8
    assert rules(run_glsl(SMALL, small(size=1).replace("grid = 1", "grid = [65536]"))) == [
        "LIMIT-04"
    ]


def test_without_a_target_limits_of_every_device_are_checked(run_glsl: Run):
    text = small(extra=16).replace('target = "lavapipe"\n', "")
    assert rules(run_glsl(SMALL, text)) == []
    assert rules(run_glsl(SMALL, text.replace("extra = 16", "extra = 17"))) == ["LIMIT-02"]


def test_capabilities_are_checked(run_glsl: Run):
    kernel = SMALL.replace("{ uint x[]; }", "{ float64_t y; uint x[]; }")
    kernel = kernel.replace("tile[gl_LocalInvocationID.x] =", "y = 0.5lf; tile[0] =")
    members = ".Data.members]\ny = 0\nx = [0]"
    text = small(size=1).replace('.Data]\nsize = 16\ncontent = "zeros"', members)
    assert rules(run_glsl(kernel, text)) == []
    mali = text.replace('"lavapipe"', '"arm-mali"').replace("sizes = 8", "sizes = 16")
    (outcome,) = run_glsl(kernel, mali)
    assert [p.rule for p in outcome.problems] == ["LIMIT-07"]
    assert "declares Float64, which arm-mali does not have" in outcome.problems[0].text


def test_limits_that_a_target_file_cannot_give():
    target = load("lavapipe")
    assert has_capability(target, "Shader") is True
    assert has_capability(target, "Float16") is True
    assert has_capability(target, "BFloat16TypeKHR") is False
    assert has_capability(target, "GroupNonUniformShuffle") is True
    assert has_capability(target, "AtomicFloat32AddEXT") is None


MATRIX = """#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 8) in;
layout(std430, binding = 0) buffer Data { float16_t x[]; };
void main() {
    coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseB> b;
    coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator> c;
    coopMatLoad(a, x, 0, SIZE, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, x, 0, SIZE, gl_CooperativeMatrixLayoutRowMajor);
    c = coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator>(0.0);
    coopMatStore(coopMatMulAdd(a, b, c), x, SIZE * SIZE, SIZE, gl_CooperativeMatrixLayoutRowMajor);
}
"""


@pytest.mark.parametrize(("size", "wrong"), [(8, False), (16, True)])
def test_cooperative_matrices_are_checked(size: int, wrong: bool, run_glsl: Run):
    text = f"""grid = 1
target = "lavapipe"
compile = {{ target-env = "vulkan1.2", defines = {{ SIZE = {size} }} }}
[buffers.Data]
size = {2 * size * size}
content = "ones"
expect = "where(arange(len(Data)) < len(Data) // 2, 1, {size})"
"""
    (outcome,) = run_glsl(MATRIX, text)
    assert not outcome.misuse
    assert [p.rule for p in outcome.problems] == ["LIMIT-08"] * wrong, outcome


COPY = """#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 8) in;
layout(std430, binding = 0) buffer Data { ELEMENT x[]; };
void main() {
    coopmat<ELEMENT, gl_ScopeSubgroup, ROWS, COLUMNS, USE> m;
    coopMatLoad(m, x, 0, COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(m, x, 0, COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
}
"""


@pytest.mark.parametrize("use", ["A", "B", "Accumulator"])
def test_matrices_without_a_multiplication_are_checked(use: str, run_glsl: Run):
    """A matrix type is valid if a property of the target has its use, shape and element type."""
    lines = load("lavapipe").cooperative_matrix
    shapes = {"A": (0, 2), "B": (2, 1), "Accumulator": (0, 1)}[use]
    kinds = {"A": "a", "B": "b", "Accumulator": "c"}[use]
    listed = {(*(p.shape[i] for i in shapes), getattr(p, kinds)[1:]) for p in lines}
    for element, bits in (("float16_t", "16"), ("float32_t", "32"), ("uint8_t", "8")):
        for rows, columns in ((8, 8), (8, 16), (16, 8)):
            defines = f'ELEMENT = "{element}", ROWS = {rows}, COLUMNS = {columns}'
            text = f"""grid = 1
target = "lavapipe"
[compile]
target-env = "vulkan1.2"
defines = {{ {defines}, USE = "gl_MatrixUse{use}" }}
[buffers.Data]
size = {rows * columns}
content = "ones"
"""
            (outcome,) = run_glsl(COPY, text)
            assert not outcome.misuse
            wrong = (rows, columns, bits) not in listed
            assert [p.rule for p in outcome.problems] == ["LIMIT-08"] * wrong, (defines, listed)


def test_a_report_lists_capabilities_that_were_not_checked(run_glsl: Run):
    clock = SMALL.replace(
        "#version 450", "#version 450\n#extension GL_EXT_shader_realtime_clock : require"
    ).replace(
        "tile[gl_LocalInvocationID.x] =",
        "tile[gl_LocalInvocationID.x] = 0 * uint(clockRealtimeEXT()) +",
    )
    (outcome,) = run_glsl(clock, small(size=16))
    assert outcome.notes == [
        "the file of target lavapipe does not tell if it supports ShaderClockKHR"
    ]
