"""
A product and an attention over tiles, beside the built-in ones: medians of interleaved runs.

    python benchmarks/tiles.py --device vulkan [--size 1024] [--runs 15]

Times are the device's own. The built-in kernels are compiled for the same target; `--options` gives
others for kernels over tiles: '{"matmul": [{"M": 64, "subgroups": [2, 1]}]}'.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import numpy as np

import xdsl_spirv as xs
from xdsl_spirv import kernels as k
from xdsl_spirv.kernels import tiles as t
from xdsl_spirv.kernels.tile_launch import lower_program
from xdsl_spirv.runtime.vulkan.own_target import own_target
from xdsl_spirv.targets import load
from xdsl_spirv.testing.attention_workloads import AttentionWorkload


@t.kernel
def matmul(
    a: Any = t.view(k.f16, None, None),
    b: Any = t.view(k.f16, None, None),
    c: Any = t.view(k.f32, None, None),
    *,
    M: int = 128,
    N: int = 128,
    K: int = 32,
):
    i, j = t.place(c, M, N, group=8)
    total = t.variable(t.zeros(k.f32, M, N))
    for at in t.range(0, a.size(1), K):
        total.value = t.multiply_add(a.load(i, at, M, K), b.load(at, j, K, N), total.value)
    c.store(i, j, total.value)


@t.kernel
def attention(
    q: Any = t.view(k.f16, None, None, 64),
    kk: Any = t.view(k.f16, None, None, 64),
    v: Any = t.view(k.f16, None, None, 64),
    o: Any = t.view(k.f16, None, None, 64),
    *,
    R: int = 64,
    C: int = 32,
    D: int = 64,
):
    row, head = t.place(o, R, axes=(1, 0))
    x = q.load(head, row, 0, R, D)
    top = t.variable(t.full(-3.4e38, k.f32, R))
    total = t.variable(t.zeros(k.f32, R))
    result = t.variable(t.zeros(k.f32, R, D))
    for at in t.range(0, kk.size(1), C):
        s = t.multiply_add(x, kk.load(head, at, 0, C, D).T, t.zeros(k.f32, R, C))
        s = s * (D**-0.5 * 1.442695)
        new = t.maximum(top.value, s.max(axis=1))
        lost = t.exp2(top.value - new)
        p = t.exp2(s - new.column)
        total.value = total.value * lost + p.sum(axis=1)
        w = v.load(head, at, 0, C, D)
        result.value = t.multiply_add(p.to(k.f16), w, result.value * lost.column)
        top.value = new
    o.store(head, row, 0, (result.value / total.value.column).to(k.f16))


MATMUL = """
func.func @main(%a: tensor<{m}x{m}xf16>, %b: tensor<{m}x{m}xf16>) -> tensor<{m}x{m}xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{m}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{m}xf32>) -> tensor<{m}x{m}xf32>
  %r = linalg.matmul ins(%a, %b : tensor<{m}x{m}xf16>, tensor<{m}x{m}xf16>)
                     outs(%f : tensor<{m}x{m}xf32>) -> tensor<{m}x{m}xf32>
  return %r : tensor<{m}x{m}xf32>
}}
"""


def built_in(text: str, target: str) -> Any:
    """The work of a compiled program."""
    from xdsl_spirv.runtime.vulkan.programs import work_of

    return work_of(xs.compile(xs.parse(text), target))


def over_tiles(kernel: t.TileKernel, shapes: dict[str, tuple[int, ...]], options: Any) -> Any:
    """The work of a kernel over tiles."""
    from xdsl_spirv.interpreter.host.tiles import grid_of

    constants = {n: options.pop(n) for n in list(options) if n in kernel.constants}
    lowered = lower_program(kernel.with_constants(**constants).trace(shapes), **options)
    views = [(n, kernel.views[name].element.dtype) for n, name in enumerate(shapes)]
    held = {
        n: np.zeros(int(np.prod(shape)) * views[n][1].itemsize, np.uint8)
        for n, shape in enumerate(shapes.values())
    }
    return lowered.work(held, b"", grid_of(lowered.program, dict(enumerate(shapes.values()))))


def medians(works: dict[str, Any], device: str, runs: int) -> dict[str, float]:
    """Microseconds of each work on the device, in turns."""
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    random = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in works}
    with open_isolated(device) as opened:
        loaded = {name: opened.load(work) for name, work in works.items()}
        for name, work in works.items():
            inputs = [b for b in work.buffers if b.kind == "input"]
            data = {
                b.name: random.integers(0, 60, b.size).astype(np.uint8).tobytes() for b in inputs
            }
            loaded[name].run(data, opened.timeout)
        for _ in range(runs):
            for name, each in loaded.items():
                steps = each.time(3, opened.timeout, 0.05)
                times[name].append(sum(step.median for step in steps) / 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--target", default="")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--options", default="{}", help="JSON: a list of options for each case")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    target = asked.target or own_target(asked.device)
    size, heads = asked.size, asked.heads
    usual: dict[str, list[dict[str, Any]]] = (
        {"matmul": [{"M": 16, "N": 16, "K": 16}], "attention": [{"R": 8, "C": 16}]}
        if load(target).processor
        else {
            "matmul": [
                {"subgroups": (2, 2)},
                {"subgroups": (4, 2)},
                {"K": 64, "subgroups": (2, 2)},
            ],
            "attention": [{}, {"R": 128, "C": 64}, {"R": 64, "C": 64}],
        }
    )
    usual |= json.loads(asked.options)
    square, rows = (size, size), (heads, size, 64)
    workload = AttentionWorkload(1, heads, size, size, 64, 64)
    cases = {
        "matmul": (matmul, MATMUL.format(m=size), dict.fromkeys("abc", square)),
        "attention": (attention, workload.text(), dict.fromkeys(("q", "kk", "v", "o"), rows)),
    }
    for name, (kernel, text, shapes) in cases.items():
        if asked.only not in name:
            continue
        works = {"built-in": built_in(text, target)}
        for options in usual[name]:
            label = json.dumps(options)
            works[label] = over_tiles(kernel, shapes, {"target": target, **options})
        found = medians(works, asked.device, asked.runs)
        for label, time in found.items():
            part = found["built-in"] / time
            print(f"{name} {size} {label}: {time:.1f} us, {part:.2f} of the built-in", flush=True)


if __name__ == "__main__":
    main()
