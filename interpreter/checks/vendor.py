"""Checks matrices, cooperative vectors and tensors of vendor-specific extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_vector as vectors
from xdsl_spirv.dialects.spirv import tensor_arm, vendor
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks import copies
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.copies import Moves, addresses
from xdsl_spirv.interpreter.checks.matrices import Matrices, loading, storing
from xdsl_spirv.interpreter.checks.memory import CheckedAccess, PlainAccess
from xdsl_spirv.interpreter.checks.scopes import uniform
from xdsl_spirv.interpreter.checks.shadow import Shadow, by_lane, normal
from xdsl_spirv.interpreter.checks.variables import BUFFERS, label_of
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Pointer, Pointers, cases
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv import cooperative_vector as vector_semantics
from xdsl_spirv.interpreter.spirv import tensor_arm as tensor_semantics

# Cooperative matrices of the NV extension, whose layout is an operand.


@checked(vendor.CooperativeMatrixLoadNVOp, vendor.CooperativeMatrixStoreNVOp)
def move_matrix(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a load or store of an NV matrix. An operand selects row- or column-major layout."""
    checker, boolean = compiler.checker, compiler.context.form(op.column_major.type)
    type, store = (op.object.type, True) if not op.results else (op.result.type, False)
    both = [Matrices(op, compiler, type, store, by_rows) for by_rows in (True, False)]
    ways = [(storing if store else loading)(op, compiler, matrices) for matrices in both]

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        *given, column_major = values
        if checker.checks.rules:
            uniform(checker, op, "CM-27", "ColumnMajor", column_major, both[0].form)
        checker.find_undefined(op, "ColumnMajor", shadows[-1], batch.mask, boolean)
        return ways[bool(column_major.reshape(-1)[0])](batch, given, shadows[:-1])

    return call


# Cooperative vectors.


class VectorLoads:
    """Loads vectors with checks. Appends the masks of undefined parts to `shadows`."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.moves = Moves(op, compiler)
        self.shadows: list[Array | None] = []

    def __call__(
        self, pointer: Pointer | Pointers, offset: Array, form: Plain, mask: Mask
    ) -> Array:
        """Loads a vector at `offset` bytes after a pointer."""
        parts: list[tuple[Mask, Shadow]] = []

        def load(one: Pointer, form: Plain, lanes: Mask) -> Array:
            vector = self.moves.load(one, form, lanes)
            parts.append((lanes, self.moves.shadow))
            return vector

        vector = vector_semantics.load_vector(pointer, offset, form, mask, load)
        shadow = None
        for lanes, part in parts:
            if part is not None:
                part = part if lanes is None else np.where(lanes[..., None], part, np.uint8(0))
                shadow = part if shadow is None else np.maximum(shadow, part)
        self.shadows.append(shadow)
        return vector


@checked(vectors.CooperativeVectorLoadOp)
def load_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a load of a cooperative vector."""
    return copies.loading(op, compiler, vector_semantics.load, (0, 1), None)


@checked(vectors.CooperativeVectorStoreOp)
def store_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a store of a cooperative vector. Values stored to shared memory must be defined."""
    seen = op.pointer.type.storage_class.data in BUFFERS
    report = (lambda values: f"the vector stored to {label_of(values[0])}") if seen else None
    return copies.storing(op, compiler, vector_semantics.store, (0, 1), 2, report)


@checked(vectors.CooperativeVectorMatrixMulOp, vectors.CooperativeVectorMatrixMulAddOp)
def multiply(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a product of a matrix and a vector, and finds the undefined parts of the result."""
    loads = VectorLoads(op, compiler)
    product = vector_semantics.Product(op, compiler.context, loads)
    form = compiler.context.plain(op.operands[0].type)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        addresses(compiler, op, shadows, list(range(1, len(values))), batch.mask)
        loads.shadows.clear()
        result = product(batch, *values)
        lines, bias = loads.shadows, None
        if product.bias is not None:
            *lines, bias = loads.shadows
        parts = [] if bias is None else [bias]
        if shadows[0] is not None:
            parts.append(by_lane(shadows[0], form)[..., None])
        if any(line is not None for line in lines):
            parts += _spoiled_rows(lines, product.matrix.by_columns)
        if not parts:
            return result, None
        shadow = np.zeros(result.shape, np.uint8)
        for part in parts:
            shadow = np.maximum(shadow, part)
        return result, normal(shadow)

    return call


def _spoiled_rows(lines: list[Array | None], by_columns: bool) -> list[Array]:
    """
    Returns the mask of undefined parts for each row of a matrix, from the masks of the loaded rows
    or columns.
    """
    known = [line for line in lines if line is not None]
    if by_columns:
        return known
    nothing = np.zeros((1, 1, 1), np.uint8)
    rows = [nothing if line is None else line.max(axis=3) for line in lines]
    lead = np.broadcast_shapes(*(row.shape for row in rows))
    return [np.stack([np.broadcast_to(row, lead) for row in rows], axis=3)]


class Sums:
    """Checks instructions that atomically add a vector or an outer product to memory."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.op = op
        self.checker = compiler.checker
        self.plain = PlainAccess(compiler.checker, op, atomic=True)

    def check(self, pointer: Pointer | Pointers, form: Plain, mask: Mask) -> Mask:
        """Returns a mask of the lanes whose whole vector is in bounds. Reports all other lanes."""
        for one, lanes in cases(pointer, mask):
            access = CheckedAccess(self.checker, self.op, one, form, lanes, "an atomic access")
            access.note(lanes, write=True, atomic=True)
            if access.outside is not None:
                mask = within(mask, ~access.outside)
                lanes = within(lanes, mask)
            shadow = self.plain.read_shadow(access, lanes)
            self.checker.find_undefined(
                self.op, "the value in memory to which the operand is added", shadow, lanes, form
            )
            self.plain.write_shadow(access, None, lanes)
        return mask


def _accumulate(
    op: Any,
    compiler: CheckedCompiler,
    function: Function,
    targets: Callable[..., list[Pointer | Pointers]],
    form: Plain,
    added: range,
) -> Checked:
    """Checks an atomic addition. The operands whose indices are in `added` must be defined."""
    sums, checker = Sums(op, compiler), compiler.checker

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        others = [n for n in range(len(values)) if n not in added]
        addresses(compiler, op, shadows, others, batch.mask)
        for number in added:
            added_form = checker.form(op, number)
            checker.find_undefined(op, "the added operand", shadows[number], batch.mask, added_form)
        mask = batch.mask
        for start in targets(*values):
            batch.mask = sums.check(start, form, batch.mask)
        if batch.mask is None or batch.mask.any():
            function(batch, *values)
        batch.mask = mask
        return None, None

    return call


@checked(vectors.CooperativeVectorReduceSumAccumulateOp)
def accumulate_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks the atomic addition of a vector's components to memory."""
    form = compiler.context.plain(op.v.type)
    return _accumulate(
        op,
        compiler,
        function,
        lambda pointer, offset, vector: [vector_semantics.moved(pointer, offset)],
        form,
        range(2, 3),
    )


@checked(vectors.CooperativeVectorOuterProductAccumulateOp)
def accumulate_product(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks the atomic addition of an outer product's components to memory."""
    matrix = vector_semantics.accumulated(op, compiler.context)
    form = Plain(matrix.dtype, (matrix.width,))
    return _accumulate(
        op,
        compiler,
        function,
        lambda pointer, offset, a, b, stride=None: matrix.line_starts(pointer, offset, stride),
        form,
        range(2, 4),
    )


# An access outside a tensor is not an error, and its fill value may be undefined.


@checked(tensor_arm.TensorReadOp)
def read_tensor(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a load of tensor elements."""
    return copies.loading(op, compiler, tensor_semantics.read, (1,), 2)


@checked(tensor_arm.TensorWriteOp)
def write_tensor(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that the elements stored to a tensor are defined."""
    what = "the value written to a tensor"
    return copies.storing(op, compiler, tensor_semantics.write, (1,), 2, lambda values: what)
