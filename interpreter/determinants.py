"""
Computes determinants and inverses by cofactors, in the operands' type.

binary16 is computed in binary32, because Khronos' conformance tests allow an error of at most one
unit in the last place. Drivers use the same method (Mesa's `vtn_glsl450.c`), with multiplications
and additions only. The determinant of a singular matrix of small integers is therefore exactly 0,
unlike with LU decomposition.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.interpreter.numbers import F16, F32, Array


def determinant(a: Array) -> Array:
    """Returns the determinants (...) of matrices (..., n, n), for n from 1 to 4."""
    if a.dtype == F16:
        return determinant(a.astype(F32)).astype(F16)
    size = a.shape[-1]
    if size == 1:
        return a[..., 0, 0]
    if size == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if size == 3:
        following, last = (1, 2, 0), (2, 0, 1)
        one = a[..., 0, :] * (a[..., 1, following] * a[..., 2, last])
        other = a[..., 0, :] * (a[..., 1, last] * a[..., 2, following])
        parts = one - other
        return parts[..., 0] + (parts[..., 1] + parts[..., 2])
    x, y, z, w = (a[..., 0, column] * _minor(a, 0, column) for column in range(4))
    return (x - y) + (z - w)


def inverse(a: Array) -> Array:
    """Returns the inverses (..., n, n) of matrices. The inverse is NaN if the determinant is 0."""
    if a.dtype == F16:
        return inverse(a.astype(F32)).astype(F16)
    size = a.shape[-1]
    whole = determinant(a)
    adjugate = np.empty_like(a)
    for row in range(size):
        for column in range(size):
            cofactor = _minor(a, column, row)
            adjugate[..., row, column] = -cofactor if (row + column) % 2 else cofactor
    with np.errstate(divide="ignore"):
        factor = np.where(whole == 0, np.nan, 1 / whole).astype(a.dtype)
    return adjugate * factor[..., None, None]


def _minor(a: Array, row: int, column: int) -> Array:
    return determinant(np.delete(np.delete(a, row, -2), column, -1))
