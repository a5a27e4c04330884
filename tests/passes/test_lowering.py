"""
Every pass of the lowering preserves results.

Random contractions are lowered pass by pass. After each pass the module is printed, parsed,
verified and interpreted. Half of them have a random fitting schedule, which covers paths that
defaults do not use: tiles that are not powers of two, copies whose size is not a multiple of the
invocations, copies in a loop, several vector widths, both orders of workgroups.

Results must be within the bound that compare/check.py derives from K and the types. Integers are
exact.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp

from xdsl_spirv.compare.bounds import contraction_bound
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.dialects.schedule import ContractionAttr, InstructionAttr, StagedAttr
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.targets import CooperativeMatrixProperty, Target, load
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos
from xdsl_spirv.upstream.equality import is_same

if TYPE_CHECKING:
    from tests.conftest import DispatchOf, RunOnLavapipe


MLIR_TYPES = {"s8": "i8", "u8": "i8", "s32": "i32", "u32": "i32"}
NUMPY_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
    "u32": np.uint32,
}
INTEGER_ZERO = {True: "0", False: "0.0"}

QUICK = 6
"""Number of cases for each target in the normal run."""

ON_LAVAPIPE = 4
"""Number of cases that lavapipe runs: it takes seconds to compile a kernel."""


@dataclass(frozen=True)
class Case:
    """init + A * B on a target, with listed types and an optional schedule."""

    m: int
    n: int
    k: int
    types: tuple[str, str, str]
    a_transposed: bool
    b_transposed: bool
    has_init: bool
    schedule: ContractionAttr | None = None

    @property
    def integer(self) -> bool:
        return self.types[2][0] in "su"

    def operands(self, seed: int) -> list[Array]:
        """Returns operands. For f16 results they are small integers with exact sums."""
        generator = np.random.default_rng(seed)
        shapes = [
            (self.k, self.m) if self.a_transposed else (self.m, self.k),
            (self.n, self.k) if self.b_transposed else (self.k, self.n),
            (self.m, self.n),
        ]
        values: list[Array] = []
        for shape, name in zip(shapes[: 2 + self.has_init], self.types, strict=False):
            if self.integer:
                info = np.iinfo(NUMPY_TYPES[name])
                drawn: Array = generator.integers(info.min, info.max, shape, endpoint=True)
            elif self.types[2] == "f16":
                drawn = generator.integers(-2, 3, shape)
            else:
                drawn = generator.uniform(-1, 1, shape)
            values.append(drawn.astype(NUMPY_TYPES[name]))
        return values

    def text(self) -> str:
        mlir = [MLIR_TYPES.get(name, name) for name in self.types]
        a = (
            f"tensor<{self.k}x{self.m}x{mlir[0]}>"
            if self.a_transposed
            else (f"tensor<{self.m}x{self.k}x{mlir[0]}>")
        )
        b = (
            f"tensor<{self.n}x{self.k}x{mlir[1]}>"
            if self.b_transposed
            else (f"tensor<{self.k}x{self.n}x{mlir[1]}>")
        )
        c = f"tensor<{self.m}x{self.n}x{mlir[2]}>"
        maps = ", ".join(
            f"affine_map<(m, n, k) -> ({results})>"
            for results in (
                "k, m" if self.a_transposed else "m, k",
                "n, k" if self.b_transposed else "k, n",
                "m, n",
            )
        )
        schedule = f"schedule = {self.schedule}" if self.schedule else ""
        init = f", %c: {c}" if self.has_init else ""
        fill = (
            ""
            if self.has_init
            else (
                f"%z = arith.constant {INTEGER_ZERO[self.integer]} : {mlir[2]}\n"
                f"%e = tensor.empty() : {c}\n"
                f"%c = linalg.fill ins(%z : {mlir[2]}) outs(%e : {c}) -> {c}"
            )
        )
        multiply = f"ins(%a, %b : {a}, {b}) outs(%c : {c})"
        if self.types[0][0] == "u":
            operation = f"""linalg.generic {{indexing_maps = [{maps}],
              iterator_types = ["parallel", "parallel", "reduction"]}} {multiply}
              attrs = {{{schedule}}} {{
              ^bb0(%x: i8, %y: i8, %acc: i32):
                %xx = arith.extui %x : i8 to i32
                %yx = arith.extui %y : i8 to i32
                %p = arith.muli %xx, %yx : i32
                %s = arith.addi %acc, %p : i32
                linalg.yield %s : i32
              }}"""
        else:
            operation = f"linalg.matmul indexing_maps = [{maps}] {{{schedule}}} {multiply}"
        return f"""
        func.func @main(%a: {a}, %b: {b}{init}) -> {c} {{
          {fill}
          %r = {operation} -> {c}
          return %r : {c}
        }}"""

    def check(self, operands: Sequence[Array], result: Array, stage: str) -> None:
        wide = [x.astype(np.int64 if self.integer else np.float64) for x in operands]
        expected = self._product(*wide)
        if self.integer or self.types[2] == "f16":
            assert np.array_equal(result, expected.astype(result.dtype)), f"{stage}: {self}"
            return
        allowed = contraction_bound(self.k, self.types[2]).evaluate(
            expected, self._product(*(np.abs(x) for x in wide))
        )
        error = np.abs(result.astype(np.float64) - expected)
        assert np.all(error <= allowed), f"{stage}: {self}: {np.max(error / allowed)} of the bound"

    def _product(self, a: Array, b: Array, c: Array | None = None) -> Array:
        product = (a.T if self.a_transposed else a) @ (b.T if self.b_transposed else b)
        return product if c is None else product + c


def root_of(module: ModuleOp) -> Contraction:
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp):
            return contraction_of(op)
    raise AssertionError("no contraction")


def random_schedule(
    rng: random.Random, case: Case, listed: CooperativeMatrixProperty, target: Target
) -> ContractionAttr:
    """Returns a random schedule that fits."""
    contraction = root_of(parse_text(case.text()))
    while True:
        m, n, k = listed.shape
        grid = rng.randint(1, 3), rng.randint(1, 3)
        paths = [
            StagedAttr(padding=rng.choice([0, 2, 8, 16]), vector=rng.choice([1, 2, 4, 8]))
            for _ in range(2)
        ]
        tile = (m * grid[0] * rng.randint(1, 3), n * grid[1] * rng.randint(1, 3))
        schedule = ContractionAttr(
            (*tile, k * rng.randint(1, 3)),
            grid,
            InstructionAttr("coopmat", listed.shape),
            paths[0],
            paths[1],
            raster=rng.choice(["rows", "columns"]),
        )
        if not any(Plan(contraction, schedule, target).problems()):
            return schedule


def random_case(seed: int, target: Target) -> Case:
    rng = random.Random(seed)
    listed = rng.choice(target.cooperative_matrix)
    multiple = rng.choice([1, 1, 2, 4, 8, 16])
    m, n, k = (multiple * rng.randint(1, max(1, 90 // multiple)) for _ in range(3))
    a_transposed, b_transposed, has_init, scheduled = (rng.random() < 0.5 for _ in range(4))
    case = Case(m, n, k, listed.types[:3], a_transposed, b_transposed, has_init)
    if not scheduled:
        return case
    return replace(case, schedule=random_schedule(rng, case, listed, target))


def check_every_stage(case: Case, target: Target, seed: int) -> None:
    ctx = context()
    module = parse_text(case.text(), ctx=ctx)
    operands = case.operands(seed)
    for stage in linalg_to_spirv(target.name):
        before = module.clone()
        stage.apply(ctx, module)
        if is_same(before, module):
            continue
        module = parse_text(text_of(module), ctx=ctx)
        (result,) = interpret(module, operands, subgroup_size=target.subgroup_size)
        case.check(operands, result, stage.name)
    for op in module.walk():
        if isinstance(op, SPIRVModuleOp):
            assert khronos.spirv_val(encode(op)) == "", f"{case}"


@pytest.mark.parametrize("seed", range(QUICK))
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_every_stage_keeps_results(target: str, seed: int, spirv_val: str):
    check_every_stage(random_case(seed, load(target)), load(target), seed)


@pytest.mark.vulkan
def test_lavapipe_gives_the_same_results(run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf):
    target = load("lavapipe")
    seeds = [s for s in range(1000) if random_case(s, target).schedule is not None][:ON_LAVAPIPE]
    cases = [random_case(seed, target) for seed in seeds]
    jobs: list[Dispatch] = []
    results: list[Array] = []
    for seed, case in zip(seeds, cases, strict=True):
        program = compile_module(parse_text(case.text(), ctx=context()), target.name)
        results.append(np.zeros((case.m, case.n), NUMPY_TYPES[case.types[2]]))
        names = *program.manifest.arguments, *program.manifest.results
        buffers = [*case.operands(seed), results[-1]]
        jobs.append(dispatch_of(program, dict(zip(names, buffers, strict=True))))
    run_on_lavapipe(jobs, 300)
    for seed, case, result in zip(seeds, cases, results, strict=True):
        case.check(case.operands(seed), result, "lavapipe")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(QUICK, 400))
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_every_stage_keeps_results_of_many_cases(target: str, seed: int, spirv_val: str):
    check_every_stage(random_case(seed, load(target)), load(target), seed)
