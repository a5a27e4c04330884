"""Temporaries share memory: none overlaps another live one, and the total is smaller."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.runtime.buffers import ALIGNMENT, assign, lifetimes, marked, overlap
from xdsl_spirv.runtime.manifest import Binding, Buffer, Dispatch, PushConstant


def chain(sizes: list[int]) -> tuple[list[Buffer], list[Dispatch]]:
    """Returns dispatches that each read the previous dispatch's buffer."""
    buffers = [Buffer(f"t{i}", "temporary", "f32", (size,)) for i, size in enumerate(sizes)]
    names = ["x", *(b.name for b in buffers)]
    return buffers, [dispatch(a, b) for a, b in pairwise(names)]


def dispatch(*names: str) -> Dispatch:
    bindings = tuple(Binding(0, i, name) for i, name in enumerate(names))
    return Dispatch("k", "e", (1, 1, 1), bindings)


def test_a_chain_needs_two_buffers():
    buffers, dispatches = chain([1000] * 10)
    assigned = assign(buffers, dispatches)
    assert assigned.total == 10 * 4000
    assert assigned.needed == 4096 + 4000
    assert {b.offset for b in assigned.buffers} == {0, 4096}


def test_buffers_with_long_lifetimes_do_not_move():
    buffers, dispatches = chain([100, 100, 100, 100])
    dispatches.append(dispatch("t0", "t3"))
    assigned = assign(buffers, dispatches)
    offsets = {b.name: b.offset for b in assigned.buffers}
    assert offsets["t0"] not in {offsets[name] for name in ("t1", "t2", "t3")}


@pytest.mark.parametrize("seed", range(20))
def test_live_buffers_do_not_overlap(seed: int):
    generator = np.random.default_rng(seed)
    names = [f"t{i}" for i in range(30)]
    sizes = generator.integers(1, 2000, len(names))
    buffers = [
        Buffer(name, "temporary", "i8", (int(size),))
        for name, size in zip(names, sizes, strict=True)
    ]
    dispatches = [dispatch(*generator.choice(names, 3, replace=False)) for _ in range(60)]
    assigned = assign(buffers, dispatches)
    lives = lifetimes(dispatches)
    placed = [b for b in assigned.buffers if b.name in lives]
    for a in placed:
        assert a.offset is not None
        assert a.offset % ALIGNMENT == 0
        assert a.offset + a.bytes <= assigned.needed
        for b in placed:
            if a is b or not overlap(lives[a.name], lives[b.name]):
                continue
            assert b.offset is not None
            assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset


def test_other_buffers_get_no_offset():
    buffers = [Buffer("x", "input", "f32", (4,)), Buffer("y", "output", "f32", (4,))]
    assigned = assign(buffers, [dispatch("x", "y")])
    assert [b.offset for b in assigned.buffers] == [None, None]
    assert assigned.needed == 0


@pytest.mark.parametrize(
    ("changes", "once"),
    [
        ({}, True),
        ({"push_constants": (PushConstant(0, "ui32", 3),)}, True),
        ({"push_constants": (PushConstant(0, "ui32", "past"),)}, False),
        ({"grid": ("n", 1, 1)}, False),
    ],
)
def test_results_that_depend_on_numbers_of_a_run_are_not_computed_once(
    changes: dict[str, Any], once: bool
):
    buffers = [
        Buffer("w", "weight", "f32", (8,)),
        *(Buffer(name, "temporary", "f32", (4,)) for name in ("t", "u")),
    ]
    dispatches = [replace(dispatch("w", "t"), **changes), dispatch("t", "u")]
    assert [d.once for d in marked(buffers, dispatches)] == [once, once]


def test_long_lifetimes_do_not_change_offsets(monkeypatch: pytest.MonkeyPatch):
    """Offsets do not depend on `LONG`, from which on a lifetime counts as long."""
    rng = np.random.default_rng(5)
    sizes = [int(size) for size in rng.integers(1, 4000, 60)]
    buffers, dispatches = chain(sizes)
    dispatches += [dispatch(f"t{rng.integers(60)}", f"t{rng.integers(60)}") for _ in range(30)]
    assigned = assign(buffers, dispatches)
    for long in (0, 1000):
        monkeypatch.setattr("xdsl_spirv.runtime.buffers.LONG", long)
        assert assign(buffers, dispatches) == assigned
