#!/usr/bin/env python3
"""
Runs commands with bad input and in bad environments, and reports wrong endings.

    python scripts/faults.py --jobs 8
    python scripts/faults.py --only "compile, huge"      # the cases whose name contains this text

Each case runs a command in a separate process with its own home, temporary folder and working
directory. The command must end within `SECONDS` with a status of tools/__init__.py that fits. It
must not print a traceback or "has a defect", leave a process or temporary file, or, if it fails,
an output file. The exit status is 1 if a case ends wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_cases import ANY, FAILED, Case, bad_files
from faults_of_programs import newer_cases

SECONDS = 120
OF_OTHERS = {".ses"}
"""Suffixes of temporary files that onnxruntime leaves, and that are therefore ignored."""

MODULE = (
    "func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {\n  return %x : tensor<4x4xf32>\n}\n"
)
PRODUCT = """func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>)
    -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""
ASSEMBLY = """; SPIR-V
; Version: 1.6
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
%void = OpTypeVoid
%fn = OpTypeFunction %void
%main = OpFunction %void None %fn
%entry = OpLabel
OpReturn
OpFunctionEnd
"""


READERS: Mapping[str, tuple[str, ...]] = {
    "x.mlir": ("opt", "x.mlir"),
    "y.mlir": ("compile", "y.mlir", "--target", "lavapipe", "-o", "out"),
    "x.spv": ("validate", "x.spv"),
    "y.spv": ("disassemble", "y.spv"),
    "z.spv": ("translate", "z.spv", "-o", "out.mlir"),
    "x.spvasm": ("assemble", "x.spvasm", "-o", "out.spv"),
    "x.onnx": ("compile", "x.onnx", "--target", "lavapipe", "-o", "out"),
    "x.gguf": ("generate", "x.gguf", "--raw", "hi"),
    "x.kernel.toml": ("test", "x.kernel.toml"),
    "x.json": ("compile", "sound.mlir", "--target", "x.json", "-o", "out"),
    "program": ("run", "program"),
}


def hostile_inputs() -> Iterator[Case]:
    """Yields cases that give every reader every kind of unreadable file."""
    for name, arguments in READERS.items():
        for kind, make in bad_files(name):

            def prepare(folder: Path, make: Callable[[Path], object] = make) -> None:
                (folder / "sound.mlir").write_text(PRODUCT)
                make(folder)

            # Zeros are an empty assembly, and an empty text is an empty module.
            statuses = ANY if kind in ("empty", "zeros") else FAILED
            yield Case(f"{arguments[0]} {name}, {kind}", arguments, statuses, prepare)


def sound(folder: Path) -> None:
    (folder / "x.mlir").write_text(PRODUCT)
    (folder / "x.spvasm").write_text(ASSEMBLY)


COMPILE = ("compile", "x.mlir", "--target", "lavapipe", "-o", "out")
OPT = ("opt", "x.mlir", "-p", "linalg-to-contraction")


def usage() -> Iterator[Case]:
    """Yields cases with wrong command lines."""
    written = """
nothing | opt --nothing | opt x.mlir -p nothing | opt x.mlir -p assign-schedule{target=nothing}
opt x.mlir -p {{{ | compile | compile x.mlir | compile x.mlir --target nothing -o out
compile x.mlir --target ../../etc/passwd -o out | compile x.mlir --target lavapipe | run | run /
run . | run x.mlir --device vulkan:99 | run x.mlir --device nothing | validate | validate x.mlir
validate x.spvasm --target-env nothing | interpret x.mlir --function nothing | convert x.mlir
interpret x.mlir --grid a | check-passes x.mlir --inputs 0 | check-passes x.mlir -p nothing
explain x.mlir --target nothing | test x.mlir | devices --device x | opt - | results nothing
translate x.mlir -o nothing/out.spv | assemble x.spvasm -o nothing/out.spv
opt x.mlir -o nothing/out.mlir | compile x.mlir --target lavapipe -o x.mlir
"""
    wrong = [line.split() for line in written.replace("|", "\n").splitlines() if line.strip()]
    wrong += [[], ["opt", "\x1b[2J\n.mlir"], ["opt", "é" * 300]]
    for arguments in wrong:
        shown = " ".join(arguments).encode("unicode_escape").decode()[:60]
        yield Case(f"usage: {shown}", arguments, FAILED, sound)


def surroundings() -> Iterator[Case]:
    """Yields valid commands in broken surroundings: caches, drivers, folders."""
    houses: dict[str, Mapping[str, str]] = {
        "no home": {"HOME": "/nothing"},
        "a cache that is a file": {"XDG_CACHE_HOME": "x.mlir"},
        "a cache that cannot be": {"XDG_CACHE_HOME": "/proc/nothing"},
        "no temporary files": {"TMPDIR": "/nothing"},
        "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
        "no path": {"PATH": "/nothing"},
        "a driver that is none": {"VK_DRIVER_FILES": "/etc/passwd"},
        "a loader that is none": {"XDSL_SPIRV_VULKAN_LIBRARY": "/etc/passwd"},
        "a tuned table that is none": {"XDSL_SPIRV_TUNED": "/etc"},
        "colours": {"TERM": "nothing", "FORCE_COLOR": "1"},
    }
    commands = {
        "opt": OPT,
        "compile": COMPILE,
        "doctor": ("doctor",),
        "devices": ("devices",),
        "validate": ("validate", "x.spvasm"),
    }
    for house, environment in houses.items():
        for name, arguments in commands.items():
            yield Case(f"{name}, {house}", arguments, ANY, sound, environment)


def limits() -> Iterator[Case]:
    """Yields commands with limits on memory, files and time, and with unwritable outputs."""
    commands = {"opt": OPT, "compile": COMPILE, "validate": ("validate", "x.spvasm")}
    for name, arguments in commands.items():
        # With less memory Python cannot start, and reports this itself.
        yield Case(f"{name}, 1 GB", arguments, ANY, sound, {}, {resource.RLIMIT_AS: 1 << 30})
        yield Case(f"{name}, 16 files", arguments, ANY, sound, {}, {resource.RLIMIT_NOFILE: 16})
        yield Case(f"{name}, no core", arguments, ANY, sound, {}, {resource.RLIMIT_CORE: 0})
        for output in ("full", "closed pipe", "closed"):
            statuses = ANY | {141}
            yield Case(f"{name}, output {output}", arguments, statuses, sound, output=output)
    yield Case("opt, files of 10 bytes", [*OPT, "-o", "out.mlir"], ANY, sound, {},
               {resource.RLIMIT_FSIZE: 10})  # fmt: skip
    yield Case("compile, files of 10 bytes", COMPILE, ANY, sound, {}, {resource.RLIMIT_FSIZE: 10})


def signals() -> Iterator[Case]:
    """Yields commands that are interrupted or terminated at various times."""
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for moment in (0.02, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5):
            for name, arguments in (("compile", COMPILE), ("doctor", ("doctor",))):
                # Before Python installs handlers, and after the end, its default ending is allowed.
                statuses = ANY | {status, -number}
                yield Case(
                    f"{name}, {number.name} after {moment} s",
                    arguments,
                    statuses,
                    sound,
                    signal=(number, moment),
                )


def cases() -> list[Case]:
    return [*hostile_inputs(), *usage(), *surroundings(), *limits(), *signals(), *newer_cases()]


def outcome(case: Case) -> list[str]:
    """Runs a case, and returns a description of each fault, such as a traceback."""
    command = case.command()
    if not command:
        return []
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        top = Path(name)
        work, temporary, home = (top / part for part in ("work", "tmp", "home"))
        for folder in (work, temporary, home):
            folder.mkdir()
        case.prepare(work)
        before = set(os.listdir(work))
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        environment = {**kept, "HOME": str(home), "TMPDIR": str(temporary), **case.environment}
        status, said = _run(case, command, work, environment)
        wrong: list[str] = []
        if status is None:
            wrong.append(f"it does not end within {SECONDS} s")
        elif status not in case.statuses:
            wrong.append(f"its status is {status}")
        if "Traceback" in said and not (case.signal and "KeyboardInterrupt" in said):
            wrong.append("it ends in a traceback")
        if "itself has a defect" in said:
            wrong.append("it reports a defect of its own")
        if left := set(os.listdir(temporary)) - OF_OTHERS:
            wrong.append(f"it leaves {sorted(left)} in TMPDIR")
        # If only the messages could not be written, the output is complete and may stay.
        is_heard = case.output == "tail"
        if is_heard and status not in (0, None) and (files := set(os.listdir(work)) - before):
            wrong.append(f"it fails and leaves {sorted(files)}")
        return [f"{what}: {said[-300:]!r}" for what in wrong]


def _run(
    case: Case, command: Sequence[str], work: Path, environment: Mapping[str, str]
) -> tuple[int | None, str]:
    def limit() -> None:
        # A shell that starts this in the background ignores interrupts.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for kind, amount in case.limits.items():
            resource.setrlimit(kind, (amount, amount))
        if case.output == "closed":
            os.close(1)

    stdout = subprocess.PIPE
    if case.output == "full":
        stdout = os.open("/dev/full", os.O_WRONLY)
    process = subprocess.Popen(
        [*command, *case.arguments], cwd=work, env=environment, stdin=subprocess.PIPE,
        stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=limit,
        start_new_session=True,
    )  # fmt: skip
    if case.output == "full":
        os.close(stdout)
    if case.output == "closed pipe" and process.stdout is not None:
        process.stdout.close()
        process.stdout = None
    if case.signal is not None:
        time.sleep(case.signal[1])
        process.send_signal(case.signal[0])
    try:
        out, said = process.communicate(case.text, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    left = _left_behind(process.pid)
    return process.returncode, f"{out or ''}{said}{left}"


def _left_behind(group: int) -> str:
    """Returns a message if processes of the command still run after four seconds."""
    for _ in range(40):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return ""
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    return "Traceback: it leaves processes behind"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("-o", "--output", type=Path, help="also write the findings as JSON")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if arguments.only in case.name]
    findings: dict[str, list[str]] = {}
    begun = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for case, wrong in zip(chosen, pool.map(outcome, chosen), strict=True):
            if wrong:
                findings[case.name] = wrong
                print(f"{case.name}\n    " + "\n    ".join(wrong), flush=True)
    seconds = time.monotonic() - begun
    print(f"{len(chosen)} cases in {seconds:.0f} s: {len(findings)} do not end as they should")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(findings, indent=2) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
