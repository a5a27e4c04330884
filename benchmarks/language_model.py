"""
Times a llama with random weights in Q4 on a Vulkan device, and PyTorch in f16 under CUDA graphs.

    python benchmarks/language_model.py --shapes llama-3-8b -o benchmarks/results/h200-llama.json

The model is written as a GGUF file (random blocks of `--format`, drawn once and repeated) and
compiled. A session decodes one token after `--past` others, and reads a prompt of `--prompt`
tokens. Times are medians after 150 ms of warm-up. No cache holds the weights, and a run reads each
weight once.

- `run_ms`: device time between two timestamps (PyTorch: CUDA events) around a run. If it is longer
  than the run on the host's clock, other processes disturbed it, and its name is
  `disturbed_run_ms`; `load` is the host's load.
- `device_ms`: sum of the dispatches, each timed separately.
- `host_ms`: wall-clock time of `session.run`.
- `following_ms`: wall-clock time of runs that each decode the next token.
- `floor_ms`: time to read the packed weights and the f16 keys and values at the bandwidth of a
  copy (bytes read and written) in the same process.
- `check`: compares the logits after a prompt, and after a decoded token, with logits that numpy
  and PyTorch compute in f32 from the same blocks.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from device_runs import CUDA, WARM_UP, parser_of, torch
from llama_peer import SHAPES, Shapes, copy_bandwidth, peer_ms
from llama_reference import Reference, compared
from run_times import record_run

from xdsl_spirv.compiler import compile as compile_model
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.sessions import VulkanSession

Type = gguf.GGMLQuantizationType
FORMATS = {name: Type[name] for name in ("Q4_0", "Q4_1", "Q8_0", "MXFP4")}
RUNS = 25
FOLLOWING = 512
"""Maximum number of tokens decoded in sequence."""
CHECKED = 33
"""Number of tokens of the compared prompt."""
COSINE = 0.999
"""Minimum cosine similarity to the reference's logits. Products of prompts use f16."""
REPEATED = 1 << 20
"""Number of distinct random blocks. Larger tensors repeat them."""


def drawn_blocks(type: Type, count: int, deviation: float) -> Any:
    """Returns at most `REPEATED` random blocks whose weights have about the given deviation."""
    draw = np.random.default_rng(1)
    _, size = gguf.GGML_QUANT_SIZES[type]
    drawn = min(count, REPEATED)
    blocks = draw.integers(0, 256, (drawn, size), np.uint8)
    if type is Type.MXFP4:
        blocks[:, 0] = round(127 + math.log2(deviation / 2.9))
        return blocks
    scale = deviation / {Type.Q4_0: 4.6, Type.Q4_1: 4.6, Type.Q8_0: 74}[type]
    blocks[:, 0:2] = (draw.uniform(0.8, 1.2, (drawn, 1)) * scale).astype("<f2").view(np.uint8)
    if type is Type.Q4_1:
        blocks[:, 2:4] = np.full((drawn, 1), -7.5 * scale, "<f2").view(np.uint8)
    return blocks


def blocks_of(type: Type, count: int, deviation: float) -> Any:
    """Returns the bytes of a tensor of `count` repeated random blocks."""
    blocks = drawn_blocks(type, count, deviation)
    return np.resize(blocks, (count, blocks.shape[1]))


def write_model(path: Path, shapes: Shapes, type: Type, context: int) -> None:
    """Writes a GGUF file of a llama with random weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(shapes.vocabulary)
    writer.add_block_count(shapes.blocks)
    writer.add_context_length(context)
    writer.add_embedding_length(shapes.width)
    writer.add_feed_forward_length(shapes.hidden)
    writer.add_head_count(shapes.heads)
    writer.add_head_count_kv(shapes.kv_heads)
    writer.add_rope_dimension_count(shapes.head)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    elements, size = gguf.GGML_QUANT_SIZES[type]

    def matrix(name: str, rows: int, columns: int) -> None:
        blocks = blocks_of(type, rows * columns // elements, columns**-0.5)
        data = blocks.reshape(rows, columns // elements * size)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=type)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(shapes.width, np.float32))

    queries, keys = shapes.heads * shapes.head, shapes.kv_heads * shapes.head
    matrix("token_embd", shapes.vocabulary, shapes.width)
    matrix("output", shapes.vocabulary, shapes.width)
    norm("output_norm")
    for number in range(shapes.blocks):
        block = f"blk.{number}"
        norm(f"{block}.attn_norm")
        norm(f"{block}.ffn_norm")
        for name, rows, columns in (
            ("attn_q", queries, shapes.width),
            ("attn_k", keys, shapes.width),
            ("attn_v", keys, shapes.width),
            ("attn_output", shapes.width, queries),
            ("ffn_gate", shapes.hidden, shapes.width),
            ("ffn_up", shapes.hidden, shapes.width),
            ("ffn_down", shapes.width, shapes.hidden),
        ):
            matrix(f"{block}.{name}", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def median_ms(run: Callable[[], Any]) -> float:
    """Returns the median wall-clock milliseconds of a call."""
    end = time.monotonic() + WARM_UP
    while time.monotonic() < end:
        run()
    times: list[float] = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def kinds_ms(layers: Sequence[Any], times: Sequence[Any]) -> dict[str, float]:
    """Returns the 16 longest total times in milliseconds, by lowering path and kernel."""
    total: dict[str, float] = {}
    for layer, measured in zip(layers, times, strict=True):
        name = f"{layer.path} {layer.entry_point}"
        total[name] = total.get(name, 0.0) + measured.median / 1e6
    longest = sorted(total.items(), key=lambda item: -item[1])
    return {name: round(ms, 4) for name, ms in longest[:16]}


def time_function(
    device: Any, session: Any, program: Program, function: str, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    logits = session.run(function, **inputs)["logits"]
    record: dict[str, Any] = {"finite": bool(np.isfinite(logits).all())}
    record["host_ms"] = round(median_ms(lambda: session.run(function, **inputs)), 4)
    chosen = lambda: session.run(function, inputs, outputs=("likeliest", "highest"))  # noqa: E731
    record["token_ms"] = round(median_ms(chosen), 4)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    concrete = program.function(function).at(arrays)
    device.execute(concrete, arrays)
    runs = device.times_of_runs(concrete, 1, RUNS, WARM_UP)
    record |= record_run(statistics.median(runs) / 1e6, record["token_ms"])
    measured = device.times(concrete, RUNS, WARM_UP)
    device.drop(concrete)
    # Dispatches that pack weights run only once.
    again = [number for number, d in enumerate(concrete.manifest.dispatches) if not d.once]
    times, layers = [measured[n] for n in again], [concrete.layers[n] for n in again]
    record["device_ms"] = round(sum(time.median for time in times) / 1e6, 4)
    record["dispatches"] = len(times)
    record["kernels"] = kinds_ms(layers, times)
    return record


def step(
    device: Any, session: Any, program: Program, function: str, tokens: int, past: int
) -> dict[str, Any]:
    draw = np.random.default_rng(2)
    vocabulary = program.function(function).manifest.outputs[0].shape[-1]
    token = draw.integers(0, vocabulary, tokens).astype(np.int32)
    record = time_function(device, session, program, function, {"token": token, "past": past})
    if tokens == 1:
        pasts = itertools.cycle(range(max(0, past - FOLLOWING), past))
        following = median_ms(lambda: session.run(function, token=token, past=next(pasts)))
        record["following_ms"] = round(following, 4)
    return record


def checked(session: Any, shapes: Shapes, type: Type) -> dict[str, Any]:
    """Compares logits after a prompt and after a decoded token with the f32 reference."""
    draw = np.random.default_rng(3)
    tokens = draw.integers(0, shapes.vocabulary, CHECKED + 1).astype(np.int32)
    session.reset()
    read = session.run("prefill", token=tokens[:-1], past=0)["logits"]
    decoded = session.run("decode", token=tokens[-1:], past=CHECKED)["logits"]
    reference = Reference(shapes, type, cache(drawn_blocks))
    return {
        "prefill": compared(read, reference.logits(tokens[:-1])),
        "decode": compared(decoded, reference.logits(tokens)),
    }


def measure(options: Any) -> dict[str, Any]:
    shapes, type = SHAPES[options.shapes], FORMATS[options.format]
    context = max(options.past + 1, options.prompt)
    record: dict[str, Any] = {"shapes": options.shapes, "format": options.format}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder, "model.gguf")
        begin = time.perf_counter()
        write_model(path, shapes, type, context)
        record["write_s"] = round(time.perf_counter() - begin, 1)
        begin = time.perf_counter()
        program = compile_model(path, options.target, context=context, jobs=options.jobs)
        record["compile_s"] = round(time.perf_counter() - begin, 1)
    begin = time.perf_counter()
    with open_device(options.device) as device, VulkanSession(program, device) as session:
        record["load_s"] = round(time.perf_counter() - begin, 1)
        record["check"] = checked(session, shapes, type)
        record["prefill"] = step(device, session, program, "prefill", options.prompt, 0)
        record["decode"] = step(device, session, program, "decode", 1, options.past)
    elements, size = gguf.GGML_QUANT_SIZES[type]
    record["bytes"] = shapes.weights // elements * size + 2 * shapes.cached(options.past)
    if CUDA:
        bandwidth = copy_bandwidth()
        record["copy_TB_s"] = round(bandwidth, 3)
        record["floor_ms"] = round(record["bytes"] / bandwidth / 1e9, 4)
    if CUDA and not options.no_peer:
        record["torch_decode_ms"] = peer_ms(shapes, 1, options.past)
        record["torch_prefill_ms"] = peer_ms(shapes, options.prompt, 0)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--shapes", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--format", choices=FORMATS, default="Q4_1")
    parser.add_argument("--past", type=int, default=1024)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--jobs", type=int, default=1, help="processes that lower kernels")
    parser.add_argument("--scratch", help="where the model is written; it takes 0.6 bytes a weight")
    parser.add_argument("--no-peer", action="store_true", help="leave out PyTorch's model")
    options = parser.parse_args(arguments)
    record = measure(options)
    record |= {
        "date": datetime.date.today().isoformat(),
        "target": options.target,
        "torch": getattr(torch, "__version__", None),
    }
    print(json.dumps(record, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    right = all(comparison["cosine"] > COSINE for comparison in record["check"].values())
    return 0 if right and record["prefill"]["finite"] and record["decode"]["finite"] else 1


if __name__ == "__main__":
    sys.exit(main())
