"""Every named contraction of `linalg` means the same as in mlir-opt."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.interpreter.api import interpret
from xdsl_spirv.runtime import ProgramError
from xdsl_spirv.runtime.modules import parse_text, text_of
from xdsl_spirv.upstream.linalg_extensions import CONTRACTIONS, MAPPED, POOLINGS, QUANTIZED

MATMULS = {name: line for name, line in MAPPED.items() if line is not None}
LINES = {**CONTRACTIONS, **QUANTIZED, **POOLINGS, **MATMULS}

WITHOUT_STEPS = ("conv_1d", "conv_2d", "conv_3d")
"""Convolutions that have neither strides nor dilations in mlir-opt."""


def program(name: str, steps: bool, element: str = "f16", result: str = "f32") -> str:
    """Returns a function with the operation on tensors of random sizes."""
    loops, *operands = LINES[name]
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
    zeros = [("%za", result), ("%zb", result)] if name in QUANTIZED else []
    ins = ", ".join(["%a", "%b", *(each for each, _ in zeros)])
    types = ", ".join([a, b, *(each for _, each in zeros)])
    parameters = "".join(f", {each}: {type}" for each, type in zeros)
    return f"""func.func @{name}(%a: {a}, %b: {b}, %c: {out}{parameters}) -> {out} {{
  %r = linalg.{name}{given} ins({ins} : {types}) outs(%c : {out}) -> {out}
  return %r : {out}
}}
"""


def operations(text: str) -> list[LinalgStructuredOperation]:
    return [x for x in parse_text(text).walk() if isinstance(x, LinalgStructuredOperation)]


def operation(text: str) -> LinalgStructuredOperation:
    return operations(text)[0]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("types", [("f16", "f32"), ("i8", "i32"), ("i8", "f32")])
def test_mlir_generalizes_to_our_maps_loops_and_bodies(
    steps: bool, types: tuple[str, str], mlir_opt: str
):
    names = [
        name
        for name in LINES
        if not (steps and name in WITHOUT_STEPS)
        and not (name.endswith("unsigned") and types[1] == "f32")
    ]
    same_as_mlir("".join(program(name, steps, *types) for name in names), mlir_opt)


def same_as_mlir(text: str, mlir_opt: str) -> None:
    """Checks that mlir-opt derives our maps, loops and bodies from the printed text."""
    command = [mlir_opt, "--linalg-generalize-named-ops", "--mlir-print-op-generic"]
    printed = text_of(parse_text(text))
    done = subprocess.run(command, input=printed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = operations(re.sub(r"overflowFlags = #arith.overflow<none>,? ?", "", done.stdout))
    for mine, other in zip(operations(printed), theirs, strict=True):
        assert mine.get_indexing_maps() == other.get_indexing_maps(), mine.name
        assert mine.get_iterator_types() == other.get_iterator_types(), mine.name
        assert shape_of_body(mine) == shape_of_body(other), mine.name


def shape_of_body(op: LinalgStructuredOperation) -> list[Any]:
    """Returns each operation of the body with its operands' indices, sorted for + and *."""
    block = op.body.block
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(block.args)}
    found: list[Any] = []
    for each in block.ops:
        operands = [numbers[value] for value in each.operands]
        commutes = each.name.split(".")[1][:3] in ("add", "mul", "max", "min")
        found.append((each.name, sorted(operands) if commutes else operands))
        numbers |= {result: len(numbers) for result in each.results}
    return found


MAPS = ", ".join(f"affine_map<(m, n, k) -> ({x})>" for x in ("k, m", "k, n", "m, n"))
TRANSPOSED = f"""
func.func @f(%a: tensor<8x4xi8>, %b: tensor<8x6xi8>, %c: tensor<4x6xi32>) -> tensor<4x6xi32> {{
  %r = linalg.NAME indexing_maps = [{MAPS}] {{cast = #linalg.type_fn<CAST>}}
    ins(%a, %b : tensor<8x4xi8>, tensor<8x6xi8>) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  return %r : tensor<4x6xi32>
}}
"""


@pytest.mark.parametrize("cast", ["cast_signed", "cast_unsigned"])
@pytest.mark.parametrize("name", ["matmul", "contract"])
def test_maps_and_casts(name: str, cast: str, mlir_opt: str):
    text = TRANSPOSED.replace("NAME", name).replace("CAST", cast)
    same_as_mlir(text, mlir_opt)
    assert f"type_fn<{cast}>" in text_of(parse_text(text))
    extension = "arith.extsi" if cast == "cast_signed" else "arith.extui"
    assert extension in [op.name for op in operation(text).body.block.ops]


def test_mlir_prints_what_we_read(mlir_opt: str):
    """We parse mlir-opt's custom form of every operation."""
    text = "".join(program(name, name not in WITHOUT_STEPS, "i8", "i32") for name in LINES)
    done = subprocess.run([mlir_opt], input=text, capture_output=True, text=True, check=True)
    for mine, theirs in zip(operations(text), operations(done.stdout), strict=True):
        assert mine.name == theirs.name
        assert mine.get_indexing_maps() == theirs.get_indexing_maps()


SPREAD = """
func.func @f(%a: tensor<4x3xf32>, %s: f32, %t: tensor<f32>, %c: tensor<4x3xf32>)
    -> tensor<4x3xf32> {
  %0 = linalg.mul ins(%a, %s : tensor<4x3xf32>, f32) outs(%c : tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = linalg.copy ins(%s : f32) outs(%c : tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = linalg.sub ins(%t, %0 : tensor<f32>, tensor<4x3xf32>)
                  outs(%c : tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = linalg.add ins(%1, %2 : tensor<4x3xf32>, tensor<4x3xf32>)
                  outs(%c : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}
"""


def test_elementwise_operations_read_scalars(mlir_opt: str):
    same_as_mlir(SPREAD, mlir_opt)
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    s, t = np.array(2.5, np.float32), np.array(0.75, np.float32)
    result = interpret(parse_text(SPREAD), [a, s, t, np.zeros_like(a)], "f")
    assert np.array_equal(result[0], s + (t - a * s))


def test_elementwise_operands_of_different_ranks_are_refused():
    """Operands of different ranks are refused; xDSL would use the first rank for all maps."""
    row = SPREAD.replace("%t: tensor<f32>", "%t: tensor<3xf32>")
    with pytest.raises(ProgramError, match=r"ranks \[1, 2\] and a result of rank 2: use scal"):
        parse_text(row.replace("ins(%t, %0 : tensor<f32>", "ins(%t, %0 : tensor<3xf32>"))


def test_unsigned_maximum_of_floats():
    with pytest.raises((VerifyException, ProgramError), match="max_unsigned is not defined on"):
        parse_text(program("pooling_nhwc_max_unsigned", False, "f32", "f32"))


def test_contract_needs_maps():
    text = TRANSPOSED.replace("NAME", "contract").replace("CAST", "cast_signed")
    with pytest.raises((VerifyException, ProgramError), match="should have indexing_maps"):
        parse_text(re.sub(r"indexing_maps = \[.*?\)>\] ", "", text))


def test_generic_with_two_results(mlir_opt: str):
    text = """func.func @f(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:2 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%a : tensor<4xf32>) outs(%a, %a : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    linalg.yield %x, %y : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}
"""
    printed = text_of(parse_text(text))
    done = subprocess.run([mlir_opt], input=printed, capture_output=True, text=True, check=True)
    assert len(operation(done.stdout).results) == 2


@pytest.mark.parametrize("kind", ['"window2"', "1 : i32"])
def test_wrong_iterators_are_refused(kind: str):
    text = f"""func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = [{kind}]}}
      outs(%a : tensor<4xf32>) {{
  ^bb0(%x: f32):
    linalg.yield %x : f32
  }} -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""
    with pytest.raises(ParseError, match="iterator type"):
        parse_text(text)


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
def test_wrong_strides_are_refused(value: str):
    text = program("conv_2d_nhwc_hwcf", True)
    with pytest.raises((VerifyException, ProgramError), match="strides should be 2 positive"):
        parse_text(re.sub(r"strides = dense<\[.*?\]> : tensor<2xi64>", f"strides = {value}", text))
