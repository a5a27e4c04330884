"""
Assembles SPIR-V text: accepts the syntax of `spirv-as` and writes the same words.

Text is a sequence of tokens. Line ends matter only as the end of comments. An instruction starts at
its name (`OpIAdd`) or at `%result =`. `!<integer>` gives a word instead of an operand or a name,
and the rest of that instruction is read without the grammar. Numeric ids keep their numbers, and
names get free numbers in the order of first use. `preserve_numeric_ids=False`, the default of
`spirv-as`, also renumbers numeric ids.

Disassemblers write the header as comments at the top. The assembler reads them, so that assembling
a disassembled module gives the same bytes. Without such comments, the module has the grammar's
version.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xdsl_spirv.grammar import Version, grammar
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.serialization.raw.binary import HEADER_WORDS, ByteOrder, Header, RawModule
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError
from xdsl_spirv.serialization.raw.words import GENERATOR, MAX_ID_BOUND
from xdsl_spirv.serialization.text.assembly_operands import NAME, RESULT, Encoder, Ids, OperandError

_TOKEN = re.compile(r'(?:"(?:\\[\s\S]|[^"\\])*"|[^\s;"])+|;[^\n]*|"')
_HEADER = {
    "version": re.compile(r"; Version: ([0-9]{1,3})\.([0-9]{1,3})\s*"),
    "generator": re.compile(r"; Generator: (.*); ([0-9]{1,5})\s*"),
    "bound": re.compile(r"; Bound: ([0-9]{1,10})\s*"),
    "schema": re.compile(r"; Schema: ([0-9]{1,10})\s*"),
    "order": re.compile(r"; Byte order: (big|little)\s*"),
}


def assemble(
    text: str, *, version: Version | None = None, preserve_numeric_ids: bool = True
) -> RawModule:
    """
    Assembles a text. `version` is used instead of the version in the header comments.

    Raises `SPIRVAssemblyError` with line and column.
    """
    return _Assembler(text, preserve_numeric_ids).module(version)


def assemble_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    version: Version | None = None,
    preserve_numeric_ids: bool = True,
) -> bytes:
    """
    Assembles a file and returns the binary. If `output` is given, also writes the binary to this
    file, atomically.

    Raises `SPIRVAssemblyError` and `OSError`.
    """
    text = Path(source).read_bytes().decode("utf-8", "surrogateescape")
    data = assemble(text, version=version, preserve_numeric_ids=preserve_numeric_ids).encode()
    if output is not None:
        write_atomically(output, data)
    return data


class _Assembler:
    def __init__(self, text: str, preserve_numeric_ids: bool):
        self.text = text
        self.tokens: list[str] = [t for t in _TOKEN.findall(text) if t[0] != ";"]
        ids = Ids((lambda: _numeric_ids(self.tokens)) if preserve_numeric_ids else None)
        self.encoder = Encoder(ids, "OpSwitch" in text)

    def module(self, version: Version | None) -> RawModule:
        words = array("I")
        for result, name, end in self._statements():
            words.extend(self._words(result, name, end))
        bound = self.encoder.ids.bound
        if bound > MAX_ID_BOUND:
            raise self._error(f"{bound} ids exceed SPIR-V's limit of {MAX_ID_BOUND}", 0)
        header, byte_order = _read_header(self.text, bound)
        if version is not None:
            header = Header(version, header.generator, header.bound, header.schema)
        return RawModule.of_words(np.asarray(array("I", header.words()) + words), byte_order)

    def _statements(self) -> Iterator[tuple[int, int, int]]:
        """Yields the token indices of each instruction: result (-1 if absent), name and end."""
        tokens = self.tokens
        count = len(tokens)
        starts = [i for i, token in enumerate(tokens) if token[:2] == "Op" and token[2:3].isupper()]
        starts = [
            i - 2 if i > 1 and tokens[i - 1] == "=" and tokens[i - 2][0] == "%" else i
            for i in starts
        ]
        if not count:
            return
        if not starts or starts[0] > 0:
            starts.insert(0, 0)
        for start, end in zip(starts, [*starts[1:], count], strict=True):
            has_result = tokens[start][0] == "%"
            if not has_result:
                yield -1, start, end
                continue
            if end - start < 2 or tokens[start + 1] != "=":
                raise self._error("'=' is expected after a result id", min(start + 1, count - 1))
            if end - start < 3:
                raise self._error("an instruction is expected after '='", start + 1)
            yield start, start + 2, end

    def _words(self, result_at: int, name_at: int, end: int) -> list[int]:
        tokens = self.tokens
        name = tokens[name_at]
        result = tokens[result_at] if result_at >= 0 else None
        arguments = tokens[name_at + 1 : end]
        try:
            if name[0] == "!" and result is None:
                return self.encoder.verbatim([name, *arguments], NAME)
            if name.startswith("OpUnknown("):
                return self.encoder.unknown(name, arguments, result)
            return self.encoder.instruction(name, arguments, result)
        except OperandError as error:
            place = result_at if error.token == RESULT else name_at + 1 + error.token
            raise self._error(error.cause, min(place, len(tokens) - 1)) from None

    def _error(self, cause: str, token: int) -> SPIRVAssemblyError:
        """Creates an error at a token. Line and column are only computed here."""
        places = (m.start() for m in _TOKEN.finditer(self.text) if m[0][0] != ";")
        start = next((p for i, p in enumerate(places) if i == token), len(self.text))
        line = self.text.count("\n", 0, start) + 1
        return SPIRVAssemblyError(cause, line, start - (self.text.rfind("\n", 0, start) + 1) + 1)


def _numeric_ids(tokens: list[str]) -> set[int]:
    return {int(t[1:]) for t in tokens if t[0] == "%" and len(t) < 12 and t[1:].isdecimal()}


def _read_header(text: str, least_bound: int) -> tuple[Header, ByteOrder]:
    matches: dict[str, re.Match[str]] = {}
    for line in text.lstrip().split("\n", HEADER_WORDS + 2)[: HEADER_WORDS + 2]:
        if not line.startswith(";"):
            break
        for key, pattern in _HEADER.items():
            match = pattern.fullmatch(line)
            if match:
                matches[key] = match
    version = grammar().version
    if "version" in matches:
        version = (int(matches["version"][1]) & 0xFF, int(matches["version"][2]) & 0xFF)
    generator = GENERATOR
    if "generator" in matches:
        tool = _tool(matches["generator"][1])
        generator = tool << 16 | int(matches["generator"][2]) & 0xFFFF
    bound = int(matches["bound"][1]) if "bound" in matches else 0
    schema = int(matches["schema"][1]) & 0xFFFFFFFF if "schema" in matches else 0
    if "bound" not in matches or bound > MAX_ID_BOUND or (bound < least_bound > 1):
        bound = least_bound
    order: ByteOrder = "big" if "order" in matches and matches["order"][1] == "big" else "little"
    return Header(version, generator, bound, schema), order


def _tool(name: str) -> int:
    unknown = re.fullmatch(r"Unknown\(([0-9]{1,5})\)", name)
    if unknown:
        return int(unknown[1]) & 0xFFFF
    return grammar().generator_tool(name) or 0
