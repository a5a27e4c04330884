"""Results must be exact, or within a tolerance if one is given."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.tools.kernel_test.comparing import compare
from xdsl_spirv.tools.kernel_test.description import Misuse, Tolerance

EXACT = Tolerance()


def test_equal_arrays_have_no_mismatch():
    got = np.array([1.0, -0.0, np.nan, np.inf], np.float32)
    assert compare("y", got, np.array([1.0, 0.0, np.nan, np.inf]), EXACT) is None


def test_a_mismatch_says_how_many_which_and_the_worst():
    got = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    mismatch = compare("y", got, np.array([[1, 0, 3], [4, 5, 9]]), EXACT)
    assert mismatch is not None
    assert (mismatch.count, mismatch.total) == (2, 6)
    assert mismatch.first == (((0, 1), "2", "0"), ((1, 2), "6", "9"))
    assert mismatch.worst == ((1, 2), "6", "9", "3")
    assert "y: 2 of 6 elements differ" in str(mismatch)
    assert "[1, 2]: got 6, expected 9" in str(mismatch)


def test_nan_is_the_worst_and_never_near():
    got = np.array([np.nan, 1.0], np.float32)
    mismatch = compare("y", got, np.array([1.0, 2.0]), Tolerance(absolute=0.5))
    assert mismatch is not None
    assert mismatch.count == 2
    assert mismatch.worst[0] == (0,)


def test_an_infinity_is_not_near_a_number():
    got = np.array([np.inf, 3e38], np.float32)
    want = np.array([3e38, np.inf])
    mismatch = compare("y", got, want, Tolerance(absolute=1.0, relative=1e30, ulp=10))
    assert mismatch is not None
    assert mismatch.count == 2


@pytest.mark.parametrize(
    ("tolerance", "right"),
    [
        (Tolerance(), False),
        (Tolerance(absolute=1e-3), True),
        (Tolerance(absolute=1e-9), False),
        (Tolerance(relative=1e-6), True),
        (Tolerance(relative=1e-8), False),
        (Tolerance(ulp=1), True),
    ],
)
def test_results_within_a_tolerance_are_accepted(tolerance: Tolerance, right: bool):
    got = np.array([np.nextafter(np.float32(100), np.float32(200))], np.float32)
    assert (compare("y", got, np.array([100.0]), tolerance) is None) == right


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=str)
def test_units_in_the_last_place_are_those_of_the_buffer(dtype: DTypeLike):
    one = np.array([1], dtype)
    step = one.view(f"u{one.itemsize}")
    two_up = (step + 2).view(dtype)
    assert compare("y", two_up, one, Tolerance(ulp=2)) is None
    assert compare("y", two_up, one, Tolerance(ulp=1)) is not None


def test_units_in_the_last_place_across_zero():
    least = np.array([1], np.uint32).view(np.float32)
    assert compare("y", -least, least, Tolerance(ulp=2)) is None
    assert compare("y", -least, least, Tolerance(ulp=1)) is not None


def test_large_integers_are_compared_exactly():
    got = np.array([2**64 - 1, 2**53 + 1], np.uint64)
    assert compare("y", got, np.array([2**64 - 1, 2**53 + 1], np.uint64), EXACT) is None
    assert compare("y", got, np.array([2**64 - 1, 2**53], np.uint64), EXACT) is not None
    signed = np.array([-1], np.int64)
    assert compare("y", np.array([2**64 - 1], np.uint64), signed, EXACT) is not None


def test_integers_may_have_a_tolerance():
    got = np.array([10, 12], np.int8)
    assert compare("y", got, np.array([11, 11]), Tolerance(absolute=1)) is None
    assert compare("y", got, np.array([11, 10]), Tolerance(absolute=1)) is not None


def test_a_fraction_is_not_an_integer():
    assert compare("y", np.array([2], np.int32), np.array([2.5]), EXACT) is not None


def test_nothing_to_compare_is_an_error():
    with pytest.raises(Misuse, match="0 elements"):
        compare("y", np.zeros(0, np.float32), np.zeros(0), EXACT)
