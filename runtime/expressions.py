"""
Evaluates sizes in a program's manifest: numbers, or expressions of named sizes as text.

    "batch", "batch * 12", "(seq + 63) / 64", "min(seq * 8, 256)"

`/` divides and drops the remainder. Input shapes define the named sizes. Expressions of these
names are evaluated when the shapes of all inputs are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl_spirv.runtime.errors import ProgramError

Number: TypeAlias = int | str
"""A known size, or the expression of a size."""

NAME = re.compile(r"[A-Za-z_]\w*")
TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|[-+*/(),])")
MIN = "min"
"""Name of the only function in expressions. No size may have this name."""

LONGEST = 10_000
"""Maximum length of an expression, in characters."""


def is_name(size: Number) -> bool:
    """True if a size is only a name, whose value comes from an input's shape."""
    return isinstance(size, str) and NAME.fullmatch(size) is not None and size != MIN


def evaluate(size: Number, values: Mapping[str, int], place: str) -> int:
    """Returns the value of a size. Raises `ProgramError` for names that are not in `values`."""
    if isinstance(size, int):
        return size
    return _Reader(size, values, place).whole()


def function_of(texts: Sequence[str], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """
    Compiles expressions to a function, which takes the values of `names` and returns the values of
    the expressions.

    Repeated calls are faster than `evaluate`. Raises `ProgramError` for a text that is not an
    expression of the names.
    """
    ones = dict.fromkeys(names, 1)
    for text in texts:
        _Reader(text, ones, "the program").whole()
    called = {name: f"v{number}" for number, name in enumerate(names)}
    parts = [NAME.sub(lambda m: called.get(m.group(), MIN), text) for text in texts]
    body = ", ".join(part.replace("/", "//") for part in parts)
    # _Reader has checked that the text has only names, numbers and operators.
    source = f"lambda {', '.join(called.values())}: ({body}{',' if parts else ''})"
    try:
        return eval(source, {"__builtins__": {}, MIN: min})
    except RecursionError as error:
        # Python's compiler recurses over the terms of a sum.
        raise ProgramError(
            "a size has too many terms", "the program", "compile the program again"
        ) from error


def names_in(size: Number) -> list[str]:
    """Returns the names that occur in a size."""
    if isinstance(size, int):
        return []
    return [name for name in dict.fromkeys(NAME.findall(size)) if name != MIN]


class _Reader:
    """Evaluates an expression while parsing it, from left to right."""

    def __init__(self, text: str, values: Mapping[str, int], place: str):
        self.text, self.values, self.place = text, values, place
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            token = TOKEN.match(stripped, position)
            if token is None or len(text) > LONGEST:
                raise self._wrong()
            self.tokens.append(token.group(1))
            position = token.end()
        self.tokens.reverse()

    def whole(self) -> int:
        value = self._sum(0)
        if self.tokens:
            raise self._wrong()
        return value

    def _wrong(self) -> ProgramError:
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return ProgramError(
            f"{shown!r} is not a valid size", self.place, "compile the program again"
        )

    def _next(self, *wanted: str) -> str | None:
        return self.tokens.pop() if self.tokens and self.tokens[-1] in wanted else None

    def _sum(self, depth: int) -> int:
        value = self._product(depth)
        while (sign := self._next("+", "-")) is not None:
            term = self._product(depth)
            value = value + term if sign == "+" else value - term
        return value

    def _product(self, depth: int) -> int:
        value = self._factor(depth)
        while (sign := self._next("*", "/")) is not None:
            factor = self._factor(depth)
            if sign == "/" and factor < 1:
                raise self._wrong()
            value = value * factor if sign == "*" else value // factor
        return value

    def _factor(self, depth: int) -> int:
        if not self.tokens or depth > 100:
            raise self._wrong()
        token = self.tokens.pop()
        if token.isdecimal():
            return int(token)
        if token == "(":
            value = self._sum(depth + 1)
            if self._next(")") is None:
                raise self._wrong()
            return value
        if token == MIN and self._next("(") is not None:
            first = self._sum(depth + 1)
            if self._next(",") is None:
                raise self._wrong()
            second = self._sum(depth + 1)
            if self._next(")") is None:
                raise self._wrong()
            return min(first, second)
        if token not in self.values:
            raise self._wrong()
        return self.values[token]
