"""
GLSL kernels with waiting invocations end, or an error names the waiting invocations and their
reads.

Each runs in lockstep, with one workgroup per chunk, with checks, in small subgroups, and in two
permuted orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError, MemoryBudget, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.checks.permute import Permuted
from xdsl_spirv.interpreter.options import Schedule
from xdsl_spirv.interpreter.spirv.module import Launch, run_workgroups
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.tools.kernel_test.compilers import compile_source, find_glslang
from xdsl_spirv.tools.kernel_test.description import Compile, Misuse

HERE = Path(__file__).resolve().parent / "waiting"
GROUPS = 8
OTHERS = "rules,undefined,bounds,alignment,overlap,barriers"
"""All checks that examine one invocation or one instruction."""

WAYS: dict[str, Callable[[], Options]] = {
    "lockstep": Options,
    "small chunks": lambda: Options(memory=MemoryBudget(1)),
    "checks": lambda: Options(checks=Checks.of(OTHERS)),
    "all checks, small chunks": lambda: Options(checks=Checks.all(), memory=MemoryBudget(1)),
    "small subgroups": lambda: Options(subgroup_size=8),
    "schedule 1": lambda: Options(schedule=Schedule(1)),
    "schedule 2": lambda: Options(schedule=Schedule(2)),
}


def zeros(count: int) -> Array:
    return np.zeros(count, np.uint32)


def from_each(count: int) -> Array:
    """Returns 1 to `count`: each workgroup adds 1 to its predecessor's value."""
    return np.arange(1, count + 1, dtype=np.uint32)


def queue(items: int) -> Array:
    """Returns a queue: head, tail, done, total, and room for `items` elements."""
    made = zeros(4 + items)
    made[[1, 3, 4]] = 1, items, 1
    return made


NUMBERS = (np.arange(GROUPS * 64) * 7 % 13).astype(np.uint32)
LANES = np.arange(32, dtype=np.uint32)
BOXES = np.concatenate(
    [
        np.broadcast_to((31 - LANES + 32) * 3 + 1000, (GROUPS, 32)) + np.arange(GROUPS)[:, None],
        np.full((GROUPS, 32), 1000),
    ],
    axis=1,
)

Made = tuple[list[Array], int, Callable[[Array], Array], Array]
"""Buffers, index of the buffer to check, function that gives its checked value, expected value."""


def whole(array: Array) -> Array:
    return array


ENDING: dict[str, Callable[[], Made]] = {
    "look_back": lambda: (
        [NUMBERS.copy(), zeros(GROUPS * 64), zeros(GROUPS)],
        1,
        whole,
        np.cumsum(NUMBERS),
    ),
    "from_the_last": lambda: ([zeros(GROUPS), zeros(GROUPS)], 1, whole, from_each(GROUPS)),
    "from_the_next": lambda: (
        [zeros(GROUPS), zeros(GROUPS * 32)],
        1,
        lambda found: found.reshape(GROUPS, 32),
        from_each(GROUPS)[::-1, None] * LANES,
    ),
    "ticket_lock": lambda: (
        [zeros(2), zeros(GROUPS + 1)],
        1,
        np.sort,
        np.array([*range(GROUPS), GROUPS]),
    ),
    "spin_lock": lambda: ([zeros(1), zeros(1)], 1, whole, np.array([GROUPS * (GROUPS + 1) // 2])),
    "lock_in_turn": lambda: ([zeros(1), zeros(1)], 1, whole, np.array([GROUPS * 64])),
    "subgroups": lambda: ([zeros(GROUPS * 64)], 0, whole, BOXES.reshape(-1)),
    "work_queue": lambda: ([queue(37), zeros(37)], 1, whole, np.full(37, 31 * 16)),
    "global_barrier": lambda: (
        [zeros(1), zeros(GROUPS * 64), zeros(GROUPS * 64)],
        2,
        whole,
        np.arange(GROUPS * 64)[::-1] * 7,
    ),
    "poll_many": lambda: ([zeros(GROUPS), zeros(1)], 1, whole, np.array([GROUPS])),
    "back_off": lambda: ([zeros(GROUPS), zeros(GROUPS)], 1, whole, np.ones(GROUPS)),
}


@cache
def module(name: str, environment: str, optimize: bool) -> ModuleOp:
    try:
        find_glslang()
    except Misuse as missing:
        pytest.skip(str(missing))
    options = Compile(target_env=environment, optimize=optimize)
    return decode(compile_source(HERE / f"{name}.comp", options))


def run(found: ModuleOp, buffers: list[Array], options: Options) -> Checks | None:
    bound = {(0, number): array for number, array in enumerate(buffers)}
    dispatch(found, "main", (GROUPS, 1, 1), bound, options=options)
    return options.checks


COMPILED = (("vulkan1.1", False), ("vulkan1.3", True))
"""Target environment, and True for spirv-opt -O."""
CASES = [
    pytest.param(*case, way, marks=[pytest.mark.long] if (number + turn + place) % 2 else [])
    for number, case_name in enumerate(ENDING)
    for place, way in enumerate(WAYS)
    for turn, compiled in enumerate(COMPILED)
    for case in [(case_name, *compiled)]
]
"""Every kernel in every way to run, with both settings. `make test` runs half of the cases."""


@pytest.mark.parametrize(("name", "environment", "optimize", "way"), CASES)
def test_a_waiting_batch_lets_others_run(
    name: str, environment: str, optimize: bool, way: str
) -> None:
    buffers, number, look, expected = ENDING[name]()
    checks = run(module(name, environment, optimize), buffers, WAYS[way]())
    np.testing.assert_array_equal(look(buffers[number]), expected)
    if checks is not None:
        others = [f for f in checks.report if f.check not in ("races", "progress")]
        assert not others, str(checks.report)


SOON = 100_000
"""Maximum number of executed blocks. A livelock that is not found ends at this limit (STEP-01)."""
LIVELOCKS = {
    "never_set": (
        "WAIT-01",
        "no other instruction in the module writes this memory",
        [1, GROUPS * 64],
    ),
    "beyond_grid": ("WAIT-01", "which is 0, at .*flag.w . 1u", [GROUPS + 1, GROUPS * 64]),
    "lock_of_each": ("WAIT-02", "this memory is written at .*atomicExchange.lock, 0u", [1, 1]),
}


@pytest.mark.bug(
    "a loop that waits for a flag that is never set", rule="WAIT-01", op="spirv.AtomicIAdd"
)
@pytest.mark.bug(
    "a loop that waits for a workgroup beyond the grid", rule="WAIT-01", op="spirv.AtomicIAdd"
)
@pytest.mark.bug(
    "a lock that each lane of a subgroup takes", rule="WAIT-02", op="spirv.AtomicCompareExchange"
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LIVELOCKS)
def test_a_livelock_is_found_soon_and_explained(name: str, way: str) -> None:
    rule, explained, sizes = LIVELOCKS[name]
    found = module(name, "vulkan1.3", False)
    options = replace(WAYS[way](), max_steps=SOON)
    with pytest.raises(InterpreterError, match=rf"{rule}: [\s\S]*in a loop:[\s\S]*{explained}"):
        run(found, [zeros(size) for size in sizes], options)


@pytest.mark.parametrize("way", ["lockstep", "checks", "schedule 1"])
def test_a_loop_that_gives_up_does_not_wait_for_ever(way: str) -> None:
    buffers = [zeros(1), zeros(GROUPS * 32)]
    run(module("gives_up", "vulkan1.3", True), buffers, WAYS[way]())
    assert (buffers[1] == 2000).all()


@pytest.mark.parametrize("way", ["lockstep", "checks", "schedule 1"])
def test_a_loop_that_gives_up_by_the_clock_does_not_wait_for_ever(way: str) -> None:
    buffers = [zeros(1), zeros(GROUPS * 32)]
    run(module("times_out", "vulkan1.3", False), buffers, WAYS[way]())
    assert (buffers[1] > 3000).all()


def test_a_barrier_after_a_return_is_found_among_waves() -> None:
    buffers = [zeros(GROUPS), zeros(GROUPS * 64)]
    found = module("some_return", "vulkan1.3", False)
    checks = run(found, buffers, Options(checks=Checks.of("barriers")))
    assert checks is not None
    assert [finding.rule for finding in checks.report] == ["BARRIER-01"]
    assert (buffers[1].reshape(GROUPS, 64)[:, :32] == 7).all()


@pytest.mark.parametrize("bound", ["limit.x", "flags[0]"])
def test_a_loop_waits_for_workgroups_only_where_they_write(
    bound: str, tmp_path: Path, glslang: list[str]
) -> None:
    source = tmp_path / "loop.comp"
    source.write_text(
        "#version 450\nlayout(local_size_x = 32) in;\n"
        "layout(std430, binding = 0) readonly buffer Limit { uvec4 limit; };\n"
        "layout(std430, binding = 1) buffer Flags { uint flags[]; };\n"
        "shared uint done;\n"
        "void main() {\n"
        "  done = 0u; barrier();\n"
        f"  while (done < 2u && {bound} != 1u) {{ barrier(); done += 1u; barrier(); }}\n"
        "  flags[0] = 1u;\n"
        "}\n"
    )
    decoded = decode(compile_source(source, Compile(target_env="vulkan1.3")))
    buffers = {(0, 0): zeros(4), (0, 1): zeros(4)}
    launch = Launch(decoded, "main", (1, 1, 1), buffers, {}, b"", Options())
    assert run_workgroups(launch).may_wait == (bound == "flags[0]")


def test_permuted_orders_of_a_waiting_launch_run_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreed: list[bool] = []

    def explore(self: Permuted, before: Any, results: Any, run: Any, *few: int) -> None:
        for seed in (1, 2):
            copies = {place: array.copy() for place, array in before.items()}
            run(replace(self.plain, schedule=Schedule(seed)), copies)
            agreed.append(bool((copies[0, 2] == results[0, 2]).all()))

    # The atomic's result determines the waiting time, so orders are tried only for a found race.
    monkeypatch.setattr(Permuted, "explore", explore)
    buffers = [zeros(1), zeros(12 * 64), zeros(12 * 64)]
    bound = {(0, number): array for number, array in enumerate(buffers)}
    found = module("global_barrier", "vulkan1.3", False)
    dispatch(found, "main", (12, 1, 1), bound, options=Options(checks=Checks.of("permute")))
    assert agreed == [True, True]


TOGETHER = ("look_back", "from_the_last", "from_the_next", "ticket_lock", "spin_lock", "work_queue")
"""Kernels whose workgroups wait for each other even if all run concurrently."""


@pytest.mark.bug(
    "a workgroup that waits for the previous workgroup", rule="PROGRESS-01", op="spirv.AtomicIAdd"
)
@pytest.mark.parametrize(
    ("name", "budget", "rules"),
    [
        *((name, 64 << 20, ["PROGRESS-01"]) for name in TOGETHER),
        *((name, 1, ["PROGRESS-01"]) for name in ("from_the_next", "global_barrier", "poll_many")),
        ("subgroups", 1, []),
        ("subgroups", 64 << 20, []),
    ],
)
def test_a_wait_for_another_workgroup_is_named(name: str, budget: int, rules: list[str]) -> None:
    buffers, *_ = ENDING[name]()
    options = Options(checks=Checks.of("progress"), memory=MemoryBudget(budget))
    checks = run(module(name, "vulkan1.1", False), buffers, options)
    assert checks is not None
    assert [finding.rule for finding in checks.report] == rules


@pytest.mark.parametrize("budget", [1, 64 << 20])
@pytest.mark.parametrize("seed", range(5))
def test_waiting_workgroups_end_unless_they_wait_in_a_cycle(seed: int, budget: int) -> None:
    """A cycle of waiting workgroups is a livelock."""
    rng = np.random.default_rng(seed)
    table = np.where(rng.random(GROUPS) < 0.4, np.arange(GROUPS), rng.integers(GROUPS, size=GROUPS))
    chains = [table[:GROUPS]]
    for _ in range(GROUPS):
        chains.append(table[chains[-1]])
    buffers = [zeros(GROUPS), zeros(GROUPS), table.astype(np.uint32)]
    found = module("by_table", "vulkan1.1", False)
    options = Options(checks=Checks.of("progress"), memory=MemoryBudget(budget), max_steps=SOON)
    if (table[chains[-1]] != chains[-1]).any():
        with pytest.raises(InterpreterError, match="WAIT-01"):
            run(found, buffers, options)
        return
    checks = run(found, buffers, options)
    waited = np.stack([np.arange(GROUPS), *chains])
    np.testing.assert_array_equal(buffers[1], (waited[:-1] != waited[1:]).sum(axis=0) + 1)
    assert checks is not None
    later = table > np.arange(GROUPS) if budget == 1 else table != np.arange(GROUPS)
    assert [finding.rule for finding in checks.report] == ["PROGRESS-01"] * bool(later.any())
