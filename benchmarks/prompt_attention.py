"""
Times schedules of attention for a prompt with cached keys, and PyTorch's attention.

    python benchmarks/prompt_attention.py --target nvidia-h200 -o h200-prompt-attention.json
    .lavapipe/run python benchmarks/prompt_attention.py --target lavapipe --small

There are 32 heads of size 128 in f16, and 8 heads of keys and values in a state. The numbers of
rows and of cached keys are dynamic. The mask is causal. At each size the default and every
schedule of `--schedules` (JSON: ["#schedule.attention<...>", ...]) run in turns. `turns_us` are
median GPU times of the attention kernel plus the kernels that pack its operands. `torch_us` is the
time of PyTorch's `scaled_dot_product_attention` in a CUDA graph of ten. Each result is compared
with the formula in binary64. A wrong result ends the run.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, graph_us, parser_of, torch
from xdsl.parser import Parser

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.passes.schedule import attention_choice
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.vulkan import open_isolated
from xdsl_spirv.testing.attention_states import StateAttention

TOLERANCE = 4e-3
"""Absolute tolerance of an element: probabilities are rounded to f16, values are near 1."""

FILLED = 0.5
"""Contents of the cached keys and values."""

CASE = StateAttention(8, 4, 128, 4096, None, filled=FILLED)
SMALL = StateAttention(2, 2, 16, 256, None, filled=FILLED)

SIZES = [(512, 0), (2048, 0), (64, 1024), (128, 0), (512, 1024)]
"""Measured sizes: (number of rows, number of cached keys before the rows)."""

SMALL_SIZES = [(40, 0), (9, 30)]

IN_GRAPH = 10
TURNS = 3


def compiled(case: StateAttention, target: str, schedule: str | None) -> Any:
    kept = attention_choice.choose_matrices
    try:
        if schedule is not None:
            given: Any = Parser(context(), schedule).parse_attribute()
            attention_choice.choose_matrices = lambda op, target: given
        return compile_module(parse_text(case.text()), target)
    finally:
        attention_choice.choose_matrices = kept


class Data:
    """Inputs, results and PyTorch's time at one size."""

    def __init__(self, case: StateAttention, rows: int, past: int):
        generator = np.random.default_rng(1)
        self.inputs = case.inputs(generator, rows) | {"past": np.array(past)}
        old = np.full((case.heads, past, case.head), case.filled, np.float16)
        q, k, v = (self.inputs[name] for name in ("q", "new_k", "new_v"))
        self.arrays = q, np.concatenate([old, k], 1), np.concatenate([old, v], 1)
        self.case, self.past = case, past
        if not CUDA:
            self.expected = case.expected(*self.arrays, past)
            return
        q, k, v = (torch.from_numpy(x).cuda().double() for x in self.arrays)
        scores = torch.einsum("hgmd,hnd->hgmn", q, k) * case.scale
        hidden = torch.ones(rows, rows + past, dtype=torch.bool, device="cuda").triu(past + 1)
        weights = torch.softmax(scores.masked_fill(hidden, -float("inf")), -1)
        self.expected = torch.einsum("hgmn,hnd->hgmd", weights, v).cpu().numpy()

    def torch_us(self) -> float:
        q, k, v = (torch.from_numpy(x).cuda() for x in self.arrays)
        q = q.reshape(1, -1, *q.shape[2:])
        k, v = k[None], v[None]
        given: dict[str, Any] = {"is_causal": True, "enable_gqa": True}
        if self.past:
            k, v = (x.repeat_interleave(self.case.queries, 1) for x in (k, v))
            bias = import_module("torch.nn.attention.bias")
            given = {"attn_mask": bias.causal_lower_right(q.shape[2], k.shape[2])}
        attend = torch.nn.functional.scaled_dot_product_attention

        def run() -> None:
            for _ in range(IN_GRAPH):
                attend(q, k, v, **given)

        return graph_us(run) / IN_GRAPH


def timed(device: Any, program: Any, data: Data) -> float:
    """Returns the microseconds of attention and packing. Raises `ValueError` for wrong results."""
    result, *_ = device.execute(program, data.inputs).values()
    error = float(np.abs(result - data.expected).max())
    if not error < TOLERANCE:
        raise ValueError(f"the error of an element is {error}, above the tolerance {TOLERANCE}")
    concrete = program.at(data.inputs)
    times = device.times(concrete, 15, WARM_UP / 2)
    names = [dispatch.entry_point for dispatch in concrete.manifest.dispatches]
    own = [t for name, t in zip(names, times, strict=True) if name.startswith(("att", "pack"))]
    return round(sum(time.median for time in own) / 1e3, 2)


def measured(device: Any, programs: list[Any], data: Data, seconds: float) -> list[dict[str, Any]]:
    """Returns the times of all programs, which run in turns for at most `seconds`."""
    records = [{"turns_us": []} for _ in programs]
    begin = time.monotonic()
    for _ in range(TURNS):
        for program, record in zip(programs, records, strict=True):
            if time.monotonic() - begin < seconds:
                record["turns_us"].append(timed(device, program, data))
    for program in programs:
        device.drop(program.at(data.inputs))
    return records


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--schedules", type=Path, help="a file of schedules to measure too")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    case, sizes = (SMALL, SMALL_SIZES) if options.small else (CASE, SIZES)
    schedules: list[str | None] = [None]
    if options.schedules is not None:
        schedules += json.loads(options.schedules.read_text())
    programs = [compiled(case, options.target, schedule) for schedule in schedules]
    used = [next(la.schedule for la in p.layers if la.path == "attention") for p in programs]
    records: list[dict[str, Any]] = []
    with open_isolated(options.device) as device:
        for rows, past in sizes:
            left = options.seconds - (time.monotonic() - begin)
            if left < 0:
                break
            data = Data(case, rows, past)
            for schedule, record in zip(used, measured(device, programs, data, left), strict=True):
                known = {"rows": rows, "past": past, "schedule": schedule}
                records.append(known | record)
                print(json.dumps(records[-1]), flush=True)
            if CUDA:
                us = round(data.torch_us(), 2)
                records.append({"rows": rows, "past": past, "torch_us": us})
                print(json.dumps(records[-1]), flush=True)
            if options.output is not None:
                document = {"what": "attention of a prompt", "target": options.target}
                document |= {"date": datetime.date.today().isoformat(), "records": records}
                options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
