"""
Reads the header of a GGUF file: metadata values, and names, types and offsets of tensors.

A vocabulary has hundreds of thousands of strings, so the reader is optimized for speed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError

MAGIC = b"GGUF"
AGAIN = "download or convert the file again"
VERSIONS = (2, 3)
"""Supported versions of GGUF. Version 3 added big-endian files, which are refused."""

SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Format letters of `struct` by the file's value types."""
STRING, ARRAY = 8, 9
DEEPEST = 4
"""Maximum nesting of arrays."""

TYPES: Mapping[str, tuple[type, ...]] = {
    "general.architecture": (str,),
    "tokenizer.chat_template": (str,),
    **dict.fromkeys(("tokenizer.ggml.model", "tokenizer.ggml.pre"), (str,)),
    **dict.fromkeys(("tokenizer.ggml.tokens", "tokenizer.ggml.merges"), (list, str)),
    "tokenizer.ggml.token_type": (list, int),
    "tokenizer.ggml.scores": (list, float),
    **{f"tokenizer.ggml.{role}_token_id": (int,) for role in "bos eos eot eom unknown".split()},
    **dict.fromkeys(("tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"), (bool,)),
}
"""Expected Python types of values, by key. For a list, the second type is that of its elements."""


def read_metadata(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """
    Reads the metadata of a GGUF file: numbers, strings, booleans and lists by key.

    Raises `FrontendError` if the file is missing, truncated or malformed.
    """
    with header(path) as start:
        return start.values()


@contextmanager
def header(path: str | os.PathLike[str]) -> Generator[Header]:
    """Opens a GGUF file and yields a reader. Raises `FrontendError` for unreadable files."""
    place = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise FrontendError("the file is empty", place, "give a GGUF file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield Header(data, place)
    except OSError as error:
        raise FrontendError(
            f"cannot read the model: {error.strerror}", place, "give a GGUF file"
        ) from error
    except struct.error as error:
        raise _truncated_error(place) from error


def _truncated_error(place: str) -> FrontendError:
    return FrontendError("the file ends within its header", place, "download it again")


class Header:
    """A reader of a file's header; `offset` is its position in bytes."""

    def __init__(self, data: mmap.mmap, place: str):
        self.data = data
        self.place = place
        self.offset = 0
        self.tensors = 0
        """Number of tensors in the file."""

    def values(self) -> dict[str, Any]:
        """Reads the metadata values by key. They are at the start of the header."""
        if self.data[:4] != MAGIC:
            raise FrontendError("the file is not a GGUF file", self.place, "give a GGUF file")
        self.offset = 4
        (version,) = self.numbers("I", 1)
        if version not in VERSIONS:
            big = version & 0xFFFF == 0
            cause = "the file is big-endian" if big else f"GGUF version {version} is unknown"
            raise FrontendError(cause, self.place, "convert the file with a current llama.cpp")
        self.tensors, count = self.numbers("Q", 2)
        values: dict[str, Any] = {}
        for _ in range(count):
            key = self.string()
            (kind,) = self.numbers("I", 1)
            if key in values:
                raise FrontendError(
                    f"the value {key} is listed twice",
                    self.place,
                    "download or convert the file again",
                )
            values[key] = self.value(kind, DEEPEST)
            self.check_type(key, values[key])
        return values

    def check_type(self, key: str, value: Any) -> None:
        """Raises `FrontendError` if the type of a value is wrong for its key."""
        types = TYPES.get(key, ())
        # The first element is checked, because all elements of an array have the same type.
        nested = [value, *(value[:1] if isinstance(value, list) else ())]  # pyright: ignore[reportUnknownVariableType]
        if all(type(part) is wanted for part, wanted in zip(nested, types, strict=False)):
            return
        raise FrontendError(
            f"{key} must be of type {' of '.join(t.__name__ for t in types)}",
            self.place,
            AGAIN,
        )

    def numbers(self, letter: str, count: int) -> tuple[Any, ...]:
        """
        Reads `count` numbers of the type that `letter` means in `struct`. Raises `FrontendError` at
        the end of the file.
        """
        size = struct.calcsize(f"<{letter}")
        # `struct` must not be called with a huge count.
        if count > (len(self.data) - self.offset) // size:
            raise _truncated_error(self.place)
        numbers = struct.unpack_from(f"<{count}{letter}", self.data, self.offset)
        self.offset += size * count
        return numbers

    def string(self) -> str:
        (length,) = self.numbers("Q", 1)
        start, self.offset = self.offset, self.offset + length
        if self.offset > len(self.data):
            raise _truncated_error(self.place)
        try:
            return self.data[start : self.offset].decode()
        except UnicodeDecodeError as error:
            raise FrontendError(
                "a string of the header is not UTF-8",
                f"{self.place}, byte {start + error.start}",
                AGAIN,
            ) from error

    def value(self, kind: int, depth: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY and depth:
            (element,) = self.numbers("I", 1)
            (count,) = self.numbers("Q", 1)
            if element in SCALARS:
                return list(self.numbers(SCALARS[element], count))
            return [self.value(element, depth - 1) for _ in range(count)]
        if kind not in SCALARS:
            raise FrontendError(
                f"a value has the unknown type {kind}",
                f"{self.place}, byte {self.offset}",
                AGAIN,
            )
        return self.numbers(SCALARS[kind], 1)[0]
