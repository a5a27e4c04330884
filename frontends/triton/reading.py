"""
Parses TTIR text with locations: the `location` of an operation is its line of Python.

MLIR prints most locations after the module, where xDSL's parser does not find them. They are
therefore parsed first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.universe import XDSL_UNIVERSE
from xdsl.utils.exceptions import ParseError, UnregisteredConstructException, VerifyException

import xdsl_spirv.universe  # pyright: ignore[reportUnusedImport]  # noqa: F401
from xdsl_spirv.frontends.errors import UNFORESEEN, FrontendError
from xdsl_spirv.frontends.triton.dialect import OTHERS, Triton

_ALIAS = re.compile(r"^(#loc\w*) = (loc\(.*\))$", re.MULTILINE)
_USED = re.compile(r"#loc\w*")
_OWN = "triton/language/"
"""Part of the path of Triton's library files."""


def read(text: str, name: str = "<ttir>") -> ModuleOp:
    """Parses TTIR text. Raises `FrontendError` for malformed text and unknown operations."""
    ctx = Context()
    for dialect in ("arith", "builtin", "cf", "math", "scf"):
        ctx.register_dialect(dialect, XDSL_UNIVERSE.all_dialects[dialect])
    ctx.register_dialect("tt", lambda: Triton)
    for name, dialect in OTHERS.items():
        ctx.register_dialect(name, lambda dialect=dialect: dialect)
    parser = Parser(ctx, _ALIAS.sub("", text), name)
    try:
        _read_locations(parser, ctx, text)
        return parser.parse_module()
    except (ParseError, UnregisteredConstructException, VerifyException, *UNFORESEEN) as error:
        line = parser.lexer.input.content.count("\n", 0, parser.pos)
        raise _refusal(parser, text, name, line + 1, error) from None


def _read_locations(parser: Parser, ctx: Context, text: str) -> None:
    """Defines the named locations of a text in the parser."""
    texts = {name: location for name, location in _ALIAS.findall(text)}

    def define(name: str) -> None:
        location = texts.pop(name, None)
        if location is None:
            return
        for used in _USED.findall(location):
            define(used)
        inner = Parser(ctx, location, name)
        inner.attribute_aliases.update(parser.attribute_aliases)
        found = inner.parse_optional_location()
        assert found is not None
        parser.attribute_aliases[name] = found

    for name in list(texts):
        define(name)


def _refusal(parser: Parser, text: str, name: str, number: int, error: Exception) -> FrontendError:
    """Makes the error for a line that cannot be parsed, with its line of Python."""
    lines = text.splitlines()[number - 1 :]
    used = next((found for line in lines if (found := _USED.findall(line))), [])
    places = [line_of(parser.attribute_aliases.get(alias)) for alias in used]
    known = [f"{Path(place[0]).name}:{place[1]}" for place in places if place]
    said = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
    if found := re.search(r"[Oo]peration (\S+) is not registered", said):
        said = f"{found[1]} is not supported"
    remedy = "docs/limits.md lists what Triton's kernels may use"
    return FrontendError(said, known[-1] if known else f"{name}:{number}", remedy)


def line_of(location: object) -> tuple[str, int] | None:
    """Returns the innermost file and line of Python outside Triton's library."""
    match location:
        case FileLineColLoc():
            return location.filename.data, location.line.data
        case NameLoc():
            return line_of(location.location)
        case CallSiteLoc():
            inner, outer = line_of(location.callee), line_of(location.caller)
            return outer if inner is None or (outer and _OWN in inner[0]) else inner
        case FusedLoc():
            found = [line_of(part) for part in cast(ArrayAttr[Attribute], location.locations)]
            return next((place for place in found if place), None)
        case _:
            return None


def name_of(location: object) -> str | None:
    """Returns the Python variable that a location names, or None."""
    match location:
        case NameLoc():
            return location.desc.data
        case CallSiteLoc():
            return name_of(location.callee)
        case _:
            return None


def read_file(path: Path) -> ModuleOp:
    """Reads TTIR from a file. Raises `FrontendError` for a missing file or malformed text."""
    try:
        return read(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "the file is not text"
        raise FrontendError(f"cannot read the kernel: {cause}", str(path), "give TTIR") from None
