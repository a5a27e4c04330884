"""
Finds epilogues that can be computed on whole fragments, without the positions of components.

Cooperative matrices of one type hold their components at equal positions, which the device chooses.
Arithmetic and conversions are instructions on matrices (CM-19, CM-26). Any other function is
computed on each invocation's components in registers, if the target lists their number. Matrices of
two types may hold components at different positions (CM-18) and need a conversion of the whole
matrix. A bias is loaded with stride 0 (CM-12): as a row-major matrix if it is a row, else as a
column-major matrix. Other epilogues are computed element by element through Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.contraction import Contraction, type_name
from xdsl_spirv.passes.analysis.epilogue import Placed, definition, operand_of
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.pointwise import body_ops
from xdsl_spirv.targets import Target

MATRIX_OPERATIONS: dict[type[Operation], type[Operation]] = {
    arith.AddfOp: spv.FAddOp,
    arith.SubfOp: spv.FSubOp,
    arith.MulfOp: spv.FMulOp,
    arith.NegfOp: spv.FNegateOp,
    arith.AddiOp: spv.IAddOp,
    arith.SubiOp: spv.ISubOp,
    arith.MuliOp: spv.IMulOp,
    arith.ExtFOp: spv.FConvertOp,
    arith.TruncFOp: spv.FConvertOp,
    arith.SIToFPOp: spv.ConvertSToFOp,
}
"""Maps operations on scalars to the operations on every component of a matrix."""

CONVERSIONS = (arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp)
"""Operations of `MATRIX_OPERATIONS` that return a matrix of another type."""

MOST_INSTRUCTIONS = 256
"""Largest number of instructions on all components of a fragment. Longer code needs a loop."""

OF_A_FUNCTION = 16
"""Approximate number of instructions of a function of `math`."""


@dataclass(frozen=True)
class Home:
    """
    The form in which a kernel holds a value of an epilogue's body: a matrix or single components.

    `matrix` is the element type of the matrix that holds the value; None for a constant. If
    `spread`, the kernel holds the components of this matrix one by one.
    """

    matrix: Attribute | None
    spread: bool = False


def homes(op: linalg.ops.GenericOp) -> dict[SSAValue, Home] | None:
    """
    Returns the form in which each value of the body is held.

    Returns None if an operation combines matrices of two types, whose components may have
    different positions.
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
        elif type(body_op) in MATRIX_OPERATIONS and not any(home.spread for home in whole):
            homes_by_value[result] = Home(result.type if whole else None)
        elif len({home.matrix for home in whole}) > 1:
            return None
        else:
            homes_by_value[result] = Home(whole[0].matrix if whole else None, True)
    (value,) = yields_of(block)
    home = homes_by_value.get(value, Home(None))
    return homes_by_value if home.matrix in (None, value.type) else None


def _cost(op: linalg.ops.GenericOp, spread: Mapping[SSAValue, Home]) -> int:
    """
    Returns the number of instructions that compute an operation's body for one component of a
    matrix. `spread` tells which values have a component in each invocation.
    """
    return sum(
        OF_A_FUNCTION if body_op.name.startswith("math.") else 1
        for body_op in body_ops(op.body.block)
        if body_op.results and spread.get(body_op.results[0], Home(None)).spread
    )


@dataclass(frozen=True)
class MatrixAccess:
    """
    Memory layout of a fragment: consecutive rows (columns, unless `by_rows`) are `stride` elements
    apart.
    """

    by_rows: bool
    stride: Size


def matrix_access(layout: Layout, fragment: tuple[int, int]) -> MatrixAccess | None:
    """
    Returns the layout for cooperative loads and stores of fragments; None if these are impossible.

    Rows or columns with several axes, such as the images of a batch, need a last axis that is a
    multiple of the fragment.
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
    """True if the epilogue can be computed on whole fragments (M, N, K) of these sizes."""
    epilogue, moved = contraction.epilogue, _MatrixMoves(contraction, sizes, target)
    m, n, _ = sizes
    lanes = target.subgroup_size
    components = m * n // lanes if target.even_fragments and m * n % lanes == 0 else 0
    refused = () if target.signed_matrices else (arith.SIToFPOp,)
    values = _values(epilogue.results, epilogue.root, components, refused)
    return (
        values is not None
        and all(moved.has_matrices(placed_value.element_type) for placed_value in values)
        and all(moved.aligned(placed_value, True) for placed_value in epilogue.results)
        and all(moved.aligned(placed_value, False) for placed_value in epilogue.operands)
    )


def are_stored_as_matrices(
    contraction: Contraction, sizes: tuple[int, int, int], target: Target
) -> bool:
    """True if types and alignment allow storing all results from accumulators."""
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
    """Loads and stores of the target's fragments of M x N elements."""

    contraction: Contraction
    sizes: tuple[int, int, int]
    target: Target

    def has_matrices(self, type: Attribute) -> bool:
        """True if the target has accumulators of a type."""
        shape = self.sizes[:2]
        names = {p.result for p in self.target.cooperative_matrix if p.shape[:2] == shape}
        return bool(names & {type_name(type, True), type_name(type, False)})

    def aligned(self, placed: Placed, stored: bool) -> bool:
        """
        True if every fragment of a value in memory is aligned for cooperative loads, or for stores
        if `stored`.
        """
        m, n, _ = self.sizes
        layout = self.contraction.layout_of_result(placed.map, placed.shape)
        access = matrix_access(layout, (m, n))
        if access is None or (stored and access.stride == 0):
            return False
        minor = n if access.by_rows else m
        count = self.target.count_aligned(minor, bit_width(placed.element_type))
        batch, rows, columns = layout.walks
        outer = (*batch, *rows[:-1], *columns[:-1])
        steps = [access.stride, layout.start, *(axis.stride for axis in outer)]
        return all(is_multiple(step, count) for step in (minor, *steps))


def _values(
    results: Sequence[Placed],
    root: Placed,
    components: int,
    refused: tuple[type[Operation], ...],
) -> list[Placed] | None:
    """
    Returns every value of an epilogue that a kernel computes. Returns None if a value has no form
    on matrices.

    `components` is the number of a fragment's components in an invocation; 0 if unknown. The driver
    computes the operations `refused` wrongly on matrices.
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
        if spread is None or any(isinstance(o, refused) for o in body_ops(op.body.block)):
            return None
        instructions = _cost(op, spread)
        if instructions and not 0 < instructions * components <= MOST_INSTRUCTIONS:
            return None
        waiting += [operand_of(placed, op, number) for number in range(len(op.inputs))]
    return values
