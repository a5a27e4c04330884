"""
Recognises tensors whose elements are ones or consecutive numbers, to simplify their users.

    ReduceSum(ones of 1 x total) is total; And(x, true) is x; Gather(ones, anything) is ones

The tensors are also computed as usual, and erased if unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.onnx.values import Listed, Tensor

MOVING = frozenset(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Expand Slice Gather GatherND Tile".split()
)
"""Operators whose result contains only elements of the first operand."""

UNCHANGED = frozenset("Identity Cast Unsqueeze Squeeze Reshape Flatten".split())
"""Operators that preserve consecutive numbers if they do not change the last axis."""


def with_progressions(
    operator: str,
    inputs: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    results: Sequence[Tensor | None],
) -> Sequence[Tensor | None]:
    """
    Marks results that are ones or consecutive numbers, according to the marks of the operands.
    """
    given = [t for t in inputs if t is not None and not isinstance(t, Listed)]
    if not any(t.progression for t in given) or len(results) != 1:
        return results
    x, (result,) = given[0], results
    if result is None or isinstance(result, Listed) or result.known is not None:
        return results
    if operator == "And":
        return [_conjunction(given, result)]
    if x.progression is None:
        return results
    first, step = x.progression
    if operator == "ReduceSum" and step == 0:
        return [_total(x, first, result)]
    if operator == "Cast" and result.element.is_bool and step == 0 and isinstance(first, int):
        result.progression = (int(first != 0), 0)
    elif (operator == "Cast" and not result.element.is_float) or (operator in MOVING and step == 0):
        result.progression = x.progression
    elif operator in UNCHANGED and x.sizes[-1] == result.sizes[-1]:
        result.progression = x.progression if not result.element.is_float else None
    return results


def _conjunction(given: Sequence[Tensor], result: Tensor) -> Tensor:
    """Removes operands of a conjunction that are true everywhere."""
    left = [t for t in given if t.progression != (1, 0)]
    if not left:
        result.progression = (1, 0)
        return result
    return left[0] if len(left) == 1 and left[0].sizes == result.sizes else result


def _total(x: Tensor, first: Size, result: Tensor) -> Tensor:
    """Returns the sum of equal elements, known as a size: the number of elements times `first`."""
    if result.element.is_float or not all(isinstance(size, int) for size in result.sizes):
        return result
    count = exact_quotient(prod(x.sizes), prod(result.sizes))
    if count is None:
        return result
    known = np.empty(result.type.get_shape(), object)
    known[...] = first * count
    return Tensor(result.element, result.sizes, known=known)
