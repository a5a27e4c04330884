"""Checks cooperative loads, stores and multiplications."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_matrix as ops
from xdsl_spirv.dialects.spirv import cooperative_matrix_2 as ops_2
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixOperands
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.dialects.spirv.vendor import CooperativeMatrixMulAddNVOp
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.accesses import Access
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import aligned, check_aligned_operand, step_of
from xdsl_spirv.interpreter.checks.scopes import full_scope, uniform
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN, Shadow, merge_parts, normal
from xdsl_spirv.interpreter.checks.variables import BUFFERS, address
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, within
from xdsl_spirv.interpreter.memory import Memory, Pointer, Tiles, leaders
from xdsl_spirv.interpreter.numbers import F64, Array, raw_dtype
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.cooperative_matrix import (
    Placement,
    accessed_matrix,
    carried,
    matrix_form,
)


class Matrices:
    """Checks the tiles of memory that one cooperative load or store accesses."""

    def __init__(
        self,
        op: Any,
        compiler: CheckedCompiler,
        type: Any,
        store: bool,
        by_rows: bool | None = None,
    ):
        self.op = op
        self.checker = compiler.checker
        self.compiler = compiler
        self.form = matrix_form(type, compiler.context)
        self.place = Placement(op, self.form, compiler.context, by_rows)
        self.store = store
        self.what = "a cooperative store" if store else "a cooperative load"
        line_bytes = self.place.lines[1] * self.place.size
        # Vulkan: the lesser of 16 bytes and the natural alignment of a row (or column).
        self.alignment = min(16, line_bytes & -line_bytes)
        self.line_bytes = line_bytes

    def check_operands(
        self, batch: Batch, pointer: Pointer, stride: Array | None, shadows: list[Any]
    ) -> Pointer:
        """
        Checks uniformity (CM-27), stride (CM-12) and alignment of the operands. Returns the aligned
        pointer.
        """
        checker, op = self.checker, self.op
        if checker.checks.rules:
            if batch.mask is not checker.existing:
                full_scope(checker, op, self.form)
            uniform(checker, op, "CM-27", "the pointer", pointer, self.form)
            if stride is not None:
                uniform(checker, op, "CM-27", "the Stride", stride, self.form)
                checker.find_active(
                    "CM-12",
                    op,
                    f"the Stride of {self.what} is {'not positive' if self.store else 'negative'}",
                    stride < (1 if self.store else 0),
                    batch.mask,
                    values={"Stride": stride},
                    remedy="the Stride is the number of elements from one row (or column) to "
                    "the next: give a positive one",
                )
        for number, shadow in enumerate(shadows):
            if shadow is not None:
                form = checker.form(op, number)
                if op.operands[number] is op.pointer:
                    address(self.compiler, op, shadow, batch.mask)
                elif op.operands[number] is op.stride:
                    checker.find_undefined(op, "the Stride", shadow, batch.mask, form)
        check_aligned_operand(checker, op, pointer, "alignment")
        pointer = aligned(checker, op, pointer, self.place.size, self.what)
        if checker.checks.alignment:
            self._check_alignment(pointer, stride, batch.mask)
        return pointer

    def _check_alignment(self, pointer: Pointer, stride: Array | None, mask: Mask) -> None:
        alignment = self.alignment
        if pointer.scale % alignment or pointer.base % alignment:
            bytes = pointer.address()
            self._misaligned(bytes % alignment != 0, "the pointer", {"address": bytes}, mask)
        if stride is not None:
            bytes = stride.astype(np.int64) * self.place.pointee_bytes
            self._misaligned(bytes % alignment != 0, "the Stride", {"Stride in bytes": bytes}, mask)

    def _misaligned(self, wrong: Array, name: str, values: dict[str, Array], mask: Mask) -> None:
        self.checker.find_active(
            "ALIGN-03",
            self.op,
            f"{name} of {self.what} is not aligned to {self.alignment} bytes, which Vulkan "
            f"requires for rows (or columns) of {self.line_bytes} bytes",
            wrong,
            mask,
            values=values,
            remedy="pad rows so that each begins at a multiple of this alignment",
        )

    def tiles(self, batch: Batch, pointer: Pointer, stride: Array | None) -> tuple[Tiles, Any]:
        """
        Returns the tiles, and a mask of their elements that are out of bounds (None if there are
        none).
        """
        try:
            tiles = self.place.tiles(batch, pointer, stride)
        except InterpreterError:
            # A negative Stride is reported already. Its addresses are not checked.
            tiles = self.place.tiles(batch, pointer, np.zeros((1, 1, 1), np.int32))
        length = pointer.memory.length(raw_dtype(self.form.dtype))
        extent = (tiles.lines - 1) * int(tiles.stride.max()) + tiles.width
        starts = tiles.starts
        if batch.mask is not None:
            starts = np.where(batch.mask.any(axis=2, keepdims=True), starts, 0)
        if not starts.size or int(starts.view(np.uint64).max()) <= length - extent:
            return tiles, None
        items = tiles.items(starts)
        outside = items.view(np.uint64) >= length
        if not outside.any():
            return tiles, None
        if not pointer.memory.robust:
            self._report_outside(tiles, outside, length, starts)
        return tiles, outside

    def _report_outside(self, tiles: Tiles, outside: Array, length: int, starts: Array) -> None:
        lines = np.flatnonzero(outside.any(axis=(0, 1, 3)))
        places = np.flatnonzero(outside.any(axis=(0, 1, 2)))
        rows, columns = (lines, places) if self.place.by_rows else (places, lines)
        self.checker.find(
            "BOUNDS-04",
            self.op,
            f"{self.what} outside {tiles.memory.label or 'its memory'}: rows {_span(rows)}, "
            f"columns {_span(columns)} of the {self.form.rows}x{self.form.columns} tile",
            where=outside.any(axis=(2, 3))[..., None],
            values={
                "first element": starts,
                "Stride": np.broadcast_to(tiles.stride, (1, 1, 1))
                if tiles.stride.size == 1
                else tiles.stride,
                "elements there are": np.full((1, 1, 1), length),
            },
            remedy="pad the buffer, or leave out the tiles at the edge",
        )

    def note(self, batch: Batch, pointer: Pointer, tiles: Tiles, outside: Any) -> None:
        """Records the access for the race check."""
        order = self.checker.races
        if order is None:
            return
        shadow = self.checker.shadow_of(pointer.memory)
        if shadow.tracked is False:
            return
        granule = size = self.place.size
        if tiles.stride.size == 1 and outside is None:
            start = leaders(pointer, batch.mask, self.place.axes)
            step = step_of(start, int(tiles.stride.item()) * size, self.line_bytes)
            # The step may be finer than the elements: for a pointer chosen by a branch it is 1.
            granule = step if step % size == 0 else size
        history = shadow.history(order.histories, granule)
        if history is None:
            return
        mask = batch.mask
        if outside is not None:
            fine = ~outside.any(axis=(2, 3))[..., None]
            mask = within(mask, fine)
        per = granule // size
        if per > 1:
            tiles = Tiles(
                tiles.memory,
                tiles.starts // per,
                tiles.stride // per,
                (tiles.lines, tiles.width // per),
            )
        items = tiles.items(tiles.starts)
        order.note(
            history,
            Access(
                self.op,
                items,
                granule,
                mask,
                write=self.store,
                scope=self.form.scope,
            ),
        )


def _span(numbers: Array) -> str:
    low, high = int(numbers[0]), int(numbers[-1])
    if high - low + 1 != len(numbers):
        return ", ".join(map(str, numbers.tolist()))
    return f"{low} to {high}" if high > low else str(low)


def _safe(tiles: Tiles, outside: Array, memory: Memory, dtype: numbers.DType) -> Array:
    """Reads the elements of tiles, with 0 for elements out of bounds."""
    view = memory.view(raw_dtype(dtype))
    items = np.where(outside, 0, tiles.items(tiles.starts))
    if memory.rows == "workgroup":
        items = items + memory.row_starts(view.shape[1])[..., None]
    elements = view.reshape(-1).take(items)
    return np.where(outside, 0, elements).astype(view.dtype).view(dtype)


@checked(ops.CooperativeMatrixLoadOp)
def load(op: ops.CooperativeMatrixLoadOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a cooperative matrix load of the KHR extension."""
    return loading(op, compiler, Matrices(op, compiler, op.result.type, store=False))


def loading(op: Any, compiler: CheckedCompiler, matrices: Matrices) -> Checked:
    """Checks a load from a pointer and an optional stride."""
    form, place, checker = matrices.form, matrices.place, compiler.checker
    octets, carry = raw_dtype(form.dtype), carried(form)

    def shadow_of(batch: Batch, memory: Memory, tiles: Tiles, outside: Any) -> Shadow:
        count = tiles.starts.size * tiles.lines * tiles.width * octets.itemsize
        undefined = checker.shadow_of(memory).to_read(count)
        shadow = None
        if undefined is not None and outside is None:
            octets_of_lines = Tiles(
                undefined, tiles.starts, tiles.stride, (tiles.lines, tiles.width)
            ).load(octets, batch.mask)
            if octets_of_lines.any():
                parts = np.ascontiguousarray(octets_of_lines)[..., None].view(np.uint8).max(axis=-1)
                message = f"{memory.label or 'memory'} was read before it was written"
                number = checker.origin(op, "UNDEF-01", message)
                shadow = np.where(parts == UNWRITTEN, np.uint8(number), parts)
        if outside is not None and checker.checks.undefined and not memory.robust:
            number = checker.origin(op, "UNDEF-07", "a load outside of its memory")
            shadow = np.where(outside, np.uint8(number), np.uint8(0))
        if shadow is None:
            return None
        return normal(shadow if place.by_rows else shadow.swapaxes(2, 3))

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        pointer, stride = values[0], values[1] if len(values) > 1 else None
        pointer = matrices.check_operands(batch, pointer, stride, shadows)
        tiles, outside = matrices.tiles(batch, pointer, stride)
        if outside is None:
            lines = tiles.load(form.dtype, batch.mask)
        else:
            lines = _safe(tiles, outside, pointer.memory, form.dtype)
        matrices.note(batch, pointer, tiles, outside)
        lines = carry(lines)
        shadow = shadow_of(batch, pointer.memory, tiles, outside)
        return lines if place.by_rows else lines.swapaxes(2, 3), shadow

    return call


@checked(ops.CooperativeMatrixStoreOp)
def store(
    op: ops.CooperativeMatrixStoreOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Checks a cooperative matrix store of the KHR extension."""
    return storing(op, compiler, Matrices(op, compiler, op.object.type, store=True))


def storing(op: Any, compiler: CheckedCompiler, matrices: Matrices) -> Checked:
    """Checks a store of a matrix through a pointer and an optional stride."""
    form, place, checker = matrices.form, matrices.place, compiler.checker
    visible = accessed_matrix(op).storage_class.data in BUFFERS
    octets = raw_dtype(form.dtype)

    def write_shadow(batch: Batch, memory: Memory, tiles: Tiles, shadow: Shadow) -> None:
        undefined = checker.shadow_of(memory).to_store(shadow is None)
        if undefined is None:
            return
        target = Tiles(undefined, tiles.starts, tiles.stride, (tiles.lines, tiles.width))
        if shadow is None:
            target.store(octets, np.zeros((1, 1, 1, 1), octets), batch.mask)
            return
        lines = shadow if place.by_rows else shadow.swapaxes(2, 3)
        wide = np.repeat(lines[..., None], form.dtype.itemsize, axis=-1)
        target.store(octets, np.ascontiguousarray(wide).view(octets)[..., 0], batch.mask)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        pointer, matrix, stride = values[0], values[1], values[2] if len(values) > 2 else None
        pointer = matrices.check_operands(batch, pointer, stride, shadows)
        if visible:
            what = f"the matrix stored to {pointer.memory.label or 'a buffer'}"
            checker.find_undefined(op, what, shadows[1], batch.mask, form)
        tiles, outside = matrices.tiles(batch, pointer, stride)
        lines = matrix if place.by_rows else matrix.swapaxes(2, 3)
        lines = np.ascontiguousarray(lines.astype(form.dtype, copy=False))
        matrices.note(batch, pointer, tiles, outside)
        if outside is not None and not pointer.memory.robust:
            # Only tiles that lie entirely inside are written.
            kept = ~outside.any(axis=(2, 3))[..., None]
            mask = batch.mask
            batch.mask = np.broadcast_to(within(mask, kept), batch.shape)
            tiles.store(form.dtype, lines, batch.mask)
            write_shadow(batch, pointer.memory, tiles, shadows[1])
            batch.mask = mask
            return None, None
        tiles.store(form.dtype, lines, batch.mask)
        write_shadow(batch, pointer.memory, tiles, shadows[1])
        if checker.checks.overlap and outside is None:
            _check_overlap(matrices, batch, tiles, lines)
        return None, None

    return call


def _check_overlap(matrices: Matrices, batch: Batch, tiles: Tiles, lines: Array) -> None:
    """Reports elements that one cooperative store writes twice, with different values."""
    dtype = matrices.form.dtype
    stored = tiles.load(dtype, batch.mask)
    different = (stored.view(raw_dtype(dtype)) != lines.view(raw_dtype(dtype))).any(axis=(2, 3))
    stride = int(tiles.stride.flat[0])
    of_one_tile = tiles.lines > 1 and stride < tiles.width
    matrices.checker.find_active(
        "OVERLAP-02" if of_one_tile else "OVERLAP-01",
        matrices.op,
        f"rows of {tiles.width} elements overlap at a Stride of {stride}"
        if of_one_tile
        else f"tiles of {tiles.memory.label or 'memory'} overlap in one store, with unequal values",
        different[..., None],
        batch.mask,
        values={"first element": tiles.starts},
        remedy="place the tiles of one store so that they do not overlap",
    )


@checked(ops.CooperativeMatrixMulAddOp, CooperativeMatrixMulAddNVOp)
def multiply_add(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that the whole scope executes a MulAdd (CM-27), and that no sum overflows (CM-24)."""
    checker = compiler.checker
    result = matrix_form(op.result.type, compiler.context)
    exact = _inner_overflow(op, compiler) if checker.checks.rules else None

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if checker.checks.rules and batch.mask is not checker.existing:
            full_scope(checker, op, result)
        if exact is not None:
            exact(batch, values)
        total = function(*values)
        parts: list[Any] = []
        shape = (result.rows, result.columns)
        if shadows[0] is not None:
            spoiled = shadows[0].max(axis=3, keepdims=True)
            parts.append(np.broadcast_to(spoiled, (*spoiled.shape[:2], *shape)))
        if shadows[1] is not None:
            spoiled = shadows[1].max(axis=2, keepdims=True)
            parts.append(np.broadcast_to(spoiled, (*spoiled.shape[:2], *shape)))
        if shadows[2] is not None:
            parts.append(shadows[2])
        return total, normal(merge_parts(parts)) if parts else None

    return call


@checked(ops_2.CooperativeMatrixReduceOp, ops_2.CooperativeMatrixPerElementOp)
def by_function(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that the whole scope executes an operation that calls a function (CM-27)."""
    checker = compiler.checker
    result = matrix_form(op.result.type, compiler.context)
    matrices = [isinstance(operand.type, CooperativeMatrixType) for operand in op.operands]

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if checker.checks.rules:
            full_scope(checker, op, result)
            for number, value in enumerate(values[1:], 1):
                if isinstance(value, np.ndarray) and not matrices[number]:
                    uniform(checker, op, "CM-27", f"argument {number}", value, result)
        matrix = function(batch, *values)
        spoiled = max((int(np.max(s)) for s in shadows if isinstance(s, np.ndarray)), default=0)
        return matrix, np.full((1, 1, *matrix.shape[2:]), spoiled, np.uint8) if spoiled else None

    return call


def _inner_overflow(op: Any, compiler: CheckedCompiler) -> Any:
    if not isinstance(op, ops.CooperativeMatrixMulAddOp):
        return None
    flags = CooperativeMatrixOperands
    bits = flags(0) if op.matrix_operands is None else op.matrix_operands.data
    if not bits & flags.SaturatingAccumulationKHR:
        return None
    checker = compiler.checker
    form = matrix_form(op.result.type, compiler.context)
    signs = (
        bool(bits & flags.MatrixASignedComponentsKHR),
        bool(bits & flags.MatrixBSignedComponentsKHR),
    )
    result_sign = bool(bits & flags.MatrixResultSignedComponentsKHR)
    width = form.dtype.itemsize * 8
    high = float(2 ** (width - result_sign))
    low = -high if result_sign else 0.0

    def call(batch: Batch, values: list[Any]) -> None:
        wide = [
            (v if sign else numbers.unsigned(v)).astype(F64)
            for v, sign in zip(values, signs, strict=False)
        ]
        product = np.matmul(*wide)
        outside = (product >= high) | (product < low)
        where = outside.any(axis=(2, 3))[..., None]
        if within(batch.mask, where).any():
            row, column = (int(n) for n in np.argwhere(outside)[0][2:])
            worst = product[..., row, column][..., None]
            checker.find(
                "CM-24",
                op,
                f"A*B overflows {width} bits before the saturating addition, at row {row}, column "
                f"{column}",
                where=within(batch.mask, where),
                values={"A*B there": worst},
                remedy="accumulate in a wider type",
            )

    return call
