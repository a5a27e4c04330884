"""
Takes the fields of a target file one by one, and names a field that is missing or of a wrong type.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.speech import spoken

ELEMENT_TYPES = ("f16", "f32", "f64", "bf16", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
"""Element types of a cooperative-matrix property: integers say their signedness."""


class TargetError(ValueError):
    """A target that does not exist, or whose file does not follow the schema."""

    def __str__(self) -> str:
        return spoken(super().__str__())


class Fields:
    """A JSON object whose fields are taken one by one, with their type checked."""

    def __init__(self, data: Any, where: str):
        if not isinstance(data, dict):
            raise TargetError(f"{where or 'the file'} is not a JSON object")
        self.data: dict[str, Any] = data
        self.where = where

    def _name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _take(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.data.get(key, default)
        if value is None:
            raise TargetError(f"{self._name(key)} is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TargetError(f"{self._name(key)} is {value!r}, not of type {kind.__name__}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return self._take(key, str, default)

    def element_type(self, key: str) -> str:
        name = self.text(key)
        if name not in ELEMENT_TYPES:
            raise TargetError(
                f"{self._name(key)} is {name!r}, not one of {', '.join(ELEMENT_TYPES)}"
            )
        return name

    def flag(self, key: str, default: bool | None = None) -> bool:
        return self._take(key, bool, default)

    def positive(self, key: str) -> int:
        value: int = self._take(key, int)
        if value < 1:
            raise TargetError(f"{self._name(key)} is {value}, not at least 1")
        return value

    def positives(self, key: str, length: int | None = None) -> tuple[int, ...]:
        values: list[Any] = self._take(key, list)
        right = length in (None, len(values))
        if not right or any(type(v) is not int or v < 1 for v in values):
            count = f"{length} " if length else ""
            raise TargetError(f"{self._name(key)} is {values}, not {count}positive integers")
        return tuple(values)

    def indices(self, key: str) -> tuple[int, ...]:
        """The numbers from 0 in some order."""
        values: list[Any] = self._take(key, list)
        if sorted(values) != list(range(len(values))):
            raise TargetError(
                f"{self._name(key)} is {values}, not the numbers from 0 in some order"
            )
        return tuple(values)

    def numbers(self, key: str) -> dict[str, float]:
        values: dict[str, Any] = self._take(key, dict)
        if any(type(v) not in (int, float) or v <= 0 for v in values.values()):
            raise TargetError(f"{self._name(key)} is {values}, not positive numbers by name")
        return values

    def number(self, key: str) -> float:
        value: Any = self.data.get(key)
        if type(value) not in (int, float) or value <= 0:
            raise TargetError(f"{self._name(key)} is {value!r}, not a positive number")
        return value

    def fields(self, key: str) -> Fields:
        return Fields(self._take(key, dict), self._name(key))

    def objects(self, key: str) -> list[Fields]:
        values: list[Any] = self._take(key, list)
        return [Fields(v, f"{self._name(key)}[{i}]") for i, v in enumerate(values)]

    def texts(self, key: str) -> list[str]:
        values: list[Any] = self._take(key, list)
        if any(not isinstance(v, str) for v in values):
            raise TargetError(f"{self._name(key)} is not a list of strings")
        return values
