"""
Times attention of one query over many cached keys on a Vulkan device, and a copy.

    python benchmarks/decode_attention.py --target nvidia-h200 -o h200-decode.json
    .lavapipe/run python benchmarks/decode_attention.py --target lavapipe --small

Keys and values are f16. Their length is dynamic: the kernels are compiled once for all lengths. To
read keys and values from memory and not from a cache, a sum over a large buffer follows each
attention. (A copy in place of the sum would leave modified cache lines. Writing them back during
the attention cost 3 to 5 us on an H200.)

`us` is the GPU time of the attention's kernels, including the merge. `share` is the bytes of keys
and values per second relative to the highest bandwidth of our copy kernel, PyTorch's copy (bytes
read and written) and the sums. `torch_us` is the time of PyTorch's `scaled_dot_product_attention`
in a CUDA graph with the same sums. `--parts` and `--lanes` add schedules to the default. Results
are compared with numpy in binary64.
"""

from __future__ import annotations

import json
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, parser_of, torch, torch_median
from few_rows import copied, copied_by_torch

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import AttentionLanesAttr
from xdsl_spirv.passes.schedule import attention_choice, attention_replacing
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan import open_isolated
from xdsl_spirv.testing.attention_states import StateAttention

TOLERANCE = 1e-3
"""Absolute tolerance of an element. Probabilities stay in f32, and values are near 1."""

CASES = (
    (StateAttention(8, 4, 128, 0), 8192),
    (StateAttention(8, 4, 128, 0), 1024),
    (StateAttention(3, 3, 64, 0), 2048),
    (StateAttention(3, 3, 64, 0), 1024),
    (StateAttention(32, 1, 128, 0), 8192),
)

SMALL = ((StateAttention(2, 4, 64, 0), 300), (StateAttention(1, 1, 40, 0), 77))

Schedule = tuple[int | None, tuple[int, int, int, int] | None]
"""Number of parts, and (rows, lanes, keys, subgroups). None means the default."""


def schedules(options: Any) -> list[Schedule]:
    """Returns the schedules for `--parts` and `--lanes`, the default first."""
    parts = [None, *(int(n) for n in options.parts.split(",") if n)]
    lanes: list[Any] = [None]
    for text in options.lanes.split(","):
        numbers = tuple(int(n) for n in text.split("x") if n)
        lanes += [numbers] if len(numbers) == 4 else []
    return [(p, n) for n in lanes for p in parts]


def compiled(case: StateAttention, target: str, stream: tuple[int, int], schedule: Schedule) -> Any:
    """
    Returns the program of a case, with a number of key parts and a division among lanes
    (`schedule`).

    `stream` is the shape of the buffer that is summed after each attention.
    """
    parts, numbers = schedule
    kept = attention_replacing.parts_for, attention_choice.choose_lanes
    text = case.text(stream=stream)
    try:
        if parts is not None:
            attention_replacing.parts_for = lambda plan, most: parts
        if numbers is not None:
            given = AttentionLanesAttr(*numbers, "keys")
            attention_choice.choose_lanes = lambda op, target: given
        return compile_module(parse_text(text), target)
    finally:
        attention_replacing.parts_for, attention_choice.choose_lanes = kept


def inputs_of(case: StateAttention, keys: int, stream: tuple[int, int]) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    shapes = {
        "q": (case.heads, case.queries, 1, case.head),
        "ks": (case.heads, keys, case.head),
        "vs": (case.heads, keys, case.head),
    }
    arrays = {n: generator.standard_normal(s).astype(np.float16) for n, s in shapes.items()}
    return arrays | {"x": np.ones(stream, np.float32)}


def torch_us(case: StateAttention, arrays: dict[str, Any]) -> float | None:
    """Returns PyTorch's time in a CUDA graph minus the sums' time, or None without PyTorch."""
    if not CUDA:
        return None
    q, k, v, x = (torch.from_numpy(a).cuda() for a in arrays.values())
    q = q.reshape(1, case.heads * case.queries, 1, case.head)
    k, v = k[None], v[None]
    attend = torch.nn.functional.scaled_dot_product_attention

    def timed(attends: bool) -> float:
        def step() -> None:
            if attends:
                attend(q, k, v, enable_gqa=True)
            torch.sum(x, 1)

        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return torch_median(torch, graph.replay) * 1e3

    return timed(True) - timed(False)


def measure(
    device: Any, case: StateAttention, keys: int, options: Any, schedule: Schedule, copy: float
) -> dict[str, Any]:
    record: dict[str, Any] = {"case": f"{case.heads}x{case.queries} heads of {case.head}, {keys}"}
    stream = (16 if options.small else 4096, 1 << 14)
    arrays = inputs_of(case, keys, stream)
    try:
        begin = time.perf_counter()
        program = compiled(case, options.target, stream, schedule)
        record["compile_s"] = round(time.perf_counter() - begin, 3)
        record["kernels"] = [d.entry_point for d in program.manifest.dispatches]
        record["schedule"] = [layer.schedule for layer in program.layers if layer.schedule][:1]
        names = [buffer.name for buffer in program.manifest.inputs]
        given = dict(zip(names, arrays.values(), strict=True))
        result, _ = device.execute(program, given).values()
        expected = case.expected(arrays["q"], arrays["ks"], arrays["vs"], keys - 1)
        record["error"] = float(np.abs(result - expected).max())
        record["ok"] = record["error"] < TOLERANCE
        times = device.times(program.at(given), 25, WARM_UP)
    except Exception as error:
        record["failed"] = f"{type(error).__name__}: {error}"[:300]
        return record
    named = list(zip(record["kernels"], (t.median for t in times), strict=True))
    own, streamed = sum(t for _, t in named[:-1]), named[-1][1]
    moved = 2 * 2 * case.heads * keys * case.head
    copy = max(copy, 4 * prod(stream) / streamed * 1e9)
    record["us"] = [round(t / 1e3, 2) for _, t in named[:-1]]
    record["gigabytes_a_second"] = round(moved / own, 1)
    record["copy_gigabytes_a_second"] = round(copy / 1e9, 1)
    record["share"] = round(moved / own * 1e9 / copy, 3)
    if schedule == (None, None) and (peer := torch_us(case, arrays)) is not None:
        record["torch_us"] = round(peer, 2)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--parts", default="", help="numbers of parts to measure too: 16,64")
    parser.add_argument("--lanes", default="", help="ROWSxLANESxKEYSxSUBGROUPS,... to measure too")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    device: Any = open_isolated(options.device)
    copy = max(copied(device, options.target, options.small), copied_by_torch())
    records: list[dict[str, Any]] = []
    for case, keys in SMALL if options.small else CASES:
        for schedule in schedules(options):
            if time.monotonic() - begin > options.seconds:
                break
            record = measure(device, case, keys, options, schedule, copy)
            record["asked"] = schedule
            records.append(record)
            print(json.dumps(record), flush=True)
            if "failed" in record:
                device.close()
                device = open_isolated(options.device)
    if options.output is not None:
        document = {"what": "decode attention", "target": options.target, "records": records}
        Path(options.output).write_text(json.dumps(document, indent=1))
    device.close()
    return 0 if all(record.get("ok") for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
