"""
Deduces data that determines shapes (sizes, axes) from the declared shapes of results.

    Reshape(x, s) with a declared result of 2x3    s is [2, 3]
    ReduceSum(x: 4x3x2, a: 1) of 4x1x2             a is [1]
    CumSum(x: 4x3, a: 1)                           a is 0 or 1: both are computed, one is selected

A declared shape is trusted: the result has the shape even if the data contradicts it at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.frontends.onnx.values import Listed, Tensor

Sizes: TypeAlias = tuple[int, ...]
Declared: TypeAlias = tuple[int | None, ...]
Inputs: TypeAlias = Sequence[Tensor | None]
Data: TypeAlias = Mapping[int, Sequence[int]]
"""Values of inputs, by the index of the input."""
Deduction: TypeAlias = Callable[[Any, Sizes, Mapping[str, Any]], Iterable[Data]]
"""
Function that deduces possible values of inputs from inputs, sizes of the first result, and
attributes.
"""

KEEPING = frozenset(("Abs", "Cast", "CastLike", "Exp", "Identity", "Log", "Neg", "Relu", "Sqrt"))
"""Operators whose result has the shape of their first operand."""


def declared_sizes(graph: Any) -> dict[str, Declared]:
    """Returns the declared or implied sizes of a graph's values; a dynamic size is None."""
    declared: dict[str, Declared] = {}
    for value in (*graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            declared[value.name] = tuple(
                d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim
            )
    for node in reversed(graph.node):
        if node.op_type in KEEPING and node.output[0] in declared:
            declared.setdefault(node.input[0], declared[node.output[0]])
    return declared


def _of_whole(number: int) -> Deduction:
    return lambda inputs, sizes, attributes: [{number: sizes}]


def _of_axes(number: int) -> Deduction:
    """Returns a function that deduces input `number` as the result's sizes along given axes."""

    def deduce(inputs: Inputs, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
        if attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch":
            yield {number: [sizes[axis] for axis in attributes.get("axes", range(len(sizes)))]}

    return deduce


def _of_axis(inputs: Inputs, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    yield {1: [sizes[attributes.get("axis", -1)]]}


def _repeats(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    given = inputs[0].sizes
    if all(isinstance(size, int) and size for size in given):
        yield {1: [whole // part for whole, part in zip(sizes, given, strict=True)]}


def _reduced_axes(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """Yields axes whose reduction gives the sizes. Axes of size 1 are interchangeable."""
    x, axes = inputs[:2]
    keep = attributes.get("keepdims", 1)

    def result(chosen: tuple[int, ...]) -> tuple[Any, ...]:
        shape = [1 if i in chosen else size for i, size in enumerate(x.sizes)]
        return tuple(size for i, size in enumerate(shape) if keep or i not in chosen)

    if not isinstance(axes.sizes[0], int) or not axes.sizes[0]:
        return [{1: ()}] if axes.sizes[0] == 0 else []
    if axes.sizes[0] > x.rank:
        return []
    fitting = [c for c in combinations(range(x.rank), axes.sizes[0]) if result(c) == sizes]
    different = {tuple(axis for axis in chosen if x.sizes[axis] != 1) for chosen in fitting}
    return [{1: chosen} for chosen in (fitting[:1] if len(different) == 1 else fitting)]


def _squeezed_axes(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """
    Yields axes of Squeeze that give the declared sizes. All possible choices have the same result,
    so only one is yielded.
    """
    return list(_reduced_axes(inputs, sizes, {"keepdims": 0}))[:1]


def _unsqueezed_axes(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """
    Yields axes of Unsqueeze that give the declared sizes. All possible choices have the same
    result, so only one is yielded.
    """
    x = inputs[0]
    for chosen in combinations(range(len(sizes)), len(sizes) - x.rank):
        kept = tuple(size for i, size in enumerate(sizes) if i not in chosen)
        if kept == x.sizes and all(sizes[i] == 1 for i in chosen):
            return [{1: chosen}]
    return []


def _any_axis(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    return [{1: [axis]} for axis in range(inputs[0].rank)]


def _transformed_axes(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """Yields axes along which a Fourier transform gives the declared sizes."""
    x, length = inputs[0], inputs[1] if len(inputs) > 1 else None
    for axis in range(x.rank - 1):
        count, other = x.sizes[axis], {axis, x.rank - 1}
        back = attributes.get("inverse") and attributes.get("onesided")
        if length is not None and length.numbers is not None:
            count = length.numbers.item()
        elif back and isinstance(count, int):
            count = (count - 1) * 2
        if attributes.get("onesided") and not back and isinstance(count, int):
            count = count // 2 + 1
        kept = all(x.sizes[i] == size for i, size in enumerate(sizes) if i not in other)
        if kept and (count == sizes[axis] or (length is not None and length.numbers is None)):
            yield {2: [axis]}


def _frames(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """Yields frame steps and lengths that give the declared number of frames."""
    window, length = (*inputs[2:], None, None)[:2]
    whole = inputs[0].sizes[1]
    if not isinstance(whole, int):
        return
    lengths = (
        range((sizes[2] - 1) * 2, sizes[2] * 2) if attributes.get("onesided", 1) else sizes[2:3]
    )
    known = window.sizes[0] if window is not None else whole if length is None else None
    if length is not None and length.numbers is not None:
        known = length.numbers.item()
    for count in lengths if known is None else [known]:
        for step in range(1, whole + 1):
            if (whole - count) // step + 1 == sizes[1]:
                yield {1: [step], 3: [count]} if length is not None else {1: [step]}


def _blocks(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """Yields block shapes that give the declared sizes of Col2Im's operand."""
    x, image = inputs[0], sizes[2:]
    volume, rank = x.sizes[1] // sizes[1], len(image)
    apart, steps = (attributes.get(name, [1] * rank) for name in ("dilations", "strides"))
    pads = attributes.get("pads", [0] * 2 * rank)
    for block in product(*([n for n in range(1, volume + 1) if volume % n == 0] for _ in image)):
        counts = [
            (n + pads[k] + pads[rank + k] - (block[k] - 1) * apart[k] - 1) // steps[k] + 1
            for k, n in enumerate(image)
        ]
        if prod(block) == volume and prod(counts) == x.sizes[2]:
            yield {1: image, 2: block}


def _grid(inputs: Any, sizes: Sizes, attributes: Mapping[str, Any]) -> Iterable[Data]:
    """Yields the size of a sampling grid, from the result's size without batch and channels."""
    yield {1: [sizes[0], 1, *sizes[1:-1]]}


REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)
DEDUCTIONS: dict[str, Deduction] = {
    "Reshape": _of_whole(1),
    "Expand": _of_whole(1),
    "ConstantOfShape": _of_whole(0),
    "MaxUnpool": _of_whole(2),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), _of_whole(0)),
    "Resize": _of_axes(3),
    "CenterCropPad": _of_axes(1),
    "TopK": _of_axis,
    "OneHot": _of_axis,
    "Squeeze": _squeezed_axes,
    "Unsqueeze": _unsqueezed_axes,
    "Tile": _repeats,
    "AffineGrid": _grid,
    "Col2Im": _blocks,
    "STFT": _frames,
    "DFT": _transformed_axes,
    **dict.fromkeys(("CumSum", "CumProd"), _any_axis),
    **dict.fromkeys(REDUCTIONS, _reduced_axes),
}
"""Functions that deduce data from a declared result, by operator."""

OF_AXES = frozenset((*REDUCTIONS, "CumSum", "CumProd", "DFT"))
"""Operators for which `deduced` returns a list of axes."""


def deduced(
    operator: str, inputs: Inputs, sizes: Sizes | None, attributes: Mapping[str, Any]
) -> list[Data]:
    """
    Returns possible values of a node's unknown inputs; empty if the declaration is ambiguous.

    Only one input may have several possible values.
    """
    deduce = DEDUCTIONS.get(operator)
    if deduce is None or any(isinstance(t, Listed) for t in inputs) or inputs[0] is None:
        return []
    if sizes is None and deduce is not _any_axis:
        return []
    if all(t is None or t.known is not None for t in inputs[1 if len(inputs) > 1 else 0 :]):
        return []
    try:
        fitting = [data for data in deduce(inputs, sizes or (), attributes) if _fits(inputs, data)]
    except (ArithmeticError, IndexError, TypeError, ValueError):
        # The declaration does not fit, or operands have dynamic sizes.
        return []
    return fitting if len(fitting) == 1 or operator in (*OF_AXES, "Col2Im") else []


def _fits(inputs: Inputs, data: Data) -> bool:
    """True if each value belongs to an existing input with the same number of elements."""
    given = {number: inputs[number] for number in data if number < len(inputs)}
    return len(given) == len(data) and all(
        t is not None and t.sizes in ((len(data[n]),), () if len(data[n]) == 1 else None)
        for n, t in given.items()
    )


def with_data(inputs: Inputs, data: Data) -> list[Tensor | None]:
    """Replaces each unknown input that has a value in `data` by a constant of this value."""
    given = list(inputs)
    for number, numbers in data.items():
        t = given[number]
        if t is not None and t.known is None:
            array = np.array(numbers, t.element.dtype).reshape(t.type.get_shape())
            given[number] = Tensor.of(array)
    return given
