"""Findings and errors name file, line, text and inlined calls of the source."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Builtin, IntAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.enums import ShaderDebugInfo as Debug
from xdsl_spirv.dialects.spirv.raw import VALUE, RawGlobalOp, RawOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.checks.report import Report
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.interpreter.source import source_of
from xdsl_spirv.interpreter.source.debug_info import DEEPEST, entry_of
from xdsl_spirv.interpreter.source.location import inlined, quoted
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.text.assembler import assemble

REDUCE = """#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Output { float y[]; } result;
#include "helper.glsl"
shared float tile[64];

void main()
{
    uint i = gl_GlobalInvocationID.x;
    tile[gl_LocalInvocationIndex] = x[i];
    float sum = tile[gl_LocalInvocationIndex ^ 1];
    result.y[i] = twice(sum);
    result.y[i + 64] = element(i + 1);
}
"""
HELPER = """
float twice(float a) { return a * 2.0; }
float element(uint k)
{
    return x[k];
}
"""
FILES = {"reduce.comp": REDUCE, "helper.glsl": HELPER}
READ, WRITTEN = 13, 12
"""Lines of the race's two accesses."""

Compile = Callable[..., bytes]
Optimize = Callable[[bytes], bytes]


def run(module: ModuleOp, length: int = 128) -> Report:
    checks = Checks.all()
    buffers = {(0, 0): np.ones(length, np.float32), (0, 1): np.zeros(128, np.float32)}
    dispatch(module, "main", (1, 1, 1), buffers, options=Options(checks=checks))
    return checks.report


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_lines_behind_a_selection_on_one_line(option: str, compile_source: Compile):
    """Findings have the right lines, although glslang emits one OpLine for `x = c ? a : b`."""
    chosen = REDUCE.replace("= x[i];", "= i < 100 ? x[i] : 0.0;")
    files = {**FILES, "reduce.comp": chosen}
    (finding,) = run(decode(compile_source(files, option))).findings
    (other, *_) = finding.related
    assert finding.source is not None
    assert other.source is not None
    assert (finding.source.line, other.source.line) == (READ, WRITTEN)
    assert "i < 100 ? x[i] : 0.0;" in other.source.text


def printed_and_parsed(module: ModuleOp) -> ModuleOp:
    """Returns the module after printing and parsing."""
    context = Context()
    for dialect in (Builtin, SPIRV):
        context.load_dialect(dialect)
    text = io.StringIO()
    Printer(text, print_debuginfo=True).print_op(module)
    parsed = Parser(context, text.getvalue(), "x.mlir").parse_op()
    assert isinstance(parsed, ModuleOp)
    return parsed


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_both_lines_of_a_race(
    compile_source: Compile, optimize: Optimize, option: str, optimized: bool
) -> None:
    data = compile_source(FILES, option)
    module = decode(optimize(data) if optimized else data)
    for given in (module, printed_and_parsed(module)):
        finding = next(iter(run(given)))
        assert finding.rule == "RACE-01"
        assert finding.source is not None
        (other,) = (r for r in finding.related if r.role == "the other access")
        assert other.source is not None
        assert (finding.source.file, finding.source.line) == ("reduce.comp", READ)
        assert (other.source.file, other.source.line) == ("reduce.comp", WRITTEN)
        text = str(finding)
        assert "at reduce.comp:13: float sum = tile[gl_LocalInvocationIndex ^ 1];" in text
        assert "reduce.comp:12: tile[gl_LocalInvocationIndex] = x[i];   by invocation" in text


def test_without_source_text_the_instruction_is_shown(compile_source: Compile) -> None:
    text = str(run(decode(compile_source(FILES, "-gV"))))
    assert "at reduce.comp:13 (#" in text
    assert "the other access: reduce.comp:12 (#" in text


def test_without_debug_information_findings_have_no_lines(compile_source: Compile) -> None:
    finding = next(iter(run(decode(compile_source(FILES)))))
    assert finding.source is None
    assert finding.line == 0
    assert "spirv.Load" in finding.text
    assert f"  at {finding.text} in @main\n" in str(finding)
    assert "elements of `result` (set 0, binding 1) depend on the order" in str(finding)
    assert "\n  `result.y[0]` is 2.0 in lockstep, nan in schedule" in str(finding)


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_included_files_are_told_apart(compile_source: Compile, option: str) -> None:
    with pytest.raises(InterpreterError) as caught:
        dispatch(
            decode(compile_source(FILES, option)),
            "main",
            (1, 1, 1),
            {(0, 0): np.ones(64, np.float32), (0, 1): np.zeros(128, np.float32)},
        )
    source = caught.value.source
    assert source is not None
    assert (source.file, source.line, source.text) == ("helper.glsl", 5, "return x[k];")
    assert "at helper.glsl:5: return x[k];" in str(caught.value)


def test_findings_name_inlined_calls(compile_source: Compile, optimize: Optimize) -> None:
    report = run(decode(optimize(compile_source(FILES, "-gVS"))), 64)
    (finding,) = (f for f in report if f.rule == "BOUNDS-01")
    source = finding.source
    assert source is not None
    assert (source.file, source.line, source.function) == ("helper.glsl", 5, "element")
    assert source.inlined_at is not None
    assert (source.inlined_at.file, source.inlined_at.line) == ("reduce.comp", 15)
    assert source.inlined_at.function == "main"
    assert "called at reduce.comp:15: result.y[i + 64] = element(i + 1);" in str(finding)
    (record,) = (r for r in json.loads(report.to_json())["findings"] if r["rule"] == "BOUNDS-01")
    assert record["source"]["inlined_at"]["line"] == 15
    assert record["source"]["text"] == "return x[k];"


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_line_directives(compile_source: Compile, option: str) -> None:
    shader = """#version 450
#extension GL_GOOGLE_cpp_style_line_directive : require
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Output { float y[]; } result;
#line 100 "generated.py"
void f() { result.y[9] = 1.0; }
void main()
{
    f();
}
"""
    with pytest.raises(InterpreterError) as caught:
        dispatch(
            decode(compile_source({"a.comp": shader}, option)),
            "main",
            (1, 1, 1),
            {(0, 0): np.zeros(4, np.float32)},
        )
    assert "at generated.py:100: void f() { result.y[9] = 1.0; }" in str(caught.value)


HLSL = """RWStructuredBuffer<float> values : register(u0);
[numthreads(1, 1, 1)]
void main(uint3 id : SV_DispatchThreadID)
{
    values[id.x + 9] = 1.0;
}
"""


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_findings_name_lines_of_hlsl(compile_source: Compile, option: str) -> None:
    data = compile_source({"a.hlsl": HLSL}, "-D", "-V", "-S", "comp", "-e", "main", option)
    with pytest.raises(InterpreterError, match=r"a\.hlsl:5: values\[id\.x \+ 9\] = 1\.0;"):
        dispatch(decode(data), "main", (1, 1, 1), {(0, 0): np.zeros(4, np.float32)})


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_decoding_keeps_all_debug_information(compile_source: Compile, option: str) -> None:
    module = decode(compile_source(FILES, option))
    data = encode(module, names=True, lines=True)
    assert encode(decode(data), names=True, lines=True) == data
    assert encode(printed_and_parsed(decode(data)), names=True, lines=True) == data


@pytest.mark.parametrize("optimized", [False, True])
def test_damaged_debug_information(
    compile_source: Compile, optimize: Optimize, optimized: bool
) -> None:
    data = compile_source(FILES, "-gVS")
    whole = decode(optimize(data) if optimized else data)
    names = [op.sym_name for op in whole.body.block.ops if isinstance(op, RawGlobalOp)]
    others: list[Attribute] = [SymbolRefAttr(name) for name in names if name is not None]
    others += [SymbolRefAttr("nothing"), IntAttr(0), IntAttr(0xFFFFFFFF), StringAttr("\x1b\0é")]
    rng = random.Random(7)
    located = 0
    for _ in range(100):
        module = whole.clone()
        entries = [op for op in module.walk() if isinstance(op, RawGlobalOp | RawOp)]
        for op in rng.sample(entries, 20):
            layout = list(op.layout.data)
            if rng.random() < 0.3:
                layout = layout[: rng.randrange(len(layout) + 1)]
            elif VALUE not in layout:
                layout[rng.randrange(len(layout))] = rng.choice(others)
            op.properties["layout"] = ArrayAttr(layout)
        for op in module.walk():
            source = source_of(op)
            located += source is not None
            if source is not None:
                assert "\x1b" not in "".join(inlined(source)) + quoted(source, "")
    assert located > 1000


def test_calls_inlined_into_each_other(compile_source: Compile, optimize: Optimize) -> None:
    """A DebugInlinedAt or scope that refers to itself ends the chain."""
    module = decode(optimize(compile_source(FILES, "-gVS")))
    for op in module.body.block.ops:
        entry = entry_of(op)
        if isinstance(op, RawGlobalOp) and op.sym_name is not None and entry is not None:
            layout = list(op.layout.data)
            if entry.kind is Debug.DebugInlinedAt:
                layout[4:] = [SymbolRefAttr(op.sym_name)]
            elif entry.kind is Debug.DebugLexicalBlock:
                layout[5] = SymbolRefAttr(op.sym_name)
            op.properties["layout"] = ArrayAttr(layout)
    depths = [len(list(s.chain())) for s in map(source_of, module.walk()) if s is not None]
    assert 1 < max(depths) <= DEEPEST


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_text_beyond_ascii(compile_source: Compile, option: str) -> None:
    """Latin-1 text, which no string of the dialect can represent, is kept as bytes."""
    shader = """#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Output { float y[]; };
// {comment}
void main() {{ y[9] = 1.0; /* {comment} */ }}
"""
    for comment, shown in (("Größe", "Größe"), ("Gr\udcf6\udcdfe", "Gr��e")):
        text = shader.replace("{{", "{").replace("}}", "}").replace("{comment}", comment)
        data = compile_source({"größe.comp": text}, option)
        module = decode(data)
        for given in (module, printed_and_parsed(module)):
            with pytest.raises(InterpreterError) as caught:
                dispatch(given, "main", (1, 1, 1), {(0, 0): np.zeros(4, np.float32)})
            assert f"größe.comp:5: void main() {{ y[9] = 1.0; /* {shown} */ }}" in str(caught.value)
        canonical = encode(module, names=True, lines=True)
        assert comment.encode("utf-8", "surrogateescape") in canonical
        again = encode(printed_and_parsed(module), names=True, lines=True)
        assert again == canonical


def test_names_without_lines(compile_source: Compile) -> None:
    """OpName and OpMemberName exist without -g, and name variables and members."""
    shader = """#version 450
layout(local_size_x = 64) in;
struct Particle { vec4 position; float mass[2]; };
layout(std430, binding = 0) buffer Input { uint count; Particle x[]; };
layout(std430, binding = 1) buffer Output { float y[]; } result;
shared vec4 tile[64];
void main()
{
    uint i = gl_LocalInvocationIndex;
    tile[i / 2].y = float(i);
    x[i / 2].mass[1] = 1.0;
    result.y[i / 2] = tile[i / 2].x;
}
"""
    module = decode(compile_source({"a.comp": shader}))
    buffers = {(0, 0): np.zeros(4 + 8 * 64, np.float32), (0, 1): np.zeros(31, np.float32)}
    checks = Checks.of("races,bounds")
    dispatch(module, "main", (1, 1, 1), buffers, options=Options(checks=checks))
    text = str(checks.report)
    assert "of `tile`" in text
    assert "at `tile[0].y` (byte 4)" in text
    assert "of the buffer `Input` (set 0, binding 0)" in text
    assert "at `Input.x[0].mass[1]` (byte 36)" in text
    assert "outside the buffer `result` (set 0, binding 1)" in text
    assert "the first element is `result.y[31]`" in text
    assert "at `result.y[0]` (byte 0)" in text
    assert text.count("compiled without debug information") == 1
    with pytest.raises(InterpreterError, match=r"`result`.*\n.*compiled without debug information"):
        dispatch(module, "main", (1, 1, 1), buffers)


@pytest.mark.parametrize(
    ("order", "name", "byte"),
    [("column_major", "Input.m[1][2].y", 84), ("row_major", "Input.m[1]", 72)],
)
def test_findings_name_rows_and_columns_of_matrices(
    compile_source: Compile, order: str, name: str, byte: int
) -> None:
    """Each column or row of three floats has a stride of 16 bytes."""
    shader = f"""#version 450
layout(local_size_x = 32) in;
layout(std430, {order}, binding = 0) buffer Input {{ mat3 m[2]; }};
void main() {{ m[1][2].y = float(gl_LocalInvocationIndex); }}
"""
    module = decode(compile_source({"a.comp": shader}))
    checks = Checks.of("races")
    buffers = {(0, 0): np.zeros(24, np.float32)}
    dispatch(module, "main", (1, 1, 1), buffers, options=Options(checks=checks))
    assert f"at `{name}` (byte {byte})" in str(checks.report)


BARRIER = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Output { float y[]; } result;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    float chosen;
    for (int k = 0; k < 4; ++k) {
        if (x[i] > 3.0)
            break;
        barrier();
    }
    if (i < 10) chosen = 1.0;
    result.y[i] = chosen;
}
"""


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_a_barrier_and_the_branch_around_it(compile_source: Compile, option: str) -> None:
    checks = Checks.of("barriers,undefined")
    buffers = {(0, 0): np.arange(64, dtype=np.float32), (0, 1): np.zeros(64, np.float32)}
    module = decode(compile_source({"a.comp": BARRIER}, option))
    dispatch(module, "main", (1, 1, 1), buffers, options=Options(checks=checks))
    barrier, undefined = checks.report
    assert "at a.comp:12: barrier();" in str(barrier)
    assert "the branch that split the invocations: a.comp:10: if (x[i] > 3.0)" in str(barrier)
    (branch,) = barrier.related
    assert branch.source is not None
    assert (branch.role, branch.source.line) == ("the branch that split the invocations", 10)
    assert "`chosen` was read before it was set" in undefined.message


LIBRARY = """OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
%file = OpString "a.slang"
%void = OpTypeVoid
%f = OpTypeFunction %void
%int = OpTypeInt 32 0
%one = OpConstant %int 1
%p = OpTypePointer Private %int
%v = OpVariable %p Private
%main = OpFunction %void None %f
%l = OpLabel
OpLine %file 7 3
%a = OpFunctionCall %void %middle
SECOND
OpReturn
OpFunctionEnd
%middle = OpFunction %void None %f
%m = OpLabel
%b = OpFunctionCall %void %leaf
OpReturn
OpFunctionEnd
%leaf = OpFunction %void None %f
%n = OpLabel
OpStore %v %one
OpReturn
OpFunctionEnd
"""


@pytest.mark.parametrize(
    ("second", "line"),
    [
        ("", 7),
        ("%c = OpFunctionCall %void %middle", 7),
        ("OpLine %file 9 3\n%c = OpFunctionCall %void %middle", None),
    ],
)
def test_a_function_without_lines_has_the_line_of_its_call(second: str, line: int | None) -> None:
    module = decode(assemble(LIBRARY.replace("SECOND", second)).encode())
    (store,) = [op for op in module.walk() if op.name == "spirv.Store"]
    place = source_of(store)
    assert (place and place.line) == line
