"""
If, Loop and Scan: what is decided while importing is decided, what is repeated is written out.

A condition that only the model's data decides leaves both sides to be computed, and chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of, reverse
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.values import I64, Tensor

MOST_ROUNDS = 4096
"""Rounds of a loop that are written out."""


def run_graph(b: Nodes, graph: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a graph inside a node; it sees the values around it."""
    numpy_helper: Any = import_module("onnx.numpy_helper")
    around, node, location = b.values, b.node, b.location
    b.values = dict(around)
    for value, tensor in zip(graph.input, inputs, strict=False):
        b.values[value.name] = tensor
    for tensor in graph.initializer:
        b.values[tensor.name] = Tensor.of(numpy_helper.to_array(tensor), tensor.name)
    try:
        b.run(graph.node)
        return [b.values[value.name] for value in graph.output]
    finally:
        b.values, b.node, b.location = around, node, location


def chosen(b: Nodes, condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """One of two tensors of one type, by a condition of one element."""
    if new is old:
        return new
    if new.sizes != old.sizes or new.element != old.element:
        b.refuse(f"one side gives {new}, the other {old}", "give both one shape and type")
    scalar = b.reshape(condition, [])
    return b.elementwise(lambda s, c, x, y: s.select(c, x, y), scalar, new, old)


@operator("If")
def if_(b: Nodes, condition: Tensor, /, *, then_branch: Any, else_branch: Any) -> list[Tensor]:
    known = condition.numbers
    if known is not None:
        return run_graph(b, then_branch if bool(known.any()) else else_branch, ())
    first, second = run_graph(b, then_branch, ()), run_graph(b, else_branch, ())
    return [chosen(b, condition, x, y) for x, y in zip(first, second, strict=True)]


@operator("Loop")
def loop(
    b: Nodes, count: Tensor | None, condition: Tensor | None, /, *carried: Tensor, body: Any
) -> list[Tensor]:
    """
    As many rounds as are known to be the most; from the round on where the condition is false the
    carried values stay.
    """
    rounds = _rounds(b, count)
    values = list(carried)
    going: Tensor | None = condition
    scanned: list[list[Tensor]] = [[] for _ in body.output[1 + len(values) :]]
    for number in range(rounds):
        if going is not None and going.numbers is not None:
            if not bool(going.numbers.any()):
                break
            going = None
        iteration = Tensor(I64, (), known=np.array(number, np.int64))
        holds = going or Tensor.of(np.array(True))
        proceed, *results = run_graph(b, body, [iteration, holds, *values])
        new = results[: len(values)]
        if going is not None:
            if scanned:
                b.refuse("data decides how many rounds are collected", "give a constant condition")
            new = [chosen(b, going, x, y) for x, y in zip(new, values, strict=True)]
            proceed = b.elementwise(
                lambda s, x, y: x & y, b.reshape(going, []), b.reshape(proceed, [])
            )
        values = new
        for collected, result in zip(scanned, results[len(values) :], strict=True):
            collected.append(result)
        going = proceed
    else:
        _refuse_more(b, count, going)
    outputs = [stacked(b, parts, 0) for parts in scanned]
    return [*values, *outputs]


def _rounds(b: Nodes, count: Tensor | None) -> int:
    """The most rounds there can be."""
    if count is None:
        return MOST_ROUNDS
    if count.numbers is None:
        b.refuse("the number of rounds is computed when the model runs", "make it a constant")
    rounds = int(count.numbers.item())
    if rounds > MOST_ROUNDS and rounds < np.iinfo(np.int64).max // 2:
        b.refuse(f"{rounds} rounds", f"use at most {MOST_ROUNDS}")
    return min(rounds, MOST_ROUNDS)


def _refuse_more(b: Nodes, count: Tensor | None, going: Tensor | None) -> None:
    """A loop that has used up the rounds that are written, and may go on."""
    bounded = (
        count is not None and count.numbers is not None and count.numbers.item() <= MOST_ROUNDS
    )
    if not bounded and going is not None:
        b.refuse(f"it may take more than {MOST_ROUNDS} rounds", "give the largest number of rounds")


def stacked(b: Nodes, parts: Sequence[Tensor], axis: int) -> Tensor:
    if not parts:
        b.refuse("no round is made, so that results have no shape", "leave the loop out")
    rows = [b.reshape(t, [*t.sizes[:axis], 1, *t.sizes[axis:]]) for t in parts]
    return rows[0] if len(rows) == 1 else b.concatenate(rows, axis)


@operator("Scan", since=9)
def scan(
    b: Nodes,
    /,
    *tensors: Tensor,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> list[Tensor]:
    states = list(tensors[: len(tensors) - num_scan_inputs])
    inputs = list(tensors[len(tensors) - num_scan_inputs :])
    axes = [
        axis_of(b, axis, t.rank)
        for axis, t in zip(scan_input_axes or [0] * num_scan_inputs, inputs, strict=True)
    ]
    turned = scan_input_directions or [0] * num_scan_inputs
    length = inputs[0].sizes[axes[0]]
    if not isinstance(length, int) or length > MOST_ROUNDS:
        b.refuse(f"{length} rounds", f"give a size of at most {MOST_ROUNDS}")
    count = len(body.output) - len(states)
    collected: list[list[Tensor]] = [[] for _ in range(count)]
    for number in range(length):
        parts: list[Tensor] = []
        for t, axis, backwards in zip(inputs, axes, turned, strict=True):
            at = length - 1 - number if backwards else number
            starts = [at if i == axis else 0 for i in range(t.rank)]
            sizes = [1 if i == axis else s for i, s in enumerate(t.sizes)]
            row = b.slice(t, starts, sizes, [1] * t.rank)
            parts.append(b.reshape(row, [s for i, s in enumerate(t.sizes) if i != axis]))
        results = run_graph(b, body, [*states, *parts])
        states = results[: len(states)]
        for rows, result in zip(collected, results[len(states) :], strict=True):
            rows.append(result)
    outputs: list[Tensor] = []
    for i, rows in enumerate(collected):
        axis = axis_of(b, (scan_output_axes or [0] * count)[i], rows[0].rank + 1 if rows else 1)
        backwards = (scan_output_directions or [0] * count)[i]
        outputs.append(stacked(b, rows[::-1] if backwards else rows, axis))
    return [*states, *outputs]


__all__ = ["chosen", "reverse", "run_graph"]
