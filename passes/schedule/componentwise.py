"""
Which epilogues whole fragments can compute: arithmetic and conversions, operands loaded alike.

Cooperative matrices of one type hold their components in the same places, whatever those are, so
what needs no position is done on the matrices themselves (CM-19, CM-26). A row of a bias is a load
with stride 0 (CM-12), a column the same in the other layout. Everything else goes element by
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, tensor
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes.graph.pointwise import body_ops
from xdsl_spirv.passes.schedule.contraction import Contraction, type_name
from xdsl_spirv.passes.schedule.epilogue import Placed, definition, operand_of
from xdsl_spirv.passes.schedule.layout import Layout
from xdsl_spirv.targets import Target

ON_MATRICES: tuple[type[Operation], ...] = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.NegfOp,
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.SIToFPOp,
)
"""Operations that have a form on cooperative matrices."""


@dataclass(frozen=True)
class MatrixAccess:
    """How a fragment lies in memory: by rows or by columns, so many elements apart."""

    by_rows: bool
    stride: int


def matrix_access(layout: Layout) -> MatrixAccess | None:
    """How fragments of a result's layout are loaded and stored; None if they cannot be."""
    _, rows, columns = layout.walks
    if len(rows) > 1 or len(columns) > 1:
        return None
    down = rows[0].stride if rows else 0
    along = columns[0].stride if columns else 0
    if along == 1:
        return MatrixAccess(True, down)
    return MatrixAccess(False, along) if down == 1 else None


def is_componentwise(contraction: Contraction, sizes: tuple[int, int, int], target: Target) -> bool:
    """Whether the epilogue can be computed on fragments of these sizes wherever they lie."""
    epilogue = contraction.epilogue
    m, n, _ = sizes
    names = {p.result for p in target.cooperative_matrix if p.shape[:2] == (m, n)}

    def has_matrices(type: Attribute) -> bool:
        return bool(names & {type_name(type, True), type_name(type, False)})

    def aligned(placed: Placed, stored: bool) -> bool:
        layout = contraction.layout_of_result(placed.map, placed.shape)
        access = matrix_access(layout)
        if access is None or (stored and access.stride == 0):
            return False
        size = bit_width(placed.element_type) // 8
        minor = n if access.by_rows else m
        needed = min(target.cooperative_matrix_alignment, minor * size)
        steps = [access.stride, layout.start, *(axis.stride for axis in layout.walks[0])]
        return minor * size % needed == 0 and all(step * size % needed == 0 for step in steps)

    values = _values(epilogue.results, epilogue.root)
    return (
        values is not None
        and all(has_matrices(each.element_type) for each in values)
        and all(aligned(each, True) for each in epilogue.results)
        and all(aligned(each, False) for each in epilogue.operands)
    )


def _values(results: Sequence[Placed], root: Placed) -> list[Placed] | None:
    """Every value of an epilogue, or None if one of them has no form on matrices."""
    found: list[Placed] = []
    waiting = list(results)
    while waiting:
        placed = waiting.pop()
        found.append(placed)
        op = definition(placed.value)
        if placed.value is root.value or op is None:
            continue
        if isinstance(op, linalg.ops.FillOp | tensor.SplatOp):
            continue
        if not isinstance(op, linalg.ops.GenericOp):
            return None
        allowed = (*ON_MATRICES, arith.ConstantOp)
        if not all(isinstance(each, allowed) for each in body_ops(op.body.block)):
            return None
        waiting += [operand_of(placed, op, number) for number in range(len(op.inputs))]
    return found
