"""
JSON to typed records and back, with errors that name the field.

A record is a frozen dataclass of strings, integers, tuples of records, and optional ones; its type
hints are the schema. What a field must satisfy beyond its type is said by the record's `check`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin

from xdsl_spirv.runtime.errors import ProgramError

T = TypeVar("T")


class _Checked(Protocol):
    def check(self, place: str) -> None: ...


def from_json(kind: type[T], value: object, place: str) -> T:
    """`value` (parsed JSON) as a `kind`. Raises `ProgramError` naming the field that is wrong."""
    return cast(T, _decode(kind, value, place))


def to_json(value: object) -> object:
    """
    The JSON of a record: fields in the order of declaration, without those that are None, and
    `sparse` ones that have their default."""
    if dataclasses.is_dataclass(value):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {
            f.name: to_json(item)
            for f, item in pairs
            if item is not None and not (f.metadata.get("sparse") and item == f.default)
        }
    if isinstance(value, tuple):
        return [to_json(item) for item in cast(tuple[object, ...], value)]
    return value


def _wrong(place: str, expected: str, value: object) -> ProgramError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ProgramError(f"expected {expected}, found {shown}", place, "compile the program again")


def _decode(kind: Any, value: object, place: str) -> object:
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_record(cast(type[Any], kind), value, place)
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, place)
    if origin in (Union, types.UnionType):
        present = [k for k in get_args(kind) if k is not type(None)]
        if value is None and type(None) in get_args(kind):
            return None
        return _decode(present[0] if len(present) == 1 else present, value, place)
    if origin is Literal:
        choices = get_args(kind)
        if not isinstance(value, str) or value not in choices:
            raise _wrong(place, f"one of {', '.join(map(repr, choices))}", value)
        return value
    kinds = tuple(kind) if isinstance(kind, list) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _wrong(place, " or ".join(k.__name__ for k in kinds), value)
    if isinstance(value, str) and ("\0" in value or not _is_text(value)):
        raise _wrong(place, "text", value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise _wrong(place, "a number of 64 bits", value)
    return value


def _is_text(value: str) -> bool:
    """Whether it can be written anywhere: JSON's escapes make halves of characters, too."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode_tuple(kinds: tuple[Any, ...], value: object, place: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _wrong(place, "a list", value)
    items = cast(list[object], value)
    if kinds[-1] is not Ellipsis and len(items) != len(kinds):
        raise _wrong(place, f"a list of {len(kinds)}", items)
    item_kinds = [kinds[0]] * len(items) if kinds[-1] is Ellipsis else list(kinds)
    return tuple(
        _decode(kind, item, f"{place}[{i}]")
        for i, (kind, item) in enumerate(zip(item_kinds, items, strict=True))
    )


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of a record's fields."""
    return typing.get_type_hints(kind)


def _decode_record(kind: type[Any], value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    given = cast(dict[str, object], value)
    hints = _hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for name in given:
        if name not in fields:
            raise ProgramError(f"unknown field {name!r}", place, "compile the program again")
    decoded: dict[str, object] = {}
    for name, field in fields.items():
        if name in given:
            decoded[name] = _decode(hints[name], given[name], f"{place}.{name}")
        elif field.default is dataclasses.MISSING and type(None) in get_args(hints[name]):
            decoded[name] = None
        elif field.default is dataclasses.MISSING:
            raise ProgramError(f"the field {name!r} is missing", place, "compile the program again")
    record = kind(**decoded)
    if hasattr(record, "check"):
        cast(_Checked, record).check(place)
    return record
