"""
Checked matrices, cooperative vectors and tensors of single vendors' extensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_vector as vectors
from xdsl_spirv.dialects.spirv import tensor_arm, vendor
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.copies import Moves
from xdsl_spirv.interpreter.checks.matrices import Matrices, loading, storing
from xdsl_spirv.interpreter.checks.memory import CheckedAccess, PlainAccess
from xdsl_spirv.interpreter.checks.scopes import uniform
from xdsl_spirv.interpreter.checks.shadow import Shadow, by_lane, normal
from xdsl_spirv.interpreter.checks.variables import BUFFERS, address, label_of
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Pointer, Pointers, cases
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv import cooperative_vector as vector_semantics
from xdsl_spirv.interpreter.spirv import tensor_arm as tensor_semantics
from xdsl_spirv.interpreter.wave import Wave

# Cooperative matrices, first version: the layout is an operand.


@checked(vendor.CooperativeMatrixLoadNVOp)
def load_matrix(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """As a load of the later version, once the layout is known."""
    ways = [
        loading(op, compiler, Matrices(op, compiler, op.result.type, False, by_rows))
        for by_rows in (True, False)
    ]
    return _either_way(op, compiler, ways)


@checked(vendor.CooperativeMatrixStoreNVOp)
def store_matrix(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """As a store of the later version, once the layout is known."""
    ways = [
        storing(op, compiler, Matrices(op, compiler, op.object.type, True, by_rows))
        for by_rows in (True, False)
    ]
    return _either_way(op, compiler, ways)


def _either_way(op: Any, compiler: CheckedCompiler, ways: list[Checked]) -> Checked:
    checker = compiler.checker
    form = Matrices(op, compiler, op.result.type if op.results else op.object.type, False, True)
    boolean = compiler.unit.form(op.column_major.type)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        *given, column_major = values
        if checker.checks.rules:
            uniform(checker, op, "CM-27", "ColumnMajor", column_major, form.form)
        checker.find_undefined(op, "ColumnMajor", shadows[-1], wave.mask, boolean)
        way = ways[bool(column_major.reshape(-1)[0])]
        return way(wave, given, shadows[:-1])

    return call


# Cooperative vectors.


class VectorLoads:
    """Checked loads of vectors; `shadows` are theirs, in order."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.moves = Moves(op, compiler)
        self.shadows: list[Array | None] = []

    def __call__(
        self, pointer: Pointer | Pointers, offset: Array, form: Plain, mask: Mask
    ) -> Array:
        """A vector `offset` bytes further than a pointer."""
        parts: list[tuple[Mask, Shadow]] = []

        def load(one: Pointer, form: Plain, lanes: Mask) -> Array:
            found = self.moves.load(one, form, lanes)
            parts.append((lanes, self.moves.shadow))
            return found

        found = vector_semantics.load_vector(pointer, offset, form, mask, load)
        shadow = None
        for lanes, part in parts:
            if part is not None:
                part = part if lanes is None else np.where(lanes[..., None], part, np.uint8(0))
                shadow = part if shadow is None else np.maximum(shadow, part)
        self.shadows.append(shadow)
        return found


def _addresses(
    compiler: CheckedCompiler, op: Any, shadows: list[Any], numbers: list[int], mask: Mask
) -> None:
    """Pointers, offsets and strides are defined."""
    for number in numbers:
        shadow = shadows[number]
        if shadow is not None:
            address(compiler, op, by_lane(shadow, compiler.checker.form(op, number)), mask)


@checked(vectors.CooperativeVectorLoadOp)
def load_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """A load of consecutive components."""
    loads, form = VectorLoads(op, compiler), compiler.unit.plain(op.result.type)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        _addresses(compiler, op, shadows, [0, 1], wave.mask)
        loads.shadows.clear()
        found = loads(values[0], values[1], form, wave.mask)
        return found, normal(loads.shadows[0])

    return call


@checked(vectors.CooperativeVectorStoreOp)
def store_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """A store of consecutive components, defined where others see them."""
    moves, form = Moves(op, compiler), compiler.unit.plain(op.object.type)
    visible = op.pointer.type.storage_class.data in BUFFERS
    checker = compiler.checker

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        _addresses(compiler, op, shadows, [0, 1], wave.mask)
        pointer, offset, vector = values
        if visible:
            what = f"the vector stored to {label_of(pointer)}"
            checker.find_undefined(op, what, shadows[2], wave.mask, form)
        for one, lanes in cases(vector_semantics.moved(pointer, offset), wave.mask):
            moves.shadow = None if visible else shadows[2]
            moves.store(one, form, vector, lanes)
        return None, None

    return call


@checked(vectors.CooperativeVectorMatrixMulOp, vectors.CooperativeVectorMatrixMulAddOp)
def multiply(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """An undefined component of a row, or of the bias, spoils one of the result; of x, all."""
    loads = VectorLoads(op, compiler)
    product = vector_semantics.Product(op, compiler.unit, loads)
    form = compiler.unit.plain(op.operands[0].type)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        _addresses(compiler, op, shadows, list(range(1, len(values))), wave.mask)
        loads.shadows.clear()
        result = product(wave, *values)
        lines, bias = loads.shadows, None
        if product.bias is not None:
            *lines, bias = loads.shadows
        parts = [] if bias is None else [bias]
        if shadows[0] is not None:
            parts.append(by_lane(shadows[0], form)[..., None])
        if any(line is not None for line in lines):
            parts += _spoiled(lines, product.matrix.by_columns)
        if not parts:
            return result, None
        shadow = np.zeros(result.shape, np.uint8)
        for part in parts:
            shadow = np.maximum(shadow, part)
        return result, normal(shadow)

    return call


def _spoiled(lines: list[Array | None], by_columns: bool) -> list[Array]:
    """Which rows of a matrix have an undefined component, from its rows or its columns."""
    known = [line for line in lines if line is not None]
    if by_columns:
        return known
    nothing = np.zeros((1, 1, 1), np.uint8)
    rows = [nothing if line is None else line.max(axis=3) for line in lines]
    lead = np.broadcast_shapes(*(row.shape for row in rows))
    return [np.stack([np.broadcast_to(row, lead) for row in rows], axis=3)]


class Sums:
    """Atomic additions of vectors to memory."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.op = op
        self.checker = compiler.checker
        self.plain = PlainAccess(compiler.checker, op, atomic=True)

    def check(self, pointer: Pointer | Pointers, form: Plain, mask: Mask) -> Mask:
        """The lanes whose whole vector lies inside: the others are reported."""
        for one, lanes in cases(pointer, mask):
            access = CheckedAccess(self.checker, self.op, one, form, lanes, "an atomic access")
            access.note(lanes, write=True, atomic=True)
            if access.outside is not None:
                mask = within(mask, ~access.outside)
                lanes = within(lanes, mask)
            undefined = self.checker.shadow_of(access.memory).undefined
            if undefined is not None:
                shadow = self.plain.read_shadow(access, undefined, lanes)
                self.checker.find_undefined(self.op, "what is added to", shadow, lanes, form)
                self.plain.write_shadow(access, undefined, None, lanes)
        return mask


def _accumulate(
    op: Any,
    compiler: CheckedCompiler,
    function: Function,
    targets: Callable[..., list[Pointer | Pointers]],
    form: Plain,
    added: range,
) -> Checked:
    """What is added, the operands numbered `added`, is defined."""
    sums, checker = Sums(op, compiler), compiler.checker

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        others = [n for n in range(len(values)) if n not in added]
        _addresses(compiler, op, shadows, others, wave.mask)
        for number in added:
            added_form = checker.form(op, number)
            checker.find_undefined(op, "what is added", shadows[number], wave.mask, added_form)
        mask = wave.mask
        for start in targets(*values):
            wave.mask = sums.check(start, form, wave.mask)
        if wave.mask is None or wave.mask.any():
            function(wave, *values)
        wave.mask = mask
        return None, None

    return call


@checked(vectors.CooperativeVectorReduceSumAccumulateOp)
def accumulate_vector(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Each component added to memory."""
    form = compiler.unit.plain(op.v.type)
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
    """Each product of components added to memory."""
    matrix = vector_semantics.accumulated(op, compiler.unit)
    form = Plain(matrix.dtype, (matrix.width,))
    return _accumulate(
        op,
        compiler,
        function,
        lambda pointer, offset, a, b, stride=None: matrix.line_starts(pointer, offset, stride),
        form,
        range(2, 4),
    )


# Tensors: what lies outside of one is no error.


@checked(tensor_arm.TensorReadOp)
def read_tensor(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Loads of elements; what stands for those outside may be undefined, too."""
    moves = Moves(op, compiler)
    elements = tensor_semantics.Elements(op.result.type, compiler.unit)
    parts: list[tuple[Array, Shadow]] = []

    def load(place: Pointer, form: Plain, lanes: Mask) -> Array:
        found = moves.load(place, form, lanes)
        assert lanes is not None
        parts.append((lanes, moves.shadow))
        return found

    read = tensor_semantics.read(op, compiler.unit, load)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        _addresses(compiler, op, shadows, [1], wave.mask)
        parts.clear()
        result = read(wave, *values)
        outside = shadows[2] if len(shadows) > 2 else None
        if outside is None and all(shadow is None for _, shadow in parts):
            return result, None
        lead = result.shape[:3]
        rest = np.uint8(0) if outside is None else outside
        own = [
            np.broadcast_to(np.where(lanes, np.uint8(0) if s is None else s, rest), lead)
            for lanes, s in parts
        ]
        return result, normal(elements.whole(own))

    return call


@checked(tensor_arm.TensorWriteOp)
def write_tensor(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Stores of defined elements."""
    moves, checker = Moves(op, compiler), compiler.checker
    elements = tensor_semantics.Elements(op.object.type, compiler.unit)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        _addresses(compiler, op, shadows, [1], wave.mask)
        checker.find_undefined(
            op, "what is written to a tensor", shadows[2], wave.mask, elements.form
        )
        tensor, coordinates, written = values
        for number, (place, lanes) in enumerate(elements.places(wave, tensor, coordinates)):
            moves.shadow = None
            moves.store(place, elements.element, elements.part(written, number), lanes)
        return None, None

    return call
