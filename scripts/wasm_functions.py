"""
Rewrites the functions of a WebAssembly module: into ones that note that they were called, or, where
they are not kept, into ones that stop. Bodies are copied as they are; nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

MEMORY, CODE, DATA = 5, 10, 11
PAGE = 1 << 16

BESIDE = 16
"""Functions to either side of one that is called."""
SHORT = 1000
"""Bytes of a function that is kept though it was not called."""

STOP = b"\x03\x00\x00\x0b"
"""A body of 3 bytes: no locals, `unreachable`, `end`."""


def number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def leb(value: int, signed: bool = False) -> bytes:
    """A number as LEB128; `signed` leaves the topmost bit to the sign."""
    out = bytearray()
    while True:
        low, value = value & 127, value >> 7
        if not value and not (signed and low & 64):
            return bytes([*out, low])
        out.append(low | 128)


def sections(module: bytes) -> Iterator[tuple[int, int, int]]:
    """Each section's kind, and where its content begins and ends."""
    at = 8
    while at < len(module):
        size, start = number(module, at + 1)
        yield module[at], start, start + size
        at = start + size


def memory_bytes(module: bytes) -> int:
    """Bytes of memory that the module starts with."""
    (start,) = (start for kind, start, _ in sections(module) if kind == MEMORY)
    return number(module, start + 2)[0] * PAGE


def functions(module: bytes) -> int:
    """The number of functions that the module defines."""
    return next(number(module, start)[0] for kind, start, _ in sections(module) if kind == CODE)


def constants(module: bytes) -> Iterator[tuple[int, int]]:
    """Where the memory's first contents begin and end."""
    (start,) = (start for kind, start, _ in sections(module) if kind == DATA)
    count, at = number(module, start)
    for _ in range(count):
        if module[at : at + 2] != b"\x00\x41":
            raise ValueError("a segment of data has no constant place")
        place, at = number(module, at + 2)
        size, at = number(module, at + 1)
        yield place, place + size
        at += size


def rewrite(module: bytes, body: Callable[[int, bytes], bytes], without: tuple[int, ...]) -> bytes:
    """A module whose bodies (with their sizes) `body` gives, without sections of some kinds."""
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
    A module whose functions set a byte each when they are called, behind the memory that it starts
    with: that memory has to be grown by then.
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
    A module without names and first memory whose functions stop, but for those that `called` has a
    1 for, and short ones beside these: numpy's loops for other types and alignments lie there.
    """

    def body_of(index: int, body: bytes) -> bytes:
        near = called[max(0, index - BESIDE) : index + BESIDE + 1]
        return body if called[index] or (any(near) and len(body) < SHORT) else STOP

    return rewrite(module, body_of, (0, DATA))
