# pyright: basic
"""
Times a product and an attention written in Triton on a Vulkan device, and the built-in kernels.

    python benchmarks/triton_kernels.py --device vulkan [--size 4096] [--heads 16] [-o RESULT.json]

Each Triton kernel is compiled twice: as a launch compiles it, and tile by tile with a given grid
of subgroups. If PyTorch finds a GPU, Triton's own compiler also runs the source in a CUDA graph.
Figures are medians of device times of interleaved runs. Results are compared with numpy's first.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys

import numpy as np
import triton
import triton.language as tl
import workloads
from tiles import ROWS, Launch, attention_case, built_in, matmul_case, medians

import xdsl_spirv as xs
from xdsl_spirv.kernels.tile_launch import RaisedProgram, lower_program
from xdsl_spirv.runtime.vulkan.own_target import own_target
from xdsl_spirv.targets import load
from xdsl_spirv.testing.attention_workloads import AttentionWorkload


@triton.jit
def matmul(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Computes f16 x f16 -> f32 with tiles in groups of rows. Sizes are multiples of tiles."""
    pid = tl.program_id(0)
    group = GROUP * (N // BN)
    pid_m = pid // group * GROUP + pid % GROUP
    pid_n = pid % group // GROUP
    rm, rn, rk = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa, pb = a + rm[:, None] * K + rk[None, :], b + rk[:, None] * N + rn[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K // BK):
        total = tl.dot(tl.load(pa), tl.load(pb), total)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], total)


@triton.jit
def attention(q, k, v, o, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Computes f16 attention. Each head has a row of programs. Sizes are multiples of tiles."""
    head = tl.program_id(1) * n * D
    rm, rd = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    place = head + rm[:, None] * D + rd[None, :]
    x = tl.load(q + place)
    top, total = tl.full((BM,), -1e30, tl.float32), tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        there = head + (start + tl.arange(0, BN))[:, None] * D + rd[None, :]
        s = tl.dot(x, tl.trans(tl.load(k + there))) * (D**-0.5 * 1.4426950408889634)
        new = tl.maximum(top, tl.max(s, 1))
        lost, p = tl.exp2(top - new), tl.exp2(s - new[:, None])
        total = total * lost + tl.sum(p, 1)
        result = tl.dot(p.to(tl.float16), tl.load(v + there), result * lost[:, None])
        top = new
    tl.store(o + place, (result / total[:, None]).to(tl.float16))


POINTERS = {
    "matmul": dict(a="*fp16", b="*fp16", c="*fp32", M="i32", N="i32", K="i32"),
    "attention": dict(q="*fp16", k="*fp16", v="*fp16", o="*fp16", n="i32"),
}
TILES = {
    "matmul": [
        dict(BM=128, BN=128, BK=32, GROUP=8),
        dict(BM=128, BN=256, BK=64, GROUP=8),
        dict(BM=64, BN=64, BK=32, GROUP=8),
    ],
    "attention": [dict(BM=128, BN=64, D=64), dict(BM=64, BN=32, D=64)],
}


SMALL = {"matmul": [dict(BM=16, BN=16, BK=16, GROUP=2)], "attention": [dict(BM=16, BN=16, D=64)]}


def from_triton(name, kernel, sizes, numbers, grid, target, tiles, subgroups) -> Launch:
    """
    Compiles the kernel `name` for a target with static sizes, tile by tile on a grid of subgroups
    if `subgroups` is given.
    """
    made = xs.from_triton(kernel, **POINTERS[name], **tiles)
    names = [n for n, t in POINTERS[name].items() if "*" in t]
    shapes = {n: (size,) for n, size in zip(names, sizes, strict=True)}
    traced = made.trace(numbers, shapes)
    places = dict(grid=grid, numbers=numbers)
    lowered = lower_program(traced, target, subgroups=subgroups, **places)
    if isinstance(lowered, RaisedProgram):
        return Launch(lowered.work, "result0", "raised")
    bytes_of = {n: np.zeros(size * (4 if POINTERS[name][p] == "*fp32" else 2), np.uint8)
                for n, (p, size) in enumerate(zip(names, sizes, strict=True))}  # fmt: skip
    order = [argument.name_hint for argument in lowered.program.body.block.args]
    pushed = np.array([numbers[order[n]] for n, _ in lowered.pushed], np.uint32).tobytes()
    return Launch(lowered.work(bytes_of, pushed, grid), f"b{len(names) - 1}", "tile by tile")


def in_cuda(kernel, arrays, result, numbers, grid, tiles, runs) -> tuple[float, np.ndarray]:
    """Returns the microseconds of Triton's own kernel in a CUDA graph, and its result."""
    import torch

    given = [torch.from_numpy(x).cuda() for x in arrays]
    out = torch.zeros(result[0], dtype=result[1], device="cuda")

    def launch():
        kernel[grid](*given, out, *numbers.values(), **tiles)

    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    times = []
    for number in range(runs + 20):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        torch.cuda.synchronize()
        times += [a.elapsed_time(b) * 1000] * (number >= 20)
    return statistics.median(times), out.cpu().numpy()


def main() -> None:
    """Prints a line for each kernel and tile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--target", default="")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("-o", "--output")
    asked = parser.parse_args()
    target, size, heads = asked.target or own_target(asked.device), asked.size, asked.heads
    square, rows = size * size, heads * size * 64
    kernels = {
        "matmul": (
            matmul, [square] * 3, dict(M=size, N=size, K=size), workloads.matmul(size),
            matmul_case(size), lambda t: (size // t["BM"] * (size // t["BN"]), 1, 1),
        ),
        "attention": (
            attention, [rows] * 4, dict(n=size),
            AttentionWorkload(1, heads, size, size, 64, 64).text(),
            attention_case(heads, size), lambda t: (size // t["BM"], heads, 1),
        ),
    }  # fmt: skip
    try:
        import torch

        cuda = torch.cuda.is_available()
    except ImportError:
        cuda = False
    small = load(target).processor
    choices = SMALL if small else TILES
    records, wrong = [], False
    for name, (kernel, sizes, numbers, text, (given, check), grid) in kernels.items():
        launches = {"built-in": built_in(text, target)}
        for tiles in choices[name]:
            for subgroups in ((),) if small else ((), (4, 2) if name == "matmul" else (4, 1)):
                label = f"{tiles} {subgroups or ''}"
                try:
                    launches[label] = from_triton(
                        name, kernel, sizes, numbers, grid(tiles), target, tiles, subgroups
                    )
                except Exception as error:
                    print(f"{name} {label}: {str(error)[:200]}", flush=True)
        found, errors = medians(launches, given, check, asked.device, asked.runs)
        for label, time in found.items():
            records.append(dict(kernel=name, size=size, way=label, us=time, error=errors[label]))
        for tiles in choices[name] if cuda else ():
            shape = ((size, size), torch.float32)
            if name == "attention":
                shape = ((heads, size, 64), torch.float16)
            time, out = in_cuda(kernel, given, shape, numbers, grid(tiles), tiles, asked.runs)
            way, error = f"Triton's CUDA {tiles}", check(out.tobytes())
            records.append(dict(kernel=name, size=size, way=way, us=time, error=error))
        for record in records:
            if record["kernel"] == name:
                part = found["built-in"] / record["us"]
                print(f"{name} {size} {record['way']}: {record['us']:.1f} us, {part:.2f} of the "
                      f"built-in, error {record['error']:.1e}", flush=True)  # fmt: skip
                wrong |= not record["error"] < 5e-3
    if asked.output:
        date = datetime.date.today().isoformat()
        with open(asked.output, "w") as file:
            json.dump(dict(target=target, date=date, rows=ROWS, records=records), file, indent=1)
    if wrong:
        sys.exit("a result is wrong: the error exceeds 5e-3")


if __name__ == "__main__":
    main()
