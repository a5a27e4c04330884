#!/usr/bin/env python3
"""
Counts compiled kernels that other tools can translate: to Metal, HLSL and GLSL, and to WGSL by
naga.

    python scripts/portability.py              # the table
    python scripts/portability.py -o FILE.json # also the figures, with each reason

Random contractions, some with fused operations, are compiled for several targets. Each kernel is
translated by spirv-cross and, as in examples/runner-js, by naga to WGSL (with node and the
packages there). Missing tools are skipped. A refusal's reason is the line of the error. naga may
panic, so it runs in a separate process, which is restarted after the kernel.
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
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.fused_workloads import fused_workload
from xdsl_spirv.testing.workloads import workload

TARGETS = ("nvidia-h200", "intel-xe2", "arm-mali", "qualcomm-adreno", "webgpu")
TYPES = ("f32 -> f32", "f16 -> f32", "s8 -> s32", "s32 -> s32")
PLAIN, FUSED, LARGEST = 24, 12, 48
LANGUAGES = {
    "Metal 3.1": ("--msl", "--msl-version", "30100", "--msl-argument-buffers"),
    "HLSL 6.6": ("--hlsl", "--shader-model", "66"),
    "GLSL 4.6": ("--vulkan-semantics", "--version", "460"),
}
NUMBERS = re.compile(r"%?\d+")

Translate = Callable[[Sequence[Path]], list[str]]
"""Runs a tool on kernels. Returns an error for each, empty if the tool accepts the kernel."""


def kernels(target: str) -> Iterator[bytes]:
    """Yields kernels for a target. Operations that the target cannot compute are skipped."""
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


RUNNER = Path(__file__).resolve().parent.parent / "examples" / "runner-js"
NAGA = """
import { readFileSync } from "node:fs";
import * as naga from "naga-wasm";
import { Refused } from "./sizes.mjs";
import { translate } from "./webgpu.mjs";
for (const path of process.argv.slice(1)) {
  let said = "";
  try {
    translate(naga, { name: "k" }, readFileSync(path), 0, { subgroups: "device", subgroupSize: 0 });
  } catch (error) {
    said = error.message.replace("the kernel k: naga refuses it: ", "");
    if (!(error instanceof Refused)) throw error;
  }
  console.log("kernel:" + said);
}
"""
"""Source of a program that prints for each kernel why the runner cannot translate it to WGSL."""


def by_naga(paths: Sequence[Path]) -> list[str]:
    said: list[str] = []
    while len(said) < len(paths):
        command = ["node", "--input-type=module", "-e", NAGA, *map(str, paths[len(said) :])]
        done = subprocess.run(command, cwd=RUNNER, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        said += [line.removeprefix("kernel:") for line in lines if line.startswith("kernel:")]
        if len(said) < len(paths):
            last = next((x for x in reversed(done.stderr.splitlines()) if x.strip()), "")
            said.append(f"ends its process: {last[-60:]}")
    return said


def tools() -> Mapping[str, Translate]:
    translators: dict[str, Translate] = {}
    if shutil.which("spirv-cross"):
        translators |= {name: by_spirv_cross(options) for name, options in LANGUAGES.items()}
    has_naga = shutil.which("node") and (RUNNER / "node_modules" / "naga-wasm").exists()
    return translators | ({"naga": by_naga} if has_naga else {})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--target", action="append", help=f"instead of {', '.join(TARGETS)}")
    arguments = parser.parse_args()
    judges = tools()
    if not judges:
        parser.error("spirv-cross and naga are not installed (npm ci --prefix examples/runner-js)")
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
    """Returns and prints the number of kernels that each tool accepts for each target."""
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
