"""
The constants of a module, for the values that one launch gives to specialization constants.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.types import Type
from xdsl_spirv.tools.kernel_test.description import Given, Misuse, suggest

if TYPE_CHECKING:
    from xdsl_spirv.passes.spirv.folding import Number

LARGEST = {16: 65504.0, 32: 3.4028234663852886e38, 64: math.inf}
FORMATS = {16: "<e", 32: "<f", 64: "<d"}


@dataclass(frozen=True)
class SpecConstant:
    """A specialization constant that a launch may set."""

    id: int
    name: str
    scalar: str
    """`bool`, or a type like `u32`."""
    default: Any


class Constants:
    """Values by id; `given` names specialization constants by OpName or SpecId."""

    def __init__(self, module: Module, given: Mapping[str, Given]):
        self.module = module
        self.values: dict[int, Any] = {}
        """SpecId -> the launch's value."""
        for name, value in given.items():
            constant = self._named(name)
            if constant.id in self.values:
                raise Misuse(f"the specialization constant {name!r} is given twice", "", "")
            made = checked(value, constant.scalar, f"specialization.{name}")
            self.values[constant.id] = _rounded(made, constant.scalar)

    def _named(self, name: str) -> SpecConstant:
        found = [c for c in self.specialized if name in (c.name, str(c.id))]
        if len(found) == 1 or len({c.id for c in found}) == 1:
            return found[0]
        known = [f"{c.name or c.id}" for c in self.specialized]
        cause = "is the name of several" if found else "is no"
        raise Misuse(f"{name!r} {cause} specialization constant", "", suggest(name, known))

    @cached_property
    def specialized(self) -> list[SpecConstant]:
        """The constants that have a SpecId."""
        found: list[SpecConstant] = []
        m = self.module
        for op in ("SpecConstant", "SpecConstantTrue", "SpecConstantFalse"):
            for i in m.by_op.get(op, ()):
                decoration, type_ = m.decoration(i.result, "SpecId"), m.types.get(i.type_id)
                if decoration is not None and type_ is not None:
                    number = int(decoration.parameters[0])
                    name = m.names.get(i.result, "")
                    found.append(SpecConstant(number, name, scalar(type_), self._own(i, type_)))
        return sorted(found, key=lambda constant: constant.id)

    def value(self, id: int) -> Any:
        """The value of a scalar constant; raises `Misuse` where it is not known."""
        m = self.module
        i, type_ = m.definitions.get(id), m.type_of(id)
        if i is None or type_ is None:
            raise Misuse(f"{m.spell(id)} is no constant", "", "")
        if i.op == "ConstantNull":
            return 0
        if i.op in ("Constant", "ConstantTrue", "ConstantFalse"):
            return self._own(i, type_)
        if i.op in ("SpecConstant", "SpecConstantTrue", "SpecConstantFalse"):
            decoration = m.decoration(id, "SpecId")
            number = int(decoration.parameters[0]) if decoration else -1
            return self.values.get(number, self._own(i, type_))
        if i.op == "SpecConstantOp":
            return self._folded(i, type_)
        raise Misuse(f"the value of {m.spell(id)} is not known before the launch", "", "")

    def parts(self, id: int) -> list[Any]:
        """The values of a composite of scalars."""
        i = self.module.definitions[id]
        return [self.value(part) for part in i.words[3:]]

    def _own(self, i: Instruction, type_: Type) -> Any:
        """The number that an instruction writes."""
        if i.op.endswith(("True", "False")):
            return i.op.endswith("True")
        bits = sum(word << 32 * k for k, word in enumerate(i.words[3:5]))
        if type_.kind == "Int":
            bits &= (1 << type_.width) - 1
            negative = type_.signed and bits >> (type_.width - 1)
            return bits - (1 << type_.width) if negative else bits
        data = bits.to_bytes(8, "little")[: type_.width // 8]
        return struct.unpack(FORMATS[type_.width], data)[0]

    def _folded(self, i: Instruction, type_: Type) -> Any:
        """What OpSpecConstantOp computes."""
        from xdsl_spirv.passes.spirv.folding import fold
        from xdsl_spirv.serialization.grammar import grammar

        entry = grammar().by_opcode(i.words[3])
        if entry is not None and entry.name == "OpCompositeExtract":
            return self._part(*i.words[4:])
        operands = [self._number(id) for id in i.words[4:]]
        made = fold(entry.name, operands, _attribute(type_)) if entry is not None else None
        if made is None:
            raise Misuse(f"the value of {self.module.spell(i.result)} cannot be computed", "", "")
        value = made.value.data
        if type_.kind == "Int" and not type_.signed:
            return int(value) & ((1 << type_.width) - 1)
        return bool(value) if type_.kind == "Bool" else value

    def _part(self, id: int, *path: int) -> Any:
        """The value of a part of a composite constant: gl_WorkGroupSize.x as an array's length."""
        for index in path:
            i = self.module.definitions.get(id)
            if i is None or not i.op.endswith("ConstantComposite"):
                raise Misuse(f"{self.module.spell(id)} is no composite constant", "", "")
            id = i.words[3 + index]
        return self.value(id)

    def _number(self, id: int) -> Number:
        from xdsl.dialects.builtin import FloatAttr, IntegerType

        from xdsl_spirv.passes.spirv.folding import integer_attribute

        type_ = self.module.type_of(id)
        if type_ is None:
            raise Misuse(f"{self.module.spell(id)} is no constant", "", "")
        attribute, value = _attribute(type_), self.value(id)
        if isinstance(attribute, IntegerType):
            return integer_attribute(int(value), attribute)
        return FloatAttr(float(value), attribute)


def _attribute(type_: Type) -> Any:
    from xdsl.dialects.builtin import IntegerType, f16, f32, f64

    if type_.kind == "Float":
        return {16: f16, 32: f32, 64: f64}[type_.width]
    return IntegerType(type_.width or 1)


def scalar(type_: Type) -> str:
    """A constant's type: `bool`, or as tests write it."""
    if type_.kind == "Bool":
        return "bool"
    letter = "f" if type_.kind == "Float" else "i" if type_.signed else "u"
    return f"{letter}{type_.width}"


def checked(value: Given, kind: str, where: str) -> Any:
    """A constant that its type can hold; raises `Misuse` for any other."""
    letter, width = kind[0], int(kind.strip("bfiu")) if kind != "bool" else 1
    if kind == "bool":
        if isinstance(value, bool):
            return value
        raise Misuse(f"{where} is {value!r}, but a boolean is wanted", "", "write true or false")
    if kind.startswith(("f", "bf")):
        if type(value) in (int, float) and _holds(float(value), kind, width):
            return float(value)
    elif type(value) is int:
        low = -(1 << (width - 1)) if letter == "i" else 0
        high = (1 << (width - 1 if letter == "i" else width)) - 1
        if low <= value <= high:
            return value
        raise Misuse(f"{where} is {value}, outside {low} to {high}", "", f"its type is {kind}")
    raise Misuse(f"{where} is {value!r}, but a value of type {kind} is wanted", "", "correct it")


def _rounded(value: Any, kind: str) -> Any:
    """The number of a float's type that is nearest."""
    if not kind.startswith("f"):
        return value
    form = FORMATS[int(kind[1:])]
    return struct.unpack(form, struct.pack(form, value))[0]


def _holds(value: float, kind: str, width: int) -> bool:
    if kind == "bf16":
        return True
    return not math.isfinite(value) or abs(value) <= LARGEST[width]
