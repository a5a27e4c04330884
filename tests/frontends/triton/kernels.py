# pyright: basic
"""
Kernels in Triton. Their TTIR files are in the same folder.

    python tests/frontends/triton/kernels.py     # rewrites the files with the installed Triton
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import triton  # pyright: ignore
import triton.language as tl  # pyright: ignore
from triton.language.extra.cuda import libdevice  # pyright: ignore

HERE = Path(__file__).parent


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def matmul(
    a, b, c, M, N, K, sa, sb, sc,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Multiplies matrices. Indices beyond the end wrap around. Tiles are in groups of rows."""
    pid = tl.program_id(0)
    group = GROUP * tl.cdiv(N, BN)
    first = pid // group * GROUP
    rows = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + pid % group % rows
    pid_n = pid % group // rows
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sa + rk[None, :]
    pb = b + rk[:, None] * sb + rn[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total)
        pa += BK
        pb += BK * sb
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    inside = (cm[:, None] < M) & (cn[None, :] < N)
    tl.store(c + cm[:, None] * sc + cn[None, :], total.to(tl.float16), inside)


@triton.jit
def product(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, K):
    """Multiplies matrices through descriptors, which the launch creates."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(tl.float16))


@triton.jit
def softmax(out, x, stride, rows, columns, BLOCK: tl.constexpr):
    """Computes a softmax. Each of n programs processes every n-th row."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):  # pyright: ignore
        value = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
        power = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * stride + at, power / tl.sum(power, axis=0), mask=at < columns)


@triton.jit
def norm(x, y, weight, mean, stride, n, eps, BLOCK: tl.constexpr):
    """Normalizes a row, reading blocks twice for statistics and once for the result."""
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    center = tl.sum(sums, axis=0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        value = tl.where(at < n, value - center, 0.0)
        squares += value * value
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean + row, center)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        w = tl.load(weight + at, mask=at < n)
        tl.store(y + at, ((value - center) * scale * w).to(tl.float16), mask=at < n)


@triton.jit
def attention(q, k, v, o, scale, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Computes causal attention with a row of programs for each head."""
    head = tl.program_id(1).to(tl.int64) * n * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    place = head + rm[:, None] * D + rd[None, :]
    x = tl.load(q + place, mask=rm[:, None] < n, other=0.0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        rn = start + tl.arange(0, BN)
        there = head + rn[:, None] * D + rd[None, :]
        y = tl.load(k + there, mask=rn[:, None] < n, other=0.0)
        s = tl.dot(x, tl.trans(y)) * scale
        s = tl.where(rn[None, :] <= rm[:, None], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        lost = tl.exp2(top - new)
        p = tl.exp2(s - new[:, None])
        total = total * lost + tl.sum(p, 1)
        w = tl.load(v + there, mask=rn[:, None] < n, other=0.0)
        result = tl.dot(p.to(w.dtype), w, result * lost[:, None])
        top = new
    tl.store(o + place, (result / total[:, None]).to(tl.float16), mask=rm[:, None] < n)


@triton.jit
def double(x):
    return x * 2


@triton.jit
def picks(x, numbers, out, best, n, BLOCK: tl.constexpr):
    """Gathers, computes an argmax and a lower bound, branches on a loaded number, returns early."""
    first = tl.program_id(0) * BLOCK
    if first >= n:
        return
    at = first + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at >= 1) & (at <= n), other=0.0)
    value = tl.load(x + tl.load(numbers + at, at < n, other=0), at < n, other=-1e30)
    _, index = tl.max(value, axis=0, return_indices=True)
    chosen = tl.load(numbers + first)
    if chosen % 2 == 0:
        value = double(value)
    else:
        value += left
    tl.store(best + tl.program_id(0), index)
    tl.store(out + at, value, at < n)


@triton.jit
def overlapping(x, out, n, BLOCK: tl.constexpr):
    """Stores to elements that neighbouring programs also store."""
    at = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n, other=0.0)
    tl.store(out + at, value, at < n)


@triton.jit
def load_unmasked(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at), at < n)


@triton.jit
def sum_undefined(x, out, n, BLOCK: tl.constexpr):
    """Sums masked-off elements, which have no defined value."""
    at = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + at, at < n), 0))


@triton.jit
def counting(x, n):
    tl.atomic_cas(x, 0, n)


@triton.jit
def waiting(x, out):
    left = tl.load(x)
    while left > 0:
        left -= 1
    tl.store(out, left)


@triton.jit
def limited_sum(a, b):
    return tl.minimum(a + b, 9.0)


@triton.jit
def carry(x, places, flags, wide, total, n, BLOCK: tl.constexpr):
    """Carries i64, a mask and a boolean through a loop; computes with numbers of 33 bits."""
    at = tl.arange(0, BLOCK)
    place, top = tl.zeros([BLOCK], tl.int64), tl.full([BLOCK], -9.0, tl.float32)
    every, any = at >= 0, False
    for start in range(0, n, BLOCK):
        value = tl.load(x + start + at, eviction_policy="evict_last", cache_modifier=".cg")
        place = tl.where(value > top, start, place)
        top = tl.maximum(top, value)
        every = every & (value > -1)
        any = any | (tl.max(tl.maximum(value, 2), 0) != 2)
    tl.store(places + at, place)
    tl.store(flags + at, every & any)
    tl.store(wide + at, at.to(tl.int64) * 3000000000 - 5000000000)
    picked = tl.load(x + place + at * at % 3)
    tl.store(total, tl.reduce(libdevice.round(picked), 0, limited_sum))


@triton.jit
def first_largest(a, i, b, j):
    keeps = a >= b
    return tl.where(keeps, a, b), tl.where(keeps, i, j)


@triton.jit
def scans(x, sums, tops, places, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of columns from below; along rows, the largest number so far and its place."""
    at = tl.arange(0, ROWS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    value = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(value, 0, reverse=True))
    top, place = tl.associative_scan((value, at), 1, first_largest)
    tl.store(tops + at, top)
    tl.store(places + at, place)


@triton.jit
def updates(x, sums, counts, old, tops, last, n, BLOCK: tl.constexpr):
    """Adds up and counts numbers of two classes; all workgroups update the same elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n, 0.0)
    tl.atomic_add(sums, tl.sum(value, 0))
    tl.atomic_add(sums + 1 + at % 2, value, at < n, sem="relaxed")
    tl.store(old + at, tl.atomic_add(counts + at % 2, 1, at < n))
    tl.atomic_max(tops + at % 2, at)
    tl.atomic_xchg(last, tl.program_id(0) * 0 + 7)


@triton.jit
def reverse_row(x, held, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(held + at, tl.load(x + at) * 2)
    tl.debug_barrier()
    tl.store(out + at, tl.load(held + BLOCK - 1 - at))


@triton.jit
def multiply_high(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.umulhi(tl.load(x + at), tl.load(y + at)))


@triton.jit
def halves(x):
    tl.atomic_add(x, 1.0)


f32, f16, i32 = "*fp32", "*fp16", "i32"
TYPES: dict[str, dict[str, Any]] = {
    "add": dict(x=f32, y=f32, out=f32, n=i32, BLOCK=64),
    "matmul": dict(
        a=f16, b=f16, c=f16, M=i32, N=i32, K=i32, sa=i32, sb=i32, sc=i32,
        BM=16, BN=16, BK=16, GROUP=2,
    ),
    "product": dict(
        a="tensordesc<fp16[16,16]>", b="tensordesc<fp16[16,16]>", c="tensordesc<fp16[16,16]>",
        BM=16, BN=16, BK=16, K=i32,
    ),
    "softmax": dict(out=f32, x=f32, stride=i32, rows=i32, columns=i32, BLOCK=32),
    "norm": dict(
        x=f16, y=f16, weight=f16, mean=f32, stride=i32, n=i32, eps="fp32", BLOCK=32
    ),
    "attention": dict(q=f16, k=f16, v=f16, o=f16, scale="fp32", n=i32, BM=16, BN=16, D=16),
    "picks": dict(x=f32, numbers="*i32", out=f32, best="*i32", n=i32, BLOCK=16),
    "carry": dict(
        x=f32, places="*i64", flags="*i32", wide="*i64", total=f32, n=i32, BLOCK=16
    ),
    "overlapping": dict(x=f32, out=f32, n=i32, BLOCK=32),
    "load_unmasked": dict(x=f32, out=f32, n=i32, BLOCK=32),
    "sum_undefined": dict(x=f32, out=f32, n=i32, BLOCK=32),
    "counting": dict(x="*i32", n=i32),
    "waiting": dict(x="*i32", out="*i32"),
    "scans": dict(x=f32, sums=f32, tops=f32, places="*i32", ROWS=4, BLOCK=16),
    "updates": dict(
        x=f32, sums=f32, counts="*i32", old="*i32", tops="*i32", last="*i32", n=i32, BLOCK=32
    ),
    "reverse_row": dict(x=f32, held=f32, out=f32, BLOCK=64),
    "multiply_high": dict(x="*u32", y="*u32", out="*u32", BLOCK=16),
    "halves": dict(x=f16),
}  # fmt: skip

if __name__ == "__main__":
    from xdsl_spirv.kernels.triton import ttir_of

    for name, types in TYPES.items():
        text, _ = ttir_of(globals()[name], types)
        text = re.sub(r'"[^"]*/(triton/language/)', r'"\1', text).replace(f"{HERE}/", "")
        (HERE / f"{name}.ttir").write_text(text)
