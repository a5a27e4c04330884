#!/usr/bin/env python3
"""
Measures time and memory of large launches on the interpreter, without checks and with all checks.

    python benchmarks/check_sizes.py [--ggml CHECKOUT] [--share 0.1] [-k NAME]

The launches are a scan of 2^24 integers, 65,536 invocations that pass messages by atomics, and
three kernels of ggml (a checkout of github.com/ggml-org/ggml) with a million invocations each: a
product, an attention and a softmax. `--share` scales the sizes down. Every launch runs in its own
process. Seconds are processor time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ggml import attention, products, rows
from ggml.launch import Case, Modules, run_module
from ggml.modules import Checkout

from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.tools.kernel_test.compilers import compile_source
from xdsl_spirv.tools.kernel_test.description import Compile

SCAN = """#version 450
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer Input { uvec4 x[]; };
layout(std430, binding = 1) writeonly buffer Output { uvec4 y[]; };
shared uint part[256];
void main() {
    uint l = gl_LocalInvocationID.x, i = gl_GlobalInvocationID.x;
    uvec4 v = x[i];
    v.y += v.x; v.z += v.y; v.w += v.z;
    part[l] = v.w;
    barrier();
    for (uint step = 1u; step < 256u; step *= 2u) {
        uint before = l >= step ? part[l - step] : 0u;
        barrier();
        part[l] += before;
        barrier();
    }
    y[i] = v + (l > 0u ? part[l - 1u] : 0u);
}
"""
CHAIN = """#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Count { uint next; };
layout(std430, binding = 1) devicecoherent buffer Message { uint message[]; };
layout(std430, binding = 2) buffer Heard { uint heard[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    message[i] = i;
    atomicAdd(next, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    if (i > 0u) heard[i] = message[i - 1u];
}
"""
OWN, OF_GGML = ("scan", "messages"), ("product", "attention", "softmax")


def own(name: str, share: float) -> tuple[bytes, Case]:
    """Returns one of this file's kernels and its launch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.comp")
        path.write_text(SCAN if name == "scan" else CHAIN)
        binary = compile_source(path, Compile(target_env="vulkan1.3"))
    if name == "scan":
        x = np.random.default_rng(0).integers(0, 100, (int(16384 * share), 1024), np.uint32)
        sums = x.cumsum(1, dtype=np.uint32)
        return binary, Case(name, (len(x), 1, 1), {0: x.ravel(), 1: x.ravel() * 0}, {1: sums})
    lanes = np.arange(int(1024 * share) * 64, dtype=np.uint32)
    count = np.array([lanes.size], np.uint32)
    expected = {0: count, 1: lanes, 2: np.maximum(lanes, 1) - 1}
    buffers = {0: count * 0, 1: lanes * 0, 2: lanes * 0}
    return binary, Case(name, (lanes.size // 64, 1, 1), buffers, expected)


def of_ggml(name: str, share: float, checkout: Path) -> tuple[bytes, Case]:
    """Returns a module of ggml, and a launch with about `share` million invocations."""
    case = Case(name, (1, 1, 1), {}, {})
    if name == "product":
        size = (int(128 * share) * 64, 4096, 32)
        case = products.product("matmul_f32_f32_fp32", "scalar", size, "f32", "f32", aligned=True)
    elif name == "attention":
        case = attention.launch("flash_attn_f32_f16_fp32", "f16", (int(8192 * share), 64), 0)
    else:
        first = rows.soft_max("soft_max_f32", "f32", 512, 1300, (False, False, False))[0]
        times = int(86 * share) + 1
        many: dict[int, Any] = {at: np.tile(first.buffers[at], (times, 1, 1, 1)) for at in (0, 3)}
        expected = {3: np.tile(first.expected[3], (times, 1, 1, 1))}
        push = {**first.push, "nrows_x": 24 * times}
        case = replace(first, grid=(24 * times, 1, 1), buffers=first.buffers | many)
        case = replace(case, expected=expected, push=push)
    modules = Modules(Checkout(checkout, Path(tempfile.gettempdir(), "ggml-shaders")))
    return modules.checkout.compile(modules[case.module]), case


def measure(name: str, share: float, checkout: Path | None, checks: Checks) -> dict[str, Any]:
    binary, case = of_ggml(name, share, checkout) if checkout else own(name, share)
    module = decode(binary)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    outcome = run_module(binary, module, case, checks)
    seconds = round(time.process_time() - start, 1)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    found = [finding.rule for finding in outcome.findings]
    return {"seconds": seconds, "MB": megabytes, "failed": outcome.error or outcome.wrong} | (
        {"findings": found} if found else {}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--ggml", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("-k", default="", help="only launches whose names contain this")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, checked = given.child
        checks = Checks.all() if checked == "checked" else Checks()
        checkout = given.ggml.resolve() if name in OF_GGML else None
        return print(json.dumps(measure(name, given.share, checkout, checks)))
    for name in (*OWN, *(OF_GGML if given.ggml else ())):
        for how in ("plain", "checked") if given.k in name else ():
            command = [sys.executable, __file__, *sys.argv[1:], "--child", name, how]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(name, how, done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
