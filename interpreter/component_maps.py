"""
Maps components of cooperative matrices to invocations (CM-18).

`row-major`, `column-major` and `opaque` distribute the components round-robin over the
invocations, in row-major, column-major or a pseudo-random order. `lavapipe` and `nvidia` were
measured on those drivers (tests/interpreter/data/component_maps.json). lavapipe (8x8 matrices, 8
invocations) distributes B by columns, A and the accumulator by rows. NVIDIA (32 invocations) gives
each group of four invocations one line of 32-bit words: a row of A or of the accumulator (whose
components are stored in pairs), or a column of B. The subgroup covers eight lines. The pattern
repeats along the lines, then across them.

Maps of other devices are data in `targets/`, with their sources. They map the bits of an
invocation index and a component index to the bits of the component's row and column. On RDNA 3
several invocations store the same component of A and B, so together they store more than rows *
columns. If these invocations insert different values, the value of the first one is used, also by
stores.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from xdsl_spirv import targets
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import RULES, Mapping

NVIDIA_LANES = 32
USES = {
    CooperativeMatrixUse.MatrixAKHR: "A",
    CooperativeMatrixUse.MatrixBKHR: "B",
    CooperativeMatrixUse.MatrixAccumulatorKHR: "Acc",
}


@cache
def fragment(mapping: Mapping, form: CooperativeMatrix, lanes: int) -> Array | None:
    """
    Returns an array with one row for each lane. The row lists the lane's components, each by the
    row-major index of its matrix element.

    Returns None if there is no data for the mapping or for such matrices.
    """
    if mapping in RULES or form.scope != Scope.Subgroup:
        return None
    shape, bits = (form.rows, form.columns, USES[form.use], lanes), form.dtype.itemsize * 8
    for known in targets.load(mapping).component_map:
        if (known.rows, known.columns, known.use, known.lanes) == shape:
            if bits in known.component_bits:
                lane, component = np.array(known.lane.places), np.array(known.component.places)
                return (lane[:, None] + component) @ (form.columns, 1)
    return None


def applies(mapping: Mapping, form: CooperativeMatrix, lanes: int) -> bool:
    """
    True if a mapping supports matrices of this representation for subgroups of `lanes` invocations.
    """
    if mapping not in RULES:
        return fragment(mapping, form, lanes) is not None
    if mapping != "nvidia":
        return True
    lines, length, packed = _nvidia(form)
    return lanes == NVIDIA_LANES and lines % 8 == 0 and length % (4 * packed) == 0


def count(mapping: Mapping, form: CooperativeMatrix, lanes: int) -> int:
    """Returns the number of components that each invocation stores."""
    table = fragment(mapping, form, lanes)
    return -(-form.rows * form.columns // lanes) if table is None else table.shape[1]


def positions(
    mapping: Mapping, form: CooperativeMatrix, lanes: int, lane: Array, index: Array
) -> Array:
    """
    Returns the row-major index of the matrix element that component `index` of invocation `lane`
    stores.

    Raises `InterpreterError` if the mapping does not support the matrix.
    """
    if not applies(mapping, form, lanes):
        raise InterpreterError(
            f"the component mapping {mapping} is not known for {form.rows}x{form.columns} matrices "
            f"({USES[form.use]}, {form.dtype}) of {lanes} invocations",
            remedy="choose another Options.component_mapping",
        )
    table = fragment(mapping, form, lanes)
    if table is not None:
        return table[lane % lanes, index % table.shape[1]]
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
    """Returns the number and length of lines, and the number of adjacent components per lane."""
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
