"""
Derives error bounds of contractions, and compares results with them.

For a contraction over K with accumulators of unit roundoff u,

    |result - reference| <= (K + 1) u (|A| |B| + |C|) + v |reference| + (2 K + 1) s

element by element. v is the result type's unit roundoff, and s the spacing of the accumulators'
subnormal numbers. Integers are exact. The factors of consecutive contractions are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, ReduceOp
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.runtime.elements import Array, count_not_finite
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.upstream.linalg_packing import OfOneTensor
from xdsl_spirv.upstream.scalar_extensions import element_of

ACCUMULATOR = {"bf16": "f32"}
"""
Maps a result type to the type of its accumulator. Results of any other type are accumulated in
their own type.
"""


@dataclass(frozen=True)
class Comparison:
    """Comparison of a result with the reference. `share` is the largest ratio of error to bound."""

    name: str
    max_abs: float
    max_rel: float
    share: float
    bound: float
    not_finite: int = 0
    """Number of elements that are NaN or infinite."""
    unbounded: int = 0
    """Number of elements for which any result is legal, so that they are not compared."""
    wide: int = 0
    """Number of elements whose finite bound is at least `largest`, so that they can hardly fail."""
    largest: float = 0.0
    """The largest absolute value of the finite expected results."""
    place: tuple[int, ...] = ()
    """Index of the element with the largest ratio of error to bound."""

    @property
    def passed(self) -> bool:
        return self.share <= 1

    def __str__(self) -> str:
        verdict = "within" if self.passed else "BEYOND"
        any_passes = f"; NO BOUND: any result of {self.unbounded} elements passes"
        wide = (
            f"; WIDE BOUND: {self.wide} elements may be off by the largest expected result, "
            f"{self.largest:.3g}, or more"
        )
        return (
            f"{self.name}: max abs error {self.max_abs:.3g}, max rel error {self.max_rel:.3g}, "
            f"{verdict} the bound ({self.share:.2%} of {self.bound:.3g}){warning(self.not_finite)}"
            f"{any_passes if self.unbounded else ''}{wide if self.wide else ''}"
        )


def warning(not_finite: int) -> str:
    """
    Returns a warning about NaN or infinite elements, to be appended to a line. Returns "" if there
    are none.
    """
    return f"; NOT FINITE: {not_finite} elements are NaN or infinite" if not_finite else ""


@dataclass(frozen=True)
class Bound:
    """
    The error bound factor * magnitude + v * |reference| + absolute.

    The magnitude is the result of the computation on absolute values.
    """

    factor: float
    v: float
    absolute: float
    largest: float
    """Magnitude up to which the bound is valid. Beyond, an accumulator may have overflowed."""

    def evaluate(self, expected: Array, magnitude: Array) -> Array:
        """
        Returns the bound of each element. `magnitude` is the result of the computation on absolute
        values.
        """
        rounding = self.v * np.where(np.isfinite(expected), np.abs(expected), 0)
        bound = self.factor * magnitude + rounding + self.absolute
        return np.where(magnitude < self.largest, bound, np.inf)


EXACT = Bound(0.0, 0.0, 0.0, np.inf)


def unit_roundoff(info: Any) -> float:
    """Returns the largest relative error of one operation that rounds to nearest or toward zero."""
    return float(info.eps)


def contraction_bound(k: int, result: str) -> Bound:
    """Returns the bound of a contraction over `k` products with a result of type `result`."""
    if result[0] in "su":
        return EXACT
    info, out = _float_info(ACCUMULATOR.get(result, result)), _float_info(result)
    return Bound(
        factor=(k + 1) * unit_roundoff(info),
        v=unit_roundoff(out),
        absolute=(2 * k + 1) * float(info.smallest_subnormal),
        largest=float(info.max),
    )


def _float_info(name: str) -> Any:
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
    return ml_dtypes.finfo(kinds[name])


def contractions(function: Operation) -> list[Contraction]:
    """
    Returns every floating-point contraction in a function or module.

    Operations on integers are exact and are left out. Raises `ProgramError` for any other `linalg`
    operation on floats, since no error bound of it is known.
    """
    contractions: list[Contraction] = []
    for op in function.walk():
        if isinstance(op.parent_op(), LinalgStructuredOperation) or isinstance(op, FillOp):
            continue
        if not isinstance(op, LinalgStructuredOperation):
            if _needs_intervals(op):
                raise ProgramError(f"{op.name} has no single error bound", place(op))
            continue
        try:
            contractions.append(contraction_of(op))
        except NotAContraction as error:
            if not _has_floats(op):
                continue
            raise ProgramError(f"no error bound is known: {error}", place(op)) from error
    return contractions


def _needs_intervals(op: Operation) -> bool:
    """
    True if `contraction_bound` does not hold for an operation, so that intervals are needed.

    This is the case for computations on floats outside of contractions, for operations that contain
    several contractions, and for float constants with negative elements.
    """
    if not any(isinstance(element_of(value.type), AnyFloat) for value in op.results):
        return False
    if isinstance(op, ConstantOp):
        return not np.all(attribute_array(op.value) >= 0)
    computes = op.name.partition(".")[0] in ("arith", "math", "scf")
    return computes or isinstance(op, AttentionOp | OfOneTensor | ReduceOp)


def _has_floats(op: Operation) -> bool:
    return any(isinstance(arg.type, AnyFloat) for inner in op.walk() for arg in _values(inner))


def _values(op: Operation) -> list[SSAValue]:
    return [*op.results, *(arg for region in op.regions for arg in region.block.args)]


def sum_bounds(bounds: list[Bound]) -> Bound:
    """Adds up the relative errors of consecutive contractions, to first order."""
    if not bounds:
        return EXACT
    return Bound(
        factor=sum(b.factor + b.v for b in bounds[:-1]) + bounds[-1].factor,
        v=bounds[-1].v,
        absolute=sum(b.absolute for b in bounds),
        largest=min(b.largest for b in bounds),
    )


def bound_of(contractions: Sequence[Contraction], depths: Sequence[int]) -> Bound:
    """Returns the bound of consecutive contractions over `depths` products."""
    types = [contraction.types[2] for contraction in contractions]
    return sum_bounds(list(map(contraction_bound, depths, types)))


def compare(
    name: str, result: Array, expected: Array, magnitude: Array, bound: Bound
) -> Comparison:
    """
    Compares a result with its reference. `bound` and `magnitude` give the bound of each element
    (see `Bound`).
    """
    if result.dtype.kind in "biu":
        allowed = np.zeros(result.shape)
    else:
        allowed = bound.evaluate(expected.astype(np.float64), magnitude.astype(np.float64))
    return compare_result(name, result, expected, allowed)


def compare_result(name: str, result: Array, expected: Array, allowed: Array) -> Comparison:
    """Compares a result with its reference. `allowed` is the maximum error of each element."""
    if result.dtype.kind in "biu":
        kind = "u" if expected.dtype.kind == "u" else "i"
        wide = [x.view(f"{kind}{x.dtype.itemsize}").astype(object) for x in (result, expected)]
        error = np.asarray(np.abs(wide[0] - wide[1]), np.float64)
        truth = np.asarray(np.abs(wide[1]), np.float64)
    else:
        computed, truth = result.astype(np.float64), expected.astype(np.float64)
        error = absolute_errors(computed, truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, np.where(np.isinf(allowed), 0.0, error / allowed))
        relative = np.where(error == 0, 0.0, error / np.abs(truth))
    if result.size == 0:
        return Comparison(name, 0.0, 0.0, 0.0, 0.0)
    worst = int(np.argmax(share)) if share.max() > 0 else int(np.argmax(error))
    unbounded, size = np.isinf(allowed), np.abs(truth)
    largest = float(size[np.isfinite(size)].max(initial=0.0))
    return Comparison(
        name,
        float(error.max()),
        float(relative[np.abs(truth) > 0].max(initial=0.0)),
        float(share.max()),
        float(allowed.flat[worst]),
        count_not_finite(result),
        int(unbounded.sum()),
        int((~unbounded & (allowed >= largest)).sum()) if largest else 0,
        largest,
        tuple(int(index) for index in np.unravel_index(worst, result.shape)),
    )


def absolute_errors(computed: Array, truth: Array) -> Array:
    """
    Returns the errors of `computed`: 0 for equal infinities and for two NaN, infinite if only one
    of the two numbers is NaN.
    """
    same = (computed == truth) | (np.isnan(computed) & np.isnan(truth))
    with np.errstate(invalid="ignore"):
        error = np.abs(computed - truth)
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
