"""
Arithmetic of sizes that are known only when a program runs.
"""

from __future__ import annotations

from math import prod

import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f16
from xdsl.ir import Block

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.size_equations import names_of
from xdsl_spirv.passes.analysis.sizes import (
    Size,
    ceil_div,
    common_divisor,
    extents,
    is_dynamic,
    least,
    surely_below,
    typical_size,
)
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate, written
from xdsl_spirv.runtime.modules import parse_text

BLOCK = Block(arg_types=[TensorType(f16, [DYNAMIC_INDEX, 768]), TensorType(f16, [DYNAMIC_INDEX])])
M, WIDTH = extents(BLOCK.args[0])
(N,) = extents(BLOCK.args[1])


def text(size: int) -> int | str:
    return written(size, lambda each: "mn"[BLOCK.args.index(each.value)])  # pyright: ignore


def test_what_is_known_stays_known():
    row = prod([M, WIDTH])
    assert is_dynamic(row)
    assert row % 8 == 0
    assert M % 8 != 0
    assert row // 256 == 3 * M
    assert (row * N) // M == WIDTH * N
    assert common_divisor(row, 48) == 48
    assert M - M == 0
    assert not is_dynamic(M - M + 4)
    assert M != 512
    assert M != N
    assert M + N == N + M
    assert hash(M * N + 1) == hash(1 + N * M)


def test_what_holds_for_every_size():
    assert surely_below(M - 1, M)
    assert surely_below(M, M + N + 1)
    assert not surely_below(0, M)
    assert not surely_below(M, N + 1)
    assert surely_below(-1, M + N)


def test_a_size_is_its_typical_number_to_whoever_chooses():
    with typical_size(64):
        (m, _) = extents(BLOCK.args[0])
        assert int(m) == 64
        assert int(ceil_div(m, 48)) == 2
        assert m * 0.5 == 32.0
    assert M > 100
    assert int(least(M, 7)) == 7


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
def test_expressions(size: int, expected: str | int):
    found = text(size)
    # The order of factors is nobody's business.
    values = {"m": 45, "n": 7}
    assert evaluate(found, values, "") == evaluate(expected, values, "")
    assert isinstance(found, type(expected))


def test_parts_of_a_sum_that_divide_leave_the_quotient():
    found = (M * 64 + N * 3 + 10) // 32
    for m, n in ((1, 1), (5, 100), (0, 0)):
        assert evaluate(text(found), {"m": m, "n": n}, "") == (m * 64 + n * 3 + 10) // 32


def test_extents_stand_for_others():
    assert isinstance(M, Size)
    (extent,) = M.extents
    size = ceil_div(M * 3 + N, 16)
    assert isinstance(size, Size)
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
    with pytest.raises(ProgramError, match="depends on what a kernel computes"):
        written(size, names_of(function).name)
