"""Symbolic arithmetic of dynamic sizes agrees with integers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, f16, i64
from xdsl.ir import Block, Operation

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import names_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    TYPICAL_SIZE,
    Size,
    UnknownSizeError,
    ceil_div,
    common_divisor,
    exact_quotient,
    format_size,
    is_dynamic,
    is_multiple,
    least,
    static,
    surely_below,
    typical,
)
from xdsl_spirv.passes.analysis.sizes import SizeCode, extents
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate
from xdsl_spirv.runtime.modules import parse_text

BLOCK = Block(arg_types=[TensorType(f16, [DYNAMIC_INDEX, 768]), TensorType(f16, [DYNAMIC_INDEX])])
M, WIDTH = extents(BLOCK.args[0])
(N,) = extents(BLOCK.args[1])
assert is_dynamic(M)
assert is_dynamic(N)


def text(size: Size) -> int | str:
    return format_size(size, lambda each: "mn"[BLOCK.args.index(each.value)])  # pyright: ignore


def test_known_sizes_stay_known():
    row = prod([M, WIDTH])
    assert is_dynamic(row)
    assert is_multiple(row, 8)
    assert not is_multiple(M, 8)
    assert row // 256 == 3 * M
    assert exact_quotient(row * N, M) == WIDTH * N
    assert common_divisor(row, 48) == 48
    assert M - M == 0
    assert not is_dynamic(M - M + 4)
    assert M != 512
    assert M != N
    assert M + N == N + M
    assert hash(M * N + 1) == hash(1 + N * M)


def test_facts_are_proved_for_every_size():
    assert surely_below(M - 1, M)
    assert surely_below(M, M + N + 1)
    assert not surely_below(0, M)
    assert not surely_below(M, N + 1)
    assert surely_below(-1, M + N)
    assert surely_below(-1, ceil_div(M, 32))
    # A dividend, or the minimum of two sizes, may be negative.
    assert not surely_below(-1, (M - 64) // 3)
    assert not surely_below(-1, least(M - 64, 5))
    assert not surely_below(-1, least(M, -5))


def test_dynamic_sizes_have_typical_values():
    assert (typical(M), typical(7), typical(least(M, 7))) == (512, 7, 7)
    text = "func.func @main(%a: tensor<?x8xf32>) { return }"
    module = parse_text(text)
    (m, _) = extents(host_function(module).body.block.args[0])
    assert typical(ceil_div(m, 48)) == 11
    module.attributes[TYPICAL_SIZE] = IntegerAttr(64, i64)
    assert typical(m) == 64
    assert typical(ceil_div(m, 48)) == 2


def test_a_symbolic_size_cannot_be_used_as_a_number():
    assert is_dynamic(M)
    assert not isinstance(M, int)
    undefined: list[Callable[[Any], object]] = [
        int, float, bool, round, range, abs, divmod_by_64, hex,
        lambda m: [0][m], lambda m: m % 8, lambda m: 4096 // m, lambda m: m / 2, lambda m: m * 0.5,
        lambda m: m >> 1, lambda m: m & 63, lambda m: m**2, lambda m: 2**m, lambda m: m < 8,
        lambda m: m >= N, lambda m: 8 <= m, lambda m: max(m, 1), lambda m: sorted([m, 3]),
        lambda m: m // 0, lambda m: m // -2, lambda m: m // N, lambda m: (m + 1) // m,
        lambda m: static([m]), lambda m: "a" * m, lambda m: not m,
    ]  # fmt: skip
    for operation in undefined:
        with pytest.raises((TypeError, UnknownSizeError)):
            operation(M)


def divmod_by_64(size: Any) -> object:
    return divmod(size, 64)


ATOMS = st.sampled_from(["m", "n", "1", "3", "64"])


def build(node: Any, m: Size, n: Size) -> Size:
    """Evaluates a tree of operations on two dynamic sizes."""
    match node:
        case str():
            return {"m": m, "n": n}[node] if node in "mn" else int(node)
        case ("+", a, b):
            return build(a, m, n) + build(b, m, n)
        case ("-", a, b):
            return build(a, m, n) - build(b, m, n)
        case ("*", a, b):
            return build(a, m, n) * build(b, m, n)
        case ("//", a, int(b)):
            return build(a, m, n) // b
        case ("ceil", a, int(b)):
            return ceil_div(build(a, m, n), b)
        case ("least", a, int(b)):
            return least(build(a, m, n), b)
        case _:
            raise AssertionError(node)


def trees(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    binary = st.tuples(st.sampled_from("+-*"), inner, inner)
    return binary | st.tuples(st.sampled_from(["//", "ceil", "least"]), inner, st.integers(1, 70))


TREES = st.recursive(ATOMS, trees, max_leaves=8)
COUNTS = st.integers(1, 200)


def value(size: Size, m: int, n: int) -> int:
    if isinstance(size, int):
        return size
    known = {extent: (m, n)[BLOCK.args.index(extent.value)] for extent in size.extents}  # pyright: ignore
    at = size.replaced(known)
    assert isinstance(at, int)
    return at


@settings(deadline=None)
@given(TREES, COUNTS, COUNTS)
def test_symbolic_arithmetic_agrees_with_integers(tree: Any, m: int, n: int):
    expected = build(tree, m, n)
    size = build(tree, M, N)
    assert value(size, m, n) == expected
    assert evaluate(text(size), {"m": m, "n": n}, "") == expected
    assert typical(size) == build(tree, 512, 512)


@settings(deadline=None)
@given(TREES, TREES, COUNTS, COUNTS, st.integers(1, 70))
def test_proved_facts_hold_for_random_sizes(one: Any, other: Any, m: int, n: int, divisor: int):
    a, b = build(one, M, N), build(other, M, N)
    if a == b:
        assert hash(a) == hash(b)
        assert value(a, m, n) == value(b, m, n)
    if surely_below(a, b):
        assert value(a, m, n) < value(b, m, n)
        assert value(a, 0, 0) < value(b, 0, 0)
    if is_multiple(a, divisor):
        assert value(a, m, n) % divisor == 0
    assert value(a, m, n) % (common_divisor(a, divisor) or 1) == 0
    quotient = exact_quotient(a, b)
    if quotient is not None:
        assert value(quotient, m, n) * value(b, m, n) == value(a, m, n)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (ceil_div(M, 32), "((m + 31) / 32)"),
        (ceil_div(M * 64 + 3, 32), "m * 2 + 1"),
        (M * N * 12 - 2 * N, "m * n * 12 - n * 2"),
        (least(M * 3, 100), "min(m * 3, 100)"),
        (M - M + 7, 7),
    ],
)
def test_sizes_are_printed_as_expressions(size: Size, expected: str | int):
    found = text(size)
    # The order of factors does not matter.
    values = {"m": 45, "n": 7}
    assert evaluate(found, values, "") == evaluate(expected, values, "")
    assert isinstance(found, type(expected))


def test_parts_of_a_sum_that_divide_leave_the_quotient():
    found = (M * 64 + N * 3 + 10) // 32
    for m, n in ((1, 1), (5, 100), (0, 0)):
        assert evaluate(text(found), {"m": m, "n": n}, "") == (m * 64 + n * 3 + 10) // 32


def test_extents_can_be_replaced():
    assert is_dynamic(M)
    (extent,) = M.extents
    size = ceil_div(M * 3 + N, 16)
    assert is_dynamic(size)
    assert size.replaced({extent: N}) == ceil_div(N * 4, 16)
    assert size.replaced({extent: 16}) == ceil_div(N + 48, 16)


CONCATENATED = """
func.func @main(%A: tensor<?x4xf32>, %B: tensor<?x4xf32>, %C: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %j = tensor.concat dim(0) %A, %B : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = linalg.add ins(%j, %C : tensor<?x4xf32>, tensor<?x4xf32>)
                  outs(%C : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""


def test_equations_between_sizes():
    names = names_of(host_function(parse_text(CONCATENATED)))
    assert set(names.of.values()) == {"A_0", "B_0", "C_0"}
    (equation,) = names.equations
    values = {"A_0": 2, "B_0": 3, "C_0": 5}
    assert evaluate(equation.left, values, "") == evaluate(equation.right, values, "") == 5
    assert "linalg.add" in equation.because


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ((N - 1) // 2 + 1, arith.FloorDivSIOp),
        ((N + 1) // 2, arith.DivUIOp),
        (least(N - 3, 8), arith.MinSIOp),
        (least(N, 8), arith.MinUIOp),
    ],
)
def test_sizes_that_may_be_negative_are_computed_with_a_sign(size: Size, kind: type[Operation]):
    written: list[Operation] = []
    SizeCode(written.append).value(size)
    assert kind in map(type, written)


def test_a_size_that_a_kernel_computes_has_no_name():
    function = host_function(
        parse_text("""
        func.func @main(%n: tensor<1xindex>) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %s = tensor.extract %n[%c0] : tensor<1xindex>
          %e = tensor.empty(%s) : tensor<?xf32>
          return %e : tensor<?xf32>
        }""")
    )
    last = function.body.block.last_op
    assert last is not None
    (size,) = extents(last.operands[0])
    with pytest.raises(ProgramError, match="depends on a value that a kernel computes"):
        format_size(size, names_of(function).name)


def test_a_broadcast_has_the_sizes_of_the_tensor_that_it_fills():
    function = host_function(
        parse_text("""
        func.func @main(%x: tensor<?xf32>) -> tensor<?x3xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?xf32>
          %e = tensor.empty(%n) : tensor<?x3xf32>
          %y = linalg.broadcast ins(%x : tensor<?xf32>) outs(%e : tensor<?x3xf32>) dimensions = [1]
          return %y : tensor<?x3xf32>
        }""")
    )
    last = function.body.block.last_op
    assert last is not None
    assert extents(last.operands[0]) == (*extents(function.body.block.args[0]), 3)
