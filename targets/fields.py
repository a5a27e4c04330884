"""Reads the fields of a target file. Errors name a field that is missing or has a wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from xdsl_spirv.speech import spoken

ELEMENT_TYPES = (
    *("f16", "f32", "f64", "bf16", "f8E4M3FN", "f8E5M2"),
    *("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"),
)
"""Element types of a matrix property. Integers have a signedness."""


KindT = TypeVar("KindT")


class TargetError(ValueError):
    """Error for a target that does not exist, or whose file does not follow the schema."""

    def __str__(self) -> str:
        return spoken(super().__str__())


class Fields:
    """A JSON object. Its methods read a field and check its type."""

    def __init__(self, data: Any, where: str):
        if not isinstance(data, dict):
            raise TargetError(f"{where or 'the file'} must be a JSON object")
        self.data: dict[str, Any] = data
        self.where = where

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _take(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.data.get(key, default)
        if value is None:
            raise TargetError(f"{self._name(key)} is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TargetError(
                f"{self._name(key)} is {value!r}: use a value of type {kind.__name__}"
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self._take(key, str, default)

    def element_type(self, key: str) -> str:
        name = self.text(key)
        if name not in ELEMENT_TYPES:
            raise TargetError(
                f"{self._name(key)} is {name!r}, but must be one of {', '.join(ELEMENT_TYPES)}"
            )
        return name

    def flag(self, key: str, default: bool | None = None) -> bool:
        return self._take(key, bool, default)

    def positive(self, key: str, default: int | None = None) -> int:
        value: int = self._take(key, int, default)
        if value < 1:
            raise TargetError(f"{self._name(key)} is {value}: use at least 1")
        return value

    def positives(self, key: str, length: int | None = None) -> tuple[int, ...]:
        values: list[Any] = self._take(key, list)
        right = length in (None, len(values))
        if not right or any(type(v) is not int or v < 1 for v in values):
            count = f"{length} " if length else ""
            raise TargetError(
                f"{self._name(key)} is {values}, but must be {count}positive integers"
            )
        return tuple(values)

    def indices(self, key: str) -> tuple[int, ...]:
        """Reads a list that is a permutation of 0, 1, 2, ..."""
        values: list[Any] = self._take(key, list)
        if sorted(values) != list(range(len(values))):
            raise TargetError(f"{self._name(key)} is {values}: use a permutation of 0, 1, 2, ...")
        return tuple(values)

    def numbers(self, key: str, default: dict[str, float] | None = None) -> dict[str, float]:
        values: dict[str, Any] = self._take(key, dict, default)
        if any(type(v) not in (int, float) or v <= 0 for v in values.values()):
            raise TargetError(f"{self._name(key)} is {values}: use an object of positive numbers")
        return values

    def number(self, key: str) -> float:
        value: Any = self.data.get(key)
        if type(value) not in (int, float) or value <= 0:
            raise TargetError(f"{self._name(key)} is {value!r}, but must be a positive number")
        return value

    def fields(self, key: str, default: dict[str, Any] | None = None) -> Fields:
        return Fields(self._take(key, dict, default), self._name(key))

    def objects(self, key: str, default: list[Any] | None = None) -> list[Fields]:
        values: list[Any] = self._take(key, list, default)
        return [Fields(v, f"{self._name(key)}[{i}]") for i, v in enumerate(values)]

    def texts(self, key: str) -> list[str]:
        values: list[Any] = self._take(key, list)
        if any(not isinstance(v, str) for v in values):
            raise TargetError(f"{self._name(key)} must be a list of strings")
        return values

    def drop_field(self, key: str) -> Fields:
        return Fields({name: value for name, value in self.data.items() if name != key}, self.where)


def read_record(kind: type[KindT], section: Fields, base: KindT | None = None) -> KindT:
    """
    Reads the fields of a dataclass from a section, by their types. `base` provides missing fields.
    """
    hints, values = _hints(kind), dict[str, Any]()
    if unknown := section.data.keys() - hints.keys():
        raise TargetError(
            f"{section.where} has the unknown field {min(unknown)!r}: use {', '.join(hints)}"
        )
    for name, (hint, is_optional) in hints.items():
        if name in section.data or (base is None and not is_optional):
            values[name] = _value(hint, section, name, getattr(base, name, None))
        elif base is not None:
            values[name] = getattr(base, name)
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, tuple[Any, bool]]:
    """Returns the type of each field of a dataclass, and True if the field has a default."""
    hints = {
        name: next((part for part in get_args(hint) if is_dataclass(part)), hint)
        if get_origin(hint) is UnionType
        else hint
        for name, hint in get_type_hints(kind).items()
    }
    return {
        field.name: (
            hints[field.name],
            field.default is not MISSING or field.default_factory is not MISSING,
        )
        for field in fields(kind)
    }


def _value(hint: Any, section: Fields, name: str, base: Any) -> Any:
    arguments = get_args(hint)
    if is_dataclass(hint):
        return read_record(hint, section.fields(name), base)  # pyright: ignore
    if get_origin(hint) in (dict, Mapping):
        return section.numbers(name)
    if get_origin(hint) is tuple and is_dataclass(arguments[0]):
        entries = section.objects(name)
        return tuple(read_record(arguments[0], entry) for entry in entries)  # pyright: ignore
    if get_origin(hint) is tuple:
        return section.positives(name, None if ... in arguments else len(arguments))
    readers = {float: section.number, str: section.text, bool: section.flag}
    return readers.get(hint, section.positive)(name)
