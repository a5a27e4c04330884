"""A loop of tensors, whose step is written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region

from xdsl_spirv.dialects.host_loops import hoist
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import Tensor


def repeat(
    b: TensorBuilder,
    steps: Size,
    carried: Sequence[Tensor],
    step: Callable[..., Sequence[Tensor]],
) -> list[Tensor]:
    """
    The tensors that `steps` steps make of `carried`; one takes its number and the tensors.

    Raises `ValueError` where a step changes the type or the shape of a tensor.
    """
    if steps == 0:
        return list(carried)
    bounds = b.index(0), b.index(steps), b.index(1)
    first = [b.value(t) for t in carried]
    block = Block(arg_types=[IndexType(), *(value.type for value in first)])
    number, *inside = block.args
    around, b.block = b.block, block
    try:
        given = zip(carried, inside, strict=True)
        held = [Tensor(t.element, t.sizes, value) for t, value in given]
        results = list(step(symbol(Extent(number, 0)), *held))
        values = [b.value(t) for t in results]
    finally:
        b.block = around
    for old, new in zip(carried, results, strict=True):
        if old.sizes != new.sizes or old.element != new.element:
            raise ValueError(f"a step makes {new} of {old}")
    block.add_op(scf.YieldOp(*values))
    loop = scf.ForOp(*bounds, first, Region(block))
    loop.location = b.location
    b.block.add_op(loop)
    # What the importer keeps for later nodes is then visible to them, too.
    hoist(loop)
    return [Tensor(t.element, t.sizes, r) for t, r in zip(carried, loop.results, strict=True)]
