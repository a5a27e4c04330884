"""
`xdsl-spirv reduce`: what it finds is small, fails as the original, and is the same after an
interruption. The long test measures it on failures planted in large kernels and models.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from xdsl_spirv.jobs import child
from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.testing.seeded_failures import (
    CRASHES,
    FINDINGS,
    WRONG,
    Seed,
    compile_glsl,
    large_kernel,
    large_model,
    optimize,
    small_kernel,
)
from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.reduce import command as reducing
from xdsl_spirv.tools.reduce import kernels

RACE = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %b %l
OpExecutionMode %main LocalSize 8 1 1
OpName %b "B"
OpDecorate %l BuiltIn LocalInvocationIndex
OpDecorate %a ArrayStride 4
OpDecorate %s Block
OpMemberDecorate %s 0 Offset 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 0
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u = OpTypeInt 32 0
%bool = OpTypeBool
%c0 = OpConstant %u 0
%c1 = OpConstant %u 1
%c3 = OpConstant %u 3
%a = OpTypeRuntimeArray %u
%s = OpTypeStruct %a
%ps = OpTypePointer StorageBuffer %s
%pu = OpTypePointer StorageBuffer %u
%pi = OpTypePointer Input %u
%b = OpVariable %ps StorageBuffer
%l = OpVariable %pi Input
%main = OpFunction %void None %fn
%entry = OpLabel
%i = OpLoad %u %l
%c = OpULessThan %bool %i %c3
OpSelectionMerge %end None
OpBranchConditional %c %then %end
%then = OpLabel
%p = OpAccessChain %pu %b %c0 %i
OpStore %p %i
OpBranch %end
%end = OpLabel
%x = OpPhi %u %i %entry %c3 %then
OpBranch %head
%head = OpLabel
%n = OpPhi %u %c0 %end %m %next
%y = OpPhi %u %x %end %z %next
%d = OpULessThan %bool %n %c3
OpLoopMerge %out %next None
OpBranchConditional %d %body %out
%body = OpLabel
%z = OpIAdd %u %y %i
OpBranch %next
%next = OpLabel
%m = OpIAdd %u %n %c1
OpBranch %head
%out = OpLabel
%h = OpUDiv %u %i %c3
%q = OpAccessChain %pu %b %c0 %h
OpStore %q %y
OpReturn
OpFunctionEnd
"""
"""Invocations write one place, behind a selection and a loop that have nothing to do with it."""


def save(path: Path, text: str) -> Path:
    path.write_bytes(assemble(text).encode())
    return path


def rows(path: Path) -> list[str]:
    return [str(instruction.name) for instruction in decode(path.read_bytes())]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


class InThisProcess(Engine):
    """Tries candidates without the start of another process, which takes seconds."""

    def __init__(self, cores: int):
        self.cores = cores

    def place(self, resource: str) -> Place:
        return Place(resource)

    def resources(self) -> Counter[str]:
        return Counter()

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        yield from ((job, child.perform(job)[0]) for job in jobs)

    def close(self) -> None:
        pass


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reducing, "Here", InThisProcess)


def test_a_kernel_with_its_launch(tmp_path: Path, capsys: Any, quick: None) -> None:
    """Control flow, calculation and launch go; what remains is the store, and it races."""
    path = save(tmp_path / "race.spv", RACE)
    check_seed(FINDINGS[rule], len(rule), tmp_path, ["--failure", rule], launch_of)


@pytest.mark.long
@pytest.mark.parametrize("pattern", CRASHES)
def test_a_crash_of_a_tool(pattern: str, tmp_path: Path, glslang: list[str]) -> None:
    text = f"{khronos.tool('spirv-dis')} $1 | grep -q '{pattern}' && kill -SEGV $$; true"
    check_seed(CRASHES[pattern], 9, tmp_path, ["--command", script(tmp_path / "tool", text)])


@pytest.mark.long
@pytest.mark.parametrize("op", WRONG)
def test_a_wrong_result_of_a_tool(op: str, tmp_path: Path, glslang: list[str]) -> None:
    check_seed(WRONG[op], 5, tmp_path, ["--command", f"{WRONG_TOOL} kernel {op} {{}}"])


@pytest.mark.long
@pytest.mark.parametrize("op", ["Erf", "Elu"])
def test_a_wrong_node_deep_in_a_model(op: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(large_model(op), str(path))
    assert reduced_size(path, ["--command", f"{WRONG_TOOL} model {op} {{}}"]) == 1


@pytest.mark.long
@pytest.mark.parametrize("op", ["Softsign", "HardSwish"])
def test_a_node_that_crashes_a_tool(op: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(large_model(op), str(path))
    wrapped = script(tmp_path / "tool", f"grep -q {op} $1 && kill -ABRT $$; true")
    assert reduced_size(path, ["--command", wrapped]) == 1
