"""
Four kernels in Python: a sum, a single-pass softmax, a histogram, and a product on matrices.

The product uses cooperative matrices. Each kernel runs on the interpreter with all checks, and on
a Vulkan device if one is given.

    python examples/kernels.py [vulkan]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_spirv import kernels as k

Array = np.ndarray[Any, np.dtype[Any]]
LANES = 8
"""Subgroup size of lavapipe. Kernels that depend on the size declare it."""


@k.kernel(workgroup=64, subgroup_size=LANES)
def total(x=k.buffer(k.f32, read_only=True), sums=k.buffer(k.f32), n=k.push(k.u32)):
    """Sums each workgroup's share: in registers, then within subgroups, then across subgroups."""
    of_subgroup = k.shared(k.f32, 64 // LANES)
    sum = k.variable(0.0, k.f32)
    for i in k.range(k.global_id(), n, 128):  # Two workgroups of 64.
        sum.value += x[i]
    subtotal = k.subgroup_add(sum.value)
    with k.when(k.lane() == 0):
        of_subgroup[k.subgroup_id()] = subtotal
    k.barrier()
    with k.when(k.subgroup_id() == 0):
        workgroup = k.subgroup_add(of_subgroup[k.lane()])
        with k.when(k.lane() == 0):
            sums[k.workgroup_id()] = workgroup


@k.kernel(workgroup=LANES, subgroup_size=LANES)
def softmax(x=k.buffer(k.f32, None, 100, read_only=True), y=k.buffer(k.f32, None, 100)):
    """
    Computes a softmax, one row for each workgroup, in a single pass.

    The sum is kept relative to the largest element so far, and rescaled when a larger element
    comes.
    """
    row, columns = k.workgroup_id(), 100
    largest, sum = k.variable(-1e30, k.f32), k.variable(0.0, k.f32)
    for column in k.range(k.lane(), columns, LANES):
        value = x[row, column]
        larger = k.maximum(largest.value, value)
        sum.value = sum.value * k.exp(largest.value - larger) + k.exp(value - larger)
        largest.value = larger
    maximum = k.subgroup_max(largest.value)
    whole = k.subgroup_add(sum.value * k.exp(largest.value - maximum))
    for column in k.range(k.lane(), columns, LANES):
        y[row, column] = k.exp(x[row, column] - maximum) / whole


@k.kernel(workgroup=64)
def histogram(x=k.buffer(k.u8, read_only=True), counts=k.buffer(k.u32, 256), n=k.push(k.u32)):
    """Counts bytes by value in Workgroup memory, and adds each workgroup's counts to the buffer."""
    local = k.shared(k.u32, 256)
    for place in k.range(k.local_id(), 256, 64):
        local[place] = 0
    k.barrier()
    for i in k.range(k.global_id(), n, k.workgroup_count() * 64):
        k.atomic_add(local, x[i].to(k.u32), 1)
    k.barrier()
    for place in k.range(k.local_id(), 256, 64):
        with k.when(local[place] != 0):
            k.atomic_add(counts, place, local[place])


@k.kernel(workgroup=2 * LANES, subgroup_size=LANES)
def product(
    a=k.buffer(k.f16, None, 64, read_only=True),
    b=k.buffer(k.f16, 64, 32, read_only=True),
    c=k.buffer(k.f32, None, 32),
):
    """
    Computes 16 x 8 elements of `c` in each workgroup, 8 x 8 of them in each subgroup. Workgroup
    memory holds the slice of `b` that both subgroups multiply.
    """
    slice = k.shared(k.f16, 8, 8)
    row = 16 * k.workgroup_id(1) + 8 * k.subgroup_id()
    column = 8 * k.workgroup_id(0)
    sums = k.filled_matrix(0.0, k.f32, 8, 8)
    for depth in range(0, 64, 8):
        for i in k.range(k.local_id(), 64, 2 * LANES):
            slice[i // 8, i % 8] = b[depth + i // 8, column + i % 8]
        k.barrier()
        left = k.load_matrix(a, (row, depth), 8, 8, "A", stride=64)
        right = k.load_matrix(slice, (0, 0), 8, 8, "B", stride=8)
        sums = k.multiply_add(left, right, sums)
        k.barrier()
    k.store_matrix(c, (row, column), sums, stride=32)


@dataclass(frozen=True)
class Case:
    """A launch of a kernel, and the expected contents of its last buffer."""

    kernel: k.Kernel
    grid: int | tuple[int, ...]
    arguments: Sequence[Any]
    result: str
    expected: Array
    tolerance: float = 0.0


def cases() -> list[Case]:
    """Returns the four kernels with random inputs."""
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, 1000).astype(np.float32)
    strided = [x.reshape(-1)[64 * w :] for w in range(2)]
    shares = [sum(float(s[i : i + 64].sum()) for i in range(0, len(s), 128)) for s in strided]
    rows = rng.normal(0, 4, (3, 100)).astype(np.float32)
    powers = np.exp(rows - rows.max(1, keepdims=True))
    octets = rng.integers(0, 256, 1000).astype(np.uint8)
    a = rng.integers(-4, 5, (32, 64)).astype(np.float16)
    b = rng.integers(-4, 5, (64, 32)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    return [
        Case(total, 2, (x, [0.0, 0.0], 1000), "sums", np.array(shares, np.float32)),
        Case(
            softmax, 3, (rows, np.zeros_like(rows)), "y",
            powers / powers.sum(1, keepdims=True), 1e-5,
        ),
        Case(
            histogram, 3, (octets, np.zeros(256, np.uint32), 1000), "counts",
            np.bincount(octets, minlength=256).astype(np.uint32),
        ),
        Case(product, (4, 2), (a, b, np.zeros((32, 32), np.float32)), "c", wide_a @ wide_b),
    ]  # fmt: skip


def run(device: str, say: Callable[[str], object] = print) -> None:
    """Runs every case, on the interpreter with all checks enabled. Asserts the results."""
    for case in cases():
        checks = "all" if device == "interpreter" else None
        options = {"device": device, "checks": checks}
        launched = case.kernel.launch(case.grid, *case.arguments, **options)
        np.testing.assert_allclose(
            launched[case.result], case.expected, rtol=case.tolerance, atol=case.tolerance
        )
        assert not launched.report, str(launched.report)
        say(f"{case.kernel.name}: right on {device}")


if __name__ == "__main__":
    run("".join(sys.argv[1:]) or "interpreter")
