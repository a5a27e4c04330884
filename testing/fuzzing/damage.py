"""
Damages files: bytes, tokens of text, parts of JSON, fields of ONNX models.

Every function takes a random generator and the content of a valid file, and returns damaged
content.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

Json = Any
Path = tuple[str | int, ...]

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@^#!]?[\w.$-]+|\s+|.', re.DOTALL)

EXTREMES = ("0", "-1", "1", "99", "4294967296", "-9223372036854775809", "1.0e400", "true", "?")

KINDS = (
    re.compile(r"-?\d[\w.]*"),
    re.compile(r"%.+"),
    re.compile(r"[@^#!].+"),
    re.compile(r"(?:[a-z]\w*\.)+\w+"),
    re.compile(r"(?:s|u)?[if]\d+|index|x\w+"),
    re.compile(r"\w+"),
)
"""Token patterns by kind: numbers, values, symbols, operations, types, words."""

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
WORDS = (
    "",
    "x",
    "\0",
    "\ud800",
    "é" * 200,
    "../x",
    "a\nb",
    "\x1b[2J",
    "min(1",
    "1+" * 5000,
    "f64",
    "7",
)
NUMBERS = (
    -1,
    0,
    1,
    3,
    2**31,
    2**32,
    2**62,
    2**63,
    -(2**63) - 1,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
)
OTHERS: tuple[Json, ...] = (None, True, [], {}, [None], [[[[]]]], {"x": 1})


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """Damages data: changes, removes or doubles one to four bytes or ranges, or truncates it."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        at = rng.randrange(len(changed))
        choice = rng.randrange(8)
        if choice < 3:
            changed[at] ^= 1 << rng.randrange(8)
        elif choice < 5:
            changed[at] = rng.choice((*INTERESTING, rng.randrange(256)))
        elif choice == 5:
            del changed[at : at + rng.randint(1, 8)]
        elif choice == 6:
            start = rng.randrange(len(changed))
            changed[at:at] = changed[start : start + rng.randint(1, 16)]
        else:
            size = min(8, len(changed) - at)
            changed[at : at + size] = rng.choice((b"\xff", b"\0", b"\x7f")) * size
    if rng.randrange(16) == 0:
        del changed[rng.randrange(len(changed) + 1) :]
    return bytes(changed)


def damage_text(rng: random.Random, text: str) -> str:
    """
    Replaces one or two tokens of a text by other tokens, mostly of the same kind.

    In half of the texts, all occurrences of the token are replaced, also numbers in types. Such
    texts often parse and reach verifiers and passes.
    """
    if rng.randrange(2):
        return _damage_consistently(rng, text)
    tokens = TOKEN.findall(text)
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    for _ in range(rng.randint(1, 2) if places else 0):
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
            same = [tokens[p] for p in places if kind.fullmatch(tokens[p])]
            tokens[at] = rng.choice(same or ["x"])
        else:
            tokens[at] += tokens[at]
    return "".join(tokens)


def _damage_consistently(rng: random.Random, text: str) -> str:
    pattern = rng.choice([r"\b\d+\b", r"\d+(?=x)", r"\b(?:[su]?[if]|bf)\d+\b", r"%[a-z]\w*"])
    tokens = sorted(set(re.findall(pattern, text)))
    if not tokens:
        return text
    old = rng.choice(tokens)
    new = rng.choice([*tokens, *(EXTREMES[:5] if old.isdigit() else ("i1", "f64", "i128"))])
    return re.sub(
        rf"(?<![\w%.]){re.escape(old)}(?![\w.])|(?<=x){re.escape(old)}(?=[x>])",
        new.replace("\\", "\\\\"),
        text,
    )


def places(value: Json, path: Path = ()) -> Iterator[Path]:
    """Yields the paths to every part of a JSON value."""
    items = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def damage_json(rng: random.Random, value: Json) -> Json:
    """
    Removes, doubles or replaces one to three parts of a JSON value. Replacements may be hostile
    values.
    """
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _damage_part(rng, value)
    return value


def _damage_part(rng: random.Random, value: Json) -> Json:
    ways = list(places(value))
    if not ways:
        return rng.choice(OTHERS)
    *way, last = rng.choice(ways)
    holder = value
    for key in way:
        holder = holder[key]
    choice = rng.randrange(12)
    if choice == 0:
        del holder[last]
    elif choice == 1 and isinstance(holder, list):
        holder.append(holder[int(last)])
    elif choice == 2:
        other = value
        for key in rng.choice(ways):
            other = other[key]
        holder[last] = json.loads(json.dumps(other))
    else:
        same = NUMBERS if isinstance(holder[last], int) else WORDS
        holder[last] = rng.choice(same if choice < 9 else (*WORDS, *NUMBERS, *OTHERS))
    return value


DEEP = 20_000


def deepen(rng: random.Random, text: str) -> str:
    """Wraps a number or word of a JSON text in many nested brackets."""
    at = rng.choice([match.end() for match in re.finditer(r"[:,\[] ?", text)] or [0])
    return f"{text[:at]}{'[' * DEEP}{text[at:]}"


def damage_message(rng: random.Random, message: Any) -> None:
    """Changes one or two fields of a protobuf message in place, at any depth."""
    for _ in range(rng.randint(1, 2)):
        pairs = _fields(message)
        if not pairs:
            return
        holder, field = rng.choice(pairs)
        try:
            if hasattr(getattr(holder, field.name), "extend"):
                _damage_repeated(rng, holder, field)
            elif field.message_type is not None or rng.randrange(6) == 0:
                holder.ClearField(field.name)
            else:
                setattr(holder, field.name, _other(rng, getattr(holder, field.name), ()))
        except (ValueError, TypeError):
            # The value does not fit the field (an enumeration, or a smaller integer).
            continue


def _fields(message: Any) -> list[tuple[Any, Any]]:
    """Returns every field that is set in a message, with the message that contains the field."""
    pairs: list[tuple[Any, Any]] = []
    waiting = [message]
    while waiting:
        holder = waiting.pop()
        for field, value in holder.ListFields():
            pairs.append((holder, field))
            if field.message_type is not None:
                waiting += list(value) if hasattr(value, "extend") else [value]
    return pairs


def _damage_repeated(rng: random.Random, holder: Any, field: Any) -> None:
    values = getattr(holder, field.name)
    at, choice = rng.randrange(len(values)), rng.randrange(4)
    if choice == 0:
        del values[at]
    elif field.message_type is not None:
        extra = values.add()
        extra.CopyFrom(values[at])
    elif choice == 1:
        values.append(values[at])
    else:
        values[at] = _other(rng, values[at], list(values))


def _other(rng: random.Random, value: Any, others: Sequence[Any]) -> Any:
    if others and rng.randrange(2):
        return rng.choice(others)
    if isinstance(value, bytes):
        return damage_bytes(rng, value)
    if isinstance(value, str):
        return rng.choice(("", "x", "é" * 200, "a\nb", "../x", value * 2))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((0, 1, -1, 2, 3, 7, 99, 2**31 - 1, -(2**31), value + 1, value - 1))
    return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
