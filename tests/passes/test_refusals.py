"""
Unfulfillable requests are refused with operation, place, numbers and remedy. Suggested schedules
fit.
"""

from __future__ import annotations

import re

import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.runtime.modules import context, parse_text, text_of

CONTRACTION = "linalg-to-contraction,assign-schedule"
ENTRY = "spirv-cooperative-matrix-to-invocations"


def matmul(size: int, element: str, result: str, schedule: str = "") -> str:
    a, c = f"tensor<{size}x{size}x{element}>", f"tensor<{size}x{size}x{result}>"
    given = f" {{schedule = #schedule.contraction<{schedule}>}}" if schedule else ""
    return f"""func.func @main(%a: {a}, %b: {a}, %c: {c}) -> {c} {{
  %r = linalg.matmul{given} ins(%a, %b : {a}, {a}) outs(%c : {c}) -> {c}
  func.return %r : {c}
}}"""


def schedule(
    tile: str, grid: str, instruction: str, a: str = "staged<>", b: str = "staged<>"
) -> str:
    return (
        f"workgroup_tile = [{tile}], subgroups = [{grid}], instruction = {instruction}, "
        f"a = {a}, b = {b}"
    )


def refused(text: str, passes: str) -> str:
    ctx = context()
    module = parse_text(text, "model.mlir", ctx)
    before = text_of(module)
    with pytest.raises(PassFailedException) as caught:
        PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    assert "\n" not in str(caught.value)
    assert before
    return str(caught.value)


SCHEDULES = {
    # Size, types, schedule, and parts of the message
    "types of matrices": (
        32, "f32", "f32", schedule("8, 8, 8", "1, 1", "coopmat 8x8x8"),
        "CM-29: lavapipe has no cooperative matrices of f32 x f32 -> f32; it has f16",
    ),
    "wider accumulators": (
        32, "i8", "i32", schedule("8, 8, 8", "1, 1", "dot 1x1x8"),
        "has 8 x 8 blocks for each subgroup: use a tile of 8 elements",
    ),
    "shape of matrices": (
        64, "f16", "f32", schedule("32, 32, 16", "2, 2", "coopmat 16x16x16"),
        "lavapipe has no cooperative matrices 16x16x16 of f16 x f16 -> f32; it has 8x8x8",
    ),
    "Workgroup memory": (
        128, "f16", "f32",
        schedule("128, 128, 64", "1, 1", "coopmat 8x8x8", *["staged<padding = 8, vector = 8>"] * 2),
        "Workgroup memory of 35840 bytes (A 18432, B 17408, result 0) exceeds lavapipe's 32768",
    ),
    "invocations": (
        128, "f16", "f32", schedule("128, 128, 8", "16, 16", "coopmat 8x8x8"),
        "256 subgroups of 8 are 2048 invocations, but lavapipe allows 1024: use at most 128",
    ),
    "vector width": (
        128, "f16", "f32", schedule("16, 16, 16", "1, 1", "coopmat 8x8x8", "staged<vector = 16>"),
        "a: vector = 16 is not a power of two of at most 16 bytes: use 8",
    ),
    "path": (
        32, "f32", "f32", schedule("4, 2, 8", "1, 1", "fma 1x1x1", "direct"),
        "a = direct needs coopmat: use staged, by rows or panels, for fma",
    ),
    "integers by dot": (
        32, "i16", "i32", schedule("4, 2, 8", "1, 1", "dot 1x1x4"),
        "dot multiplies s8 and u8 into 32 bits, not s16 x s16 -> s32: use fma",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEDULES)
def test_a_schedule_that_does_not_fit_is_refused(case: str):
    size, element, result, given, expected = SCHEDULES[case]
    passes = f"{CONTRACTION}{{target=lavapipe}}"
    message = refused(matmul(size, element, result, given), passes)
    assert message.startswith("assign-schedule: 'linalg.generic' (%r) in @main"), message
    assert f"{size}x{size}x{size}" in message
    assert expected in message
    nearest = re.search(r"the nearest schedule that fits is #schedule.contraction<(.*)>$", message)
    assert nearest is not None, message
    ctx = context()
    module = parse_text(matmul(size, element, result, nearest[1]), ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    assert nearest[1] in text_of(module)


def test_the_nearest_schedule_keeps_what_it_can():
    """The suggested schedule has the same kind of instruction and a similar tile."""
    given = schedule("64, 64, 16", "2, 2", "coopmat 16x16x16")
    message = refused(matmul(64, "f16", "f32", given), f"{CONTRACTION}{{target=lavapipe}}")
    assert "fits is #schedule.contraction<workgroup_tile = [32, 32, 8], subgroups = [2, 2], " in (
        message
    )
    assert "coopmat 8x8x8" in message


def test_an_accumulation_is_not_narrowed():
    """No instruction accumulates in bfloat16."""
    message = refused(matmul(16, "bf16", "bf16"), f"{CONTRACTION}{{target=lavapipe}}")
    assert "bf16" in message
    assert "supports results of f16, f32" in message


@pytest.mark.parametrize(("scope", "said"), [("Device", "Device"), ("QueueFamily", "QueueFamily")])
def test_matrices_of_an_unsupported_scope_are_refused(scope: str, said: str):
    text = f"""spirv.module Logical Vulkan {{
  spirv.func @main() "None" {{
    %c = spirv.ConstantNull : !spirv.coopmatrix<8x8xf32, {scope}, MatrixAcc>
    %r = spirv.FAdd %c, %c : !spirv.coopmatrix<8x8xf32, {scope}, MatrixAcc>
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}}"""
    message = refused(text, f"{ENTRY}{{subgroup-size=32}}")
    assert message.startswith(f"{ENTRY}: 'spirv.")
    assert f"is {said}: use Subgroup or Workgroup" in message


def test_a_type_that_the_device_lacks_is_refused():
    text = matmul(8, "f64", "f64")
    message = refused(text, f"{CONTRACTION}{{target=qualcomm-adreno}}")
    assert "needs float64, which qualcomm-adreno does not list" in message
