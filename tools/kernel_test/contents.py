"""
Makes the initial or expected arrays of buffers from patterns, numbers, lists or `.npy` files.

Numbers outside the type's range are errors, except that `range` wraps in narrow integers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.tools.kernel_test.constants import checked, dtype
from xdsl_spirv.tools.kernel_test.description import Contents, Given, Misuse

Array = np.ndarray[Any, np.dtype[Any]]


def make(contents: Contents, scalar: str, shape: tuple[int, ...], where: str, base: Path) -> Array:
    """
    Makes the array that `contents` describes, of type `scalar`. `where` names it in errors.

    Raises `Misuse` for an unsuitable description.
    """
    content, count, kind = contents.content, math.prod(shape), dtype(scalar)
    match content:
        case None:
            raise Misuse(
                f"{where} has no content", "", 'write content = "zeros", "random", "range", ...'
            )
        case "zeros":
            return np.zeros(shape, kind)
        case "ones":
            return np.ones(shape, kind)
        case "range":
            return np.arange(count).astype(kind).reshape(shape)
        case "random":
            return _random(contents, scalar, shape, where)
        case str():
            return fit(read_npy(base / content, where), scalar, shape, where)
        case list():
            return fit(listed(content, scalar, where), scalar, shape, where)
        case _:
            return np.full(shape, checked(content, scalar, where), kind)


def _random(contents: Contents, scalar: str, shape: tuple[int, ...], where: str) -> Array:
    generator = np.random.default_rng(contents.seed)
    low, high = contents.low, contents.high
    if scalar.startswith(("f", "b")):
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
        _refuse_empty(low, high, where)
        return generator.uniform(low, high, shape).astype(dtype(scalar))
    least, most = (-8 if scalar.startswith("i") else 0), 7
    bounds = [least if low is None else low, most if high is None else high]
    first, last = (checked(int(b) if b == int(b) else b, scalar, where) for b in bounds)
    _refuse_empty(first, last, where)
    return generator.integers(first, last, shape, dtype(scalar), endpoint=True)


def _refuse_empty(low: float, high: float, where: str) -> None:
    if low > high:
        raise Misuse(f"{where}: low is {low}, but high is only {high}", "", "exchange them")


def listed(content: list[Given], scalar: str, where: str) -> Array:
    """Returns nested lists of numbers as an array. Raises `Misuse` for numbers out of range."""
    try:
        shape = np.array(content, dtype=object).shape
    except ValueError:
        shape = None
    flat: list[Any] = []
    _flatten(content, scalar, where, flat)
    if shape is None or math.prod(shape) != len(flat):
        raise Misuse(
            f"{where}: the rows of the list differ in length", "", "give rows of equal length"
        )
    return np.array(flat, dtype(scalar)).reshape(shape)


def _flatten(content: list[Given], scalar: str, where: str, flat: list[Any]) -> None:
    for one in content:
        if isinstance(one, list):
            _flatten(one, scalar, where, flat)  # pyright: ignore
        else:
            flat.append(checked(one, scalar, f"{where}, element {len(flat)},"))


def read_npy(path: Path, where: str) -> Array:
    """Reads the array of a `.npy` file."""
    from xdsl_spirv.runtime.errors import ProgramError
    from xdsl_spirv.tools.arrays import read_array

    if path.exists() and not path.is_file():
        raise Misuse(f"{where}: {path} is not a file", "", "name a .npy file")
    try:
        return read_array(str(path))
    except ProgramError as error:
        raise Misuse(f"{where}: {error.cause}", error.place, error.remedy) from error


def fit(array: Array, scalar: str, shape: tuple[int, ...], where: str) -> Array:
    """
    Converts an array to the type `scalar` and a shape. Raises `Misuse` if the array does not fit.
    """
    from xdsl_spirv.runtime.elements import as_element_type
    from xdsl_spirv.tools.kernel_test.description import ELEMENT_TYPES

    seen = as_element_type(array, ELEMENT_TYPES[scalar])
    if seen is None:
        raise Misuse(
            f"{where}: the array has type {array.dtype}, but must have {scalar}",
            "",
            f"convert it to {scalar} before it is saved",
        )
    if seen.size != math.prod(shape) or (seen.ndim > 1 and len(shape) > 1 and seen.shape != shape):
        raise Misuse(
            f"{where}: the array has shape {array.shape}, but must have {shape}", "",
            "change the array or the size",
        )  # fmt: skip
    return seen.reshape(shape)
