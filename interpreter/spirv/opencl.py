"""
OpenCL.std: as glsl.py, computed in binary64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.scalars import meanings
from xdsl_spirv.dialects.spirv import opencl as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.semantics import value_table

value_table(
    {
        ops.CLAcosOp: ew.wide_math(np.arccos),
        ops.CLAcoshOp: ew.wide_math(np.arccosh),
        ops.CLAsinOp: ew.wide_math(np.arcsin),
        ops.CLAsinhOp: ew.wide_math(np.arcsinh),
        ops.CLAtanOp: ew.wide_math(np.arctan),
        ops.CLAtanhOp: ew.wide_math(np.arctanh),
        ops.CLCeilOp: ew.wide_math(np.ceil),
        ops.CLCosOp: ew.wide_math(np.cos),
        ops.CLCoshOp: ew.wide_math(np.cosh),
        ops.CLErfOp: ew.wide_math(meanings.error_function),
        ops.CLExpOp: ew.wide_math(np.exp),
        ops.CLFabsOp: np.abs,
        ops.CLFloorOp: ew.wide_math(np.floor),
        ops.CLLogOp: ew.wide_math(np.log),
        ops.CLRintOp: ew.wide_math(np.rint),
        ops.CLRoundOp: ew.wide_math(meanings.round_half_away),
        ops.CLRsqrtOp: ew.wide_math(lambda a: 1 / np.sqrt(a)),
        ops.CLSinOp: ew.wide_math(np.sin),
        ops.CLSinhOp: ew.wide_math(np.sinh),
        ops.CLSqrtOp: np.sqrt,
        ops.CLTanOp: ew.wide_math(np.tan),
        ops.CLTanhOp: ew.wide_math(np.tanh),
        ops.CLSAbsOp: np.abs,
        ops.CLAtan2Op: ew.wide_math(np.arctan2),
        ops.CLFmaxOp: np.fmax,
        ops.CLFminOp: np.fmin,
        ops.CLPowOp: ew.wide_math(np.power),
        ops.CLSMaxOp: np.maximum,
        ops.CLSMinOp: np.minimum,
        ops.CLUMaxOp: ew.on_unsigned(np.maximum),
        ops.CLUMinOp: ew.on_unsigned(np.minimum),
        ops.CLFmaOp: meanings.fused_multiply_add,
        ops.CLMixOp: ew.wide_math(lambda x, y, a: x + (y - x) * a),
    }
)
