"""
Attention with probabilities in registers is right for every way to read operands, under all
checks.

Covers: kernel/attention_lines, kernel/attention_rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv import targets
from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_choice import (
    choose_matrices,
    count_registers,
    count_words_ahead,
)
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.attention_workloads import AttentionWorkload

if TYPE_CHECKING:
    from tests.conftest import CheckOnLavapipe
    from tests.passes.conftest import CompileAttention, FormAttention

INSTRUCTIONS = {
    "lavapipe": (8, "8x8x8"),
    "nvidia-h200": (16, "16x16x16"),
    "nvidia-ada": (16, "16x16x16"),
}

D = -(2**63)

STAGED = "q = vectors, k = staged, v = staged"

OPEN = f"""
func.func @main(%Q: tensor<2x?x16xf16>, %K: tensor<?x16xf16>, %V: tensor<?x24xf16>, %C: index,
    %W: index) -> tensor<2x?x24xf32> {{
  %r = schedule.dispatch(%Q, %K, %V, %C, %W) : (tensor<2x?x16xf16>, tensor<?x16xf16>,
      tensor<?x24xf16>, index, index) -> tensor<2x?x24xf32> {{
  ^bb0(%q: tensor<2x?x16xf16>, %k: tensor<?x16xf16>, %v: tensor<?x24xf16>, %causal: index,
      %window: index):
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %m = tensor.dim %q, %one : tensor<2x?x16xf16>
    %n = tensor.dim %k, %zero : tensor<?x16xf16>
    %e = tensor.empty(%m) : tensor<2x?x24xf32>
    %o = schedule.attention %q, %k, %v into %e numbers %m, %n, NUMBERS loops = [2, {D}, {D}, 16, 24]
      maps = [affine_map<(h, m, n, d, e) -> (h, m, d)>, affine_map<(h, m, n, d, e) -> (n, d)>,
              affine_map<(h, m, n, d, e) -> (n, e)>, affine_map<(h, m, n, d, e) -> (h, m, e)>]
      scale = 2.5e-1 PROPERTIES {{schedule = #schedule.attention<query_tile = 16, key_tile = 16,
        subgroups = 2, instruction = coopmat 8x8x8, q = vectors, k = vectors, v = VALUES,
        rescale = RESCALE, probabilities = registers, ahead = AHEAD>}}
      : tensor<2x?x16xf16>, tensor<?x16xf16>, tensor<?x24xf16> into tensor<2x?x24xf32>
      -> tensor<2x?x24xf32>
    schedule.yield %o : tensor<2x?x24xf32>
  }}
  func.return %r : tensor<2x?x24xf32>
}}
"""

LONG = pytest.mark.long

SIZES = [(17, 50), (5, 3)]
"""Numbers of queries and keys: whole tiles plus a partial one, and less than one."""


@pytest.mark.parametrize(
    ("properties", "numbers", "values", "ahead", "rescale"),
    [
        (
            f"causal = {D} window = {D} nan_to_zero",
            "%causal, %window",
            "vectors",
            "values",
            "seldom",
        ),
        (f"cap = 2.0 causal = {D} nan_to_zero", "%causal", "direct", "keys", "late"),
        pytest.param(
            f"window = {D} nan_to_zero", "%window", "direct", "none", "always", marks=LONG
        ),
        pytest.param(
            "causal = -3 window = -9 nan_to_zero", "", "vectors", "keys", "late", marks=LONG
        ),
    ],
)
def test_dynamic_sizes_are_right(
    properties: str, numbers: str, values: str, ahead: str, rescale: str
):
    text = OPEN.replace("PROPERTIES", properties).replace("AHEAD", ahead).replace("VALUES", values)
    text = text.replace("RESCALE", rescale).replace("NUMBERS", numbers)
    text = text.replace("%n,  loops", "%n loops")
    program = compile_module(parse_text(text), "lavapipe")
    run_open_sizes(program, text, 16, 24)
    (pack,) = [d.grid for d in program.manifest.dispatches if d.entry_point.startswith("pack")] or [
        None
    ]
    assert (pack is not None) == (values == "direct")
    assert pack is None or pack[2] == 1


def run_open_sizes(program: Program, text: str, d: int, e: int):
    """
    Compares a program's results with the definition `text`, for dynamic sizes. Keys have `d`
    elements, values `e`.
    """
    generator = np.random.default_rng(1)
    for rows, keys in SIZES:
        shapes = ((2, rows, d), (keys, d), (keys, e))
        arrays = [generator.standard_normal(shape).astype(np.float16) for shape in shapes]
        arrays += [np.array(max(0, keys - rows)), np.array(3)]
        (expected,) = interpret(parse_text(text), arrays)
        checks = Checks.all()
        names = program.manifest.arguments
        (result,) = run(program, dict(zip(names, arrays, strict=True)), checks=checks).values()
        assert not checks.report, str(checks.report)
        np.testing.assert_allclose(result, expected, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("more", ["", pytest.param(", buffers = 2", marks=LONG)])
def test_staged_tiles_of_dynamic_sizes_are_right(more: str):
    changes = {
        "PROPERTIES": f"causal = {D} window = {D} nan_to_zero",
        "NUMBERS": "%causal, %window",
        "16xf16": "32xf16",
        "24xf": "32xf",
        "16, 24]": "32, 32]",
        "= 16, key_tile = 16": "= 32, key_tile = 32",
        "8x8x8": "16x16x16",
        "k = vectors, v = VALUES": "k = staged, v = staged",
        "RESCALE": "seldom",
        "AHEAD": f"keys{more}",
    }
    text = OPEN
    for old, new in changes.items():
        text = text.replace(old, new)
    run_open_sizes(compile_module(parse_text(text), "nvidia-h200"), text, 32, 32)


SHARED = """
func.func @main(%Q: tensor<2x2x9x16xf16>, %K: tensor<2x32x16xf16>, %V: tensor<32x24xf16>)
    -> tensor<2x2x9x24xf32> {
  %r = schedule.dispatch(%Q, %K, %V) : (tensor<2x2x9x16xf16>, tensor<2x32x16xf16>,
      tensor<32x24xf16>) -> tensor<2x2x9x24xf32> {
  ^bb0(%q: tensor<2x2x9x16xf16>, %k: tensor<2x32x16xf16>, %v: tensor<32x24xf16>):
    %e = tensor.empty() : tensor<2x2x9x24xf32>
    %o = schedule.attention %q, %k, %v into %e loops = [2, 2, 9, 32, 16, 24]
      maps = [affine_map<(b, h, m, n, d, e) -> (b, h, m, d)>,
              affine_map<(b, h, m, n, d, e) -> (b, n, d)>, affine_map<(b, h, m, n, d, e) -> (n, e)>,
              affine_map<(b, h, m, n, d, e) -> (b, h, m, e)>]
      scale = 2.5e-1 {schedule = #schedule.attention<query_tile = 8, key_tile = 16, subgroups = 1,
        instruction = coopmat 8x8x8, q = direct, k = direct, v = direct, PROBABILITIES>}
      : tensor<2x2x9x16xf16>, tensor<2x32x16xf16>, tensor<32x24xf16> into tensor<2x2x9x24xf32>
      -> tensor<2x2x9x24xf32>
    schedule.yield %o : tensor<2x2x9x24xf32>
  }
  func.return %r : tensor<2x2x9x24xf32>
}
"""


@pytest.mark.parametrize("place", ["registers", "memory"])
def test_heads_share_packed_operands(place: str):
    text = SHARED.replace("PROBABILITIES", f"rescale = always, probabilities = {place}")
    program = compile_module(parse_text(text), "lavapipe")
    batches = [d.grid[2] for d in program.manifest.dispatches if d.entry_point.startswith("pack")]
    assert sorted(batches) == [1, 2, 4]
    generator = np.random.default_rng(1)
    shapes = ((2, 2, 9, 16), (2, 32, 16), (32, 24))
    arrays = [generator.standard_normal(shape).astype(np.float16) for shape in shapes]
    (expected,) = interpret(parse_text(text), arrays)
    checks = Checks.all()
    given = dict(zip(program.manifest.arguments, arrays, strict=True))
    (result,) = run(program, given, checks=checks).values()
    assert not checks.report, str(checks.report)
    np.testing.assert_allclose(result, expected, rtol=4e-3, atol=4e-3)


def schedule_of(target: str, fields: str) -> str:
    """Returns a schedule with tiles of two fragments and probabilities in registers."""
    rows, shape = INSTRUCTIONS[target]
    subgroups = 2 if "key_parts = 2" in fields or "staged" in fields else 1
    return (
        f"query_tile = {2 * rows}, key_tile = {2 * rows}, subgroups = {subgroups}, "
        f"instruction = coopmat {shape}, probabilities = registers, {fields}"
    )


def compile_case(
    compile_attention: CompileAttention,
    workload: AttentionWorkload,
    target: str,
    fields: str,
) -> Program:
    return compile_attention(workload.text(), target, schedule_of(target, fields))


@pytest.mark.parametrize(
    ("target", "workload", "fields"),
    [
        ("lavapipe", {"mask": "causal", "d": 16, "e": 24}, "v = vectors, q = vectors, k = vectors"),
        ("lavapipe", {"mask": "scores", "split": True}, "ahead = values"),
        ("lavapipe", {"n": 32, "m": 16, "sink": True}, "q = rows, ahead = keys, rescale = late"),
        ("nvidia-h200", {"type": "bf16", "d": 40, "e": 72, "mask": "keys", "out": "bf16"},
         "v = vectors, q = vectors, k = vectors, ahead = keys"),
        ("nvidia-h200", {"d": 32, "e": 16, "out": "f32", "n": 64}, "ahead = none"),
        ("nvidia-h200", {"d": 32, "n": 70, "mask": "keys", "sink": True},
         "ahead = keys, key_parts = 2, queries = read"),
        ("lavapipe", {"n": 16, "m": 16}, "ahead = values, key_parts = 2, order = batch"),
        ("nvidia-h200", {"d": 32, "e": 32, "written": "bmeh"}, "ahead = keys"),
        ("nvidia-h200", {"d": 32, "e": 64, "n": 64, "sink": True}, f"{STAGED}, ahead = keys"),
        ("nvidia-h200", {"d": 96, "e": 32, "mask": "scores", "type": "bf16", "out": "bf16"},
         f"{STAGED}, ahead = keys"),
        ("nvidia-h200", {"d": 160, "e": 96, "m": 70, "n": 90, "mask": "causal"},
         f"{STAGED}, ahead = keys, buffers = 2, rescale = late"),
        ("nvidia-h200", {"d": 32, "e": 160, "n": 90}, f"{STAGED}, ahead = keys, queries = read"),
    ],
)  # fmt: skip
def test_every_way_to_read_operands_is_right(
    target: str, workload: dict[str, Any], fields: str, compile_attention: CompileAttention
):
    case = replace(AttentionWorkload(1, 2, 21, 37, 16, 16), **workload)
    program = compile_case(compile_attention, case, target, fields)
    assert program.manifest.component_map == target
    inputs = case.inputs(np.random.default_rng(2))
    checks = Checks.all()
    results = run(program, inputs, checks=checks)
    assert not checks.report, str(checks.report)
    assert all(each.passed for each in check(program, inputs, results))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("k = vectors", "k = vectors needs q = vectors and k = vectors or staged"),
        ("v = vectors", "v = vectors needs vector loads along the operand's rows"),
        (STAGED, "v = staged needs invocations that hold neighbouring rows"),
    ],
)
def test_schedules_that_do_not_fit_are_refused(
    fields: str, message: str, compile_attention: CompileAttention
):
    with pytest.raises(PassFailedException, match=message):
        compile_case(compile_attention, AttentionWorkload(1, 1, 20, 21, 8, 9), "lavapipe", fields)


@pytest.mark.parametrize(
    ("head", "fields", "message"),
    [
        (80, STAGED, "k = staged, but rows of 80 elements are not a multiple of 4 vectors"),
        (
            32,
            "q = vectors, k = staged, v = vectors",
            "staging needs q = vectors, k = staged, v = staged",
        ),
        (
            32,
            "q = vectors, k = vectors, v = vectors, buffers = 2",
            "staging needs q = vectors, k = staged, v = staged",
        ),
        (32, f"{STAGED}, ahead = values", "key_parts = 1, ahead = keys and 1 or 2 buffers would"),
        (32, f"{STAGED}, ahead = keys, buffers = 3", "ahead = keys and buffers = 3, because all"),
        (256, f"{STAGED}, ahead = keys, buffers = 2", "Workgroup memory of 65536 bytes exceeds"),
    ],
)
def test_tiles_that_cannot_be_staged_are_refused(
    head: int, fields: str, message: str, compile_attention: CompileAttention
):
    with pytest.raises(PassFailedException, match=message):
        compile_case(
            compile_attention, AttentionWorkload(1, 1, 32, 32, head, head), "nvidia-h200", fields
        )


def test_a_target_without_a_map_is_refused(compile_attention: CompileAttention):
    workload = AttentionWorkload(1, 1, 16, 16, 16, 16)
    with pytest.raises(PassFailedException, match="does not list how it distributes"):
        compile_case(compile_attention, workload, "nvidia-ada", "v = direct")


@pytest.mark.vulkan
@pytest.mark.parametrize("more", ["", ", key_parts = 2, order = batch"])
def test_lavapipe_holds_components_where_its_target_says(
    more: str, compile_attention: CompileAttention, check_on_lavapipe: CheckOnLavapipe
):
    workload = AttentionWorkload(1, 2, 18, 37, 16, 8, mask="causal", causal_offset=3)
    fields = f"q = vectors, k = vectors, v = vectors{more}"
    check_on_lavapipe(compile_case(compile_attention, workload, "lavapipe", fields))


@pytest.mark.parametrize("head", [64, 128, 160, 192, 224, 256])
def test_the_default_schedule_fits_the_registers(head: int, form_attention: FormAttention):
    """A driver that runs out of registers spills, which takes up to 20 times as long."""
    target = targets.load("nvidia-h200")
    text = AttentionWorkload(4, 16, 2048, 2048, head, head).text()
    _, (op,) = form_attention(text, "nvidia-h200")
    plan = AttentionPlan(op, choose_matrices(op, target), target)
    model, schedule = target.model.attention, plan.schedule
    held = model.held if schedule.holds_queries else model.held_reading
    assert count_registers(plan) <= (model.most_held if schedule.staged else held)
    assert schedule.staged == (head > 128)
    assert count_registers(plan) + count_words_ahead(plan) <= model.most_held
