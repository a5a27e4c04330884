"""
Records each function of `math`: its meaning, its instructions, its error, its bounds.

The interpreter computes the meaning, and `kernel-to-spirv` writes the instructions. `--check`
bounds results by the function's bounds and error. Importing fails if a function has no record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xdsl_spirv.dialects.scalars import meanings, sequences
from xdsl_spirv.dialects.scalars.images import (
    Image,
    Meaning,
    even,
    falling,
    give_nan,
    oscillating,
    rising,
)
from xdsl_spirv.dialects.scalars.meanings import Array
from xdsl_spirv.dialects.scalars.sequences import instruction, test
from xdsl_spirv.dialects.scalars.values import Values
from xdsl_spirv.dialects.spirv import bit, glsl, logic
from xdsl_spirv.upstream.scalar_extensions import IsFiniteOp, IsInfOp, IsNaNOp, RemfOp

Error: TypeAlias = float | Callable[[Array], Array]


@dataclass(frozen=True)
class ScalarFunction:
    """
    The record of an elementwise operation.

    - `meaning`: the function on numpy arrays. The interpreter applies it to binary64 numbers and
      rounds the result, unless every device computes the function exactly.
    - `sequence`: writes the instructions for types of `widths` bits. Narrower operands are extended
      to 32 bits first, and the result is rounded. Wider operands are not supported.
    - `image`: returns bounds of the exact function for bounds of the operands.
    - `ulps`, `absolute`: errors of a device, as numbers or functions of the operand's magnitude.
      `ulps` counts units in the last place of binary32, or of the result type if that is less
      precise.
    """

    op: type[Operation]
    meaning: Meaning
    sequence: sequences.Sequence
    image: Image
    ulps: Error
    absolute: float = 0.0
    widths: tuple[int, ...] = (32,)

    @property
    def is_exact(self) -> bool:
        """True if every device computes the function exactly."""
        return self.ulps == 0 and self.absolute == 0


ANY = (8, 16, 32, 64)
FLOATS = (32, 64)
"""Widths of floats that GLSL.std.450 supports. Its transcendental functions support fewer."""

NEAR_ONE = 2.0**-21
"""The absolute error that Vulkan allows `Log` and `Log2` for operands between 1/2 and 2."""

RECORDS: tuple[ScalarFunction, ...] = (
    ScalarFunction(RemfOp, np.fmod, sequences.remainder, give_nan, inf),
    ScalarFunction(math.AbsFOp, np.abs, Values.magnitude, even, 0, widths=FLOATS),
    ScalarFunction(math.AbsIOp, np.abs, sequences.absolute, give_nan, 0, widths=ANY),
    ScalarFunction(math.AcosOp, np.arccos, sequences.acos, falling, 16),
    ScalarFunction(math.AcoshOp, np.arccosh, sequences.acosh, rising, 16),
    ScalarFunction(math.AsinOp, np.arcsin, sequences.asin, rising, 16),
    ScalarFunction(math.AsinhOp, np.arcsinh, sequences.asinh, rising, 16),
    ScalarFunction(math.Atan2Op, np.arctan2, sequences.atan2, give_nan, 16),
    ScalarFunction(math.AtanOp, np.arctan, sequences.atan, rising, 16),
    ScalarFunction(math.AtanhOp, np.arctanh, sequences.atanh, rising, 16),
    ScalarFunction(math.CbrtOp, np.cbrt, sequences.cbrt, rising, 12),
    ScalarFunction(math.CeilOp, np.ceil, instruction(glsl.GLCeilOp), rising, 0, widths=FLOATS),
    ScalarFunction(math.CopySignOp, np.copysign, sequences.copysign, give_nan, 0),
    ScalarFunction(math.CosOp, np.cos, sequences.cos, oscillating(2.0**13), 1, 2.0**-22),
    ScalarFunction(math.CoshOp, np.cosh, sequences.cosh, even, lambda x: 14 + 3 * x),
    ScalarFunction(
        math.CountLeadingZerosOp, meanings.leading_zeros, sequences.leading_zeros, give_nan, 0
    ),
    ScalarFunction(
        math.CountTrailingZerosOp,
        meanings.trailing_zeros,
        sequences.trailing_zeros,
        give_nan,
        0,
    ),
    ScalarFunction(math.CtPopOp, meanings.count_bits, instruction(bit.BitCountOp), give_nan, 0),
    ScalarFunction(math.ErfOp, meanings.error_function, sequences.erf, rising, 8),
    ScalarFunction(math.Exp2Op, np.exp2, instruction(glsl.GLExp2Op), rising, lambda x: 4 + 2 * x),
    ScalarFunction(math.ExpM1Op, np.expm1, sequences.expm1, rising, lambda x: 10 + 6 * x),
    ScalarFunction(math.ExpOp, np.exp, sequences.exp, rising, lambda x: 4 + 2 * x, widths=FLOATS),
    ScalarFunction(math.FPowIOp, np.power, sequences.power_of_integer, give_nan, inf),
    ScalarFunction(math.FloorOp, np.floor, instruction(glsl.GLFloorOp), rising, 0, widths=FLOATS),
    ScalarFunction(
        math.FmaOp, meanings.fused_multiply_add, Values.fma, give_nan, 0, widths=(16, 32, 64)
    ),
    ScalarFunction(
        math.IPowIOp, meanings.power_integer, sequences.integer_power, give_nan, 0, widths=ANY
    ),
    ScalarFunction(math.Log10Op, np.log10, sequences.log10, rising, 6, NEAR_ONE),
    ScalarFunction(math.Log1pOp, np.log1p, sequences.log1p, rising, 16),
    ScalarFunction(math.Log2Op, np.log2, instruction(glsl.GLLog2Op), rising, 4, NEAR_ONE),
    ScalarFunction(math.LogOp, np.log, sequences.log, rising, 4, NEAR_ONE, widths=FLOATS),
    ScalarFunction(math.PowFOp, np.power, sequences.power, give_nan, inf),
    ScalarFunction(
        math.RoundEvenOp, np.rint, instruction(glsl.GLRoundEvenOp), rising, 0, widths=FLOATS
    ),
    ScalarFunction(math.RoundOp, meanings.round_half_away, sequences.round_half_away, rising, 0),
    ScalarFunction(
        math.RsqrtOp,
        lambda a: 1 / np.sqrt(a),
        instruction(glsl.GLInverseSqrtOp),
        falling,
        3,
        widths=FLOATS,
    ),
    ScalarFunction(math.SinOp, np.sin, sequences.sin, oscillating(2.0**13), 1, 2.0**-22),
    ScalarFunction(math.SinhOp, np.sinh, sequences.sinh, rising, lambda x: 14 + 3 * x),
    ScalarFunction(math.SqrtOp, np.sqrt, instruction(glsl.GLSqrtOp), rising, 4, widths=FLOATS),
    ScalarFunction(math.TanOp, np.tan, sequences.tan, give_nan, inf),
    ScalarFunction(math.TanhOp, np.tanh, sequences.tanh, rising, 8),
    ScalarFunction(math.TruncOp, np.trunc, instruction(glsl.GLTruncOp), rising, 0, widths=FLOATS),
    ScalarFunction(IsNaNOp, np.isnan, test(logic.IsNanOp), give_nan, 0, widths=FLOATS),
    ScalarFunction(IsInfOp, np.isinf, test(logic.IsInfOp), give_nan, 0, widths=FLOATS),
    ScalarFunction(IsFiniteOp, np.isfinite, sequences.is_finite, give_nan, 0, widths=FLOATS),
)

FUNCTIONS = {record.op: record for record in RECORDS}
"""Maps an operation class to the record of its function."""
