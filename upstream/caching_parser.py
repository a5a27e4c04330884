"""
A parser that reads the same text once.

Generated IR repeats itself: the types of a layer's tensors stand at every operation on them, an
operation's properties at every one of its kind. Attributes do not change, so what a piece of text
was parsed to is what it will be parsed to again. xDSL takes 20 microseconds a token. The pull
request: a table from text to attribute in `AttrParser`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute, TypeAttribute
from xdsl.parser import Parser

T = TypeVar("T")

PROPERTIES = re.compile(r'<\{(?:[^"{}\\\n]|"[^"\\\n]*")*\}>')
"""Properties without braces in them; the parser itself reads all other properties."""

FUNCTION_TYPE = re.compile(r"\([^()\n]*\) -> (?:\([^()\n]*\)|[^()\n]+)(?=\n)")
"""At the end of a line, where the generic form has it; no type in it has parentheses."""

SHAPED_TYPE = re.compile(
    r"(?:tensor|memref|vector|!spirv\.\w+)<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]*>)*>)*>"
)
"""A type whose parts stand in brackets, as vectors and pointers; three deep are enough."""


class CachingParser(Parser):
    """xDSL's parser, which remembers properties, function types and shaped types by their text."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._known: dict[tuple[str, str], Any] = {}

    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        # A new dictionary for every operation, which may change it.
        return dict(self._once(PROPERTIES, super().parse_optional_properties_dict))

    def parse_optional_function_type(self) -> FunctionType | None:
        return self._once(FUNCTION_TYPE, super().parse_optional_function_type)

    def parse_optional_type(self) -> TypeAttribute | None:
        return self._once(SHAPED_TYPE, super().parse_optional_type)

    def _parse_dense_literal_type(self) -> Any:
        # Checked by a constraint that is made anew each time, which takes 2 ms.
        return self._once(SHAPED_TYPE, super()._parse_dense_literal_type)

    def _once(self, pattern: re.Pattern[str], parse: Callable[[], T]) -> T:
        """Parses the text here; remembers the result if the pattern says where the text ends."""
        match = pattern.match(self.lexer.input.content, self.pos)
        if match is None:
            return parse()
        key = (parse.__name__, match[0])
        if key in self._known:
            self._resume_from(match.end())
            return self._known[key]
        parsed = parse()
        if self._ends_at(match.end()):
            self._known[key] = parsed
        return parsed

    def _ends_at(self, position: int) -> bool:
        """Whether the last parse ended at a position, but for spaces behind it."""
        return not self.lexer.input.content[position : self.pos].strip() and self.pos >= position
