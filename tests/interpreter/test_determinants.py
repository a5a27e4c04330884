"""Determinants and inverses of small integer matrices are exact, as on drivers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from xdsl_spirv.interpreter.determinants import determinant, inverse


def exact(matrix: list[list[int]]) -> int:
    """Returns the determinant as a sum over all permutations."""
    total = 0
    for order in permutations(range(len(matrix))):
        swaps = sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])
        product = 1
        for row, column in enumerate(order):
            product *= matrix[row][column]
        total += -product if swaps % 2 else product
    return total


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_determinants_of_integers_are_exact(size: int, dtype: type):
    rng = np.random.default_rng(size)
    matrices = rng.integers(-9, 20, (200, size, size))
    # Half of the matrices are singular: the last row is a linear combination of the others.
    factors = rng.integers(-2, 3, (100, 1, size - 1))
    matrices[:100, -1:] = factors @ matrices[:100, :-1]
    found = determinant(matrices.astype(dtype))
    assert found.dtype == dtype
    expected = [exact(matrix) for matrix in matrices.tolist()]
    assert found.tolist() == expected
    inverses = inverse(matrices.astype(dtype))
    singular = np.array(expected) == 0
    assert np.isnan(inverses[singular]).all()
    products = inverses[~singular] @ matrices[~singular].astype(dtype)
    assert np.allclose(products, np.eye(size), atol=1e-3)
