"""
The compiled program: what a runner in any language needs, and nothing about how it came to be.

A program is a directory: `program.json` (the schema is this module's records, documented in
docs/program.md), `kernels/NAME.spv`, where asked for the same as text in `kernels/NAME.mlir`, the
weights, and the source that `--check` compares with. A directory appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from xdsl_spirv.runtime.elements import Array, as_element_type, check_element_type, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, evaluate, is_name, names_in
from xdsl_spirv.runtime.records import from_json, to_json
from xdsl_spirv.runtime.weights import load_weights, save_weights

if TYPE_CHECKING:
    from xdsl_spirv.runtime.layers import Layer
    from xdsl_spirv.runtime.session import Session

SCHEMA = "xdsl-spirv-program"
VERSION = 2
DYNAMIC_VERSION = 3
"""The version of a program with sizes that are known only when it runs."""
STATE_VERSION = 4
"""The version of a program with states, several functions, or numbers that the caller gives."""
READABLE = (1, 2, 3, 4)
"""Versions that are read; what the second adds may be missing."""

MANIFEST = "program.json"
SOURCE = "source.mlir"
WEIGHTS = "weights.safetensors"
KERNELS = "kernels"
LAYERS = "layers.json"


KEPT = 16
"""Sets of sizes for which a program keeps what it is at them."""

BufferKind = Literal["input", "scalar", "weight", "state", "output", "temporary"]
GIVEN = ("input", "scalar")
"""What the caller gives."""
SHARED = ("weight", "state")
"""What all functions of a program have together."""
INDEX = "index"
"""The type of a scalar: a number that sizes, grids and push constants are computed from."""


@dataclass(frozen=True)
class Buffer:
    """
    A row-major array in a storage buffer; `kind` says who fills or reads it beside kernels.

    A `scalar` is in no buffer: a number that the caller gives, known by its name in expressions.
    """

    name: str
    kind: BufferKind
    type: str
    shape: tuple[Number, ...]
    offset: int | None = None
    """Where a temporary lies in the memory that all of them share (`Manifest.memory`)."""
    first: int | float | None = None
    """What all elements of a state are before the first run; None: the weights' file says it."""

    @property
    def is_dynamic(self) -> bool:
        """Whether a size is known only when the program runs."""
        return any(isinstance(size, str) for size in self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape, where all of it is known; raises `ProgramError` where it is not."""
        return tuple(evaluate(size, {}, f"buffer {self.name!r}") for size in self.shape)

    @property
    def bytes(self) -> int:
        if self.kind == "scalar":
            return 0
        return math.prod(self.sizes) * dtype_of(self.type).itemsize

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of that shape may be the contents, names standing for any size."""
        return len(shape) == len(self.shape) and all(
            size == given or isinstance(size, str)
            for size, given in zip(self.shape, shape, strict=True)
        )

    def accept(self, array: Array) -> Array:
        """`array` as this buffer's contents; raises `ProgramError` for another type or shape."""
        if self.kind == "scalar":
            return self._number(array)
        converted = as_element_type(array, self.type)
        if converted is not None and self.takes(array.shape):
            return converted
        given = "x".join([*map(str, array.shape), array.dtype.name])
        remedy = f"reshape it to {'x'.join(map(str, self.shape))}"
        if self.takes(array.shape):
            remedy = f"convert it with .astype({dtype_of(self.type).name!r})"
        raise ProgramError(
            f"{self.name!r} should be {self}, found {given}", f"{self.kind} {self.name!r}", remedy
        )

    def _number(self, array: Array) -> Array:
        import numpy as np

        array = np.asarray(array)
        if array.shape or array.dtype.kind not in "iu" or not 0 <= int(array) < 1 << 31:
            shown = str(array) if array.size == 1 else f"an array of {list(array.shape)}"
            raise ProgramError(
                f"{self.name!r} should be a whole number from 0 to {(1 << 31) - 1}, found {shown}",
                f"input {self.name!r}",
                f"give it as a number: {self.name}=0",
            )
        return array.astype(np.int64)

    def check(self, place: str) -> None:
        if self.kind != "scalar":
            check_element_type(self.type, f"{place}.type")
        elif self.type != INDEX or self.shape or not is_name(self.name):
            raise ProgramError(f"a scalar is a name of type {INDEX}, not {self}", place)
        if any(isinstance(size, int) and size < 0 for size in self.shape):
            raise ProgramError(f"a size is negative: {list(self.shape)}", f"{place}.shape")
        if self.first is not None and self.kind != "state":
            raise ProgramError(f"a {self.kind} with a first value", f"{place}.first")
        if self.kind == "state" and self.is_dynamic:
            raise ProgramError(f"a state of dynamic sizes: {self}", f"{place}.shape")
        if self.offset is not None and (self.offset < 0 or self.kind != "temporary"):
            raise ProgramError(f"a {self.kind} at {self.offset}", f"{place}.offset")

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.type])


@dataclass(frozen=True)
class EntryPoint:
    """A kernel function and the invocations of one of its workgroups."""

    name: str
    workgroup_size: tuple[int, int, int]


@dataclass(frozen=True)
class SpecConstant:
    """A specialization constant of a kernel and the value it has if nobody gives another."""

    id: int
    type: str
    default: int | float | bool
    name: str | None = None


@dataclass(frozen=True)
class Kernel:
    """
    A SPIR-V module; `binary` is a file of the program's directory, and so is `text`, for readers.
    """

    name: str
    binary: str
    text: str | None
    entry_points: tuple[EntryPoint, ...]
    spec_constants: tuple[SpecConstant, ...] = ()

    def check(self, place: str) -> None:
        for name in filter(None, (self.binary, self.text)):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ProgramError(f"{name!r} is outside the program's directory", place)


@dataclass(frozen=True)
class Binding:
    """The buffer behind a descriptor."""

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
    """One run of an entry point over a grid of workgroups, after all earlier ones have finished."""

    kernel: str
    entry_point: str
    grid: tuple[Number, Number, Number]
    bindings: tuple[Binding, ...]
    spec_constants: tuple[SpecValue, ...] = ()
    push_constants: tuple[PushConstant, ...] = ()
    once: bool = False
    """Whether it computes from weights alone: a device may run it when it loads the program."""

    @property
    def workgroups(self) -> tuple[int, int, int]:
        """The grid, where all of it is known; raises `ProgramError` where it is not."""
        x, y, z = (evaluate(count, {}, f"dispatch of {self.entry_point!r}") for count in self.grid)
        return x, y, z

    def check(self, place: str) -> None:
        if any(isinstance(count, int) and count < 1 for count in self.grid):
            raise ProgramError(f"a grid of {list(self.grid)} is not positive", f"{place}.grid")


@dataclass(frozen=True)
class Equation:
    """Two sizes that must be equal; `because` names the operation that says so."""

    left: Number
    right: Number
    because: str = ""


@dataclass(frozen=True)
class Limit:
    """A size and the most that it may be; `because` names the operation that says so."""

    size: Number
    most: Number
    because: str = ""


@dataclass(frozen=True)
class Function:
    """What `Manifest` says of its first function, of another one."""

    function: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    dispatches: tuple[Dispatch, ...]
    memory: int | None = None
    equal: tuple[Equation, ...] = field(default=(), metadata={"sparse": True})
    limits: tuple[Limit, ...] = field(default=(), metadata={"sparse": True})


@dataclass(frozen=True)
class Manifest:
    """
    The contents of `program.json`; of several functions, what stands here is of the first.

    Weights and states of one name are one buffer in all functions.
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
    """Bytes that the temporaries need where they share memory at their offsets."""
    equal: tuple[Equation, ...] = field(default=(), metadata={"sparse": True})
    """What must hold of the sizes of inputs, beside that equal names are equal sizes."""
    limits: tuple[Limit, ...] = field(default=(), metadata={"sparse": True})
    """What sizes that are computed from scalars may be."""
    functions: tuple[Function, ...] = field(default=(), metadata={"sparse": True})
    """The functions behind the first."""

    def of(self, function: Function) -> Manifest:
        """The manifest of a program with that function alone."""
        fields = {f.name: getattr(function, f.name) for f in dataclasses.fields(function)}
        used = {dispatch.kernel for dispatch in function.dispatches}
        kernels = tuple(kernel for kernel in self.kernels if kernel.name in used)
        return replace(self, **fields, kernels=kernels, functions=())

    @property
    def states(self) -> list[Buffer]:
        """The buffers that keep their contents between runs."""
        return [buffer for buffer in self.buffers if buffer.kind == "state"]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    def buffer(self, name: str) -> Buffer:
        return self._by_name[name]

    @property
    def is_dynamic(self) -> bool:
        """Whether sizes are known only when the program runs."""
        return any(buffer.is_dynamic or buffer.kind == "scalar" for buffer in self.buffers)

    @property
    def inputs(self) -> list[Buffer]:
        """What the caller gives, buffers and scalars, in the source function's order."""
        return [b for b in map(self.buffer, self.arguments) if b.kind in GIVEN]

    @property
    def outputs(self) -> list[Buffer]:
        """The buffers that the caller reads, in the source function's order."""
        return [self.buffer(name) for name in self.results]

    def check(self, place: str) -> None:
        names = [b.name for b in self.buffers]
        if len(set(names)) != len(names):
            raise ProgramError("two buffers have one name", f"{place}.buffers")
        given = {size for b in self.inputs for size in b.shape if is_name(size)}
        given |= {b.name for b in self.inputs if b.kind == "scalar"}
        for buffer in self.buffers:
            for size in (name for extent in buffer.shape for name in names_in(extent)):
                _known(size, given, "size", f"{place}.buffers")
        for i, buffer in enumerate(self.buffers):
            if buffer.offset is not None and buffer.offset + buffer.bytes > (self.memory or 0):
                raise ProgramError(
                    f"{buffer.name!r} ends beyond the {self.memory or 0} bytes of the memory",
                    f"{place}.buffers[{i}]",
                    "compile the program again",
                )
        for field_name in ("arguments", "results"):
            for name in getattr(self, field_name):
                _known(name, names, "buffer", f"{place}.{field_name}")
        kernels = {k.name: k for k in self.kernels}
        for i, dispatch in enumerate(self.dispatches):
            where = f"{place}.dispatches[{i}]"
            _known(dispatch.kernel, kernels, "kernel", where)
            entry_points = [e.name for e in kernels[dispatch.kernel].entry_points]
            _known(dispatch.entry_point, entry_points, "entry point", where)
            for binding in dispatch.bindings:
                _known(binding.buffer, names, "buffer", f"{where}.bindings")
        self._check_functions(place)

    def _check_functions(self, place: str) -> None:
        """Every function by itself; what they share is the same in all."""
        shared: dict[str, Buffer] = {}
        for i, function in enumerate((self, *self.functions)):
            where = place if function is self else f"{place}.functions[{i - 1}]"
            if isinstance(function, Function):
                self.of(function).check(where)
            for buffer in function.buffers:
                if buffer.kind in SHARED and shared.setdefault(buffer.name, buffer) != buffer:
                    other = shared[buffer.name]
                    raise ProgramError(
                        f"{buffer.name!r} is {buffer}, and {other} in another function",
                        f"{where}.buffers",
                        "compile the program again",
                    )
        names = [function.function for function in (self, *self.functions)]
        if len(set(names)) != len(names):
            raise ProgramError("two functions have one name", f"{place}.functions")


def _known(name: str, names: object, what: str, place: str) -> None:
    if name not in list(names):  # type: ignore[call-overload]
        raise ProgramError(f"there is no {what} {name!r}", place, "compile the program again")


@dataclass(frozen=True)
class KernelCode:
    """A kernel's SPIR-V binary."""

    binary: bytes

    @property
    def text(self) -> str:
        """The module as MLIR text. Raises `SPIRVDecodeError` for damaged bytes."""
        from xdsl_spirv.runtime.modules import text_of
        from xdsl_spirv.serialization.decode.decoder import decode

        return text_of(decode(self.binary))


@dataclass
class Program:
    """A compiled program in memory; `save` and `load` move it to and from a directory."""

    manifest: Manifest
    code: dict[str, KernelCode]
    weights: dict[str, Array] = field(default_factory=dict)
    source: str | None = None
    layers: tuple[Layer, ...] = ()
    """What each dispatch computes and why it runs as it does; empty where nobody wrote it down."""
    _at_sizes: dict[tuple[tuple[str, int], ...], Program] = field(
        default_factory=dict[Any, Any], repr=False, compare=False
    )

    @cached_property
    def functions(self) -> dict[str, Program]:
        """Each function as a program of its own, which shares code and weights with the others."""
        manifest = self.manifest
        if not manifest.functions:
            return {manifest.function: self}
        first = Function(
            **{f.name: getattr(manifest, f.name) for f in dataclasses.fields(Function)}
        )
        functions: dict[str, Program] = {}
        start = 0
        for function in (first, *manifest.functions):
            end = start + len(function.dispatches)
            layers = self.layers[start:end]
            alone = manifest.of(function)
            functions[function.function] = Program(
                alone, self.code, self.weights, self.source, layers
            )
            start = end
        return functions

    def function(self, name: str | None = None) -> Program:
        """
        The function of a name; the only one without. Raises `ProgramError` listing what there is.
        """
        functions = self.functions
        if name is None and len(functions) == 1:
            return next(iter(functions.values()))
        if name is None or name not in functions:
            cause = "which function?" if name is None else f"there is no function {name!r}"
            raise ProgramError(cause, f"functions: {', '.join(functions)}", "name one of them")
        return functions[name]

    def first_values(self) -> dict[str, Array]:
        """What states hold before the first run, as new arrays."""
        import numpy as np

        states = {b.name: b for p in self.functions.values() for b in p.manifest.states}
        return {
            name: self.weights[name].copy()
            if buffer.first is None
            else np.full(buffer.sizes, buffer.first, dtype_of(buffer.type))
            for name, buffer in states.items()
        }

    def session(self, device: str = "interpreter", isolated: bool = False) -> Session:
        """
        A session on a device (`interpreter`, `vulkan`, `vulkan:N`): runs that share states.

        `isolated`: the driver runs in a process of its own, which may crash.
        """
        from xdsl_spirv.runtime.session import open_session

        return open_session(self, device, isolated)

    def check_sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """The sizes that inputs have by name; raises `ProgramError` for those that do not fit."""
        from xdsl_spirv.runtime.concrete_sizes import sizes_of

        return sizes_of(self.manifest, inputs)

    def at(self, inputs: Mapping[str, Array]) -> Program:
        """
        The program for inputs of these shapes: itself, or what it is at their sizes.

        The same object for the same sizes, as long as it is among the latest. Raises `ProgramError`
        for inputs that do not fit or do not fit each other.
        """
        return self.at_these(self.check_sizes(inputs)) if self.manifest.is_dynamic else self

    def at_these(self, sizes: Mapping[str, int]) -> Program:
        """The program at sizes by their names; raises `ProgramError` for what it cannot be at."""
        if not self.manifest.is_dynamic:
            return self
        from xdsl_spirv.runtime.concrete_sizes import at_sizes

        key = tuple(sorted(sizes.items()))
        program = self._at_sizes.pop(key, None)
        if program is None:
            manifest, kept = at_sizes(self.manifest, sizes)
            layers = tuple(self.layers[n] for n in kept) if self.layers else ()
            program = Program(manifest, self.code, self.weights, self.source, layers)
            while len(self._at_sizes) >= KEPT:
                del self._at_sizes[next(iter(self._at_sizes))]
        self._at_sizes[key] = program
        return program

    @property
    def at_sizes(self) -> list[Program]:
        """What `at` has made of it and still keeps."""
        return list(self._at_sizes.values())

    def __call__(self, *arrays: Array, device: str = "interpreter", **named: Array) -> Any:
        """
        Run the program on numpy arrays, by position or by name.

        Returns the result, or a tuple where there are several. Raises what `runtime.run` does.
        """
        from xdsl_spirv.runtime.execution import run

        inputs = self.function().manifest.inputs
        if len(arrays) > len(inputs):
            raise ProgramError(
                f"{len(arrays)} arrays were given",
                f"inputs: {', '.join(f'{b.name}: {b}' for b in inputs)}",
                "leave the others out",
            )
        given = dict(zip((b.name for b in inputs), arrays, strict=False)) | named
        results = tuple(run(self, given, device).values())
        return results[0] if len(results) == 1 else results

    def save(self, folder: str | os.PathLike[str], text: bool = False) -> None:
        """
        Write the program's directory, replacing an older program there; with the kernels' `text`.

        Raises `ProgramError` if `folder` holds something else or cannot be written; what was there
        stays then.
        """
        target = Path(folder)
        _refuse_strangers(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(
                dir=target.parent, prefix=f".{target.name}-"
            ) as scratch:
                self._write(Path(scratch, "new"), text)
                if target.exists():
                    os.rename(target, Path(scratch, "old"))
                os.rename(Path(scratch, "new"), target)
        except OSError as error:
            raise ProgramError(
                f"cannot write the program: {error.strerror}", str(error.filename or target)
            ) from error

    def _write(self, folder: Path, text: bool) -> None:
        (folder / KERNELS).mkdir(parents=True)
        kernels = [
            replace(kernel, text=f"{KERNELS}/{kernel.name}.mlir" if text else None)
            for kernel in self.manifest.kernels
        ]
        for kernel in kernels:
            (folder / kernel.binary).write_bytes(self.code[kernel.name].binary)
            if kernel.text is not None:
                (folder / kernel.text).write_text(self.code[kernel.name].text)
        if self.manifest.weights is not None:
            save_weights(folder / self.manifest.weights, self.weights)
        if self.manifest.source is not None:
            (folder / self.manifest.source).write_text(self.source or "")
        if self.layers:
            from xdsl_spirv.runtime.layers import to_text

            (folder / LAYERS).write_text(to_text(self.layers))
        manifest = replace(self.manifest, kernels=tuple(kernels))
        (folder / MANIFEST).write_text(_readable(json.dumps(to_json(manifest), indent=2)))

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> Program:
        """Read a program's directory; raises `ProgramError` naming the file or field at fault."""
        base = Path(folder)
        manifest = _load_manifest(base / MANIFEST)
        code = {kernel.name: KernelCode(_read(base / kernel.binary)) for kernel in manifest.kernels}
        weights = {} if manifest.weights is None else load_weights(base / manifest.weights)
        _check_weights(manifest, weights, base / (manifest.weights or WEIGHTS))
        source = None if manifest.source is None else _read(base / manifest.source).decode()
        return Program(manifest, code, weights, source, _load_layers(base / LAYERS, manifest))


def _readable(text: str) -> str:
    """Indented JSON with each list of scalars and each record of them on one line."""
    for brackets in ("[]", "{}"):
        flat = re.compile(rf"\{brackets[0]}\n[^{{}}]{{1,100}}?\n\s*\{brackets[1]}")
        text = flat.sub(lambda block: _joined(block.group()), text)
    return text + "\n"


def _joined(text: str) -> str:
    return re.sub(r"(?<=[\[{]) | (?=[\]}])", "", re.sub(r"\s*\n\s*", " ", text))


def _refuse_strangers(target: Path) -> None:
    """Only an earlier program, or nothing, may be replaced."""
    if target.is_dir() and not target.is_symlink():
        if (target / MANIFEST).is_file() or not any(target.iterdir()):
            return
        cause = "the output directory exists and holds something other than a program"
    elif not target.exists() and not target.is_symlink():
        return
    else:
        cause = "the output directory is not a directory"
    raise ProgramError(cause, str(target), "name another one, or remove it")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramError(
            f"the program cannot be read: {error.strerror}",
            str(path),
            "give a directory that `xdsl-spirv compile` wrote",
        ) from error


def _load_manifest(path: Path) -> Manifest:
    try:
        data = json.loads(_read(path))
    except ValueError as error:
        raise ProgramError(f"not JSON: {error}", str(path), "compile the program again") from error
    header = (data.get("schema"), data.get("version")) if isinstance(data, Mapping) else None
    if header not in [(SCHEMA, version) for version in READABLE]:
        raise ProgramError(
            f"expected the schema {SCHEMA!r}, version {VERSION}, found {header}",
            str(path),
            "compile the program again with this version of xdsl-spirv",
        )
    return from_json(Manifest, data, path.name)


def _load_layers(path: Path, manifest: Manifest) -> tuple[Layer, ...]:
    """What is known of the dispatches: a runner needs none of it, so it may be missing."""
    if not path.is_file():
        return ()
    from xdsl_spirv.runtime.layers import from_text

    layers = from_text(_read(path).decode("utf-8", "replace"), str(path))
    dispatches = sum(len(f.dispatches) for f in (manifest, *manifest.functions))
    if len(layers) != dispatches:
        raise ProgramError(
            f"{len(layers)} layers for {dispatches} dispatches",
            str(path),
            "compile the program again",
        )
    return layers


def _check_weights(manifest: Manifest, weights: Mapping[str, Array], path: Path) -> None:
    buffers = [buffer for f in (manifest, *manifest.functions) for buffer in f.buffers]
    for buffer in buffers:
        if buffer.kind not in SHARED or buffer.first is not None:
            continue
        array = weights.get(buffer.name)
        given = "nothing" if array is None else f"{list(array.shape)} of {array.dtype}"
        if array is None or array.shape != buffer.shape or array.dtype != dtype_of(buffer.type):
            raise ProgramError(
                f"the {buffer.kind} {buffer.name!r} should be {buffer}, found {given}",
                str(path),
                "compile the program again",
            )
