"""Arguments are placed at the offsets that the module declares."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xdsl_spirv.tools.kernel_test.problems import Outcome

Run = Callable[..., list[Outcome]]

HEAD = """#version 450
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
struct S { vec3 a; int b; };
"""
ENV = 'compile.target-env = "vulkan1.2"\n'


def passed(outcomes: list[Outcome]) -> None:
    (outcome,) = outcomes
    assert outcome.passed, outcome
    assert outcome.compared > 0


def test_push_constants_with_nested_members(run_glsl: Run):
    source = (
        HEAD
        + """
layout(push_constant) uniform P { uint n; vec3 v; S s[2]; float k[3]; } p;
layout(std430, binding = 0) buffer Out { float y[]; };
void main() {
    y[0] = p.n; y[1] = p.v.x; y[2] = p.v.z; y[3] = p.s[1].a.y; y[4] = p.s[1].b; y[5] = p.k[2];
}
"""
    )
    text = f"""grid = 1
{ENV}[push-constants]
n = 9
v = [1, 2, 3]
s = [{{ a = [4, 5, 6], b = -7 }}, {{ a = [8, 9, 10], b = -11 }}]
k = [12, 13, 14]
[buffers.Out]
size = 6
content = "zeros"
expect = [9, 1, 3, 9, -11, 14]
"""
    passed(run_glsl(source, text))
    passed(
        run_glsl(
            source,
            text.replace(
                "[9, 1, 3, 9, -11, 14]", "\"stack([n, v[0], v[2], s[1]['a'][1], s[1]['b'], k[2]])\""
            ),
        )
    )


def test_members_of_blocks_with_padding(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std140, set = 1, binding = 2) uniform U { float k[3]; S s; } u;
layout(std430, binding = 0) buffer Out { uint head; vec2 rows[]; } o;
void main() {
    o.head += 1;
    o.rows[0] = vec2(u.k[0], u.k[2]);
    o.rows[1] = vec2(u.s.a.z, u.s.b);
}
"""
    )
    text = f"""grid = 1
{ENV}[buffers.U.members]
k = [1, 2, 3]
s = {{ members = {{ a = [4, 5, 6], b = 7 }} }}
[buffers.Out.members]
head = {{ content = 41, expect = "Out['head'] + 1" }}
rows = {{ size = 4, content = "zeros", expect = "stack([U['k'][::2], [U['s']['a'][2], 7]])" }}
"""
    passed(run_glsl(source, text))
    by_place = text.replace("buffers.U.members", 'buffers."1.2".members').replace(
        "[buffers.Out.", "[buffers.o."
    )
    passed(run_glsl(source, by_place))


def test_arrays_of_structs_are_given_member_by_member(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, binding = 0) buffer Items { S items[]; };
layout(std430, binding = 1) buffer Out { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    y[i] = items[i].a.x + items[i].b;
    items[i].b = int(i);
}
"""
    )
    text = f"""grid = 3
{ENV}[buffers.Items.members.items]
size = 3
members.a = "range"
members.b = {{ content = [10, 20, 30], expect = [0, 1, 2] }}
[buffers.Out]
size = 3
content = "zeros"
expect = "Items['items']['a'][:, 0] + Items['items']['b']"
"""
    passed(run_glsl(source, text))


def test_a_size_that_nothing_has_is_refused(run_glsl: Run):
    source = (
        HEAD
        + """
struct Item { uint a; float b; };
layout(std430, binding = 0) buffer Items { uint n; Item items[4]; };
void main() { items[0].a = n; }
"""
    )
    text = f"""grid = 1
{ENV}[buffers.Items.members]
n = 1
[buffers.Items.members.items]
members.a = "zeros"
members.b = "zeros"
size = """
    assert run_glsl(source, text + "4")[0].passed
    assert "must have 4 elements, not 3" in run_glsl(source, text + "3")[0].misuse
    described = text.replace(
        "[buffers.Items.members]", "[buffers.Items]\nsize = 9\n[buffers.Items.members]"
    )
    assert "so it cannot have a size" in run_glsl(source, described + "4")[0].misuse


def test_narrow_and_wide_types(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, binding = 0) buffer In { float16_t h[]; };
layout(std430, binding = 1) buffer Bytes { int8_t b[]; };
layout(std430, binding = 2) buffer Wide { int64_t w[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    w[i] = int64_t(b[i]) * 10000000000l + int64_t(h[i]);
}
"""
    )
    text = f"""grid = 4
{ENV}[buffers.In]
type = "f16"
size = 4
content = "range"
[buffers.Bytes]
type = "i8"
content = [-128, -1, 0, 127]
[buffers.Wide]
type = "i64"
size = 4
content = "zeros"
expect = "i64(Bytes) * 10000000000 + i64(In)"
"""
    passed(run_glsl(source, text))


def test_an_alias_is_the_same_memory(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, binding = 0) buffer A { uint a[]; };
layout(std430, binding = 1) buffer B { uint b[]; };
void main() { a[0] = b[0] + 1; }
"""
    )
    text = f"""grid = 1
{ENV}[buffers.A]
content = [5]
expect = [6]
[buffers.B]
alias = "A"
"""
    passed(run_glsl(source, text))


@pytest.mark.parametrize(("type", "pointer"), [("Ref", "p.r"), ("uvec2", "Ref(p.r)")])
def test_the_address_of_a_buffer(run_glsl: Run, type: str, pointer: str):
    source = (
        HEAD
        + f"""
#extension GL_EXT_buffer_reference_uvec2 : require
layout(buffer_reference, std430) buffer Ref {{ uint v[]; }};
layout(push_constant) uniform P {{ {type} r; }} p;
layout(std430, binding = 0) buffer Out {{ uint y[]; }};
void main() {{ y[0] = {pointer}.v[2]; }}
"""
    )
    text = f"""grid = 1
{ENV}[push-constants]
r = "&Far"
[buffers.Far]
type = "u32"
content = [1, 2, 3]
[buffers.Out]
size = 1
content = "zeros"
expect = 3
"""
    passed(run_glsl(source, text))
    (outcome,) = run_glsl(source, text.replace("&Far", "&Fra"))
    assert "no buffer 'Far'" in outcome.misuse or "no buffer 'Fra'" in outcome.misuse


def test_one_place_with_several_types(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, binding = 0) buffer A { uint a[]; };
layout(std430, binding = 0) buffer AV { uvec4 av[]; };
void main() { a[1] = av[0].x + 1; }
"""
    )
    text = f"""grid = 1
{ENV}[buffers.A]
content = [5, 0, 0, 0]
expect = [5, 6, 0, 0]
"""
    passed(run_glsl(source, text))
    (outcome,) = run_glsl(source, text + '[buffers.AV]\ntype = "u32"\ncontent = [1]\n')
    assert (
        "buffers.AV and buffers.A are two names of one buffer; leave one of the names out"
        in outcome.misuse
    )


def test_matrices_of_either_majorness(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std140, binding = 1) uniform U { mat3 m; layout(row_major) mat2x3 r; mat4x2 k[2]; } u;
layout(push_constant) uniform P { layout(row_major) mat3x2 q; mat2x3 w; } p;
layout(std430, binding = 0) buffer Out { float y[]; };
void main() {
    y[0] = u.m[1][0]; y[1] = u.m[2][1]; y[2] = u.r[1][2]; y[3] = u.k[1][3][0];
    y[4] = p.q[2][1]; y[5] = p.w[1][2];
    vec3 c = u.m[1]; y[6] = c.z; vec3 d = p.w[0]; y[7] = d.y;
}
"""
    )
    text = """grid = 1
[push-constants]
q = [[1, 2], [3, 4], [5, 6]]
w = [[10, 20, 30], [40, 50, 60]]
[buffers.U.members]
m = "range"
r = [[1, 2, 3], [4, 5, 6]]
k = "range"
[buffers.Out]
size = 8
content = "zeros"
expect = [3, 7, 6, 14, 6, 60, 5, 20]
"""
    passed(run_glsl(source, text))
    names = "U['m'][1, 0], U['m'][2, 1], U['r'][1, 2], U['k'][1, 3, 0], q[2, 1], w[1, 2], 5, 20"
    passed(run_glsl(source, text.replace("[3, 7, 6, 14, 6, 60, 5, 20]", f'"stack([{names}])"')))


def test_a_runtime_array_has_the_length_that_is_given(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, binding = 0) buffer In { uint head; vec3 v[]; };
layout(std430, binding = 1) buffer Out { uint y[]; };
void main() { y[0] = v.length(); y[1] = uint(v[4].z); }
"""
    )
    text = """grid = 1
[buffers.In.members]
head = 0
v = { size = 15, content = "range" }
[buffers.Out]
size = 2
content = "zeros"
expect = [5, 14]
"""
    passed(run_glsl(source, text))


def test_an_array_of_buffers(run_glsl: Run):
    source = (
        HEAD
        + """
layout(std430, set = 1, binding = 3) buffer Block { uint v[]; } b[2];
void main() { b[1].v[0] = b[0].v[1] + 1; }
"""
    )
    text = """grid = 1
[buffers."b[0]"]
content = [5, 6]
[buffers."b[1]"]
size = 1
content = "zeros"
expect = "b[0][1] + 1"
"""
    passed(run_glsl(source, text))
    (outcome,) = run_glsl(source, text.partition('[buffers."b[1]"]')[0])
    assert "the buffer Block[1] is not given" in outcome.misuse
    endless = source.replace("b[2]", "b[]").replace("b[1].v", "b[gl_WorkGroupID.x].v")
    extension = "#version 450\n#extension GL_EXT_nonuniform_qualifier : require"
    (outcome,) = run_glsl(endless.replace("#version 450", extension), text)
    assert "an array of buffers without a length" in outcome.misuse
