"""
Times a llama's prompt on a device, compiled with all passes and without some.

    python benchmarks/prompt_passes.py --without fold-parts -o prompt.json
    .lavapipe/run python benchmarks/prompt_passes.py --target lavapipe --small --without fold-parts

Weights are random Q4_1 blocks in Llama-3-8B's shapes (`--blocks` of its 32 blocks, few logits).
The variants are all passes, and all passes except one for each `--without`. They run in turns.
`device_ms` is the sum of a prompt's dispatches, `host_ms` the wall-clock time of a run, and
`cosine` compares the logits with the logits of all passes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import parser_of
from language_model import Type, kinds_ms, median_ms, write_model
from llama_peer import LLAMA_3_8B, TINY

from xdsl_spirv.compiler import compile as compile_model
from xdsl_spirv.compiler import compiler, pipeline
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.sessions import VulkanSession

COSINE = 0.9999


def without(name: str | None) -> Any:
    """Returns a `lowering` function that omits the named pass."""

    def lowering(*given: Any) -> Any:
        return tuple(member for member in pipeline.lowering(*given) if member.name != name)

    return lowering


def compiled(options: Any, path: Path) -> dict[str, Program]:
    ways: dict[str, Program] = {}
    for name in (None, *options.without):
        compiler.lowering = without(name)
        way = "all" if name is None else f"without {name}"
        ways[way] = compile_model(
            path, options.target, context=options.prompt + 1, jobs=options.jobs
        )
        print(f"compiled {way}", flush=True)
    return ways


def measure(options: Any, ways: dict[str, Program], vocabulary: int) -> dict[str, Any]:
    token = np.random.default_rng(2).integers(0, vocabulary, options.prompt).astype(np.int32)
    inputs = {"token": token, "past": np.array(0)}
    records: dict[str, Any] = {}
    first: Any = None
    with open_device(options.device) as device:
        concrete = {way: program.function("prefill").at(inputs) for way, program in ways.items()}
        for way, program in ways.items():
            with VulkanSession(program, device) as session:

                def run(session: Any = session) -> Any:
                    return session.run("prefill", token=token, past=0)["logits"]

                logits = run().astype(np.float64).ravel()
                first = logits if first is None else first
                cosine = first @ logits / np.linalg.norm(first) / np.linalg.norm(logits)
                records[way] = {"cosine": float(cosine), "host_ms": round(median_ms(run), 4)}
        for _ in range(options.turns):
            for way, program in concrete.items():
                device.execute(program, inputs)
                times = device.times(program, 9, 0.1)
                device.drop(program)
                total = round(sum(measured.median for measured in times) / 1e6, 4)
                records[way].setdefault("device_ms", []).append(total)
                records[way]["kernels"] = kinds_ms(program, times)
    return records


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--without", action="append", default=[], help="a pass; may be repeated")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes that lower kernels")
    options = parser.parse_args(arguments)
    shapes = replace(LLAMA_3_8B, blocks=options.blocks, vocabulary=512)
    if options.small:
        shapes, options.prompt = TINY, min(options.prompt, 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gguf")
        write_model(path, shapes, Type.Q4_1, options.prompt + 1)
        ways = compiled(options, path)
    records = measure(options, ways, shapes.vocabulary)
    print(json.dumps(records, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps(records, indent=1) + "\n")
    return 0 if all(record["cosine"] > COSINE for record in records.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
