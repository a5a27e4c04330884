"""Compares buffers with the test's expectations. NaN equals NaN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.tools.kernel_test.arguments import Buffer, Part
from xdsl_spirv.tools.kernel_test.contents import Array, listed, read_npy
from xdsl_spirv.tools.kernel_test.description import Misuse, Tolerance
from xdsl_spirv.tools.kernel_test.expressions import Evaluator

ONE_OF_ARRAY = re.compile(r"(\w+)\[(\d+)\]")
"""Matches the name of a buffer in an array of buffers."""

SHOWN = 5
"""Number of differing elements to list."""


@dataclass(frozen=True)
class Mismatch:
    """
    Differences between a buffer and its expected contents: `count` of `total` elements differ.

    `first` lists some of these elements as (index, actual value, expected value). `worst` is the
    element with the largest error, as (index, actual value, expected value, error).
    """

    label: str
    count: int
    total: int
    first: tuple[tuple[tuple[int, ...], str, str], ...]
    worst: tuple[tuple[int, ...], str, str, str]

    def __str__(self) -> str:
        index, got, want, error = self.worst
        lines = [
            f"{self.label}: {self.count} of {self.total} elements differ from the expected elements"
        ]
        lines += [f"  {_index(i)}: got {g}, want {w}" for i, g, w in self.first]
        if self.count > 1:
            lines.append(
                f"  worst at {_index(index)}: got {got}, expected {want}, difference {error}"
            )
        return "\n".join(lines)


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def names_of(
    buffers: list[Buffer], push: Mapping[str, Any], specialization: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Returns the values that expressions can use by name: initial buffers and constants.

    An ambiguous name has the value None.
    """
    contents: dict[str, Any] = {}
    taken: set[str] = set()
    values = [(name, b.value()) for b in buffers for name in dict.fromkeys((b.name, *b.names))]
    for name, value in (*values, *push.items(), *specialization.items()):
        contents[name] = None if name in taken else value
        taken.add(name)
    return contents | _arrays(contents)


def _arrays(values: Mapping[str, Any]) -> dict[str, dict[int, Any]]:
    """Collects the elements of arrays of buffers (`name[0]`) by name and index."""
    arrays: dict[str, dict[int, Any]] = {}
    for name, value in values.items():
        match = ONE_OF_ARRAY.fullmatch(name)
        if match:
            arrays.setdefault(match[1], {})[int(match[2])] = value
    return arrays


def expected(part: Part, names: Mapping[str, Any], base: Path) -> Array | None:
    """
    Returns the expected value of a buffer or member, broadcast to its shape; None if there is none.

    `names` are the values that an expression may use. File names are relative to `base`.
    """
    want, label = part.contents.expect, f"{part.label}.expect"
    if want is None:
        return None
    if isinstance(want, str) and want.endswith(".npy"):
        array = read_npy(base / want, label)
        if array.dtype.kind == "V":
            array = array.view(part.view(np.zeros(part.end, np.uint8)).dtype)
    elif isinstance(want, str):
        array = Evaluator(names, label).array(want)
    elif isinstance(want, list):
        array = listed(want, part.leaf.scalar, label)
    else:
        array = np.asarray(want)
    if array.dtype.kind not in "biufV" or array.dtype.names:
        raise Misuse(
            f"{label} expects an array of numbers, but got {array.dtype}",
            "",
            "give numbers or booleans",
        )
    if array.ndim and array.size == np.prod(part.shape):
        return array.reshape(part.shape)
    try:
        return np.broadcast_to(array, part.shape)
    except ValueError:
        raise Misuse(
            f"{label} has the shape {array.shape}, but the buffer has {part.shape}",
            "",
            "give as many elements, or a shape that broadcasts to the buffer's",
        ) from None


def compare(label: str, got: Array, want: Array, tolerance: Tolerance) -> Mismatch | None:
    """
    Returns the elements in which two arrays differ by more than the tolerance, or None.

    `label` names the buffer. Raises `Misuse` if the arrays are empty.
    """
    if got.size == 0:
        raise Misuse(f"{label}: there are 0 elements to compare", "", "give a size of at least 1")
    error, right = _errors(got, want, tolerance)
    wrong = np.argwhere(~right)
    if not len(wrong):
        return None

    def shown(index: tuple[int, ...]) -> tuple[tuple[int, ...], str, str]:
        return index, _text(got[index]), _text(want[index])

    first = tuple(shown(tuple(int(n) for n in index)) for index in wrong[:SHOWN])
    beyond = np.where(right, -1.0, np.where(np.isnan(error), np.inf, error))
    worst = tuple(int(n) for n in np.unravel_index(int(np.argmax(beyond)), got.shape))
    return Mismatch(label, len(wrong), got.size, first, (*shown(worst), f"{error[worst]:.6g}"))


def _errors(got: Array, want: Array, tolerance: Tolerance) -> tuple[Array, Array]:
    """Returns the error of each element, and a mask of the elements within the tolerance."""
    if got.dtype.kind in "iu" and want.dtype.kind in "biu":
        # Only Python integers can hold both signed and unsigned 64-bit integers.
        large = got.dtype.itemsize == 8 or want.dtype.itemsize == 8
        kind: Any = object if large and got.dtype.kind != want.dtype.kind else None
        kind = kind or (np.dtype(f"{got.dtype.kind}8") if large else np.int64)
        a, b = got.astype(kind), want.astype(kind)
        right = np.asarray(a == b, bool)
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        distance = tolerance.absolute + tolerance.relative * np.abs(want.astype(np.float64))
        return error, right | (error <= distance) & (distance > 0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        right = (a == b) | (np.isnan(a) & np.isnan(b))
        near = error <= tolerance.absolute + tolerance.relative * np.abs(b)
        right |= near & np.isfinite(b)
        if tolerance.ulp and got.dtype.kind not in "iu":
            right |= _steps(got, want) <= tolerance.ulp
    return error, right


def _steps(got: Array, want: Array) -> Array:
    """Returns the difference of floats in units in the last place."""
    rounded = want.astype(got.dtype)
    size = got.dtype.itemsize
    bits = [np.ascontiguousarray(a).view(f"u{size}").astype(np.uint64) for a in (got, rounded)]
    top = np.uint64(8 * size - 1)
    (sign, a), (other, b) = ((x >> top, x & ((np.uint64(1) << top) - np.uint64(1))) for x in bits)
    steps = np.where(sign == other, np.maximum(a, b) - np.minimum(a, b), a + b)
    finite = np.isfinite(got.astype(np.float64)) & np.isfinite(rounded.astype(np.float64))
    return np.where(finite, steps, np.uint64(2**64 - 1))


def _text(value: Any) -> str:
    number = value.item() if hasattr(value, "item") else value
    return f"{float(number):.9g}" if isinstance(number, float) else str(number)
