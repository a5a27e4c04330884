"""Printed strings with non-ASCII characters parse again, and unterminated literals are refused."""

from __future__ import annotations

import io
import time

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, BytesAttr, FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.raw import RawGlobalOp
from xdsl_spirv.upstream import string_literals

string_literals.install()

TEXTS = ("", "a", "café", 'Größe\n\t"quoted" \\ é', "\x7f\x00", "日本語", "🐙\n", "\\C3\\A9")


def context() -> Context:
    found = Context()
    for dialect in (Builtin, SPIRV):
        found.load_dialect(dialect)
    return found


@pytest.mark.parametrize(
    "attribute", [*map(StringAttr, TEXTS), BytesAttr(b"jos\xe9"), BytesAttr(b"\xff\n")]
)
def test_printed_strings_are_read(attribute: Attribute) -> None:
    op = RawGlobalOp("s", "OpString", [attribute])
    op.attributes["entry_name"] = attribute
    text = io.StringIO()
    Printer(text).print_op(op)
    read = Parser(context(), text.getvalue()).parse_op()
    assert isinstance(read, RawGlobalOp)
    assert list(read.layout) == [attribute]
    assert read.attributes["entry_name"] == attribute


def test_locations_may_have_files_with_non_ascii_names() -> None:
    op = RawGlobalOp("s", "OpString", [StringAttr("")])
    op.location = FileLineColLoc(StringAttr("josé/a b.comp"), IntAttr(3), IntAttr(4))
    text = io.StringIO()
    Printer(text, print_debuginfo=True).print_op(op)
    assert Parser(context(), text.getvalue()).parse_op().location == op.location


@pytest.mark.parametrize("text", ['"' + "a" * 100_000, '"\\zz"', '"a\n"', '"\\'])
def test_unterminated_literals_are_refused(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        Parser(context(), text).parse_attribute()
    assert time.process_time() - start < 1
