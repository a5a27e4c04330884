#!/usr/bin/env python3
"""
Times round trips of a module of about 200,000 instructions: ours, `mlir-translate`, Khronos'
tools.

    python benchmarks/raw.py [--instructions 200000] [--repeat 3]

All tools run on a module that benchmarks/serialize.py generates. Times are processor time: of
whole processes for the tools, of function calls for ours (the start of our process is listed
separately). Memory is the peak of a process that runs the stage once, including Python and its
libraries for ours.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import serialize

from xdsl_spirv.tools import khronos

RESULT = Path(__file__).resolve().parent / "results" / "raw.json"
SMALL = 10_000
"""Number of instructions of the module that the dialect decodes and encodes."""

Row = dict[str, float]


def clocked(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Returns the least processor seconds of `repeat` calls of `work`, and the result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        result = None
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


# Stages. Each runs in its own process on a file, and returns seconds by name.


def raw_stage(path: Path, repeat: int) -> Row:
    from xdsl_spirv.serialization.raw.binary import decode

    data = path.read_bytes()
    decoding, module = clocked(lambda: decode(data), repeat)
    encoding, again = clocked(module.encode, repeat)
    if again != data:
        raise SystemExit("encoding the decoded raw module changes the bytes")
    return {"raw decode": decoding, "raw encode": encoding}


def operands_stage(path: Path, repeat: int) -> Row:
    from xdsl_spirv.serialization.raw.binary import decode

    module = decode(path.read_bytes())
    seconds, _ = clocked(lambda: sum(len(i.operands) for i in module), repeat)
    return {"read all operands": seconds}


def disassemble_stage(path: Path, repeat: int) -> Row:
    from xdsl_spirv.serialization.raw.binary import decode
    from xdsl_spirv.serialization.text.disassembler import disassemble

    data = path.read_bytes()
    plain, text = clocked(lambda: disassemble(decode(data), raw_ids=True), repeat)
    path.with_suffix(".spvasm").write_text(text)
    named, _ = clocked(lambda: disassemble(decode(data)), repeat)
    return {"disassemble, raw ids": plain, "disassemble, names": named}


def assemble_stage(path: Path, repeat: int) -> Row:
    from xdsl_spirv.serialization.text.assembler import assemble

    text = path.with_suffix(".spvasm").read_text()
    seconds, data = clocked(lambda: assemble(text).encode(), repeat)
    if data != path.read_bytes():
        raise SystemExit("assembling the disassembled text changes the bytes")
    return {"assemble": seconds}


def dialect_stage(path: Path, repeat: int) -> Row:
    from xdsl_spirv.serialization.decode.decoder import decode
    from xdsl_spirv.serialization.encode.encoder import encode

    data = path.read_bytes()
    decoding, module = clocked(lambda: decode(data, unchecked=True), repeat)
    verifying, _ = clocked(module.verify, repeat)
    encoding, once = clocked(lambda: encode(module), repeat)
    if encode(decode(once)) != once:
        raise SystemExit("decoding and encoding the canonical form changes the bytes")
    return {"dialect decode": decoding, "verify": verifying, "dialect encode": encoding}


def grammar_stage(path: Path, repeat: int) -> Row:
    import xdsl_spirv.grammar as module

    importlib.import_module("xdsl_spirv.dialects.spirv")

    if module.grammar.cache_info().currsize:
        raise SystemExit("importing the dialects must not load the grammar")
    seconds, _ = clocked(module.grammar, 1)
    return {"load the grammar": seconds}


def start_stage(path: Path, repeat: int) -> Row:
    """Does nothing. The time of this stage is the time to start a process."""
    for module in ("decoder", "encoder"):
        importlib.import_module(f"xdsl_spirv.serialization.{module}")
    return {"start and imports": time.process_time()}


STAGES: dict[str, Callable[[Path, int], Row]] = {
    "start": start_stage,
    "grammar": grammar_stage,
    "raw": raw_stage,
    "operands": operands_stage,
    "disassemble": disassemble_stage,
    "assemble": assemble_stage,
    "dialect": dialect_stage,
}


LAUNCHER = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], "wb"))
_, status, usage = os.wait4(child.pid, 0)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
sys.exit(bool(status))
"""
"""Source of a small parent process. A child's peak memory includes its parent's memory."""


def process(command: Sequence[str | Path], given: Path | None = None) -> tuple[float, float, str]:
    """Returns processor seconds, peak MiB and output of a process."""
    with tempfile.NamedTemporaryFile() as output, (given or Path(os.devnull)).open("rb") as source:
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, output.name]
        line = [*launcher, *(str(c) for c in command)]
        done = subprocess.run(line, stdin=source, stdout=subprocess.PIPE, check=True)
        data = output.read()
    seconds, peak = json.loads(done.stdout)
    return seconds, peak, data.decode(errors="replace") if len(data) < 10_000 else ""


def ours(name: str, path: Path, repeat: int) -> tuple[Row, float]:
    """Returns the times of a stage, and the peak MiB of a process that runs the stage once."""
    command = [sys.executable, __file__, "--stage", name, "--file", path, "--repeat"]
    _, peak, times = process([*command, str(repeat)])
    return json.loads(times), process([*command, "1"])[1] if repeat > 1 else peak


def tools(binary: Path, repeat: int) -> dict[str, tuple[list[str | Path], Path | None]]:
    """Returns the installed tools: name -> (command, input)."""
    commands: dict[str, tuple[list[str | Path], Path | None]] = {}
    if khronos.find("spirv-dis"):
        dis, assembler = khronos.tool("spirv-dis"), khronos.tool("spirv-as")
        text, out = binary.with_suffix(".spvasm"), ["-o", "/dev/null"]
        commands["spirv-dis --raw-id"] = ([dis, "--raw-id", binary, *out], None)
        commands["spirv-dis"] = ([dis, binary, *out], None)
        commands["spirv-as"] = ([assembler, "--preserve-numeric-ids", text, *out], None)
    if translate := shutil.which("mlir-translate-22"):
        line: list[str | Path] = [translate, "--no-implicit-module"]
        mlir = binary.with_suffix(".mlir")
        commands["mlir-translate --serialize-spirv"] = ([*line, "--serialize-spirv"], mlir)
        commands["mlir-translate --deserialize-spirv"] = (
            [*line, "--deserialize-spirv", binary],
            None,
        )
    return commands


def module_file(path: Path, instructions: int) -> int:
    """Writes the module as binary and as MLIR text. Returns its number of instructions."""
    text = serialize.source(instructions)
    path.with_suffix(".mlir").write_text(text)
    data = serialize.encode(serialize.parse(text))
    path.write_bytes(data)
    return serialize.count_instructions(data)


COMPARED = {
    "disassemble, raw ids": "spirv-dis --raw-id",
    "disassemble, names": "spirv-dis",
    "assemble": "spirv-as",
}


def measure(folder: Path, instructions: int, repeat: int) -> dict[str, Any]:
    big, small = folder / "big.spv", folder / "small.spv"
    count, few = module_file(big, instructions), module_file(small, SMALL)
    seconds: Row = {}
    peaks: Row = {}
    for name in STAGES:
        times, peak = ours(name, big, 1 if name == "dialect" else repeat)
        seconds |= times
        peaks[name] = peak
    dialect = ours("dialect", small, repeat)[0]
    theirs: Row = {}
    for name, (command, given) in tools(big, repeat).items():
        runs = [process(command, given) for _ in range(repeat)]
        theirs[name] = min(r[0] for r in runs)
        peaks[name] = max(r[1] for r in runs)
    start, load = seconds.pop("start and imports"), seconds.pop("load the grammar")
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpu": serialize.processor(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "instructions": count,
        "bytes": big.stat().st_size,
        "seconds": {k: round(v, 4) for k, v in (seconds | theirs).items()},
        "microseconds_an_instruction": {
            k: round(v / count * 1e6, 4) for k, v in (seconds | theirs).items()
        },
        "peak_mib": {k: round(v, 1) for k, v in peaks.items()},
        "ours_over_theirs": {
            k: round(seconds[k] / theirs[v], 2) for k, v in COMPARED.items() if v in theirs
        },
        "start_and_imports_s": round(start, 3),
        "load_the_grammar_ms": round(load * 1e3, 1),
        "small": {
            "instructions": few,
            "seconds": {k: round(v, 3) for k, v in dialect.items()},
            "decode_verify_encode_s": round(sum(dialect.values()), 3),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--instructions", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULT)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        print(json.dumps(STAGES[arguments.stage](arguments.file, arguments.repeat)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), arguments.instructions, arguments.repeat)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
