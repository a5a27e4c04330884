"""Executes OpenCL.std in binary64, rounded once, like GLSL.std.450 (glsl.py)."""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv import opencl as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.kernel.math import of_the_same_name
from xdsl_spirv.interpreter.semantics import value_table

value_table(
    {
        **of_the_same_name(ops),
        ops.CLFabsOp: np.abs,
        ops.CLRintOp: ew.wide_math(np.rint),
        ops.CLSAbsOp: np.abs,
        ops.CLFmaxOp: np.fmax,
        ops.CLFminOp: np.fmin,
        ops.CLPowOp: ew.wide_math(np.power),
        ops.CLSMaxOp: np.maximum,
        ops.CLSMinOp: np.minimum,
        ops.CLUMaxOp: ew.on_unsigned(np.maximum),
        ops.CLUMinOp: ew.on_unsigned(np.minimum),
        ops.CLMixOp: ew.wide_math(lambda x, y, a: x + (y - x) * a),
    }
)
