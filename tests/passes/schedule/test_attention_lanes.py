"""
Attention of dynamic sizes and few queries, as in decoding, is computed by multiply-adds.

Covers: kernel/attention_lanes_code, schedule/attention_replacing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir.affine import AffineMap
from xdsl.parser import Parser

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionLanesAttr, DispatchOp
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.analysis.linalg_code import Code
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan, choose_lanes
from xdsl_spirv.passes.schedule.attention_replacing import merge_parts
from xdsl_spirv.passes.schedule.paths import COMPUTED, Decisions, considered_before
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import load
from xdsl_spirv.testing.attention_states import KINDS, StateAttention
from xdsl_spirv.testing.attention_workloads import AttentionWorkload

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries
    from tests.passes.conftest import FormAttention

STEPS = (("prefill", 5), ("decode", 1), ("prefill", 2), ("decode", 1))

CASES = {
    "lavapipe": StateAttention(2, 3, 10, 32, sink=True),
    "qualcomm-adreno": StateAttention(1, 2, 12, 2048, type="f32", window=2),
}


@pytest.mark.parametrize("target", CASES)
def test_queries_see_the_cache_and_what_they_add_to_it(target: str, check_binaries: CheckBinaries):
    case = CASES[target]
    functions = {"prefill": replace(case, rows=None), "decode": case}
    module = parse_text("\n".join(f.text(name) for name, f in functions.items()))
    program = compile_module(module, target, functions=tuple(functions))
    kernels = [d.entry_point for d in program.functions["decode"].manifest.dispatches]
    assert "reduction" in kernels[-1]
    check_binaries(program)
    generator, past = np.random.default_rng(1), 0
    keys = values = np.zeros((case.heads, 0, case.head))
    with program.session() as session:
        for name, rows in STEPS:
            inputs = case.inputs(generator, rows)
            keys, values = (
                np.concatenate([before, inputs[new]], 1)
                for before, new in ((keys, "new_k"), (values, "new_v"))
            )
            checks = Checks.of("all")
            (result,) = session.run(name, past=past, checks=checks, **inputs).values()
            assert not checks.report.findings, str(checks.report)
            expected = case.expected(inputs["q"], keys, values, past, inputs.get("sink", -np.inf))
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)
            past += rows


PARTS = """
func.func @main(%q: tensor<3x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x6xf32>, %n: index,
    %causal: index, %sink: tensor<1xf32>) -> (tensor<3x6xf32>, tensor<4x3x8xf32>) {
  %e = tensor.empty() : tensor<3x6xf32>
  %whole = schedule.attention %q, %k, %v SINK into %e numbers %n, %causal
    loops = [3, -9223372036854775808, 8, 6] maps = [#q, #k, #v, #r MAP] scale = 5.0e-1
    causal = -9223372036854775808 GUARD
    : tensor<3x8xf32>, tensor<?x8xf32>, tensor<?x6xf32> TYPE into tensor<3x6xf32> -> tensor<3x6xf32>
  %ep = tensor.empty() : tensor<4x3x8xf32>
  %parts = schedule.attention %q, %k, %v SINK into %ep numbers %n, %causal
    loops = [3, -9223372036854775808, 8, 6] maps = [#q, #k, #v, #r MAP] scale = 5.0e-1
    causal = -9223372036854775808 parts = 4
    : tensor<3x8xf32>, tensor<?x8xf32>, tensor<?x6xf32> TYPE
      into tensor<4x3x8xf32> -> tensor<4x3x8xf32>
  return %whole, %parts : tensor<3x6xf32>, tensor<4x3x8xf32>
}
"""

MAPS = "".join(
    f"#{name} = affine_map<({loops}) -> ({place})>\n"
    for name, loops, place in (
        ("q", "m, n, d, e", "m, d"),
        ("k", "m, n, d, e", "n, d"),
        ("v", "m, n, d, e", "n, e"),
        ("r", "m, n, d, e", "m, e"),
        ("s", "m, n, d, e", "0"),
    )
)


@pytest.mark.parametrize(("keys", "causal"), [(9, 6), (9, -2), (2, 0), (1, 5), (0, 0)])
@pytest.mark.parametrize("guard", ["", "nan_to_zero"])
@pytest.mark.parametrize("sink", [None, 0.5, 40.0])
def test_parts_are_merged_to_the_whole_attention(
    keys: int, causal: int, guard: str, sink: float | None
):
    """The cases include empty parts, fully masked rows, and zero keys."""
    generator = np.random.default_rng(3)
    q, k, v = (generator.standard_normal(s).astype("f4") for s in ((3, 8), (keys, 8), (keys, 6)))
    text = PARTS.replace("GUARD", guard)
    own = ("sink %sink", ", #s", "sink tensor<1xf32>") if sink is not None else [""] * 3
    for name, part in zip(("SINK", "MAP", "TYPE"), own, strict=True):
        text = text.replace(name, part)
    given = [q, k, v, np.array(keys), np.array(causal), np.array([sink or 0.0], np.float32)]
    module = parse_text(MAPS + text)
    (function,) = functions_of(module)
    end = function.body.block.last_op
    assert end is not None
    whole, parts = end.operands
    type, place = whole.type, AffineMap.identity(2)
    assert isinstance(type, TensorType)
    end.operands[1] = merge_parts(Code(end), parts, place, type, bool(guard))
    function.update_function_type()
    whole, merged = interpret(module, given)
    np.testing.assert_allclose(merged, whole, rtol=1e-6, atol=1e-7)
    scores = q @ k.T * 0.5
    scores[np.arange(keys) > np.arange(3)[:, None] + causal] = -np.inf
    powers = np.exp(scores)
    total = powers.sum(1, keepdims=True) + np.exp(-np.inf if sink is None else sink)
    seen = total[:, 0] > 0
    np.testing.assert_allclose(whole[seen], (powers @ v)[seen] / total[seen], 1e-5)
    blind = [row for row in range(3) if min(keys, row + causal + 1) <= 0]
    assert np.isnan(whole[blind]).all() if not (guard or sink) else not whole[blind].any()
    assert np.isfinite(np.delete(whole, blind, 0)).all()


LANES = (
    "#schedule.attention_lanes<rows = {}, lanes = {}, keys = {}, subgroups = {}, across = keys{}>"
)


@pytest.mark.parametrize("ahead", ["", ", ahead = 2"])
def test_a_printed_schedule_can_be_parsed(ahead: str):
    text = LANES.format(4, 8, 2, 4, ahead)
    assert str(Parser(context(), text).parse_attribute()) == text


@pytest.mark.parametrize(
    ("case", "keys", "schedule"),
    [
        (StateAttention(2, 4, 32, 0), 40, (4, 8, 2, 2, ", ahead = 2")),
        (StateAttention(1, 3, 20, 0), 33, (3, 4, 2, 2, ", ahead = 1")),
        (StateAttention(2, 1, 64, 0), 70, (1, 32, 2, 2, ", ahead = 2")),
        (StateAttention(1, 5, 16, 0), 50, (5, 2, 4, 1, "")),
        (StateAttention(1, 6, 24, 0, type="bf16"), 9, (6, 1, 2, 1, ", ahead = 2")),
        (StateAttention(1, 1, 40, 0), 30, (1, 4, 2, 2, ", ahead = 2")),
    ],
)
def test_lanes_may_have_separate_scores(
    case: StateAttention, keys: int, schedule: Any, form_attention: FormAttention
):
    """The cases include odd numbers of rows, growing scores, and empty parts."""
    module, (op,) = form_attention(case.text(stream=(1, 4)), "nvidia-h200")
    op.attributes[SCHEDULE] = Parser(context(), LANES.format(*schedule)).parse_attribute()
    program = compile_module(module, "nvidia-h200")
    generator = np.random.default_rng(keys)
    shapes = [(case.heads, case.queries, 1, case.head), *[(case.heads, keys, case.head)] * 2]
    kind = KINDS[case.type]
    q, k, v = (generator.standard_normal(shape).astype(kind) for shape in shapes)
    k = (k.astype("f4") * np.linspace(0.1, 12, keys)[:, None]).astype(kind)
    names = [buffer.name for buffer in program.manifest.inputs]
    checks = Checks.of("all")
    given = dict(zip(names, (q, k, v, np.ones((1, 4), "f4")), strict=True))
    result, _ = run(program, given, checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    expected = case.expected(q, k, v, keys - 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)


STORED = {
    "i8": """%w = arith.sitofp %x : i8 to f32
      %dw = arith.extf %d : f16 to f32
      %y = arith.mulf %w, %dw : f32
      %z = arith.truncf %y : f32 to f16""",
    "e5m2": """%h = arith.extui %x : i8 to i16
      %c = arith.constant 8 : i16
      %y = arith.shli %h, %c : i16
      %f = arith.bitcast %y : i16 to f16
      %z = arith.mulf %f, %d : f16""",
}


def write_computed(case: AttentionWorkload, stored: str) -> str:
    """
    Returns an attention whose keys and values are computed from bytes and a factor per row, by the
    code `STORED[stored]`.
    """
    text = case.text()
    for name, width in (("k", case.d), ("v", case.e)):
        shape = f"{case.batch}x{case.heads}x{case.n}x"
        type, given = f"tensor<{shape}{width}xf16>", f"%{name} : tensor<{shape}{width}xf16>"
        assert text.count(given) == 1
        text = text.replace(
            given, f"%q{name} : tensor<{shape}{width}xi8>, %d{name} : tensor<{shape}1xf16>"
        )
        loops = "affine_map<(b, h, n, d) -> (b, h, n, d)>"
        text = text.replace(
            " {\n",
            f""" {{
    %e{name} = tensor.empty() : {type}
    %{name} = linalg.generic {{indexing_maps = [{loops}, affine_map<(b, h, n, d) -> (b, h, n, 0)>,
        {loops}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
        ins(%q{name}, %d{name} : tensor<{shape}{width}xi8>, tensor<{shape}1xf16>)
        outs(%e{name} : {type}) {{
    ^bb0(%x: i8, %d: f16, %before: f16):
      {STORED[stored]}
      linalg.yield %z : f16
    }} -> {type}
""",
            1,
        )
    return text


@pytest.mark.parametrize(
    ("target", "stored", "case", "count"),
    [
        ("lavapipe", "i8", AttentionWorkload(1, 2, 1, 40, 64, 32, sink=True), 1),
        ("nvidia-h200", "e5m2", AttentionWorkload(2, 3, 4, 70, 48, 64, mask="scores"), 1),
        ("qualcomm-adreno", "i8", AttentionWorkload(1, 2, 3, 37, 20, 8, mask="causal"), 1),
        ("lavapipe", "e5m2", AttentionWorkload(1, 2, 2, 37, 10, 12), 2),
    ],
)
def test_keys_and_values_are_computed_where_they_are_read(
    target: str, stored: str, case: AttentionWorkload, count: int, check_binaries: CheckBinaries
):
    program = compile_module(parse_text(write_computed(case, stored), ctx=context()), target)
    names = [layer.entry_point for layer in program.layers]
    assert len([name for name in names if "reduction" not in name]) == count, names
    notes = [note for layer in program.layers for note in layer.considered]
    reasons = [note.reason for note in notes if note.path == COMPUTED]
    assert len(reasons) == count - 1
    assert all(
        "k is computed by other code than dequantization of vectors of integers" in reason
        for reason in reasons
    )
    check_binaries(program)
    draw, inputs = np.random.default_rng(2), dict[str, Any]()
    for name, array in case.inputs(np.random.default_rng(1)).items():
        if name not in ("k", "v"):
            inputs[name] = array
            continue
        inputs[f"q{name}"] = draw.integers(-60, 60, array.shape).astype(np.int8)
        factors = draw.random((*array.shape[:-1], 1)) * (0.03 if stored == "i8" else 1.0)
        inputs[f"d{name}"] = factors.astype(np.float16)
    inputs = {n: inputs[n] for n in program.manifest.arguments}
    checks = Checks.of("all")
    results = run(program, inputs, checks=checks)
    assert not checks.report.findings, str(checks.report)
    assert all(each.passed for each in check(program, inputs, results))


def test_few_queries_need_two_dispatches(form_attention: FormAttention):
    text = replace(CASES["lavapipe"], capacity=4096).text()
    module, (op,) = form_attention(text, "nvidia-h200")
    assert op.parts is not None
    assert op.result is not None
    _, merge = (inner for inner in module.walk() if isinstance(inner, DispatchOp))
    assert merge.inputs[0].type == op.result.type


@pytest.mark.parametrize(
    ("case", "subgroups", "parts"),
    [
        (StateAttention(8, 4, 128, 0), 16, 16),
        (StateAttention(8, 1, 128, 0), 8, 32),
        (StateAttention(8, 8, 64, 0), 8, 32),
        (StateAttention(2, 4, 128, 0), 8, 32),
    ],
)
def test_the_number_of_parts_follows_from_the_sizes(
    case: StateAttention, subgroups: int, parts: int, form_attention: FormAttention
):
    _, (op,) = form_attention(case.text(stream=(1, 4)), "nvidia-h200")
    schedule = choose_lanes(op, load("nvidia-h200"))
    assert (schedule.subgroups.data, op.parts and op.parts.value.data) == (subgroups, parts)


def test_registers_that_a_driver_would_spill_are_refused(form_attention: FormAttention):
    """The target file limits the number of registers."""
    target = load("qualcomm-adreno")
    assert target.held_registers is not None
    _, (op,) = form_attention(StateAttention(1, 64, 128, 0).text(), target.name)
    chosen = choose_lanes(op, target)
    assert LanesPlan(op, chosen, target).registers <= target.held_registers
    schedule = Parser(context(), LANES.format(8, 8, 1, 4, "")).parse_attribute()
    assert isinstance(schedule, AttentionLanesAttr)
    (said,) = LanesPlan(op, schedule, target).problems()
    assert said == (
        "queries and results need 256 registers of an invocation, but qualcomm-adreno has "
        "64: fewer rows or more lanes would fit"
    )
    unknown = replace(target, held_registers=None)
    assert list(LanesPlan(op, schedule, unknown).problems()) == []


def test_loads_that_are_under_way_fit_the_held_registers(form_attention: FormAttention):
    target = load("arm-mali")
    _, (op,) = form_attention(StateAttention(1, 64, 64, 0).text(), target.name)
    assert [choose_lanes(op, replace(target, held_registers=n)).keys.data for n in (16, 32)] == [
        *(2, 4)
    ]


@pytest.mark.parametrize("target", ["intel-xe2", "amd-rdna3", "nvidia-ada", "nvidia-ampere"])
def test_an_attention_of_two_products_says_what_the_target_lacks(
    target: str, form_attention: FormAttention
):
    module, ops = form_attention(AttentionWorkload(4, 8, 256, 256, 64, 64).text(), target)
    assert ops == []
    reasons = [note.reason.data for op in module.walk() for note in considered_before(op)]
    assert reasons == [f"{target} does not list how it distributes fragments over invocations"]


def test_a_softmax_whose_attention_has_another_form_says_why(form_attention: FormAttention):
    """
    The function also returns the scores. No attention is formed, because its kernel would not store
    them.
    """
    text = AttentionWorkload(1, 2, 16, 16, 8, 8).text()
    scores = re.search(r"-> (tensor<1x2x16x16xf32>)", text)
    assert scores
    text = re.sub(r"(func.*) -> (tensor<\S+>) {", rf"\1 -> (\2, {scores[1]}) {{", text, count=1)
    text = re.sub(r"return (%\S+) : (\S+)", rf"return \1, %s : \2, {scores[1]}", text)
    module, ops = form_attention(text, "lavapipe")
    assert ops == []
    notes = [str(note.reason.data) for op in module.walk() for note in considered_before(op)]
    assert notes == ["another operation reads the scores"]


def test_an_attention_that_is_not_formed_says_why(form_attention: FormAttention):
    text = StateAttention(1, 128, 64, 0).text(stream=(1, 4))
    module, ops = form_attention(text, "nvidia-ada")
    assert ops == []
    ((op, why),) = [
        (op, note.reason.data)
        for op in module.walk()
        for note in considered_before(op)
        if note.path.data == "attention"
    ]
    assert why.startswith("the paths of q, k and v need static sizes, but sizes")
    # assign-schedule adds notes on the same product.
    decisions = Decisions()
    decisions.note(op, "fma", "nothing else is left", taken=True)
    decisions.write()
    assert [note.path.data for note in considered_before(op)] == ["attention", "fma"]


@pytest.mark.parametrize(("rows", "heads", "fused"), [(128, 2, False), (8192, 32, True)])
def test_many_rows_of_f32_are_two_products_while_their_scores_fit_a_buffer(
    rows: int, heads: int, fused: bool
):
    case = AttentionWorkload(1, heads, rows, rows, 32, 32, "f32", out="f32", softmax="f32")
    program = compile_module(parse_text(case.text()), "nvidia-h200")
    paths = [layer.path for layer in program.layers]
    assert paths == (["attention"] if fused else ["fma", "loops", "fma"])
