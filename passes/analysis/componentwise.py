"""
Finds epilogues that whole fragments can compute: operations that need no position, with operands
loaded alike.

Cooperative matrices of one type hold their components in the same places, which the device chooses.
Arithmetic and conversions are instructions on the matrices themselves (CM-19, CM-26); any other
function is computed on each invocation's components in registers, where the target says how many
there are. Matrices of two types may hold them in different places (CM-18): between them stands a
conversion of the matrix. A row of a bias is a load with stride 0 (CM-12), a column the same in the
other layout. Everything else goes element by element through Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.contraction import Contraction, type_name
from xdsl_spirv.passes.analysis.epilogue import Placed, definition, operand_of
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.pointwise import body_ops
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


CONVERSIONS = (arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp)
"""The conversions among them, which give a matrix of another type."""

MOST_INSTRUCTIONS = 256
"""
Most instructions of an operation on all components of a fragment; longer code goes through a loop.
"""

OF_A_FUNCTION = 16
"""Rough number of instructions of a function of `math`."""


@dataclass(frozen=True)
class Home:
    """
    Says how a kernel holds a value of an epilogue's body while it computes a fragment.

    `matrix` is the element type of the matrix that holds the value, None for a constant. If
    `spread`, the value is held as single components, in the places that such a matrix has.
    """

    matrix: Attribute | None
    spread: bool = False


def homes(op: linalg.ops.GenericOp) -> dict[SSAValue, Home] | None:
    """
    Returns how each value of a body is held; None if components of two types would have to be
    combined.
    """
    block = op.body.block
    homes_by_value: dict[SSAValue, Home] = {
        argument: Home(argument.type) for argument in block.args[: len(op.inputs)]
    }
    for body_op in body_ops(block):
        if isinstance(body_op, arith.ConstantOp):
            continue
        if body_op.name.partition(".")[0] not in ("arith", "math") or len(body_op.results) != 1:
            return None
        operands = [homes_by_value.get(value, Home(None)) for value in body_op.operands]
        (result,) = body_op.results
        whole = [home for home in operands if home.matrix is not None]
        if isinstance(body_op, CONVERSIONS) and len(whole) == 1:
            if body_op.operands[0].type != whole[0].matrix:
                return None
            homes_by_value[result] = Home(result.type)
        elif isinstance(body_op, ON_MATRICES) and not any(home.spread for home in whole):
            homes_by_value[result] = Home(result.type if whole else None)
        elif len({home.matrix for home in whole}) > 1:
            return None
        else:
            homes_by_value[result] = Home(whole[0].matrix if whole else None, True)
    (value,) = yields_of(block)
    home = homes_by_value.get(value, Home(None))
    return homes_by_value if home.matrix in (None, value.type) else None


def _cost(op: linalg.ops.GenericOp, spread: Mapping[SSAValue, Home]) -> int:
    """Instructions on one component."""
    return sum(
        OF_A_FUNCTION if body_op.name.startswith("math.") else 1
        for body_op in body_ops(op.body.block)
        if body_op.results and spread.get(body_op.results[0], Home(None)).spread
    )


@dataclass(frozen=True)
class MatrixAccess:
    """Memory layout of a fragment: by rows or by columns, which are `stride` elements apart."""

    by_rows: bool
    stride: Size


def matrix_access(layout: Layout, fragment: tuple[int, int]) -> MatrixAccess | None:
    """
    The way to load and store fragments of a result; None if its layout has none.

    If a walk has several axes, such as images of a batch, its last axis must be a multiple of a
    fragment.
    """
    _, *walks = layout.walks
    if any(
        len(walk) > 1 and not is_multiple(walk[-1].size, size)
        for walk, size in zip(walks, fragment, strict=True)
    ):
        return None
    down, along = (walk[-1].stride if walk else 0 for walk in walks)
    if along == 1:
        return MatrixAccess(True, down)
    return MatrixAccess(False, along) if down == 1 else None


def is_componentwise(contraction: Contraction, sizes: tuple[int, int, int], target: Target) -> bool:
    """
    Whether the epilogue can be computed on fragments of these sizes without using the components'
    positions.
    """
    epilogue, moved = contraction.epilogue, _MatrixMoves(contraction, sizes, target)
    m, n, _ = sizes
    lanes = target.subgroup_size
    components = m * n // lanes if target.even_fragments and m * n % lanes == 0 else 0
    values = _values(epilogue.results, epilogue.root, components)
    return (
        values is not None
        and all(moved.has_matrices(placed_value.element_type) for placed_value in values)
        and all(moved.aligned(placed_value, True) for placed_value in epilogue.results)
        and all(moved.aligned(placed_value, False) for placed_value in epilogue.operands)
    )


def are_stored_as_matrices(
    contraction: Contraction, sizes: tuple[int, int, int], target: Target
) -> bool:
    """True if all results can be stored from accumulators: by their types and alignment."""
    moved, root = _MatrixMoves(contraction, sizes, target), contraction.epilogue.root.element_type

    def held(type: Attribute) -> bool:
        narrower = isinstance(type, AnyFloat) and isinstance(root, AnyFloat)
        return type == root or (narrower and bit_width(type) < bit_width(root))

    return all(
        held(placed.element_type)
        and moved.has_matrices(placed.element_type)
        and moved.aligned(placed, True)
        for placed in contraction.epilogue.results
    )


@dataclass(frozen=True)
class _MatrixMoves:
    """The fragments of M x N that a target has, and their loads and stores."""

    contraction: Contraction
    sizes: tuple[int, int, int]
    target: Target

    def has_matrices(self, type: Attribute) -> bool:
        """Whether there are accumulators of a type."""
        shape = self.sizes[:2]
        names = {p.result for p in self.target.cooperative_matrix if p.shape[:2] == shape}
        return bool(names & {type_name(type, True), type_name(type, False)})

    def aligned(self, placed: Placed, stored: bool) -> bool:
        """True if each fragment of a value in memory begins where the device can move it."""
        m, n, _ = self.sizes
        layout = self.contraction.layout_of_result(placed.map, placed.shape)
        access = matrix_access(layout, (m, n))
        if access is None or (stored and access.stride == 0):
            return False
        size = bit_width(placed.element_type) // 8
        minor = n if access.by_rows else m
        needed = min(self.target.cooperative_matrix_alignment, minor * size)
        batch, rows, columns = layout.walks
        outer = (*batch, *rows[:-1], *columns[:-1])
        steps = [access.stride, layout.start, *(axis.stride for axis in outer)]
        return all(is_multiple(step * size, needed) for step in (minor, *steps))


def _values(results: Sequence[Placed], root: Placed, components: int) -> list[Placed] | None:
    """
    Every value of an epilogue, or None if one of them has no form on matrices.

    `components` is how many an invocation has of a fragment, 0 if that is not known.
    """
    values: list[Placed] = []
    waiting = list(results)
    while waiting:
        placed = waiting.pop()
        values.append(placed)
        op = definition(placed.value)
        if placed.value is root.value or op is None:
            continue
        if isinstance(op, linalg.ops.FillOp | tensor.SplatOp):
            continue
        if not isinstance(op, linalg.ops.GenericOp):
            return None
        spread = homes(op)
        if spread is None:
            return None
        instructions = _cost(op, spread)
        if instructions and not 0 < instructions * components <= MOST_INSTRUCTIONS:
            return None
        waiting += [operand_of(placed, op, number) for number in range(len(op.inputs))]
    return values
