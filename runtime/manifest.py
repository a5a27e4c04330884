"""
Defines the records of `program.json`, documented in docs/program.md.

A record is a frozen dataclass. Its fields are strings, numbers, or (tuples of) other records, and
may be optional. Its type hints are the schema. The record's `check` tests conditions beyond the
types. `from_json` names the field of an error.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin

from xdsl_spirv.runtime.elements import (
    Array,
    as_element_type,
    check_element_type,
    dtype_of,
    element_bytes,
)
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, evaluate, is_name, names_in
from xdsl_spirv.runtime.requires import Requires

T = TypeVar("T")
AGAIN = "compile the program again"


class _Checked(Protocol):
    def check(self, place: str) -> None: ...


def from_json(kind: type[T], value: object, place: str) -> T:
    """Converts parsed JSON to a record of type `kind`. Raises `ProgramError` at a wrong field."""
    return cast(T, _decode(kind, value, place))


def to_json(value: object) -> object:
    """
    Converts a record to JSON: its fields in order of declaration, without fields that are None. A
    field that is declared `sparse` is also left out if it has its default.
    """
    if dataclasses.is_dataclass(value):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {
            f.name: to_json(item)
            for f, item in pairs
            if item is not None and not (f.metadata.get("sparse") and item == f.default)
        }
    if isinstance(value, tuple):
        return [to_json(item) for item in cast(tuple[object, ...], value)]
    return value


def _wrong(place: str, expected: str, value: object) -> ProgramError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ProgramError(f"{expected}, but found {shown}", place, AGAIN)


def _decode(kind: Any, value: object, place: str) -> object:
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_record(cast(type[Any], kind), value, place)
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, place)
    if origin in (Union, types.UnionType):
        present = [k for k in get_args(kind) if k is not type(None)]
        if value is None and type(None) in get_args(kind):
            return None
        return _decode(present[0] if len(present) == 1 else present, value, place)
    if origin is Literal:
        choices = get_args(kind)
        if not isinstance(value, str) or value not in choices:
            raise _wrong(place, f"expected one of {', '.join(map(repr, choices))}", value)
        return value
    kinds = tuple(kind) if isinstance(kind, list) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _wrong(place, f"expected {' or '.join(k.__name__ for k in kinds)}", value)
    if isinstance(value, str) and ("\0" in value or not _is_text(value)):
        raise _wrong(place, "expected UTF-8 text without zero bytes", value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise _wrong(place, "expected a number of 64 bits", value)
    return value


def _is_text(value: str) -> bool:
    """True if a text can be encoded in UTF-8. JSON's escapes can create lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_tuple(kinds: tuple[Any, ...], value: object, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _wrong(place, "expected a list", value)
    items = cast(list[object], value)
    if kinds[-1] is not Ellipsis and len(items) != len(kinds):
        raise _wrong(place, f"expected a list of {len(kinds)}", items)
    item_kinds = [kinds[0]] * len(items) if kinds[-1] is Ellipsis else list(kinds)
    return tuple(
        _decode(kind, item, f"{place}[{i}]")
        for i, (kind, item) in enumerate(zip(item_kinds, items, strict=True))
    )


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_record(kind: type[Any], value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(place, "expected an object", value)
    given = cast(dict[str, object], value)
    hints = _hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for name in given:
        if name not in fields:
            raise ProgramError(f"unknown field {name!r}", place, AGAIN)
    decoded: dict[str, object] = {}
    for name, member in fields.items():
        if name in given:
            decoded[name] = _decode(hints[name], given[name], f"{place}.{name}")
        elif member.default is dataclasses.MISSING and type(None) in get_args(hints[name]):
            decoded[name] = None
        elif member.default is dataclasses.MISSING:
            raise ProgramError(f"the field {name!r} is missing", place, AGAIN)
    record = kind(**decoded)
    if hasattr(record, "check"):
        try:
            cast(_Checked, record).check(place)
        except ProgramError as error:
            raise ProgramError(error.cause, error.place, error.remedy or AGAIN) from None
    return record


SCHEMA = "xdsl-spirv-program"
VERSION = 6
"""The latest version of the format. docs/program.md describes the additions of each version."""
PLAIN = 5
"""Version of a program without loops. Older readers support this version."""
READABLE = (1, 2, 3, 4, PLAIN, VERSION)
"""Versions that can be read. Fields of later versions may be missing."""

PADDING = 4
"""Alignment of buffers in bytes, because some kernels read the last word as a whole."""

MANIFEST = "program.json"
SOURCE = "source.mlir"
WEIGHTS = "weights.safetensors"
KERNELS = "kernels"
LAYERS = "layers.json"


BufferKind = Literal["input", "scalar", "weight", "state", "output", "temporary"]
GIVEN = ("input", "scalar")
"""Kinds of buffers that the caller supplies."""
SHARED = ("weight", "state")
"""Kinds of buffers that all functions of a program share."""
INDEX = "index"
"""Type of a scalar from which sizes, grids and push constants are computed."""


@dataclass(frozen=True)
class Buffer:
    """
    A row-major array in a storage buffer. `kind` defines who fills and reads the buffer.

    A `scalar` has no memory: it is a number that the caller gives, and expressions use its name.
    """

    name: str
    kind: BufferKind
    type: str
    shape: tuple[Number, ...]
    offset: int | None = None
    """Offset of a temporary in the memory that temporaries share, in bytes."""
    first: int | float | None = None
    """Initial value of all elements of a state. If None, the weights file has the contents."""

    @property
    def is_dynamic(self) -> bool:
        """True if a size is known only when the program runs."""
        return any(isinstance(size, str) for size in self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape. Raises `ProgramError` if it is not completely known."""
        return tuple(evaluate(size, {}, f"buffer {self.name!r}") for size in self.shape)

    @property
    def bytes(self) -> int:
        if self.kind == "scalar":
            return 0
        return math.prod(self.sizes) * element_bytes(self.type)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """True if an array of `shape` fits the buffer. A named size fits any number."""
        return len(shape) == len(self.shape) and all(
            size == given or isinstance(size, str)
            for size, given in zip(self.shape, shape, strict=True)
        )

    def accept(self, array: Array | list[Any] | float) -> Array:
        """
        Converts `array` to this buffer's contents. Lists and numbers get the buffer's type.

        Raises `ProgramError` for an array of another type or shape.
        """
        array = self._array(array)
        if self.kind == "scalar":
            return self._number(array)
        converted = as_element_type(array, self.type)
        if converted is not None and self.takes(array.shape):
            return converted
        given = "x".join([*map(str, array.shape), array.dtype.name])
        remedy = f"reshape it to {'x'.join(map(str, self.shape)) or 'a single number'}"
        if self.takes(array.shape):
            remedy = f"convert it with .astype({dtype_of(self.type).name!r})"
        raise ProgramError(
            f"{self.name!r} must be {self}, but found {given}", f"{self.kind} {self.name!r}", remedy
        )

    def _array(self, value: Array | list[Any] | float) -> Array:
        import numpy as np

        if hasattr(value, "dtype"):
            return np.asarray(value)
        try:
            array = np.array(value, None if self.kind == "scalar" else dtype_of(self.type))
            if (
                self.kind != "scalar"
                and array.dtype.kind in "iu"
                and (array != np.array(value)).any()
            ):
                raise ValueError("a number is not an integer")
            return array
        except (OverflowError, TypeError, ValueError) as error:
            cause = f"{self.name!r} must be {self}, but the value given does not fit: {error}"
            place = f"{self.kind} {self.name!r}"
            remedy = "give numbers of the buffer's type, in lists of equal length"
            raise ProgramError(cause, place, remedy) from None

    def _number(self, array: Array) -> Array:
        import numpy as np

        array = np.asarray(array)
        if array.shape or array.dtype.kind not in "iu" or not 0 <= int(array) < 1 << 31:
            shown = str(array) if array.size == 1 else f"an array of {list(array.shape)}"
            raise ProgramError(
                f"{self.name!r} must be a whole number from 0 to {(1 << 31) - 1}, but "
                f"found {shown}",
                f"input {self.name!r}",
                f"give a number: {self.name}=0",
            )
        return array.astype(np.int64)

    def check(self, place: str) -> None:
        if self.kind != "scalar":
            check_element_type(self.type, f"{place}.type")
        elif self.type != INDEX or self.shape or not is_name(self.name):
            raise ProgramError(
                f"a scalar must have a valid name, the type {INDEX} and no shape, not {self}", place
            )
        if any(isinstance(size, int) and size < 0 for size in self.shape):
            raise ProgramError(f"a size is negative: {list(self.shape)}", f"{place}.shape")
        if self.first is not None and self.kind != "state":
            raise ProgramError("only a state can have a first value", f"{place}.first")
        if self.kind in SHARED and self.is_dynamic:
            raise ProgramError(f"a {self.kind} cannot have dynamic sizes: {self}", f"{place}.shape")
        if self.offset is not None and (self.offset < 0 or self.kind != "temporary"):
            raise ProgramError(
                "only a temporary can have an offset, which must be at least 0", f"{place}.offset"
            )

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.type])


@dataclass(frozen=True)
class EntryPoint:
    """The entry point of a kernel, and its workgroup size."""

    name: str
    workgroup_size: tuple[int, int, int]
    push_constant_bytes: int = field(default=0, metadata={"sparse": True})
    """Size in bytes of the push constants of a launch."""


@dataclass(frozen=True)
class SpecConstant:
    """A specialization constant of a kernel and its default value."""

    id: int
    type: str
    default: int | float | bool
    name: str | None = None


@dataclass(frozen=True)
class Kernel:
    """A SPIR-V module. `binary` and the readable `text` are files of the program's directory."""

    name: str
    binary: str
    text: str | None
    entry_points: tuple[EntryPoint, ...]
    spec_constants: tuple[SpecConstant, ...] = ()


@dataclass(frozen=True)
class Binding:
    """A descriptor and the name of its buffer."""

    set: int
    binding: int
    buffer: str


@dataclass(frozen=True)
class SpecValue:
    """The value of a specialization constant in one dispatch."""

    id: int
    value: int | float | bool


@dataclass(frozen=True)
class PushConstant:
    """A scalar at a byte offset of the push constants."""

    offset: int
    type: str
    value: int | float | str


@dataclass(frozen=True)
class Dispatch:
    """One run of an entry point over a grid of workgroups, after all earlier dispatches."""

    kernel: str
    entry_point: str
    grid: tuple[Number, Number, Number]
    bindings: tuple[Binding, ...]
    spec_constants: tuple[SpecValue, ...] = ()
    push_constants: tuple[PushConstant, ...] = ()
    once: bool = False
    """True if a dispatch depends only on weights. A device may run it only once, at load time."""

    @property
    def workgroups(self) -> tuple[int, int, int]:
        """The grid. Raises `ProgramError` if it is not completely known."""
        x, y, z = (evaluate(count, {}, f"dispatch of {self.entry_point!r}") for count in self.grid)
        return x, y, z

    def check(self, place: str) -> None:
        if any(isinstance(count, int) and count < 1 for count in self.grid):
            raise ProgramError(f"a grid of {list(self.grid)} must be positive", f"{place}.grid")


@dataclass(frozen=True)
class Loop:
    """
    A range of dispatches that a run repeats `steps` times.

    In the expressions of these dispatches, the name `counter` is the index of the step, from 0.
    """

    first: int
    dispatches: int
    """Number of dispatches of a step, beginning with the dispatch of index `first`."""
    steps: Number
    counter: str
    carried: tuple[str, ...]
    """Temporaries and outputs that a step passes to the next step."""

    @property
    def numbers(self) -> range:
        """Indices of the loop's dispatches."""
        return range(self.first, self.first + self.dispatches)

    def check(self, place: str) -> None:
        if self.first < 0 or self.dispatches < 1 or not is_name(self.counter):
            raise ProgramError("a loop has no dispatches, or no name for its counter", place)


@dataclass(frozen=True)
class Equation:
    """Two sizes that must be equal. `because` names the operation that requires the equality."""

    left: Number
    right: Number
    because: str = ""


@dataclass(frozen=True)
class Limit:
    """A size and its maximum. `because` names the operation that requires the maximum."""

    size: Number
    most: Number
    because: str = ""


@dataclass(frozen=True)
class Function:
    """A function of a program other than the first, with the same fields as `Manifest`."""

    function: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    dispatches: tuple[Dispatch, ...]
    memory: int | None = None
    equal: tuple[Equation, ...] = field(default=(), metadata={"sparse": True})
    limits: tuple[Limit, ...] = field(default=(), metadata={"sparse": True})
    loops: tuple[Loop, ...] = field(default=(), metadata={"sparse": True})


@dataclass(frozen=True)
class Manifest:
    """
    The contents of `program.json`. If there are several functions, these fields describe the
    first.

    Weights and states of the same name are one buffer in all functions.
    """

    schema: str
    version: int
    generator: str
    target: str
    subgroup_size: int
    function: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    dispatches: tuple[Dispatch, ...]
    weights: str | None = None
    source: str | None = None
    memory: int | None = None
    """Size in bytes of the memory that temporaries share; None if temporaries share no memory."""
    equal: tuple[Equation, ...] = field(default=(), metadata={"sparse": True})
    """Pairs of sizes that must be equal, besides sizes with the same name."""
    limits: tuple[Limit, ...] = field(default=(), metadata={"sparse": True})
    """Limits of sizes that are computed from scalars."""
    loops: tuple[Loop, ...] = field(default=(), metadata={"sparse": True})
    """The repeated ranges of `dispatches`, in order."""
    component_map: str | None = None
    """Target (name or file) with the `component_map` that kernels need; None if they need none."""
    functions: tuple[Function, ...] = field(default=(), metadata={"sparse": True})
    """All functions except the first."""
    requires: Requires | None = None
    """Requirements on a device; None in programs of older versions."""
    padding: int | None = None
    """Alignment in bytes of the sizes of bound buffers. Kernels may read the padding."""

    def of(self, function: Function) -> Manifest:
        """Returns the manifest of a program that has only this function."""
        fields = {f.name: getattr(function, f.name) for f in dataclasses.fields(function)}
        used = {dispatch.kernel for dispatch in function.dispatches}
        kernels = tuple(kernel for kernel in self.kernels if kernel.name in used)
        return replace(self, **fields, kernels=kernels, functions=())

    @cached_property
    def states(self) -> list[Buffer]:
        """Buffers whose contents are preserved between runs, by name."""
        return [buffer for buffer in self.buffers if buffer.kind == "state"]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    def buffer(self, name: str) -> Buffer:
        return self._by_name[name]

    @cached_property
    def is_dynamic(self) -> bool:
        """True if sizes, or the number of steps, are known only when the program runs."""
        return bool(self.loops) or any(
            buffer.is_dynamic or buffer.kind == "scalar" for buffer in self.buffers
        )

    @cached_property
    def inputs(self) -> list[Buffer]:
        """The buffers and scalars that the caller gives, in the source function's order."""
        return [b for b in map(self.buffer, self.arguments) if b.kind in GIVEN]

    @cached_property
    def outputs(self) -> list[Buffer]:
        """The buffers that the caller reads, in the source function's order."""
        return [self.buffer(name) for name in self.results]

    @property
    def files(self) -> list[str]:
        """The names of the files in a program's folder, including the kernels' texts."""
        named = [self.weights, self.source]
        named += [name for kernel in self.kernels for name in (kernel.binary, kernel.text)]
        return [MANIFEST, LAYERS, *filter(None, named)]

    def check_files(self, place: str) -> None:
        """Raises `ProgramError` for a file outside the folder, or two files with one name."""
        for name in self.files:
            if not is_inside(name):
                raise ProgramError(f"{name!r} is outside the program's directory", place)
        places = set(self.files)
        folders = {name[:end] for name in places for end, c in enumerate(name) if c == "/"}
        if len(places) < len(self.files) or folders & places:
            raise ProgramError("two files have the same name", place, AGAIN)

    def check(self, place: str) -> None:
        self.check_files(place)
        names = {b.name for b in self.buffers}
        if len(names) != len(self.buffers):
            raise ProgramError("two buffers have the same name", f"{place}.buffers")
        for field_name in ("arguments", "results"):
            for name in getattr(self, field_name):
                _check_known(name, names, "buffer", f"{place}.{field_name}")
        given = {size for b in self.inputs for size in b.shape if is_name(size)}
        given |= {b.name for b in self.inputs if b.kind == "scalar"}
        for buffer in self.buffers:
            for size in (name for extent in buffer.shape for name in names_in(extent)):
                _check_known(size, given, "size", f"{place}.buffers")
        for i, buffer in enumerate(self.buffers):
            if buffer.offset is not None and buffer.offset + buffer.bytes > (self.memory or 0):
                raise ProgramError(
                    f"{buffer.name!r} ends beyond the {self.memory or 0} bytes of the memory",
                    f"{place}.buffers[{i}]",
                )
        kernels = {k.name: k for k in self.kernels}
        if len(kernels) != len(self.kernels):
            raise ProgramError("two kernels have the same name", f"{place}.kernels")
        for i, dispatch in enumerate(self.dispatches):
            where = f"{place}.dispatches[{i}]"
            _check_known(dispatch.kernel, kernels, "kernel", where)
            entry_points = [e.name for e in kernels[dispatch.kernel].entry_points]
            _check_known(dispatch.entry_point, entry_points, "entry point", where)
            for binding in dispatch.bindings:
                _check_known(binding.buffer, names, "buffer", f"{where}.bindings")
        self._check_loops(given, place)
        self._check_functions(place)

    def _check_loops(self, given: Container[str], place: str) -> None:
        """Checks that loops do not overlap, and that their counters have unique names."""
        end = 0
        names = {buffer.name for buffer in self.buffers}
        for i, loop in enumerate(self.loops):
            where = f"{place}.loops[{i}]"
            if loop.first < end or loop.numbers.stop > len(self.dispatches):
                raise ProgramError(
                    "a loop contains dispatches of another loop, or dispatches that do not exist",
                    where,
                )
            if loop.counter in given or loop.counter in names:
                raise ProgramError(f"the counter {loop.counter!r} has the name of a size", where)
            for name in names_in(loop.steps):
                _check_known(name, given, "size", where)
            for name in loop.carried:
                _check_known(name, names, "buffer", where)
            end = loop.numbers.stop

    def _check_functions(self, place: str) -> None:
        """Checks every function, and that shared buffers have equal records in all functions."""
        shared: dict[str, Buffer] = {}
        for i, function in enumerate((self, *self.functions)):
            where = place if function is self else f"{place}.functions[{i - 1}]"
            if isinstance(function, Function):
                self.of(function).check(where)
            for buffer in function.buffers:
                if buffer.kind in SHARED and shared.setdefault(buffer.name, buffer) != buffer:
                    other = shared[buffer.name]
                    raise ProgramError(
                        f"{buffer.name!r} is {buffer} here, but {other} in another function",
                        f"{where}.buffers",
                    )
        names = [function.function for function in (self, *self.functions)]
        if len(set(names)) != len(names):
            raise ProgramError("two functions have the same name", f"{place}.functions")


def _check_known(name: str, names: Container[str], what: str, place: str) -> None:
    if name not in names:
        raise ProgramError(f"there is no {what} {name!r}", place, AGAIN)


def is_inside(name: str) -> bool:
    """True if a file name of a manifest stays inside the program's folder, on any system."""
    parts = name.split("/")
    return all(parts) and not {".", ".."} & {*parts} and not set("\\:") & {*name}
