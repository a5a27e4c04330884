"""Compares a command's JSON with the text that it prints for the same run."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from decimal import Decimal
from typing import Any
from unittest import mock

from xdsl_spirv.tools import report
from xdsl_spirv.tools.main import main

NUMBER = re.compile(r"(?<![\w.:/-])-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?(?!\w|\.\d|:)")
"""Matches a number that is not part of a name, a shape or a location."""


def json_and_text(*words: str, status: int = 0) -> tuple[Any, str]:
    """Returns the object that a command prints with `--json`, and its text without `--json`."""
    printed, text = io.StringIO(), io.StringIO()
    kept = mock.patch.object(report, "redirect_stdout", return_value=redirect_stdout(text))
    with redirect_stdout(printed), kept:
        assert main([*words, "--json"]) == status
    return json.loads(printed.getvalue()), text.getvalue()


def missing_figures(text: str, data: object) -> list[str]:
    """Returns the numbers of a text that an object lacks. Compares at the printed precision."""
    held = list(_numbers(data))
    shown = [word.replace(",", "") for word in NUMBER.findall(text)]
    return [word for word in shown if not any(_is_shown_as(x, word) for x in held)]


def _numbers(data: object) -> Iterator[float]:
    if isinstance(data, Mapping):
        for item in data.values():
            yield from _numbers(item)
    elif isinstance(data, list):
        yield len(data)
        for item in data:
            yield from _numbers(item)
    elif isinstance(data, str):
        yield from (float(word.replace(",", "")) for word in NUMBER.findall(data))
    elif isinstance(data, int | float):
        yield data


def _is_shown_as(number: float, word: str) -> bool:
    last = Decimal(word).as_tuple().exponent
    assert isinstance(last, int)
    return abs(number - float(word)) <= 0.5001 * 10.0**last
