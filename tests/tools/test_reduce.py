"""
`xdsl-spirv reduce` finds small files with the original failure, also after an interruption.

The long test measures it on failures planted in large kernels and models.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import onnx
import pytest

from xdsl_spirv.jobs import child
from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.runtime.vulkan import device
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
from xdsl_spirv.tools.reduce import judging, kernels

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
"""A race on one element after an unrelated selection and loop."""


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
    """An engine that runs jobs in this process, because a new process takes seconds to start."""

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


def test_a_kernel_is_reduced_with_its_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    path = save(tmp_path / "race.spv", RACE)
    launch = ["--grid", "2", "--buffer", "B=u32:8:zeros", "--jobs", "1", "--failure", "RACE-01"]
    assert main(["reduce", str(path), *launch]) == 0
    smallest = tmp_path / "race.reduced.spv"
    assert {"OpPhi", "OpLoopMerge", "OpUDiv", "OpIAdd"}.isdisjoint(rows(smallest))
    assert rows(smallest).count("OpStore") == 1
    assert "size = [1]" in (tmp_path / "race.reduced.kernel.toml").read_text()
    assert main(["test", str(smallest)]) == 1
    assert "RACE-01" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.tries"))


def test_an_interrupted_search_continues(tmp_path: Path) -> None:
    """No candidate is tried twice, and the result is the same."""
    path = save(tmp_path / "race.spv", RACE)
    log = tmp_path / "log"
    wrapped = script(
        tmp_path / "crashes.sh",
        f"echo $1 >> {log}; sleep 0.02; od -An -v -t x4 -w4 $1 | grep -q 00050086 && kill -SEGV $$",
    )
    entry = "import sys; from xdsl_spirv.tools.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", entry, "reduce", str(path), "--jobs", "1"]
    command += ["--command", wrapped]
    for count in (9, None):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while count is not None and process.poll() is None:
            time.sleep(0.01)
            if log.exists() and len(log.read_text().split()) >= count:
                process.send_signal(signal.SIGKILL)
                break
        assert process.wait(60) == (0 if count is None else -signal.SIGKILL)
    tried = log.read_text().split()
    # The candidate that was running when the search was killed is tried again.
    assert len(tried) - len(set(tried)) <= 1
    first = (tmp_path / "race.reduced.spv").read_bytes()
    assert "OpUDiv" in rows(tmp_path / "race.reduced.spv")
    assert main(["reduce", str(path), "--command", wrapped, "--jobs", "3"]) == 0
    assert (tmp_path / "race.reduced.spv").read_bytes() == first


def test_a_model_is_reduced_to_one_node(tmp_path: Path, quick: None) -> None:
    """Only the node that crashes a tool remains of a large model."""
    path = tmp_path / "m.onnx"
    onnx.save(large_model("Erf", 8), str(path))
    wrapped = script(tmp_path / "crashes.sh", "! grep -q Erf $1")
    assert main(["reduce", str(path), "--command", wrapped, "-o", str(tmp_path / "s.onnx")]) == 0
    smallest = onnx.load(str(tmp_path / "s.onnx"))
    assert [node.op_type for node in smallest.graph.node] == ["Erf"]
    assert not smallest.graph.initializer
    onnx.checker.check_model(smallest, full_check=True)


def test_a_wrong_result_compared_with_a_device_is_reduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_run_on", lambda device, plan, size: None)
    monkeypatch.setattr(device, "open_device", lambda name, timeout: nullcontext())
    path = save(tmp_path / "wrong.spv", RACE.replace("OpUDiv %u %i %c3", "OpIAdd %u %i %c3"))
    launch = ["--grid", "1", "--buffer", "B=u32:16:zeros", "--jobs", "1", "--check", "bounds"]
    assert main(["reduce", str(path), *launch, "--device", "vulkan:0"]) == 0
    assert "different from the device: " in capsys.readouterr().out
    smallest = tmp_path / "wrong.reduced.spv"
    assert rows(smallest).count("OpStore") == 1
    assert "OpLoopMerge" not in rows(smallest)


def test_a_model_is_compared_with_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    """The model runs on the named device, not on the interpreter."""
    onnx.save(large_model("Erf", 1), str(tmp_path / "m.onnx"))
    assert main(["reduce", str(tmp_path / "m.onnx"), "--device", "nowhere", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "there is no device" in said
    assert "--device nowhere" in said


REFUSED = {
    "two devices": (
        ["--command", "false", "--device", "vulkan"],
        "--command and --device cannot be combined",
    ),
    "passes": (["--command", "true"], "the input does not fail as requested: status 0"),
    "another status": (["--command", "false", "--status", "3"], "fail as requested: status 1"),
    "other words": (["--command", "false", "--says", "Assertion"], "fail as requested: status 1"),
    "no command": (["--command", "./there-is-none"], "cannot run ./there-is-none"),
    "no launch": ([], "the number of workgroups is not given"),
    "no output": (["-o", "none/x.spv", "--command", "false"], "cannot write the output"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_requests_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    options, cause = REFUSED[name]
    path = save(tmp_path / "race.spv", RACE)
    assert main(["reduce", str(path), "--jobs", "1", *options]) != 0
    assert cause in capsys.readouterr().err
    assert not list(tmp_path.glob("race.reduced*"))


# Each failure must be reduced to at most 1.5 times the smallest known size.

SHARE = 1.5
SECONDS = 600.0
TOOL = f"{sys.executable} -m xdsl_spirv.testing.seeded_failures"
WRONG_TOOL = ["--status", "3", "--command"]


def reduced_size(path: Path, options: list[str]) -> int:
    """Returns the size of the reduced file in instructions or nodes."""
    start = time.monotonic()
    assert main(["reduce", str(path), "--jobs", "2", *options]) == 0
    assert time.monotonic() - start < SECONDS
    suffix = ".onnx" if path.suffix == ".onnx" else ".spv"
    data = path.with_name(f"{path.name.partition('.')[0]}.reduced{suffix}").read_bytes()
    return len(onnx.load_from_string(data).graph.node) if suffix == ".onnx" else size_of(data)


def size_of(binary: bytes) -> int:
    return int(kernels.count(binary).split()[0])


def launch_of(text: str) -> list[str]:
    """Returns launch options. The first buffer is given only to a kernel that reads it."""
    first = ["--buffer", "0.0=f32:128:random"] if " a[" in text or "(a[" in text else []
    return ["--grid", "2", "--buffer", "0.1=f32:128:zeros", *first]


def no_launch(text: str) -> list[str]:
    return []


def check_seed(
    seed: Seed,
    number: int,
    folder: Path,
    options: list[str],
    launch: Callable[[str], list[str]] = no_launch,
) -> None:
    """
    Reduces a failure in a large kernel. The result must be about as small as the handwritten one.

    The handwritten kernel is reduced, too, or optimized by `spirv-opt -O` if that makes it
    smaller.
    """
    small = compile_glsl(small_kernel(seed), folder / "small")
    known = [reduced_size(small, [*options, *launch(seed.small)])]
    optimize(small)
    known.append(size_of(small.read_bytes()))
    large = compile_glsl(large_kernel(seed.planted, number), folder / "large")
    start = time.monotonic()
    found = reduced_size(large, [*options, *launch(" a[")])
    before = size_of(large.read_bytes())
    print(f"{before} to {found}, known {min(known)}, {time.monotonic() - start:.0f} s")
    assert found <= SHARE * min(known)


@pytest.mark.long
@pytest.mark.parametrize("rule", FINDINGS)
def test_a_finding_deep_in_a_kernel_is_reduced(
    rule: str, tmp_path: Path, glslang: list[str]
) -> None:
    check_seed(FINDINGS[rule], len(rule), tmp_path, ["--failure", rule], launch_of)


@pytest.mark.long
@pytest.mark.parametrize("pattern", CRASHES)
def test_a_crash_of_a_tool_is_reduced(pattern: str, tmp_path: Path, glslang: list[str]) -> None:
    text = f"{khronos.tool('spirv-dis')} $1 | grep -q '{pattern}' && kill -SEGV $$; true"
    check_seed(CRASHES[pattern], 9, tmp_path, ["--command", script(tmp_path / "tool", text)])


@pytest.mark.long
@pytest.mark.parametrize("op", WRONG)
def test_a_wrong_result_of_a_tool_is_reduced(op: str, tmp_path: Path, glslang: list[str]) -> None:
    check_seed(WRONG[op], 5, tmp_path, [*WRONG_TOOL, f"{TOOL} kernel {op} {{}}"])


@pytest.mark.long
@pytest.mark.parametrize("op", ["Erf", "Elu"])
def test_a_wrong_node_deep_in_a_model_is_found(op: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(large_model(op), str(path))
    assert reduced_size(path, [*WRONG_TOOL, f"{TOOL} model {op} {{}}"]) == 1


@pytest.mark.long
@pytest.mark.parametrize("op", ["Softsign", "HardSwish"])
def test_a_node_that_crashes_a_tool_is_found(op: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(large_model(op), str(path))
    wrapped = script(tmp_path / "tool", f"grep -q {op} $1 && kill -ABRT $$; true")
    assert reduced_size(path, ["--command", wrapped]) == 1
