"""
Packed operands of contractions, seen as a whole.

Which element of a fragment lies where is the device's choice; here they lie row by row, K across.
Kernels that pack and kernels that read what was packed are run at the same stage, so that both
make the same choice.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.schedule import PackedViewOp, PackingAttr, PackOp
from xdsl_spirv.interpreter.host.affine import evaluate
from xdsl_spirv.interpreter.host.machine import on_arrays
from xdsl_spirv.interpreter.numbers import Array


def _places(packing: PackingAttr) -> tuple[Array, ...]:
    """Of each dimension of the operand, its index for every batch, M or N, and K."""
    sizes = [size.data for size in packing.sizes]
    loops = np.indices(sizes, sparse=True)
    indexes = [evaluate(expr, list(loops)) for expr in packing.map.data.results]
    return tuple(np.broadcast_to(index, sizes).reshape(packing.extents) for index in indexes)


@on_arrays(PackOp)
def pack(op: PackOp, source: Array, destination: Array) -> Array:
    """The operand in fragments, with zeros beyond its end."""
    packing = op.packing
    batch, inner_count, outer_count, _ = packing.shape
    outer_size, inner_size = packing.fragment_sizes
    _, outer, inner = packing.extents
    whole = np.zeros((batch, outer_count * outer_size, inner_count * inner_size), source.dtype)
    whole[:, :outer, :inner] = source[_places(packing)]
    cut = whole.reshape(batch, outer_count, outer_size, inner_count, inner_size)
    return cut.transpose(0, 3, 1, 2, 4).reshape(packing.shape)


@on_arrays(PackedViewOp)
def packed_view(op: PackedViewOp, packed: Array) -> Array:
    """The operand that was packed; what its map does not reach is 0."""
    packing = op.packing
    batch, inner_count, outer_count, _ = packing.shape
    outer_size, inner_size = packing.fragment_sizes
    _, outer, inner = packing.extents
    cut = packed.reshape(batch, inner_count, outer_count, outer_size, inner_size)
    whole = cut.transpose(0, 2, 3, 1, 4).reshape(batch, outer_count * outer_size, -1)
    result = np.zeros(op.result.type.get_shape(), packed.dtype)
    result[_places(packing)] = whole[:, :outer, :inner]
    return result
