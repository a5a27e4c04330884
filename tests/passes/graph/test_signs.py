"""A tensor of bytes is converted once to unsigned or signed bytes, by its highest bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.interpreter import interpret
from xdsl_spirv.passes.graph.signs import OtherSigns
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import load

if TYPE_CHECKING:
    from tests.passes.conftest import Validate

PADDED = """
func.func @main(%x: tensor<3x4xi8>, %v: i8) -> (tensor<5x6xi8>, tensor<5x6xi8>) {{
  %c = arith.constant {padding} : i8
  %p = tensor.pad %x low[1, 0] high[1, 2] {{
  ^bb0(%i: index, %j: index):
    tensor.yield {value} : i8
  }} : tensor<3x4xi8> to tensor<5x6xi8>
  return %p, %p : tensor<5x6xi8>, tensor<5x6xi8>
}}
"""


def flip(text: str) -> ModuleOp:
    """Returns a module whose function returns its results in the other signedness."""
    module = parse_text(text)
    (last,) = (op for op in module.walk() if isinstance(op, ReturnOp))
    signs = OtherSigns(True)
    for number, value in enumerate(last.operands):
        last.operands[number] = signs.of(value, last)
    module.verify()
    return module


@pytest.mark.parametrize("padding", [-128, -1, 0, 5, 127])
def test_a_padding_is_converted_with_its_tensor(padding: int):
    """The tensor is converted before the padding, and so can be fused with its producer."""
    module = flip(PADDED.format(padding=padding, value="%c"))
    x = np.random.default_rng(1).integers(-128, 128, (3, 4)).astype(np.int8)
    result, again = interpret(module, [x, np.array(3, np.int8)])
    expected = np.pad(x, ((1, 1), (0, 2)), constant_values=padding).view(np.uint8) ^ 128
    assert np.array_equal(np.asarray(result).view(np.uint8), expected)
    assert np.array_equal(result, again)
    pads = [op for op in module.walk() if isinstance(op, tensor.PadOp)]
    assert len(pads) == 2, "the old padding, and one of converted numbers"
    assert isinstance(pads[1].source.owner, linalg.ops.GenericOp)


def test_a_padding_that_is_known_at_run_time_is_converted():
    module = flip(PADDED.format(padding=0, value="%v"))
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    result, _ = interpret(module, [x, np.array(-7, np.int8)])
    expected = np.pad(x, ((1, 1), (0, 2)), constant_values=-7).view(np.uint8) ^ 128
    assert np.array_equal(np.asarray(result).view(np.uint8), expected)


def test_each_tensor_is_converted_once():
    module = flip(PADDED.format(padding=0, value="%c"))
    (last,) = (op for op in module.walk() if isinstance(op, ReturnOp))
    assert last.operands[0] is last.operands[1]
    generics = [op for op in module.walk() if isinstance(op, linalg.ops.GenericOp)]
    assert len(generics) == 1


class FlipTwicePass(ModulePass):
    """Converts results to the other signedness and back."""

    name = "flip-twice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        (last,) = (inner for inner in op.walk() if isinstance(inner, ReturnOp))
        for number, value in enumerate(last.operands):
            once = OtherSigns(True).of(value, last)
            last.operands[number] = OtherSigns(True).of(once, last)


def test_the_conversion_is_its_own_inverse(validate: Validate):
    validate(PADDED.format(padding=9, value="%c"), [FlipTwicePass()], inputs=2)


def bytes_of(*shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(i8, shape)]).args[0]


def test_one_signedness_pays_for_large_products():
    """Two dispatches are added: one converts an operand, one sums up the other operand."""
    signs, operand = OtherSigns(False, load("nvidia-h200")), bytes_of(2048, 2048)
    assert signs.pay([2048] * 3, operand, operand)
    assert not signs.pay([512] * 3, bytes_of(512, 512), bytes_of(512, 512))
    huge = bytes_of(2**16, 2**16)
    assert not signs.pay([2048] * 3, huge, operand), "more bytes are moved than is saved"
    assert not OtherSigns(False).pay([2048] * 3, operand, operand)
    assert not OtherSigns(False, load("lavapipe")).pay([2048] * 3, operand, operand)
