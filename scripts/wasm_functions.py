"""
Rewrites the functions of a WebAssembly module: records calls, or replaces unused functions by
traps.

The kept bodies are copied without decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

MEMORY, CODE, DATA = 5, 10, 11
PAGE = 1 << 16

BESIDE = 16
"""Maximum distance, in indices, between a called function and a function kept because of it."""
SHORT = 1000
"""Maximum size in bytes of a kept function that was not called."""

STOP = b"\x03\x00\x00\x0b"
"""A function body of 3 bytes with its size: no locals, `unreachable`, `end`."""


def number(data: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned LEB128 number and the offset after its last byte."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def leb(value: int, signed: bool = False) -> bytes:
    """Encodes a number as LEB128, signed if `signed`."""
    out = bytearray()
    while True:
        low, value = value & 127, value >> 7
        if not value and not (signed and low & 64):
            return bytes([*out, low])
        out.append(low | 128)


def sections(module: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields kind, start offset and end offset of each section's content."""
    at = 8
    while at < len(module):
        size, start = number(module, at + 1)
        yield module[at], start, start + size
        at = start + size


def memory_bytes(module: bytes) -> int:
    """Returns the initial size of the module's memory in bytes."""
    (start,) = (start for kind, start, _ in sections(module) if kind == MEMORY)
    return number(module, start + 2)[0] * PAGE


def functions(module: bytes) -> int:
    """Returns the number of functions that the module defines."""
    return next(number(module, start)[0] for kind, start, _ in sections(module) if kind == CODE)


def constants(module: bytes) -> Iterator[tuple[int, int]]:
    """Yields start and end address of each active data segment."""
    (start,) = (start for kind, start, _ in sections(module) if kind == DATA)
    count, at = number(module, start)
    for _ in range(count):
        if module[at : at + 2] != b"\x00\x41":
            raise ValueError("the offset of a data segment is not a constant")
        place, at = number(module, at + 2)
        size, at = number(module, at + 1)
        yield place, place + size
        at += size


def rewrite(module: bytes, body: Callable[[int, bytes], bytes], without: tuple[int, ...]) -> bytes:
    """Returns the module with new bodies (`body(index, old)`), without the sections `without`."""
    out = [module[:8]]
    for kind, start, end in sections(module):
        if kind in without:
            continue
        content = _code(module, start, body) if kind == CODE else module[start:end]
        out += bytes([kind]), leb(len(content)), content
    return b"".join(out)


def _code(module: bytes, start: int, body: Callable[[int, bytes], bytes]) -> bytes:
    count, at = number(module, start)
    bodies = [leb(count)]
    for index in range(count):
        size, inside = number(module, at)
        bodies.append(body(index, module[at : inside + size]))
        at = inside + size
    return b"".join(bodies)


def note_calls(module: bytes) -> bytes:
    """
    Makes each function set its own byte when it is called. The bytes follow the initial memory.

    The caller must grow the memory before the first call.
    """
    base = memory_bytes(module)

    def add_note(index: int, body: bytes) -> bytes:
        _, inside = number(body, 0)
        groups, at = number(body, inside)
        for _ in range(groups):
            at = number(body, at)[1] + 1
        note = b"\x41" + leb(base + index, signed=True) + b"\x41\x01\x3a\x00\x00"
        changed = body[inside:at] + note + body[at:]
        return leb(len(changed)) + changed

    return rewrite(module, add_note, ())


def keep(module: bytes, called: bytes) -> bytes:
    """
    Replaces uncalled functions by traps, and removes names and data segments.

    `called` has a nonzero byte for each called function. Short functions near a called one are
    kept, because numpy's loops for other types and alignments are there.
    """

    def body_of(index: int, body: bytes) -> bytes:
        near = called[max(0, index - BESIDE) : index + BESIDE + 1]
        return body if called[index] or (any(near) and len(body) < SHORT) else STOP

    return rewrite(module, body_of, (0, DATA))
