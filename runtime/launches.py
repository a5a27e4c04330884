"""
Checks a manifest's numbers before they are used.

`program.json` may come from an untrusted source. `manifest.py` checks each record separately. This
module checks the ranges of numbers, and relations between records: bindings, constants,
temporaries that share memory, dispatches that run once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from xdsl_spirv.runtime.buffers import ALIGNMENT, lifetimes, marked
from xdsl_spirv.runtime.elements import scalar_bytes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import GIVEN, Buffer, Dispatch, Manifest, PushConstant

MAX_RANK = 32
"""Maximum number of dimensions of a buffer. numpy 1 supports up to 32, numpy 2 up to 64."""
MAX_SIZE = (1 << 63) - 1
"""Maximum number of elements of a dimension, and of bytes of a buffer."""
MAX_SETS, MAX_BINDINGS = 4, 1024
"""
Maximum number of descriptor sets (which all Vulkan devices support), and of bindings in a set.
"""
MAX_GRID = (1 << 32) - 1
"""Maximum number of workgroups along an axis, which Vulkan counts in 32 bits."""
MAX_PUSH_BYTES = 4096
"""Maximum size of push constants in bytes. When a device is opened, its own limit is checked."""

REMEDY = "compile the program again"

T = TypeVar("T")


def check_launches(manifest: Manifest, place: str) -> None:
    """Raises `ProgramError`, which names the field, if a number in the manifest is impossible."""
    for i, buffer in enumerate(manifest.buffers):
        _check_buffer(buffer, f"{place}.buffers[{i}]")
    _check_signature(manifest, place)
    for i, dispatch in enumerate(manifest.dispatches):
        _check_dispatch(dispatch, f"{place}.dispatches[{i}]")
    _check_once(manifest, place)
    _check_memory(manifest, place)


def _check_buffer(buffer: Buffer, place: str) -> None:
    if len(buffer.shape) > MAX_RANK:
        cause = f"{buffer.name!r} has {len(buffer.shape)} dimensions, more than {MAX_RANK}"
        raise ProgramError(cause, f"{place}.shape", REMEDY)
    # numpy multiplies all nonzero sizes, even if there are no elements.
    if not buffer.is_dynamic and room_of(buffer.sizes) * 8 > MAX_SIZE:
        cause = f"{buffer.name!r} is {buffer}, beyond {MAX_SIZE} bytes"
        raise ProgramError(cause, f"{place}.shape", REMEDY)
    if (buffer.offset or 0) % ALIGNMENT:
        raise ProgramError(
            f"the offset {buffer.offset} is not a multiple of {ALIGNMENT}",
            f"{place}.offset",
            REMEDY,
        )
    if buffer.first is not None:
        scalar_bytes(buffer.first, buffer.type, f"{place}.first")


def room_of(sizes: Sequence[int]) -> int:
    """Returns the number of elements of a shape, in which a dimension of size 0 counts as 1."""
    return math.prod(max(size, 1) for size in sizes)


def _check_signature(manifest: Manifest, place: str) -> None:
    """Checks that the caller's buffers are among the arguments, each exactly once."""
    repeated = _repeated_item(manifest.arguments)
    if repeated is not None:
        raise ProgramError(
            f"the argument {repeated!r} is listed twice", f"{place}.arguments", REMEDY
        )
    missing = {b.name for b in manifest.buffers if b.kind in GIVEN} - {*manifest.arguments}
    if missing:
        cause = f"{min(missing)!r} is given by the caller, but is not an argument"
        raise ProgramError(cause, f"{place}.arguments", REMEDY)
    for name in manifest.results:
        if manifest.buffer(name).kind not in ("output", "state"):
            cause = (
                f"the result {name!r} is a buffer of the wrong kind, {manifest.buffer(name).kind}"
            )
            raise ProgramError(cause, f"{place}.results", REMEDY)


def _check_dispatch(dispatch: Dispatch, place: str) -> None:
    repeated = _repeated_item((b.set, b.binding) for b in dispatch.bindings)
    if repeated is not None:
        cause = f"two buffers are bound to set {repeated[0]}, binding {repeated[1]}"
        raise ProgramError(cause, f"{place}.bindings", REMEDY)
    for b in dispatch.bindings:
        if not (0 <= b.set < MAX_SETS and 0 <= b.binding < MAX_BINDINGS):
            raise ProgramError(
                f"set {b.set}, binding {b.binding} exceeds the limits of {MAX_SETS} sets "
                f"and {MAX_BINDINGS} bindings",
                f"{place}.bindings",
                REMEDY,
            )
    if any(isinstance(count, int) and count > MAX_GRID for count in dispatch.grid):
        cause = f"a grid of {list(dispatch.grid)} exceeds {MAX_GRID} workgroups along an axis"
        raise ProgramError(cause, f"{place}.grid", REMEDY)
    repeated = _repeated_item(constant.id for constant in dispatch.spec_constants)
    if repeated is not None:
        cause = f"the specialization constant {repeated} has two values"
        raise ProgramError(cause, f"{place}.spec_constants", REMEDY)
    _check_push_constants(dispatch.push_constants, f"{place}.push_constants")


def _check_push_constants(constants: Sequence[PushConstant], place: str) -> None:
    end = 0
    for constant in sorted(constants, key=lambda c: c.offset):
        value = 0 if isinstance(constant.value, str) else constant.value
        size = len(scalar_bytes(value, constant.type, place))
        if constant.offset < end or constant.offset % size:
            cause = (
                f"a push constant of type {constant.type} is at the invalid offset "
                f"{constant.offset}"
            )
            raise ProgramError(cause, place, REMEDY)
        end = constant.offset + size
        if end > MAX_PUSH_BYTES:
            cause = f"push constants end at {end}, beyond {MAX_PUSH_BYTES} bytes"
            raise ProgramError(cause, place, REMEDY)


def _check_once(manifest: Manifest, place: str) -> None:
    """Checks that dispatches that run once depend only on weights."""
    computed = marked(manifest.buffers, manifest.dispatches, manifest.loops)
    for i, (dispatch, known) in enumerate(zip(manifest.dispatches, computed, strict=True)):
        if dispatch.once and not known.once:
            cause = "a dispatch marked `once` must only compute temporaries from weights"
            raise ProgramError(cause, f"{place}.dispatches[{i}].once", REMEDY)


def _check_memory(manifest: Manifest, place: str) -> None:
    """Checks that temporaries with overlapping lifetimes do not overlap in memory."""
    if not 0 <= (manifest.memory or 0) <= MAX_SIZE:
        raise ProgramError(
            f"the memory has {manifest.memory} bytes, but must have 0 to {MAX_SIZE}",
            f"{place}.memory",
            REMEDY,
        )
    placed = {b.name: b for b in manifest.buffers if b.offset is not None and b.bytes}
    starts: defaultdict[int, list[Buffer]] = defaultdict(list)
    ends: defaultdict[int, list[Buffer]] = defaultdict(list)
    for name, (first, last) in lifetimes(manifest.dispatches, manifest.loops).items():
        if name in placed:
            starts[first].append(placed[name])
            ends[last].append(placed[name])
    living: list[tuple[int, int, str]] = []
    for number in range(len(manifest.dispatches) + 1):
        for piece in map(_piece, starts[number]):
            at = bisect_left(living, piece)
            for other in living[max(at - 1, 0) : at + 1]:
                if other[0] < piece[1] and piece[0] < other[1]:
                    cause = f"{piece[2]!r} and {other[2]!r} overlap while both are in use"
                    raise ProgramError(cause, f"{place}.dispatches[{number}]", REMEDY)
            insort(living, piece)
        for piece in map(_piece, ends[number]):
            del living[bisect_left(living, piece)]


def _piece(buffer: Buffer) -> tuple[int, int, str]:
    start = buffer.offset or 0
    return start, start + buffer.bytes, buffer.name


def _repeated_item(items: Iterable[T]) -> T | None:
    return next((item for item, count in Counter(items).items() if count > 1), None)
