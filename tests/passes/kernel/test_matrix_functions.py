"""
Attention and epilogues use instructions that reduce, convert and access matrix elements.

Covers: spirv/kernel_functions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

import xdsl_spirv as xs
from xdsl_spirv import targets
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.attention_workloads import AttentionWorkload
from xdsl_spirv.testing.fused_workloads import fused_workload

if TYPE_CHECKING:
    from tests.conftest import CheckOnLavapipe
    from tests.passes.conftest import CompileAttention, Judge, Validate

H200 = Path(targets.__file__).parent / "nvidia-h200.json"
FEATURES = (targets.CONVERSIONS, targets.PER_ELEMENT, targets.REDUCTIONS)
CONVERTED = "instruction = coopmat 16x16x16, probabilities = converted"
LONG = pytest.mark.long

PLAIN = AttentionWorkload(1, 2, 40, 48, 64, 64)


@pytest.fixture
def target_without(tmp_path: Path) -> Callable[..., str]:
    """Returns the path of a copy of the H200's file without some fields and features."""

    def write(*left_out: str, features: tuple[str, ...] = ()) -> str:
        data = json.loads(H200.read_text())
        data = {key: value for key, value in data.items() if key not in left_out}
        data["features"] = [name for name in data["features"] if name not in features]
        data["name"] = "-".join(("without", *left_out, *features))
        path = tmp_path / f"{data['name']}.json"
        path.write_text(json.dumps(data))
        return str(path)

    return write


def instructions_of(program: Program) -> set[str]:
    """Returns the extension's instructions with function operands in the kernels."""
    names = ("PerElementOpNV", "ReduceNV")
    texts = [xs.disassemble(code.binary) for code in program.code.values()]
    return {name for name in names if any(name in text for text in texts)}


@pytest.mark.parametrize(
    ("workload", "schedule"),
    [
        ({"sink": True}, "query_tile = 16, key_tile = 32, subgroups = 1, rescale = always"),
        ({"n": 45, "e": 24, "mask": "causal", "sink": True},
         "query_tile = 32, key_tile = 32, subgroups = 2, rescale = seldom"),
        ({"m": 37, "n": 45, "mask": "scores", "type": "bf16", "out": "bf16"},
         "query_tile = 32, key_tile = 16, subgroups = 1, rescale = seldom"),
        ({"m": 32, "n": 64, "mask": "keys", "out": "f32"},
         "query_tile = 16, key_tile = 16, subgroups = 1, rescale = always, "
         "q = rows, k = rows, v = rows"),
        ({"m": 33, "n": 77, "d": 128, "e": 128, "mask": "causal"},
         "query_tile = 64, key_tile = 32, subgroups = 2, rescale = seldom"),
        pytest.param({"m": 50, "n": 61, "d": 128, "e": 128, "type": "bf16", "split": True},
         "query_tile = 64, key_tile = 64, subgroups = 4, rescale = always", marks=LONG),
        pytest.param({"m": 17, "n": 15, "d": 40, "e": 72, "mask": "causal", "causal_offset": -3},
         "query_tile = 16, key_tile = 16, subgroups = 1, rescale = seldom", marks=LONG),
    ],
)  # fmt: skip
def test_attention_uses_matrix_functions(
    workload: dict[str, Any], schedule: str, judge: Judge, compile_attention: CompileAttention
):
    case = replace(PLAIN, **workload)
    program = compile_attention(case.text(), "nvidia-h200", f"{schedule}, {CONVERTED}")
    assert instructions_of(program) == {"PerElementOpNV", "ReduceNV"}
    assert program.manifest.component_map is None
    assert ", converted" in str(xs.explain(program))
    judge(program, case.inputs(np.random.default_rng(1)))


TWO_SCALES = Path(__file__).with_name("two_scales.mlir")
GELU = """func.func @main(%A: tensor<{m}x{k}xf16>, %B: tensor<{k}x{n}xf16>, %C: tensor<{n}xf32>)
    -> tensor<{m}x{n}xf16> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %p = linalg.matmul {{schedule = {schedule}}}
      ins(%A, %B : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
      outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %g = tensor.empty() : tensor<{m}x{n}xf16>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %C : tensor<{m}x{n}xf32>, tensor<{n}xf32>) outs(%g : tensor<{m}x{n}xf16>) {{
  ^bb0(%s: f32, %b: f32, %o: f16):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.70710678118654752 : f32
    %x = arith.addf %s, %b : f32
    %t = arith.mulf %x, %root : f32
    %u = math.erf %t : f32
    %v = arith.addf %u, %one : f32
    %h = arith.mulf %x, %half : f32
    %w = arith.mulf %h, %v : f32
    %y = arith.truncf %w : f32 to f16
    linalg.yield %y : f16
  }} -> tensor<{m}x{n}xf16>
  func.return %r : tensor<{m}x{n}xf16>
}}
"""

ELEMENTS = (
    "#schedule.contraction<workgroup_tile = [32, 32, 32], subgroups = [2, 1], "
    "instruction = coopmat 16x16x16, a = staged<padding = 8>, b = direct, result = elements>"
)


def with_gelu(sizes: tuple[int, int, int], target: str, schedule: str) -> Program:
    m, n, k = sizes
    module = parse_text(GELU.format(m=m, n=n, k=k, schedule=schedule), ctx=context())
    spec = "linalg-to-contraction,form-dispatches"
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, spec).apply(context(), module)
    return compile_module(module, target)


@pytest.mark.parametrize("sizes", [(64, 32, 32), (50, 47, 40), (33, 40, 72)])
def test_an_epilogue_uses_matrix_functions(sizes: tuple[int, int, int], judge: Judge):
    program = with_gelu(sizes, "nvidia-h200", ELEMENTS)
    assert "PerElementOpNV" in instructions_of(program)
    m, n, k = sizes
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = generator.standard_normal(n).astype(np.float32)
    inputs = {"A": a, "B": b, "C": c}
    judge(program, inputs)
    (result,) = run(program, inputs).values()
    total = a.astype(np.float64) @ b.astype(np.float64) + c
    exact = 0.5 * total * (1 + np.vectorize(math.erf)(total * math.sqrt(0.5)))
    np.testing.assert_allclose(result, exact, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("left_out", "rescale"),
    [(("component_map",), "seldom"), (("component_map", "even_fragments"), "always")],
)
def test_without_a_component_map_matrix_functions_are_the_default(
    left_out: tuple[str, ...],
    rescale: str,
    target_without: Callable[..., str],
    judge: Judge,
    compile_attention: CompileAttention,
):
    target, case = target_without(*left_out), replace(PLAIN, m=64)
    program = compile_attention(case.text(), target)
    (schedule,) = [layer.schedule for layer in program.layers if layer.path == "attention"]
    assert f"rescale = {rescale}, probabilities = converted" in str(schedule)
    judge(program, case.inputs(np.random.default_rng(1)))


@pytest.mark.parametrize("first", [0, pytest.param(40, marks=LONG), pytest.param(80, marks=LONG)])
def test_random_chains_are_right_without_a_component_map(
    first: int, target_without: Callable[..., str], judge: Judge
):
    target, used = target_without("component_map"), 0
    for seed in range(first, first + 12):
        made = fused_workload(seed, largest=40)
        program = compile_module(parse_text(made.text()), target)
        used += "PerElementOpNV" in instructions_of(program)
        judge(program, made.inputs(np.random.default_rng(seed)))
    assert used


def test_every_stage_keeps_the_results(validate: Validate, target_without: Callable[..., str]):
    target = target_without("component_map")
    validate(replace(PLAIN, mask="causal").text(), linalg_to_spirv(target), inputs=1)


def test_without_the_features_nothing_changes(
    target_without: Callable[..., str], compile_attention: CompileAttention
):
    for target in (target_without(features=FEATURES), "nvidia-h200"):
        program = compile_attention(PLAIN.text(), target)
        assert instructions_of(program) == set()
        assert program.manifest.component_map is not None


@pytest.mark.parametrize("feature", FEATURES)
def test_a_schedule_that_needs_a_missing_feature_is_refused(
    feature: str, target_without: Callable[..., str], compile_attention: CompileAttention
):
    target = target_without(features=(feature,))
    schedule = f"query_tile = 16, key_tile = 16, subgroups = 1, {CONVERTED}"
    missing = f"{Path(target).stem} does not list {feature}"
    message = f"probabilities = converted, but {missing}: use probabilities = memory"
    with pytest.raises(PassFailedException, match=message):
        compile_attention(PLAIN.text(), target, schedule)
    if feature == targets.PER_ELEMENT:
        message = f"result = elements, but {Path(target).stem} does not list {feature}: use"
        with pytest.raises(PassFailedException, match=message):
            with_gelu((32, 32, 32), target, ELEMENTS)


def test_an_instruction_whose_operand_is_no_accumulator_is_refused(
    compile_attention: CompileAttention,
):
    schedule = (
        "query_tile = 16, key_tile = 16, subgroups = 1, instruction = coopmat 16x8x16, "
        "probabilities = converted"
    )
    message = "accumulators have 8 columns and A has 16: use probabilities = memory"
    with pytest.raises(PassFailedException, match=message):
        compile_attention(PLAIN.text(), "nvidia-h200", schedule)


ON_LAVAPIPE = "instruction = coopmat 8x8x8, probabilities = converted"


@pytest.mark.vulkan
@pytest.mark.parametrize("what", ["attention", "product"])
def test_lavapipe_executes_matrix_functions(
    what: str, compile_attention: CompileAttention, check_on_lavapipe: CheckOnLavapipe
):
    if what == "attention":
        case = replace(PLAIN, m=21, n=37, d=16, e=24, mask="causal")
        schedule = f"query_tile = 8, key_tile = 16, subgroups = 1, {ON_LAVAPIPE}"
        program = compile_attention(case.text(), "lavapipe", schedule)
    else:
        program = with_gelu((20, 27, 16), "lavapipe", ELEMENTS.replace("16x16x16", "8x8x8"))
    requires = program.manifest.requires
    assert requires is not None
    asked = {requirement.because for requirement in requires.features}
    assert "CooperativeMatrixPerElementOperationsNV" in asked
    check_on_lavapipe(program)


def test_kernels_that_differ_in_a_number_of_a_function_are_shared(judge: Judge):
    program = compile_module(parse_text(TWO_SCALES.read_text()), "nvidia-h200")
    assert len(program.code) == 1
    assert len(program.manifest.dispatches) == 2
    generator = np.random.default_rng(1)
    judge(program, {n: generator.standard_normal((32, 16)).astype(np.float16) for n in "qk"})
