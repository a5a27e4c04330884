#!/usr/bin/env python3
"""
The raw layer and the text against Khronos' tools, all in one run.

    python benchmarks/raw.py [--instructions 200000]

Prints microseconds an instruction, the ratio to the tool that does the same work, and how many
bytes a decoded module holds for each byte of the file. Times are processor time, the tools' of
whole processes.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from xdsl_spirv.serialization import khronos
from xdsl_spirv.serialization.assembler import assemble
from xdsl_spirv.serialization.binary import RawModule, decode
from xdsl_spirv.serialization.disassembler import disassemble
from xdsl_spirv.serialization.sampling import Sampler

MIX = (
    ["OpLoad"] * 4
    + ["OpAccessChain"] * 4
    + ["OpStore", "OpFAdd", "OpFMul", "OpIAdd", "OpCompositeExtract", "OpSelect"] * 2
    + ["OpConstant", "OpLine", "OpExtInst", "OpCompositeConstruct", "OpPhi"]
)
"""Roughly what kernels are made of."""


def build(count: int) -> RawModule:
    sampler = Sampler(random.Random(0))
    sampler.declare(["GLSL.std.450"])
    sampler.optional = False
    for _ in range(count // 40):
        sampler.sample("OpName")
    while len(sampler.words) < count:
        sampler.sample(sampler.rng.choice(MIX))
    return sampler.module()


def timed(work: Callable[[], object]) -> float:
    """The best of three, in seconds of processor time, ours and that of processes we start."""
    best = float("inf")
    for _ in range(3):
        start = _processor_time()
        work()
        best = min(best, _processor_time() - start)
    return best


def _processor_time() -> float:
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


def tool(name: str, source: Path, *options: str) -> float:
    command = [khronos.tool(name), *options, str(source), "-o", "/dev/null"]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--instructions", type=int, default=200_000)
    count = parser.parse_args().instructions
    data = build(count).encode()
    module = decode(data)
    text = disassemble(module, raw_ids=True)
    rows = {
        "decode": timed(lambda: decode(data)),
        "encode": timed(module.encode),
        "decode all operands": timed(lambda: [i.operands for i in decode(data)]),
        "disassemble, raw ids": timed(lambda: disassemble(decode(data), raw_ids=True)),
        "disassemble, names": timed(lambda: disassemble(decode(data))),
        "assemble": timed(lambda: assemble(text)),
    }
    tools: dict[str, float] = {}
    if khronos.find("spirv-dis"):
        with tempfile.TemporaryDirectory() as folder:
            binary, source = Path(folder) / "x.spv", Path(folder) / "x.spvasm"
            binary.write_bytes(data)
            source.write_text(text)
            tools["disassemble, raw ids"] = tool("spirv-dis", binary, "--raw-id")
            tools["disassemble, names"] = tool("spirv-dis", binary)
            tools["assemble"] = tool("spirv-as", source, "--preserve-numeric-ids")
    print(f"{count} instructions, {len(data)} bytes")
    for name, seconds in rows.items():
        rate = count / seconds / 1e6
        line = f"{name:22} {1 / rate:8.3f} us/instruction {rate:8.2f} M/s"
        if name in tools:
            line += f"   {seconds / tools[name]:5.2f} x Khronos' {tools[name]:.2f} s"
        print(line)
    tracemalloc.start()
    held = decode(data)
    used, peak = tracemalloc.get_traced_memory()
    print(f"held: {used / len(data):.2f} bytes a byte, peak {peak / len(data):.2f} ({held!r})")


if __name__ == "__main__":
    main()
