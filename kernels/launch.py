"""
Launches a kernel of any origin: on the interpreter, with or without checks, or on a device.

The binary gives the kernel's interface: buffers with types, push constants and specialization
constants. Every argument is required.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.kernels.tracer import KernelError, three
from xdsl_spirv.serialization.raw.binary import decode as decode_words
from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.validator import environment_of
from xdsl_spirv.tools.kernel_test.arguments import flat, pack_scalar
from xdsl_spirv.tools.kernel_test.constants import Constants, checked, dtype
from xdsl_spirv.tools.kernel_test.description import Contents, Misuse, suggest
from xdsl_spirv.tools.kernel_test.images import view_texels
from xdsl_spirv.tools.kernel_test.interface import (
    Interface,
    Leaf,
    Resource,
    by_name,
    choose_entry,
    described,
)

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Checks, Report
    from xdsl_spirv.tools.kernel_proving import Result

Array = np.ndarray[Any, np.dtype[Any]]
Textures: TypeAlias = dict[Any, Image | Sampler]
OPTIONS = ("device", "checks", "subgroup_size", "entry")
"""Names of a launch's options, in addition to the kernel's arguments."""


class HasBinary(ABC):
    """A kernel with a SPIR-V binary."""

    @property
    @abstractmethod
    def binary(self) -> bytes:
        """The kernel's SPIR-V binary."""


Launchable: TypeAlias = HasBinary | Operation | bytes | str | os.PathLike[str]
"""Types that `launch` accepts as a kernel."""


@dataclass(frozen=True)
class Launched:
    """The result of a launch: the buffers after the run by name, and the report of the checks."""

    buffers: Mapping[str, Array]
    device: str
    report: Report | None = None
    way: str = ""
    """Text that says how a tile program was compiled: as a function on tensors, or tile by tile."""

    def __getitem__(self, name: str | int) -> Array:
        return list(self.buffers.values())[name] if isinstance(name, int) else self.buffers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.buffers)

    def __len__(self) -> int:
        return len(self.buffers)

    def __repr__(self) -> str:
        held = ", ".join(f"{n}: {_show_array(a)}" for n, a in self.buffers.items())
        findings = "" if self.report is None else f"; {len(self.report)} findings"
        return f"<launched on {self.device}: {held}{findings}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(n)}</td><td>{_show_array(a)}</td><td><code>"
            f"{escape(np.array2string(a.reshape(-1)[:8], threshold=8))}</code></td></tr>"
            for n, a in self.buffers.items()
        )
        said = "" if self.report is None else f"<pre>{escape(str(self.report))}</pre>"
        head = "<tr><th>buffer</th><th>shape</th><th>begins with</th></tr>"
        return f"<table>{head}{rows}</table>{said}"


def _show_array(array: Array) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'one'} {array.dtype}"


def launch(
    kernel: Launchable,
    grid: int | tuple[int, ...],
    buffers: Mapping[str, Any] | Sequence[Any],
    *,
    push: Mapping[str, Any] | Sequence[Any] = (),
    constants: Mapping[str, Any] | None = None,
    entry: str | None = None,
    subgroup_size: int | None = None,
    device: str = "interpreter",
    checks: str | Checks | None = None,
    images: Mapping[str, Image | Sampler] | None = None,
    allow: Collection[str] = (),
) -> Launched:
    """
    Runs a kernel on `grid` workgroups.

    - `kernel`: a kernel of `@kernel`, a `spirv.module`, a program with one, a binary, or the path
      of a file (GLSL, `.spv`, `.spvasm`, `.mlir`).
    - `buffers`: arrays or lists, by name (of the variable or its block, or "SET.BINDING") or in the
      order of set and binding. They are not changed.
    - `push`: the members of the push-constant block, by name or in order.
    - `constants`: specialization constants by name or id.
    - `subgroup_size`: 32 on the interpreter by default, unless the kernel requires another size.
    - `device`: `interpreter`, `vulkan` or `vulkan:N`.
    - `checks`: detects undefined behaviour on the interpreter: "all", a list of checks
      (docs/checks.md), or `Checks`.
    - `images`: formats and sizes of images (whose texels are buffers) and samplers, by name.
    - `allow`: rules of the validator that a kernel on a device may break: BLK-04 if the device has
      scalar block layouts, VUL-13 for naga's binaries.

    Raises `KernelError` for arguments that do not fit, `SPIRVDecodeError` for an invalid binary,
    `InterpreterError` and `VulkanError`.
    """
    try:
        binary = binary_of(kernel)
        module = _index(binary)
        interface = Interface(
            module, choose_entry(module, entry), Constants(module, constants or {})
        )
        resources, textures = _textures(interface.resources, images or {})
        arrays = _arrays(resources, buffers)
        block = _push(interface, push)
    except Misuse as error:
        raise KernelError(error.cause, error.place, error.remedy) from error
    size = three(grid, "number of workgroups")
    if device == "interpreter":
        report = _interpret(binary, interface, size, arrays, textures, block, subgroup_size, checks)
    elif checks is not None:
        raise KernelError(f"{device} does not support checks", "checks", "run on the interpreter")
    else:
        report = None
        _refuse_invalid(module, allow)
        arrays = _on_device(device, binary, interface, size, arrays, textures, block, subgroup_size)
    return Launched(_results(resources, buffers, arrays), device, report)


def check(
    kernel: Launchable,
    grid: int | tuple[int, ...],
    buffers: Mapping[str, Any] | Sequence[Any],
    **options: Any,
) -> Report:
    """
    Runs a kernel on the interpreter under all checks, with the options of `launch`.

    The report lists races, accesses out of bounds and undefined values; `print` shows it.
    """
    report = launch(kernel, grid, buffers, checks="all", **options).report
    assert report is not None
    return report


def prove(
    kernel: Launchable, *premises: str, questions: Sequence[str] = (), seconds: float = 5.0
) -> Result:
    """
    Proves that a kernel is correct in every launch that satisfies the premises, or finds a launch
    in which it fails. `print` shows the result.

    `questions` are as for `xdsl-spirv prove`, but initialization is not available. `seconds`
    limits each question in each solver. Raises `ProgramError` if the solvers are not installed.
    """
    from xdsl_spirv.tools.solvers import require_solvers

    require_solvers()
    from xdsl_spirv.prove.questions import is_usual
    from xdsl_spirv.tools.kernel_proving import ask_about, limit_work, prove_kernel
    from xdsl_spirv.tools.kernel_test.description import KernelTest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.spv")
        path.write_bytes(binary_of(kernel))
        asked = ask_about(questions) if questions else is_usual
        return prove_kernel(KernelTest(path, path), premises, limit_work(seconds), asked)


# Kernels


def binary_of(kernel: Any) -> bytes:
    if isinstance(kernel, bytes | bytearray):
        return bytes(kernel)
    if isinstance(kernel, Operation):
        from xdsl_spirv.serialization.encode.encoder import encode
        from xdsl_spirv.serialization.encode.target import find_module

        return encode(find_module(kernel), names=True)  # pyright: ignore
    if isinstance(kernel, str | os.PathLike):
        from xdsl_spirv.tools.kernel_test.description import KernelTest
        from xdsl_spirv.tools.kernel_test.loading import load_kernel

        path = Path(kernel)
        return load_kernel(KernelTest(path, path)).binary
    if isinstance(kernel, HasBinary):
        return kernel.binary
    raise KernelError(
        f"a kernel cannot be of type {type(kernel).__name__}",
        "",
        "give a kernel, a module, a binary, or the path of a file",
    )


def _index(binary: bytes) -> Module:
    raw = decode_words(binary)
    return Module(raw, ENVIRONMENTS[environment_of(raw).name])


# Buffers


def _textures(
    resources: list[Resource], given: Mapping[str, Image | Sampler]
) -> tuple[list[Resource], Textures]:
    """
    Returns the kernel's resources that have memory, and the images and samplers in `given` by set
    and binding. An image becomes a resource that is an array of texels.
    """
    placed: Textures = {}
    memory: list[Resource] = []
    known = by_name(r for r in resources if r.texture is not None)
    for name in given:
        if name not in known:
            raise Misuse(f"the kernel has no image {name!r}", "images", suggest(name, known))
    for one in resources:
        image = next((given[n] for n in one.names if n in given), None)
        if one.texture is None:
            memory.append(one)
        elif image is None or not one.texture.fits(image):
            raise KernelError(
                f"{one.names[0]!r} is {one.texture}, but {image} is given", "images",
                f"give images[{one.names[0]!r}] as Image(FORMAT, SIZE), or a sampler as Sampler()",
            )  # fmt: skip
        else:
            placed[one.place] = image
            if isinstance(image, Image):
                scalar, shape, _ = view_texels(one.texture, image, Contents())
                memory.append(replace(one, block=pack_scalar(scalar, shape)))
    return memory, placed


def _arrays(resources: list[Resource], given: Any) -> dict[Any, Array]:
    known = by_name(resources)
    if isinstance(given, Mapping):
        named: dict[Any, Any] = {}
        for name, value in given.items():
            if name not in known:
                names = ", ".join(r.names[0] for r in resources)
                raise KernelError(f"the kernel has no buffer {name!r}", "", f"there are: {names}")
            named[known[name].place] = value
    else:
        values = list(given)
        if len(values) != len(resources):
            names = ", ".join(described(r.block, r.names[0]) for r in resources)
            raise KernelError(
                f"{len(values)} buffers were given, but the kernel has {len(resources)}",
                "",
                f"give {names}",
            )
        named = {r.place: v for r, v in zip(resources, values, strict=True)}
    arrays: dict[Any, Array] = {}
    for resource in resources:
        if resource.place not in named:
            what = described(resource.block, resource.names[0])
            raise KernelError(f"the buffer {resource.names[0]!r} is missing", "", f"give {what}")
        arrays[resource.place] = _contents(resource, named[resource.place])
    return arrays


def _contents(resource: Resource, value: Any) -> Array:
    name, whole = resource.names[0], flat(resource.block)
    typed = isinstance(value, np.ndarray | np.generic)
    if whole is None or whole[0] or not whole[1].packed:
        octets = np.asarray(value)
        if octets.dtype != np.uint8:
            raise KernelError(
                f"{name} is {described(resource.block, name)}, not an array of one type",
                name,
                "give the buffer's bytes as an array of uint8",
            )
        _refuse_short(name, octets.nbytes, resource.block.size)
        return np.array(octets, order="C")
    leaf = whole[1]
    kind = dtype(leaf.scalar)
    array = np.array(value, order="C") if typed else np.array(value, kind, order="C")
    integers = array.dtype.kind in "iu" and kind.kind in "iu"
    if array.dtype != kind and not (integers and array.dtype.itemsize == kind.itemsize):
        raise KernelError(
            f"{name} has elements of {leaf.scalar}, but an array of {array.dtype} was given",
            name,
            f"convert it: .astype({kind.name})",
        )
    _refuse_short(name, array.nbytes, _bytes(leaf))
    return array


def _bytes(leaf: Leaf) -> int:
    return prod(n for n in leaf.shape if n is not None) * leaf.itemsize


def _refuse_short(name: str, given: int, wanted: int) -> None:
    if not given or given < wanted:
        raise KernelError(
            f"{name} is given {given} bytes, but the kernel may read {max(wanted, 1)}",
            name,
            f"give at least {max(wanted, 1)} bytes",
        )


def _results(
    resources: list[Resource], given: Any, arrays: Mapping[Any, Array]
) -> dict[str, Array]:
    if isinstance(given, Mapping):
        known = by_name(resources)
        return {n: _as_given(arrays[known[n].place], value) for n, value in given.items()}
    return {
        r.names[0]: _as_given(arrays[r.place], value)
        for r, value in zip(resources, given, strict=True)
    }


def _as_given(array: Array, given: Any) -> Array:
    shaped = np.asarray(given)
    dtype = given.dtype if isinstance(given, np.ndarray) else array.dtype
    return array.reshape(-1).view(dtype).reshape(shaped.shape)


# Push constants


def _push(interface: Interface, given: Any) -> bytes:
    block = interface.push_constants
    if block is None:
        if given:
            raise KernelError("the kernel has no push constants", "push", "leave them out")
        return b""
    names = [member.name for member in block.members]
    values = dict(given) if isinstance(given, Mapping) else dict(zip(names, given, strict=False))
    count = len(given)
    unknown = [name for name in values if name not in names]
    missing = [name for name in names if name not in values]
    if unknown or missing or count != len(names):
        shown = ", ".join(described(m.node, m.name) for m in block.members)
        raise KernelError(
            f"{count} push constants were given, but the kernel has {len(names)}",
            ", ".join(unknown or missing),
            f"give {shown}",
        )
    data = np.zeros(block.size, np.uint8)
    for member in block.members:
        if not isinstance(member.node, Leaf):
            raise KernelError(
                f"the push constant {member.name} cannot be {member.node}", "push",
                "only scalars, vectors and arrays of scalars or vectors are supported",
            )  # fmt: skip
        leaf = member.node
        kind = dtype(leaf.scalar)
        value = values[member.name]
        if not leaf.shape:
            value = checked(_plain(value), leaf.scalar, f"push constant {member.name}")
        shape = tuple(n or 0 for n in leaf.shape)
        np.ndarray(shape, kind, data, member.offset, leaf.strides)[...] = value
    return data.tobytes()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# Running


def _interpret(
    binary: bytes,
    interface: Interface,
    grid: tuple[int, int, int],
    arrays: dict[Any, Array],
    textures: Textures,
    block: bytes,
    subgroup_size: int | None,
    checks: str | Checks | None,
) -> Report | None:
    from xdsl_spirv.interpreter import Options, dispatch
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.serialization.decode.decoder import decode

    looking = Checks.of(checks) if isinstance(checks, str) else checks
    options = Options(checks=looking)
    if subgroup_size is not None:
        options = replace(options, subgroup_size=subgroup_size)
    dispatch(
        decode(binary),
        interface.entry.name,
        grid,
        arrays,
        spec_constants=interface.constants.values,
        push_constants=block,
        options=options,
        images=textures,
    )
    return None if looking is None else looking.report


def _on_device(
    device: str,
    binary: bytes,
    interface: Interface,
    grid: tuple[int, int, int],
    arrays: Mapping[Any, Array],
    textures: Textures,
    block: bytes,
    subgroup_size: int | None,
) -> dict[Any, Array]:
    from xdsl_spirv.runtime.vulkan.worker import open_isolated
    from xdsl_spirv.tools.kernel_test.devices import work_of

    if any(len(place) > 2 and place not in textures for place in arrays):
        raise KernelError(
            "arrays of buffers are not supported on a device", "", "use the interpreter"
        )
    names = {place: "_".join(map(str, place)) for place in arrays}
    sizes = {name: arrays[place].nbytes for place, name in names.items()}
    work = work_of(interface, binary, grid, names, "input", sizes, textures, block, subgroup_size)
    with open_isolated(device) as opened:
        loaded = opened.load(work)
        loaded.run({names[p]: a.tobytes() for p, a in arrays.items()}, opened.timeout)
        return {
            place: np.frombuffer(loaded.read(names[place], opened.timeout), array.dtype)
            .reshape(array.shape)
            .copy()
            for place, array in arrays.items()
        }


RELAXED = ("BLK-04", "VUL-13")
"""Rules that a device may relax: scalar block layouts, and strides of pointers."""


def _refuse_invalid(module: Module, allow: Collection[str]) -> None:
    """
    Raises `KernelError` for a module that breaks rules which are not allowed: it could crash a
    driver.
    """
    from xdsl_spirv.serialization.validation import Severity, validate

    for finding in validate(module.raw):
        if finding.severity is Severity.ERROR and finding.rule not in allow:
            remedy = finding.remedy
            if finding.rule in RELAXED:
                remedy += f"; or, if the device can run it, launch with allow=['{finding.rule}']"
            raise KernelError(f"the kernel is not valid: {finding.cause}", finding.rule, remedy)
