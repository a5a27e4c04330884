"""A line that repeats an earlier one is parsed like its first occurrence."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.runtime.modules import context
from xdsl_spirv.upstream import lazy_formats, repeated_lines

FUNCTION = """func.func @f(%a: i32, %b: i32, %c: i64, %v: vector<2xi32>) {{
{body}
  return
}}
"""

BODIES = {
    "operands in another order": """
  %0 = arith.subi %a, %b : i32
  %1 = arith.subi %b, %a : i32""",
    "one value twice": """
  %0 = arith.subi %a, %b : i32
  %1 = arith.subi %a, %a : i32""",
    "one value twice, first": """
  %0 = arith.subi %a, %a : i32
  %1 = arith.subi %b, %a : i32""",
    "a value that is defined later": """
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %2 : i32
  %2 = arith.addi %a, %b : i32""",
    "results of an operation with several": """
  %0:2 = arith.addui_extended %a, %b : i32, i1
  %1:2 = arith.addui_extended %0#0, %b : i32, i1
  %2 = arith.addi %1#0, %0#0 : i32""",
    "an operation that goes on in the next line": """
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %b
    : i32
  %2 = arith.addi %a,
    %b : i32""",
    "comments and attributes": """
  %0 = arith.addi %a, %b {note = "x"} : i32 // %a and %b
  %1 = arith.addi %b, %a {note = "x"} : i32 // %a and %b
  %2 = arith.addi %b, %a {note = "%a"} : i32""",
    "flags": """
  %0 = arith.addi %a, %b overflow<nsw> : i32
  %1 = arith.addi %b, %a overflow<nsw> : i32
  %2 = arith.addi %b, %a : i32""",
}


def read(text: str) -> str:
    module = Parser(context(), text).parse_module()
    module.verify()
    return str(module)


def read_each_line_anew(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(lazy_formats, "parse_repeated", lambda parser, cls, parse: parse(parser, cls))
        return read(text)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_repeated_lines_are_read_alike(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FUNCTION.format(body=body)
    assert read(text) == read_each_line_anew(text, monkeypatch)


def test_every_filecheck_input_of_spirv_is_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parents[1] / "filecheck" / "dialects" / "spirv"
    texts = [
        path.read_text()
        for path in sorted(folder.rglob("*.mlir"))
        if "verify-diagnostics" not in path.read_text() and "// -----" not in path.read_text()
    ]
    assert len(texts) >= 12
    for text in texts:
        twice = f"module {{\n{text}\n}}\nmodule {{\n{text}\n}}" if "#" not in text else text
        assert read(twice) == read_each_line_anew(twice, monkeypatch)


def test_repeated_lines_are_taken_from_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    formats = 0

    def count(parser: Parser, cls: type, parse: object) -> object:
        def parse_format(*arguments: object) -> object:
            nonlocal formats
            formats += 1
            return parse(*arguments)  # pyright: ignore

        return repeated_lines.parse_repeated(parser, cls, parse_format)  # pyright: ignore

    monkeypatch.setattr(lazy_formats, "parse_repeated", count)
    lines = "\n".join(f"  %{i} = spirv.IAdd %a, %b : i32" for i in range(50))
    function = f'spirv.func @f(%a: i32, %b: i32) "None" {{\n{lines}\n  spirv.Return\n}}'
    read(f"spirv.module Logical GLSL450 {{\n{function}\n}}")
    assert formats <= 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("arith.addi %a, %c : i32", "operand is used with type i32, but has been"),
        ("arith.addi %a, %0#1 : i32", "SSA value tuple index out of bounds"),
        ("arith.addi %a, %missing : i32", "values used but not defined"),
    ],
)
def test_a_repeated_line_with_a_wrong_value_is_refused(wrong: str, message: str) -> None:
    body = f"  %0 = arith.addi %a, %b : i32\n  %1 = {wrong}"
    with pytest.raises(ParseError, match=message):
        read(FUNCTION.format(body=body))
