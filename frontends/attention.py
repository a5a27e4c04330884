"""
Builds scaled dot-product attention in a form that the compiler recognises (`form_attention`).

Queries, keys and values have the shape batch x heads x sequence x head size. Every frontend
converts its attention operators to this form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, I64, Element, Tensor, sum_element

MASKED = float("-inf")


@dataclass
class Scores:
    """Options of the steps between the two products of an attention."""

    scale: float
    element: Element
    """Element type of the scores."""
    softcap: float = 0.0
    masks: list[Tensor] = field(default_factory=list[Tensor])
    """Masks to add to the scores, each broadcast to batch x heads x queries x keys."""
    causal: Size | None = None
    """Query i attends to keys up to i plus this offset; to all keys if None."""
    first: Size | None = None
    """If given, query i attends only to keys at or after i plus this offset."""
    softmax: Element | None = None
    """Element type of the softmax, if it differs from `element`."""
    sink: Tensor | None = None
    """An extra score for each head. It only enlarges the denominator of the softmax."""
    guarded: bool = True
    """True if a fully masked row has the result 0, not NaN."""


@dataclass(frozen=True)
class Attended:
    """The result of an attention, and its scores after each step (product, cap, mask, softmax)."""

    result: Tensor
    products: Tensor
    capped: Tensor
    masked: Tensor
    probabilities: Tensor


def split_heads(b: TensorBuilder, t: Tensor, heads: int) -> Tensor:
    """Reshapes batch x sequence x hidden to batch x heads x sequence x head size."""
    batch, length, hidden = t.sizes
    size = exact_quotient(hidden, heads)
    if size is None:
        b.refuse(
            f"{hidden} elements do not divide into {heads} heads",
            f"use a number of heads that divides {hidden}",
        )
    return b.transpose(b.reshape(t, [batch, length, heads, size]), [0, 2, 1, 3])


def merge_heads(b: TensorBuilder, t: Tensor) -> Tensor:
    """Reshapes batch x heads x sequence x head size to batch x sequence x hidden."""
    batch, heads, length, size = t.sizes
    return b.reshape(b.transpose(t, [0, 2, 1, 3]), [batch, length, heads * size])


def attend(b: TensorBuilder, q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> Attended:
    """
    Computes softmax(scale q k^T + masks) v.

    Query heads that share keys become rows of one matrix, so that keys and values are not
    repeated.
    """
    batch, heads, rows, depth = q.sizes
    own, keys = k.sizes[1:3]
    times = exact_quotient(heads, own)
    if times is None:
        b.refuse(
            f"{heads} query heads cannot share {own} key heads",
            "use a multiple of the number of key heads",
        )
    if k.sizes[3] != depth or keys != v.sizes[2]:
        b.refuse(f"queries {q} do not fit keys {k} and values {v}", "correct the shapes")
    wide = sum_element(q.element)
    split: list[Size] = [batch, own] if times == 1 else [batch, own, times]
    count = len(split)
    row, column, last = count, count + 1, count + 2
    of_keys = [0, 1]
    q = b.reshape(q, [*split, rows, depth])
    scores = replace(scores, masks=[_by_heads(b, mask, split) for mask in scores.masks])
    shape: list[Size] = [*split, rows, keys]
    products = b.contract(
        q, [*range(count), row, last], k, [*of_keys, column, last], shape, count + 3, wide
    )
    if scores.scale != 1:
        products = b.elementwise(lambda s, x: x * scores.scale, products)
    products = b.convert(products, scores.element)
    capped = _cap_scores(b, products, scores.softcap)
    masked = _mask_scores(b, capped, scores)
    probabilities = b.convert(_softmax_scores(b, masked, scores), q.element)
    result = b.contract(
        probabilities,
        [*range(count), row, last],
        v,
        [*of_keys, last, column],
        [*split, rows, v.sizes[3]],
        count + 3,
    )
    joined = (
        b.reshape(t, [batch, heads, *t.sizes[-2:]])
        for t in (result, products, capped, masked, probabilities)
    )
    return Attended(*joined)


def _by_heads(b: TensorBuilder, mask: Tensor, split: Sequence[Size]) -> Tensor:
    """
    Splits the head dimension of a mask into the dimensions `split[1:]`. Returns a mask without a
    head dimension unchanged.
    """
    if mask.rank < 3 or len(split) == 2:
        return mask
    heads = [1, 1] if mask.sizes[-3] == 1 else list(split[1:])
    return b.reshape(mask, [*mask.sizes[:-3], *heads, *mask.sizes[-2:]])


def _cap_scores(b: TensorBuilder, x: Tensor, cap: float) -> Tensor:
    if not cap:
        return x
    return b.elementwise(lambda s, x: s.unary(math.TanhOp, x / cap) * cap, x)


def _mask_scores(b: TensorBuilder, x: Tensor, scores: Scores) -> Tensor:
    bounds = (scores.causal, scores.first)
    known = [n if n is None or isinstance(n, int) else b.integer(n) for n in bounds]
    if known != [None, None]:

        def hide(s: Scalars, x: Number) -> Number:
            row, column = s.index(len(shape) - 2), s.index(len(shape) - 1)
            causal, first = (
                None if n is None else row + (n if isinstance(n, int) else Number(s, n, I64))
                for n in known
            )
            hides = [] if causal is None else [column > causal]
            hides += [] if first is None else [column < first]
            return s.select(hides[0] | hides[1] if len(hides) == 2 else hides[0], MASKED, x)

        shape = x.sizes
        x = b.elementwise(hide, x)
    if not scores.masks:
        return x
    whole = scores.masks[0]
    for mask in scores.masks[1:]:
        whole = b.elementwise(lambda s, m, x: x + m.to(x.element), mask, whole)
    return b.elementwise(lambda s, m, x: x + m.to(x.element), whole, x)


def softmax(b: TensorBuilder, x: Tensor, axis: int) -> Tensor:
    """Computes the softmax along an axis."""
    powers, total, _ = powers_of(b, x, axis, None)
    return b.elementwise(lambda s, t, x: x / t, total, powers)


def powers_of(
    b: TensorBuilder, x: Tensor, axis: int, sink: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """
    Computes exponentials without overflow, relative to the maximum along an axis and the `sink`.

    Returns the exponentials, their sum along the axis, and the maximum.
    """
    largest = b.reduce(lambda s, x, m: s.maximum(m, x), x.element.least, x, [axis])
    if sink is not None:
        largest = b.elementwise(lambda s, sink, m: s.maximum(m, sink), sink, largest)
    powers = b.elementwise(lambda s, m, x: s.exp(x - m), largest, x)
    total = b.reduce(
        lambda s, x, total: total + x, 0, powers, [axis], element=sum_element(x.element)
    )
    return powers, b.convert(total, x.element), largest


def _softmax_scores(b: TensorBuilder, x: Tensor, scores: Scores) -> Tensor:
    if scores.softmax is not None:
        x = b.convert(x, scores.softmax)
    sink = None
    if scores.sink is not None:
        sink = b.reshape(b.convert(scores.sink, x.element), [*x.sizes[1:-2], 1, 1])
    powers, total, largest = powers_of(b, x, x.rank - 1, sink)
    if sink is not None:
        total = b.elementwise(lambda s, k, m, t: t + s.exp(k - m), sink, largest, total)
    if not scores.guarded or not (scores.masks or scores.first is not None):
        return b.elementwise(lambda s, t, x: x / t, total, powers)
    return b.elementwise(
        lambda s, m, t, x: s.select(m.equals(MASKED), 0, x / t), largest, total, powers
    )


def additive(b: TensorBuilder, mask: Tensor, element: Element, hidden: float = MASKED) -> Tensor:
    """
    Converts a mask to numbers to add to scores. A boolean mask becomes `hidden` where it is False.
    """
    if mask.element.is_float:
        return mask
    return b.elementwise(
        lambda s, x: s.select(x.to(BOOL), s.number(0, element), hidden), mask, element=element
    )


def hidden_where(
    b: TensorBuilder,
    sizes: Sequence[Size],
    element: Element,
    test: Callable[..., Number],
    lengths: Sequence[Tensor] = (),
    hidden: float = MASKED,
) -> Tensor:
    """
    Returns a mask to add to scores (batch x 1 x queries x keys): `hidden` if `test` holds, else 0.

    `test` takes the `Scalars` and i64 numbers: the indices of query and key, and the batch's
    element of each tensor in `lengths`.
    """

    def body(s: Scalars, *given: Number) -> Number:
        hides = test(s, s.index(2), s.index(3), *(n.to(I64) for n in given))
        return s.select(hides, s.number(hidden, element), 0)

    whole = [sizes[0] if lengths else 1, 1, *sizes[2:]]
    return b.mapped(body, [(t, [0]) for t in lengths], whole, element)


def size_scale(b: TensorBuilder, q: Tensor) -> float:
    """Returns the default scale of the scores, 1 / sqrt(head size)."""
    size = q.sizes[3]
    if not isinstance(size, int):
        b.refuse("the head size is not known at compile time", "give the attribute scale")
    return size**-0.5
