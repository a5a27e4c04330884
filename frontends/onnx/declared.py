"""
Sizes and axes that data decides, taken from the shape that the model declares for the result.

    Reshape(x, s) with a declared result of 2x3    s is [2, 3]
    ReduceSum(x: 4x3x2, a: 1) of 4x1x2             a is [1]

Only where the declaration leaves no choice; who contradicts the file when the program runs gets
what the file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.frontends.onnx.values import Listed, Tensor

Sizes: TypeAlias = tuple[int, ...]
Deduction: TypeAlias = Callable[[Sequence[Tensor | None], Sizes, Mapping[str, Any]], Any]
"""The data of an input by all inputs, the sizes of the result and the attributes, or None."""


def declared_sizes(graph: Any) -> dict[str, Sizes]:
    """The sizes that a graph declares for its values, where all are numbers."""
    found: dict[str, Sizes] = {}
    for value in (*graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            found[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
    return found


def _whole(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    return sizes


def _of_axes(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    """The sizes of some axes, or of all."""
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    return [sizes[axis] for axis in attributes.get("axes", range(len(sizes)))]


def _of_axis(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    return [sizes[attributes.get("axis", -1)]]


def _repeats(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    given = inputs[0].sizes if inputs[0] is not None else ()
    if not all(isinstance(size, int) and size for size in given):
        return None
    return [whole // int(part) for whole, part in zip(sizes, given, strict=True)]  # pyright: ignore


def _reduced(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    """Axes that give the result; of those of size 1 it does not matter which."""
    x, axes = inputs[:2]
    assert x is not None
    assert axes is not None
    keep = attributes.get("keepdims", 1)

    def result(chosen: tuple[int, ...]) -> tuple[Any, ...]:
        shape = [1 if i in chosen else size for i, size in enumerate(x.sizes)]
        return tuple(size for i, size in enumerate(shape) if keep or i not in chosen)

    if not isinstance(axes.sizes[0], int) or not axes.sizes[0]:
        return () if axes.sizes[0] == 0 else None
    fitting = {
        tuple(axis for axis in chosen if x.sizes[axis] != 1): chosen
        for chosen in combinations(range(x.rank), axes.sizes[0])
        if result(chosen) == sizes
    }
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def _squeezed(inputs: Sequence[Tensor | None], sizes: Sizes, attributes: Mapping[str, Any]) -> Any:
    return _reduced(inputs, sizes, {"keepdims": 0})


REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)
DEDUCTIONS: dict[str, tuple[int, Deduction]] = {
    "Reshape": (1, _whole),
    "Expand": (1, _whole),
    "ConstantOfShape": (0, _whole),
    "MaxUnpool": (2, _whole),
    "Resize": (3, _of_axes),
    "CenterCropPad": (1, _of_axes),
    "TopK": (1, _of_axis),
    "OneHot": (1, _of_axis),
    "Squeeze": (1, _squeezed),
    "Tile": (1, _repeats),
    **dict.fromkeys(REDUCTIONS, (1, _reduced)),
}
"""By operator the number of an input whose data a declared result decides, and how."""


def with_declared(
    operator: str,
    inputs: Sequence[Tensor | None],
    sizes: Sizes | None,
    attributes: Mapping[str, Any],
) -> list[Tensor | None]:
    """The inputs of a node, with the data of one that its declared result decides."""
    given = list(inputs)
    number, deduce = DEDUCTIONS.get(operator, (len(given), _whole))
    if sizes is None or number >= len(given) or any(isinstance(t, Listed) for t in given):
        return given
    unknown = given[number]
    if unknown is None or unknown.known is not None:
        return given
    data = deduce(given, sizes, attributes)
    if data is not None and unknown.sizes in ((len(data),), () if len(data) == 1 else None):
        array = np.array(data, unknown.element.dtype).reshape(unknown.type.get_shape())
        given[number] = Tensor.of(array)
    return given
