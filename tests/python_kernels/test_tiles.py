"""
Tile programs give right results before and after lowering to each target, or are refused.

Covers: kernel/tile_products, kernel/tile_program.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv import kernels as k
from xdsl_spirv.kernels import tiles as t
from xdsl_spirv.runtime.elements import Array


@t.kernel
def matmul(
    a: t.View = t.view(k.f16, None, None),
    b: t.View = t.view(k.f16, None, None),
    bias: t.View = t.view(k.f32, None),
    c: t.View = t.view(k.f16, None, None),
    *,
    M: int = 16,
    N: int = 16,
    K: int = 16,
):
    i, j = t.place(c, M, N, group=2)
    total = t.variable(t.zeros(k.f32, M, N))
    for at in t.range(0, a.size(1), K):
        x = a.load(i, at, M, K)
        y = b.load(at, j, K, N)
        total.value = t.multiply_add(x, y, total.value)
    result = t.maximum(total.value + bias.load(j, N), 0.0)
    c.store(i, j, result.to(k.f16))


@t.kernel
def attention(
    q: t.View = t.view(k.f16, None, None, 16),
    kk: t.View = t.view(k.f16, None, None, 16),
    v: t.View = t.view(k.f16, None, None, 16),
    o: t.View = t.view(k.f16, None, None, 16),
    causal: Any = k.push(k.i32),
    *,
    R: int = 16,
    C: int = 16,
    D: int = 16,
):
    row, head = t.place(o, R, axes=(1, 0))
    keys = kk.size(1)
    x = q.load(head, row, 0, R, D) * (D**-0.5 * 1.442695)
    top = t.variable(t.full(-3.4e38, k.f32, R))
    total = t.variable(t.zeros(k.f32, R))
    result = t.variable(t.zeros(k.f32, R, D))
    for at in t.range(0, t.clamp(row + R + causal, 0, keys), C):
        s = t.multiply_add(x, kk.load(head, at, 0, C, D).T, t.zeros(k.f32, R, C))
        i, j = t.places(s)
        s = t.where((at + j < keys) & (at + j <= row + i + causal), s, -t.inf)
        new = t.maximum(top.value, s.max(axis=1))
        lost = t.exp2(top.value - new)
        p = t.exp2(s - new.column)
        total.value = total.value * lost + p.sum(axis=1)
        w = v.load(head, at, 0, C, D)
        result.value = t.multiply_add(p.to(k.f16), w, result.value * lost.column)
        top.value = new
    o.store(head, row, 0, (result.value / total.value.column).to(k.f16))


@t.kernel
def integers(
    a: t.View = t.view(k.i8, None, 32),
    b: t.View = t.view(k.i8, 32, None),
    c: t.View = t.view(k.i32, None, None),
):
    i, j = t.place(c, 16, 16)
    x, y = a.load(i, 0, 16, 32), b.load(0, j, 32, 16)
    c.store(i, j, t.multiply_add(x, y, t.zeros(k.i32, 16, 16)))


@t.kernel
def dequantize(
    a: t.View = t.view(k.i8, None, 32),
    b: t.View = t.view(k.i8, 32, None),
    c: t.View = t.view(k.f32, None, None),
):
    i, j = t.place(c, 16, 16)
    x, y = a.load(i, 0, 16, 32), b.load(0, j, 32, 16)
    c.store(i, j, t.multiply_add(x, y, t.zeros(k.i32, 16, 16)).to(k.f32) * 0.5)


def case(name: str) -> tuple[t.TileKernel, list[Array | int], Array, float]:
    """Returns a kernel, its arguments (the result last), the expected result, and the tolerance."""
    g = np.random.default_rng(1)
    if name == "integers":
        a, b = (g.integers(-128, 128, shape).astype(np.int8) for shape in ((20, 32), (32, 18)))
        return integers, [a, b, np.zeros((20, 18), np.int32)], a.astype(np.int32) @ b, 0
    if name == "dequantize":
        a, b = (g.integers(-128, 128, (32, 32)).astype(np.int8) for _ in "ab")
        expected = 0.5 * a.astype(np.float32) @ b.astype(np.float32)
        return dequantize, [a, b, np.zeros((32, 32), np.float32)], expected, 0
    if name == "bfloats":
        a, b = (g.standard_normal(s).astype(k.bf16.dtype) for s in ((20, 16), (16, 18)))
        expected = a.astype(np.float32) @ b.astype(np.float32)
        return bfloats, [a, b, np.zeros((20, 18), np.float32)], expected, 0.01
    if name == "matmul":
        a, b = (g.standard_normal(s).astype(np.float16) for s in ((20, 21), (21, 18)))
        bias, c = g.standard_normal(18).astype(np.float32), np.zeros((20, 18), np.float16)
        expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0)
        return matmul, [a, b, bias, c], expected, 0.01
    q, keys, v = (g.standard_normal((2, n, 16)).astype(np.float16) for n in (20, 35, 35))
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float32), keys.astype(np.float32)) / 4
    scores[:, np.arange(35)[None] > np.arange(20)[:, None] + 9] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ v.astype(np.float32)
    return attention, [q, keys, v, np.zeros_like(q), 9], expected, 0.01


TARGETS = {
    "nvidia-h200": "matrices whose components have known places",
    "nvidia-ada": "matrices whose components are anywhere",
    "webgpu": "no matrices, no shuffles, no small types in memory",
}


@t.kernel
def bfloats(
    a: t.View = t.view(k.bf16, None, 16),
    b: t.View = t.view(k.bf16, 16, None),
    c: t.View = t.view(k.f32, None, None),
):
    i, j = t.place(c, 16, 16)
    x, y = a.load(i, 0, 16, 16), b.load(0, j, 16, 16)
    c.store(i, j, t.multiply_add(x, y, t.zeros(k.f32, 16, 16)))


@pytest.mark.parametrize("name", ["matmul", "attention", "integers", "bfloats"])
def test_whole_tiles_and_invocations_agree_with_numpy(name: str):
    kernel, arguments, expected, near = case(name)
    (result,) = [n for n in kernel.launch(*arguments)][-1:]
    assert np.abs(kernel.launch(*arguments)[result] - expected).max() <= near
    raised = kernel.launch(*arguments, target="nvidia-h200")[result]
    assert np.abs(raised - expected).max() <= near
    for target in TARGETS:
        launched = kernel.launch(*arguments, target=target, subgroups=(1, 1))[result]
        assert np.abs(launched - expected).max() <= near, target


def test_a_raised_program_takes_numbers_below_0():
    kernel, (*views, _), _, near = case("attention")
    whole = kernel.launch(*views, -2)["o"]
    launched = kernel.launch(*views, -2, target="nvidia-ada")["o"]
    assert np.isnan(whole).any()
    assert np.allclose(launched, whole, atol=near, equal_nan=True)


@pytest.mark.parametrize(("name", "target"), [("matmul", "nvidia-h200"), ("attention", "webgpu")])
def test_kernels_of_dynamic_sizes_pass_all_checks(name: str, target: str):
    kernel, arguments, _, _ = case(name)
    report = kernel.check(*arguments, target=target, sizes="open", subgroups=(1, 1))
    depends = {"CHOICE-01"} if target == "nvidia-h200" else set[str]()
    assert {finding.rule for finding in report} == depends, str(report)
    assert all(finding.rule == "CHOICE-02" for finding in report.allowed)


@t.kernel
def positive(
    a: t.View = t.view(k.f16, None, 16),
    b: t.View = t.view(k.f16, 16, None),
    c: t.View = t.view(k.i32, None, None),
):
    i, j = t.place(c, 16, 16)
    total = t.multiply_add(a.load(i, 0, 16, 16), b.load(0, j, 16, 16), t.zeros(k.f32, 16, 16))
    c.store(i, j, t.where(total > 0.5, t.full(1, k.i32, 16, 16), t.full(0, k.i32, 16, 16)))


def test_results_that_depend_on_the_order_of_sums_are_allowed():
    """2^24 + 1 - 2^24 is 0 or 1 in f32."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    a[:, :3], b[:3] = [4096, 1, -4096], [[4096], [1], [4096]]
    report = positive.check(a, b, np.zeros((16, 16), np.int32), target="nvidia-ada")
    assert [finding.rule for finding in report.allowed] == ["CHOICE-02"]
    assert list(report) == []


@t.kernel
def thirds(y: t.View = t.view(k.i32, None)):
    i = t.place(y, 1)
    y.store(i, t.full((i - 4) // 3 * 7 + (i - 4) % 3, k.i32, 1))


def test_numbers_divide_as_in_python():
    right = [(n - 4) // 3 * 7 + (n - 4) % 3 for n in range(6)]
    for options in ({}, {"target": "webgpu"}):
        assert thirds.launch(np.zeros(6, np.int32), **options)["y"].tolist() == right, options


@t.kernel
def meeting(x: t.View = t.view(k.f32, None), y: t.View = t.view(k.f32, None)):
    i = t.place(x, 16)
    y.store(i * 0, x.load(i, 16))


@t.kernel
def reading(x: t.View = t.view(k.f32, None), y: t.View = t.view(k.f32, None)):
    i = t.place(y, 16)
    y.store(i, x.load(i, 16) + y.load(i, 16))


@t.kernel
def hashing(x: t.View = t.view(k.i32, None), y: t.View = t.view(k.i32, None, 8)):
    i = t.place(y, 16, axes=(0,))
    v = x.load(i, 16)
    v = (v ^ (v << 13)).column
    v = v ^ (v >> 17)
    row, column = t.places(t.zeros(k.i32, 16, 8))
    y.store(i, 0, t.where(row > column, v, column))


@pytest.mark.parametrize("options", [{}, {"target": "lavapipe"}, {"target": "webgpu"}])
def test_shifts_and_a_choice_between_broadcast_tiles(options: Any):
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 20).astype(np.int32)
    v = (x ^ (x << 13))[:, None]
    row, column = np.arange(20)[:, None] % 16, np.arange(8)
    y = hashing.launch(x, t.Unwritten((20, 8)), **options)["y"]
    np.testing.assert_array_equal(y, np.where(row > column, v ^ (v >> 17), column))


@t.kernel
def shifting(x: t.View = t.view(k.f32, None), y: t.View = t.view(k.f32, None)):
    i = t.place(y, 16)
    read = y.load(i * 0, 16) + x.load(i, 16)
    y.store(16 - i, read)


@t.kernel
def leaving(x: t.View = t.view(k.f32, None), y: t.View = t.view(k.f32, None)):
    i = t.place(y, 16)
    y.store(i, x.load(i, 16, outside=None))


X, Y = np.ones(20, np.float32), np.zeros(32, np.float32)
REFUSALS: dict[str, tuple[Any, str]] = {
    "two workgroups store": (lambda: meeting.launch(X, Y), r"workgroups 0 and 1 both store y\[0\]"),
    "one stores what two read": (
        lambda: shifting.launch(X, Y),
        r"several workgroups and workgroup 1 store and read y\[0\]",
    ),
    "not written": (
        lambda: reading.launch(Y, t.Unwritten((32,))),
        r"workgroup 0 reads y\[0\], which was not written",
    ),
    "outside": (lambda: leaving.launch(X, Y), r"a tile of 16 at \[16\] exceeds x, whose size is"),
    "does not fit": (
        lambda: matmul.with_constants(M=24, K=24).on("nvidia-h200", subgroups=(1, 1)),
        r"24x16x24 .* is not a multiple of 16x16x16, .*use 32x16x32",
    ),
    "registers": (
        lambda: matmul.with_constants(M=256, N=256).on("nvidia-h200", subgroups=(2, 1)),
        r"carries 1024 registers \(total 1024\), but an invocation has 255",
    ),
    "the device's memory": (
        lambda: matmul.with_constants(M=512, N=16, K=512).on("nvidia-ada", subgroups=(4, 1)),
        r"bytes of Workgroup memory, but nvidia-ada has",
    ),
    "another dtype": (lambda: meeting.launch(X.astype(np.float64), Y), "x is a view of \\? f32"),
    "another size": (lambda: meeting.launch(X[:0], Y), "with 1 axes and at least one element"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_fault_is_refused_with_its_line(name: str):
    run, said = REFUSALS[name]
    with pytest.raises(k.KernelError, match=said) as raised:
        run()
    assert name.startswith("another") or "test_tiles.py" in str(raised.value)


def test_operands_that_do_not_fit_are_refused_with_their_line():
    with pytest.raises(k.KernelError, match=r"along K: 16 and 32.*load tiles whose|write y.T"):

        @t.kernel
        def wrong(x: t.View = t.view(k.f16, None, None)):  # pyright: ignore[reportUnusedFunction]
            a, b = x.load(0, 0, 32, 16), x.load(0, 0, 32, 16)
            t.multiply_add(a, b, t.zeros(k.f32, 32, 32))


def test_factors_of_two_types_are_refused():
    with pytest.raises(k.KernelError, match="both need one type"):

        @t.kernel
        def wrong(x: t.View = t.view(k.f16, None), y: t.View = t.view(k.bf16, None)):  # pyright: ignore[reportUnusedFunction]
            a, b = x.load(0, 16).row, y.load(0, 16).column
            t.multiply_add(a, b, t.zeros(k.f32, 1, 1))


def test_a_value_of_a_loop_is_refused_after_it():
    """A tile that the loop computes, and a number that a later operation on elements uses."""
    at_line = r"is used after it \(test_tiles.py:\d+: y.store.*; make it a variable"
    with pytest.raises(k.KernelError, match=at_line):

        @t.kernel
        def sums(x: t.View = t.view(k.f32, None), y: t.View = t.view(k.f32, None)):  # pyright: ignore[reportUnusedFunction]
            total = t.zeros(k.f32, 16)
            for at in t.range(0, x.size(0), 16):
                total = total + x.load(at, 16)
            y.store(t.place(y, 16), total)

    with pytest.raises(k.KernelError, match=at_line):

        @t.kernel
        def last(y: t.View = t.view(k.i32, None)):  # pyright: ignore[reportUnusedFunction]
            at = t.place(y, 16)
            for at in t.range(0, 32, 16):
                pass
            y.store(0, t.zeros(k.i32, 16) + at)


@pytest.mark.vulkan
def test_tiles_compute_the_same_on_a_device(lavapipe: Path):
    done = subprocess.run(
        [lavapipe, sys.executable, __file__],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@t.kernel
def negate(x: t.View = t.view(k.f32, 8), y: t.View = t.view(k.f32, 8)):
    at = t.place(y, 8)
    y.store(at, -x.load(at, 8))


@pytest.mark.parametrize("options", [{}, {"target": "lavapipe"}])
def test_the_negative_of_zero_has_a_sign(options: dict[str, Any]):
    x = np.zeros(8, np.float32)
    assert np.signbit(negate.launch(x, x + 1, **options)["y"]).all()


@t.kernel
def add_halves(
    x_1: t.View = t.view(k.f32, 48),
    x_2: t.View = t.view(k.f32, 4, 12),
    y_1: t.View = t.view(k.f32, 6, 8),
    n_1: Any = k.push(k.i32),
):
    i, j = t.place(y_1, 6, 8)
    total = x_1.load(0, 48).reshape(4, 12) + x_2.load(0, 0, 4, 12)
    y_1.store(i, j, total.reshape(2, 24).reshape(6, 8) + t.full(n_1.to(k.f32), k.f32, 6, 8))


@pytest.mark.parametrize("target", ["", "lavapipe", "nvidia-h200"])
def test_names_may_end_in_numbers_and_tiles_may_be_reshaped(target: str):
    x = np.arange(48, dtype=np.float32)
    given = x, x.reshape(4, 12) * 10, np.zeros((6, 8), np.float32), 3
    options: dict[str, Any] = {"target": target} if target else {}
    launched = add_halves.launch(*given, **options)
    np.testing.assert_array_equal(launched["y_1"], (x * 11 + 3).reshape(6, 8))
    np.testing.assert_array_equal(launched["x_2"], given[1])
    if target:
        assert not add_halves.check(*given, target=target).findings


@t.kernel
def square(
    a_1: t.View = t.view(k.f16, 32, 16),
    a_2: t.View = t.view(k.f16, 16, 32),
    c_1: t.View = t.view(k.f32, 32, 32),
):
    i, j = t.place(c_1, 16, 16)
    x, y = a_1.load(i, 0, 16, 16), a_2.load(0, j, 16, 16)
    c_1.store(i, j, t.multiply_add(x, y, t.zeros(k.f32, 16, 16)))


def test_a_function_on_tensors_has_the_kernels_names():
    a, b = np.eye(32, 16, dtype=np.float16), np.arange(512).reshape(16, 32).astype(np.float16)
    launched = square.launch(a, b, np.zeros((32, 32), np.float32), target="lavapipe")
    assert launched.way == "as a function on tensors"
    np.testing.assert_array_equal(launched["c_1"], a.astype(np.float32) @ b)


if __name__ == "__main__":
    tile_by_tile: dict[str, Any] = {"subgroups": (1, 1)}
    for each, options in (
        ("matmul", tile_by_tile),
        ("integers", tile_by_tile),
        ("dequantize", {}),
    ):
        tile_kernel, given, right, allowed = case(each)
        device = [*tile_kernel.launch(*given, device="vulkan", **options).buffers.values()]
        assert np.abs(device[-1] - right).max() <= allowed, each
