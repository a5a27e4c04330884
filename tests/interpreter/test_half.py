"""
binary16 arithmetic rounds each result like numpy for all 2^16 numbers; fused additions round once.

A chain of instructions keeps intermediate values in a wider type where possible. Values that are
stored, selected, converted, passed by branches or returned must be equal to rounded values.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.dialects.scalars.meanings import fused_multiply_add
from xdsl_spirv.interpreter.numbers import F16, F32, narrow, round_to_half
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

PATTERNS = np.arange(1 << 16).astype(np.uint16)
FUNCTIONS = {"FAdd": np.add, "FSub": np.subtract, "FMul": np.multiply, "FDiv": np.divide}


def same(found: Array, expected: Array) -> bool:
    """True if all bits are equal. All NaNs count as equal."""
    nan = np.isnan(expected.astype(np.float32))
    wide = np.isnan(found.astype(np.float32))
    bits = {2: np.uint16, 4: np.uint32}[expected.dtype.itemsize]
    return bool((nan == wide).all() and (found.view(bits) == expected.view(bits))[~nan].all())


def wide_numbers(rng: np.random.Generator) -> Array:
    """
    Returns f32 numbers: all binary16 numbers, their midpoints, neighbours of both, and random
    numbers.
    """
    halves = PATTERNS.view(F16).astype(F32)
    finite = np.sort(halves[np.isfinite(halves)])
    middle = (finite[1:] + finite[:-1]) / F32.type(2)
    ties = np.concatenate([middle, np.asarray([65520, -65520], F32)])
    near = [np.nextafter(ties, F32.type(side)) for side in (-np.inf, np.inf)]
    bits = rng.integers(0, 1 << 32, 1 << 20, np.uint32).view(F32)
    exponents = rng.integers(-30, 18, 1 << 18)
    close = (rng.standard_normal(1 << 18) * 2.0**exponents).astype(F32)
    return np.concatenate([halves, ties, *near, bits, close])


@pytest.mark.parametrize("function", [narrow, lambda x: round_to_half(x).astype(F16)])
def test_rounding_agrees_with_numpy(rng: np.random.Generator, function: Any) -> None:
    numbers = wide_numbers(rng)
    with np.errstate(all="ignore"):
        expected = numbers.astype(F16)
        assert same(function(numbers), expected)
        tail = numbers[:99]  # Short and long arrays are rounded by different code.
        assert same(function(tail), expected[:99])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_chains_of_instructions_round_as_numpy(
    kernel: Kernel, rng: np.random.Generator, name: str
) -> None:
    x = PATTERNS.view(F16)
    y = rng.integers(0, 1 << 16, 1 << 16).astype(np.uint16).view(F16)
    buffers = [kernel.buffer("f16", array.copy()) for array in (x, y, x)]
    a, b = kernel.load(buffers[0]), kernel.load(buffers[1])
    first = kernel.op(f"spirv.{name} {a}, {b} : f16")
    second = kernel.op(f"spirv.FSub {first}, {b} : f16")
    found = kernel.store(buffers[2], second).run((2048, 1, 1))[2]
    with np.errstate(all="ignore"):
        assert same(found, FUNCTIONS[name](x, y) - y)


def test_wide_intermediate_values_are_rounded_before_other_uses(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    n = 512
    x = (rng.standard_normal(n) * 3).astype(F16)
    array, out, wide = x.copy(), np.zeros(n, F16), np.zeros(n, F32)
    a, o, w = kernel.buffer("f16", array), kernel.buffer("f16", out), kernel.buffer("f32", wide)
    mask = kernel.constant(7)
    turns = kernel.op(f"spirv.BitwiseAnd %id, {mask} : i32")
    one, ten = kernel.constant("1.0", "f16"), kernel.constant("10.0", "f16")
    value, total = kernel.load(a), kernel.name()
    kernel(f"""
      {total} = spirv.mlir.loop -> f16 {{
        spirv.Branch ^header(%zero, {one} : i32, f16)
      ^header(%i: i32, %sum: f16):
        %more = spirv.SLessThan %i, {turns} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %product = spirv.FMul %sum, {value} : f16
        %big = spirv.FOrdGreaterThan %product, {ten} : f16
        %back = spirv.FNegate %product : f16
        %chosen = spirv.Select %big, %back, %product : i1, f16
        %next_sum = spirv.FAdd %chosen, {value} : f16
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next, %next_sum : i32, f16)
      ^merge:
        spirv.mlir.merge %sum : f16
      }}""")
    last = kernel.op(f"spirv.FAdd {total}, {value} : f16")
    again = kernel.op(f"spirv.FMul {last}, {value} : f16")
    kernel.store(o, again)
    widened = kernel.op(f"spirv.FConvert {last} : f16 to f32")
    kernel.store(w, widened).run((n // 64, 1, 1), (64, 1, 1))
    with np.errstate(all="ignore"):
        for i in range(n):
            held = F16.type(1)
            for _ in range(i & 7):
                product = held * x[i]
                held = (-product if product > 10 else product) + x[i]
            assert same(wide[i : i + 1], np.asarray([held + x[i]]).astype(F32)), i
            assert same(out[i : i + 1], np.asarray([(held + x[i]) * x[i]])), i


def test_a_function_returns_what_its_type_says(kernel: Kernel, rng: np.random.Generator) -> None:
    kernel.functions.append("""spirv.func @twice(%x: f16) -> f16 "None" {
        %y = spirv.FAdd %x, %x : f16
        %z = spirv.FMul %y, %y : f16
        %again = spirv.FAdd %z, %z : f16
        spirv.ReturnValue %z : f16
      }""")
    x = rng.standard_normal(512).astype(F16)
    a, out = kernel.buffer("f16", x.copy()), kernel.buffer("f16", np.zeros(512, F16))
    given = kernel.load(a)
    sum = kernel.op(f"spirv.FAdd {given}, {given} : f16")
    made = kernel.op(f"spirv.FunctionCall @twice({sum}) : (f16) -> f16")
    found = kernel.store(out, kernel.op(f"spirv.FMul {made}, {sum} : f16")).run((16, 1, 1))[out]
    y = x + x
    assert same(found, (y + y) * (y + y) * y)


def nearest(found: Array, exact: Fraction) -> bool:
    """True if no number of the same type is closer to `exact`. On a tie, `found` must be even."""
    distance = abs(Fraction(float(found)) - exact)
    for side in (-np.inf, np.inf):
        other = np.nextafter(found, found.dtype.type(side))
        if not np.isfinite(other):
            continue
        further = abs(Fraction(float(other)) - exact)
        bits = {2: np.uint16, 4: np.uint32}[found.dtype.itemsize]
        if further < distance or (further == distance and found.view(bits) & 1):
            return False
    return True


@pytest.mark.parametrize("dtype", [F16, F32])
def test_fused_multiply_add_rounds_once(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    """Sums near the middle of two numbers, and subnormal sums, equal exact fractions."""
    n = 4000
    spread = 2.0 ** rng.integers(-12, 4, n)
    a, b = ((rng.standard_normal(n) * spread).astype(dtype) for _ in range(2))
    product = a.astype(np.float64) * b.astype(np.float64)
    near = product * -(1 + 2.0 ** -rng.integers(1, 40, n).astype(np.float64))
    c = np.where(rng.random(n) < 0.5, near, rng.standard_normal(n)).astype(dtype)
    a[:500] *= dtype.type(2.0 ** -(np.finfo(dtype).maxexp - 4))
    c[:500] *= dtype.type(np.finfo(dtype).smallest_normal)
    # 1 + half an ulp + less than an ulp of binary64.
    info = np.finfo(dtype)
    a[500:600], b[500:600] = dtype.type(1 + info.eps), dtype.type(1 + info.eps)
    c[500:600] = (rng.integers(1, 1 << 10, 100) * 2.0 ** (np.float64(info.nmant) + 1)).astype(dtype)
    with np.errstate(all="ignore"):
        found = fused_multiply_add(a, b, c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & np.isfinite(found)
    assert finite.sum() > n // 2
    for i in np.flatnonzero(finite).tolist():
        x, y, z = (Fraction(float(v[i])) for v in (a, b, c))
        assert nearest(found[i], x * y + z), (a[i], b[i], c[i], found[i])
