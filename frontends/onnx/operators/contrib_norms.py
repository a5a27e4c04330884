"""Imports onnxruntime's operators for normalization and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import exact_quotient
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators import reductions, shapes
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT, part, plus
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I32, Tensor


@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor]:
    """
    Divides x by its root mean square over the dimensions from `axis` on, and multiplies by `scale`.
    """
    first = shapes.axis_of(b, axis, x.rank)
    result, _, inverse = reductions.normalized(b, x, range(first, x.rank), epsilon, center=False)
    result = b.convert(result, scale.element)
    return b.elementwise(lambda s, w, x: x * w, scale, result), inverse


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    b: Nodes,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    epsilon: float = 1e-12,
) -> Sequence[Tensor]:
    total = plus(b, plus(b, x, skip), bias)
    return [*reductions.layer_normalization(b, total, gamma, beta, epsilon=epsilon), total]


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    b: Nodes,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    epsilon: float = 1e-12,
) -> Sequence[Tensor | None]:
    total = plus(b, plus(b, x, skip), bias)
    result, inverse = simplified_layer_normalization(b, total, gamma, epsilon=epsilon)
    return [result, None, inverse, total]


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    b: Nodes,
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    /,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Sequence[Tensor]:
    """Returns normalized sums of three embeddings, the number of words per text, and the sums."""
    batch, length = input_ids.sizes
    total: Tensor = shapes.gather(b, word_embedding, input_ids)
    if position_ids is None:
        places = part(b, position_embedding, 0, 0, length)
    else:
        places: Tensor = shapes.gather(b, position_embedding, position_ids)
    total = plus(b, total, places)
    if segment_ids is not None and segment_embedding is not None:
        total = plus(b, total, shapes.gather(b, segment_embedding, segment_ids))
    result, *_ = reductions.layer_normalization(b, total, gamma, beta, epsilon=epsilon)
    if mask is None:
        counts = Tensor(I32, [batch], b.fill(0, [batch], I32))
    else:
        ones = b.elementwise(lambda s, x: x.equals(1).to(I32), mask, element=I32)
        counts = reductions.summed(b, ones, [1], keep=False)
    return [result, counts, total]


def to_channels_first(b: Nodes, t: Tensor, last: int = 1) -> Tensor:
    """Transposes channels from the last dimension, if `last`, to the second one."""
    return b.transpose(t, [0, t.rank - 1, *range(1, t.rank - 1)]) if last else t


def to_channels_last(b: Nodes, t: Tensor, last: int = 1) -> Tensor:
    """Transposes channels from the second dimension to the last one, if `last`."""
    return b.transpose(t, [0, *range(2, t.rank), 1]) if last else t


@operator("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def group_norm(
    b: Nodes,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> Sequence[Tensor]:
    """Imports GroupNorm: normalizes groups of channels, then computes x sigmoid(x) if requested."""
    total = plus(b, x, None if skip is None else _over_pixels(b, skip, channels_last))
    total = plus(b, total, None if bias is None else _over_pixels(b, bias, channels_last))
    image = to_channels_first(b, total, channels_last)
    n, channels, *pixels = image.sizes
    depth = exact_quotient(channels, groups)
    if depth is None:
        b.refuse(
            f"{channels} channels do not divide into {groups} groups",
            "use a divisor of the number of channels",
        )
    grouped = b.reshape(image, [n, groups, depth, *pixels])
    normal, _, _ = reductions.normalized(b, grouped, range(2, grouped.rank), epsilon)
    scale, shift = (b.reshape(t, [*t.sizes, *[1] * len(pixels)]) for t in (gamma, beta))

    def body(s: Scalars, w: Number, c: Number, x: Number) -> Number:
        result = x * w.to(x.element) + c.to(x.element)
        result = result / (1 + s.exp(-result)) if activation else result
        return result.to(image.element)

    result = b.elementwise(
        body, scale, shift, b.reshape(normal, image.sizes), element=image.element
    )
    return [to_channels_last(b, result, channels_last), total]


def _over_pixels(b: Nodes, t: Tensor, channels_last: int) -> Tensor:
    """Reshapes a vector over channels so that it broadcasts with images."""
    if t.rank == 4:
        return t
    batch = t.sizes[:-1] or (1,)
    return b.reshape(t, [*batch, *([1, 1, t.sizes[-1]] if channels_last else [t.sizes[-1], 1, 1])])


@operator("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(
    b: Nodes, x: Tensor, bias: Tensor, /, *, axis: int = 1, is_inner_broadcast: int
) -> Any:
    """Adds a bias to x, and computes a softmax over all dimensions from `axis` on."""
    return b.apply("Softmax", plus(b, x, bias), opset=1, axis=axis)


@operator("RelativePositionBias", domain=MICROSOFT)
def relative_position_bias(
    b: Nodes,
    table: Tensor,
    query_length: Tensor,
    key_length: Tensor,
    /,
    *,
    is_bidirectional: int = 0,
    max_distance: int,
) -> Tensor:
    """
    Returns a bias for each head, query and key, which depends on the distance between query and
    key.

    The table is column-major: the numbers of a head are contiguous.
    """
    rows, columns = (shapes.sizes_in(b, t, "lengths")[0] for t in (query_length, key_length))
    buckets, heads = table.sizes
    if not isinstance(buckets, int):
        b.refuse("the number of buckets is dynamic", "give it: --dim")
    chosen = Tensor.of(_buckets(max_distance, buckets, bool(is_bidirectional)))
    numbers = shapes.gather(b, b.reshape(table, [heads, buckets]), chosen, axis=1)
    source = Reader(b, numbers)

    def body(s: Scalars) -> Number:
        distance = s.index(3) - s.index(2)
        near = s.minimum(s.maximum(distance, -max_distance), max_distance)
        return source.read(s, [s.index(1), near + max_distance])

    return b.mapped(body, [], [1, heads, rows, columns], table.element)


def _buckets(most: int, count: int, both: bool) -> Any:
    """Returns the buckets of the distances from -most to most; their widths grow with distance."""
    distance = np.arange(most, -most - 1, -1)
    start = np.zeros_like(distance)
    if both:
        count //= 2
        start = np.where(distance < 0, count, 0)
        distance = np.abs(distance)
    distance = np.maximum(distance, 0)
    exact = count // 2
    ratio = np.log(np.maximum(distance, 1) / np.float32(exact), dtype=np.float32)
    steps = ratio / np.log(np.float32(most / exact)) * np.float32(count - exact)
    far = np.minimum(exact + steps.astype(np.int64), count - 1)
    return start + np.where(distance < exact, distance, far)
