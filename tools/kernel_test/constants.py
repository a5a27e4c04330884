"""Evaluates the constants of a module for a launch's specialization."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xdsl_spirv.serialization.validation.constant_values import (
    SPECIALIZED,
    ConstantValues,
    UnknownConstantError,
    written,
)
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.types import Type
from xdsl_spirv.tools.kernel_test.description import ELEMENT_TYPES, Given, Misuse, suggest

LARGEST = {16: 65504.0, 32: 3.4028234663852886e38, 64: math.inf}


@dataclass(frozen=True)
class SpecConstant:
    """A specialization constant that a launch may set."""

    id: int
    name: str
    scalar: str
    """Type of the constant: `bool`, or a name such as `u32`."""
    default: Any


class Constants:
    """Constants by id; `given` sets specialization constants by their OpName or SpecId."""

    def __init__(self, module: Module, given: Mapping[str, Given]):
        self.module = module
        self.values: dict[int, Any] = {}
        """Maps a SpecId to the value in this launch."""
        for name, value in given.items():
            constant = self._named(name)
            if constant.id in self.values:
                raise Misuse(
                    f"the specialization constant {name!r} is given twice", "", "leave one out"
                )
            checked_value = checked(value, constant.scalar, f"specialization.{name}")
            self.values[constant.id] = _round_number(checked_value, constant.scalar)

    def _named(self, name: str) -> SpecConstant:
        named = [c for c in self.specialized if name in (c.name, str(c.id))]
        if len(named) == 1 or len({c.id for c in named}) == 1:
            return named[0]
        known = [f"{c.name or c.id}" for c in self.specialized]
        cause = "names several constants" if named else "is not a specialization constant"
        raise Misuse(f"{name!r} {cause}", "", suggest(name, known))

    @cached_property
    def specialized(self) -> list[SpecConstant]:
        """Returns the constants with a SpecId."""
        constants: list[SpecConstant] = []
        m = self.module
        for op in SPECIALIZED:
            for i in m.by_op.get(op, ()):
                decoration, type_ = m.decoration(i.result, "SpecId"), m.types.get(i.type_id)
                if decoration is not None and type_ is not None:
                    number = int(decoration.parameters[0])
                    name = m.names.get(i.result, "")
                    constants.append(SpecConstant(number, name, scalar(type_), _default(i, type_)))
        return sorted(constants, key=lambda constant: constant.id)

    def value(self, id: int) -> Any:
        """Returns the value of a scalar constant; raises `Misuse` if the value is unknown."""
        try:
            return ConstantValues(self.module, self.values).value(id)
        except UnknownConstantError as error:
            raise Misuse(
                str(error), "", "give values for the module's specialization constants"
            ) from error

    def parts(self, id: int) -> list[Any]:
        """Returns the component values of a composite constant."""
        i = self.module.definitions[id]
        parts = [self.value(part) for part in i.words[3:]]
        type_ = self.module.type_of(id)
        return parts * type_.lanes if "Replicate" in i.op and type_ is not None else parts


def _default(i: Instruction, type_: Type) -> Any:
    try:
        return written(i, type_)
    except UnknownConstantError as error:
        raise Misuse(str(error), "", "use another type") from error


def scalar(type_: Type) -> str:
    """Returns the name of a scalar type in tests, such as `bool` or `u32`."""
    if type_.kind == "Bool":
        return "bool"
    if type_.is_bfloat16:
        return "bf16"
    letter = "f" if type_.kind == "Float" else "i" if type_.signed else "u"
    return f"{letter}{type_.width}"


def checked(value: Given, kind: str, where: str) -> Any:
    """Returns the value of a constant; raises `Misuse` if the type cannot represent the value."""
    letter, width = kind[0], int(kind.strip("bfiu")) if kind != "bool" else 1
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise Misuse(f"{where} is {value!r}, but must be a boolean", "", "write true or false")
    if kind.startswith(("f", "bf")):
        if type(value) in (int, float) and _holds(float(value), kind, width):
            return float(value)
    elif type(value) is int:
        low = -(1 << (width - 1)) if letter == "i" else 0
        high = (1 << (width - 1 if letter == "i" else width)) - 1
        if low <= value <= high:
            return value
        raise Misuse(
            f"{where} is {value}, but must be from {low} to {high}",
            "",
            f"give a number that {kind} can hold",
        )
    raise Misuse(
        f"{where} is {value!r}, but must have type {kind}",
        "",
        f"give a number that {kind} can hold",
    )


def dtype(scalar: str) -> np.dtype[Any]:
    """Returns the numpy dtype for a scalar type's name in tests."""
    from xdsl_spirv.runtime.elements import dtype_of

    return dtype_of(ELEMENT_TYPES[scalar])


def _round_number(value: Any, kind: str) -> Any:
    """Rounds a value to the precision of a float type."""
    return float(dtype(kind).type(value)) if kind.startswith(("f", "bf")) else value


def _holds(value: float, kind: str, width: int) -> bool:
    if kind == "bf16":
        return True
    return not math.isfinite(value) or abs(value) <= LARGEST[width]
