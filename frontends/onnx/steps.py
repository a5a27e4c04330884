"""Builds a loop over tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.host_loops import hoist
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import Tensor, tensor_type


@dataclass(frozen=True)
class Collected:
    """The axes and orders in which additional results of the steps are stacked."""

    axes: Sequence[int]
    backwards: Sequence[bool | int]
    """For each axis, True if results are stored in reverse order."""


def repeat(
    b: TensorBuilder,
    steps: Size,
    carried: Sequence[Tensor],
    step: Callable[..., Sequence[Tensor]],
    collected: Collected | None = None,
) -> list[Tensor]:
    """
    Builds a loop of `steps` iterations on the tensors `carried`. Returns their final values, then
    the stacked results that `collected` describes.

    `step` is called once, with the iteration number and the tensors. Raises `ValueError` if a step
    changes a tensor's type or shape.
    """
    if steps == 0 and collected is None:
        return list(carried)
    bounds = b.index(0), b.index(steps), b.index(1)
    first = [b.value(t) for t in carried]
    block = Block(arg_types=[IndexType(), *(value.type for value in first)])
    around, b.block = b.block, block
    number = symbol(Extent(block.args[0], 0))
    try:
        given = zip(carried, block.args[1:], strict=True)
        results = list(step(number, *(Tensor(t.element, t.sizes, v) for t, v in given)))
        for old, new in zip(carried, results, strict=False):
            if old.sizes != new.sizes or old.element != new.element:
                raise ValueError(
                    f"a step must keep the type of a state, but changes {old} to {new}"
                )
        if collected is not None:
            rows = results[len(carried) :]
            results[len(carried) :] = _collect(b, number, steps, rows, collected)
        values = [b.value(t) for t in results]
        b.block = around
        for t in results[len(carried) :]:
            first.append(b.empty(t.sizes, t.element))
    except BaseException:
        Rewriter.erase_op(_add(b, around, scf.ForOp(*bounds, [], Region(block))), safe_erase=False)
        raise
    block.add_op(scf.YieldOp(*values))
    loop = _add(b, around, scf.ForOp(*bounds, first, Region(block)))
    return [Tensor(t.element, t.sizes, r) for t, r in zip(results, loop.results, strict=True)]


def _add(b: TensorBuilder, block: Block, loop: scf.ForOp) -> scf.ForOp:
    """Appends a loop to the block, and hoists its loop-invariant operations."""
    b.block = block
    loop.location = b.location
    block.add_op(loop)
    hoist(loop)
    return loop


def _collect(
    b: TensorBuilder, number: Size, steps: Size, rows: Sequence[Tensor], collected: Collected
) -> Iterator[Tensor]:
    """Yields the stacked results with the rows of this iteration inserted."""
    for row, axis, backwards in zip(rows, collected.axes, collected.backwards, strict=True):
        axis %= row.rank + 1
        sizes = [*row.sizes[:axis], steps, *row.sizes[axis:]]
        whole = b.block.insert_arg(tensor_type(row.element, sizes), len(b.block.args))
        at = steps - 1 - number if backwards else number
        one = b.reshape(row, [*row.sizes[:axis], 1, *row.sizes[axis:]])
        starts = [at if i == axis else 0 for i in range(len(sizes))]
        yield Tensor(row.element, sizes, b.insert_slice(one, whole, starts))
