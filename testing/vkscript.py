"""
Parses VkScript, the older language of Amber's tests: sections of shaders, then a list of commands.

`parse` returns the same `Script` as `testing/amber.py`. Buffers are named by their binding. Data
that a command writes to a buffer becomes a `Write`, because it may come between runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xdsl_spirv.testing.amber import (
    Array,
    Buffer,
    Expectation,
    Format,
    Pipeline,
    Run,
    Script,
    Shader,
    Unsupported,
    Write,
    bytes_of,
    format_of,
    number,
    places,
)

SECTION = re.compile(r"^\[(.+)\][ \t]*$", re.M)
LANGUAGES = {"compute shader": "GLSL", "compute shader spirv": "SPIRV-ASM"}
UNREAD = ("require", "comment")
"""Sections that are ignored, because they only name features or are empty."""
COMPARATORS = {"==": "EQ", "~=": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}
KINDS = {"": "float", "d": "double", "i": "int32", "u": "uint32"}
TYPE = re.compile(r"(?:(u?int)(\d*)(?:_t)?|float|double|([diu]?)(8|16|64)?(vec|mat)(\d?)x?(\d?))")
PIPELINE = "pipeline"
PUSH = "push constants"


def parse(text: str, _folder: Path = Path()) -> Script:
    """Parses a script. Raises `Unsupported`."""
    heads = list(SECTION.finditer(text))
    script, pipeline = Script(), Pipeline("shader")
    script.pipelines[PIPELINE] = pipeline
    reader = _Commands(script, pipeline)
    for head, behind in zip(heads, [*heads[1:], None], strict=True):
        name, body = head[1], text[head.end() : behind and behind.start()]
        if name in LANGUAGES:
            script.shaders["shader"] = Shader(LANGUAGES[name], body, None)
        elif name == "test":
            reader.read(body, text.count("\n", 0, head.end()) + 1)
        elif name not in UNREAD:
            raise Unsupported(f"the section [{name}] is not supported")
    return script


def amber_type(name: str) -> str:
    """Returns Amber's name of a data type: `ivec3` is `vec3<int32>`."""
    match = TYPE.fullmatch(name)
    if match is None:
        raise Unsupported(f"the type {name} is not supported")
    integer, bits, kind, width, form, first, second = match.groups(default="")
    if integer:
        return f"{integer}{bits or 32}"
    if not form:
        return name
    scalar = KINDS[kind].replace("32", width or "32")
    first = first or "4"
    return f"vec{first}<{scalar}>" if form == "vec" else f"mat{first}x{second or first}<{scalar}>"


class _Commands:
    def __init__(self, script: Script, pipeline: Pipeline):
        self.script, self.pipeline = script, pipeline
        self.counts: dict[str, int] = {}
        """
        For each buffer whose type is not known yet, the smallest number of elements that it needs.
        """
        self.tolerance: tuple[float, bool] | None = None

    def read(self, body: str, first: int) -> None:
        for line, words in _lines(body, first):
            self._command(line, words)
        for name, count in self.counts.items():
            self._grow(name, count * self.script.buffers[name].format.element_stride())

    def _command(self, line: int, words: list[str]) -> None:
        match words:
            case ["compute", "entrypoint", entry]:
                if any(isinstance(command, Run) for command in self.script.commands):
                    raise Unsupported("an entry point after a run is not supported")
                self.pipeline.entry = entry
            case ["compute", x, y, z]:
                self.script.commands.append(Run(PIPELINE, (int(x), int(y), int(z))))
            case ["tolerance", bound]:
                self.tolerance = float(bound.rstrip("%")), bound.endswith("%")
            case ["ssbo", place, size]:
                self.counts[self._buffer(place, "int8")] = int(size)
            case ["ssbo", place, "subdata", kind, at, *values]:
                self._write(self._buffer(place, amber_type(kind)), int(at), values)
            case ["uniform", "ubo", place, kind, at, *values]:
                self._write(self._buffer(place, amber_type(kind), "STD140"), int(at), values)
            case ["uniform", kind, at, *values]:
                self.pipeline.push = PUSH
                self._write(
                    self._declare(PUSH, format_of(amber_type(kind), "STD430")), int(at), values
                )
            case ["probe", "ssbo", kind, place, at, sign, *values] if sign in COMPARATORS:
                name = self._buffer(place, amber_type(kind))
                tolerance = self.tolerance if sign == "~=" else None
                self._grow(name, int(at) + len(self._encode(name, int(at), values)))
                self.script.commands.append(
                    Expectation(
                        name, COMPARATORS[sign], int(at), values, None, tolerance, line=line
                    )
                )
            case _:
                raise Unsupported(f"the command {' '.join(words[:2])} is not supported")

    def _buffer(self, place: str, type: str, layout: str = "STD430") -> str:
        """Returns the name of the buffer at `set:binding`. Sets the type of the buffer."""
        set, _, binding = place.rpartition(":")
        at = int(set or 0), int(binding)
        name = f"{at[0]}:{at[1]}"
        self.pipeline.bound[at] = name, 0
        return self._declare(name, format_of(type, layout))

    def _declare(self, name: str, format: Format) -> str:
        data = np.zeros(0, np.uint8)
        buffer = self.script.buffers.setdefault(name, Buffer(name, format, data))
        buffer.format = format
        return name

    def _encode(self, name: str, at: int, values: list[str]) -> Array:
        format = self.script.buffers[name].format
        elements = -(-len(values) // len(format.leaves))
        data = np.zeros(elements * format.element_stride(), np.uint8)
        for (byte, dtype), value in zip(places(format, at), values, strict=False):
            data[byte - at : byte - at + int(dtype[1])] = bytes_of(number(value), dtype)
        return data

    def _write(self, name: str, at: int, values: list[str]) -> None:
        data = self._encode(name, at, values)
        self._grow(name, at + len(data))
        self.script.commands.append(Write(name, at, data))

    def _grow(self, name: str, size: int) -> None:
        buffer = self.script.buffers[name]
        missing = size - len(buffer.data)
        buffer.data = np.concatenate([buffer.data, np.zeros(max(0, missing), np.uint8)])


def _lines(body: str, first: int) -> Iterator[tuple[int, list[str]]]:
    text = ""
    for line, part in enumerate(body.splitlines(), first):
        first = first if text else line
        text += part.partition("#")[0].rstrip()
        if text.endswith("\\"):
            text = text[:-1] + " "
            continue
        if words := text.split():
            yield first, words
        text = ""
