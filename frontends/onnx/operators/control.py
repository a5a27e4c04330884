"""
Imports If, Loop and Scan.

A known condition is decided while importing. If a condition depends on data, both branches are
computed and one result is selected. A loop becomes a loop of the program if all its iterations have
the same operations and shapes. Other loops, and short loops, are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, UnknownSizeError
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of
from xdsl_spirv.frontends.onnx.reading import choose
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.steps import Collected, repeat
from xdsl_spirv.frontends.onnx.values import BOOL, I64, Tensor
from xdsl_spirv.frontends.onnx.weights import array_of

MOST_ROUNDS = 4096
"""Maximum number of unrolled loop iterations."""

FEW_ROUNDS = 4
"""Maximum iterations of a loop that is always unrolled, so that more values are known."""

MOST_WRITTEN = 32_768
"""Maximum number of imported nodes of subgraphs; importing so many takes half a minute."""

MOVES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ExtractSliceOp, tensor.CastOp)
"""Operations whose result contains only elements of their first operand."""


def run_graph(b: Nodes, graph: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Imports a subgraph, which can use all outer values. Returns its outputs."""
    around, node, location = b.values, b.node, b.location
    b.values = dict(around)
    for value, given in zip(graph.input, inputs, strict=False):
        b.values[value.name] = given
    b.values |= b.once(graph, _weights_of)
    b.written += len(graph.node)
    if b.written > MOST_WRITTEN:
        b.refuse(
            f"the loops unroll to more than {MOST_WRITTEN} nodes",
            "use fewer iterations, or import only the body and run it for each iteration",
        )
    try:
        b.run(graph.node)
        return [b.values[value.name] for value in graph.output]
    finally:
        b.values, b.node, b.location = around, node, location


def _weights_of(graph: Any) -> dict[str, Tensor]:
    return {weight.name: Tensor.of(array_of(weight), weight.name) for weight in graph.initializer}


@operator("If")
def if_(b: Nodes, condition: Tensor, /, *, then_branch: Any, else_branch: Any) -> list[Tensor]:
    known = condition.numbers
    if known is not None:
        return run_graph(b, then_branch if bool(known.any()) else else_branch, ())
    first, second = run_graph(b, then_branch, ()), run_graph(b, else_branch, ())
    return [choose(b, condition, x, y) for x, y in zip(first, second, strict=True)]


@operator("Loop")
def loop(
    b: Nodes, count: Tensor | None, condition: Tensor | None, /, *carried: Tensor, body: Any
) -> list[Tensor]:
    """
    Imports a Loop as a loop of the program if possible, else unrolls the maximum number of
    iterations.

    In an unrolled loop, the carried values do not change after the condition becomes false.
    """
    repeated = _repeat_rounds(b, count, condition, carried, body)
    if repeated is not None:
        return repeated
    most = _most_rounds(b, count)
    counted = count if count is not None and count.numbers is None else None
    values = list(carried)
    going = condition
    scanned: list[list[Tensor]] = [[] for _ in body.output[1 + len(values) :]]
    for number in range(MOST_ROUNDS if most is None else most):
        if counted is not None:
            going = _both(b, going, _is_more(b, counted, number))
        if going is not None and going.numbers is not None:
            if not bool(going.numbers.any()):
                break
            going = None
        if going is not None and (most is None or scanned):
            cause = (
                "the number of collected results depends on data"
                if scanned
                else "the number of iterations depends on data and has no limit"
            )
            b.refuse(cause, "give a constant number of iterations")
        proceed, *results = _round(b, body, number, going, values)
        new = results[: len(values)]
        if going is not None:
            new = [choose(b, going, x, y) for x, y in zip(new, values, strict=True)]
        values = new
        for parts, result in zip(scanned, results[len(values) :], strict=True):
            parts.append(result)
        going = _both(b, going, proceed)
    else:
        if most is None:
            b.refuse(
                f"the loop has more than {MOST_ROUNDS} iterations",
                "give a constant maximum number of iterations",
            )
    if scanned and not scanned[0]:
        # An extra iteration only determines the shapes of an empty result.
        shapes = _round(b, body, 0, None, values)[1 + len(values) :]
        return [*values, *(_none_of(t, 0) for t in shapes)]
    return [*values, *(b.stack(parts, 0) for parts in scanned)]


def _repeat_rounds(
    b: Nodes,
    count: Tensor | None,
    condition: Tensor | None,
    carried: Sequence[Tensor],
    body: Any,
) -> list[Tensor] | None:
    """
    Imports a Loop as a loop of the program. Returns None if an iteration changes a shape, needs
    its index while importing, or decides if the loop ends.
    """
    rounds = None if count is None or count.known is None else count.known.item()
    if rounds is None or (isinstance(rounds, int) and not FEW_ROUNDS < rounds < 1 << 31):
        return None
    if condition is not None and (condition.numbers is None or not condition.numbers.all()):
        return None

    def one(number: Size, *values: Tensor) -> list[Tensor]:
        iteration = Tensor(I64, (), known=np.array(number, object))
        proceed, *results = run_graph(b, body, [iteration, Tensor.of(np.array(True)), *values])
        if proceed.numbers is None or not proceed.numbers.all():
            raise ValueError("data decides if the loop continues")
        return results

    added = len(body.output) - 1 - len(carried)
    insisted = set(b.insisted)
    try:
        b.insist_natural(rounds)
        return repeat(b, rounds, carried, one, Collected([0] * added, [False] * added))
    except (FrontendError, UnknownSizeError, ValueError, TypeError, IndexError):
        b.insisted = insisted
        return None


def _round(
    b: Nodes, body: Any, number: int, going: Tensor | None, values: Sequence[Tensor]
) -> list[Tensor]:
    """Imports one iteration. Returns the next condition, carried values and collected outputs."""
    iteration = Tensor(I64, (), known=np.array(number, np.int64))
    return run_graph(b, body, [iteration, going or Tensor.of(np.array(True)), *values])


def _both(b: Nodes, one: Tensor | None, other: Tensor) -> Tensor:
    """Returns the conjunction of two conditions; None counts as true."""
    if one is None or (one.numbers is not None and bool(one.numbers.all())):
        return b.reshape(other, [])
    if other.numbers is not None:
        return one if bool(other.numbers.all()) else other
    return b.elementwise(lambda s, x, y: x & y, b.reshape(one, []), b.reshape(other, []))


def _is_more(b: Nodes, count: Tensor, number: int) -> Tensor:
    return b.elementwise(lambda s, x: x > number, b.reshape(count, []), element=BOOL)


def _most_rounds(b: Nodes, count: Tensor | None) -> int | None:
    """Returns the maximum number of iterations, or None if only a condition ends the loop."""
    if count is None:
        return None
    known = count.numbers
    most = greatest(b.value(count)) if known is None else int(known.item())
    if most is None:
        b.refuse(
            "the number of iterations is computed when the model runs",
            "limit the number by Min or Clip, or make it a constant",
        )
    if most > np.iinfo(np.int64).max // 2:
        return None
    if most > MOST_ROUNDS:
        b.refuse(f"the loop has {most} iterations", f"use at most {MOST_ROUNDS}")
    return most


def greatest(value: SSAValue) -> int | None:
    """
    Returns the upper bound that `Min` or `Clip` sets for an integer, or None if there is none.
    """
    op = value.owner
    if isinstance(value, BlockArgument):
        around = op.parent_op() if isinstance(op, Block) else None
        return greatest(around.operands[value.index]) if around is not None else None
    if isinstance(op, arith.ConstantOp):
        return op.value.value.data if isinstance(op.value, IntegerAttr) else None
    if isinstance(op, linalg.ops.GenericOp):
        return greatest(op.body.block.last_op.operands[op.results.index(value)])  # pyright: ignore
    if isinstance(op, arith.MinSIOp | arith.MaxSIOp):
        ends = [greatest(operand) for operand in op.operands]
        known = [end for end in ends if end is not None]
        if isinstance(op, arith.MaxSIOp):
            return max(known) if len(known) == 2 else None
        return min(known, default=None)
    if isinstance(op, (*MOVES, arith.ExtSIOp, arith.IndexCastOp)):
        return greatest(op.operands[0])
    return None


def _none_of(t: Tensor, axis: int) -> Tensor:
    """Returns an empty stack of tensors like `t`, along a new axis."""
    sizes = [*t.sizes[:axis], 0, *t.sizes[axis:]]
    if any(not isinstance(size, int) for size in sizes):
        raise UnknownSizeError(
            "no iteration runs, and the shape of an iteration's result is dynamic"
        )
    return Tensor.of(np.zeros(sizes, t.element.dtype))  # pyright: ignore


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
    for t, axis in zip(inputs, axes, strict=True):
        b.insist_equal(t.sizes[axis], length)

    def one(number: Size, *states: Tensor) -> list[Tensor]:
        places = [length - 1 - number if backwards else number for backwards in turned]
        parts = [b.row(*given) for given in zip(inputs, axes, places, strict=True)]
        return run_graph(b, body, [*states, *parts])

    count = len(body.output) - len(states)
    collected = Collected(scan_output_axes or [0] * count, scan_output_directions or [0] * count)
    return repeat(b, length, states, one, collected)


@operator("Scan", since=8)
def scan_of_batch(
    b: Nodes,
    lengths: Tensor | None,
    /,
    *tensors: Tensor,
    body: Any,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> list[Tensor]:
    """Imports Scan of opset 8: scans each batch element (first axis) along the second axis."""
    if lengths is not None:
        b.refuse("sequences have different lengths", "convert the model to opset 9 or later")
    batch = tensors[0].sizes[0]
    if not isinstance(batch, int):
        b.refuse("the size of the batch is dynamic", "give it: --dim")
    results = [
        scan(
            b,
            *(b.row(t, 0, number) for t in tensors),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for number in range(batch)
    ]
    return [b.stack(parts, 0) for parts in zip(*results, strict=True)]
