"""
Executes SPV_NV_tensor_addressing, and the tensor loads and stores of SPV_NV_cooperative_matrix2.

A layout and a view are tuples of integers that instructions copy and change. The address of each
component of a matrix is computed by the extension's pseudocode, for all components at once: arrays
are (workgroup, subgroup, component). For coordinates outside the tensor, the clamp mode applies. In
the mode Undefined, coordinates are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Mask, Plain
from xdsl_spirv.interpreter.layout import Layout, PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memory import Pointer, first_active, leaders
from xdsl_spirv.interpreter.numbers import I64, Array, raw_dtype
from xdsl_spirv.interpreter.pointers import pointer_type
from xdsl_spirv.interpreter.semantics import Function, action, value, value_of, value_table
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.spirv.cooperative_matrix import matrix_form
from xdsl_spirv.interpreter.spirv.cooperative_matrix_2 import component_batch, scope_axes

Numbers: TypeAlias = tuple[Array, ...]
"""One integer per dimension, outermost first. Each is an array (workgroup, subgroup, lane)."""

UNSIGNED = 0xFFFFFFFF


class Fields:
    """Base class of layouts and views, whose fields are tuples of integer arrays."""

    def change(self, function: Callable[..., Array], *others: Any) -> Any:
        """
        Returns a copy in which `function` is applied to each integer. The function also gets the
        corresponding integers of `others`.
        """
        changed: dict[str, Numbers] = {}
        for field in fields(self):  # pyright: ignore[reportArgumentType]
            parts = [getattr(state, field.name) for state in (self, *others)]
            changed[field.name] = tuple(function(*numbers) for numbers in zip(*parts, strict=True))
        return type(self)(**changed)

    def merge(self, mask: Mask, old: Any) -> Any:
        """Returns these fields in the lanes of the mask, and the fields of `old` elsewhere."""
        if old is None or old is self:
            return self
        return self.change(lambda new, before: np.where(mask, new, before), old)


@dataclass(frozen=True)
class TensorLayout(Fields):
    """The state of a tensor layout. `clamp` is one value for all dimensions."""

    block: Numbers
    dimension: Numbers
    stride: Numbers
    offset: Numbers
    span: Numbers
    clamp: Numbers


@dataclass(frozen=True)
class TensorView(Fields):
    """The state of a tensor view. `clip` is (row offset, row span, column offset, column span)."""

    dimension: Numbers
    stride: Numbers
    clip: Numbers


def _known_numbers(*numbers: int) -> Numbers:
    return tuple(np.full((1, 1, 1), number, I64) for number in numbers)


def _unsigned_numbers(values: Sequence[Array]) -> Numbers:
    return tuple(value.astype(I64) & UNSIGNED for value in values)


# A block size makes strides count blocks. The clamp value has the bits of elements outside of the
# tensor. Components outside of the clip's rows and columns are neither loaded nor stored.
value_table(
    {
        spv.TensorLayoutSetBlockSizeOp: lambda layout, *sizes: replace(
            layout, block=_unsigned_numbers(sizes)
        ),
        spv.TensorLayoutSetStrideOp: lambda layout, *strides: replace(
            layout, stride=_unsigned_numbers(strides)
        ),
        spv.TensorLayoutSetClampValueOp: lambda layout, number: replace(
            layout, clamp=_unsigned_numbers((number,))
        ),
        spv.TensorViewSetStrideOp: lambda view, *strides: replace(
            view, stride=_unsigned_numbers(strides)
        ),
        spv.TensorViewSetClipOp: lambda view, *clip: replace(view, clip=_unsigned_numbers(clip)),
    }
)


@value(spv.CreateTensorLayoutOp)
def create_layout(op: spv.CreateTensorLayoutOp, context: Context) -> Function:
    """Creates a layout with blocks of one element. All other fields are 0."""
    type = op.result.type
    assert isinstance(type, spv.TensorLayoutType)
    rank = context.size(type.rank)
    zeros = _known_numbers(*[0] * rank)
    layout = TensorLayout(
        _known_numbers(*[1] * rank), zeros, zeros, zeros, zeros, _known_numbers(0)
    )
    return lambda: layout


@value_of(spv.TensorLayoutSetDimensionOp)
def set_dimension(layout: TensorLayout, *sizes: Array) -> TensorLayout:
    """Sets the sizes. Computes contiguous strides, and resets the slice to the whole tensor."""
    extents = _unsigned_numbers(sizes)
    stride = [*_known_numbers(1)]
    for extent, block in zip(extents[:0:-1], layout.block[:0:-1], strict=True):
        stride.insert(0, stride[0] * -(-extent // np.maximum(block, 1)))
    zeros = _known_numbers(*[0] * len(extents))
    return replace(layout, dimension=extents, span=extents, offset=zeros, stride=tuple(stride))


@value_of(spv.TensorLayoutSliceOp)
def set_slice(layout: TensorLayout, *numbers: Array) -> TensorLayout:
    """Narrows the slice: adds to its offsets and replaces its spans."""
    steps = [number.astype(I64) for number in numbers[0::2]]
    offset = tuple(old + step for old, step in zip(layout.offset, steps, strict=True))
    return replace(layout, offset=offset, span=_unsigned_numbers(numbers[1::2]))


@value(spv.CreateTensorViewOp)
def create_view(op: spv.CreateTensorViewOp, context: Context) -> Function:
    """Creates a view without clipping. All other fields are 0."""
    type = op.result.type
    assert isinstance(type, spv.TensorViewType)
    zeros = _known_numbers(*[0] * context.size(type.rank))
    view = TensorView(zeros, zeros, _known_numbers(0, UNSIGNED, 0, UNSIGNED))
    return lambda: view


@value_of(spv.TensorViewSetDimensionOp)
def set_view_dimension(view: TensorView, *sizes: Array) -> TensorView:
    """Sets the sizes of a view, with the strides of a packed tensor."""
    extents = _unsigned_numbers(sizes)
    stride = [*_known_numbers(1)]
    for extent in extents[:0:-1]:
        stride.insert(0, stride[0] * extent)
    return replace(view, dimension=extents, stride=tuple(stride))


@dataclass(frozen=True)
class Where:
    """
    The memory locations of a matrix's components, as arrays (workgroup, subgroup, component).

    `element` is the index of an element or, if the layout has blocks, of a block. `clipped` and
    `outside` are masks. `block` has the coordinates of the block, `inside` the coordinates of the
    component in its block.
    """

    element: Array
    clipped: Array
    outside: Array
    block: Numbers
    inside: Numbers


class Addressing:
    """Computes the memory locations of the components for one load or store instruction."""

    def __init__(self, op: spv.MatrixTensorOperation, form: CooperativeMatrix, context: Context):
        self.form = form
        self.stores = op.STORES
        layout = op.tensor_layout.type
        assert isinstance(layout, spv.TensorLayoutType)
        self.mode = spv.TensorClampMode(context.number(layout.clamp_mode))
        view = None if op.tensor_view is None else op.tensor_view.type
        self.order: list[int] = []
        self.own = False
        if isinstance(view, spv.TensorViewType):
            self.order = [context.number(p) for p in view.permutation]
            self.own = bool(context.number(view.has_dimensions))

    def where(self, batch: Batch, layout: TensorLayout, view: TensorView | None) -> Where:
        """
        Returns the memory locations of the components. The first active lane of the scope gives the
        layout and the view.
        """
        axes = scope_axes(self.form)
        layout = layout.change(lambda a: first_active(a, batch.mask, axes))
        form = self.form
        number = np.arange(form.rows * form.columns, dtype=I64).reshape(1, 1, -1)
        row, column = number // form.columns, number % form.columns
        index, clipped = number, np.zeros((1, 1, 1), np.bool_)
        if view is not None:
            seen: TensorView = view.change(lambda a: first_active(a, batch.mask, axes))
            top, rows, left, columns = seen.clip
            clipped = (row < top) | (row >= top + rows) | (column < left)
            clipped = clipped | (column >= left + columns)
            index = (row - top) * np.minimum(form.columns, columns) + column - left
            index = self._through_view(layout, seen, np.where(clipped, 0, index))
        coordinates = _coordinates(index, layout.span, range(len(layout.span)))
        return self._in_tensor(layout, coordinates, clipped)

    def _through_view(self, layout: TensorLayout, view: TensorView, index: Array) -> Array:
        extents = view.dimension if self.own else layout.span
        coordinates = _coordinates(index, extents, self.order)
        strides = list(view.stride)
        if not self.own:
            strides = [*_known_numbers(1)]
            for span in layout.span[:0:-1]:
                strides.insert(0, strides[0] * span)
        return sum(
            (c * stride for c, stride in zip(coordinates, strides, strict=True)),
            start=_known_numbers(0)[0],
        )

    def _in_tensor(self, layout: TensorLayout, coordinates: Numbers, clipped: Array) -> Where:
        outside = np.zeros((1, 1, 1), np.bool_)
        element = np.zeros((1, 1, 1), I64)
        blocks: list[Array] = []
        insides: list[Array] = []
        for number, coordinate in enumerate(coordinates):
            extent = layout.dimension[number]
            c = coordinate + layout.offset[number]
            beyond = (c < 0) | (c >= extent)
            if self.mode is not spv.TensorClampMode.Undefined:
                if self.stores or self.mode is spv.TensorClampMode.Constant:
                    outside = outside | beyond
                    c = np.where(beyond, 0, c)
                else:
                    c = np.where(beyond, _clamp_coordinate(self.mode, c, extent), c)
            size = np.maximum(layout.block[number], 1)
            blocks.append(c // size)
            insides.append(c % size)
            element = element + blocks[-1] * layout.stride[number]
        return Where(element, clipped, outside & ~clipped, tuple(blocks), tuple(insides))


def _clamp_coordinate(mode: spv.TensorClampMode, c: Array, extent: Array) -> Array:
    """Moves a coordinate into the tensor, as the clamp mode says. Remainders follow OpSMod."""
    if mode is spv.TensorClampMode.ClampToEdge:
        return np.clip(c, 0, extent - 1)
    if mode is spv.TensorClampMode.Repeat:
        return c % np.maximum(extent, 1)
    turn = np.maximum(2 * extent - 2, 1)
    c = c % turn
    return np.where(c >= extent, 2 * extent - 2 - c, c)


def _coordinates(index: Array, extents: Numbers, order: Sequence[int]) -> Numbers:
    """Converts a linear index to coordinates. The last dimension in `order` varies fastest."""
    coordinates: dict[int, Array] = {}
    for number in reversed(order):
        size = np.maximum(extents[number], 1)
        coordinates[number] = index % size
        index = index // size
    return tuple(coordinates[number] for number in range(len(coordinates)))


class TensorAccess:
    """Executes a matrix load or store. `load` and `store` access single components."""

    def __init__(
        self,
        op: Any,
        context: Context,
        load: PlainLoader = memory.load,
        store: PlainStorer = memory.store,
    ):
        self.op = op
        self.context = context
        self.form = matrix_form(op.object.type, context)
        self.addressing = Addressing(op, self.form, context)
        self.load_plain, self.store_plain = load, store
        self.plain = Plain(self.form.dtype)

    def places(
        self, batch: Batch, pointer: Pointer, layout: TensorLayout, view: TensorView | None
    ) -> tuple[Where, Pointer, Mask]:
        """
        Returns the locations of the components, their pointers, and a mask of the components that
        are accessed in memory.
        """
        axes = scope_axes(self.form)
        where = self.addressing.where(batch, layout, view)
        start = leaders(pointer, batch.mask, axes)
        moved = ~where.clipped & ~where.outside
        if batch.mask is not None:
            moved = moved & batch.mask.any(axis=axes, keepdims=True)
        return where, start.plus(where.element, self._size(), 0), moved

    def _size(self) -> int:
        """
        Returns the bytes from one element of the tensor to the next: the size of a matrix
        component.
        """
        return self.form.dtype.itemsize

    def load(
        self,
        batch: Batch,
        pointer: Pointer,
        matrix: Array,
        layout: TensorLayout,
        view: TensorView | None = None,
    ) -> Array:
        """Loads the matrix. Clipped components take their value from `matrix`."""
        where, place, moved = self.places(batch, pointer, layout, view)
        if self.op.decode_func is None:
            components = self.load_plain(place, self.plain, moved)
        else:
            components = self._decoded(batch, pointer, where, moved)
        clamp = first_active(layout.clamp[0], batch.mask, scope_axes(self.form))
        fill = clamp.astype(raw_dtype(self.form.dtype)).view(self.form.dtype)
        components = np.where(where.outside, fill, components).astype(self.form.carrier)
        shape = (*np.broadcast_shapes(components.shape[:2], matrix.shape[:2]), *matrix.shape[2:])
        clipped = np.broadcast_to(where.clipped, components.shape)
        return np.where(
            clipped.reshape(*components.shape[:2], *shape[2:]),
            matrix,
            components.reshape(*components.shape[:2], *shape[2:]),
        )

    def store(
        self,
        batch: Batch,
        pointer: Pointer,
        matrix: Array,
        layout: TensorLayout,
        view: TensorView | None = None,
    ) -> None:
        """Stores each component that is not clipped."""
        _, place, moved = self.places(batch, pointer, layout, view)
        flat = matrix.reshape(*matrix.shape[:2], -1).astype(self.form.dtype, copy=False)
        self.store_plain(place, self.plain, np.ascontiguousarray(flat), moved)

    def _decoded(self, batch: Batch, pointer: Pointer, where: Where, moved: Mask) -> Array:
        """
        Computes each component by the decode function, which gets the block and the coordinates.
        """
        name = self.op.decode_func.string_value()
        parameters = self.context.symbol(name).regions[0].block.args
        start = leaders(pointer, batch.mask, scope_axes(self.form))
        size = Layout(self.context).size(pointer_type(parameters[0]).pointee)
        inner = component_batch(batch, self.form, where.element.shape[2])
        if not moved.all():
            inner.mask = inner.existing = np.broadcast_to(moved, inner.shape)
        given: list[Any] = [start.plus(where.element, size, 0)]
        for numbers, parameter in zip((where.block, where.inside), parameters[1:], strict=True):
            dtype = self.context.plain(parameter.type).dtype
            given.append(np.stack(np.broadcast_arrays(*numbers), axis=3).astype(dtype))
        components = self.context.code(name, compile_function)(inner, given)
        return np.broadcast_to(components, (*components.shape[:2], where.element.shape[2]))


@action(spv.CooperativeMatrixLoadTensorOp)
def load(op: spv.CooperativeMatrixLoadTensorOp, context: Context) -> Function:
    """Loads one matrix for each subgroup (or workgroup)."""
    return TensorAccess(op, context).load


@action(spv.CooperativeMatrixStoreTensorOp)
def store(op: spv.CooperativeMatrixStoreTensorOp, context: Context) -> Function:
    """Stores the matrix of each subgroup (or workgroup)."""
    return TensorAccess(op, context).store
