"""Launches of elementwise shaders: unary, binary, gated, copies without quantization."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ggml.launch import Array, Case
from ggml.tensors import (
    TYPES,
    Tensor,
    binary_push,
    cover,
    fast_division,
    generator,
    numbers,
    unary_push,
)

HALF = 2e-3
"""Relative tolerance of f16 results: two units in the last place."""

SHAPES = ((2, 3, 5, 7), (1, 2, 3, 601))
erf = np.vectorize(math.erf)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def _gelu_erf(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _gelu_quick(x: Array) -> Array:
    return x * _sigmoid(1.702 * x)


def _xielu(x: Array) -> Array:
    negative = (np.expm1(np.minimum(x, -1e-6)) - x) * 0.8 + 0.5 * x
    return np.where(x > 0, 0.7 * x * x + 0.5 * x, negative)


UNARY: dict[str, tuple[Callable[[Array], Array], tuple[float, ...], tuple[float, float]]] = {
    "abs": (np.abs, (), (-2, 2)),
    "ceil": (np.ceil, (), (-3, 3)),
    "clamp": (lambda x: np.clip(x, -0.5, 0.75), (-0.5, 0.75), (-2, 2)),
    "cos": (np.cos, (), (-7, 7)),
    "elu": (lambda x: np.where(x < 0, np.expm1(x), x), (), (-3, 3)),
    "exp": (np.exp, (), (-3, 3)),
    "expm1": (np.expm1, (), (-1, 1)),
    "floor": (np.floor, (), (-3, 3)),
    "gelu": (_gelu, (), (-4, 4)),
    "gelu_erf": (_gelu_erf, (), (-4, 4)),
    "gelu_quick": (_gelu_quick, (), (-4, 4)),
    "hardsigmoid": (lambda x: np.clip((x + 3) / 6, 0, 1), (), (-5, 5)),
    "hardswish": (lambda x: x * np.clip((x + 3) / 6, 0, 1), (), (-5, 5)),
    "leaky_relu": (lambda x: np.where(x < 0, 0.1 * x, x), (0.1,), (-2, 2)),
    "log": (np.log, (), (0.01, 9)),
    "neg": (np.negative, (), (-2, 2)),
    "relu": (lambda x: np.maximum(x, 0), (), (-2, 2)),
    "round": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), (), (-3, 3)),
    "sgn": (np.sign, (), (-2, 2)),
    "sigmoid": (_sigmoid, (), (-5, 5)),
    "silu": (lambda x: x * _sigmoid(x), (), (-5, 5)),
    "sin": (np.sin, (), (-7, 7)),
    "softplus": (lambda x: np.logaddexp(x, 0), (), (-4, 25)),
    "sqr": (np.square, (), (-2, 2)),
    "sqrt": (np.sqrt, (), (0, 9)),
    "step": (lambda x: (x > 0).astype(float), (), (-2, 2)),
    "tanh": (np.tanh, (), (-3, 3)),
    "trunc": (np.trunc, (), (-3, 3)),
    "xielu": (_xielu, (0.8, 0.7, 0.5, -1e-6), (-3, 3)),
}
"""Function, parameters and range of arguments of each unary operation."""

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
}

GATED: dict[str, Callable[[Array], Array]] = {
    "geglu": _gelu,
    "geglu_erf": _gelu_erf,
    "geglu_quick": _gelu_quick,
    "reglu": lambda x: np.maximum(x, 0),
    "swiglu": lambda x: x * _sigmoid(x),
}


def rounding(type: str) -> dict[str, float]:
    """Returns the tolerances of a result type as fields of `Case`."""
    return {"f32": {}, "f16": {"relative": HALF, "absolute": 1e-4}, "bf16": {"relative": 1e-2}}[
        type
    ]


def unary() -> Iterator[Case]:
    """Yields cases of unary operations: on permuted tensors with offsets, and on long rows."""
    for (name, (function, parameters, (low, high))), type in itertools.product(
        UNARY.items(), ("f32", "f16")
    ):
        random = generator(name + type)
        for shape in SHAPES:
            strided = shape is SHAPES[0]
            values = numbers(random, shape, type, low, high)
            order = (0, 2, 1, 3) if strided else (0, 1, 2, 3)
            a = Tensor(values, order=order, offset=3 * strided)
            d = Tensor(function(a.values).astype(TYPES[type]), spare=2 * strided, offset=strided)
            yield Case(
                f"{name}_{type}",
                cover(d.count),
                {0: a.buffer, 1: d.blank},
                {1: d.buffer},
                unary_push(a, d, parameters),
                **rounding(type),
                note="strides and offsets" if strided else "long rows",
            )


def binary() -> Iterator[Case]:
    """Yields cases of binary operations: with a repeated second source, or with equal shapes."""
    types = ("f32", "f16")
    for (name, function), *kinds in itertools.product(BINARY.items(), types, types, types):
        random = generator(name + "".join(kinds))
        for repeated in (True, False):
            shape, other = ((2, 3, 5, 7), (1, 3, 1, 7)) if repeated else ((1, 1, 3, 401),) * 2
            a = Tensor(numbers(random, shape, kinds[0]), order=(0, 2, 1, 3), offset=1)
            b = Tensor(numbers(random, other, kinds[1], 0.5, 2), offset=2)
            d = Tensor(function(a.values, b.values).astype(TYPES[kinds[2]]), spare=3)
            yield Case(
                f"{name}_{'_'.join(kinds)}",
                cover(d.count),
                {0: a.buffer, 1: b.buffer, 2: d.blank, 3: np.zeros(1, np.float32)}
                if name == "add"
                else {0: a.buffer, 1: b.buffer, 2: d.blank},
                {2: d.buffer},
                binary_push(a, b, d),
                {0: not repeated},
                **rounding(kinds[2]),
                note="repeated" if repeated else "one shape",
            )


def add_and_square_sums() -> Iterator[Case]:
    """Yields cases of an addition that also stores sums of squares for the following norm."""
    for kinds in itertools.product(("f32", "f16"), repeat=3):
        random = generator("add_rms" + "".join(kinds))
        a = Tensor(numbers(random, (1, 1, 1, 1100), kinds[0]))
        b = Tensor(numbers(random, (1, 1, 1, 1100), kinds[1]))
        sums = a.values + b.values
        d = Tensor(sums.astype(TYPES[kinds[2]]))
        squares = np.zeros(3 * 512)
        squares[:1100] = np.square(sums.ravel())
        partial = squares.reshape(3, 512).sum(1).astype(np.float32)
        yield Case(
            f"add_rms_{'_'.join(kinds)}",
            cover(d.count),
            {0: a.buffer, 1: b.buffer, 2: d.blank, 3: np.zeros(3, np.float32)},
            {2: d.buffer, 3: partial},
            binary_push(a, b, d, (0.0, 0.0, 1)),
            {0: True},
            **rounding(kinds[2]),
        )


def gated() -> Iterator[Case]:
    """Yields cases of gated activations: the halves of a row in either order, or two sources."""
    for type, mode in itertools.product(("f32", "f16"), (0, 1, 2)):
        for name, function in GATED.items():
            yield _gated(name, type, mode, lambda a, b, function=function: function(a) * b)
        yield _gated("swiglu_oai", type, mode, _swiglu_oai)


def _swiglu_oai(a: Array, b: Array) -> Array:
    x, gate = np.minimum(a, 1.5), np.clip(b, -1.5, 1.5)
    return x * _sigmoid(1.7 * x) * (1 + gate)


def _gated(name: str, type: str, mode: int, function: Callable[[Array, Array], Array]) -> Case:
    random = generator(name + type + str(mode))
    columns = 37
    shape = (2, 2, 3, columns if mode == 2 else 2 * columns)
    a = Tensor(numbers(random, shape, type, -3, 3), spare=1, offset=1)
    b = Tensor(numbers(random, shape, type, -3, 3), spare=2, offset=2) if mode == 2 else a
    halves = (a.values, b.values) if mode == 2 else np.split(a.values, 2, axis=3)
    first, second = halves[::-1] if mode == 1 else halves
    d = Tensor(function(first, second).astype(TYPES[type]), offset=3)
    push = {"N": d.count, "ne00": a.ne[0], "mode": mode, "alpha": 1.7, "limit": 1.5}
    push |= {f"ne2{axis}": d.ne[axis] for axis in range(3)}
    for number, tensor in ((0, a), (1, b), (2, d)):
        push |= {f"nb{number}{axis}": tensor.nb[axis] for axis in range(4)}
    push["misalign_offsets"] = a.offset << 16 | b.offset << 8 | d.offset
    x, y, z, _ = d.ne
    for suffix, size in (("012", x * y * z), ("01", x * y), ("0", x)):
        push[f"ne2_{suffix}mp"], push[f"ne2_{suffix}L"] = fast_division(size)
    buffers = {0: a.buffer, 1: b.buffer, 2: d.blank}
    return Case(
        f"{name}_{type}",
        cover(d.count),
        buffers,
        {2: d.buffer},
        push,
        **rounding(type),
        note=("default", "swapped", "split")[mode],
    )


def copies() -> Iterator[Case]:
    """Yields copies of strided, contiguous and transposed tensors between plain types."""
    pairs = ("f32_f32", "f32_f16", "f16_f16", "f16_f32", "f32_bf16", "bf16_f32", "f32_i32",
             "i32_f32")  # fmt: skip
    for pair in pairs:
        source, target = pair.split("_")
        random = generator(pair)
        for name, shape in (("cpy", SHAPES[0]), ("contig_cpy", SHAPES[1])):
            a = Tensor(
                numbers(random, shape, source, -40, 40),
                order=(0, 1, 2, 3) if name == "contig_cpy" else (1, 0, 2, 3),
                offset=2,
            )
            d = Tensor(a.view.astype(TYPES[target]), offset=1)
            grid = cover(d.count)
            yield Case(f"{name}_{pair}", grid, {0: a.buffer, 1: d.blank}, {1: d.buffer},
                       unary_push(a, d))  # fmt: skip
    for bits, (name, order) in itertools.product(
        (16, 32), (("cpy_transpose", (1, 0, 2, 3)), ("cpy_transpose_02", (2, 1, 0, 3)))
    ):
        values = generator(name).integers(0, 1 << 16, (2, 37, 2, 45)).astype(f"u{bits // 8}")
        a, d = Tensor(values, order=order), Tensor(values)
        outer = (d.ne[1], d.ne[2] * d.ne[3]) if name == "cpy_transpose" else (d.ne[2], d.ne[1] * 2)
        grid = (2, -(-outer[0] // 32), outer[1])
        push = unary_push(a, d)
        case = Case(f"{name}_{bits}", grid, {0: a.buffer, 1: d.blank}, {1: d.buffer}, push)
        yield case
        yield replace(case, grid=(1, 1, 2), note="one workgroup does several tiles")


def plain() -> Iterator[Case]:
    """Yields cases with few push constants: scaling, filling, counting, optimiser steps."""
    random = generator("plain")
    a = Tensor(numbers(random, (1, 1, 7, 333)), offset=1)
    d = Tensor((a.values * 1.5 - 0.25).astype(np.float32))
    yield Case("scale_f32", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
               unary_push(a, d, (1.5, -0.25)))  # fmt: skip
    push = {"KX": 700, "KY": 1, "param1": 2.5, "param2": 0.5, "param3": 0.0, "param4": 0.0}
    blank = np.zeros(700, np.float32)
    steps = (2.5 + 0.5 * np.arange(700)).astype(np.float32)
    yield Case("arange_f32", (2, 1, 1), {0: blank}, {0: steps}, push)
    for type in ("f32", "f16"):
        filled = np.full(700, 2.5, TYPES[type])
        yield Case(f"fill_{type}", (2, 1, 1), {0: filled * 0}, {0: filled}, push)
    x, g = numbers(random, (700,)), numbers(random, (700,))
    s = _sigmoid(x.astype(float))
    back = (g * (s + x * s * (1 - s))).astype(np.float32)
    yield Case("silu_back_f32", cover(700), {0: g, 1: x, 2: blank}, {2: back}, push)
    rates = np.array([0.1, 0.01], np.float32)
    sgd = (x * (1 - 0.1 * 0.01) - 0.1 * g.astype(float)).astype(np.float32)
    yield Case("opt_step_sgd_f32", cover(700), {0: x, 1: g, 2: rates}, {0: sgd}, push)
    yield _adamw(x, g, push)
    for name in ("f16_f16", "f16_f32", "f32_f32"):
        first, second = name.split("_")
        a = Tensor(numbers(random, (2, 3, 5, 7), first), offset=1)
        b = Tensor(numbers(random, (1,), second), offset=3)
        d = Tensor((a.values + b.values).astype(TYPES[first]), spare=2)
        yield Case(f"add1_{name}", cover(d.count), {0: a.buffer, 1: b.buffer, 2: d.blank},
                   {2: d.buffer}, binary_push(a, b, d), **rounding(first))  # fmt: skip


def _adamw(x: Array, g: Array, push: dict[str, float]) -> Case:
    random = generator("adamw")
    m, v = numbers(random, (700,)), numbers(random, (700,), low=0)
    rates = np.array([0.01, 0.9, 0.99, 1e-8, 0.1, 1.2, 1.1], np.float32)
    alpha, beta1, beta2, eps, decay, scale1, scale2 = rates.astype(float)
    m1 = m * beta1 + g * (1 - beta1)
    v1 = v * beta2 + g.astype(float) ** 2 * (1 - beta2)
    x1 = x * (1 - alpha * decay) - alpha * m1 * scale1 / (np.sqrt(v1 * scale2) + eps)
    after = {n: array.astype(np.float32) for n, array in ((0, x1), (2, m1), (3, v1))}
    buffers = {0: x, 1: g, 2: m, 3: v, 4: rates}
    return Case("opt_step_adamw_f32", cover(700), buffers, after, push)


def shapes() -> Iterator[Case]:
    """Yields cases that move elements: diagonals, triangles, rolling, padding, concatenation."""
    random = generator("shapes")
    for type in ("f32", "f16"):
        for kind, keep in enumerate((np.triu, lambda m: np.triu(m, 1), np.tril,
                                     lambda m: np.tril(m, -1))):  # fmt: skip
            a = Tensor(numbers(random, (2, 2, 19, 31), type), order=(1, 0, 2, 3))
            d = Tensor(keep(a.view).astype(TYPES[type]), spare=1)
            bits = struct.unpack("f", struct.pack("i", kind))[0]
            yield Case(f"tri_{type}", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                       unary_push(a, d, (bits,)), note=f"type {kind}")  # fmt: skip
        a = Tensor(numbers(random, (2, 3, 1, 23), type))
        d = Tensor((np.eye(23) * a.values).astype(TYPES[type]), spare=1)
        yield Case(f"diag_{type}", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                   unary_push(a, d))  # fmt: skip
    for bits in (16, 32):
        a = Tensor(random.integers(0, 1 << 15, (1, 2, 3, 5)).astype(f"i{bits // 8}"), spare=1)
        d = Tensor(np.tile(a.view, (2, 3, 1, 4)), offset=1)
        yield Case(f"repeat_i{bits}", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                   unary_push(a, d))  # fmt: skip
    a = Tensor(numbers(random, (2, 6, 3, 20)), order=(1, 0, 2, 3))
    sums = a.values.reshape(2, 1, 3, 2, 3, 1, 4, 5).sum((0, 2, 4, 6))
    d = Tensor(sums.astype(np.float32), offset=1)
    yield Case("repeat_back_f32", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
               unary_push(a, d), absolute=1e-5)  # fmt: skip
    yield from _rolled(random)
    yield from _padded(random)
    yield from _joined(random)
    for adds in (True, False):
        yield _windowed(random, adds)


def _rolled(random: np.random.Generator) -> Iterator[Case]:
    a = Tensor(numbers(random, (3, 4, 5, 150)), order=(0, 2, 1, 3))
    for shifts in ((11, -2, 1, -1), (-149, 4, -3, 2)):
        d = Tensor(np.roll(a.view, shifts[::-1], (0, 1, 2, 3)), offset=1)
        words = [(shifts[n] + 0x8000) << 16 | (shifts[n + 1] + 0x8000) for n in (0, 2)]
        bits = struct.unpack("2f", struct.pack("2I", *words))
        yield Case("roll_f32", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                   unary_push(a, d, bits))  # fmt: skip


def _padded(random: np.random.Generator) -> Iterator[Case]:
    for mode in ("constant", "wrap"):
        a = Tensor(numbers(random, (2, 3, 4, 50)), spare=3, offset=1)
        widths = ((1, 0), (2, 1), (0, 3), (5, 7))
        d = Tensor(np.pad(a.view, widths, mode=mode))
        push = {"ne": d.count, **a.sizes(0), **d.sizes(1)}
        push |= {"misalign_offsets": 1 << 16, "circular": int(mode == "wrap")}
        for axis, (left, right) in enumerate(widths[::-1]):
            push |= {f"lp{axis}": left, f"rp{axis}": right}
        yield Case("pad_f32", cover(d.count), {0: a.buffer, 1: d.blank}, {1: d.buffer}, push,
                   note=mode)  # fmt: skip


def _joined(random: np.random.Generator) -> Iterator[Case]:
    for bits, axis in itertools.product((8, 16, 32, 64), range(4)):
        one, two = [2, 3, 4, 30], [2, 3, 4, 30]
        two[3 - axis] = 5
        a, b = (
            Tensor(random.integers(0, 100, shape).astype(f"u{bits // 8}"), spare=2, offset=1)
            for shape in (one, two)
        )
        d = Tensor(np.concatenate((a.view, b.view), 3 - axis))
        yield Case(f"concat_i{bits}", cover(d.count), {0: a.buffer, 1: b.buffer, 2: d.blank},
                   {2: d.buffer}, binary_push(a, b, d, (0.0, 0.0, axis)), {0: False},
                   note=f"axis {axis}")  # fmt: skip


def _windowed(random: np.random.Generator, adds: bool) -> Case:
    a = Tensor(numbers(random, (1, 3, 5, 60)))
    b = Tensor(numbers(random, (1, 2, 3, 17)))
    after = a.values.copy()
    window = after[:, 1:3, 1:4, 4:21]
    window[...] = window * adds + b.values
    d = Tensor(after.astype(np.float32))
    push = binary_push(a, b, d, (0.0, 0.0, 4 + 60 + 300))
    return Case("acc_f32", (2, 1, 1), {0: a.buffer, 1: b.buffer, 2: d.blank}, {2: d.buffer},
                push, {0: False, 1: adds}, note="acc" if adds else "set")  # fmt: skip


FAMILIES = (unary, binary, add_and_square_sums, gated, copies, plain, shapes)
