"""
Rewritten contractions are exact for quantized integers, and in bounds for dequantized floats.

The cases are named quantized operations; zero points as constants, scalars and vectors, in every
spelling of the body; padding by the zero point; QDQ models as torch-mlir imports them.

Covers: graph/dequantized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    i8,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.pipeline import LinalgToSPIRVPass
from xdsl_spirv.interpreter import reference
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.graph.quantized_contractions import QuantizedContractionsPass
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.upstream.linalg_extensions import QUANTIZED

if TYPE_CHECKING:
    from tests.passes.conftest import ReadFunction, Validate

FILE = "graph/quantized_contractions.mlir"
PASSES = "linalg-quantized-to-contraction,linalg-to-contraction"


def rewritten(text: str, **options: Any) -> ModuleOp:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    QuantizedContractionsPass(**options).apply(ctx, module)
    module.verify()
    return module


def lowered(text: str, target: str) -> ModuleOp:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    LinalgToSPIRVPass(target).apply(ctx, module)
    return module


def contractions(module: ModuleOp) -> list[str]:
    """Returns the types of A, B and the result of every contraction."""
    found: list[str] = []
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                found.append(" ".join(contraction_of(op).types))
            except NotAContraction:
                continue
    return found


def named(name: str, zeros: str) -> str:
    """Returns the operation on random sizes, with zero points as `arguments` or `constants`."""
    loops, *operands = QUANTIZED[name]
    generator = np.random.default_rng(len(name))
    sizes = {loop: int(generator.integers(2, 5)) for loop in loops.split()}

    def size(index: str) -> int:
        return sum(sizes[loop] for loop in index.split("+")) - index.count("+")

    a, b, c = (
        f"tensor<{'x'.join([*(str(size(index)) for index in operand.split()), kind])}>"
        for operand, kind in zip(operands, ("i8", "i8", "i32"), strict=True)
    )
    given = ", %za: i32, %zb: i32" if zeros == "arguments" else ""
    made = "" if given else "%za = arith.constant -7 : i32\n%zb = arith.constant 100 : i32"
    return f"""func.func @main(%a: {a}, %b: {b}, %c: {c}{given}) -> {c} {{
  {made}
  %r = linalg.{name} ins(%a, %b, %za, %zb : {a}, {b}, i32, i32) outs(%c : {c}) -> {c}
  return %r : {c}
}}"""


@pytest.mark.parametrize(
    ("name", "zeros"),
    [*((name, "arguments") for name in QUANTIZED), ("quantized_matmul", "constants")],
)
def test_named_operations_become_contractions_of_bytes(name: str, zeros: str, validate: Validate):
    text = named(name, zeros)
    validate(text, PASSES, inputs=2)
    assert contractions(rewritten(text)) == ["s8 s8 s32"]


BODIES = {
    "scalars": "s8 s8 s32",
    "mixed_signs": "u8 s8 s32",
    "rows_and_columns": "s8 s8 s32",
    "bytes_of_each_column": "s8 s8 s32",
    "differences_of_16_bits": "u8 s8 s32",
    "added_and_one_only": "u8 s8 s32",
    "added_arguments": "s8 s8 s32",
}
"""Functions of quantized_contractions.mlir, and the types of the resulting contraction."""


@pytest.mark.parametrize("name", BODIES)
def test_bodies_become_contractions_of_bytes(
    name: str, validate: Validate, read_function: ReadFunction
):
    text = read_function(FILE, name)
    validate(text, PASSES, inputs=3)
    assert contractions(rewritten(text)) == [BODIES[name]]


@pytest.mark.parametrize("name", ["a_zero_point_of_each_term", "a_difference_that_may_wrap"])
def test_other_sums_are_unchanged(name: str, read_function: ReadFunction):
    text = read_function(FILE, name)
    assert str(rewritten(text)) == str(parse_text(text))


@pytest.mark.parametrize("name", BODIES)
def test_both_operands_get_the_same_signedness(
    name: str, validate: Validate, read_function: ReadFunction
):
    text = read_function(FILE, name)
    validate(text, "linalg-quantized-to-contraction{same_signs=true}", inputs=3)
    assert contractions(rewritten(text, same_signs=True)) == ["s8 s8 s32"]


def test_constants_get_the_same_signedness(validate: Validate, read_function: ReadFunction):
    text = read_function(FILE, "a_constant_without_signs")
    validate(text, "linalg-quantized-to-contraction{same_signs=true}", inputs=3)
    module = rewritten(text, same_signs=True)
    assert contractions(module) == ["u8 u8 u32"]
    assert contractions(rewritten(text, target="nvidia-h200")) == ["u8 u8 u32"]
    assert contractions(rewritten(text)) == ["s8 u8 s32"]
    zero, one = (read_function(FILE, f"known_to_be_{number}") for number in (0, 1))
    assert contractions(rewritten(zero, target="nvidia-h200")) == ["u8 s8 s32"]
    assert contractions(rewritten(one, target="nvidia-h200")) == ["s8 s8 s32"]
    assert len([op for op in module.walk() if isinstance(op, linalg.ops.FillOp)]) == 0


PADDED = """func.func @main(%a: tensor<1x5x6x3xi8>, %b: tensor<3x3x3x4xi8>, %c: tensor<1x5x3x4xi32>)
    -> tensor<1x5x3x4xi32> {
  %pad = arith.constant PAD : i8
  %za = arith.constant -11 : i32
  %zb = arith.constant 5 : i32
  %p = tensor.pad %a low[0, 1, 1, 0] high[0, 1, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %pad : i8
  } : tensor<1x5x6x3xi8> to tensor<1x7x7x3xi8>
  %r = linalg.conv_2d_nhwc_hwcf_q {strides = dense<[1, 2]> : tensor<2xi64>}
    ins(%p, %b, %za, %zb : tensor<1x7x7x3xi8>, tensor<3x3x3x4xi8>, i32, i32)
    outs(%c : tensor<1x5x3x4xi32>) -> tensor<1x5x3x4xi32>
  return %r : tensor<1x5x3x4xi32>
}"""


@pytest.mark.parametrize("pad", [-11, 0, 77])
def test_padded_contractions_are_exact(pad: int, validate: Validate):
    text = PADDED.replace("PAD", str(pad))
    validate(text, PASSES, inputs=2)
    a = np.random.default_rng(0).integers(-128, 128, (1, 5, 6, 3)).astype(np.int8)
    b = np.random.default_rng(1).integers(-128, 128, (3, 3, 3, 4)).astype(np.int8)
    (found,) = reference(rewritten(text), [a, b, np.zeros((1, 5, 3, 4), np.int32)])
    whole = np.pad(a, ((0, 0), (1, 1), (1, 0), (0, 0)), constant_values=pad).astype(np.int64)
    expected = np.zeros((1, 5, 3, 4), np.int64)
    for y in range(3):
        for x in range(3):
            window = whole[:, y : y + 5, x : x + 5 : 2] + 11
            expected += window @ (b[y, x].astype(np.int64) - 5)
    assert np.array_equal(found, expected)


BOTH_PADDED = """func.func @main(%a: tensor<5x7xi8>, %b: tensor<9x6xi8>, %c: tensor<7x6xi32>)
    -> tensor<7x6xi32> {
  %x = arith.constant 77 : i8
  %y = arith.constant -3 : i8
  %p = tensor.pad %a low[1, 2] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : i8
  } : tensor<5x7xi8> to tensor<7x11xi8>
  %q = tensor.pad %b low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %y : i8
  } : tensor<9x6xi8> to tensor<11x6xi8>
  %r = linalg.matmul ins(%p, %q : tensor<7x11xi8>, tensor<11x6xi8>)
    outs(%c : tensor<7x6xi32>) -> tensor<7x6xi32>
  return %r : tensor<7x6xi32>
}
"""

DEPTHWISE = """func.func @main(%a: tensor<1x8x10x14xi8>, %b: tensor<8x3x3xi8>,
    %c: tensor<1x8x10x14xi32>) -> tensor<1x8x10x14xi32> {
  %x = arith.constant 77 : i8
  %p = tensor.pad %a low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %x : i8
  } : tensor<1x8x10x14xi8> to tensor<1x8x12x16xi8>
  %r = linalg.depthwise_conv_2d_nchw_chw
    ins(%p, %b : tensor<1x8x12x16xi8>, tensor<8x3x3xi8>)
    outs(%c : tensor<1x8x10x14xi32>) -> tensor<1x8x10x14xi32>
  return %r : tensor<1x8x10x14xi32>
}
"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (PADDED.replace("PAD", "-11"), "lavapipe"),
        (BOTH_PADDED, "nvidia-h200"),
        (DEPTHWISE, "lavapipe"),
    ],
    ids=["zero point", "both operands", "window"],
)
def test_paddings_are_read_through(text: str, target: str, validate: Validate):
    """No kernel writes a padded tensor, whatever operations surround it."""
    passes = f"linalg-to-spirv{{target={target}}}"
    validate(text, passes, inputs=1)
    assert "@move_" not in str(lowered(text, target))


def test_sums_of_constants_are_folded():
    weights = np.random.default_rng(0).integers(-128, 128, (6, 9))
    text = f"""func.func @main(%a: tensor<5x9xi8>, %c: tensor<5x6xi32>) -> tensor<5x6xi32> {{
      %w = arith.constant dense<{weights.tolist()}> : tensor<6x9xi8>
      %e = tensor.empty() : tensor<9x6xi8>
      %b = linalg.transpose ins(%w : tensor<6x9xi8>) outs(%e : tensor<9x6xi8>) permutation = [1, 0]
      %za = arith.constant 117 : i32
      %zb = arith.constant 0 : i32
      %r = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32)
        outs(%c : tensor<5x6xi32>) -> tensor<5x6xi32>
      return %r : tensor<5x6xi32>
    }}"""
    module = rewritten(text)
    folded = [
        op.value
        for op in module.walk()
        if isinstance(op, arith.ConstantOp) and op.result.type == TensorType(IntegerType(32), [6])
    ]
    assert [list(each.get_values()) for each in folded] == [list(-117 * weights.sum(1))]  # pyright: ignore
    generics = [op for op in module.walk() if isinstance(op, linalg.ops.GenericOp)]
    assert len(generics) == 2
    a = np.random.default_rng(1).integers(-128, 128, (5, 9)).astype(np.int8)
    zero = np.zeros((5, 6), np.int32)
    assert np.array_equal(reference(module, [a, zero]), reference(parse_text(text), [a, zero]))


def dequantized(read_function: ReadFunction, channels: bool, zero: int, pad: bool) -> str:
    """
    Returns a QDQ convolution as torch-mlir imports it, with signed weights and the zero point
    `zero`.

    There is one scale, or with `channels` one per channel.
    """
    return read_function(
        "graph/dequantized.mlir",
        "padded" if pad else "plain",
        zero=IntegerAttr(zero, i64),
        scale=TensorType(f32, [4]) if channels else f32,
        place=AffineMapAttr(AffineMap(5, 0, (AffineDimExpr(0),) if channels else ())),
    )


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("zero", [0, 117, 255])
@pytest.mark.parametrize("channels", [False, True])
def test_dequantized_operands_are_in_bounds(
    channels: bool, zero: int, pad: bool, read_function: ReadFunction
):
    text = dequantized(read_function, channels, zero, pad)
    module = rewritten(text)
    assert contractions(module) == ["s8 u8 s32"]
    generator = np.random.default_rng(zero)
    q = generator.integers(0, 256, (1, 3, 6, 6)).astype(np.uint8).view(np.int8)
    w = generator.integers(-128, 128, (4, 1, 3, 3, 3)).astype(np.int8)
    scale = generator.uniform(0.001, 0.1, (4,) if channels else ()).astype(np.float32)
    size = 6 if pad else 4
    bias = generator.uniform(-1, 1, (1, 4, size, size)).astype(np.float32)
    (found,) = reference(module, [q, w, scale, bias])
    (expected,) = reference(parse_text(text), [q, w, scale, bias])
    largest = np.abs(q.view(np.uint8).astype(float) - zero).max() * 0.02 * 128 * scale.max()
    same = rewritten(text, same_signs=True)
    assert contractions(same) == ["s8 s8 s32"]
    assert np.array_equal(reference(same, [q, w, scale, bias])[0], found)
    bound = (27 + 1) * float(np.finfo(np.float32).eps) * (27 * largest + 1)
    assert np.abs(found - expected).max() <= bound
    assert np.abs(expected).max() > 1000 * bound
    assert str(rewritten(text, dequantized=False)) == str(parse_text(text))


@pytest.mark.parametrize(("size", "types"), [(512, "u8 s8 s32"), (2048, "s8 s8 s32")])
def test_operands_get_one_signedness_where_that_pays(size: int, types: str):
    maps = ", ".join(f"affine_map<(m, n, k) -> ({x})>" for x in ("m, k", "k, n", "m, n"))
    bytes, sums = (f"tensor<{size}x{size}x{type}>" for type in ("i8", "i32"))
    text = f"""func.func @main(%a: {bytes}, %b: {bytes}, %c: {sums}) -> {sums} {{
      %r = linalg.generic {{
        indexing_maps = [{maps}],
        iterator_types = ["parallel", "parallel", "reduction"]
      }} ins(%a, %b : {bytes}, {bytes}) outs(%c : {sums}) {{
      ^bb0(%x: i8, %y: i8, %acc: i32):
        %xx = arith.extui %x : i8 to i32
        %yy = arith.extsi %y : i8 to i32
        %p = arith.muli %xx, %yy : i32
        %s = arith.addi %acc, %p : i32
        linalg.yield %s : i32
      }} -> {sums}
      return %r : {sums}
    }}"""
    assert contractions(rewritten(text, target="nvidia-h200")) == [types]
    assert contractions(rewritten(text, target="lavapipe")) == ["u8 s8 s32"]


def test_signedness_is_changed_in_packed_words(read_function: ReadFunction):
    text = read_function(FILE, "turned_weights")
    program = compile_module(rewritten(text, same_signs=True), "lavapipe")
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-128, 128, (n, 48)).astype(np.int8) for n in (21, 37))
    checks = Checks.all()
    (result,) = run(program, {"a": a, "b": b}, checks=checks).values()
    np.testing.assert_array_equal(result, a.view(np.uint8).astype(int) @ b.T.astype(int))
    assert not checks.report, str(checks.report)
    (kernel,) = (code for name, code in program.code.items() if name.startswith("matmul"))
    assert "spirv.BitwiseXor" in kernel.text
    assert "i8" not in kernel.text.split("spirv.BitwiseXor")[1].splitlines()[0]


@pytest.mark.parametrize("same_signs", [False, True])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("channels", [False, True])
def test_integers_less_a_zero_point(
    channels: bool, pad: bool, same_signs: bool, read_function: ReadFunction
):
    """Bytes are multiplied, unless the padding would differ between channels."""
    text = read_function(
        "graph/centred.mlir",
        "padded" if pad else "plain",
        zero=TensorType(i8, [1, 3] if channels else []),
        place=AffineMapAttr(
            AffineMap(4, 0, (AffineConstantExpr(0), AffineDimExpr(1)) if channels else ())
        ),
    )
    module = rewritten(text, same_signs=same_signs)
    image = "s8" if same_signs else "u8"
    factors = ["s32" if pad and channels else image, "s8"]
    assert [sorted(types.split()) for types in contractions(module)] == [sorted([*factors, "s32"])]
    generator = np.random.default_rng(channels)
    q = generator.integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)
    z = generator.integers(-128, 128, (1, 3) if channels else ()).astype(np.int8)
    w = generator.integers(-128, 128, (3, 3, 3)).astype(np.int8)
    (result,) = reference(module, [q, z, w])
    assert np.array_equal(result, reference(parse_text(text), [q, z, w])[0])


def test_a_sign_is_changed_under_a_padding(read_function: ReadFunction):
    module = lowered(dequantized(read_function, True, 117, True), "lavapipe")
    module.verify()
    assert "spirv.BitwiseXor" in str(module)
    assert "@move_" not in str(module)


def test_a_sum_that_could_leave_32_bits_stays_in_floats():
    """255 * 128 * 70,000 exceeds 2^31."""
    four = "affine_map<(i, j) -> (i, j)>"

    def floats(name: str, shape: str) -> str:
        return f"""%e{name} = tensor.empty() : tensor<{shape}xf32>
  %f{name} = linalg.generic {{indexing_maps = [{four}, {four}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%{name} : tensor<{shape}xi8>) outs(%e{name} : tensor<{shape}xf32>) {{
  ^bb0(%in: i8, %out: f32):
    %0 = arith.{"uitofp" if name == "a" else "sitofp"} %in : i8 to f32
    linalg.yield %0 : f32
  }} -> tensor<{shape}xf32>"""

    def text(k: int) -> str:
        return f"""func.func @main(%a: tensor<2x{k}xi8>, %b: tensor<{k}x2xi8>, %c: tensor<2x2xf32>)
    -> tensor<2x2xf32> {{
  {floats("a", f"2x{k}")}
  {floats("b", f"{k}x2")}
  %r = linalg.matmul ins(%fa, %fb : tensor<2x{k}xf32>, tensor<{k}x2xf32>)
      outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}}"""

    assert contractions(rewritten(text(65000))) == ["u8 s8 s32"]
    assert contractions(rewritten(text(70000))) == ["f32 f32 f32"]
