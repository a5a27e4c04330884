"""A hexadecimal element of a float literal is a bit pattern, in every dialect and syntax."""

import math

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith, ConstantOp
from xdsl.dialects.builtin import Builtin, DenseIntOrFPElementsAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.upstream import dense_literals


def values(literal: str) -> tuple[float, ...]:
    dense_literals.install()
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Arith)
    constant = Parser(context, f"%0 = arith.constant {literal}").parse_op()
    assert isinstance(constant, ConstantOp)
    assert isinstance(constant.value, DenseIntOrFPElementsAttr)
    return tuple(v for v in constant.value.iter_values() if isinstance(v, int | float))


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("dense<0xFF800000> : tensor<2xf32>", (-math.inf, -math.inf)),
        ("dense<[0x7F800000, 1.5]> : tensor<2xf32>", (math.inf, 1.5)),
        ("dense<0xFC00> : tensor<1xf16>", (-math.inf,)),
        ("dense<0xFF80> : vector<1xbf16>", (-math.inf,)),
        ("dense<0xFFF0000000000000> : tensor<1xf64>", (-math.inf,)),
        ("dense<[-2.0, 3.0]> : tensor<2xf32>", (-2.0, 3.0)),
        ("dense<0x10> : tensor<1xi32>", (16.0,)),
    ],
)
def test_bit_patterns(literal: str, expected: tuple[float, ...]):
    assert values(literal) == expected


def test_too_many_bits():
    with pytest.raises(ParseError, match="more bits than f16"):
        values("dense<0xFF800000> : tensor<1xf16>")
