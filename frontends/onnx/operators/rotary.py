"""
Imports rotary embeddings of ONNX and onnxruntime, which rotate queries and keys by position.

    y[2 i], y[2 i + 1] = the pair x[2 i], x[2 i + 1] rotated by angle i of its position

If not interleaved, the pairs are x[i], x[half + i]. Tables of cosines and sines have a row per
position. If the first position follows from the sizes of inputs, the rows are a slice of the table.
If positions are known only at run time, the rows are gathered.
"""

from __future__ import annotations

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.attention import merge_heads, split_heads
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT, part, refuse_input
from xdsl_spirv.frontends.onnx.operators.shapes import gather
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Tensor


def rows_from(b: Nodes, table: Tensor, first: Size, count: Size) -> Tensor:
    """Returns the angles of consecutive positions for the whole batch: 1 x positions x angles."""
    key = (b.value(table), first, count, b.block)
    if key not in b.slices:
        rows = part(b, table, 0, first, count)
        b.slices[key] = b.reshape(rows, [1, *rows.sizes])
    return b.slices[key]


def rows_at(b: Nodes, table: Tensor, positions: Tensor, length: Size) -> Tensor:
    """
    Returns the angles of positions that are known only at run time: batch x positions x angles.

    `positions` are batch x positions, or the first position of a sequence of `length` tokens.
    """
    if positions.progression is not None and positions.progression[1] == 1:
        return rows_from(b, table, positions.progression[0], length)
    if positions.rank == 1 and positions.sizes[0] == 1:
        steps = b.mapped(lambda s: s.index(0), [], [length], I64)
        positions = b.elementwise(lambda s, p, n: n + p.to(I64), positions, steps)
        positions = b.reshape(positions, [1, length])
    return gather(b, table, positions)


def rotated(b: Nodes, x: Tensor, cosines: Tensor, sines: Tensor, interleaved: int) -> Tensor:
    """
    Rotates batch x heads x sequence x head size by angles of batch x sequence x angles.

    A pair consists of adjacent elements if `interleaved`, else of elements in the two halves.
    Elements without an angle are not changed.
    """
    batch, _, half = cosines.sizes
    if not isinstance(half, int):
        b.refuse("the number of angles is dynamic", "give it: --dim")
    turned = part(b, x, 3, 0, 2 * half) if x.sizes[3] != 2 * half else x
    # Loops over the elements of a pair, and over the pairs.
    side, pair = (4, 3) if interleaved else (3, 4)
    sizes = [*x.sizes[:3], half, 2] if interleaved else [*x.sizes[:3], 2, half]
    apart = b.reshape(turned, sizes)
    this: list[int | AffineExpr] = [0, 1, 2, 3, 4]
    other = [AffineConstantExpr(1) - AffineDimExpr(side) if i == side else i for i in this]
    table = [0 if batch == x.sizes[0] else None, 2, pair]

    def body(s: Scalars, cosine: Number, sine: Number, y: Number, x: Number) -> Number:
        return x * cosine + y * s.select(s.index(side).equals(0), -sine, sine)

    operands = [(cosines, table), (sines, table), (apart, other), (apart, this)]
    joined = b.reshape(b.mapped(body, operands, sizes, x.element), turned.sizes)
    if turned is x:
        return joined
    return b.concatenate([joined, part(b, x, 3, 2 * half, x.sizes[3] - 2 * half)], 3)


def _in_heads(
    b: Nodes, x: Tensor, heads: Size | None, cosines: Tensor, sines: Tensor, interleaved: int
) -> Tensor:
    """Rotates a tensor of batch x heads x sequence x head size, or of batch x sequence x hidden."""
    if x.rank == 4:
        return rotated(b, x, cosines, sines, interleaved)
    if not isinstance(heads, int):
        b.refuse(f"the number of heads is not known, for {x.sizes[2]} elements", "give num_heads")
    return merge_heads(b, rotated(b, split_heads(b, x, heads), cosines, sines, interleaved))


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    b: Nodes,
    x: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    /,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    refuse_input(
        b,
        is_packed_batching,
        "is_packed_batching",
        "give a batch of sequences of the same length",
    )
    refuse_input(b, scale != 1, "scale", "scale the result")
    length = x.sizes[2 if x.rank == 4 else 1]
    tables = [rows_at(b, t, position_ids, length) for t in (cos_cache, sin_cache)]
    heads: Size | None = num_heads or None
    if x.rank == 3 and not num_heads:
        heads = exact_quotient(x.sizes[2], cos_cache.sizes[1] * 2)
    return _in_heads(b, x, heads, tables[0], tables[1], interleaved)


@operator("RotaryEmbedding", since=23)
def standard_rotary_embedding(
    b: Nodes,
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    /,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Imports RotaryEmbedding. Without positions, tables have a row per token of each sequence."""
    length = x.sizes[2 if x.rank == 4 else 1]
    tables = [cos_cache, sin_cache]
    if position_ids is not None:
        tables = [rows_at(b, t, position_ids, length) for t in tables]
    half = tables[0].sizes[2]
    if rotary_embedding_dim and half != rotary_embedding_dim // 2:
        b.refuse(
            f"there are {half} angles for {rotary_embedding_dim} elements",
            "give half as many angles as elements",
        )
    return _in_heads(b, x, num_heads or None, tables[0], tables[1], interleaved)
