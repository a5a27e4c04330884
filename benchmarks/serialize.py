#!/usr/bin/env python3
"""
Times encoders in microseconds per instruction: ours, `mlir-translate --serialize-spirv`,
`spirv-as`.

All encode one module in one run: a generated compute shader of about 20,000 instructions. The
other two only accept text, so their time is parsing and encoding. Ours is given for each step.
Times are processor time, which other load on the machine affects less. From the time of the other
tools' processes, the time of a process with an almost empty module is subtracted.

    python benchmarks/serialize.py [--instructions 20000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.tools import khronos

RESULT = Path(__file__).resolve().parent / "results" / "serialize.json"
MATRIX = "!spirv.coopmatrix<16x16x{}, Subgroup, {}>"
BUFFER = "!spirv.ptr<!spirv.struct<(!spirv.rtarray<{0}, stride={1}> [0])>, StorageBuffer>"
CAPABILITIES = "Shader, VulkanMemoryModel, Float16, StorageBuffer16BitAccess, CooperativeMatrixKHR"

HEAD = f"""
!A = {MATRIX.format("f16", "MatrixA")}
!B = {MATRIX.format("f16", "MatrixB")}
!C = {MATRIX.format("f32", "MatrixAcc")}
!half = {BUFFER.format("f16", 2)}
!float = {BUFFER.format("f32", 4)}
!invocation = !spirv.ptr<vector<3xi32>, Input>
spirv.module Logical Vulkan requires
    #spirv.vce<v1.6, [{CAPABILITIES}], [SPV_KHR_cooperative_matrix]> {{
  spirv.GlobalVariable @a bind(0, 0) : !half
  spirv.GlobalVariable @c bind(0, 1) : !float
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !invocation
"""

UNIT = """
  spirv.func @f{n}() "None" {{
    %a = spirv.mlir.addressof @a : !half
    %c = spirv.mlir.addressof @c : !float
    %id = spirv.mlir.addressof @id : !invocation
    %zero = spirv.Constant 0 : i32
    %one = spirv.Constant 1 : i32
    %end = spirv.Constant {n} : i32
    %stride = spirv.Constant 64 : i32
    %factor = spirv.Constant 1.5 : f32
    %start = spirv.Constant dense<0.0> : !C
    %ids = spirv.Load "Input" %id : vector<3xi32>
    %x = spirv.CompositeExtract %ids[0 : i32] : vector<3xi32>
    %sum = spirv.mlir.loop -> !C {{
      spirv.Branch ^header(%zero, %start : i32, !C)
    ^header(%i: i32, %acc: !C):
      %more = spirv.SLessThan %i, %end : i32
      spirv.BranchConditional %more, ^body, ^merge
    ^body:
      %at = spirv.IAdd %i, %x : i32
      %pa = spirv.AccessChain %a[%zero, %at] : !half, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
      %ma = spirv.KHR.CooperativeMatrixLoad %pa, %stride, <RowMajor> :
        !spirv.ptr<f16, StorageBuffer>, i32 -> !A
      %mb = spirv.KHR.CooperativeMatrixLoad %pa, %stride, <ColumnMajor> :
        !spirv.ptr<f16, StorageBuffer>, i32 -> !B
      %next = spirv.KHR.CooperativeMatrixMulAdd %ma, %mb, %acc : !A, !B -> !C
      spirv.Branch ^continue
    ^continue:
      %j = spirv.IAdd %i, %one : i32
      spirv.Branch ^header(%j, %next : i32, !C)
    ^merge:
      spirv.mlir.merge %acc : !C
    }}
    %pc = spirv.AccessChain %c[%zero, %x] : !float, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    spirv.KHR.CooperativeMatrixStore %pc, %sum, %stride, <RowMajor> :
      !spirv.ptr<f32, StorageBuffer>, !C, i32
{body}    spirv.Return
  }}
"""

LINE = """
    %i{k} = spirv.IAdd %x, %stride : i32
    %q{k} = spirv.IMul %i{k}, %one : i32
    %p{k} = spirv.AccessChain %c[%zero, %q{k}] : !float, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %v{k} = spirv.Load "StorageBuffer" %p{k} : f32
    %m{k} = spirv.FMul %v{k}, %factor : f32
    %e{k} = spirv.GL.Exp %m{k} : f32
    %s{k} = spirv.FAdd %e{k}, %v{k} : f32
    spirv.Store "StorageBuffer" %p{k}, %s{k} ["Aligned", 4] : f32
"""

TAIL = """
  spirv.func @main() "None" {{
{calls}    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @a, @c, @id
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}}
"""


def source(instructions: int) -> str:
    """Returns a module of about `instructions` instructions that MLIR and xdsl-spirv accept."""
    per_function = 40 * 8 + 28
    count = max(1, instructions // per_function)
    body = "".join(LINE.format(k=k) for k in range(40))
    units = "".join(UNIT.format(n=n, body=body) for n in range(count))
    calls = "".join(f"    spirv.FunctionCall @f{n}() : () -> ()\n" for n in range(count))
    return HEAD + units + TAIL.format(calls=calls)


def best(run: Callable[[], float], repeat: int) -> dict[str, float]:
    """Returns the least and the median seconds of several runs."""
    times = [run() for _ in range(repeat)]
    return {"best": min(times), "median": statistics.median(times)}


def inside(work: Callable[[], Any]) -> Callable[[], float]:
    """Returns a function that measures the processor time of `work`."""

    def run() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run


def outside(command: list[str], text: str) -> Callable[[], float]:
    """Returns a function that measures the processor time of a process."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=text.encode(), stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def count_instructions(binary: bytes) -> int:
    words = memoryview(binary).cast("I")
    at, count = 5, 0
    while at < len(words):
        at += words[at] >> 16
        count += 1
    return count


def parse(text: str):
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(SPIRV)
    return find_module(Parser(context, text).parse_module())


def tool_version(command: list[str]) -> str:
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    lines = [
        line.strip() for line in result.stdout.splitlines() if "ersion" in line or "v20" in line
    ]
    return lines[0] if lines else "unknown"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def measure(instructions: int, repeat: int) -> dict[str, Any]:
    text = source(instructions)
    module = parse(text)
    binary = encode(module)
    problem = khronos.spirv_val(binary)
    if problem:
        raise SystemExit(f"the generated module is not valid: {problem}")
    count = count_instructions(binary)
    rows = {
        "xdsl-spirv encode": best(inside(lambda: encode(module)), repeat),
        "xdsl-spirv parse": best(inside(lambda: parse(text)), 1),
    }
    empty = source(0)
    versions = {
        "xdsl": importlib.metadata.version("xdsl"),
        "python": platform.python_version(),
    }
    translate = shutil.which("mlir-translate-22")
    if translate:
        command = [translate, "--no-implicit-module", "--serialize-spirv"]
        rows["mlir-translate"] = _less(outside(command, text), outside(command, empty), repeat)
        versions["mlir-translate"] = tool_version([translate])
    assembler = khronos.find("spirv-as")
    if assembler:
        command = [assembler, "-o", "-", "-"]
        whole, least = khronos.spirv_dis(binary), khronos.spirv_dis(encode(parse(empty)))
        rows["spirv-as"] = _less(outside(command, whole), outside(command, least), repeat)
        versions["spirv-as"] = tool_version([assembler])
    microseconds = {
        name: {key: round(seconds / count * 1e6, 3) for key, seconds in row.items()}
        for name, row in rows.items()
    }
    ours = microseconds["xdsl-spirv encode"]["best"]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "versions": versions,
        "instructions": count,
        "bytes": len(binary),
        "microseconds_an_instruction": microseconds,
        "ours_over": {
            name: round(ours / microseconds[name]["best"], 2)
            for name in ("mlir-translate", "spirv-as")
            if name in microseconds
        },
    }


def _less(whole: Callable[[], float], least: Callable[[], float], repeat: int) -> dict[str, float]:
    """
    Returns the best and median seconds of `whole`, minus the start of a process, which `least`
    measures.
    """
    start = best(least, repeat)["best"]
    return {key: seconds - start for key, seconds in best(whole, repeat).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--instructions", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    result = measure(arguments.instructions, arguments.repeat)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
