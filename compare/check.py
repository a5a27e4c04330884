"""
Whether a program's results are as close to the reference as its types allow.

The reference is the source module, evaluated in binary64 and rounded once. What a device may differ
by is derived, not tuned: docs/numerics.md. For a contraction over K with accumulators of unit
roundoff u,

    |result - reference| <= (K + 1) u (|A| |B| + |C|) + v |reference| + (2 K + 1) s

element by element, v being the result type's unit roundoff and s the spacing of the accumulators'
subnormal numbers. Integers are exact. Contractions that follow one another add up their factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.program import states_of
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.interpreter import reference
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import bind_inputs
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program

ACCUMULATOR = {"bf16": "f32"}
"""What a result's type is accumulated in where that is another type (BF-08)."""


@dataclass(frozen=True)
class Comparison:
    """A result against the reference; `share` is the largest error as a part of its bound."""

    name: str
    max_abs: float
    max_rel: float
    share: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.share <= 1

    def __str__(self) -> str:
        verdict = "within" if self.passed else "BEYOND"
        return (
            f"{self.name}: max abs error {self.max_abs:.3g}, max rel error {self.max_rel:.3g}, "
            f"{verdict} the bound ({self.share:.2%} of {self.bound:.3g})"
        )


@dataclass(frozen=True)
class Bound:
    """|error| <= factor * (the computation on absolute values) + v * |reference| + absolute."""

    factor: float
    v: float
    absolute: float
    largest: float
    """Beyond this an accumulator may have overflowed, and anything may come of it."""

    def evaluate(self, expected: Array, magnitude: Array) -> Array:
        """The bound of each element; `magnitude` is the computation on absolute values."""
        rounding = self.v * np.where(np.isfinite(expected), np.abs(expected), 0)
        bound = self.factor * magnitude + rounding + self.absolute
        return np.where(magnitude < self.largest, bound, np.inf)


EXACT = Bound(0.0, 0.0, 0.0, np.inf)


def unit_roundoff(info: Any) -> float:
    """The largest relative error of one operation, whether it rounds to nearest or toward zero."""
    return float(info.eps)


def contraction_bound(k: int, result: str) -> Bound:
    """The bound of a contraction over `k` products with a result of the type `result` (`f32`)."""
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


@stage("computing the reference")
def check(
    program: Program,
    inputs: Mapping[str, Array],
    results: Mapping[str, Array],
    states: Mapping[str, Array] | None = None,
) -> list[Comparison]:
    """
    Compare `results` of a program with its source on the same inputs.

    `states` are what its states held before it ran, their first values if none are given.

    Raises `ProgramError` if the program holds no source, or one that no bound is known for.
    """
    if program.source is None:
        raise ProgramError("the program holds no source to compare with", "program.json")
    manifest = program.manifest
    module = parse_text(program.source, manifest.source or "source", context())
    values = bind_inputs(program, inputs) | program.weights
    values |= program.first_values() if states is None else states
    arguments = [values[name] for name in manifest.arguments]
    return check_module(module, manifest.function, arguments, manifest.results, results)


def check_module(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    names: Sequence[str],
    results: Mapping[str, Array],
) -> list[Comparison]:
    """Compare `results`, `names` in order, with a function of a module; raises as `check` does."""
    expected = reference(module, arguments, function)
    host = host_function(module, function)
    kept = set(states_of(host).values())
    outputs = [number for number in range(len(expected)) if number not in kept]
    expected = [expected[number] for number in outputs]
    try:
        multiplied = contractions(host)
        depths = [limit.k for limit in multiplied if isinstance(limit.k, int)]
        if len(depths) != len(multiplied):
            raise ProgramError("the depth of a contraction is known only when it runs", "")
    except ProgramError:
        # Not contractions only: intervals are wider, but take everything that is fused to one.
        from xdsl_spirv.compare.intervals import tolerances

        allowed = tolerances(module, function, arguments, expected, outputs)
        return [
            compared(name, results[name], centre, limit)
            for name, centre, limit in zip(names, expected, allowed, strict=True)
        ]
    magnitudes = reference(module, [np.abs(a) for a in arguments], function)
    magnitudes = [magnitudes[number] for number in outputs]
    types = [contraction.types[2] for contraction in multiplied]
    bound = chained(list(map(contraction_bound, depths, types)))
    return [
        compare(name, results[name], reference_result, magnitude, bound)
        for name, reference_result, magnitude in zip(names, expected, magnitudes, strict=True)
    ]


def contractions(function: Operation) -> list[Contraction]:
    """
    Every contraction in a function or module.

    What else computes integers of integers is exact, and left out. Raises `ProgramError` for an
    operation of `linalg` that is none and for which no bound is known.
    """
    contractions: list[Contraction] = []
    for op in function.walk():
        if isinstance(op, AttentionOp):
            raise ProgramError("an attention has an interval, not a contraction's bound", place(op))
        if not isinstance(op, LinalgStructuredOperation) or isinstance(op, FillOp):
            continue
        try:
            contractions.append(contraction_of(op))
        except NotAContraction as error:
            if not _has_floats(op):
                continue
            raise ProgramError(f"no error bound is known: {error}", place(op)) from error
    return contractions


def _has_floats(op: LinalgStructuredOperation) -> bool:
    return any(isinstance(arg.type, AnyFloat) for inner in op.walk() for arg in _values(inner))


def _values(op: Operation) -> list[SSAValue]:
    return [*op.results, *(arg for region in op.regions for arg in region.block.args)]


def chained(bounds: list[Bound]) -> Bound:
    """To first order, relative errors of consecutive contractions add up."""
    if not bounds:
        return EXACT
    return Bound(
        factor=sum(b.factor + b.v for b in bounds[:-1]) + bounds[-1].factor,
        v=bounds[-1].v,
        absolute=sum(b.absolute for b in bounds),
        largest=min(b.largest for b in bounds),
    )


def compare(
    name: str, result: Array, expected: Array, magnitude: Array, bound: Bound
) -> Comparison:
    """One result against its reference, with the bound of each element."""
    if result.dtype.kind in "biu":
        allowed = np.zeros(result.shape)
    else:
        allowed = bound.evaluate(expected.astype(np.float64), magnitude.astype(np.float64))
    return compared(name, result, expected, allowed)


def compared(name: str, result: Array, expected: Array, allowed: Array) -> Comparison:
    """One result against its reference; `allowed` is how far off each element may be."""
    if result.dtype.kind in "biu":
        wide = [x.view(f"i{x.dtype.itemsize}").astype(object) for x in (result, expected)]
        error = np.asarray(np.abs(wide[0] - wide[1]), np.float64)
        truth = np.asarray(np.abs(wide[1]), np.float64)
    else:
        computed, truth = result.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(computed - truth)
        same = (computed == truth) | (np.isnan(computed) & np.isnan(truth))
        error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, np.where(np.isinf(allowed), 0.0, error / allowed))
        relative = np.where(error == 0, 0.0, error / np.abs(truth))
    if result.size == 0:
        return Comparison(name, 0.0, 0.0, 0.0, 0.0)
    worst = int(np.argmax(share)) if share.max() > 0 else int(np.argmax(error))
    return Comparison(
        name,
        float(error.max()),
        float(relative[np.abs(truth) > 0].max(initial=0.0)),
        float(share.max()),
        float(allowed.flat[worst]),
    )
