"""The debugger stops at lines, shows variables of the source, and traces lines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError, dispatch
from xdsl_spirv.interpreter.debug import Break, Debug, Stop
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.tools.main import main

SHADER = """#version 450
layout(local_size_x = 8) in;
layout(std430, binding = 0) buffer Output { int y[]; };
int square(int a)
{
    int product = a * a;
    return product;
}
void main()
{
    int i = int(gl_LocalInvocationIndex);
    int sum = 0;
    for (int k = 0; k < 3; ++k)
        sum += square(i) + k;
    y[i] = sum;
}
"""
SUMS = [3 * i * i + 3 for i in range(8)]

Compile = Callable[..., bytes]


def run(data: bytes, *breaks: Break, trace: io.StringIO | None = None) -> None:
    buffers = {(0, 0): np.zeros(8, np.int32)}
    debug = Debug(breaks, trace)
    dispatch(decode(data), "main", (1, 1, 1), buffers, options=Options(8, debug=debug))
    assert buffers[0, 0].tolist() == SUMS


@pytest.mark.parametrize("option", ["-g", "-gVS"])
def test_a_line_and_the_variables_there(compile_source: Compile, option: str) -> None:
    seen: list[tuple[str, Any]] = []

    def look(stop: Stop) -> None:
        assert stop.source is not None
        seen.append((stop.source.text, {k: v.tolist() for k, v in stop.variables().items()}))

    data = compile_source({"a.comp": SHADER}, option)
    run(data, Break("a.comp:15", look))
    ((text, variables),) = seen
    assert text == "y[i] = sum;"
    assert variables["sum"] == [SUMS]
    assert variables["i"] == [[*range(8)]]
    seen.clear()
    run(data, Break("a.comp:14", look))
    assert [variables["k"][0][5] for _, variables in seen] == [0, 1, 2]
    assert [variables["sum"][0][5] for _, variables in seen] == [0, 25, 51]
    seen.clear()
    run(data, Break(7, look))
    assert [variables["product"] for _, variables in seen] == [[[i * i for i in range(8)]]] * 3


@pytest.mark.parametrize("option", [(), ("-g",), ("-gVS",)])
def test_the_debugger_stops_at_assignments_of_a_variable(
    compile_source: Compile, option: str
) -> None:
    seen: list[int] = []
    look = Break("sum", lambda stop: seen.append(int(stop.at(0, 2, "sum"))))
    run(compile_source({"a.comp": SHADER}, *option), look)
    assert seen == [0, 4, 9, 15]


def test_variables_exclude_temporaries_and_names_out_of_scope(compile_source: Compile) -> None:
    names: set[str] = set()
    look = Break("a.comp:15", lambda stop: names.update(stop.variables()))
    run(compile_source({"a.comp": SHADER}, "-gVS"), look)
    assert names == {"i", "sum"}


DEBUG_VALUE = """
OpCapability Shader
OpExtension "SPV_KHR_non_semantic_info"
%d = OpExtInstImport "NonSemantic.Shader.DebugInfo.100"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %id
OpExecutionMode %main LocalSize 8 1 1
%file = OpString "v.slang"
%n_total = OpString "total"
%n_lost = OpString "lost"
%n_int = OpString "int"
%n_main = OpString "main"
OpDecorate %id BuiltIn LocalInvocationIndex
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
%void = OpTypeVoid
%f = OpTypeFunction %void
%u = OpTypeInt 32 0
%c0 = OpConstant %u 0
%c1 = OpConstant %u 1
%c3 = OpConstant %u 3
%c5 = OpConstant %u 5
%c6 = OpConstant %u 6
%c32 = OpConstant %u 32
%in = OpTypePointer Input %u
%id = OpVariable %in Input
%array = OpTypeRuntimeArray %u
%block = OpTypeStruct %array
%p_block = OpTypePointer StorageBuffer %block
%p_u = OpTypePointer StorageBuffer %u
%out = OpVariable %p_block StorageBuffer
%source = OpExtInst %void %d DebugSource %file
%unit = OpExtInst %void %d DebugCompilationUnit %c1 %c5 %source %c6
%int = OpExtInst %void %d DebugTypeBasic %n_int %c32 %c6 %c0
%type = OpExtInst %void %d DebugTypeFunction %c0 %void
%fun = OpExtInst %void %d DebugFunction %n_main %type %source %c1 %c1 %unit %n_main %c0 %c1
%total = OpExtInst %void %d DebugLocalVariable %n_total %int %source %c1 %c1 %fun %c0
%lost = OpExtInst %void %d DebugLocalVariable %n_lost %int %source %c1 %c1 %fun %c0
%none = OpExtInst %void %d DebugExpression
%main = OpFunction %void None %f
%e = OpLabel
%s = OpExtInst %void %d DebugScope %fun
%l1 = OpExtInst %void %d DebugLine %source %c3 %c3 %c1 %c1
%i = OpLoad %u %id
%a = OpIAdd %u %i %c1
%v1 = OpExtInst %void %d DebugValue %total %a %none
%l2 = OpExtInst %void %d DebugLine %source %c5 %c5 %c6 %c6
%b = OpIMul %u %a %a
%undefined = OpUndef %u
%v3 = OpExtInst %void %d DebugValue %lost %undefined %none
%v2 = OpExtInst %void %d DebugValue %total %b %none
%l3 = OpExtInst %void %d DebugLine %source %c6 %c6 %c1 %c1
%p = OpAccessChain %p_u %out %c0 %i
OpStore %p %b
OpReturn
OpFunctionEnd
"""


def test_values_of_optimized_variables() -> None:
    """DebugValue defines a variable's value for the following instructions."""
    seen: list[Any] = []

    def look(stop: Stop) -> None:
        assert list(stop.variables()) == ["total"]
        seen.append((str(stop.source), stop.value("total")[0].tolist()))

    def run_it(at: str) -> list[Any]:
        seen.clear()
        buffers = {(0, 0): np.zeros(8, np.int32)}
        debug = Debug([Break(at, look)])
        module = decode(assemble(DEBUG_VALUE).encode())
        dispatch(module, "main", (1, 1, 1), buffers, options=Options(8, debug=debug))
        return list(seen)

    squares = [(i + 1) ** 2 for i in range(8)]
    assert run_it("v.slang:5") == [("v.slang:5:6", [*range(1, 9)])]
    assert run_it("v.slang:6") == [("v.slang:6:1", squares)]


def test_a_breakpoint_in_another_file_is_refused(compile_source: Compile) -> None:
    with pytest.raises(InterpreterError, match=r"no instruction matches the breakpoint b\.comp:15"):
        run(compile_source({"a.comp": SHADER}, "-g"), Break("b.comp:15", print))


def test_a_trace_has_source_lines(compile_source: Compile) -> None:
    trace = io.StringIO()
    run(compile_source({"a.comp": SHADER}, "-gVS"), trace=trace)
    records = [json.loads(line) for line in trace.getvalue().splitlines()]
    assert {r["op"] for r in records}.isdisjoint({"spirv.Raw"})
    places = [r["source"] for r in records if r["op"] == "spirv.IMul"]
    assert places == ["a.comp:6"] * 3


def test_the_command_shows_variables_of_the_source(
    compile_source: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, data = tmp_path / "a.spv", tmp_path / "y.npy"
    np.save(data, np.zeros(8, np.int32))
    kernel.write_bytes(compile_source({"a.comp": SHADER}, "-gVS"))
    command = ["interpret", str(kernel), "--grid", "1x1x1", "--buffer", f"0={data}"]
    command += ["--print", "a.comp:15", "--print", "product", "--invocation", "0:3"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "a.comp:15: y[i] = sum;" in printed
    assert f"  i = 3\n  sum = {SUMS[3]}\n" in printed
    assert printed.count("a.comp:6: int product = a * a;") == 3
    assert printed.count("  product = 9\n") == 3


def test_a_terminal_with_another_encoding_shows_source_lines(
    compile_source: Compile, tmp_path: Path
) -> None:
    shader = SHADER.replace("y[i] = sum;", "y[i] = sum; // Größe 日本")
    kernel, data = tmp_path / "a.spv", tmp_path / "y.npy"
    np.save(data, np.zeros(4, np.int32))
    kernel.write_bytes(compile_source({"größe.comp": shader}, "-g"))
    command = ["interpret", str(kernel), "--grid", "1", "--buffer", f"0={data}", "--check", "all"]
    program = "import sys; from xdsl_spirv.tools.main import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run(
        [sys.executable, "-c", program, *command],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert r"gr\xf6\xdfe.comp:15: y[i] = sum; // Gr\xf6\xdfe \u65e5\u672c" in result.stdout
