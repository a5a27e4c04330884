"""
MLIR text that somebody has damaged: read, or refused by name; never a fault of ours, never a hang.

The texts are the FileCheck inputs, damaged token by token with a seed. Each goes through the passes
of its own `RUN` line, so that what a damaged module does to a pass shows, too.
"""

from __future__ import annotations

import random
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from xdsl_spirv.tools.main import main

FOLDER = Path(__file__).resolve().parents[1] / "filecheck"

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@^#!]?[\w.$-]+|\s+|.', re.DOTALL)

EXTREMES = ("0", "-1", "1", "99", "4294967296", "-9223372036854775809", "1.0e400", "true", "?")

PASSES = re.compile(r"(?:-p|--passes)[ =]+(?:'([^']*)'|\"([^\"]*)\"|(\S+))")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Each input of a FileCheck test, and the passes of its first RUN line."""
    pairs: list[tuple[str, str]] = []
    for path in sorted(FOLDER.rglob("*.mlir")):
        text = path.read_text()
        if "diagnostics" in text or "RUN: not" in text:
            # Refused as it is.
            continue
        named = PASSES.search(text.partition("\n")[0])
        chosen = next(filter(None, named.groups()), "") if named else ""
        for part in text.split("// -----"):
            lines = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
            if any(lines):
                pairs.append(("\n".join(lines), chosen))
    return tuple(pairs)


KINDS = (
    re.compile(r"-?\d[\w.]*"),
    re.compile(r"%.+"),
    re.compile(r"[@^#!].+"),
    re.compile(r"(?:[a-z]\w*\.)+\w+"),
    re.compile(r"(?:s|u)?[if]\d+|index|x\w+"),
    re.compile(r"\w+"),
)
"""Tokens that may stand for each other: numbers, values, symbols, operations, types, words."""


def damaged(text: str, rng: random.Random) -> str:
    """
    The text with one or two tokens replaced by others of their kind, sometimes of any.

    Half of the texts have it replaced wherever it stands, and its numbers, too, within types: what
    comes of that is often read, and meets verifiers and passes.
    """
    if rng.randrange(2):
        return _consistently_damaged(text, rng)
    tokens = TOKEN.findall(text)
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    for _ in range(rng.randint(1, 2)):
        at, other = rng.choice(places), rng.choice(places)
        kind = next((kind for kind in KINDS if kind.fullmatch(tokens[at])), None)
        choice = rng.randrange(10)
        if choice == 0:
            tokens[at] = ""
        elif choice == 1:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind is KINDS[0] and choice < 6:
            tokens[at] = rng.choice(EXTREMES)
        elif kind is not None:
            tokens[at] = rng.choice([tokens[p] for p in places if kind.fullmatch(tokens[p])])
        else:
            tokens[at] += tokens[at]
    return "".join(tokens)


def _consistently_damaged(text: str, rng: random.Random) -> str:
    pattern = rng.choice([r"\b\d+\b", r"\d+(?=x)", r"\b(?:[su]?[if]|bf)\d+\b", r"%[a-z]\w*"])
    tokens = sorted(set(re.findall(pattern, text)))
    if not tokens:
        return text
    old = rng.choice(tokens)
    new = rng.choice([*tokens, *(EXTREMES[:5] if old.isdigit() else ("i1", "f64", "i128")[:3])])
    return re.sub(
        rf"(?<![\w%.]){re.escape(old)}(?![\w.])|(?<=x){re.escape(old)}(?=[x>])", new, text
    )


def outcome(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What is wrong with how the damaged text of this number ends; None where nothing is."""
    rng = random.Random(number)
    text, passes = rng.choice(texts())
    path = folder / "damaged.mlir"
    path.write_text(damaged(text, rng))
    arguments = ["opt", str(path), *(["-p", passes] if passes and number % 2 else [])]
    depth = sys.getrecursionlimit()
    try:
        status = main(arguments)
    except Exception as error:
        return f"{number}: {' '.join(arguments)}: {type(error).__name__}: {error}"
    finally:
        sys.setrecursionlimit(depth)
    said = capsys.readouterr().err
    if status not in (0, 1, 3) or "at fault" in said or (status and not said.startswith("error: ")):
        return f"{number}: {' '.join(arguments)}: {status}: {said[:300]}"
    return None


def test_damaged_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [o for number in range(100) if (o := outcome(number, tmp_path, capsys))] == []


@pytest.mark.long
def test_much_damaged_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = range(1000, 5000)
    assert [o for number in numbers if (o := outcome(number, tmp_path, capsys))] == []
