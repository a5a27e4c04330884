"""
Integers of widths without kernels, and elements of type `index`, give the results of Python's
integers.

Covers: graph/widen_integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import InterpreterError, interpret
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text

Meaning = Callable[[int, int, int], int]
WIDTHS = (2, 3, 4, 7, 9, 24, 48)


def low(number: int, width: int) -> int:
    """Returns the unsigned number with the same low bits."""
    return number & ((1 << width) - 1)


def divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


MEANINGS: dict[str, Meaning] = {
    "addi": lambda a, b, w: a + b,
    "subi": lambda a, b, w: a - b,
    "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b,
    "ori": lambda a, b, w: a | b,
    "xori": lambda a, b, w: a ^ b,
    "minsi": lambda a, b, w: min(a, b),
    "maxui": lambda a, b, w: max(low(a, w), low(b, w)),
    "divsi": lambda a, b, w: divide(a, b),
    "remsi": lambda a, b, w: a - divide(a, b) * b,
    "divui": lambda a, b, w: low(a, w) // low(b, w),
    "remui": lambda a, b, w: low(a, w) % low(b, w),
    "shli": lambda a, b, w: a << (low(b, w) % w),
    "shrsi": lambda a, b, w: a >> (low(b, w) % w),
    "shrui": lambda a, b, w: low(a, w) >> (low(b, w) % w),
}


def storage(width: int) -> str:
    return f"i{next(n for n in (8, 16, 32, 64) if n >= width)}"


@pytest.mark.parametrize("width", WIDTHS)
def test_arithmetic_keeps_the_lower_bits(width: int):
    """The upper bits of the caller's numbers are arbitrary."""
    kind, numbers = f"i{width}", np.random.default_rng(width)
    t, count = f"tensor<16x{kind}>", len(MEANINGS)
    lines = [f"%r{n} = arith.{name} %x, %b : {kind}" for n, name in enumerate(MEANINGS)]
    for n, name in enumerate(MEANINGS):
        if name.startswith("sh"):
            # A shift amount must be below the width.
            lines[n] = lines[n].replace("%b", "%shift")
    maps = ", ".join(["affine_map<(d0) -> (d0)>"] * (2 + count))
    outs = ", ".join(["%e"] * count)
    args = ", ".join(f"%o{n}: {kind}" for n in range(count))
    results = ", ".join(f"%r{n}" for n in range(count))
    text = f"""
    func.func @main(%x: {t}, %y: {t}) -> ({", ".join([t] * count)}) {{
      %e = tensor.empty() : {t}
      %g:{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
          ins(%x, %y : {t}, {t}) outs({outs} : {", ".join([t] * count)}) {{
      ^bb0(%x_: {kind}, %b: {kind}, {args}):
        %w = arith.constant {width if width > 2 else -2} : {kind}
        %shift = arith.remui %b, %w : {kind}
        {" ".join(lines).replace("%x,", "%x_,")}
        linalg.yield {results} : {", ".join([kind] * count)}
      }} -> ({", ".join([t] * count)})
      return {", ".join(f"%g#{n}" for n in range(count))} : {", ".join([t] * count)}
    }}"""
    half = 1 << (width - 1)
    a = [int(n) for n in numbers.integers(-half, half, 16)]
    b = [int(n) or 1 for n in numbers.integers(-half, half, 16)]
    pairs = [(m, n if (m, n) != (-half, -1) else 1) for m, n in zip(a, b, strict=True)]
    is_kept = width in (2, 4)
    dtype = dtype_of(kind if is_kept else storage(width))
    beyond = 0 if is_kept else 1 << width
    given = {
        "x": np.array([m for m, _ in pairs], dtype),
        "y": np.array([n + (beyond if width < 9 else 0) for _, n in pairs], np.int64).astype(dtype),
    }
    outcome = run(compile_module(parse_text(text), "lavapipe"), given)
    for (name, meaning), result in zip(MEANINGS.items(), outcome.values(), strict=True):
        for (m, n), got in zip(pairs, result, strict=True):
            wanted = low(meaning(m, n, width), width)
            assert low(int(got), width) == wanted, (name, m, n)


@pytest.mark.parametrize("width", [w for w in WIDTHS if w < 32])
def test_products_of_narrow_integers(width: int):
    """Factors are sign- or zero-extended to i32, and products summed in the narrow type."""
    kind = f"i{width}"
    a, b, c = (f"tensor<{sizes}x{kind}>" for sizes in ("5x6", "6x3", "5x3"))
    text = f"""
    func.func @main(%a: {a}, %b: {b}) -> (tensor<5x3xi32>, tensor<5x3xi32>, {c}) {{
      %z = arith.constant 0 : i32
      %e = tensor.empty() : tensor<5x3xi32>
      %f = linalg.fill ins(%z : i32) outs(%e : tensor<5x3xi32>) -> tensor<5x3xi32>
      %s = linalg.matmul ins(%a, %b : {a}, {b}) outs(%f : tensor<5x3xi32>) -> tensor<5x3xi32>
      %u = linalg.matmul {{cast = #linalg.type_fn<cast_unsigned>}}
          ins(%a, %b : {a}, {b}) outs(%f : tensor<5x3xi32>) -> tensor<5x3xi32>
      %one = arith.constant 1 : {kind}
      %h = tensor.empty() : {c}
      %g = linalg.fill ins(%one : {kind}) outs(%h : {c}) -> {c}
      %n = linalg.matmul ins(%a, %b : {a}, {b}) outs(%g : {c}) -> {c}
      return %s, %u, %n : tensor<5x3xi32>, tensor<5x3xi32>, {c}
    }}"""
    half, numbers = 1 << (width - 1), np.random.default_rng(width)
    x, y = (numbers.integers(-half, half, size) for size in ((5, 6), (6, 3)))
    dtype = dtype_of(kind if width in (2, 4) else storage(width))
    given = {"a": x.astype(dtype), "b": y.astype(dtype)}
    outcome = list(run(compile_module(parse_text(text), "lavapipe"), given).values())
    bits = (1 << width) - 1
    wanted = [x @ y, (x & bits) @ (y & bits)]
    for got, expected in zip(outcome, wanted, strict=False):
        np.testing.assert_array_equal(got, expected.astype(np.int32))
    np.testing.assert_array_equal(outcome[2].astype(np.int64) & bits, (x @ y + 1) & bits)


INDEXES = """
func.func @main(%x: tensor<6xindex>, %t: tensor<6xf32>) -> (tensor<6xindex>, tensor<6xf32>) {
  %e = tensor.empty() : tensor<6xindex>
  %f = tensor.empty() : tensor<6xf32>
  %c = arith.constant dense<[5, 4, 3, 2, 1, 0]> : tensor<6xindex>
  %far = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
      affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x, %c : tensor<6xindex>, tensor<6xindex>) outs(%e : tensor<6xindex>) {
  ^bb0(%a: index, %b: index, %o: index):
    %i = linalg.index 0 : index
    %k = arith.constant 5000000000 : index
    %p = arith.muli %a, %k : index
    %q = arith.addi %p, %i : index
    %r = arith.subi %q, %b : index
    linalg.yield %r : index
  } -> tensor<6xindex>
  %taken = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%c : tensor<6xindex>) outs(%f : tensor<6xf32>) {
  ^bb0(%a: index, %o: f32):
    %v = tensor.extract %t[%a] : tensor<6xf32>
    linalg.yield %v : f32
  } -> tensor<6xf32>
  return %far, %taken : tensor<6xindex>, tensor<6xf32>
}"""


def test_index_elements_have_64_bits():
    x, t = np.array([0, 1, -1, 2, 3, 7]), np.arange(6, dtype=np.float32)
    down = np.arange(6)[::-1]
    wanted = x * 5_000_000_000 + np.arange(6) - down, t[down]
    compiled = run(compile_module(parse_text(INDEXES), "lavapipe"), {"x": x, "t": t}).values()
    for results in (compiled, interpret(parse_text(INDEXES), [x, t])):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


PACKED_OPEN = """
func.func @main(%x: tensor<?x?xf32>, %p: f32) -> tensor<?x?x?x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %tall = arith.ceildivsi %m, %c4 : index
  %wide = arith.ceildivsi %n, %c3 : index
  %e = tensor.empty(%tall, %wide, %c4) : tensor<?x?x?x3xf32>
  %r = linalg.pack %x padding_value(%p : f32) inner_dims_pos = [0, 1] inner_tiles = [%c4, 3]
      into %e {note} : tensor<?x?xf32> -> tensor<?x?x?x3xf32>
  return %r : tensor<?x?x?x3xf32>
}"""
UNPACKED_OPEN = """
func.func @main(%x: tensor<?x?x4x3xf32>, %e: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c4 = arith.constant 4 : index
  %r = linalg.unpack %x outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, 3]
      into %e : tensor<?x?x4x3xf32> -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
PADDED_OPEN = """
func.func @main(%x: tensor<?x?xf32>, %p: f32, %left: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %more = arith.subi %m, %c2 : index
  %r = tensor.pad %x low[%left, 1] high[%more, %c2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %p : f32
  } : tensor<?x?xf32> to tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
SHAPES = [(1, 1), (4, 3), (5, 7), (9, 2)]


def check(text: str, given: dict[str, Array], wanted: Array) -> None:
    """Compares the results of program and interpreter with the expected result."""
    (compiled,) = run(compile_module(parse_text(text), "lavapipe"), given).values()
    (interpreted,) = interpret(parse_text(text), list(given.values()))
    np.testing.assert_array_equal(compiled, wanted)
    np.testing.assert_array_equal(interpreted, wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_of_open_sizes(shape: tuple[int, int]):
    """The last tile is padded. Surplus tiles of a packed tensor are not read."""
    m, n = shape
    x, p = np.random.default_rng(m).random(shape, np.float32), np.array(2.5, np.float32)
    whole = np.pad(x, [(0, -m % 4), (0, -n % 3)], constant_values=p)
    tall, wide = -(-m // 4), -(-n // 3)
    packed = whole.reshape(tall, 4, wide, 3).transpose(0, 2, 1, 3)
    check(PACKED_OPEN, {"x": x, "p": p}, packed)
    room = np.zeros(shape, np.float32)
    for more in ((0, 0), (1, 0), (2, 3)):
        tiles = np.pad(packed, [(0, more[0]), (0, more[1]), (0, 0), (0, 0)], constant_values=9)
        check(UNPACKED_OPEN, {"x": tiles.transpose(1, 0, 2, 3).copy(), "e": room}, x)


def test_paddings_of_open_sizes():
    """A padding of 0 is allowed. The program refuses a negative padding before it runs."""
    p = np.array(2.5, np.float32)
    program = compile_module(parse_text(PADDED_OPEN), "lavapipe")
    for m, left in ((2, 0), (3, 2), (7, 1)):
        x = np.arange(m * 3, dtype=np.float32).reshape(m, 3)
        wanted = np.pad(x, [(left, m - 2), (1, 2)], constant_values=p)
        given: dict[str, Array] = {"x": x, "p": p, "left": np.array(left)}
        check(PADDED_OPEN, given, wanted)
    short: dict[str, Array] = {"x": np.zeros((1, 3), np.float32), "p": p, "left": np.array(0)}
    with pytest.raises(ProgramError, match=r"0 <= .*- 2|tensor.pad"):
        run(program, short)
    with pytest.raises(InterpreterError, match="negative"):
        interpret(parse_text(PADDED_OPEN), list(short.values()))


TRAITS = """
#trait = {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
  affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
func.func @main(%x: tensor<3x4xf32>, %e: tensor<3x4xf32>, %s: tensor<3xf32>)
    -> (tensor<3x4xf32>, tensor<3xf32>) {
  %r:2 = linalg.generic #trait ins(%x : tensor<3x4xf32>)
      outs(%e, %s : tensor<3x4xf32>, tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32, %t: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %p, %q : f32, f32
  } -> (tensor<3x4xf32>, tensor<3xf32>)
  return %r#0, %r#1 : tensor<3x4xf32>, tensor<3xf32>
}"""


def test_a_reduction_loop_may_index_an_output():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    squares, sums = interpret(parse_text(TRAITS), [x, x * 0, np.ones(3, np.float32)])
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_array_equal(sums, 1 + (x * x).sum(1))
    with pytest.raises(ProgramError, match=r"'linalg.generic'.* a reduction loop indexes an"):
        compile_module(parse_text(TRAITS), "lavapipe")


EXTENDED = """
func.func @main(%x: T, %y: T) -> (T, tensor<32xi1>, T, T, T, T) {
  %e = tensor.empty() : T
  %t = tensor.empty() : tensor<32xi1>
  %r:6 = linalg.generic {indexing_maps = [M, M, M, M, M, M, M, M], iterator_types = ["parallel"]}
      ins(%x, %y : T, T) outs(%e, %t, %e, %e, %e, %e : T, tensor<32xi1>, T, T, T, T) {
  ^bb0(%a: WIDE, %b: WIDE, %o: WIDE, %p: i1, %q: WIDE, %u: WIDE, %v: WIDE, %w: WIDE):
    %sum, %carry = arith.addui_extended %a, %b : WIDE, i1
    %sl, %sh = arith.mulsi_extended %a, %b : WIDE
    %ul, %uh = arith.mului_extended %a, %b : WIDE
    linalg.yield %sum, %carry, %sl, %sh, %ul, %uh : WIDE, i1, WIDE, WIDE, WIDE, WIDE
  } -> (T, tensor<32xi1>, T, T, T, T)
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : T, tensor<32xi1>, T, T, T, T
}"""


@pytest.mark.parametrize("width", [8, 16, 32])
def test_sums_with_a_carry_and_both_halves_of_products(width: int):
    words = {"T": "tensor<32xWIDE>", "M": "affine_map<(d0) -> (d0)>", "WIDE": f"i{width}"}
    text = EXTENDED
    for word, meaning in words.items():
        text = re.sub(rf"\b{word}\b|(?<=x){word}\b", meaning, text)
    draw, half = np.random.default_rng(width), 1 << (width - 1)
    x, y = (draw.integers(-half, half, 32) for _ in "xy")
    dtype, bits = dtype_of(f"i{width}"), (1 << width) - 1
    given = {"x": x.astype(dtype), "y": y.astype(dtype)}
    got = list(run(compile_module(parse_text(text), "lavapipe"), given).values())
    a, b = ([int(n) for n in numbers] for numbers in (x, y))
    plain = [(low(m, width), low(n, width)) for m, n in zip(a, b, strict=True)]
    signed = [m * n for m, n in zip(a, b, strict=True)]
    wanted = [
        [m + n & bits for m, n in plain], [m + n > bits for m, n in plain],
        [p & bits for p in signed], [p >> width & bits for p in signed],
        [m * n & bits for m, n in plain], [m * n >> width for m, n in plain],
    ]  # fmt: skip
    for result, expected in zip(got, wanted, strict=True):
        assert [low(int(n), width) for n in result] == [int(n) for n in expected]
