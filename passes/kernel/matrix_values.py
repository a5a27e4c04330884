"""
Emits constants, components, loads and stores of cooperative matrices; returns their types.

Some devices apply functions to the elements of matrices. The device chooses the invocation of each
element and passes row and column to the function. Values from outside of the function become
arguments; constants are copied into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Region, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import EachElementOp, ReduceRowsOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.linalg_code import number_of_type
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import INDEX, KernelEmitter
from xdsl_spirv.targets import Fragment

ROW_MAJOR = spv.CooperativeMatrixLayout.RowMajorKHR
COLUMN_MAJOR = spv.CooperativeMatrixLayout.ColumnMajorKHR
SHARED = spv.MemoryAccess.NonPrivatePointer

USES = {
    "A": spv.CooperativeMatrixUse.MatrixAKHR,
    "B": spv.CooperativeMatrixUse.MatrixBKHR,
    "Acc": spv.CooperativeMatrixUse.MatrixAccumulatorKHR,
}


def matrix_type(use: str, rows: int, columns: int, element: Attribute) -> spv.CooperativeMatrixType:
    """Returns a cooperative matrix type of subgroup scope. `use` is "A", "B" or "Acc"."""
    return spv.CooperativeMatrixType(rows, columns, element, spv.Scope.Subgroup, USES[use])


def zeros(b: KernelEmitter, type: spv.CooperativeMatrixType, name: str | None = None) -> SSAValue:
    """Returns a zero matrix."""
    return b.at_top(spv.ConstantOp(number_of_type(0.0, type.element_type), type), name)


def take_apart(b: KernelEmitter, matrix: SSAValue, count: int) -> list[SSAValue]:
    """Extracts the invocation's `count` components of a matrix."""
    return [b.add(spv.CompositeExtractOp(matrix, [number])) for number in range(count)]


def put_together(b: KernelEmitter, components: Iterable[SSAValue], matrix: SSAValue) -> SSAValue:
    """Returns the matrix with the invocation's components replaced."""
    for number, component in enumerate(components):
        matrix = b.add(spv.CompositeInsertOp(component, matrix, [number]))
    return matrix


SIGNED = (
    spv.CooperativeMatrixOperands.MatrixASignedComponentsKHR,
    spv.CooperativeMatrixOperands.MatrixBSignedComponentsKHR,
    spv.CooperativeMatrixOperands.MatrixCSignedComponentsKHR
    | spv.CooperativeMatrixOperands.MatrixResultSignedComponentsKHR,
)


def multiply_matrices(
    b: KernelEmitter,
    rows: Sequence[SSAValue],
    columns: Iterable[SSAValue],
    totals: Sequence[SSAValue],
    names: Sequence[str] = (),
) -> list[SSAValue]:
    """
    Returns `totals` plus the products of A's matrices (`rows`) and B's (`columns`), row by row.

    `names` are the element types of A, B and the totals; a name such as "s8" marks signed
    integers.
    """
    flags = spv.CooperativeMatrixOperands(0)
    for name, flag in zip(names, SIGNED, strict=False):
        flags |= flag if name.startswith("s") else 0
    signs = flags or None
    results, width = list(totals), len(totals) // len(rows)
    for j, column in enumerate(columns):
        for at, row in zip(range(j, len(results), width), rows, strict=True):
            results[at] = b.add(spv.CooperativeMatrixMulAddOp(row, column, results[at], signs))
    return results


def load_matrix(
    b: KernelEmitter,
    type: spv.CooperativeMatrixType,
    memory: SSAValue,
    place: Sequence[Index],
    stride: Size | SSAValue,
    layout: spv.CooperativeMatrixLayout = ROW_MAJOR,
    shared: bool = False,
) -> SSAValue:
    """
    Loads a matrix. `stride` is the distance between rows (columns if COLUMN_MAJOR), in elements.
    `shared` is True for Workgroup memory that other invocations access.
    """
    pointer = b.pointer(memory, place)
    step = stride if isinstance(stride, SSAValue) else b.i32(stride)
    access = SHARED if shared else None
    return b.add(spv.CooperativeMatrixLoadOp(pointer, step, layout, type, access))


def store_matrix(
    b: KernelEmitter,
    matrix: SSAValue,
    memory: SSAValue,
    place: Sequence[Index],
    stride: Size | SSAValue,
    layout: spv.CooperativeMatrixLayout = ROW_MAJOR,
    shared: bool = False,
) -> None:
    """
    Stores a matrix, with its first element at `place`. `stride` and `shared` are as in
    `load_matrix`.
    """
    pointer = b.pointer(memory, place)
    step = stride if isinstance(stride, SSAValue) else b.i32(stride)
    access = SHARED if shared else None
    b.insert(spv.CooperativeMatrixStoreOp(pointer, matrix, step, layout, access))


def lane_places(b: KernelEmitter, fragment: Fragment, lane: SSAValue) -> tuple[Index, Index]:
    """Returns the row and column offsets that a lane adds to its component positions (CM-18)."""
    return moved_bits(b, lane, fragment.lane.bits_along(0)), moved_bits(
        b, lane, fragment.lane.bits_along(1)
    )


def moved_bits(
    b: KernelEmitter, number: Index, bits: Sequence[tuple[int, int]], total: Index = 0
) -> Index:
    """
    Returns `total` plus the weights of the set bits of `number`. `bits` has (bit, weight) pairs.
    """
    while bits:
        (first, weight), count = bits[0], 1
        while count < len(bits) and bits[count] == (first + count, weight << count):
            count += 1
        part = b.remainder(b.divided(number, 1 << first), 1 << count)
        total = b.plus(total, b.times(part, weight))
        bits = bits[count:]
    return total


Combine = Callable[[SSAValue, SSAValue], SSAValue]


def each_element(
    b: KernelEmitter,
    body: Callable[..., SSAValue],
    matrix: SSAValue,
    *others: SSAValue,
) -> SSAValue:
    """
    Builds a matrix whose elements are body(row, column, element, elements of `others`).

    All matrices have the same type. Other values that `body` uses must be uniform in the subgroup.
    """
    type = matrix.type
    assert isinstance(type, spv.CooperativeMatrixType)
    block = Block(arg_types=[INDEX, INDEX, *[type.element_type] * (1 + len(others))])
    for argument, name in zip(block.args, ("row", "column"), strict=False):
        argument.name_hint = name
    region, captured = _write(b, body, block)
    return b.add(EachElementOp(matrix, [*others, *captured], region))


def reduce_rows(b: KernelEmitter, combine: Combine, matrix: SSAValue) -> SSAValue:
    """Reduces each row of a matrix; the reduction replaces every element of the row."""
    type = matrix.type
    assert isinstance(type, spv.CooperativeMatrixType)
    region, captured = _write(b, combine, Block(arg_types=[type.element_type] * 2))
    assert not captured, "combine uses values other than its arguments"
    return b.add(ReduceRowsOp(matrix, region))


def _write(
    b: KernelEmitter, body: Callable[..., SSAValue], block: Block
) -> tuple[Region, list[SSAValue]]:
    """Writes a function. Returns its region, and the outside values that became arguments."""
    with b.inside(block):
        b.insert(YieldOp(body(*block.args)))
    region, captured = Region(block), list[SSAValue]()
    used = (value for op in block.walk() for value in op.operands)
    for value in dict.fromkeys(v for v in used if not region.is_ancestor(v.owner)):
        if isinstance(value.owner, arith.ConstantOp):
            constant = value.owner.clone()
            block.insert_op_before(constant, next(iter(block.ops)))
            own: SSAValue = constant.result
        else:
            captured.append(value)
            own = block.insert_arg(value.type, len(block.args))
        own.name_hint = value.name_hint
        value.replace_uses_with_if(own, lambda use: region.is_ancestor(use.operation))
    return region, captured
