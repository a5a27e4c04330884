"""Parses, verifies and prints MLIR modules, with every dialect of xDSL."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.exceptions import ParseError, UnregisteredConstructException, VerifyException

from xdsl_spirv.dialects.places import place
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.universe import UNIVERSE
from xdsl_spirv.upstream.order import verify_order

MAX_TEXT_BYTES = 1 << 30
"""Size limit for an MLIR file. Weights belong in other files."""


ALIAS = re.compile(r"^[#!][\w.$-]+(?=[ \t]*=)", re.MULTILINE)
"""Matches the name of an alias in its definition, at the start of a line."""


class ModuleParser(Parser):
    """
    A parser that also accepts aliases that are defined after their first use.

    `mlir-opt --mlir-print-debuginfo` defines the aliases of locations after the module.
    """

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parses the definitions of all aliases, then the module."""
        places = [match.start() for match in ALIAS.finditer(self.lexer.input.content)]
        for start in places:
            self._resume_from(start)
            super()._parse_alias_def()
        if places:
            self._resume_from(0)
        return super().parse_module(allow_implicit_module)

    def _parse_alias_def(self) -> None:
        # The definition was already read.
        self.attribute_aliases.pop(self._current_token.text, None)
        super()._parse_alias_def()


class Dialects(dict[str, Callable[[], Dialect]]):
    """
    Dialects by name, from xDSL, this package and other packages.

    Other packages are searched only for an unknown name, because the search takes as long as
    parsing a small module.
    """

    def __init__(self) -> None:
        super().__init__(XDSL_UNIVERSE.all_dialects | UNIVERSE.all_dialects)
        self.is_complete = False

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name) and not self.is_complete:
            self.is_complete = True
            self.update(Universe.get_multiverse().all_dialects)
        return super().__contains__(name)

    def copy(self) -> Dialects:
        """Returns a copy of the registry, for `Context.clone`."""
        other = Dialects()
        other.update(self)
        other.is_complete = self.is_complete
        return other


def context() -> Context:
    """Returns a context with every dialect that `xdsl-opt` would find, each loaded on first use."""
    return Context(_registered_dialects=Dialects())


def parse(
    source: str | os.PathLike[str], ctx: Context | None = None, parser: type[Parser] = ModuleParser
) -> ModuleOp:
    """
    Parses and verifies the MLIR file `source`.

    Raises `ProgramError` if it cannot be read, and xDSL's errors if it is not a valid module.
    """
    path = Path(source)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise ProgramError(
            f"cannot read the input: {error.strerror}", str(path), "give an .mlir file"
        ) from error
    except UnicodeDecodeError as error:
        raise ProgramError("the input is not text", str(path), "give an .mlir file") from error
    if len(data) > MAX_TEXT_BYTES:
        raise ProgramError(
            f"the input has more than {MAX_TEXT_BYTES:,} bytes", str(path), "give an .mlir file"
        )
    return parse_text(text, str(path), ctx, parser)


@stage("reading the module")
def parse_text(
    text: str,
    name: str = "<text>",
    ctx: Context | None = None,
    parser: type[Parser] = ModuleParser,
) -> ModuleOp:
    """Parses and verifies MLIR text. `name` is used in errors."""
    chosen = parser(ctx or context(), text, name)
    with reading(chosen):
        module = chosen.parse_module()
    verify(module)
    return module


@contextmanager
def reading(parser: Parser) -> Generator[None]:
    """Converts a parser's exception inside the `with` to an error at the parser's current line."""
    try:
        yield
    except (ParseError, UnregisteredConstructException):
        raise
    except (VerifyException, *UNFORESEEN) as error:
        source = parser.lexer.input
        line = source.content.count("\n", 0, parser.pos) + 1
        # Attributes and types are verified when created, before an operation contains them.
        verb = "is not valid" if isinstance(error, VerifyException) else "does not parse"
        raise ProgramError(
            f"the module {verb}: {_error_sentence(error)}",
            f"{source.name}:{line}",
            "correct the text at this line",
        ) from error


UNFORESEEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""
Exceptions that parsers and verifiers raise for text that their authors did not anticipate.

They depend only on that text, so the text is at fault.
"""


def _error_sentence(error: Exception) -> str:
    """Formats an error as a sentence. Python's own errors get their class name, to be clear."""
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, VerifyException) else f"{type(error).__name__}: {text}"


def text_of(op: Operation, generic: bool = False) -> str:
    """Returns an operation as MLIR text."""
    output = StringIO()
    Printer(stream=output, print_generic_format=generic).print_op(op)
    return output.getvalue() + "\n"


def verify(module: ModuleOp) -> None:
    """Verifies a module. Raises a `ProgramError` that names the invalid operation."""
    try:
        with verifying():
            module.verify()
            verify_order(module)
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", culprit(module)) from error


@contextmanager
def verifying() -> Generator[None]:
    """Converts a verifier's exception inside the `with` to the error of an invalid module."""
    try:
        yield
    except UNFORESEEN as error:
        raise VerifyException(_error_sentence(error)) from error


def culprit(module: ModuleOp) -> str:
    """Returns the place of the first operation that its verifier refuses, or ""."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except (VerifyException, *UNFORESEEN):
            return place(op)
    return ""
