"""
onnxruntime's operators that attend: brought to batch x heads x sequence, then ONNX's attention.

Masks of theirs are added, and hide by a large negative number that is an attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize, exact_quotient
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
from xdsl_spirv.frontends.onnx.operators.indexing import Reader, written
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.quantized import matmul_integer
from xdsl_spirv.frontends.onnx.operators.shapes import gather, sizes_in
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Element, Tensor, sum_element

MICROSOFT = "com.microsoft"
HIDDEN = -10000.0


def part(b: Nodes, t: Tensor, axis: int, start: Size, size: Size) -> Tensor:
    """Elements of an axis from one on."""
    starts: list[Size] = [0] * t.rank
    sizes = list(t.sizes)
    starts[axis], sizes[axis] = start, size
    known = isinstance(start, int) and isinstance(size, int)
    if known and t.numbers is not None and t.value is None:
        index = [slice(None)] * axis + [slice(start, start + size)]
        return Tensor.of(t.numbers[tuple(index)], t.name)
    return b.slice(t, starts, sizes, [1] * t.rank)


def plus(b: Nodes, x: Tensor, y: Tensor | None) -> Tensor:
    """A sum of which one part may be left out."""
    return x if y is None else b.elementwise(lambda s, y, x: x + y, y, x)


def refuse_input(b: Nodes, t: object, name: str, remedy: str = "leave it out") -> None:
    """Refuses an input or attribute that has no meaning here."""
    if t:
        b.refuse(f"{name} is given", remedy)


def key_mask(
    b: Nodes, mask: Tensor | None, sizes: Sequence[Size], element: Element, hidden: float
) -> list[Tensor]:
    """
    What to add to scores (sizes: batch, heads, queries, keys) by one of onnxruntime's masks.

    They are: lengths of the batch's sequences; their ends, then their beginnings; ones and zeros
    for keys; for queries and keys; the last with dimensions for heads.
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
            b.refuse(f"a mask of {mask} for {columns} keys", "mask all keys, past ones too")
        own = b.reshape(mask, [mask.sizes[0], 1, *([1] if mask.rank == 2 else []), *mask.sizes[1:]])
        return [additive(b, own, element, hidden)]
    if mask.sizes[0] == batch:
        return [hidden_where(b, sizes, element, lambda s, i, j, n: j >= n, [mask], hidden)]
    if mask.sizes[0] != batch * 2:
        b.refuse(f"mask_index is {mask}", "use a mask of batch x keys")
    ends, begins = (part(b, mask, 0, start, batch) for start in (0, batch))
    test = lambda s, i, j, end, begin: (j >= end) | (j < begin)  # noqa: E731
    return [hidden_where(b, sizes, element, test, [ends, begins], hidden)]


def heads_of(
    b: Nodes, projected: Tensor, hidden: Sequence[int], heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, one behind the other in the last dimension."""
    starts = (0, hidden[0], hidden[0] + hidden[1])
    q, k, v = (
        split_heads(b, part(b, projected, 2, start, size), heads)
        for start, size in zip(starts, hidden, strict=True)
    )
    return q, k, v


def thirds(b: Nodes, columns: Size) -> list[int]:
    """The hidden sizes of queries, keys and values that are alike."""
    size = exact_quotient(columns, 3)
    if not isinstance(size, int):
        b.refuse(f"{columns} columns in three", "give qkv_hidden_sizes")
    return [size] * 3


def with_past(
    b: Nodes, k: Tensor, v: Tensor, past: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor, Size]:
    """Keys and values behind those of before, and how many those were."""
    past_key, past_value = past
    if past_key is None or past_value is None:
        return k, v, 0
    length = past_key.sizes[2]
    return b.concatenate([past_key, k], 2), b.concatenate([past_value, v], 2), length


@dataclass(frozen=True, kw_only=True)
class AttentionAttributes:
    """Attributes of onnxruntime's attentions; a scale of 0 is that of ONNX."""

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
    """Attention with a mask of onnxruntime's, and what else is added to scores."""
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
    """The projection to queries, keys and values is part of it: a product each."""
    refuse_input(b, do_rotary, "do_rotary", "rotate with RotaryEmbedding")
    refuse_input(b, past_present_share_buffer or past_sequence_length, "a shared buffer")
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
    """With keys and values of before, which are one tensor, and those of now as one, if asked."""
    before: list[Tensor | None] = [None, None]
    if past is not None:
        before = [b.reshape(part(b, past, 0, i, 1), past.sizes[1:]) for i in (0, 1)]
    k, v, offset = with_past(b, k, v, before)
    present: list[Tensor] = []
    if len(b.node.output) > 1 and b.node.output[1]:
        present.append(b.concatenate([b.reshape(t, [1, *t.sizes]) for t in (k, v)], 0))
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
    """The projection is a product of integers."""
    refuse_input(b, do_rotary, "do_rotary", "rotate with RotaryEmbedding")
    refuse_input(b, past_present_share_buffer, "a shared buffer")
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
    """Queries, keys and values from what `MultiHeadAttention` takes, packed or not, with a bias."""
    query, key, value = given
    assert query is not None
    if query.rank == 5:
        packed = [_unpacked(b, query, i) for i in range(3)]
    elif key is not None and value is None:
        packed = [query, *(_unpacked(b, key, i) for i in range(2))]
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


def _unpacked(b: Nodes, t: Tensor, number: int) -> Tensor:
    """One of several tensors in the last dimension but one: batch x sequence x hidden."""
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
    refuse_input(b, past_sequence_length or cache_indirection, "a shared buffer")
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
    """One query."""
    shared = past_present_share_buffer or past_sequence_length or beam_width
    refuse_input(b, shared or cache_indirection, "a shared buffer or a beam")
    refuse_input(b, output_qk, "output_qk")
    q, k, v = _given_heads(b, (query, key, value), bias, attributes.num_heads)
    k, v, offset = with_past(b, k, v, (past_key, past_value))
    done = attended(b, q, k, v, offset, mask_index, attention_bias, attributes)
    return merge_heads(b, done.result), k, v


# Rotation by positions


def rotated(
    b: Nodes, x: Tensor, cosines: Tensor, sines: Tensor, positions: Tensor, interleaved: int
) -> Tensor:
    """
    Batch x heads x sequence x head size, pairs of elements turned by their position's angle.

    A pair are neighbours, or an element and the one half of the turned part after it. What the
    angles do not reach stays.
    """
    half, length = cosines.sizes[1], x.sizes[2]
    if not isinstance(half, int):
        b.refuse("the number of angles is open", "give it a size")
    if positions.sizes[0] == 1 and positions.rank == 1:
        steps = written(b, I64, [length], lambda s: s.index(0))
        positions = b.elementwise(lambda s, p, n: n + p.to(I64), positions, steps)
        positions = b.reshape(positions, [1, length])
    tables = [gather(b, t, positions) for t in (cosines, sines)]
    cosine, sine = (b.reshape(t, [t.sizes[0], 1, length, half]) for t in tables)
    turned = part(b, x, 3, 0, 2 * half) if x.sizes[3] != 2 * half else x
    pairs = [*x.sizes[:3], half, 2] if interleaved else [*x.sizes[:3], 2, half]
    axis = 4 if interleaved else 3
    apart = b.reshape(turned, pairs)
    one, other = (b.reshape(part(b, apart, axis, i, 1), [*x.sizes[:3], half]) for i in (0, 1))
    new = [
        b.elementwise(lambda s, c, sn, y, x: x * c - y * sn, cosine, sine, other, one),
        b.elementwise(lambda s, c, sn, y, x: x * sn + y * c, cosine, sine, other, one),
    ]
    shape = [*pairs[:axis], 1, *pairs[axis + 1 :]]
    joined = b.concatenate([b.reshape(t, shape) for t in new], axis)
    joined = b.reshape(joined, turned.sizes)
    if turned is x:
        return joined
    return b.concatenate([joined, part(b, x, 3, 2 * half, x.sizes[3] - 2 * half)], 3)


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
    refuse_input(b, is_packed_batching, "is_packed_batching", "give a batch of one length")
    refuse_input(b, scale != 1, "scale", "scale the result")
    if x.rank == 4:
        return rotated(b, x, cos_cache, sin_cache, position_ids, interleaved)
    half, hidden = cos_cache.sizes[1], x.sizes[2]
    size = exact_quotient(hidden, num_heads) if num_heads else half * 2
    heads = None if size is None else exact_quotient(hidden, size)
    if not isinstance(heads, int):
        b.refuse(f"{hidden} elements in heads of {size}", "give num_heads")
    turned = rotated(b, split_heads(b, x, heads), cos_cache, sin_cache, position_ids, interleaved)
    return merge_heads(b, turned)


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    b: Nodes,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    /,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    **others: object,
) -> Sequence[Tensor]:
    """Keys and values of before lie at the front of buffers; each sequence has its own length."""
    neutral = ("NONE", 0)
    for name, given in others.items():
        refuse_input(b, given not in neutral and "epsilon" not in name, name)
    if key is None or value is None:
        size = exact_quotient(query.sizes[2], num_heads + 2 * kv_num_heads)
        if size is None:
            b.refuse("packed queries are no multiple of all heads", "see num_heads")
        widths = [num_heads * size, kv_num_heads * size, kv_num_heads * size]
        starts = [0, widths[0], widths[0] + widths[1]]
        query, key, value = (
            part(b, query, 2, at, width) for at, width in zip(starts, widths, strict=True)
        )
    q = split_heads(b, query, num_heads)
    k, v = (split_heads(b, t, kv_num_heads) for t in (key, value))
    total = sizes_in(b, total_sequence_length, "the total length")[0]
    before = _lengths_before(b, seqlens_k, q.sizes[2], total)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            b.refuse("do_rotary without tables", "give cos_cache and sin_cache")
        places = position_ids if position_ids is not None else _places(b, before, q.sizes[2])
        q, k = (rotated(b, t, cos_cache, sin_cache, places, rotary_interleaved) for t in (q, k))
    k, v = (_in_buffer(b, past, t, before, total) for past, t in ((past_key, k), (past_value, v)))
    element = sum_element(q.element)
    scores = Scores(scale or size_scale(b, q), element, softcap, sink=head_sink)
    if smooth_softmax == 1 and head_sink is None:
        scores.sink = Tensor(element, [num_heads], b.fill(0, [num_heads], element))
    keys_k, keys_v = (part(b, t, 2, 0, total) if t.sizes[2] != total else t for t in (k, v))
    scores.masks = [] if attention_bias is None else [attention_bias]
    sizes = [*q.sizes[:3], total]
    if before is None and local_window_size < 0:
        scores.causal = 0 if causal else None
    else:
        scores.masks.append(_causal_window(b, sizes, element, before, causal, local_window_size))
    done = attend(b, q, keys_k, keys_v, scores)
    return merge_heads(b, done.result), k, v


def _lengths_before(b: Nodes, lengths: Tensor, new: Size, total: Size) -> Tensor | None:
    """How many keys each sequence has before those of now: none in a prompt."""
    if new == total:
        return None
    if isinstance(new, SymbolicSize):
        b.refuse("the number of new tokens is open beside past ones", "give it a size")
    return b.elementwise(lambda s, n: n.to(I64) + 1 - new, b.reshape(lengths, [lengths.sizes[0]]))


def _places(b: Nodes, before: Tensor | None, length: Size) -> Tensor:
    """The positions of the new tokens: batch x sequence."""
    if before is None:
        return written(b, I64, [1, length], lambda s: s.index(1))
    sizes = [before.sizes[0], length]
    return written(b, I64, sizes, lambda s, n: n.to(I64) + s.index(1), [(before, [0])])


def _in_buffer(
    b: Nodes, past: Tensor | None, new: Tensor, before: Tensor | None, total: Size
) -> Tensor:
    """The buffer with the new keys or values behind those that each sequence has, then zeros."""
    room = total if past is None else past.sizes[2]
    if isinstance(room, int) and isinstance(total, int):
        room = max(room, total)
    if past is None or before is None:
        if new.sizes[2] == room:
            return new
    old = Reader(b, past) if past is not None else None
    own = Reader(b, new)
    count = new.sizes[2]
    if not isinstance(count, int):
        b.refuse("the number of new tokens is open beside past ones", "give it a size")
    last = None if past is None else b.integer(past.sizes[2] - 1)

    def body(s: Scalars, *given: Number) -> Number:
        at = [s.index(i) for i in range(4)]
        start = given[0].to(I64) if given else s.number(0, I64)
        place = at[2] - start
        inside = (place >= 0) & (place < count)
        near = s.minimum(s.maximum(place, 0), count - 1)
        fresh = own.read(s, [at[0], at[1], near, at[3]])
        if old is None or last is None:
            return s.select(inside, fresh, 0)
        far = s.minimum(at[2], Number(s, last, I64))
        held = s.select(place < 0, old.read(s, [at[0], at[1], far, at[3]]), 0)
        return s.select(inside, fresh, held)

    sizes = [*new.sizes[:2], room, new.sizes[3]]
    inputs = [] if before is None else [(before, [0])]
    return written(b, new.element, sizes, body, inputs)


def _causal_window(
    b: Nodes,
    sizes: Sequence[Size],
    element: Element,
    before: Tensor | None,
    causal: int,
    window: int,
) -> Tensor:
    """Hides keys after a query, and those further before it than a window."""

    rows = sizes[2]

    def test(s: Scalars, i: Number, j: Number, *lengths: Number) -> Number:
        start = lengths[0] if lengths else s.number(0, I64)
        if not causal:
            assert isinstance(rows, int)
            return j > start + (rows - 1)
        hides = j > start + i
        return hides if window < 0 else hides | (j <= start + i - window)

    return hidden_where(b, sizes, element, test, [] if before is None else [before])
