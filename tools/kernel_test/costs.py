"""
Computes the cost of a step of an expression before the step is computed.

The cost is the number of created elements plus the number of products in sums. Descriptions may
come from untrusted sources, and a numpy call cannot be interrupted. A budget of costs therefore
limits memory and time. The result of a function that is not in `KINDS` has at most as many elements
as its broadcast or concatenated arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Arguments = Sequence[Any]
Shape = tuple[int, ...]


def size(value: Any) -> int:
    """Returns the number of elements of an array, a list of arrays, or a number."""
    if isinstance(value, list | tuple):
        return sum(map(size, value))  # pyright: ignore
    return int(np.size(value)) if isinstance(value, np.ndarray) else 1


def shape(value: Any) -> Shape:
    """Returns the shape of the value as a numpy array; a ragged list counts as flat."""
    if isinstance(value, list | tuple):
        parts = {shape(part) for part in value}  # pyright: ignore
        return (len(value), *parts.pop()) if len(parts) == 1 else (size(value),)  # pyright: ignore
    return np.shape(value) if isinstance(value, np.ndarray) else ()


def broadcast(values: Arguments) -> int:
    """Returns the cost of an elementwise operation or a concatenation."""
    try:
        spread = math.prod(np.broadcast_shapes(*map(shape, values)))
    except ValueError:
        spread = 0
    return max(sum(map(size, values)), spread)


def product(values: Arguments) -> int:
    """Returns the cost of an outer product of all arrays."""
    return math.prod(max(size(value), 1) for value in values)


def contraction(left: Any, right: Any) -> int:
    """Returns the cost of a matrix product with broadcast batches."""
    a, b = shape(left), shape(right)
    if len(a) < 2 or len(b) < 2:
        return size(left) * size(right) // max(a[-1] if a else 1, 1)
    return math.prod(np.broadcast_shapes(a[:-2], b[:-2])) * a[-2] * a[-1] * b[-1]


def subscript(value: Any, index: Any) -> int:
    """
    Returns the cost of indexing with arrays.

    The cost of index arrays is their broadcast size times the size of the other axes. A mask costs
    at most its size. Numbers and slices make views, which cost nothing.
    """
    arrays = [i for i in (index if isinstance(index, tuple) else (index,)) if size(i) > 1]  # pyright: ignore
    if not arrays or not isinstance(value, np.ndarray):
        return 1
    axes = sum(map(_axes, arrays))
    places = broadcast([np.ravel(i) if _axes(i) > 1 else i for i in arrays])
    left = sorted(np.shape(value), reverse=True)[: max(np.ndim(value) - axes, 0)]
    return places * math.prod(left)


def _axes(index: Any) -> int:
    """Returns the number of axes that an index consumes; a mask consumes one per dimension."""
    return np.ndim(index) if np.asarray(index).dtype == np.bool_ else 1


def call(name: str, arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    """Returns the cost of a function call."""
    given = (*arguments, *keywords.values())
    return float(KINDS.get(name, _broadcast)(arguments, keywords)) + sum(map(size, given))


def _broadcast(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return broadcast((*arguments, *keywords.values()))


def _product(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return product(arguments)


def _contraction(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return contraction(*arguments[:2])


def _dot(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    """Returns the cost of `numpy.dot`, which combines all batches of both operands."""
    left, right = arguments[:2]
    return product((left, right)) // max((shape(left) or (1,))[-1], 1)


def _einsum(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    """Returns the cost of einsum: the product of the sizes of all subscript letters."""
    subscripts, *operands = arguments
    if not isinstance(subscripts, str):
        return product(arguments)
    letters = subscripts.split("->")[0].replace(" ", "").split(",")
    lengths: dict[str, int] = {}
    for own, operand in zip(letters, operands, strict=True):
        if len(own) != len(shape(operand)):  # The ellipsis `...`.
            return product(operands)
        for letter, length in zip(own, shape(operand), strict=True):
            lengths[letter] = max(lengths.get(letter, 1), length)
    return math.prod(lengths.values())


def _cost_of_fill(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return _volume(arguments[0])


def _broadcast_to(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return _volume(arguments[1])


def _arange(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    numbers = [float(number) for number in arguments]
    if len(numbers) == 1:
        return abs(numbers[0])
    start, stop, step = (*numbers, 1.0)[:3]
    return abs(stop - start) / abs(step)


def _eye(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    rows, columns = (*arguments, None)[:2]
    return _most(rows) * _most(rows if columns is None else columns)


def _linspace(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return broadcast(arguments[:2]) * _most(arguments[2] if len(arguments) > 2 else 50)


def _repeat(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return size(arguments[0]) * _most((*arguments[1:], *keywords.values()))


def _tile(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return size(arguments[0]) * _volume(arguments[1])


def _pad(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    widest = 2 * _most(arguments[1])
    return math.prod(length + widest for length in shape(arguments[0]))


def _cost_of_count(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    """Returns the cost of a function whose largest argument is the length of its result."""
    return _most((*arguments, *keywords.values()))


def _histogram(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return _most((*arguments[1:2], keywords.get("bins", 1)))


def _diff(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    return size(arguments[0]) * _most(arguments[1] if len(arguments) > 1 else 1)


def _take(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    array, index, *axis = arguments
    whole = not axis and keywords.get("axis") is None
    return size(index) if whole else product((array, index)) // max(min(shape(array), default=1), 1)


def _take_along_axis(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    array, index = map(shape, arguments[:2])
    return math.prod(map(max, zip(array, index, strict=False)))


def _triangle(arguments: Arguments, keywords: Mapping[str, Any]) -> float:
    """Returns the cost of `tril` or `triu`, which make a square matrix from a vector."""
    array = arguments[0]
    return size(array) ** (2 if len(shape(array)) == 1 else 1)


def _volume(sizes: Any) -> float:
    """Returns the number of elements of an array with these sizes (a sequence or one number)."""
    numbers = np.asarray(sizes, np.float64)
    return float(np.prod(np.maximum(np.abs(numbers), 1)))


def _most(numbers: Any) -> float:
    """Returns the largest value in numbers, lists and arrays, at least 1."""
    if isinstance(numbers, list | tuple):
        return max(map(_most, numbers), default=1.0)  # pyright: ignore
    if numbers is None or isinstance(numbers, str) or not np.size(numbers):
        return 1.0
    return max(float(np.max(np.abs(np.asarray(numbers, np.float64)))), 1.0)


KINDS: Mapping[str, Callable[[Arguments, Mapping[str, Any]], float]] = {
    "arange": _arange,
    "bincount": _cost_of_count,
    "broadcast_to": _broadcast_to,
    "convolve": _product,
    "cross": _product,
    "diff": _diff,
    "dot": _dot,
    "einsum": _einsum,
    "eye": _eye,
    "full": _cost_of_fill,
    "histogram": _histogram,
    "linspace": _linspace,
    "matmul": _contraction,
    "ones": _cost_of_fill,
    "outer": _product,
    "pad": _pad,
    "repeat": _repeat,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "tensordot": _product,
    "tile": _tile,
    "tril": _triangle,
    "triu": _triangle,
    "zeros": _cost_of_fill,
}
"""Cost functions of numpy functions whose result may exceed the size of their arguments."""
