"""
Imports lists whose length depends on data: `NonZero`, `Compress`, and the nodes that use their
results.

    ReduceSum(GatherND(x, Transpose(NonZero(x > 0))))      the sum of the positive elements of x

A list is represented by all candidates and a mask of the chosen candidates. If `Expand` repeats one
element as often as data say, the element is the only candidate, and there is no mask. Nodes that
compute each candidate separately compute all candidates. Reductions, counts and `ScatterND` skip
candidates that are not chosen. Other nodes, and outputs, are refused, because programs have no
sizes that depend on data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.registry import lookup
from xdsl_spirv.frontends.onnx.values import I64, Chosen, Tensor

Inputs: TypeAlias = Sequence[Tensor | None]
Attributes: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Any, Attributes], int | None]
"""
Function that returns the axis of a list in an operator's result, or None if the operator mixes
elements.
"""

Compute: TypeAlias = Callable[[str, Inputs], Sequence[Tensor | None]]
"""Function that computes the results of an operator on tensors."""

NOWHERE = -(1 << 31)
"""An index that is out of bounds in every dimension."""

REPEATING = ("Cast", "Identity", "Reshape")
"""Operators whose result has equal elements if all elements of their operand are equal."""

NEUTRAL: dict[str, Callable[[Any], float]] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2"), lambda element: 0),
    **dict.fromkeys(("ReduceSumSquare", "ReduceLogSum"), lambda element: 0),
    "ReduceProd": lambda element: 1,
    **dict.fromkeys(("ReduceMax", "ReduceLogSumExp"), lambda element: element.least),
    "ReduceMin": lambda element: element.greatest,
}
"""The neutral element of each reduction, which replaces elements that are not chosen."""


def apply(
    b: TensorBuilder,
    operator: str,
    inputs: Inputs,
    attributes: Attributes,
    compute: Compute,
) -> Sequence[Tensor | None]:
    """Computes the results of a node with inputs of data-dependent length (lists, `Chosen`)."""
    lists = [t for t in inputs if isinstance(t, Chosen)]
    first = next((t for t in lists if t.mask is not None), lists[0])
    mask = first.mask
    known = mask is not None or operator in REPEATING
    if known and all(t.mask is None or t.mask is mask for t in lists):
        whole = [t.candidates if isinstance(t, Chosen) else t for t in inputs]
        if operator in ("Shape", "Size"):
            return [_shape(b, first, operator, attributes)]
        if operator in NEUTRAL and first.axis in _axes(inputs, attributes, first.candidates.rank):
            return _reduce_chosen(b, operator, inputs, attributes, compute)
        if operator == "ScatterND" and not isinstance(inputs[0], Chosen) and len(lists) == 2:
            return compute(operator, _hide_candidates(b, first, whole))
        axis = _result_axis(operator, inputs, attributes)
        if axis is not None:
            results = compute(operator, whole)
            return [None if t is None else Chosen(t, axis, mask) for t in results]
    b.refuse(
        "the length of an operand depends on data",
        "reduce the operand, take its Shape, or cut the model before this node",
    )


def _hide_candidates(b: TensorBuilder, lists: Chosen, inputs: Sequence[Any]) -> Inputs:
    """
    Broadcasts the updates of a ScatterND, so that each index has its own. Replaces unchosen indices
    with an out-of-bounds index, so that their updates have no effect.
    """
    x, indices, updates = inputs
    hidden = b.elementwise(lambda s, m, i: s.select(m, i, NOWHERE), _repeat_mask(b, lists), indices)
    sizes = [*indices.sizes[:-1], *x.sizes[indices.sizes[-1] :]]
    return x, hidden, b.expand(updates, sizes)


def _repeat_mask(b: TensorBuilder, t: Chosen) -> Tensor:
    """Broadcasts a list's mask to the shape of its candidates."""
    assert t.mask is not None
    return b.reshape(t.mask, [*t.mask.sizes, *[1] * (t.candidates.rank - 1 - t.axis)])


def _count(b: TensorBuilder, t: Chosen, others: Size) -> Tensor:
    """Returns the number of chosen elements of a list, times `others`, as a scalar tensor."""
    assert t.mask is not None
    length = b.reduce(lambda s, x, total: total + x, 0, t.mask, [0], element=I64)
    factor = Tensor(I64, (), known=np.array(others, object))
    return b.elementwise(lambda s, n, x: x * n, factor, length)


def _shape(b: TensorBuilder, t: Chosen, operator: str, attributes: Attributes) -> Tensor:
    sizes = t.candidates.sizes
    if operator == "Size":
        others = prod(size for i, size in enumerate(sizes) if i != t.axis)
        return b.reshape(_count(b, t, others), [])
    parts = [
        b.reshape(_count(b, t, 1), [1])
        if i == t.axis
        else Tensor(I64, (1,), known=np.array([size], object))
        for i, size in enumerate(sizes)
    ][slice(attributes.get("start", 0), attributes.get("end"))]
    return b.concatenate(parts, 0)


def _reduce_chosen(
    b: TensorBuilder, operator: str, inputs: Inputs, attributes: Attributes, compute: Compute
) -> Sequence[Tensor | None]:
    """Reduces a list along its axis; candidates that are not chosen become the neutral element."""
    t = inputs[0]
    assert isinstance(t, Chosen)
    x, neutral = t.candidates, NEUTRAL[operator](t.candidates.element)
    kept = b.elementwise(lambda s, m, x: s.select(m, x, neutral), _repeat_mask(b, t), x)
    if operator != "ReduceMean":
        return compute(operator, [kept, *inputs[1:]])
    (total,) = compute("ReduceSum", [kept, *inputs[1:]])
    axes = _axes(inputs, attributes, x.rank)
    count = _count(b, t, prod(x.sizes[i] for i in axes if i != t.axis))
    return [b.elementwise(lambda s, n, x: x / n.to(x.element), count, total)]  # pyright: ignore


def _integers(inputs: Any, attributes: Attributes, number: int, name: str) -> list[int] | None:
    """Returns an integer list from an input, or from an attribute (older opsets)."""
    t = inputs[number] if number < len(inputs) else None
    return attributes.get(name) if t is None else [int(n) for n in t.known.ravel()]


def _axes(inputs: Inputs, attributes: Attributes, rank: int) -> list[int]:
    axes = _integers(inputs, attributes, 1, "axes")
    return [axis % rank for axis in axes or range(rank)]


# The list's axis in a result


def _of_elements(inputs: Any, attributes: Attributes) -> int | None:
    """
    Returns the axis of a data-dependent list in an elementwise result, or None if it is not known.
    """
    given = [t for t in inputs if t is not None]
    behind = {t.candidates.rank - t.axis for t in given if isinstance(t, Chosen)}
    others = [t for t in given if not isinstance(t, Chosen)]
    (place,) = behind if len(behind) == 1 else (0,)
    if not place or any(t.rank >= place and t.sizes[-place] != 1 for t in others):
        return None
    return max(t.candidates.rank if isinstance(t, Chosen) else t.rank for t in given) - place


def _of_transpose(inputs: Any, attributes: Attributes) -> int | None:
    x = inputs[0]
    return list(attributes.get("perm", reversed(range(x.candidates.rank)))).index(x.axis)


def _of_squeeze(inputs: Any, attributes: Attributes) -> int | None:
    x, axes = inputs[0], _integers(inputs, attributes, 1, "axes")
    rank = x.candidates.rank
    kept = [i for i in range(rank) if i not in [axis % rank for axis in axes or [x.axis]]]
    return kept.index(x.axis) if x.axis in kept else None


def _of_unsqueeze(inputs: Any, attributes: Attributes) -> int | None:
    x, axes = inputs[0], _integers(inputs, attributes, 1, "axes") or []
    rank = x.candidates.rank + len(axes)
    return [i for i in range(rank) if i not in [axis % rank for axis in axes]][x.axis]


def _of_gather(inputs: Any, attributes: Attributes) -> int | None:
    x, indices = inputs
    chosen = isinstance(x, Chosen)
    axis = attributes.get("axis", 0) % (x.candidates.rank if chosen else x.rank)
    if not chosen:
        return axis + indices.axis
    if isinstance(indices, Chosen) or axis == x.axis:
        return None
    return x.axis if x.axis < axis else x.axis + indices.rank - 1


def _of_gather_nd(inputs: Any, attributes: Attributes) -> int | None:
    x, indices = inputs
    apart = isinstance(indices, Chosen) and indices.axis < indices.candidates.rank - 1
    return None if isinstance(x, Chosen) or not apart else indices.axis


def _of_parts(inputs: Any, attributes: Attributes) -> int | None:
    """
    Returns the axis of a data-dependent list after Slice, Concat or Split along other axes, or
    None.
    """
    x, axes = inputs[0], _integers(inputs, attributes, 3, "axes")
    axes = [attributes["axis"]] if "axis" in attributes else axes
    apart = isinstance(x, Chosen) and axes and x.axis not in [a % x.candidates.rank for a in axes]
    alike = all(isinstance(t, Chosen) and t.axis == x.axis for t in inputs if t and t.rank != 1)
    return x.axis if apart and alike else None


def _of_rows(inputs: Any, attributes: Attributes) -> int | None:
    """Returns the axis of a data-dependent list after an operator on rows (MatMul), or None."""
    x, *others = inputs
    plain = isinstance(x, Chosen) and not any(isinstance(t, Chosen) for t in others)
    if not plain or attributes.get("transA") or (others and others[0].rank > 2):
        return None
    return x.axis if x.axis < attributes.get("axis", -1) % x.candidates.rank else None


def _of_reduction(inputs: Any, attributes: Attributes) -> int | None:
    x = inputs[0]
    rank = x.candidates.rank
    before = [i for i in _axes(inputs, attributes, rank) if i < x.axis]
    return x.axis if attributes.get("keepdims", 1) else x.axis - len(before)


def _of_reshape(inputs: Any, attributes: Attributes) -> int | None:
    """Returns the axis of a data-dependent list after a reshape, or None if elements are mixed."""
    x, sizes = inputs[0], _integers(inputs, attributes, 1, "shape")
    others = [size for i, size in enumerate(x.candidates.sizes) if i != x.axis]
    same = x.axis == 0 or prod(others) == 1
    return 0 if same and sizes and sizes[0] == -1 and prod(sizes[1:]) == prod(others) else None


RULES: dict[str, Rule] = {
    "Transpose": _of_transpose,
    "Squeeze": _of_squeeze,
    "Unsqueeze": _of_unsqueeze,
    "Gather": _of_gather,
    "GatherND": _of_gather_nd,
    "Reshape": _of_reshape,
    **dict.fromkeys(("Slice", "Concat", "Split"), _of_parts),
    **dict.fromkeys(("MatMul", "Gemm", "Softmax", "LogSoftmax", "LayerNormalization"), _of_rows),
    **dict.fromkeys(NEUTRAL, _of_reduction),
}


def _result_axis(operator: str, inputs: Inputs, attributes: Attributes) -> int | None:
    """
    Returns the axis of a data-dependent list in the results of an operator, or None if the operator
    does not support such lists.
    """
    entry = lookup("", operator, 18)
    elementwise = entry is not None and entry.function.__module__.endswith(".elementwise")
    rule = _of_elements if elementwise else RULES.get(operator)
    return rule and rule(inputs, attributes)
