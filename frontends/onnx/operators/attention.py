"""Imports ONNX's Attention operator."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.attention import (
    MASKED,
    Scores,
    additive,
    attend,
    hidden_where,
    merge_heads,
    size_scale,
    split_heads,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Element, Tensor


@operator("Attention", since=23)
def attention(
    b: Nodes,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    /,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> Sequence[Tensor]:
    flat = q.rank == 3
    if flat:
        q, k, v = (
            split_heads(b, t, heads)
            for t, heads in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
        )
    offset: Size = 0
    if past_key is not None and past_value is not None:
        offset = past_key.sizes[2]
        k, v = b.concatenate([past_key, k], 2), b.concatenate([past_value, v], 2)
    sizes = [q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]]
    element = q.element
    scores = Scores(size_scale(b, q) if scale is None else scale, element, softcap)
    if softmax_precision:
        scores.softmax = element_numbered(softmax_precision)
    if attn_mask is not None:
        scores.masks.append(_to_all_keys(b, additive(b, attn_mask, element), sizes[3]))
    if nonpad_kv_seqlen is not None:
        scores.masks.append(
            hidden_where(b, sizes, element, lambda s, i, j, n: j >= n, [nonpad_kv_seqlen])
        )
    window = (left_window_size, 0 if is_causal and right_window_size < 0 else right_window_size)
    if is_causal and right_window_size > 0:
        window = (left_window_size, 0)
    if nonpad_kv_seqlen is None:
        left, right = window
        scores.first = None if left < 0 else offset - left
        scores.causal = None if right < 0 else offset + right
    elif window != (-1, -1):
        scores.masks.append(_window(b, sizes, element, window, nonpad_kv_seqlen))
    done = attend(b, q, k, v, scores)
    stages = (done.products, done.capped, done.masked, done.probabilities)
    result = merge_heads(b, done.result) if flat else done.result
    return result, k, v, b.convert(stages[qk_matmul_output_mode], element)


def _to_all_keys(b: Nodes, mask: Tensor, keys: Size) -> Tensor:
    """Pads a mask to the number of keys; the additional keys are hidden."""
    own = mask.sizes[-1]
    if not isinstance(own, int) or not isinstance(keys, int) or own in (1, keys):
        return mask
    none = [0] * mask.rank
    return b.pad(mask, none, [*none[1:], keys - own], MASKED)


def _window(
    b: Nodes,
    sizes: Sequence[Size],
    element: Element,
    window: tuple[int, int],
    seen: Tensor,
) -> Tensor:
    """Returns a mask that hides keys further left or right than the window; -1 means no limit."""
    rows = b.integer(sizes[2])

    def test(s: Scalars, i: Number, j: Number, length: Number) -> Number:
        place = i + length - Number(s, rows, I64)
        left, right = window
        hides = [j < place - left] if left >= 0 else []
        hides += [j > place + right] if right >= 0 else []
        return hides[0] | hides[1] if len(hides) == 2 else hides[0]

    return hidden_where(b, sizes, element, test, [seen])
