"""Hexadecimal literals of floats are bit patterns, and raw bytes have MLIR's layout."""

import math
import random
import shutil
import subprocess

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith, ConstantOp
from xdsl.dialects.builtin import Builtin, DenseIntOrFPElementsAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.upstream import dense_literals
from xdsl_spirv.upstream.dense_literals import AS_NUMBERS

MLIR_OPT = shutil.which("mlir-opt-22")


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
        ('dense<"0x0D"> : tensor<5xi1>', (-1, 0, -1, -1, 0)),
        ('dense<"0xFF"> : tensor<9xi1>', (-1,) * 9),
        ('dense<"0x010E03"> : tensor<3xi4>', (1, -2, 3)),
        ('dense<"0x010000000000FEFFFFFFFFFF"> : tensor<2xi48>', (1, -2)),
    ],
)
def test_bit_patterns(literal: str, expected: tuple[float, ...]):
    assert values(literal) == expected


def test_too_many_bits():
    with pytest.raises(ParseError, match="more bits than f16"):
        values("dense<0xFF800000> : tensor<1xf16>")


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("count", [1, 7, 8, 203])
@pytest.mark.parametrize("element", ["i1", "i4", "i8", "i24", "i48", "i64", "ui4", "si24", "f16"])
def test_hexadecimal_text_as_mlir_prints_it(element: str, count: int):
    kind, width = element.rstrip("0123456789"), int(element.strip("uisf"))
    least, most = (0, 1 << width) if kind == "ui" else (-1 << width - 1, 1 << width - 1)
    numbers = random.Random(count)
    expected = [numbers.randrange(least, most) for _ in range(count)]
    written = list(map(str, expected))
    if element == "i1":
        written = ["true" if v else "false" for v in expected]
    elif kind == "f":
        written = [f"{v}.0" for v in expected]
    op = f'"test.op"() {{a = dense<[{", ".join(written)}]> : tensor<{count}x{element}>}} : () -> ()'
    flags = ["--allow-unregistered-dialect", "--mlir-print-elementsattrs-with-hex-if-larger=1"]
    command = [str(MLIR_OPT), *flags]
    printed = subprocess.run(command, input=op, capture_output=True, text=True, check=True).stdout
    literal = printed[printed.index("dense<") : printed.index("}")]
    assert ('"0x' in literal) == (len(set(written)) > 1)
    assert values(literal) == pytest.approx(expected, rel=1e-3)
    if count > AS_NUMBERS:
        context = Context()
        context.load_dialect(Builtin)
        assert str(Parser(context, literal).parse_attribute()) == literal
