"""
Times fused attention on a Vulkan device, and PyTorch's attention on the same device.

    python benchmarks/attention.py --target nvidia-h200 -o benchmarks/results/h200-attention.json

Each case is compiled with the default schedule and with every schedule of `--schedules`. Inputs
are random. Results are compared with the formula, evaluated in binary64, or in binary32 on
PyTorch's device. The bound for the difference is that of docs/numerics.md for the fused kernel:
scores in f32, probabilities rounded to 16 bits, sums in f32.

The device warms up for 150 ms. Each time is the median of single runs by GPU timestamps. `ms` is
the time of the attention, `pack_ms` the time to pack queries, keys and values into fragments.
`tflops` counts the attention only, `tflops_with_packing` also the packing. The operations of a
causal case are counted as if no mask were applied, which is twice the work done. PyTorch runs
`scaled_dot_product_attention` in a CUDA graph, timed by CUDA events.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, Job, parser_of, run_jobs, torch, torch_median
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionOp
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.testing.attention_workloads import AttentionWorkload

U = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23}
"""The largest relative error of rounding or truncating to 16 bits."""


IN_GRAPH = 10
"""Number of kernels in a CUDA graph. They share the launch time of the graph."""


def name_of(case: AttentionWorkload) -> str:
    sizes = f"{case.batch}x{case.heads}x{case.m}x{case.n} head {case.d}"
    mask = "" if case.mask == "none" else f" {case.mask}"
    return f"attention {sizes} {case.type}{mask}"


def cases() -> list[AttentionWorkload]:
    workloads: list[AttentionWorkload] = []
    for type in ("f16", "bf16"):
        for head in (64, 128):
            plain = AttentionWorkload(4, 16, 2048, 2048, head, head, type, out=type)
            workloads += [plain, replace(plain, mask="causal")]
    odd = AttentionWorkload(4, 16, 2000, 2039, 64, 64)
    prompt = AttentionWorkload(1, 32, 512, 512, 128, 128, mask="causal")
    encoder = AttentionWorkload(32, 12, 128, 128, 32, 32, mask="keys")
    workloads += [AttentionWorkload(4, 16, 2048, 2048, head, head) for head in (192, 256)]
    text = AttentionWorkload(2, 20, 1024, 77, 64, 64)
    return [*workloads, odd, prompt, encoder, text, AttentionWorkload(1, 12, 256, 256, 64, 64)]


def small() -> list[AttentionWorkload]:
    plain = AttentionWorkload(1, 2, 64, 64, 16, 16)
    return [plain, replace(plain, mask="causal"), replace(plain, m=50, n=45, mask="scores")]


def compiled(case: AttentionWorkload, target: str, schedule: str | None) -> Any:
    ctx: Context = context()
    module = parse_text(case.text(), name_of(case), ctx)
    passes = Universe.get_multiverse().all_passes
    spec = f"linalg-to-contraction,form-attention{{target={target}}}"
    PassPipeline.parse_spec(passes, spec).apply(ctx, module)
    attentions = [op for op in module.walk() if isinstance(op, AttentionOp)]
    if len(attentions) != 1:
        raise ValueError(f"the module has {len(attentions)} attentions, not 1")
    if schedule is not None:
        attentions[0].attributes[SCHEDULE] = Parser(ctx, schedule).parse_attribute()
    return compile_module(module, target)


def reference(case: AttentionWorkload, inputs: dict[str, Any]) -> tuple[Any, Any, float]:
    """Returns the result, the result for |v| in place of v, and the largest error of a score."""
    if CUDA:
        torch.backends.cuda.matmul.allow_tf32 = False
        wide = {name: torch.from_numpy(x.astype(np.float32)).cuda() for name, x in inputs.items()}
        module: Any = torch
    else:
        wide = {name: x.astype(np.float64) for name, x in inputs.items()}
        module = np
    q, k, v = wide["q"], wide["k"], wide["v"]
    exact: list[Any] = []
    absolute: list[Any] = []
    for batch in range(case.batch):
        scores = module.matmul(q[batch], k[batch].swapaxes(1, 2)) * case.scale
        if "mask" in wide:
            scores = scores + wide["mask"][batch]
        if case.mask == "causal":
            ones = module.ones((case.m, case.n), dtype=bool)
            hidden = module.triu(ones, case.causal_offset + 1)
            if CUDA:
                scores = scores.masked_fill(hidden.cuda(), -float("inf"))
            else:
                scores = np.where(hidden, -np.inf, scores)
        p = _softmax(scores)
        exact.append(_numpy(module.matmul(p, v[batch])))
        absolute.append(_numpy(module.matmul(p, abs(v[batch]))))
    longest = [float(_numpy((x * x).sum(-1)).max()) ** 0.5 for x in (q, k)]
    error = (case.d + 2) * U["f32"] * case.scale * longest[0] * longest[1]
    return np.stack(exact), np.stack(absolute), error


def _softmax(scores: Any) -> Any:
    if CUDA:
        return torch.softmax(scores, -1)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _numpy(value: Any) -> Any:
    return value.double().cpu().numpy() if CUDA else value


def within(case: AttentionWorkload, result: Any, inputs: dict[str, Any]) -> tuple[bool, float]:
    """Returns True if all elements are within the bound, and the largest error / bound."""
    exact, absolute, off = reference(case, inputs)
    relative = np.expm1(2 * off) + U[case.type] + 2 * (case.n + 16) * U["f32"]
    if CUDA:
        relative += np.expm1(2 * off) + 2 * (case.n + 16) * U["f32"]
    allowed = relative * absolute + U[case.out] * np.abs(exact) + 2.0**-24
    error = np.abs(result.astype(np.float64) - exact)
    same = np.isnan(result) & np.isnan(exact)
    share = np.where(same, 0.0, error / allowed)
    worst = float(np.where(np.isnan(share), np.inf, share).max())
    return worst <= 1.0, worst


def torch_ms(case: AttentionWorkload, inputs: dict[str, Any]) -> float | None:
    if not CUDA:
        return None
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[case.type]
    q, k, v, *mask = (
        torch.from_numpy(x.astype(np.float32)).cuda().to(kind) for x in inputs.values()
    )
    given = {"attn_mask": mask[0]} if mask else {"is_causal": case.mask == "causal"}

    def run() -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, scale=case.scale, **given)

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            run()
    return torch_median(torch, graph.replay) / IN_GRAPH


def measure(
    device: Any, case: AttentionWorkload, target: str, schedule: str | None, inputs: Any
) -> dict[str, Any]:
    record: dict[str, Any] = {"case": name_of(case), "schedule": schedule or "default"}
    try:
        begin = time.perf_counter()
        program = compiled(case, target, schedule)
        record["compile_s"] = round(time.perf_counter() - begin, 3)
        (result,) = device.execute(program, inputs).values()
        record["ok"], share = within(case, result, inputs)
        record["share_of_bound"] = round(share, 4)
        *packs, last = device.times(program, 15, WARM_UP)
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    pack = sum(timing.median for timing in packs)
    record["pack_ms"] = round(pack / 1e6, 5)
    record["ms"] = round(last.median / 1e6, 5)
    record["best_ms"] = round(min(last.nanoseconds) / 1e6, 5)
    record["tflops"] = round(case.flops / last.median / 1e3, 2)
    record["tflops_with_packing"] = round(case.flops / (last.median + pack) / 1e3, 2)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--schedules", type=Path, help='JSON: ["#schedule.attention<...>", ...]')
    options = parser.parse_args(arguments)
    schedules: list[str | None] = [None]
    if options.schedules:
        schedules += json.loads(options.schedules.read_text())
    chosen = [
        case for case in (small if options.small else cases)() if options.only in name_of(case)
    ]

    def jobs() -> Iterator[Job]:
        for case in chosen:
            inputs = case.inputs(np.random.default_rng(1))
            yield Job(
                lambda device, schedule, case=case, inputs=inputs: measure(
                    device, case, options.target, schedule, inputs
                ),
                lambda case=case, inputs=inputs: torch_ms(case, inputs),
                case.flops,
                schedules,
            )

    return run_jobs(options, jobs(), (__doc__ or "").strip().splitlines()[0], torch)


if __name__ == "__main__":
    sys.exit(main())
