"""
Times a product and an attention written over tiles, and the built-in kernels.

    python benchmarks/tiles.py --device vulkan [--size 1024] [--runs 15]

Figures are medians of GPU times of interleaved runs. Results are compared with numpy's first. The
built-in kernels are compiled for the same target. `--options` sets options of the tile kernels,
for example '{"matmul": [{"M": 64, "subgroups": [2, 1]}]}'. With `subgroups`, they are lowered tile
by tile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import workloads

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


@dataclass(frozen=True)
class Launch:
    """A kernel on a device: its work, the name of its result, and a word for how it was lowered."""

    work: Any
    result: str
    way: str = "built-in"


def built_in(text: str, target: str) -> Launch:
    from xdsl_spirv.runtime.vulkan.programs import work_of

    return Launch(work_of(xs.compile(xs.parse(text), target)), "result0")


def over_tiles(
    kernel: t.TileKernel,
    shapes: Mapping[str, tuple[int, ...]],
    target: str,
    options: Mapping[str, Any],
) -> Launch:
    from xdsl_spirv.interpreter.host.tiles import grid_of
    from xdsl_spirv.kernels.tile_launch import RaisedProgram

    constants = {n: v for n, v in options.items() if n in kernel.constants}
    others = {n: v for n, v in options.items() if n not in constants}
    lowered = lower_program(kernel.with_constants(**constants).trace(shapes), target, **others)
    if isinstance(lowered, RaisedProgram):
        return Launch(lowered.work, "result0", "raised")
    views = [kernel.views[name].element.dtype for name in shapes]
    held = {
        n: np.zeros(int(np.prod(shape)) * views[n].itemsize, np.uint8)
        for n, shape in enumerate(shapes.values())
    }
    grid = grid_of(lowered.program, dict(enumerate(shapes.values())))
    return Launch(lowered.work(held, b"", grid), f"b{len(shapes) - 1}", "tile by tile")


Check = Callable[[bytes], float]


def medians(
    launches: Mapping[str, Launch], given: Sequence[Any], check: Check, device: str, runs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """
    Returns the median microseconds of `runs` runs of each launch, and the errors that `check`
    computes from the results.
    """
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    times: dict[str, list[float]] = {name: [] for name in launches}
    errors: dict[str, float] = {}
    with open_isolated(device) as opened:
        loaded = {name: opened.load(launch.work) for name, launch in launches.items()}
        for name, launch in launches.items():
            inputs = [b for b in launch.work.buffers if b.kind == "input"]
            data = {b.name: bytes(b.size) for b in inputs}
            data |= {b.name: a.tobytes() for b, a in zip(inputs, given, strict=False)}
            loaded[name].run(data, opened.timeout)
            errors[name] = check(bytes(loaded[name].read(launch.result, opened.timeout)))
        for _ in range(runs):
            for name, each in loaded.items():
                steps = each.time(3, opened.timeout, 0.05)
                times[name].append(sum(step.median for step in steps) / 1000)
    return {name: statistics.median(values) for name, values in times.items()}, errors


ROWS = 64
"""Number of compared rows of a result."""


def matmul_case(size: int) -> tuple[Sequence[Any], Check]:
    """Returns the operands of a product, and a function for the error of the first rows."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((size, size)).astype(np.float16) for _ in range(2))
    expected = a[:ROWS].astype(np.float32) @ b.astype(np.float32)

    def check(result: bytes) -> float:
        rows = np.frombuffer(result, np.float32).reshape(size, size)[:ROWS]
        return float(np.abs(rows - expected).max() / np.abs(expected).max())

    return (a, b), check


def attention_case(heads: int, size: int) -> tuple[Sequence[Any], Check]:
    """Returns an attention's operands, and a function for the error of the last head."""
    random = np.random.default_rng(1)
    q, keys, values = (
        random.standard_normal((heads, size, 64)).astype(np.float16) for _ in range(3)
    )
    scores = q[-1, :ROWS].astype(np.float32) @ keys[-1].astype(np.float32).T / 8
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True) @ values[-1].astype(np.float32)

    def check(result: bytes) -> float:
        rows = np.frombuffer(result, np.float16).reshape(heads, size, 64)[-1, :ROWS]
        return float(np.abs(rows - expected).max() / np.abs(expected).max())

    return (q, keys, values), check


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
        {"matmul": [{}, {"M": 16, "N": 16, "K": 16, "subgroups": (1, 1)}], "attention": [{}]}
        if load(target).processor
        else {
            "matmul": [{}, {"subgroups": (2, 2)}, {"subgroups": (4, 2)}],
            "attention": [{}, {"subgroups": (4, 1)}],
        }
    )
    usual |= json.loads(asked.options)
    square, rows = (size, size), (heads, size, 64)
    workload = AttentionWorkload(1, heads, size, size, 64, 64)
    cases: dict[str, tuple[t.TileKernel, str, dict[str, tuple[int, ...]]]] = {
        "matmul": (matmul, workloads.matmul(size), dict.fromkeys("abc", square)),
        "attention": (attention, workload.text(), dict.fromkeys(("q", "kk", "v", "o"), rows)),
    }
    wrong = False
    for name, (kernel, text, shapes) in cases.items():
        if asked.only not in name:
            continue
        launches = {"built-in": built_in(text, target)}
        for options in usual[name]:
            launches[json.dumps(options)] = over_tiles(kernel, shapes, target, options)
        given, check = matmul_case(size) if name == "matmul" else attention_case(heads, size)
        found, errors = medians(launches, given, check, asked.device, asked.runs)
        for label, time in found.items():
            part, error = found["built-in"] / time, errors[label]
            print(
                f"{name} {size} {label} ({launches[label].way}): {time:.1f} us, {part:.2f} of the "
                f"built-in, error {error:.1e}",
                flush=True,
            )
            wrong |= not error < 5e-3
    if wrong:
        sys.exit("a result is wrong: the error exceeds 5e-3")


if __name__ == "__main__":
    main()
