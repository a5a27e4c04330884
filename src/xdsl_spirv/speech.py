"""
Rewrites options in error texts for Python, and suggests known names for unknown ones.

Errors are written with the options of the command; for users of Python, options become arguments.
An error about an unknown name suggests similar names (`did_you_mean`).

>>> spoken("give --dim n=N --dim h=N")
'give dims={"n": N, "h": N}'
>>> with as_command():
...     spoken("give --dim n=N --dim h=N")
'give --dim n=N --dim h=N'
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

_COMMAND = ContextVar("command", default=False)

PAIRS = {"dim": "dims", "constant": "constants", "state": "state"}
"""Maps options of the form NAME=VALUE to Python arguments, which take a mapping of all pairs."""
NAMES = {**PAIRS, "sanitize": "checks", "check": "checks", "except": "limits", "only": "limits"}
VALUES = {"device": '"{}"', "target": '"{}"', "sanitize": 'Checks.of("{}")'}
"""Maps options to the Python expression for their value."""

_PAIR = r"--(dim|constant|state) ([\w.]+)=([\w.?]+)"
_REPEATED = re.compile(_PAIR + r"(?:,? (?:or )?--\1 [\w.]+=[\w.?]+)*")
_INPUT = re.compile(r"--input ([\w.]+)=\S+")
_VALUE = re.compile(r"--(device|target|sanitize) ([a-z][\w:-]*)")
_NUMBER = re.compile(r"--([a-z][a-z-]*) (?=[A-Z]\b)([A-Z])")
_OPTION = re.compile(r"--([a-z][a-z-]*)")
_COMMANDS = re.compile(r"(`xdsl-spirv [^`]*`)")


@contextmanager
def as_command() -> Generator[None]:
    """Leaves options unchanged in the error texts of the `with` block."""
    token = _COMMAND.set(True)
    try:
        yield
    finally:
        _COMMAND.reset(token)


def spoken(text: str) -> str:
    """Rewrites options in an error text as Python arguments, except inside of `as_command`."""
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


MOST = 3
"""Maximum number of names in a suggestion."""
TIE = 0.05
"""Maximum difference in similarity between a suggested name and the best one."""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Returns the known names that are most similar to `name`, best first. At most `MOST` names."""
    from difflib import SequenceMatcher, get_close_matches

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    wanted = name.casefold()
    close = get_close_matches(wanted, folded, MOST)
    ratios = [SequenceMatcher(None, other, wanted).ratio() for other in close]
    close = [other for other, ratio in zip(close, ratios, strict=True) if ratio > ratios[0] - TIE]
    # `h200` for `nvidia-h200`: too short to be similar, but a part of it.
    parts = [other for other in folded if len(wanted) > 2 and wanted in other]
    return [folded[other] for other in dict.fromkeys((*close, *parts))][:MOST]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns the remedy for an unknown name: similar names, or else `otherwise`."""
    close = similar(name, known)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise


def counted(number: int, noun: str) -> str:
    """Formats a number with its noun: `1 launch`, `2 launches`."""
    plural = "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{plural if number != 1 else ''}"
