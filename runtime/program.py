"""
Defines the compiled program, with all data that a runner in any language needs.

A program is a directory: `program.json` (the schema is `manifest`'s records, documented in
docs/program.md), `kernels/NAME.spv`, optionally their texts `kernels/NAME.mlir`, the weights, and
the source, whose results `--check` compares. A directory is written atomically.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import Array, dtype_of, element_bytes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import (
    KERNELS,
    LAYERS,
    MANIFEST,
    READABLE,
    SCHEMA,
    SHARED,
    SOURCE,
    VERSION,
    WEIGHTS,
    Buffer,
    Dispatch,
    Function,
    Manifest,
    from_json,
    to_json,
)
from xdsl_spirv.runtime.needs import Needs
from xdsl_spirv.runtime.replacing import FolderKind
from xdsl_spirv.runtime.requires import Launch, Requires, requires_of
from xdsl_spirv.speech import counted, did_you_mean

if TYPE_CHECKING:
    from xdsl_spirv.runtime.folder import Folder
    from xdsl_spirv.runtime.layers import Layer
    from xdsl_spirv.runtime.session import Session

PROGRAM_FOLDER = FolderKind("program", MANIFEST)

KEPT = 16
"""Number of sets of sizes for which a program caches its specialized form."""


@dataclass(frozen=True)
class KernelCode:
    """A kernel's SPIR-V binary."""

    binary: bytes
    verified: bool = field(default=False, init=False, compare=False)
    """True if the compiler encoded the binary from a verified module."""

    @classmethod
    def of_verified(cls, binary: bytes) -> KernelCode:
        """Returns the code of a verified module. A copy with another binary is not verified."""
        code = cls(binary)
        object.__setattr__(code, "verified", True)
        return code

    def __repr__(self) -> str:
        return f"<kernel of {len(self.binary):,} bytes>"

    @property
    def text(self) -> str:
        """Returns the module as MLIR text. Raises `SPIRVDecodeError` for damaged bytes."""
        from xdsl_spirv.runtime.modules import text_of
        from xdsl_spirv.serialization.decode.decoder import decode

        return text_of(decode(self.binary))


@dataclass(repr=False)
class Program:
    """A compiled program in memory. `save` and `load` write and read its directory."""

    manifest: Manifest
    code: dict[str, KernelCode]
    weights: dict[str, Array] = field(default_factory=dict)
    source: str | None = None
    layers: tuple[Layer, ...] = ()
    """Description of each dispatch, empty if it was not recorded."""
    _at_sizes: dict[tuple[tuple[str, int], ...], Program] = field(
        default_factory=dict[Any, Any], repr=False, compare=False
    )

    def __repr__(self) -> str:
        lines = [
            f"{p.manifest.function}({', '.join(f'{b.name}: {b}' for b in p.manifest.inputs)}) -> "
            + ", ".join(map(str, p.manifest.outputs))
            for p in self.functions.values()
        ]
        dispatches = sum(len(p.manifest.dispatches) for p in self.functions.values())
        held = sum(array.nbytes for array in self.weights.values())
        return (
            f"<program for {self.manifest.target}: {'; '.join(lines)}; "
            f"{counted(dispatches, 'dispatch')} of {counted(len(self.code), 'kernel')}, "
            f"{held:,} bytes of weights>"
        )

    @cached_property
    def functions(self) -> dict[str, Program]:
        """
        Returns each function as a separate program, which shares code and weights with the others.
        """
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
        """Returns the named function, or the only one. Raises `ProgramError` if there is none."""
        functions = self.functions
        if name is None and len(functions) == 1:
            return next(iter(functions.values()))
        if name is None or name not in functions:
            cause = "no function is named" if name is None else f"there is no function {name!r}"
            remedy = did_you_mean(name or "", functions, "name one of them")
            raise ProgramError(cause, f"functions: {', '.join(functions)}", remedy)
        return functions[name]

    def first_values(self) -> dict[str, Array]:
        """Returns the contents of states before the first run, as new arrays."""
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
        Opens a session on a device (`interpreter`, `vulkan`, `vulkan:N`), whose runs share states.

        With `isolated`, the driver runs in a separate process, so that a crash is harmless.
        """
        from xdsl_spirv.runtime.default_device import open_session

        return open_session(self, device, isolated)

    def check_sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """Returns the sizes of inputs by name. Raises `ProgramError` for inputs that do not fit."""
        from xdsl_spirv.runtime.concrete_sizes import sizes_of

        return sizes_of(self.manifest, inputs)

    def at(self, inputs: Mapping[str, Array]) -> Program:
        """
        Returns the program for inputs of these shapes: itself, or a program specialized to their
        sizes.

        The most recent specialized programs are cached. Raises `ProgramError` for inputs that do
        not fit the program or each other.
        """
        return self.at_these(self.check_sizes(inputs)) if self.manifest.is_dynamic else self

    def at_these(self, sizes: Mapping[str, int]) -> Program:
        """
        Returns the program specialized to the given sizes, by name. Raises `ProgramError` for
        invalid sizes.
        """
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
        """The specialized programs that are cached."""
        return list(self._at_sizes.values())

    def __call__(self, *arrays: Any, device: str | None = None, **named: Any) -> Any:
        """
        Runs the program on numpy arrays or lists, given by position or by name.

        `device` is `interpreter`, `vulkan` or `vulkan:N`. The default is that of `xdsl-spirv run`:
        the device that XDSL_SPIRV_DEVICE names, otherwise the best device that can run the
        program, otherwise the interpreter, with an `InterpreterWarning`. Returns the result, or a
        tuple of several. Raises the errors of `runtime.run`.
        """
        from xdsl_spirv.runtime.default_device import run_on

        inputs = self.function().manifest.inputs
        if any(isinstance(array, Mapping) for array in arrays):
            raise ProgramError(
                "a dictionary was given in place of an array", "", "write program(**inputs)"
            )
        if len(arrays) > len(inputs):
            raise ProgramError(
                f"too many arrays: {len(arrays)} were given",
                f"inputs: {', '.join(f'{b.name}: {b}' for b in inputs)}",
                "pass only these inputs",
            )
        given = dict(zip((b.name for b in inputs), arrays, strict=False)) | named
        results = tuple(run_on(device, self, given).values())
        return results[0] if len(results) == 1 else results

    def save(self, folder: str | os.PathLike[str], text: bool = False) -> None:
        """
        Writes the program's directory, and replaces an older program in it. With `text`, also
        writes the kernels' texts.

        Raises `ProgramError` if `folder` contains something else or cannot be written. The old
        contents then remain. If the process is killed, the folder has either the old or the new
        contents.
        """
        with PROGRAM_FOLDER.replacing(folder) as scratch:
            self._write(scratch, text)

    def _write(self, folder: Path, text: bool) -> None:
        kernels = tuple(
            replace(kernel, text=f"{KERNELS}/{kernel.name}.mlir" if text else None)
            for kernel in self.manifest.kernels
        )
        manifest = replace(self.manifest, kernels=kernels)
        manifest.check_files(MANIFEST)
        for kernel in kernels:
            (folder / kernel.binary).parent.mkdir(parents=True, exist_ok=True)
            (folder / kernel.binary).write_bytes(self.code[kernel.name].binary)
            if kernel.text is not None:
                (folder / kernel.text).write_text(self.code[kernel.name].text, encoding="utf-8")
        if self.manifest.weights is not None:
            from xdsl_spirv.runtime.weights import save_weights

            save_weights(folder / self.manifest.weights, self.weights)
        if self.manifest.source is not None:
            (folder / self.manifest.source).write_text(self.source or "", encoding="utf-8")
        if self.layers:
            from xdsl_spirv.runtime.layers import to_text

            (folder / LAYERS).write_text(to_text(self.layers), encoding="utf-8")
        text_of_manifest = _readable(json.dumps(to_json(manifest), indent=2))
        (folder / MANIFEST).write_text(text_of_manifest, encoding="utf-8")

    @staticmethod
    @stage("reading the program")
    def load(folder: str | os.PathLike[str], unsafe: bool = False) -> Program:
        """
        Reads a program's directory. Raises `ProgramError` with the wrong file or field.

        With `unsafe`, the kernels are not validated and not compared with the manifest.
        """
        from xdsl_spirv.runtime.folder import KERNEL_BYTES, MANIFEST_BYTES, SOURCE_BYTES, Folder

        base = Folder(folder)
        text = base.read(MANIFEST, MANIFEST_BYTES)
        manifest = _manifest_of(text, str(base.path / MANIFEST))
        binaries = {k.name: base.read(k.binary, KERNEL_BYTES) for k in manifest.kernels}
        if not unsafe:
            from xdsl_spirv.runtime.caches import checked_once

            def check() -> None:
                from xdsl_spirv.runtime.agreement import check_kernels

                check_kernels(manifest, binaries)

            checked_once([text, *binaries.values()], check)
        weights = _load_weights(manifest, base)
        source = None if manifest.source is None else base.read(manifest.source, SOURCE_BYTES)
        code = {name: KernelCode(binary) for name, binary in binaries.items()}
        layers = _load_layers(base, manifest)
        return Program(manifest, code, weights, _text(source, base, manifest.source), layers)


def _readable(text: str) -> str:
    """Formats JSON with indentation. Lists and records of scalars are on one line."""
    for brackets in ("[]", "{}"):
        flat = re.compile(rf"\{brackets[0]}\n[^{{}}]{{1,100}}?\n\s*\{brackets[1]}")
        text = flat.sub(lambda block: _join_lines(block.group()), text)
    return text + "\n"


def _join_lines(text: str) -> str:
    return re.sub(r"(?<=[\[{]) | (?=[\]}])", "", re.sub(r"\s*\n\s*", " ", text))


def _manifest_of(text: bytes, place: str) -> Manifest:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramError(
            f"the file is not JSON: {error}", place, "compile the program again"
        ) from error
    _check_version(data, place)
    from xdsl_spirv.runtime.launches import check_launches

    manifest = from_json(Manifest, data, MANIFEST)
    check_launches(manifest, MANIFEST)
    for i, function in enumerate(manifest.functions):
        check_launches(manifest.of(function), f"{MANIFEST}.functions[{i}]")
    return manifest


def _check_version(data: object, place: str) -> None:
    """Raises `ProgramError` for data that is not a manifest, or has an unknown version."""
    header = cast(Mapping[str, object], data) if isinstance(data, Mapping) else {}
    schema, version = header.get("schema"), header.get("version")
    if schema != SCHEMA:
        cause, remedy = (
            f"the schema must be {SCHEMA!r}, not {schema!r}",
            "give a program's directory",
        )
        raise ProgramError(cause, place, remedy)
    if type(version) is not int or version not in READABLE:
        newer = isinstance(version, int) and version > VERSION
        raise ProgramError(
            f"{SCHEMA} of version {version!r} is unknown: versions 1 to {VERSION} are supported",
            place,
            "update xdsl-spirv, or compile the program with this version"
            if newer
            else "compile the program again",
        )


def _text(source: bytes | None, base: Folder, name: str | None) -> str | None:
    try:
        return None if source is None else source.decode()
    except UnicodeDecodeError as error:
        place = str(base.path / (name or SOURCE))
        raise ProgramError("the source is not text", place, "compile the program again") from error


def _load_layers(base: Folder, manifest: Manifest) -> tuple[Layer, ...]:
    """Loads the optional information about dispatches. Running does not need it."""
    if not base.has(LAYERS):
        return ()
    from xdsl_spirv.runtime.folder import MANIFEST_BYTES
    from xdsl_spirv.runtime.layers import from_text

    path = str(base.path / LAYERS)
    layers = from_text(base.read(LAYERS, MANIFEST_BYTES).decode("utf-8", "replace"), path)
    dispatches = sum(len(f.dispatches) for f in (manifest, *manifest.functions))
    if len(layers) != dispatches:
        raise ProgramError(
            f"layers.json has {len(layers)} layers for {dispatches} dispatches",
            path,
            "compile the program again",
        )
    return layers


def _load_weights(manifest: Manifest, base: Folder) -> dict[str, Array]:
    """Loads the weights. Refuses a file larger than the manifest's tensors."""
    from xdsl_spirv.runtime.folder import WEIGHTS_HEADER_BYTES
    from xdsl_spirv.runtime.memory import refuse_beyond_memory
    from xdsl_spirv.runtime.weights import weights_of

    functions = (manifest, *map(manifest.of, manifest.functions))
    kept = {b.name: b for f in functions for b in f.buffers if b.kind in SHARED and b.first is None}
    refuse_beyond_memory(kept.values())
    weights: dict[str, Array] = {}
    if manifest.weights is not None:
        most = sum(buffer.bytes for buffer in kept.values()) + WEIGHTS_HEADER_BYTES
        path = str(base.path / manifest.weights)
        weights = weights_of(base.read(manifest.weights, most), path)
    _check_weights(kept.values(), weights, base.path / (manifest.weights or WEIGHTS))
    return weights


def _check_weights(buffers: Iterable[Buffer], weights: Mapping[str, Array], path: Path) -> None:
    for buffer in buffers:
        array = weights.get(buffer.name)
        given = "nothing" if array is None else f"{list(array.shape)} of {array.dtype}"
        if array is None or array.shape != buffer.shape or array.dtype != dtype_of(buffer.type):
            raise ProgramError(
                f"the {buffer.kind} {buffer.name!r} must be {buffer}, but found {given}",
                str(path),
                "compile the program again",
            )


WORD = 4
"""Alignment in bytes of the size of a push-constant block in Vulkan."""


def program_requires(manifest: Manifest, binaries: Mapping[str, bytes]) -> Requires:
    """
    Returns the requirements of a manifest's kernels on a device. The encoder wrote the `binaries`.

    Sizes that are known only at run time are left out.
    """
    needs = {kernel.name: Needs.of_own(binaries[kernel.name]) for kernel in manifest.kernels}
    launches = [
        launch for function in (manifest, *manifest.functions) for launch in _launches(function)
    ]
    return requires_of(needs, manifest.subgroup_size, launches)


def push_constant_bytes(dispatch: Dispatch) -> int:
    """Returns the size in bytes of a dispatch's push constants, padded to whole words."""
    end = max((c.offset + element_bytes(c.type) for c in dispatch.push_constants), default=0)
    return -(-end // WORD) * WORD


def _launches(function: Manifest | Function) -> Iterator[Launch]:
    sizes = {b.name: 0 if b.is_dynamic else b.bytes for b in function.buffers}
    for dispatch in function.dispatches:
        yield Launch(
            dispatch.entry_point,
            [count if isinstance(count, int) else 0 for count in dispatch.grid],
            push_constant_bytes(dispatch),
            len(dispatch.bindings),
            max((sizes[binding.buffer] for binding in dispatch.bindings), default=0),
        )
