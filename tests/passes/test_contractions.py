"""
Random contractions of every form compile to valid kernels with right results.

They are products of matrices, batches, vectors and tensors in any order of dimensions, and
convolutions of one to three dimensions with strides, dilations, groups and padding, in all types.
`make test` runs the first seeds, `make test-long` 2,000.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.testing.workloads import Workload, workload

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries, DispatchOf, RunOnLavapipe

TARGETS = ("lavapipe", "nvidia-h200")
CHUNK = 20
SEEDS = 2000
QUICK = 40
QUICK_ON_LAVAPIPE = 20


def chunks(quick: int) -> list[Any]:
    """Returns ranges of seeds as parameters. Ranges from `quick` on are marked long."""
    return [
        pytest.param(range(n, n + CHUNK), marks=[pytest.mark.long] * (n >= quick), id=str(n))
        for n in range(0, SEEDS, CHUNK)
    ]


@lru_cache(maxsize=2 * CHUNK)
def compiled(seed: int, target: str) -> tuple[Workload, Program]:
    made = workload(seed)
    return made, compile_module(parse_text(made.text()), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seeds", chunks(QUICK))
def test_random_contractions_are_valid_and_right(
    seeds: range, target: str, check_binaries: CheckBinaries
):
    for seed in seeds:
        made, program = compiled(seed, target)
        check_binaries(program)
        inputs = made.inputs(np.random.default_rng(seed))
        comparisons = check(program, inputs, run(program, inputs))
        assert all(c.passed for c in comparisons), f"{seed}: {made}: {comparisons[0]}"


@pytest.mark.vulkan
@pytest.mark.parametrize("seeds", chunks(QUICK_ON_LAVAPIPE))
def test_random_contractions_are_right_on_lavapipe(
    seeds: range, run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
):
    jobs: list[Dispatch] = []
    runs: list[tuple[int, Workload, Program, dict[str, Any], Any]] = []
    for seed in seeds:
        made, program = compiled(seed, "lavapipe")
        inputs = made.inputs(np.random.default_rng(seed))
        (output,) = program.manifest.outputs
        result = np.zeros(output.sizes or (1,), dtype_of(output.type))
        jobs.append(dispatch_of(program, {**inputs, output.name: result}))
        runs.append((seed, made, program, inputs, result))
    run_on_lavapipe(jobs)
    for seed, made, program, inputs, result in runs:
        (output,) = program.manifest.outputs
        (comparison,) = check(program, inputs, {output.name: result.reshape(output.shape)})
        assert comparison.passed, f"{seed}: {made}: {comparison}"
