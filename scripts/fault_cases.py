"""Defines the cases of `faults.py`, and functions that write bad files for the cases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FAILED = frozenset({1, 2, 3, 4})
ANY = FAILED | {0}
COMMAND = (sys.executable, "-m", "xdsl_spirv.tools.main")


@dataclass(frozen=True)
class Case:
    """A command, the preparation of its directory, and its allowed exit statuses."""

    name: str
    arguments: Sequence[str]
    statuses: frozenset[int] = FAILED
    prepare: Callable[[Path], object] = lambda folder: None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Mapping[int, int] = field(default_factory=dict[int, int])
    signal: tuple[int, float] | None = None
    """A signal, and the seconds after which it is sent."""
    output: str = "tail"
    """Destination of standard output: recorded, a full disk, a closed pipe, or closed."""
    command: Callable[[], Sequence[str]] = lambda: COMMAND
    """Returns the command to start. Empty if the command is not installed."""
    text: str = ""
    """Standard input of the command."""


# Files


def write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def sparse(name: str) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(1 << 40)

    return prepare


def link(name: str, to: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).symlink_to(to)


def bad_files(name: str) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yields descriptions of bad files, each with a function that writes the file to a folder."""
    yield "missing", lambda folder: None
    yield "empty", write(name, b"")
    yield "a folder", lambda folder: (folder / name).mkdir()
    yield "no text", write(name, bytes(range(256)) * 40)
    yield "zeros", write(name, bytes(10_000))
    yield "huge", sparse(name)
    yield "a link to itself", link(name, name)
    yield "a link to nothing", link(name, "nothing")
    yield "parentheses", write(name, b"(" * 200_000)
    yield "braces", write(name, b'{"a":' * 50_000)
    yield "a quote", write(name, b'"' + b"\\" * 3_000)
    yield "one line", write(name, b"a" * 1_000_000)
