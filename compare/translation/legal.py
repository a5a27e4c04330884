"""
Determines the legal results: an interval around the source module's results on the same inputs.

A module without contractions and sums has one legal result, because each operation is rounded
separately and a pass must preserve every rounding. A sum or product of floats may be computed in
any order. A contraction leaves order and precision to the device (CM-25), so its interval is that
of docs/numerics.md. With other operations, the interval is propagated for every element. If the
inputs are integers so small that every partial sum is exact, every order gives the same result, so
the interval is a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compare.bounds import ACCUMULATOR, absolute_errors, bound_of, contractions
from xdsl_spirv.compare.intervals import Intervals, in_any_order, tolerance
from xdsl_spirv.compare.translation.report import Wrong
from xdsl_spirv.compare.translation.subjects import HostSubject, Subject
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.interpreter.numbers import F64, is_float
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError


@dataclass(frozen=True)
class Legal:
    """Legal results: the center and the allowed distance of each element (inf for any value)."""

    centre: dict[str, Array]
    allowed: dict[str, Array]

    def worst(self, results: dict[str, Array]) -> tuple[float, tuple[str, int] | None]:
        """Returns the largest ratio of error to allowed error, and its (result, element index)."""
        share, where = 0.0, None
        for name, centre in self.centre.items():
            shares = _shares(results[name], centre, self.allowed[name]).reshape(-1)
            if shares.size and shares.max() > share:
                share, where = float(shares.max()), (name, int(shares.argmax()))
        return share, where

    def wrong(
        self, results: dict[str, Array], before: dict[str, Array], where: tuple[str, int]
    ) -> Wrong:
        """
        Describes a wrong element of a result for the report. `before` are the results before the
        pass, `where` is the result's name and the element's index.
        """
        name, number = where
        computed, centre = results[name], self.centre[name]
        return Wrong(
            name,
            tuple(map(int, np.unravel_index(number, centre.shape))),
            computed.reshape(-1)[number].item(),
            before[name].reshape(-1)[number].item(),
            centre.reshape(-1)[number].item(),
            float(self.allowed[name].reshape(-1)[number]),
        )


def _shares(result: Array, centre: Array, allowed: Array) -> Array:
    if result.shape != centre.shape:
        return np.full(centre.shape or (1,), np.inf)
    if not is_float(centre.dtype) and not allowed.any():
        return np.where(result == centre, 0.0, np.inf)
    computed, truth = result.astype(F64), centre.astype(F64)
    error = absolute_errors(computed, truth)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where((error == 0) | np.isposinf(allowed), 0.0, error / allowed)
    return np.where(np.isnan(shares), np.inf, shares)


class Judge:
    """Derives the legal results from the module before any pass."""

    def __init__(self, module: ModuleOp, subject: Subject):
        self.module = module.clone()
        self.subject = subject
        self.intervals: Intervals | None = None
        self.contractions: list[Contraction] = []
        try:
            intervals = Intervals(module.clone())
        except PassFailedException:
            # An operation has no decomposition, such as the softmax of integers.
            intervals = None
        if not any(map(_may_reorder, (intervals.module if intervals else module).walk())):
            return
        try:
            self.contractions = contractions(module)
        except ProgramError:
            if intervals is None or not isinstance(subject, HostSubject):
                raise
            self.intervals = intervals

    def legal(self, values: Sequence[Array]) -> Legal:
        """Returns the legal results on inputs. Raises `InterpreterError` if there are none."""
        centre = self.subject.run(self.module, values)
        floats = [name for name, result in centre.items() if is_float(result.dtype)]
        allowed = {name: np.zeros(result.shape) for name, result in centre.items()}
        if self.intervals is not None and isinstance(self.subject, HostSubject):
            intervals = self.intervals.run(self.subject.function, values)
            pairs = zip(centre, intervals, strict=True)
            return Legal(centre, {name: tolerance(x, centre[name]) for name, x in pairs})
        if not self.contractions or not floats:
            return Legal(centre, allowed)
        magnitudes = self.subject.run(self.module, [_magnitude(value) for value in values])
        whole = all(_is_whole_number(value) for value in values)
        for name in floats:
            allowed[name] = self._allowed(centre[name], magnitudes[name], whole)
        return Legal(centre, allowed)

    def _allowed(self, centre: Array, magnitude: Array, whole: bool) -> Array:
        bound = bound_of(self.contractions, static(c.k for c in self.contractions))
        wide, size = centre.astype(F64), magnitude.astype(F64)
        allowed = bound.evaluate(wide, size)
        # A NaN input, or infinity times zero, gives NaN in every order.
        allowed = np.where(np.isnan(size), 0.0, allowed)
        if whole and len(self.contractions) == 1:
            exact = 2.0 ** _digits(self.contractions[0].types[2], centre)
            allowed = np.where(size <= exact, 0.0, allowed)
        return allowed


def _may_reorder(op: Operation) -> bool:
    """True if an operation may choose the order of its sums or products of floats."""
    if isinstance(op, LinalgStructuredOperation):
        return _is_contraction(op) or in_any_order(op)
    return isinstance(op, AttentionOp)


def _is_contraction(op: LinalgStructuredOperation) -> bool:
    try:
        contraction_of(op)
    except NotAContraction:
        return False
    return True


def _digits(type: str, centre: Array) -> int:
    """Returns n such that integers up to 2^n are exact in the accumulators and the result."""
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    accumulator = ml_dtypes.finfo(kinds[ACCUMULATOR.get(type, type)])
    return min(int(accumulator.nmant), int(ml_dtypes.finfo(centre.dtype).nmant)) + 1


def _magnitude(value: Array) -> Array:
    return np.abs(value) if is_float(value.dtype) else value


def _is_whole_number(value: Array) -> bool:
    if not is_float(value.dtype):
        return True
    wide = value.astype(F64)
    return bool(np.all(np.isfinite(wide)) and np.all(wide == np.rint(wide)))
