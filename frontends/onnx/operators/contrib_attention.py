"""
Imports onnxruntime's attention operators as attention on batch x heads x sequence.

Masks are added to the scores; an attribute gives the large negative number for hidden keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.attention import (
    Attended,
    Scores,
    additive,
    attend,
    hidden_where,
    merge_heads,
    size_scale,
    split_heads,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.quantized import matmul_integer
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import Element, Tensor, sum_element

MICROSOFT = "com.microsoft"
HIDDEN = -10000.0


def part(b: Nodes, t: Tensor, axis: int, start: Size, size: Size) -> Tensor:
    """Slices `size` elements of an axis from `start` on."""
    known = isinstance(start, int) and isinstance(size, int)
    if known and t.numbers is not None and t.value is None:
        index = [slice(None)] * axis + [slice(start, start + size)]
        return Tensor.of(t.numbers[tuple(index)], t.name)
    return b.part(t, axis, start, size)


def plus(b: Nodes, x: Tensor, y: Tensor | None) -> Tensor:
    """Adds two tensors; returns `x` if `y` is None."""
    return x if y is None else b.elementwise(lambda s, y, x: x + y, y, x)


def refuse_input(
    b: Nodes, t: object, name: str, remedy: str = "leave the input or attribute out"
) -> None:
    """Raises `FrontendError` if an unsupported input or attribute is given."""
    if t:
        b.refuse(f"{name} is given, but not supported", remedy)


def key_mask(
    b: Nodes, mask: Tensor | None, sizes: Sequence[Size], element: Element, hidden: float
) -> list[Tensor]:
    """
    Converts one of onnxruntime's masks to numbers to add to scores.

    `sizes` are batch, heads, queries, keys. A mask of rank 1 contains the lengths of sequences, or
    their ends and then their starts. A mask of higher rank contains a flag for each key, for each
    query and key, or for each head, query and key.
    """
    if mask is None:
        return []
    batch, _, rows, columns = sizes
    if mask.rank == 4:
        own = part(b, mask, 2, columns - rows, rows) if mask.sizes[2] != rows else mask
        own = part(b, own, 3, 0, columns) if mask.sizes[3] != columns else own
        return [additive(b, own, element, hidden)]
    if mask.rank > 1:
        if mask.sizes[-1] != columns:
            b.refuse(
                f"the mask {mask} does not cover {columns} keys",
                "give a mask for all keys, including past keys",
            )
        own = b.reshape(mask, [mask.sizes[0], 1, *([1] if mask.rank == 2 else []), *mask.sizes[1:]])
        return [additive(b, own, element, hidden)]
    if mask.sizes[0] == batch:
        return [hidden_where(b, sizes, element, lambda s, i, j, n: j >= n, [mask], hidden)]
    if mask.sizes[0] != batch * 2:
        b.refuse(f"mask_index is {mask}, which is not supported", "use a mask of batch x keys")
    ends, begins = (part(b, mask, 0, start, batch) for start in (0, batch))
    test = lambda s, i, j, end, begin: (j >= end) | (j < begin)  # noqa: E731
    return [hidden_where(b, sizes, element, test, [ends, begins], hidden)]


def heads_of(
    b: Nodes, projected: Tensor, hidden: Sequence[int], heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Splits a projection into queries, keys and values by heads; `hidden` gives their sizes."""
    starts = (0, hidden[0], hidden[0] + hidden[1])
    q, k, v = (
        split_heads(b, part(b, projected, 2, start, size), heads)
        for start, size in zip(starts, hidden, strict=True)
    )
    return q, k, v


def thirds(b: Nodes, columns: Size) -> list[int]:
    """Splits columns into three equal hidden sizes, for queries, keys and values."""
    size = exact_quotient(columns, 3)
    if not isinstance(size, int):
        b.refuse(f"{columns} columns do not divide into three equal parts", "give qkv_hidden_sizes")
    return [size] * 3


def with_past(
    b: Nodes, k: Tensor, v: Tensor, past: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor, Size]:
    """
    Appends keys and values to past keys and values. Returns all keys, all values, and the number
    of past keys.
    """
    past_key, past_value = past
    if past_key is None or past_value is None:
        return k, v, 0
    length = past_key.sizes[2]
    return b.concatenate([past_key, k], 2), b.concatenate([past_value, v], 2), length


@dataclass(frozen=True, kw_only=True)
class AttentionAttributes:
    """Attributes of onnxruntime's attention operators; a scale of 0 means the default scale."""

    mask_filter_value: float = HIDDEN
    num_heads: int
    scale: float = 0.0
    unidirectional: int = 0


def attended(
    b: Nodes,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offset: Size,
    mask: Tensor | None,
    bias: Tensor | None,
    attributes: AttentionAttributes,
) -> Attended:
    """
    Computes attention, with one of onnxruntime's masks and a bias added to the scores.

    If the attributes request causal attention, query i reads keys up to i + `offset`.
    """
    element = sum_element(q.element)
    scores = Scores(attributes.scale or size_scale(b, q), element, guarded=False)
    sizes = [*q.sizes[:3], k.sizes[2]]
    scores.masks += key_mask(b, mask, sizes, element, attributes.mask_filter_value)
    scores.masks += [bias] if bias is not None else []
    scores.causal = offset if attributes.unidirectional else None
    return attend(b, q, k, v, scores)


@operator("Attention", domain=MICROSOFT)
def fused_attention(
    b: Nodes,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    /,
    *,
    attributes: AttentionAttributes,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
) -> Sequence[Tensor]:
    """Imports Attention: projects to queries, keys and values, then computes attention."""
    refuse_input(b, do_rotary, "do_rotary", "rotate with RotaryEmbedding")
    refuse_input(
        b,
        past_present_share_buffer or past_sequence_length,
        "a shared buffer for past and present",
    )
    sizes = list(qkv_hidden_sizes or thirds(b, weights.sizes[1]))
    parts: list[Tensor] = []
    start = 0
    for size in sizes:
        own = multiply(b, x, part(b, weights, 1, start, size))
        own = plus(b, own, None if bias is None else part(b, bias, 0, start, size))
        parts.append(split_heads(b, own, attributes.num_heads))
        start += size
    q, k, v = parts
    k, v, present, offset = _stacked_past(b, k, v, past)
    done = attended(b, q, k, v, offset, mask_index, attention_bias, attributes)
    return [merge_heads(b, done.result), *present]


def _stacked_past(
    b: Nodes, k: Tensor, v: Tensor, past: Tensor | None
) -> tuple[Tensor, Tensor, list[Tensor], Size]:
    """
    Appends keys and values to a tensor of stacked past keys and values.

    Returns all keys, all values, the stacked result if requested, and the number of past keys.
    """
    before: list[Tensor | None] = [None, None]
    if past is not None:
        before = [b.row(past, 0, i) for i in (0, 1)]
    k, v, offset = with_past(b, k, v, before)
    present: list[Tensor] = []
    if len(b.node.output) > 1 and b.node.output[1]:
        present.append(b.stack((k, v), 0))
    return k, v, present, offset


@operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    b: Nodes,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    input_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    input_zero_point: Tensor | None = None,
    weight_zero_point: Tensor | None = None,
    past: Tensor | None = None,
    /,
    *,
    attributes: AttentionAttributes,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
) -> Sequence[Tensor]:
    """Imports QAttention, whose projection is an integer product."""
    refuse_input(b, do_rotary, "do_rotary", "rotate with RotaryEmbedding")
    refuse_input(b, past_present_share_buffer, "a shared buffer for past and present")
    total = matmul_integer(b, x, weight, input_zero_point, weight_zero_point)
    assert isinstance(total, Tensor)

    def scaled(s: Scalars, x_scale: Number, w_scale: Number, bias: Number, n: Number) -> Number:
        return n.to(bias.element) * (x_scale * w_scale) + bias

    given = [b.reshape(input_scale, []), weight_scale, bias, total]
    projected = b.elementwise(scaled, *given, element=bias.element)
    q, k, v = heads_of(b, projected, thirds(b, weight.sizes[1]), attributes.num_heads)
    k, v, present, offset = _stacked_past(b, k, v, past)
    done = attended(b, q, k, v, offset, mask_index, None, attributes)
    return [merge_heads(b, done.result), *present]


def _given_heads(
    b: Nodes, given: Sequence[Tensor | None], bias: Tensor | None, heads: int
) -> list[Tensor]:
    """Returns queries, keys and values of `MultiHeadAttention` with the bias added."""
    query, key, value = given
    assert query is not None
    if query.rank == 5:
        packed = [_unpack_tensor(b, query, i) for i in range(3)]
    elif key is not None and value is None:
        packed = [query, *(_unpack_tensor(b, key, i) for i in range(2))]
    elif key is None or value is None:
        b.refuse("there are no keys", "give key and value")
    else:
        packed = [query, key, value]
    result: list[Tensor] = []
    start: Size = 0
    for t in packed:
        if t.rank == 3:
            own = None if bias is None else part(b, bias, 0, start, t.sizes[2])
            start = start + t.sizes[2]
            t = split_heads(b, plus(b, t, own), heads)
        result.append(t)
    return result


def _unpack_tensor(b: Nodes, t: Tensor, number: int) -> Tensor:
    """Selects one of the tensors that are packed in dimension 3: batch x sequence x hidden."""
    batch, length, heads, _, size = t.sizes
    return b.reshape(part(b, t, 3, number, 1), [batch, length, heads * size])


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    b: Nodes,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    /,
    *,
    attributes: AttentionAttributes,
) -> Sequence[Tensor]:
    refuse_input(
        b,
        past_sequence_length or cache_indirection,
        "a shared buffer for past and present",
    )
    q, k, v = _given_heads(b, (query, key, value), bias, attributes.num_heads)
    k, v, offset = with_past(b, k, v, (past_key, past_value))
    done = attended(b, q, k, v, offset, key_padding_mask, attention_bias, attributes)
    return merge_heads(b, done.result), k, v, done.probabilities


@operator("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_attention(
    b: Nodes,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    mask_index: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    beam_width: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    attributes: AttentionAttributes,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
) -> Sequence[Tensor]:
    """Imports DecoderMaskedMultiHeadAttention: attention of one query."""
    shared = past_present_share_buffer or past_sequence_length or beam_width
    refuse_input(b, shared or cache_indirection, "a shared buffer or beam search")
    refuse_input(b, output_qk, "output_qk")
    q, k, v = _given_heads(b, (query, key, value), bias, attributes.num_heads)
    k, v, offset = with_past(b, k, v, (past_key, past_value))
    done = attended(b, q, k, v, offset, mask_index, attention_bias, attributes)
    return merge_heads(b, done.result), k, v
