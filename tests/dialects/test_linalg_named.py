"""Every named contraction of `linalg` is the one that mlir-opt knows under that name."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.linalg_extensions import CONTRACTIONS
from xdsl_spirv.runtime import ProgramError
from xdsl_spirv.runtime.compiler import parse_text, text_of

WITHOUT_STEPS = ("conv_1d", "conv_2d", "conv_3d")
"""Convolutions that mlir-opt knows without strides and dilations."""


def program(name: str, steps: bool, element: str = "f16", result: str = "f32") -> str:
    """A function with the operation on tensors of random sizes."""
    loops, *operands = CONTRACTIONS[name]
    generator = np.random.default_rng(len(name))
    sizes = {loop: int(generator.integers(2, 6)) for loop in loops.split()}
    windows = [index for index in operands[0].split() if "+" in index]
    strides, dilations = ([int(x) for x in generator.integers(1, 4, len(windows))] for _ in "sd")
    if not steps:
        strides, dilations = [1] * len(windows), [1] * len(windows)

    def size(index: str) -> int:
        if "+" not in index:
            return sizes[index]
        (outer, inner), at = index.split("+"), windows.index(index)
        return (sizes[outer] - 1) * strides[at] + (sizes[inner] - 1) * dilations[at] + 1

    a, b, out = (
        f"tensor<{'x'.join([*(str(size(index)) for index in operand.split()), kind])}>"
        for operand, kind in zip(operands, (element, element, result), strict=True)
    )
    given = ""
    if windows and steps:
        kind = f"tensor<{len(windows)}xi64>"
        given = f" {{dilations = dense<{dilations}> : {kind}, strides = dense<{strides}> : {kind}}}"
    return f"""func.func @f(%a: {a}, %b: {b}, %c: {out}) -> {out} {{
  %r = linalg.{name}{given} ins(%a, %b : {a}, {b}) outs(%c : {out}) -> {out}
  return %r : {out}
}}
"""


def operation(text: str) -> LinalgStructuredOperation:
    found = [x for x in parse_text(text).walk() if isinstance(x, LinalgStructuredOperation)]
    return found[0]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_mlir_generalizes_to_the_same(name: str, steps: bool, mlir_opt: str):
    if steps and name in WITHOUT_STEPS:
        return
    ours = parse_text(program(name, steps))
    command = [mlir_opt, "--linalg-generalize-named-ops", "--mlir-print-op-generic"]
    done = subprocess.run(command, input=text_of(ours), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = operation(re.sub(r"overflowFlags = #arith.overflow<none>,? ?", "", done.stdout))
    mine = operation(program(name, steps))
    assert mine.get_indexing_maps() == theirs.get_indexing_maps()
    assert mine.get_iterator_types() == theirs.get_iterator_types()
    kinds = [[op.name for op in each.body.block.ops] for each in (mine, theirs)]
    assert kinds[0] == kinds[1]


def test_custom_form_keeps_strides():
    text = text_of(parse_text(program("conv_2d_nhwc_hwcf", True)))
    assert "linalg.conv_2d_nhwc_hwcf" in text
    assert text_of(parse_text(text)) == text
    assert (
        operation(text).get_indexing_maps()
        == operation(program("conv_2d_nhwc_hwcf", True)).get_indexing_maps()
    )


@pytest.mark.parametrize(
    "value", ["dense<[1, 0]> : tensor<2xi64>", "dense<[1, 2, 3]> : tensor<3xi64>"]
)
def test_wrong_strides(value: str):
    text = program("conv_2d_nhwc_hwcf", True)
    with pytest.raises((VerifyException, ProgramError), match="strides should be 2 positive"):
        parse_text(re.sub(r"strides = dense<\[.*?\]> : tensor<2xi64>", f"strides = {value}", text))
