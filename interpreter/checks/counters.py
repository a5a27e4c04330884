"""Counts the results of each instruction that saturated, wrapped, or are not normal numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import arithmetic, cooperative_matrix, dot_product
from xdsl_spirv.dialects.spirv.dot_product import DotSignedness
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixOperands
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Report
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Form, Mask, Plain, spread
from xdsl_spirv.interpreter.numbers import Array, DType, is_float

Counter = Callable[[Sequence[Any], Any], dict[str, Array]]

_EXACT: dict[type[Operation], Callable[..., Any]] = {
    arithmetic.IAddOp: np.add,
    arithmetic.ISubOp: np.subtract,
    arithmetic.IMulOp: np.multiply,
}


class Counters:
    """Counts special results of instructions (saturated, infinite, NaN, ...) in a report."""

    def __init__(self, report: Report):
        self.report = report

    def stage(self, op: Operation, form: Form) -> Counter | None:
        """
        Returns a function that classifies an operation's results. Returns None if they are not
        counted.
        """
        if not isinstance(form, Plain | CooperativeMatrix):
            return None
        if isinstance(op, dot_product.DotAccumulateOperation):
            sign = op.SIGNEDNESS != DotSignedness.UNSIGNED
            return lambda operands, result: {"saturated": _at_limits(result, form.dtype, sign)}
        if isinstance(op, cooperative_matrix.CooperativeMatrixMulAddOp) and not is_float(
            form.dtype
        ):
            bits = 0 if op.matrix_operands is None else op.matrix_operands.data
            if bits & CooperativeMatrixOperands.SaturatingAccumulationKHR:
                sign = bool(bits & CooperativeMatrixOperands.MatrixResultSignedComponentsKHR)
                return lambda operands, result: {"saturated": _at_limits(result, form.dtype, sign)}
            return None
        exact = _EXACT.get(type(op))
        if exact is not None:
            return lambda operands, result: {"wrapped": _count_wrapped(exact, operands, result)}
        return _floats(form) if is_float(form.dtype) else None

    def count(self, op: Operation, form: Form, mask: Mask, classes: dict[str, Array]) -> None:
        """Adds the components in active lanes to the operation's counters."""
        for what, where in classes.items():
            if mask is not None:
                where = where & spread(mask, form)
            number = int(np.count_nonzero(where))
            if number:
                counts = self.report.counters.setdefault(places.text_of(op), {})
                counts[what] = counts.get(what, 0) + number


def _at_limits(result: Array, dtype: DType, sign: bool) -> Array:
    """
    Returns a mask of results that are the minimum or maximum of their type, as saturated results
    are.
    """
    limits = np.iinfo(dtype)
    return (result == limits.min) | (result == limits.max) if sign else result == -1


def _count_wrapped(exact: Callable[..., Any], operands: Sequence[Array], result: Array) -> Array:
    wide = exact(*[operand.astype(np.float64) for operand in operands])
    return np.abs(wide - result.astype(np.float64)) > np.abs(wide) * 1e-9 + 0.5


def _floats(form: Plain | CooperativeMatrix) -> Counter:
    def count(operands: Sequence[Any], result: Any) -> dict[str, Array]:
        wide = result.astype(np.float64)
        before = [x.astype(np.float64) for x in operands if getattr(x, "dtype", None) is not None]
        finite = all(bool(np.isfinite(x).all()) for x in before)
        tiny = _smallest_normal(form.dtype)
        classes = {"subnormal": (wide != 0) & (np.abs(wide) < tiny)}
        if finite:
            classes["infinite"], classes["NaN"] = np.isinf(wide), np.isnan(wide)
        return classes

    return count


def _smallest_normal(dtype: DType) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).smallest_normal)
