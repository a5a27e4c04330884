"""
Which invocation holds which component of a cooperative matrix (CM-18).

`row-major`, `column-major` and `opaque` deal the components out to the invocations in turn, in that
order or a pseudo-random one. `lavapipe` and `nvidia` are what those drivers were measured to do
(tests/interpreter/data/component_maps.json): lavapipe (8x8 matrices of 8 invocations) deals B by
columns and others by rows. NVIDIA's (32 invocations) gives four invocations a line of 32-bit words
(a row of A or of the accumulator, a column of B; an accumulator's components stand in pairs), eight
lines to the subgroup, and repeats that along the lines, then across them.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import Mapping

NVIDIA_LANES = 32


def applies(mapping: Mapping, form: CooperativeMatrix, lanes: int) -> bool:
    """Whether a mapping says anything about matrices of a form."""
    if mapping != "nvidia":
        return True
    lines, length, packed = _nvidia(form)
    return lanes == NVIDIA_LANES and lines % 8 == 0 and length % (4 * packed) == 0


def positions(
    mapping: Mapping, form: CooperativeMatrix, lanes: int, lane: Array, index: Array
) -> Array:
    """
    Where component `index` of invocation `lane` lies, counted row by row.

    Raises `InterpreterError` if the mapping is not known for such matrices.
    """
    if not applies(mapping, form, lanes):
        raise InterpreterError(
            f"NVIDIA's component mapping is not known for {form.rows}x{form.columns} matrices of "
            f"{lanes} invocations",
            remedy="choose another Options.component_mapping",
        )
    if mapping == "nvidia":
        return _nvidia_positions(form, lane, index)
    position = index * lanes + lane
    by_columns = mapping == "lavapipe" and form.use == CooperativeMatrixUse.MatrixBKHR
    if mapping == "column-major" or by_columns:
        return position % form.rows * form.columns + position // form.rows
    if mapping == "opaque":
        total = form.rows * form.columns
        return np.random.default_rng(total).permutation(total)[position % total]
    return position


def _nvidia(form: CooperativeMatrix) -> tuple[int, int, int]:
    """Lines, a line's length, and the components that lie side by side in one invocation."""
    if form.use == CooperativeMatrixUse.MatrixBKHR:
        lines, length = form.columns, form.rows
    else:
        lines, length = form.rows, form.columns
    accumulates = form.use == CooperativeMatrixUse.MatrixAccumulatorKHR
    return lines, length, 2 if accumulates else max(1, 4 // form.dtype.itemsize)


def _nvidia_positions(form: CooperativeMatrix, lane: Array, index: Array) -> Array:
    _, length, packed = _nvidia(form)
    blocks = length // (4 * packed)
    along = lane % 4 * packed + index % packed + index // packed % blocks * (4 * packed)
    line = lane // 4 + index // (packed * blocks) * 8
    if form.use == CooperativeMatrixUse.MatrixBKHR:
        return along * form.columns + line
    return line * form.columns + along
