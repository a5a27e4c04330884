"""
A compiled loop runs any number of steps, and reading a program refuses wrong loops.

Covers: graph/outline_loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv import compile
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.concrete_sizes import at_sizes
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Manifest, from_json, to_json
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.step_programs import STEPS

RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def program() -> Program:
    return compile(parse_text(STEPS), "lavapipe")


def inputs(steps: int) -> dict[str, Array]:
    shapes = {"x": (steps, 2, 3), "w": (3, 3), "h0": (2, 3)}
    return {name: RNG.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_a_loop_runs_any_number_of_steps(program: Program, steps: int):
    given = inputs(steps)
    state, rows = given["h0"], np.zeros((steps, 2, 3), np.float32)
    for at in reversed(range(steps)):
        rows[at] = state = state @ given["w"] + given["x"][at]
    checks = Checks.all()
    # A second run starts again: values that a loop carries are not `once` values.
    for _ in range(2):
        results = run(program, given, checks=checks)
        np.testing.assert_allclose(results["result0"], rows, 1e-5, 1e-6)
        np.testing.assert_allclose(results["result1"], state, 1e-5, 1e-6)
    assert not checks.report, str(checks.report)


def test_dispatches_do_not_grow_with_the_steps(program: Program):
    (loop,) = program.manifest.loops
    assert (loop.steps, program.manifest.version) == ("x_0", 6)
    concrete, numbers = at_sizes(program.manifest, {"x_0": 4000})
    before = len(program.manifest.dispatches) - loop.dispatches
    assert len(concrete.dispatches) == len(numbers) == before + 4000 * loop.dispatches
    assert at_sizes(program.manifest, {"x_0": 1})[0].memory == concrete.memory
    with pytest.raises(ProgramError, match="a loop of 100000000 steps has"):
        at_sizes(program.manifest, {"x_0": 10**8})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": 99}, "a loop contains dispatches of another loop, or dispatches that do not"),
        ({"dispatches": 0}, "a loop has no dispatches"),
        ({"steps": "frames"}, "there is no size 'frames'"),
        ({"counter": "x_0"}, "the counter 'x_0' has the name of a size"),
        ({"carried": ["nothing"]}, "there is no buffer 'nothing'"),
    ],
)
def test_wrong_loops_are_refused(program: Program, change: dict[str, Any], message: str):
    (loop,) = program.manifest.loops
    fields: dict[str, Any] = to_json(program.manifest)  # pyright: ignore
    fields["loops"] = [{**to_json(loop), **change}]  # pyright: ignore
    with pytest.raises(ProgramError, match=message):
        from_json(Manifest, fields, "program.json")
