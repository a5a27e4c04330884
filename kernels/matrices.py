"""
Cooperative matrices in kernels (SPV_KHR_cooperative_matrix). The invocations of a subgroup share a
matrix.

    a = k.load_matrix(A, 0, k.f16, 16, 16, "A", stride=64)
    b = k.load_matrix(B, 0, k.f16, 16, 16, "B", stride=64)
    c = k.multiply_add(a, b, k.filled_matrix(0.0, k.f32, 16, 16))
    k.store_matrix(C, 0, c, stride=64)

`xdsl-spirv devices` lists the sizes and types that a device supports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.kernels.memory import Memory
from xdsl_spirv.kernels.tracer import KernelError, current
from xdsl_spirv.kernels.types import Type, u32
from xdsl_spirv.kernels.values import Number, constant, value_of

USES = {
    "A": spv.CooperativeMatrixUse.MatrixAKHR,
    "B": spv.CooperativeMatrixUse.MatrixBKHR,
    "C": spv.CooperativeMatrixUse.MatrixAccumulatorKHR,
}
LAYOUTS = {
    "row": spv.CooperativeMatrixLayout.RowMajorKHR,
    "column": spv.CooperativeMatrixLayout.ColumnMajorKHR,
}


@dataclass(frozen=True)
class Matrix:
    """A cooperative matrix of a subgroup."""

    ssa: SSAValue
    element: Type
    rows: int
    columns: int
    use: str

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns} of {self.element}, use {self.use}"


def _type(element: Type, rows: int, columns: int, use: str) -> spv.CooperativeMatrixType:
    if use not in USES:
        raise KernelError(
            f"{use!r} is not a use of matrices", "", "write A, B, or C for the accumulator"
        )
    return spv.CooperativeMatrixType(
        rows, columns, element.attribute, spv.Scope.Subgroup, USES[use]
    )


def _layout(name: str) -> spv.CooperativeMatrixLayout:
    if name not in LAYOUTS:
        raise KernelError(f"{name!r} is not a layout of matrices", "", "write row or column")
    return LAYOUTS[name]


def load_matrix(
    memory: Memory,
    index: Any,
    rows: int,
    columns: int,
    use: str,
    *,
    stride: Number,
    layout: str = "row",
) -> Matrix:
    """
    Loads a matrix whose first element is `memory[index]`. `use` is A, B or C.

    `stride` is the distance between rows (between columns for the layout `column`) in elements.
    """
    type = _type(memory.element, rows, columns, use)
    step = value_of(stride, u32).ssa
    op = spv.CooperativeMatrixLoadOp(memory.pointer(index), step, _layout(layout), type)
    return Matrix(current().add(op), memory.element, rows, columns, use)


def store_matrix(
    memory: Memory, index: Any, matrix: Matrix, *, stride: Number, layout: str = "row"
) -> None:
    """Stores a matrix, with its first element at `memory[index]`."""
    if memory.read_only or memory.element != matrix.element:
        raise KernelError(
            f"a matrix {matrix} cannot be stored in {memory.name}",
            f"{memory.name} has elements of {memory.element}",
            "declare a buffer of the matrix's type without read_only",
        )
    step = value_of(stride, u32).ssa
    pointer = memory.pointer(index)
    current().insert(spv.CooperativeMatrixStoreOp(pointer, matrix.ssa, step, _layout(layout)))


def filled_matrix(value: float, element: Type, rows: int, columns: int, use: str = "C") -> Matrix:
    """
    Returns a matrix of `rows` x `columns` whose components all have the same value. `use` is A, B
    or C.
    """
    type = _type(element, rows, columns, use)
    op = spv.CompositeConstructOp([constant(value, element).ssa], type)
    return Matrix(current().add(op), element, rows, columns, use)


def multiply_add(a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """Returns a * b + c for matrices m x k, k x n and m x n. The types determine the signedness."""
    shapes = (a.rows, a.columns, b.columns) == (c.rows, b.rows, c.columns)
    if (a.use, b.use, c.use) != ("A", "B", "C") or not shapes:
        raise KernelError(
            "the shapes or uses of the matrices do not match", f"{a}; {b}; {c}",
            "give an A of m x k, a B of k x n, and a C of m x n",
        )  # fmt: skip
    signs = spv.CooperativeMatrixOperands(0)
    named = spv.CooperativeMatrixOperands
    for matrix, flag in (
        (a, named.MatrixASignedComponentsKHR),
        (b, named.MatrixBSignedComponentsKHR),
        (c, named.MatrixCSignedComponentsKHR | named.MatrixResultSignedComponentsKHR),
    ):
        if matrix.element.is_signed:
            signs |= flag
    op = spv.CooperativeMatrixMulAddOp(a.ssa, b.ssa, c.ssa, signs or None)
    return Matrix(current().add(op), c.element, c.rows, c.columns, "C")
