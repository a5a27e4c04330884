"""
Imports onnxruntime's `GroupQueryAttention`: query heads share keys, and past keys are in buffers.

In a session, or if all tokens are new, the number of past keys follows from the sizes of inputs,
and past keys are read as slices of the buffers. Otherwise the number is known only at run time (a
tensor with a length for each sequence), and past keys are read at computed indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.attention import (
    Scores,
    attend,
    hidden_where,
    merge_heads,
    size_scale,
    split_heads,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT, part, refuse_input
from xdsl_spirv.frontends.onnx.operators.contrib_norms import simplified_layer_normalization
from xdsl_spirv.frontends.onnx.operators.rotary import rotated, rows_at, rows_from
from xdsl_spirv.frontends.onnx.operators.shapes import sizes_in
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Element, Tensor, sum_element

NEUTRAL = ("NONE", 0)
"""Values of attributes that have no effect."""


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
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None,
    query_seqlens: Tensor | None = None,
    /,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_norm_epsilon: float = 0.0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    q_norm_epsilon: float = 0.0,
    qk_norm_epsilon: float = 1e-6,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    **others: object,
) -> Sequence[Tensor]:
    """
    Imports GroupQueryAttention. Past keys and values are at the front of buffers; sequences may
    have different lengths.
    """
    _refuse_others(b, others, k_scale or v_scale, query_seqlens)
    q, k, v = _heads_of(b, (query, key, value), num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = _normalize_heads(b, q, q_norm_weight, q_norm_epsilon or qk_norm_epsilon)
        k = _normalize_heads(b, k, k_norm_weight, k_norm_epsilon or qk_norm_epsilon)
    total = sizes_in(b, total_sequence_length, "the total length")[0]
    before = _length_before(b, seqlens_k, q.sizes[2], total)
    if do_rotary:
        tables = cos_cache, sin_cache
        q, k = _turn_heads(b, (q, k), tables, position_ids, before, rotary_interleaved)
    evicts = sliding_window_cache == 1
    k, v = (
        _in_buffer(b, past, t, before, total, evicts)
        for past, t in ((past_key, k), (past_value, v))
    )
    element = sum_element(q.element)
    scores = Scores(scale or size_scale(b, q), element, softcap, sink=head_sink)
    if smooth_softmax == 1 and head_sink is None:
        scores.sink = Tensor(element, [num_heads], b.fill(0, [num_heads], element))
    keys, values = (part(b, t, 2, 0, total) if t.sizes[2] != total else t for t in (k, v))
    scores.masks = [] if attention_bias is None else [attention_bias]
    _limit(b, scores, [*q.sizes[:3], total], before, causal, local_window_size)
    return merge_heads(b, attend(b, q, keys, values, scores).result), k, v


def _refuse_others(
    b: Nodes, others: Mapping[str, object], scales: Tensor | None, lengths: Tensor | None
) -> None:
    """Raises `FrontendError` for unsupported attributes, cache scales, and query lengths."""
    for name, given in others.items():
        refuse_input(b, given not in NEUTRAL and name != "kv_cache_bit_width", name)
    refuse_input(b, scales, "a quantized cache", "use a cache of floats")
    refuse_input(b, lengths, "query_seqlens", "leave query_seqlens out")


def _normalize_heads(b: Nodes, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Applies an RMS norm to each head."""
    return simplified_layer_normalization(b, x, weight, epsilon=epsilon)[0]


def _turn_heads(
    b: Nodes,
    heads: Sequence[Tensor],
    tables: tuple[Tensor | None, Tensor | None],
    positions: Tensor | None,
    before: Tensor | Size,
    interleaved: int,
) -> list[Tensor]:
    """
    Rotates heads by the angles of their tokens, with tables of cosines and sines.

    Without `positions`, the tokens follow `before` past tokens.
    """
    cos, sin = tables
    if cos is None or sin is None:
        b.refuse(
            "do_rotary is set, but cos_cache or sin_cache is missing",
            "give cos_cache and sin_cache",
        )
    angles = [_angles(b, table, positions, before, heads[0].sizes[2]) for table in (cos, sin)]
    return [rotated(b, tensor, angles[0], angles[1], interleaved) for tensor in heads]


def _limit(
    b: Nodes, scores: Scores, sizes: Sequence[Size], before: Tensor | Size, causal: int, window: int
) -> None:
    """Adds masks to the scores: for later tokens if `causal`, and for tokens before the window."""
    if isinstance(before, Tensor) or not (causal or window < 0):
        mask = _causal_window(b, sizes, scores.element, before, causal, window)
        scores.masks = [*scores.masks, mask]
    elif causal:
        scores.causal = before
        scores.first = before - window + 1 if window >= 0 else None


def _heads_of(
    b: Nodes, given: Sequence[Tensor | None], num_heads: int, kv_num_heads: int
) -> list[Tensor]:
    """Returns queries, keys and values by heads, from one packed tensor or three tensors."""
    query, key, value = given
    assert query is not None
    if key is None or value is None:
        size = exact_quotient(query.sizes[2], num_heads + 2 * kv_num_heads)
        if size is None:
            b.refuse(
                "the columns of packed queries are not a multiple of the number of all heads",
                "correct num_heads",
            )
        widths = [num_heads * size, kv_num_heads * size, kv_num_heads * size]
        starts = [0, widths[0], widths[0] + widths[1]]
        query, key, value = (
            part(b, query, 2, at, width) for at, width in zip(starts, widths, strict=True)
        )
    return [
        split_heads(b, query, num_heads),
        *(split_heads(b, t, kv_num_heads) for t in (key, value)),
    ]


def _length_before(b: Nodes, lengths: Tensor, new: Size, total: Size) -> Size | Tensor:
    """
    Returns the number of keys before the `new` keys: one size, or a tensor with a number for each
    sequence. `lengths` holds the index of each sequence's last key.
    """
    if new == total:
        return 0
    known = set() if lengths.known is None else set(lengths.known.ravel().tolist())
    if len(known) == 1:
        return known.pop() + 1 - new
    count = b.integer(new)

    def behind(s: Scalars, last: Number) -> Number:
        # In a batch of prompts, short sequences have no past keys.
        return s.maximum(last.to(I64) + 1 - Number(s, count, I64), 0)

    return b.elementwise(behind, b.reshape(lengths, [lengths.sizes[0]]), element=I64)


def _angles(
    b: Nodes, table: Tensor, positions: Tensor | None, before: Size | Tensor, length: Size
) -> Tensor:
    """
    Returns the rows of a table for the new tokens: batch x sequence x angles.

    Without `positions`, the tokens follow `before` past tokens.
    """
    if positions is not None:
        return rows_at(b, table, positions, length)
    if not isinstance(before, Tensor):
        return rows_from(b, table, before, length)
    sizes = [before.sizes[0], length]
    places = b.mapped(lambda s, n: n.to(I64) + s.index(1), [(before, [0])], sizes, I64)
    return rows_at(b, table, places, length)


def _room(b: Nodes, past: Size, total: Size, evicts: bool) -> Size:
    """
    Returns the number of keys that the buffer holds. `total` of these keys are used.

    A buffer of static size, or one that evicts keys, keeps its `past` size, which must suffice.
    """
    if isinstance(past, int) and isinstance(total, int) and not evicts:
        return max(past, total)
    if isinstance(past, int) or evicts:
        # A buffer of fixed size must have room for all keys.
        b.insist_natural(past - total)
        return past
    b.insist_natural(total - past)
    return total


def _filled_up(b: Nodes, past: Tensor, room: Size) -> Tensor | None:
    """Pads a buffer with zeros to `room` keys; returns None for an empty buffer."""
    if isinstance(past.sizes[2], int):
        return past if past.sizes[2] else None
    if past.sizes[2] == room:
        return past
    sizes = [*past.sizes[:2], room - past.sizes[2], past.sizes[3]]
    zeros = Tensor(past.element, sizes, b.fill(0, sizes, past.element))
    return b.concatenate([past, zeros], 2)


def _in_buffer(
    b: Nodes, past: Tensor | None, new: Tensor, before: Size | Tensor, total: Size, evicts: bool
) -> Tensor:
    """
    Returns a buffer with the new rows after the `before` past rows of each sequence, then zeros.
    """
    room = total
    if past is not None:
        if before == past.sizes[2] and not isinstance(before, Tensor):
            return b.concatenate([past, new], 2) if before != 0 else new
        room = _room(b, past.sizes[2], total, evicts)
        past = _filled_up(b, past, room)
    if before == 0 and new.sizes[2] == room:
        return new
    old = Reader(b, past) if past is not None else None
    own = Reader(b, new)
    count = b.integer(new.sizes[2])
    last = None if past is None else b.integer(past.sizes[2] - 1)
    first = None if isinstance(before, Tensor) else b.integer(before)

    def body(s: Scalars, *given: Number) -> Number:
        at = [s.index(i) for i in range(4)]
        start = Number(s, first, I64) if first is not None else given[0]
        place = at[2] - start
        inside = (place >= 0) & (place < Number(s, count, I64))
        near = s.minimum(s.maximum(place, 0), Number(s, count, I64) - 1)
        fresh = own.read(s, [at[0], at[1], near, at[3]])
        if old is None or last is None:
            return s.select(inside, fresh, 0)
        far = s.minimum(at[2], Number(s, last, I64))
        held = s.select(place < 0, old.read(s, [at[0], at[1], far, at[3]]), 0)
        return s.select(inside, fresh, held)

    sizes = [*new.sizes[:2], room, new.sizes[3]]
    inputs = [(before, [0])] if isinstance(before, Tensor) else []
    return b.mapped(body, inputs, sizes, new.element)


def _causal_window(
    b: Nodes,
    sizes: Sequence[Size],
    element: Element,
    before: Size | Tensor,
    causal: int,
    window: int,
) -> Tensor:
    """Returns a mask that hides keys after a query, and keys before the window."""
    rows = b.integer(sizes[2])
    first = None if isinstance(before, Tensor) else b.integer(before)

    def test(s: Scalars, i: Number, j: Number, *lengths: Number) -> Number:
        start = lengths[0] if lengths else Number(s, first, I64) if first else s.number(0, I64)
        if not causal:
            return j >= start + Number(s, rows, I64)
        hides = j > start + i
        return hides if window < 0 else hides | (j <= start + i - window)

    lengths = [before] if isinstance(before, Tensor) else []
    return hidden_where(b, sizes, element, test, lengths)
