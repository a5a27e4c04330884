"""
Attention in one kernel is recognized, right at every stage, or refused.

Random attentions (`testing/attention_workloads.py`) are lowered pass by pass, and run as binaries
with all checks. `make test` runs the first seeds, `make test-long` 60.

Covers: graph/attention_patterns, kernel/attention_elements, kernel/attention_rows,
schedule/attention_choice, schedule/attention_replacing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, UnitAttr, f32, i64
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv import targets
from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionLanesAttr
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.passes.schedule.attention_choice import choose_attention
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.testing.attention_workloads import MASKS, AttentionWorkload, attention_workload

if TYPE_CHECKING:
    from tests.conftest import CheckOnLavapipe
    from tests.passes.conftest import CompileAttention, FormAttention, Judge, Validate

TARGETS = {"lavapipe": "f16", "nvidia-h200": "bf16"}
QUICK, SEEDS = 1, 60

SMALL = AttentionWorkload(1, 2, 20, 21, 10, 9)


def seeds() -> list[Any]:
    return [pytest.param(n, marks=[pytest.mark.long] * (n >= QUICK)) for n in range(SEEDS)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", seeds())
def test_every_stage_keeps_the_results(validate: Validate, seed: int, target: str):
    made = attention_workload(np.random.default_rng(seed), TARGETS[target], largest=24)
    validate(made.text(), linalg_to_spirv(target), inputs=1)


@pytest.mark.parametrize(
    ("mask", "schedule"),
    [
        ("causal", "query_tile = 16, key_tile = 8, subgroups = 2, rescale = seldom"),
        pytest.param(
            "scores",
            "query_tile = 16, key_tile = 16, subgroups = 1, rescale = always",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "keys",
            "query_tile = 32, key_tile = 16, subgroups = 2, rescale = seldom",
            marks=pytest.mark.long,
        ),
    ],
)
def test_no_check_finds_anything(
    mask: str, schedule: str, judge: Judge, form_attention: FormAttention
):
    workload = replace(SMALL, mask=mask, sink=mask != "scores")
    program = compile_module(
        form_attention(workload.text(), "lavapipe", f"{schedule}, instruction = coopmat 8x8x8")[0],
        "lavapipe",
    )
    judge(program, workload.inputs(np.random.default_rng(1)))


def test_a_step_reads_only_existing_keys(judge: Judge, compile_attention: CompileAttention):
    """The kernel does not read keys beyond a static number of keys."""
    workload = replace(SMALL, m=8, n=2, d=21, e=13, mask="scores")
    program = compile_attention(workload.text(), "lavapipe")
    assert any("keys = 4" in layer.schedule for layer in program.layers)
    judge(program, workload.inputs(np.random.default_rng(1)))


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(20))
def test_random_attentions_pass_all_checks(
    seed: int, target: str, judge: Judge, compile_attention: CompileAttention
):
    made = attention_workload(np.random.default_rng(100 + seed), TARGETS[target], largest=24)
    judge(
        compile_attention(made.text(), target),
        made.inputs(np.random.default_rng(seed)),
    )


@pytest.mark.parametrize("path", ["rows", "direct"])
def test_tiles_may_be_read_in_place_or_packed(path: str, compile_attention: CompileAttention):
    workload = AttentionWorkload(2, 1, 16, 32, 16, 24, mask="scores", split=True)
    schedule = (
        "query_tile = 16, key_tile = 16, subgroups = 1, instruction = coopmat 8x8x8, "
        f"q = {path}, k = {path}, v = {path}"
    )
    program = compile_attention(workload.text(), "lavapipe", schedule)
    assert len(program.manifest.dispatches) == (1 if path == "rows" else 4)
    inputs = workload.inputs(np.random.default_rng(3))
    results = run(program, inputs)
    assert all(each.passed for each in check(program, inputs, results))


@pytest.mark.parametrize("size", [4, 64])
def test_other_subgroup_sizes_are_supported(
    size: int, tmp_path: Path, compile_attention: CompileAttention
):
    known = json.loads(Path(targets.__file__).with_name("lavapipe.json").read_text())
    known["subgroup_size"] = {"default": size, "min": size, "max": size}
    path = tmp_path / "other.json"
    path.write_text(json.dumps(known))
    workload = AttentionWorkload(1, 2, 16, 16, 8, 8, mask="causal")
    schedule = (
        "query_tile = 8, key_tile = 8, subgroups = 1, instruction = coopmat 8x8x8, "
        "q = rows, k = rows, v = rows"
    )
    program = compile_attention(workload.text(), str(path), schedule)
    inputs = workload.inputs(np.random.default_rng(4))
    results = run(program, inputs)
    assert all(each.passed for each in check(program, inputs, results))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("softmax", ["f32", "f16"])
@pytest.mark.parametrize("sink", [False, True])
def test_attention_becomes_one_operation(
    mask: str, softmax: str, sink: bool, form_attention: FormAttention
):
    workload = replace(SMALL, mask=mask, softmax=softmax, split=True, causal_offset=2, sink=sink)
    module, (op,) = form_attention(workload.text(), "lavapipe")
    assert op.given[-2] == (2 if mask == "causal" else None)
    assert (op.mask is not None) == (mask in ("keys", "scores"))
    assert (op.sink is not None) == sink
    assert op.extents == (20, 21, 10, 9)
    assert op.scale.value.data == workload.scale
    assert (op.narrow is not None) == (softmax == "f16")
    kinds = {each.name.split(".")[0] for each in module.walk()}
    assert kinds == {"builtin", "func", "schedule", "tensor"}


def test_a_row_without_a_score_is_nan(compile_attention: CompileAttention):
    workload = replace(SMALL, mask="keys")
    inputs = workload.inputs(np.random.default_rng(5))
    inputs["mask"][...] = -np.inf
    program = compile_attention(workload.text(), "lavapipe")
    (result,) = run(program, inputs).values()
    assert np.isnan(result).all()
    lowest = np.finfo(np.float32).min
    inputs["mask"][...] = lowest
    (result,) = run(program, inputs).values()
    # All scores are equal, so that all values have equal weight.
    mean = inputs["v"].astype(np.float64).mean(2, keepdims=True)
    assert np.abs(result - mean).max() < 2e-3


def test_rows_of_nan_may_be_zero(form_attention: FormAttention):
    workload = replace(SMALL, mask="keys")
    module, (op,) = form_attention(workload.text(), "lavapipe")
    op.properties["nan_to_zero"] = UnitAttr()
    inputs = workload.inputs(np.random.default_rng(6))
    inputs["mask"][...] = -np.inf
    (expected,) = interpret(module, list(inputs.values()))
    (result,) = run(compile_module(module, "lavapipe"), inputs).values()
    assert not result.any()
    assert not expected.any()


@pytest.mark.parametrize("way", ["memory, rescale = late", "converted, rescale = seldom"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("window", IntegerAttr(-3, i64)), ("cap", FloatAttr(2.0, f32))],
    ids=["window", "cap"],
)
def test_windows_and_caps_need_no_component_positions(
    name: str, value: Any, way: str, judge: Judge, form_attention: FormAttention
):
    module, (op,) = form_attention(SMALL.text(), "lavapipe")
    op.properties[name] = value
    schedule = "query_tile = 16, key_tile = 8, subgroups = 1, instruction = coopmat 8x8x8"
    attribute = f"#schedule.attention<{schedule}, probabilities = {way}>"
    op.attributes[SCHEDULE] = Parser(context(), attribute).parse_attribute()
    inputs = SMALL.inputs(np.random.default_rng(7))
    (expected,) = interpret(module, list(inputs.values()))
    program = compile_module(module, "lavapipe")
    judge(program, inputs)
    (result,) = run(program, inputs).values()
    np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("change", [{"d": 300}, {"type": "f32", "out": "f32"}], ids=str)
def test_attention_without_matrices_uses_multiply_adds(
    change: dict[str, Any], form_attention: FormAttention
):
    _, (op,) = form_attention(replace(SMALL, **change).text(), "lavapipe")
    assert isinstance(choose_attention(op, targets.load("lavapipe")), AttentionLanesAttr)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("%d = arith.subf %x2, %x1 : f32", "%d = arith.subf %x1, %x2 : f32"),
        ("%y = arith.addf %x0, %p : f32", "%y = arith.mulf %x0, %p : f32"),
        ("%y = arith.addf %x0, %p : f32", "%y = arith.addf %x0, %x0 : f32"),
    ],
)
def test_other_sums_are_not_sinks(line: str, other: str, form_attention: FormAttention):
    text = replace(SMALL, sink=True).text()
    assert text.count(line) == 1
    _, found = form_attention(text.replace(line, other), "lavapipe")
    assert not found


def test_scores_with_other_users_are_not_replaced(form_attention: FormAttention):
    source = SMALL.text()
    result, scores = "tensor<1x2x20x9xf16>", "tensor<1x2x20x21xf32>"
    source = source.replace(
        f") -> {result} {{\n    %s_e", f") -> ({result}, {scores}) {{\n    %s_e"
    )
    assert "return %z" in source
    source = source.replace(
        f"func.return %z : {result}", f"func.return %z, %x : {result}, {scores}"
    )
    _, found = form_attention(source, "lavapipe")
    assert not found


def test_too_many_registers_are_refused(compile_attention: CompileAttention):
    workload = AttentionWorkload(1, 1, 128, 128, 128, 128)
    schedule = "query_tile = 128, key_tile = 64, subgroups = 4, instruction = coopmat 16x16x16"
    with pytest.raises(PassFailedException, match="fragments need 300 registers of an invocation"):
        compile_attention(workload.text(), "nvidia-h200", schedule)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("head", [16, 40, 128, 256])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_every_head_has_a_schedule(
    head: int, mask: str, target: str, form_attention: FormAttention
):
    type = TARGETS[target]
    workload = AttentionWorkload(1, 8, 96, 96, head, head, type, mask, out=type)
    _, found = form_attention(workload.text(), target)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "query_tile = 16, key_tile = 16, subgroups = 1, instruction = coopmat 16x16x16",
            "coopmat 16x16x16: lavapipe has 8x8x8",
        ),
        (
            "query_tile = 8, key_tile = 8, subgroups = 1, instruction = coopmat 8x8x8, q = rows",
            "q = rows, but 20 along M or N is not a multiple of 8: direct would fit",
        ),
        (
            "query_tile = 512, key_tile = 64, subgroups = 64, instruction = coopmat 8x8x8",
            "exceeds lavapipe's 32768: fewer subgroups, rows, columns or keys would fit",
        ),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(
    schedule: str, message: str, compile_attention: CompileAttention
):
    with pytest.raises(PassFailedException, match=message):
        compile_attention(SMALL.text(), "lavapipe", schedule)


@pytest.mark.vulkan
def test_attention_is_right_on_lavapipe(
    compile_attention: CompileAttention, check_on_lavapipe: CheckOnLavapipe
):
    workload = AttentionWorkload(2, 1, 20, 13, 10, 9, mask="causal")
    schedule = "query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8"
    schedule += ", rescale = always"
    check_on_lavapipe(compile_attention(workload.text(), "lavapipe", schedule))
