"""
Matmuls of many shapes are compiled, validated, interpreted and run on lavapipe.

Shapes are random (M, N, K from 1 to 300, both type pairs, both transpositions), with some chosen
edge cases. For f16 results, operands are small integers, so that every order of accumulation is
exact and results must be equal. Other results must be within the bound of docs/numerics.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.bounds import compare, contraction_bound
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries, DispatchOf, RunOnLavapipe


TARGETS = ("lavapipe", "nvidia-h200")
RANDOM_CASES = 200
CHUNK = 10
QUICK_CHUNKS = 2
EDGES = [
    (1, 1, 1),
    (8, 8, 8),
    (16, 16, 16),
    (1, 300, 1),
    (300, 1, 17),
    (64, 128, 96),
    (65, 127, 97),
]
DTYPES = {"f16": np.float16, "f32": np.float32}


@dataclasses.dataclass(frozen=True)
class Case:
    """result (m x n) = A (m x k, or k x m if transposed) * B (k x n, or n x k if transposed)."""

    m: int
    n: int
    k: int
    result: str
    a_transposed: bool
    b_transposed: bool

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        a = (self.k, self.m) if self.a_transposed else (self.m, self.k)
        b = (self.n, self.k) if self.b_transposed else (self.k, self.n)
        return a, b

    def operands(self) -> list[Array]:
        """Returns f16 operands. For f16 results they are small integers with exact sums."""
        generator = np.random.default_rng((self.m, self.n, self.k))
        if self.result == "f16":
            return [generator.integers(-2, 3, s).astype(np.float16) for s in self.shapes]
        return [generator.uniform(-1, 1, s).astype(np.float16) for s in self.shapes]

    def expected(self, a: Array, b: Array) -> Array:
        return (a.T if self.a_transposed else a) @ (b.T if self.b_transposed else b)

    def check(self, operands: Sequence[Array], result: Array, where: str) -> None:
        a, b = (x.astype(np.float64) for x in operands)
        exact = self.expected(a, b)
        if self.result == "f16":
            assert np.array_equal(result.astype(np.float64), exact), f"{self} on {where}"
            return
        bound = contraction_bound(self.k, self.result)
        magnitude = self.expected(np.abs(a), np.abs(b))
        comparison = compare("result", result, exact, magnitude, bound)
        assert comparison.passed, f"{self} on {where}: {comparison}"

    def text(self) -> str:
        (a, b), element = self.shapes, self.result
        types = [f"tensor<{x}x{y}xf16>" for x, y in (a, b)]
        out = f"tensor<{self.m}x{self.n}x{element}>"
        ins = f"ins(%A, %B : {types[0]}, {types[1]}) outs(%init : {out})"
        if self.a_transposed or self.b_transposed:
            operation = f"{self._generic(ins)} -> {out}"
        else:
            operation = f"linalg.matmul {ins} -> {out}"
        return f"""
func.func @main(%A: {types[0]}, %B: {types[1]}) -> {out} {{
  %zero = arith.constant 0.0 : {element}
  %empty = tensor.empty() : {out}
  %init = linalg.fill ins(%zero : {element}) outs(%empty : {out}) -> {out}
  %r = {operation}
  return %r : {out}
}}
"""

    def _generic(self, ins: str) -> str:
        a = "d2, d0" if self.a_transposed else "d0, d2"
        b = "d1, d2" if self.b_transposed else "d2, d1"
        maps = ", ".join(f"affine_map<(d0, d1, d2) -> ({m})>" for m in (a, b, "d0, d1"))
        x, y, extend = "%x", "%y", ""
        if self.result == "f32":
            x, y = "%u", "%v"
            extend = "%u = arith.extf %x : f16 to f32 %v = arith.extf %y : f16 to f32"
        return f"""linalg.generic {{indexing_maps = [{maps}],
      iterator_types = ["parallel", "parallel", "reduction"]}} {ins} {{
    ^bb0(%x: f16, %y: f16, %acc: {self.result}):
      {extend}
      %p = arith.mulf {x}, {y} : {self.result}
      %s = arith.addf %acc, %p : {self.result}
      linalg.yield %s : {self.result}
  }}"""


def _cases() -> list[Case]:
    generator = np.random.default_rng(2026)
    shapes: list[Any] = [*EDGES, *generator.integers(1, 301, (RANDOM_CASES, 3)).tolist()]
    flags = generator.integers(0, 2, (len(shapes), 3)).astype(bool).tolist()
    return [
        Case(m, n, k, "f32" if wide else "f16", a, b)
        for (m, n, k), (wide, a, b) in zip(shapes, flags, strict=True)
    ]


CHUNKS = [_cases()[i : i + CHUNK] for i in range(0, len(_cases()), CHUNK)]


def chunks(quick: int) -> pytest.MarkDecorator:
    """Parametrizes by group of cases. Groups from `quick` on run in `make test-long` only."""
    numbers = range(len(CHUNKS))
    marked = [pytest.param(i, marks=[pytest.mark.long] * (i >= quick)) for i in numbers]
    return pytest.mark.parametrize("chunk", marked)


@lru_cache(maxsize=2 * CHUNK)
def _program(case: Case, target: str) -> Program:
    return compile_module(parse_text(case.text(), ctx=context()), target)


@chunks(QUICK_CHUNKS)
@pytest.mark.parametrize("target", TARGETS)
def test_binaries_are_valid_and_the_interpreter_agrees(
    chunk: int, target: str, check_binaries: CheckBinaries
):
    for case in CHUNKS[chunk]:
        program = _program(case, target)
        check_binaries(program)
        operands = case.operands()
        results = run(program, dict(zip("AB", operands, strict=True)))
        case.check(operands, results["result0"], f"the interpreter, for {target}")


@pytest.mark.vulkan
@chunks(QUICK_CHUNKS)
def test_lavapipe_agrees(chunk: int, run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf):
    jobs: list[Dispatch] = []
    results: list[Array] = []
    for case in CHUNKS[chunk]:
        program = _program(case, "lavapipe")
        results.append(np.zeros((case.m, case.n), DTYPES[case.result]))
        jobs.append(_job(dispatch_of, program, [*case.operands(), results[-1]]))
    run_on_lavapipe(jobs)
    for case, result in zip(CHUNKS[chunk], results, strict=True):
        case.check(case.operands(), result, "lavapipe")


def _job(dispatch_of: DispatchOf, program: Program, arrays: Sequence[Array]) -> Dispatch:
    names = *program.manifest.arguments, *program.manifest.results
    return dispatch_of(program, dict(zip(names, arrays, strict=True)))
