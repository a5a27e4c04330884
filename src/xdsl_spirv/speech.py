"""
How errors name what a user can give: as options on the command line, as arguments in Python.

Errors are written with the command's options. Whoever reads them in Python reads arguments.

>>> spoken("give --dim n=N --dim h=N")
'give dims={"n": N, "h": N}'
>>> with as_command():
...     spoken("give --dim n=N --dim h=N")
'give --dim n=N --dim h=N'
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND = ContextVar("command", default=False)

PAIRS = {"dim": "dims", "constant": "constants", "state": "state"}
"""Options of pairs NAME=VALUE that are a mapping in Python."""
NAMES = {**PAIRS, "sanitize": "checks", "check": "checks", "except": "limits", "only": "limits"}
VALUES = {"device": '"{}"', "target": '"{}"', "sanitize": 'Checks.of("{}")'}
"""How a value behind an option is written."""

_PAIR = r"--(dim|constant|state) ([\w.]+)=([\w.?]+)"
_REPEATED = re.compile(_PAIR + r"(?:,? (?:or )?--\1 [\w.]+=[\w.?]+)*")
_INPUT = re.compile(r"--input ([\w.]+)=\S+")
_VALUE = re.compile(r"--(device|target|sanitize) ([a-z][\w:-]*)")
_NUMBER = re.compile(r"--([a-z][a-z-]*) (?=[A-Z]\b)([A-Z])")
_OPTION = re.compile(r"--([a-z][a-z-]*)")
_COMMANDS = re.compile(r"(`xdsl-spirv [^`]*`)")


@contextmanager
def as_command() -> Generator[None]:
    """Within, errors speak of options."""
    token = _COMMAND.set(True)
    try:
        yield
    finally:
        _COMMAND.reset(token)


def spoken(text: str) -> str:
    """An error's text for whoever reads it."""
    if _COMMAND.get() or "--" not in text:
        return text
    parts = _COMMANDS.split(text)
    return "".join(part if number % 2 else _in_python(part) for number, part in enumerate(parts))


def _in_python(text: str) -> str:
    text = _REPEATED.sub(_mapping, text)
    text = _INPUT.sub(r"\1=array", text)
    text = _VALUE.sub(lambda m: f"{_name(m[1])}={VALUES[m[1]].format(m[2])}", text)
    text = _NUMBER.sub(lambda m: f"{_name(m[1])}={m[2]}", text)
    return _OPTION.sub(lambda m: _name(m[1]), text)


def _mapping(match: re.Match[str]) -> str:
    quote = '"{}"' if match[1] == "state" else "{}"
    pairs = [(m[2], quote.format(m[3])) for m in re.finditer(_PAIR, match[0])]
    items = ", ".join(f'"{name}": {value}' for name, value in pairs)
    return f"{PAIRS[match[1]]}={{{items}}}"


def _name(option: str) -> str:
    return NAMES.get(option, option.replace("-", "_"))
