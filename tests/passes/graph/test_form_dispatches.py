"""
A contraction and a chain of operations after it become one kernel, and results do not change.

Random chains (`testing/fused_workloads.py`) run as binaries on the interpreter and on lavapipe;
`make test` runs the first seeds, `make test-long` 500.

Covers: graph/element_trees, graph/fuse_dispatches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.passes.schedule.paths import LOOPS
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.testing.fused_workloads import (
    ACTIVATIONS,
    REQUANTIZE,
    FusedWorkload,
    fused_workload,
)
from xdsl_spirv.testing.workloads import TYPES, Workload

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries, DispatchOf, RunOnLavapipe
    from tests.passes.conftest import ReportOf, Validate

TARGETS = ("lavapipe", "nvidia-h200")
CHUNK = 5
SEEDS = 500
QUICK = 5


def chunks() -> list[Any]:
    """Returns ranges of seeds as parameters. Ranges from `QUICK` on are marked long."""
    return [
        pytest.param(range(n, n + CHUNK), marks=[pytest.mark.long] * (n >= QUICK), id=str(n))
        for n in range(0, SEEDS, CHUNK)
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seeds", chunks())
def test_random_chains_are_right_on_the_interpreter(
    seeds: range, target: str, check_binaries: CheckBinaries
):
    for seed in seeds:
        made = fused_workload(seed, largest=32)
        program = compile_module(parse_text(made.text()), target)
        # Loops may need a dispatch for each result. The product needs one after packing.
        paths = [layer.path for layer in program.layers if layer.path != "pack"]
        whole = len(paths) == 1 or (made.extra is not None and paths == [LOOPS, LOOPS])
        assert whole, f"{seed}: {made} is not one kernel: {paths}"
        check_binaries(program)
        inputs = made.inputs(np.random.default_rng(seed))
        comparisons = check(program, inputs, run(program, inputs))
        assert all(c.passed for c in comparisons), f"{seed}: {made}: {comparisons}"


@pytest.mark.vulkan
@pytest.mark.parametrize("seeds", chunks())
def test_random_chains_are_right_on_lavapipe(
    seeds: range, run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
):
    right_on_lavapipe({seed: fused_workload(seed) for seed in seeds}, run_on_lavapipe, dispatch_of)


def right_on_lavapipe(
    workloads: dict[int, FusedWorkload], run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
) -> None:
    """Checks the results of workloads on lavapipe. The seed of each workload gives its inputs."""
    jobs: list[Dispatch] = []
    runs: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = []
    for seed, made in workloads.items():
        program = compile_module(parse_text(made.text()), "lavapipe")
        inputs = made.inputs(np.random.default_rng(seed))
        results = {
            each.name: np.zeros(each.sizes or (1,), dtype_of(each.type))
            for each in program.manifest.outputs
        }
        if len(program.manifest.dispatches) > 1:
            continue  # computed by loops or packed before, see above
        jobs.append(dispatch_of(program, {**inputs, **results}))
        runs.append((f"{seed}: {made}", program, inputs, results))
    run_on_lavapipe(jobs)
    for name, program, inputs, results in runs:
        shaped = {o.name: results[o.name].reshape(o.shape) for o in program.manifest.outputs}
        comparisons = check(program, inputs, shaped)
        assert all(c.passed for c in comparisons), f"{name}: {comparisons}"


def matmul(types: str, m: int, n: int, k: int) -> FusedWorkload:
    """Returns a product of two matrices without a chain."""
    loops = {"m": m, "n": n, "k": k}
    base = Workload("matmul", loops, ("m", "k"), ("k", "n"), ("m", "n"), types)
    result = TYPES[types][2].replace("s", "i")
    return FusedWorkload(base, (m, n), result)


def gelu_chain() -> FusedWorkload:
    """Returns a product with bias, two GELUs, a residual, a conversion and partial tiles."""
    made = matmul("f16 -> f32", 19, 13, 21)
    made.add("bias", ["%v = arith.addf %x, %y : f32"], "f32", made.operand("bias", (13,), "f32"))
    made.add("gelu", ACTIVATIONS["gelu"], "f32")
    residual = made.operand("residual", (19, 13), "f32")
    made.add("residual", ["%v = arith.addf %x, %y : f32"], "f32", residual)
    made.add("gelu", ACTIVATIONS["gelu_tanh"], "f32")
    made.add("to f16", ["%v = arith.truncf %x : f32 to f16"], "f16")
    return made


def requantized() -> FusedWorkload:
    """Returns a product of 8-bit matrices, requantized by channel, with whole tiles."""
    made = matmul("s8 -> s32", 32, 32, 64)
    scale = made.operand("scale", (32,), "f32")
    made.add("requantize", REQUANTIZE, "i8", scale)
    return made


def on_fragments(m: int = 64, n: int = 64) -> FusedWorkload:
    """Returns a product whose bias, scale and residual are computed on cooperative matrices."""
    made = matmul("f16 -> f32", m, n, 32)
    made.add("bias", ["%v = arith.addf %x, %y : f32"], "f32", made.operand("bias", (n,), "f32"))
    made.add("scale", ["%v = arith.mulf %x, %y : f32"], "f32", made.operand("by", (n,), "f32"))
    made.extra = (made.value, "f32")
    residual = made.operand("residual", (m, n), "f32")
    made.add("residual", ["%v = arith.addf %x, %y : f32"], "f32", residual)
    made.add("to f16", ["%v = arith.truncf %x : f32 to f16"], "f16")
    return made


@pytest.mark.vulkan
def test_arithmetic_on_fragments_on_lavapipe(
    run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
):
    """Whole tiles are computed by fragment, partial ones by element."""
    right_on_lavapipe({1: on_fragments(), 2: on_fragments(40, 48)}, run_on_lavapipe, dispatch_of)


def test_arithmetic_on_fragments_needs_no_scratch(check_binaries: CheckBinaries):
    program = compile_module(parse_text(on_fragments().text()), "nvidia-h200")
    check_binaries(program)
    (code,) = program.code.values()
    assert code.text.count("spirv.KHR.CooperativeMatrixStore") % 2 == 0
    assert "<RowMajor>, <NonPrivatePointer> : !spirv.ptr<f32, Workgroup>" not in code.text


@pytest.mark.parametrize(
    ("made", "target"),
    [(gelu_chain, "lavapipe"), (requantized, "nvidia-h200"), (on_fragments, "nvidia-h200")],
)
def test_every_stage_computes_the_same(
    made: Callable[[], FusedWorkload], target: str, validate: Validate
):
    validate(made().text(), f"linalg-to-spirv{{target={target}}}", inputs=4)


def test_a_wrong_epilogue_is_found(report_of: ReportOf):
    """The bound of a fused chain detects a missing epilogue."""
    from xdsl.passes import ModulePass

    from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass

    class Forgetful(ModulePass):
        name = "forgetful"

        def apply(self, ctx: Any, op: Any) -> None:
            for each in list(op.walk()):
                if each.name == "math.erf":
                    each.results[0].replace_all_uses_with(each.operands[0])
                    each.detach()
                    each.erase()

    report = report_of(gelu_chain().text(), [FormDispatchesPass(), Forgetful()], inputs=4)
    assert report.finding is not None
    assert report.finding.stage == "forgetful"


@pytest.mark.parametrize(("results", "each"), [(1, 40), (2, 16)])
def test_kernels_read_as_many_offsets_as_push_constants_hold(results: int, each: int):
    """Sums of slices at dynamic offsets. The kernel also reads the size of the sliced tensor."""
    count = results * each
    arguments = ", ".join(["%x: tensor<?x?xf32>", *(f"%o{i}: index" for i in range(count))])
    types = ", ".join(["tensor<4x8xf32>"] * results)
    text = (
        f"func.func @main({arguments}) -> ({types}) {{\n  %e = tensor.empty() : tensor<4x8xf32>\n"
    )
    for i in range(count):
        kind, read = "copy", f"%s{i} : tensor<4x8xf32>"
        if i % each:
            kind, read = "add", f"%a{i - 1}, %s{i} : tensor<4x8xf32>, tensor<4x8xf32>"
        text += (
            f"  %s{i} = tensor.extract_slice %x[%o{i}, 0] [4, 8] [1, 1] : "
            f"tensor<?x?xf32> to tensor<4x8xf32>\n"
            f"  %a{i} = linalg.{kind} ins({read}) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>\n"
        )
    sums = ", ".join(f"%a{each * (n + 1) - 1}" for n in range(results))
    program = compile_module(parse_text(f"{text}  return {sums} : {types}\n}}"), "lavapipe")
    x = np.arange(40 * 9, dtype=np.float32).reshape(40, 9)
    offsets = {f"o{i}": i * 7 % 36 for i in range(count)}
    for n, result in enumerate(run(program, {"x": x, **offsets}).values()):
        own = [*offsets.values()][n * each : (n + 1) * each]
        np.testing.assert_array_equal(result, sum(x[o : o + 4, :8] for o in own))
