"""
Runs tile programs on whole arrays, one workgroup after another.

Three faults are detected: a tile that exceeds its view; an element that one workgroup stores and
another workgroup stores or reads; and a read of an element that was never written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host, host, on_arrays
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.options import Options

NOBODY = -1

SEVERAL = -2
"""
Number that marks an element that several workgroups have read, in place of one reader's number.
"""


@dataclass
class Buffer:
    """
    Elements of a buffer, and for each element the workgroups that stored it, read it and updated
    it atomically. `unwritten` is a mask of the elements that were never written, or None.
    """

    name: str
    elements: Array
    unwritten: Array | None = None
    writer: Array = field(init=False)
    reader: Array = field(init=False)
    updater: Array = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.reader, self.updater = (
            np.full(self.elements.size, NOBODY, np.int32) for _ in range(3)
        )


@dataclass(frozen=True)
class View:
    """A strided view of a buffer, which begins at element `offset`."""

    buffer: Buffer
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def view_all(cls, buffer: Buffer, shape: Sequence[int]) -> View:
        """Returns a row-major view of a whole buffer."""
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return cls(buffer, 0, tuple(shape), tuple(strides))

    def box(self, firsts: Sequence[int], shape: Sequence[int]) -> tuple[Array, Array]:
        """Returns the element indices of a rectangular part, and a mask of indices in bounds."""
        shape = (1,) * (len(self.sizes) - len(shape)) + tuple(shape)
        numbers = np.full((1,) * len(shape), self.offset, np.int64)
        inside = np.ones((1,) * len(shape), np.bool_)
        axes = zip(firsts, shape, self.sizes, self.strides, strict=True)
        for axis, (first, count, size, stride) in enumerate(axes):
            along = np.arange(first, first + count).reshape(
                [-1 if number == axis else 1 for number in range(len(shape))]
            )
            numbers = numbers + along * stride
            inside = inside & (along >= 0) & (along < size)
        return numbers, inside

    def name_of(self, number: int) -> str:
        """Formats an element for messages, as in `c[3, 0]`."""
        rest, indices = number - self.offset, list[int]()
        for stride in self.strides:
            indices.append(rest // stride if stride else 0)
            rest -= indices[-1] * stride
        return f"{self.buffer.name}[{', '.join(map(str, indices))}]"


class TileMachine(Host):
    """Runs a tile program for one workgroup after another."""

    def __init__(self, grid: tuple[int, int, int], options: Options | None = None):
        super().__init__(ModuleOp([]), options or Options())
        self.grid = grid
        self.workgroup: tuple[int, int, int] = (0, 0, 0)

    @property
    def number(self) -> int:
        """Linear index of the workgroup in the grid."""
        x, y, z = self.workgroup
        return x + self.grid[0] * (y + self.grid[1] * z)

    def read(self, view: View, numbers: Array, inside: Array) -> Array:
        """Reads elements by index. Returns arbitrary values where `inside` is False."""
        buffer = view.buffer
        _check_buffer(view, numbers, inside)
        safe = np.where(inside, numbers, 0)
        if buffer.elements.size == 0:
            return np.zeros(numbers.shape, buffer.elements.dtype)
        self._refuse_others(view, safe, inside, buffer.writer, "store and read")
        self._refuse_others(view, safe, inside, buffer.updater, "update and read")
        self._refuse_unwritten(view, safe, inside)
        self._mark(buffer.reader, safe[inside])
        return buffer.elements[safe]

    def write(self, view: View, numbers: Array, inside: Array, values: Array) -> None:
        """Stores the elements for which `inside` is True."""
        buffer = view.buffer
        _check_buffer(view, numbers, inside)
        own, first = numbers[inside], np.unique(numbers[inside]).size
        if first != own.size:
            raise InterpreterError(
                f"workgroup {self.number} stores an element of {buffer.name} twice in one operation"
            )
        if not own.size:
            return
        safe = np.where(inside, numbers, 0)
        self._refuse_others(view, safe, inside, buffer.updater, "update and store")
        self._refuse_others(view, safe, inside, buffer.writer, "both store")
        self._refuse_others(view, safe, inside, buffer.reader, "store and read")
        buffer.writer[own] = self.number
        buffer.elements[own] = values[inside]
        if buffer.unwritten is not None:
            buffer.unwritten[own] = False

    def update(
        self,
        view: View,
        numbers: Array,
        inside: Array,
        values: Array,
        combine: Callable[[Array, Array], Array],
    ) -> Array:
        """
        Replaces elements by `combine(element, value)`, one after the other, where `inside` is True.
        Returns the old elements, with 0 where `inside` is False.
        """
        buffer = view.buffer
        _check_buffer(view, numbers, inside)
        safe = np.where(inside, numbers, 0)
        self._refuse_others(view, safe, inside, buffer.writer, "store and update")
        self._refuse_others(view, safe, inside, buffer.reader, "read and update")
        self._refuse_unwritten(view, safe, inside)
        old, left = np.zeros_like(values), np.flatnonzero(inside)
        flat_numbers, flat_values = numbers.reshape(-1), values.reshape(-1)
        self._mark(buffer.updater, flat_numbers[left])
        while left.size:
            _, first = np.unique(flat_numbers[left], return_index=True)
            chosen = left[first]
            at = flat_numbers[chosen]
            old.reshape(-1)[chosen] = buffer.elements[at]
            buffer.elements[at] = combine(buffer.elements[at], flat_values[chosen])
            left = np.delete(left, first)
        return old

    def _mark(self, held: Array, numbers: Array) -> None:
        """Records in `held` that this workgroup accesses the elements."""
        alone = np.isin(held[numbers], (NOBODY, self.number))
        held[numbers] = np.where(alone, self.number, SEVERAL)

    def _refuse_unwritten(self, view: View, numbers: Array, inside: Array) -> None:
        buffer = view.buffer
        if buffer.unwritten is not None and (missing := inside & buffer.unwritten[numbers]).any():
            raise InterpreterError(
                f"workgroup {self.number} reads {view.name_of(numbers[missing][0])}, "
                "which was not written",
                remedy=f"initialize {buffer.name}, or store the element before the load",
            )

    def _refuse_others(
        self, view: View, numbers: Array, inside: Array, held: Array, verbs: str
    ) -> None:
        """Refuses elements that another workgroup accessed, as `held` records."""
        others = held[numbers]
        clash = inside & (others != NOBODY) & (others != self.number)
        if not clash.any():
            return
        number = numbers[clash][0]
        other = held[number]
        pair = f"workgroup {other} and workgroup {self.number}"
        if other == SEVERAL:
            pair = f"several workgroups and workgroup {self.number}"
        elif verbs == "both store":
            pair = f"workgroups {other} and {self.number}"
        raise InterpreterError(
            f"{pair} {verbs} {view.name_of(number)}: their tiles overlap",
            remedy="workgroups run in any order: give each its own part of the buffer",
        )


def _check_buffer(view: View, numbers: Array, inside: Array) -> None:
    beyond = inside & ((numbers < 0) | (numbers >= view.buffer.elements.size))
    if beyond.any():
        raise InterpreterError(
            f"element {numbers[beyond][0]} of {view.buffer.name} is used, but the buffer has only "
            f"{view.buffer.elements.size} elements",
            remedy="correct the sizes, strides or mask, so that all elements are within the buffer",
        )


def grid_of(program: tile.ProgramOp, sizes: dict[int, tuple[int, ...]]) -> tuple[int, int, int]:
    """
    Returns the number of workgroups along each axis that covers the view of the program's
    `tile.place`.

    `sizes` maps the index of an argument to the shape of the view. Raises `InterpreterError` if the
    program has no `tile.place`.
    """
    place = next((op for op in program.walk() if isinstance(op, tile.PlaceOp)), None)
    if place is None or not hasattr(place.view, "index"):
        raise InterpreterError(
            f"the grid of {program.sym_name.data} is not known: the program has no tile.place",
            program,
            "give the launch a grid",
        )
    shape = sizes[cast(Any, place.view).index]
    counts = [-(-shape[axis] // size) for axis, size in reversed(place.counted)]
    x, y, z = (*counts, 1, 1)[:3]
    return x, y, z


def run_program(
    program: tile.ProgramOp,
    arguments: Sequence[Array],
    grid: tuple[int, int, int],
    unwritten: frozenset[int] = frozenset(),
    names: Sequence[str] = (),
) -> None:
    """
    Runs a tile program on `grid` workgroups. Changes view arguments in place.

    `unwritten` are the indices of arguments without initial contents. Raises `InterpreterError`
    for each fault that the module docstring lists.
    """
    machine, block = TileMachine(grid), program.body.block
    values: list[Any] = []
    for argument, given in zip(block.args, arguments, strict=True):
        if not isinstance(argument.type, tile.ViewType):
            values.append(np.asarray(given))
            continue
        name = names[argument.index] if names else argument.name_hint or f"arg {argument.index}"
        missing = np.ones(given.size, np.bool_) if argument.index in unwritten else None
        values.append(View.view_all(Buffer(name, given.reshape(-1), missing), given.shape))
    with np.errstate(all="ignore"):
        for z, y, x in product(*map(range, reversed(grid))):
            machine.workgroup = x, y, z
            machine.run(block, dict(zip(block.args, values, strict=True)))


def _index(value: int) -> Array:
    return np.asarray(value, np.int64)


@host(tile.PlaceOp)
def place(machine: Host, op: tile.PlaceOp, operands: Sequence[Any]) -> list[Any]:
    """Returns the indices of the first element of the workgroup's tile."""
    assert isinstance(machine, TileMachine)
    numbers = list(machine.workgroup[: len(op.counted)])
    if op.group is not None:
        numbers = list(_place_in_groups(machine.number, machine.grid, op.group.value.data))
    return [
        _index(number * size)
        for number, (_, size) in zip(reversed(numbers), op.counted, strict=True)
    ]


def _place_in_groups(number: int, grid: tuple[int, int, int], group: int) -> tuple[int, int]:
    """
    Returns the workgroup's tile if tiles are traversed in groups of `group` rows, column by column
    in each group.
    """
    before = number // (group * grid[0]) * group
    rows = min(group, grid[1] - before)
    within = number % (group * grid[0])
    return within // rows, before + within % rows


@host(tile.ProgramIdOp)
def program_id(machine: Host, op: tile.ProgramIdOp, operands: Sequence[Any]) -> list[Any]:
    """Returns the workgroup's index along an axis, or the number of workgroups."""
    assert isinstance(machine, TileMachine)
    numbers = machine.workgroup if op.count is None else machine.grid
    return [_index(numbers[op.axis.value.data])]


@on_arrays(tile.SizeOp)
def size(op: tile.SizeOp, view: View) -> Array:
    """Returns the size of an axis."""
    return _index(view.sizes[op.axis.value.data])


@on_arrays(tile.ViewOp)
def view_of(op: tile.ViewOp, source: View, offset: Any, *numbers: Any) -> View:
    """Returns another view of the buffer of `source`."""
    values = [int(number) for number in numbers]
    half = len(values) // 2
    start = source.offset + int(offset)
    return View(source.buffer, start, tuple(values[:half]), tuple(values[half:]))


def _refuse_box(op: Operation, view: View, firsts: Sequence[int], shape: Sequence[int]) -> None:
    at = ", ".join(map(str, firsts))
    sizes = "x".join(map(str, view.sizes))
    raise InterpreterError(
        f"a tile of {'x'.join(map(str, shape))} at [{at}] exceeds {view.buffer.name}, "
        f"whose size is {sizes}",
        op,
        "add `outside 0` to a load or `clipped` to a store, to permit elements outside",
    )


@host(tile.LoadOp)
def load(machine: Host, op: tile.LoadOp, operands: Sequence[Any]) -> list[Any]:
    """Loads a tile from a view."""
    assert isinstance(machine, TileMachine)
    view, *indices = operands
    firsts, type = [int(index) for index in indices], tile.tile_of(op.result)
    numbers, inside = view.box(firsts, type.shape)
    if op.outside is None and op.any is None and not inside.all():
        _refuse_box(op, view, firsts, type.shape)
    values = machine.read(view, numbers, inside)
    outside = _outside(op, values.dtype)
    return [np.where(inside, values, outside).astype(values.dtype).reshape(type.shape)]


def _outside(op: tile.LoadOp, dtype: np.dtype[Any]) -> Any:
    if op.outside is not None:
        return np.asarray(attribute_array(op.outside)).astype(dtype)
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.asarray(np.nan, dtype)


@host(tile.StoreOp)
def store(machine: Host, op: tile.StoreOp, operands: Sequence[Any]) -> list[Any]:
    """Stores a tile to a view."""
    assert isinstance(machine, TileMachine)
    values, view, *indices = operands
    firsts = [int(index) for index in indices]
    numbers, inside = view.box(firsts, values.shape)
    if op.clipped is None and not inside.all():
        _refuse_box(op, view, firsts, values.shape)
    machine.write(view, numbers, inside, values.reshape(numbers.shape))
    return []


def _select_numbers(view: View, numbers: Array, mask: Array | None) -> tuple[Array, Array]:
    inside = np.ones(numbers.shape, np.bool_) if mask is None else mask.astype(np.bool_)
    beyond = inside & ((numbers < 0) | (numbers >= view.sizes[0]))
    if beyond.any():
        raise InterpreterError(
            f"element {numbers[beyond][0]} of a view of {view.buffer.name} is used, but "
            f"the view has only {view.sizes[0]} elements",
            remedy="correct the indices or the mask, so that all elements are within the view",
        )
    return view.offset + numbers.astype(np.int64) * view.strides[0], inside


@host(tile.GatherOp)
def gather(machine: Host, op: tile.GatherOp, operands: Sequence[Any]) -> list[Any]:
    """Loads elements by their indices."""
    assert isinstance(machine, TileMachine)
    view, given, *mask = operands
    numbers, inside = _select_numbers(view, given, mask[0] if mask else None)
    values = machine.read(view, numbers, inside)
    return [np.where(inside, values, values.dtype.type(0)).astype(values.dtype)]


@host(tile.ScatterOp)
def scatter(machine: Host, op: tile.ScatterOp, operands: Sequence[Any]) -> list[Any]:
    """Stores elements by their indices."""
    assert isinstance(machine, TileMachine)
    values, view, given, *mask = operands
    numbers, inside = _select_numbers(view, given, mask[0] if mask else None)
    machine.write(view, numbers, inside, values)
    return []


_ATOMICS: dict[str, tuple[Callable[[Array, Array], Array], bool]] = {
    "addf": (np.add, False),
    "addi": (np.add, False),
    "andi": (np.bitwise_and, False),
    "assign": (lambda _, value: value, False),
    "maxs": (np.maximum, False),
    "maxu": (np.maximum, True),
    "mins": (np.minimum, False),
    "minu": (np.minimum, True),
    "ori": (np.bitwise_or, False),
    "xori": (np.bitwise_xor, False),
}
"""Functions of atomic operations; True: of unsigned integers."""


@host(tile.AtomicOp)
def update(machine: Host, op: tile.AtomicOp, operands: Sequence[Any]) -> list[Any]:
    """Updates elements by their indices, in the order of the tile."""
    assert isinstance(machine, TileMachine)
    values, view, given, *mask = operands
    numbers, inside = _select_numbers(view, given, mask[0] if mask else None)
    function, unsigned = _ATOMICS[op.kind.data]

    def combine(old: Array, value: Array) -> Array:
        if not unsigned:
            return function(old, value)
        as_unsigned = (held.view(f"u{held.dtype.itemsize}") for held in (old, value))
        return function(*as_unsigned).view(old.dtype)

    return [machine.update(view, numbers, inside, values, combine)]


@host(tile.BarrierOp)
def wait(machine: Host, op: tile.BarrierOp, operands: Sequence[Any]) -> list[Any]:
    """Does nothing: an operation on whole tiles sees all stores of the workgroup before it."""
    return []


@on_arrays(tile.FullOp)
def full(op: tile.FullOp, value: Any) -> Array:
    """Returns a tile filled with one value."""
    return np.full(tile.tile_of(op.result).shape, value)


@on_arrays(tile.RangeOp)
def numbers_from_0(op: tile.RangeOp) -> Array:
    """Returns the tile 0, 1, 2, ..."""
    return np.arange(*tile.tile_of(op.result).shape, dtype=np.int32)


@host(tile.MapOp)
def map_elements(machine: Host, op: tile.MapOp, operands: Sequence[Any]) -> list[Any]:
    """Applies the region to all elements at once."""
    shape = tile.tile_of(op.outputs[0]).shape
    results = machine.run_nested(op.body.block, operands)
    return [np.broadcast_to(result, shape) for result in results]


@on_arrays(tile.MultiplyAddOp)
def multiply_add(op: tile.MultiplyAddOp, a: Array, b: Array, c: Array) -> Array:
    """Computes a * b + c, in binary32 or wider for floats, modulo 2^N for integers."""
    if c.dtype.kind not in "iu":
        wide = np.float64 if c.dtype == np.float64 else np.float32
        x, y, z = (value.astype(wide) for value in (a, b, c))
        return (x @ y + z).astype(c.dtype)
    if op.unsigned is not None:
        a, b = (
            value.view(f"u{value.dtype.itemsize}") for value in map(np.ascontiguousarray, (a, b))
        )
    return (a.astype(np.int64) @ b.astype(np.int64) + c).astype(c.dtype)


@host(tile.ReduceOp)
def reduce(machine: Host, op: tile.ReduceOp, operands: Sequence[Any]) -> list[Any]:
    """
    Reduces elements by halves: combines the first half with the second until one element is left.
    """
    held = [np.moveaxis(value, op.axis.value.data, 0) for value in operands]
    while (count := len(held[0])) > 1:
        half = count // 2
        halves = [value[:half] for value in held], [value[half : 2 * half] for value in held]
        combined = machine.run_nested(op.body.block, [*halves[0], *halves[1]])
        held = [
            np.concatenate([value, rest[2 * half :]])
            for value, rest in zip(combined, held, strict=True)
        ]
    return [value[0] for value in held]


@host(tile.ScanOp)
def scan(machine: Host, op: tile.ScanOp, operands: Sequence[Any]) -> list[Any]:
    """Combines elements with the elements at distance 1, 2, 4, ... before them."""
    turned = slice(None, None, -1 if op.reverse is not None else 1)
    held = [np.moveaxis(value, op.axis.value.data, 0)[turned] for value in operands]
    distance = 1
    while distance < len(held[0]):
        before, own = [v[:-distance] for v in held], [v[distance:] for v in held]
        combined = machine.run_nested(op.body.block, [*before, *own])
        held = [
            np.concatenate([value[:distance], rest])
            for value, rest in zip(held, combined, strict=True)
        ]
        distance *= 2
    return [np.moveaxis(value[turned], 0, op.axis.value.data) for value in held]


@on_arrays(tile.BroadcastOp, tile.ReshapeOp, tile.TransposeOp)
def move(op: Any, value: Array) -> Array:
    """Transposes, broadcasts or reshapes a tile."""
    if isinstance(op, tile.TransposeOp):
        return value.T
    shape = tile.tile_of(op.result).shape
    return (
        np.broadcast_to(value, shape) if isinstance(op, tile.BroadcastOp) else value.reshape(shape)
    )


def dtype_of(type: tile.ViewType) -> np.dtype[Any]:
    """Returns the numpy type of a view's elements."""
    dtype = scalar_dtype(type.element)
    assert dtype is not None
    return dtype
