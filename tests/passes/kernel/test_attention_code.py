"""Attention whose subgroups share rows, or whose workgroups are reordered, passes all checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule import attention_choice
from xdsl_spirv.runtime.execution import run_in_place
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.attention_states import StateAttention

EDGES = {"lavapipe": 8, "nvidia-h200": 16}


def schedule(target: str, tile: int, keys: int, subgroups: int, rest: str) -> str:
    """
    Returns a schedule with tiles of `tile` fragments of queries and `keys` fragments of keys.
    `rest` is text for its other fields.
    """
    edge = EDGES[target]
    return (
        f"#schedule.attention<query_tile = {tile * edge}, key_tile = {keys * edge}, "
        f"subgroups = {subgroups}, instruction = coopmat {edge}x{edge}x{edge}, q = vectors, "
        f"k = vectors, v = vectors, probabilities = registers, {rest}>"
    )


def compiled(
    monkeypatch: pytest.MonkeyPatch, case: StateAttention, target: str, text: str
) -> Program:
    given: Any = Parser(context(), text).parse_attribute()
    monkeypatch.setattr(attention_choice, "choose_matrices", lambda op, target: given)
    return compile_module(parse_text(case.text()), target)


@pytest.mark.parametrize(
    ("target", "tile", "keys", "subgroups", "window", "rest"),
    [
        ("lavapipe", 1, 2, 2, None, "key_parts = 2, ahead = keys"),
        ("lavapipe", 2, 1, 4, 13, "key_parts = 2, order = batch"),
        ("lavapipe", 1, 1, 4, None, "key_parts = 4, ahead = values, rescale = late, order = batch"),
        ("lavapipe", 4, 2, 4, None, "key_parts = 2, ahead = keys, rescale = always"),
        ("nvidia-h200", 2, 2, 4, None, "key_parts = 2, ahead = values, order = batch"),
        ("nvidia-h200", 3, 1, 3, None, "key_parts = 3"),
        ("nvidia-h200", 2, 2, 2, 20, "order = batch"),
    ],
)
def test_subgroups_may_share_rows(
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    tile: int,
    keys: int,
    subgroups: int,
    window: int | None,
    rest: str,
):
    edge = EDGES[target]
    case = StateAttention(2, 2, 2 * edge, 12 * edge, None, window=window, filled=0.5)
    text = schedule(target, tile, keys, subgroups, rest)
    program = compiled(monkeypatch, case, target, text)
    (used,) = [layer.schedule for layer in program.layers if layer.path == "attention"]
    assert used is not None
    assert all(field in used for field in rest.split(", "))
    generator = np.random.default_rng(1)
    sizes = (case.heads, case.capacity, case.head)
    for past, rows in [(0, 2 * edge + 3), (3 * edge + 1, edge + 1), (0, 1), (5 * edge, 2 * edge)]:
        inputs = case.inputs(generator, rows) | {"past": np.array(past)}
        states = {name: np.full(sizes, case.filled, np.float16) for name in "kv"}
        checks = Checks.all()
        result, *_ = run_in_place(program, inputs, states, checks).values()
        assert not checks.report, str(checks.report)
        k, v = (states[name][:, : past + rows] for name in "kv")
        expected = case.expected(inputs["q"], k, v, past)
        np.testing.assert_allclose(result, expected, rtol=4e-3, atol=4e-3)


def test_parts_need_workgroup_memory(monkeypatch: pytest.MonkeyPatch):
    text = schedule("nvidia-h200", 4, 4, 16, "key_parts = 4")
    with pytest.raises(PassFailedException, match="Workgroup memory of 104448 bytes exceeds"):
        compiled(monkeypatch, StateAttention(2, 1, 128, 256, None), "nvidia-h200", text)


@pytest.mark.parametrize(
    ("target", "rows", "shared"),
    [("nvidia-h200", None, True), ("nvidia-h200", 512, True), ("lavapipe", None, False)],
)
def test_open_sizes_share_rows_on_a_gpu(target: str, rows: int | None, shared: bool):
    program = compile_module(parse_text(StateAttention(8, 4, 128, 1025, rows).text()), target)
    (used,) = [layer.schedule for layer in program.layers if layer.path == "attention"]
    assert used is not None
    assert ("key_parts = 2, order = batch" in used) == shared
    (grid,) = [d.grid for d in program.manifest.dispatches if d.entry_point.startswith("attention")]
    assert (grid[0] == 32) == shared
