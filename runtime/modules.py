"""MLIR modules from files and text and back, parsed with every dialect of xDSL and verified."""

from __future__ import annotations

import os
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
"""Limit for an MLIR file: weights belong beside it."""


class Dialects(dict[str, Callable[[], Dialect]]):
    """
    The dialects of xDSL and ours by name; of other packages, once none of these has a name.

    To find other packages takes as long as to parse a small module.
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
        """Another registry of the same state, as `Context.clone` wants it."""
        other = Dialects()
        other.update(self)
        other.is_complete = self.is_complete
        return other


def context() -> Context:
    """A context with every dialect that `xdsl-opt` would find, each loaded when it is met."""
    return Context(_registered_dialects=Dialects())


def parse(
    source: str | os.PathLike[str], ctx: Context | None = None, parser: type[Parser] = Parser
) -> ModuleOp:
    """
    Parse and verify the MLIR file `source`, by another parser if one is given.

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
    parser: type[Parser] = Parser,
) -> ModuleOp:
    """Parse and verify MLIR text; `name` is for errors."""
    chosen = parser(ctx or context(), text, name)
    with reading(chosen):
        module = chosen.parse_module()
    verify(module)
    return module


@contextmanager
def reading(parser: Parser) -> Generator[None]:
    """Inside, an exception of a parser becomes an error at its present line."""
    try:
        yield
    except (ParseError, UnregisteredConstructException):
        raise
    except (VerifyException, *UNFORESEEN) as error:
        source = parser.lexer.input
        line = source.content.count("\n", 0, parser.pos) + 1
        # An attribute or a type that is made where it stands, before any operation has it.
        verb = "is not valid" if isinstance(error, VerifyException) else "does not parse"
        raise ProgramError(
            f"the module {verb}: {_error_sentence(error)}",
            f"{source.name}:{line}",
            "correct the text there",
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
Exceptions that parsers and verifiers, xDSL's and ours, raise for text that their authors did not
think of.

They are functions of that text alone: it is what is wrong.
"""


def _error_sentence(error: Exception) -> str:
    """An error as a sentence; one of Python's with its kind, since its text alone says little."""
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, VerifyException) else f"{type(error).__name__}: {text}"


def text_of(op: Operation, generic: bool = False) -> str:
    """An operation as MLIR text."""
    output = StringIO()
    Printer(stream=output, print_generic_format=generic).print_op(op)
    return output.getvalue() + "\n"


def verify(module: ModuleOp) -> None:
    """Verify a module; raises `ProgramError` that names the operation at fault."""
    try:
        with verifying():
            module.verify()
            verify_order(module)
    except VerifyException as error:
        raise ProgramError(f"the module is not valid: {error}", culprit(module)) from error


@contextmanager
def verifying() -> Generator[None]:
    """Inside, an exception of a verifier becomes the error that the module is not valid."""
    try:
        yield
    except UNFORESEEN as error:
        raise VerifyException(_error_sentence(error)) from error


def culprit(module: ModuleOp) -> str:
    """
    Returns where the first operation stands whose own verifier refuses it; nothing if there is
    none.
    """
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except (VerifyException, *UNFORESEEN):
            return place(op)
    return ""
