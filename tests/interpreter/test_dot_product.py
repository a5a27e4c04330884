"""DOT-14, DOT-15, DOT-16: dot products agree with Python's integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

EDGES = (0, 1, -1, 127, -128, 63)


def bits(value: int, width: int, sign: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if sign and value >> (width - 1) else value


def exact(a: list[int], b: list[int], kind: str, width: int) -> int:
    """
    Returns the exact dot product of integers of `width` bits, which `kind` declares signed or
    unsigned (DOT-15).
    """
    first, second = {"S": (True, True), "U": (False, False), "SU": (True, False)}[kind]
    return sum(bits(x, width, first) * bits(y, width, second) for x, y in zip(a, b, strict=True))


def clamp(value: int, width: int, sign: bool) -> int:
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if sign else (0, (1 << width) - 1)
    return min(max(value, low), high)


@pytest.mark.parametrize("kind", ["S", "U", "SU"])
@pytest.mark.parametrize("result", [8, 16, 32, 64])
def test_dot_14_packed_bytes_from_the_lowest(
    kernel: Kernel, rng: np.random.Generator, kind: str, result: int
) -> None:
    words = rng.integers(-(2**31), 2**31, (2, 256)).astype(np.int32)
    words[:, 0] = (0x04030201, 0x01000000)
    words[:, 1] = (-1, -1)
    words[:, 2] = np.array([0x80808080, 0x80808080], np.uint32).view(np.int32)
    a, b = kernel.buffer("i32", words[0].copy()), kernel.buffer("i32", words[1].copy())
    out = kernel.buffer(f"i{result}", np.zeros(256, f"i{result // 8}"))
    value = kernel.op(
        f"spirv.{kind}Dot {kernel.load(a)}, {kernel.load(b)}, <PackedVectorFormat4x8Bit> "
        f": i32 -> i{result}"
    )
    found = kernel.store(out, value).run(grid=(8, 1, 1))[2]
    for x, y, z in zip(words[0].tolist(), words[1].tolist(), found.tolist(), strict=True):
        first, second = ([w >> 8 * i & 0xFF for i in range(4)] for w in (x, y))
        assert z == bits(exact(first, second, kind, 8), result, True)


@pytest.mark.parametrize("kind", ["S", "U", "SU"])
@pytest.mark.parametrize(
    ("count", "width", "result"),
    [(4, 8, 8), (4, 8, 32), (2, 16, 16), (3, 16, 32), (4, 32, 32), (2, 64, 64), (4, 32, 64)],
)
def test_dot_15_the_low_bits_of_the_exact_sum(
    kernel: Kernel, rng: np.random.Generator, kind: str, count: int, width: int, result: int
) -> None:
    dtype = f"i{width // 8}"
    limits = np.iinfo(dtype)
    data = rng.integers(limits.min, limits.max, (2, 64, count), dtype, endpoint=True)
    data[:, 0], data[:, 1] = limits.min, limits.max
    data[0, 2], data[1, 2] = limits.min, limits.max
    vector = f"vector<{count}xi{width}>"
    a, b = (kernel.buffer(vector, data[n].copy(), count) for n in (0, 1))
    out = kernel.buffer(f"i{result}", np.zeros(64, f"i{result // 8}"))
    value = kernel.op(f"spirv.{kind}Dot {kernel.load(a)}, {kernel.load(b)} : {vector} -> i{result}")
    found = kernel.store(out, value).run(grid=(2, 1, 1))[2]
    for x, y, z in zip(data[0].tolist(), data[1].tolist(), found.tolist(), strict=True):
        assert z == bits(exact(x, y, kind, width), result, True)


@pytest.mark.parametrize("kind", ["S", "U", "SU"])
@pytest.mark.parametrize("result", [32, 64])
def test_dot_16_the_final_addition_saturates(
    kernel: Kernel, rng: np.random.Generator, kind: str, result: int
) -> None:
    sign = kind != "U"
    dtype = f"i{result // 8}"
    limits = np.iinfo(dtype)
    data = rng.integers(-128, 128, (2, 128, 4)).astype(np.int8)
    data[:, 64:] = rng.choice(np.array(EDGES, np.int8), (2, 64, 4))
    near = [limits.min, limits.max, limits.max - 9, limits.min + 9, 0, -1, 1, -20000]
    accumulators = np.array(near * 16, dtype)
    a, b = (kernel.buffer("vector<4xi8>", data[n].copy(), 4) for n in (0, 1))
    c = kernel.buffer(f"i{result}", accumulators.copy())
    out = kernel.buffer(f"i{result}", np.zeros(128, dtype))
    value = kernel.op(
        f"spirv.{kind}DotAccSat {kernel.load(a)}, {kernel.load(b)}, {kernel.load(c)} "
        f": vector<4xi8> -> i{result}"
    )
    found = kernel.store(out, value).run(grid=(4, 1, 1))[3]
    rows = zip(data[0].tolist(), data[1].tolist(), accumulators.tolist(), strict=True)
    for (x, y, acc), z in zip(rows, found.tolist(), strict=True):
        total = exact(x, y, kind, 8) + bits(acc, result, sign)
        assert bits(z, result, sign) == clamp(total, result, sign)


def test_dot_15_narrow_results_wrap_and_uniform_operands_stay_uniform(kernel: Kernel) -> None:
    out = kernel.buffer("i8", np.zeros(32, np.int8))
    a = kernel.constant("dense<127>", "vector<4xi8>")
    value = kernel.op(f"spirv.SDot {a}, {a} : vector<4xi8> -> i8")
    assert kernel.store(out, value).run()[0].tolist() == [bits(4 * 127 * 127, 8, True)] * 32
