"""
Executes the packing of contraction operands on whole arrays.

On a device, the kernel defines where a fragment stores each element. Here elements are stored in
row-major order, along K. The kernels that pack data and the kernels that read it run at the same
compilation stage. Both therefore use one layout.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from xdsl_spirv.dialects.schedule import PackedSizes, PackedViewOp, PackOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.interpreter.host.affine import evaluate
from xdsl_spirv.interpreter.host.machine import on_arrays
from xdsl_spirv.interpreter.numbers import Array


def _places(known: PackedSizes) -> tuple[Array, ...]:
    """
    Returns an index array for each dimension of the operand. The arrays have the axes (batch, M or
    N, K).
    """
    sizes = static(known.sizes)
    loops = np.indices(sizes, sparse=True)
    indexes = [evaluate(expr, list(loops)) for expr in known.packing.map.data.results]
    extents = static(known.extents)
    return tuple(np.broadcast_to(index, sizes).reshape(extents) for index in indexes)


@on_arrays(PackOp)
def pack(op: PackOp, source: Array, destination: Array, *numbers: Array) -> Array:
    """Packs the operand into fragments, padded with zeros."""
    sizes = op.packing.sized([int(number) for number in numbers])
    batch, inner_count, outer_count, _ = shape = static(sizes.shape)
    outer_size, inner_size = op.packing.fragment_sizes
    _, outer, inner = static(sizes.extents)
    whole = np.zeros((batch, outer_count * outer_size, inner_count * inner_size), source.dtype)
    whole[:, :outer, :inner] = source[_places(sizes)]
    cut = whole.reshape(batch, outer_count, outer_size, inner_count, inner_size)
    return cut.transpose(0, 3, 1, 2, 4).reshape(shape)


@on_arrays(PackedViewOp)
def packed_view(op: PackedViewOp, packed: Array, *numbers: Array) -> Array:
    """
    Returns the operand in its layout before packing. Elements that the packing's index map does not
    reach are 0.
    """
    sizes = op.packing.sized([int(number) for number in numbers])
    batch, inner_count, outer_count, _ = static(sizes.shape)
    outer_size, inner_size = op.packing.fragment_sizes
    _, outer, inner = static(sizes.extents)
    cut = packed.reshape(batch, inner_count, outer_count, outer_size, inner_size)
    whole = cut.transpose(0, 2, 3, 1, 4).reshape(batch, outer_count * outer_size, -1)
    places = _places(sizes)
    shape = [
        int(place.max(initial=-1)) + 1 if size == DYNAMIC_INDEX else size
        for size, place in zip(op.result.type.get_shape(), places, strict=True)
    ]
    result = np.zeros(shape, packed.dtype)
    result[places] = whole[:, :outer, :inner]
    return result
