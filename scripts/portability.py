#!/usr/bin/env python3
"""
How many compiled kernels other tools translate: to Metal, HLSL and GLSL, and by naga (WebGPU).

    python scripts/portability.py              # the table
    python scripts/portability.py -o FILE.json # and the figures, with each reason

Random contractions, and those with something fused to them, are compiled for several targets. Each
kernel goes to spirv-cross and to naga as wgpu-native has it (the package `wgpu`, and any adapter);
what is missing is left out. A refusal's reason is the line that says it. naga may end its process
(it does, on kernels of ours): it has one of its own, and is started again behind such a kernel.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.fused_workloads import fused_workload
from xdsl_spirv.testing.workloads import workload

TARGETS = ("nvidia-h200", "intel-xe2", "arm-mali", "qualcomm-adreno")
TYPES = ("f32 -> f32", "f16 -> f32", "s8 -> s32", "s32 -> s32")
PLAIN, FUSED, LARGEST = 24, 12, 48
LANGUAGES = {
    "Metal 3.1": ("--msl", "--msl-version", "30100", "--msl-argument-buffers"),
    "HLSL 6.6": ("--hlsl", "--shader-model", "66"),
    "GLSL 4.6": ("--vulkan-semantics", "--version", "460"),
}
NUMBERS = re.compile(r"%?\d+")

Translate = Callable[[Sequence[Path]], list[str]]
"""What a tool has against each kernel; nothing if it takes it."""


def kernels(target: str) -> Iterator[bytes]:
    """Kernels for a target; what it cannot compute is passed over."""
    sources = [workload(seed, TYPES, LARGEST).text() for seed in range(PLAIN)]
    sources += [fused_workload(seed, LARGEST).text() for seed in range(FUSED)]
    for source in sources:
        try:
            program = compile_module(parse_text(source), target)
        except (DiagnosticException, ProgramError):
            continue
        yield from (code.binary for code in program.code.values())


def by_spirv_cross(options: tuple[str, ...]) -> Translate:
    def translate(path: Path) -> str:
        command = ["spirv-cross", str(path), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        said = done.stderr.strip().splitlines()
        return "" if done.returncode == 0 else (said[0] if said else f"status {done.returncode}")

    return lambda paths: [translate(path) for path in paths]


NAGA = """
import sys
import wgpu
adapter = wgpu.gpu.request_adapter_sync()
wanted = ("shader-f16", "shader-int64", "shader-f64", "shader-i16", "subgroup", "immediates")
had = [feature for feature in wanted if feature in adapter.features]
device = adapter.request_device_sync(required_features=had)
for path in sys.argv[1:]:
    said = ""
    try:
        device.create_shader_module(code=open(path, "rb").read())
    except Exception as error:
        lines = [line.strip(" =\u2502") for line in str(error).splitlines()]
        said = [type(error).__name__, *filter(None, lines)][-1]
    print("kernel:" + said, flush=True)
"""
"""Shader modules of a device with all features that kernels can need."""


def by_naga(paths: Sequence[Path]) -> list[str]:
    said: list[str] = []
    while len(said) < len(paths):
        command = [sys.executable, "-c", NAGA, *map(str, paths[len(said) :])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        said += [line.removeprefix("kernel:") for line in lines if line.startswith("kernel:")]
        if len(said) < len(paths):
            panic = next((x for x in done.stderr.splitlines() if "panicked at" in x), "")
            said.append(f"ends its process{panic.rpartition('/src')[2] and ': ' + panic[-60:]}")
    return said


def tools() -> Mapping[str, Translate]:
    translators: dict[str, Translate] = {}
    if shutil.which("spirv-cross"):
        translators |= {name: by_spirv_cross(options) for name, options in LANGUAGES.items()}
    return translators | ({"naga": by_naga} if find_spec("wgpu") else {})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--target", action="append", help=f"instead of {', '.join(TARGETS)}")
    arguments = parser.parse_args()
    judges = tools()
    if not judges:
        parser.error("there is neither spirv-cross nor the package wgpu")
    with tempfile.TemporaryDirectory() as folder:
        figures = judged(judges, arguments.target or TARGETS, Path(folder))
    for target, entry in figures.items():
        for name, counts in entry["reasons"].items():
            for reason, count in counts.items():
                print(f"{target}, {name}: {count} x {reason}")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def judged(judges: Mapping[str, Translate], targets: Sequence[str], folder: Path) -> dict[str, Any]:
    """How many kernels for each target each tool takes; prints a row of each."""
    figures: dict[str, Any] = {}
    print(f"| target | kernels | {' | '.join(judges)} |\n|---|---|{'---|' * len(judges)}")
    for target in targets:
        binaries = list(kernels(target))
        taken: list[str] = []
        reasons: dict[str, collections.Counter[str]] = {}
        paths = [folder / f"{number}.spv" for number in range(len(binaries))]
        for path, binary in zip(paths, binaries, strict=True):
            path.write_bytes(binary)
        for name, translate in judges.items():
            said = translate(paths)
            taken.append(str(said.count("")))
            reasons[name] = collections.Counter(NUMBERS.sub("N", s)[:120] for s in said if s)
        figures[target] = {
            "kernels": len(binaries),
            "translated": dict(zip(judges, map(int, taken), strict=True)),
            "reasons": {name: dict(counts.most_common()) for name, counts in reasons.items()},
        }
        print(f"| {target} | {len(binaries)} | {' | '.join(taken)} |", flush=True)
    return figures


if __name__ == "__main__":
    sys.exit(main())
