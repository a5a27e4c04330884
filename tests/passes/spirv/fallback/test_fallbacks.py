"""
Every fallback pass keeps results, and removes all instructions of its extension.

The kernels are those that the differential families generate. Each runs on the interpreter before
and after the pass. Results must agree exactly, or within the interval of
testing/differential/legal.py. The module is printed, parsed, encoded and validated for Vulkan 1.2.

Covers: spirv/fallback/virtual_subgroups.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.spirv.module import ModuleOp, modules_in
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.passes.spirv.fallback.to_vulkan12 import ToVulkan12Pass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.testing.differential import Kernel, disagreements, generate, interpret
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.testing.workloads import Workload, workload
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe
    from tests.passes.conftest import Validate


@dataclass(frozen=True)
class Fallback:
    """A pass, a family of kernels that needs it, and instructions that must not remain."""

    passes: str
    family: str
    extension: str
    quick: int = 3
    many: int = 60
    subgroup_size: int = 8
    """Subgroup size of the interpreter after the passes. It is 8 before."""


MATRICES = "spirv-cooperative-matrix-to-invocations"
MATRIX = "SPV_KHR_cooperative_matrix"
FALLBACKS = [
    Fallback("spirv-rotate-to-shuffle", "rotate", "SPV_KHR_subgroup_rotate"),
    Fallback("spirv-dot-to-shifts", "dot", "SPV_KHR_integer_dot_product"),
    Fallback("spirv-bfloat16-to-bits", "bfloat16", "SPV_KHR_bfloat16"),
    Fallback(f"{MATRICES}{{subgroup-size=8}}", "muladd", MATRIX, 1, 40, 4),
    Fallback(f"{MATRICES}{{subgroup-size=8 subgroups=device}}", "muladd", MATRIX, 1, 40),
    Fallback(f"{MATRICES}{{subgroup-size=8}}", "cooperative", MATRIX, 1, 40, 32),
]


def cases() -> list[Any]:
    """Returns (fallback, seed). All except the first seeds are marked long."""
    return [
        pytest.param(each, seed, marks=[pytest.mark.long] * (seed >= each.quick),
                     id=f"{each.passes}-{each.family}-{seed}")
        for each in FALLBACKS
        for seed in range(each.many)
    ]  # fmt: skip


def lowered(kernel: Kernel, passes: str, version: float = 1.5) -> tuple[ModuleOp, ModuleOp]:
    """Returns the kernel's module before the passes, and after passes and a text round trip."""
    ctx = context()
    before = parse_text(kernel.text(), ctx=ctx)
    UpdateVCEPass().apply(ctx, before)
    after = before.clone()
    known = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(known, f"{passes},spirv-update-vce{{version={version}}}").apply(
        ctx, after
    )
    after = parse_text(text_of(after), ctx=ctx)
    after.verify()
    return find_module(before), find_module(after)


@pytest.mark.parametrize(("fallback", "seed"), cases())
def test_the_passes_keep_results(fallback: Fallback, seed: int, spirv_val: str):
    kernel = generate(seed, fallback.family)
    before, after = lowered(kernel, fallback.passes)
    triple = after.vce_triple
    assert triple is not None
    assert fallback.extension not in {e.data for e in triple.extensions}
    assert khronos.spirv_val(encode(after), "vulkan1.2") == ""
    expected = interpret(kernel, before)
    found = disagreements(kernel, expected, interpret(kernel, after, fallback.subgroup_size))
    assert not found, str(found[0])


EXTENSIONS = {
    "SPV_KHR_bfloat16",
    "SPV_KHR_cooperative_matrix",
    "SPV_KHR_integer_dot_product",
    "SPV_KHR_subgroup_rotate",
    "SPV_KHR_vulkan_memory_model",
}
MATRIX_TYPES = ("f16 -> f32", "f16 -> f16", "bf16 -> f32", "s8 -> s32", "u8 -> u32")
LARGEST = 40
ON_LAVAPIPE = 2


@dataclass
class Elsewhere:
    """A contraction compiled for a device with cooperative matrices, then lowered for others."""

    made: Workload
    program: Program
    module: ModuleOp
    inputs: dict[str, Any]
    result: Any

    @staticmethod
    def of(seed: int, target: str, subgroup_size: int) -> Elsewhere | None:
        """Compiles a random contraction. Returns None if its kernel has no cooperative matrix."""
        made = workload(seed, MATRIX_TYPES, LARGEST)
        program = compile_module(parse_text(made.text()), target)
        if len(program.manifest.dispatches) != 1:
            return None
        (launch,) = program.manifest.dispatches
        module = decode(program.code[launch.kernel].binary)
        if "coopmatrix" not in str(module):
            return None
        ToVulkan12Pass(subgroup_size=subgroup_size, workgroup_memory=49152).apply(
            context(), BuiltinModuleOp([module])
        )
        (output,) = program.manifest.outputs
        result = np.zeros(output.sizes or (1,), dtype_of(output.type))
        return Elsewhere(made, program, module, made.inputs(np.random.default_rng(seed)), result)

    @property
    def arrays(self) -> dict[tuple[int, int], Array]:
        (launch,), (output,) = self.program.manifest.dispatches, self.program.manifest.outputs
        arrays = {**self.inputs, output.name: self.result}
        return {(b.set, b.binding): arrays[b.buffer] for b in launch.bindings}

    def check(self) -> None:
        (output,) = self.program.manifest.outputs
        found = {output.name: self.result.reshape(output.shape)}
        (comparison,) = check(self.program, self.inputs, found)
        assert comparison.passed, f"{self.made}: {comparison}"


def elsewhere(target: str, subgroup_size: int, wanted: int) -> list[Elsewhere]:
    """
    Returns the first `wanted` contractions whose kernels are valid without cooperative matrices.
    """
    found: list[Elsewhere] = []
    for seed in itertools.count():
        each = Elsewhere.of(seed, target, subgroup_size)
        if each is None:
            continue
        triple = each.module.vce_triple
        assert triple is not None
        assert EXTENSIONS.isdisjoint(e.data for e in triple.extensions)
        assert khronos.spirv_val(encode(each.module), "vulkan1.2") == ""
        found.append(each)
        if len(found) == wanted:
            return found
    raise AssertionError


@pytest.mark.parametrize(
    "subgroup_size", [4, 64, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 16, 32, 128))]
)
@pytest.mark.parametrize(("target", "made_for"), [("lavapipe", 8), ("nvidia-h200", 32)])
def test_kernels_for_matrices_run_on_any_subgroups(
    target: str, made_for: int, subgroup_size: int, spirv_val: str
):
    for each in elsewhere(target, made_for, 2):
        (launch,) = each.program.manifest.dispatches
        options = Options(subgroup_size=subgroup_size)
        x, y, z = map(int, launch.workgroups)
        dispatch(each.module, launch.entry_point, (x, y, z), each.arrays, options=options)
        each.check()


PROGRAM = """
func.func @main(%a: tensor<20x40xi8>, %b: tensor<40x24xi8>, %c: tensor<20x24xi32>) -> tensor<20xi32> {
  %r = linalg.matmul ins(%a, %b : tensor<20x40xi8>, tensor<40x24xi8>) outs(%c : tensor<20x24xi32>) -> tensor<20x24xi32>
  %z = arith.constant 0 : i32
  %e = tensor.empty() : tensor<20xi32>
  %f = linalg.fill ins(%z : i32) outs(%e : tensor<20xi32>) -> tensor<20xi32>
  %s = linalg.reduce ins(%r : tensor<20x24xi32>) outs(%f : tensor<20xi32>) dimensions = [1] (%x: i32, %y: i32) {
    %m = arith.maxsi %x, %y : i32
    linalg.yield %m : i32
  }
  func.return %s : tensor<20xi32>
}"""  # noqa: E501


def test_a_program_of_several_kernels_keeps_results(validate: Validate):
    passes = "linalg-to-spirv{target=nvidia-h200},spirv-to-vulkan12{target=lavapipe}"
    validate(PROGRAM, passes, inputs=3)
    lowered = parse_text(PROGRAM)
    ctx = context()
    known = Universe.get_multiverse().all_passes
    lowering, fallback = PassPipeline.parse_spec(known, passes).passes
    lowering.apply(ctx, lowered)
    assert len(list(modules_in(lowered))) == 2
    assert "coopmatrix" in str(lowered)
    fallback.apply(ctx, lowered)
    assert "coopmatrix" not in str(lowered)


@pytest.mark.vulkan
def test_lavapipe_runs_kernels_for_another_device(run_on_lavapipe: RunOnLavapipe, spirv_val: str):
    """lavapipe lacks 16x16x16 matrices, bfloat16 and subgroups of 32."""
    found = elsewhere("nvidia-h200", 32, ON_LAVAPIPE)
    jobs: list[Dispatch] = []
    for each in found:
        (launch,) = each.program.manifest.dispatches
        jobs.append(
            Dispatch(encode(each.module), launch.entry_point, launch.workgroups, each.arrays)
        )
    run_on_lavapipe(jobs)
    for each in found:
        each.check()


def test_supported_instructions_are_kept():
    for family in ("muladd", "dot", "rotate"):
        before, after = lowered(generate(1, family), "spirv-to-vulkan12{target=lavapipe}", 1.6)
        counts = [sum(1 for _ in module.walk()) for module in (before, after)]
        assert counts[0] == counts[1], family
