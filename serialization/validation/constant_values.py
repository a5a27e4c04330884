"""
Computes the values of a module's constants, given values of specialization constants (or their
defaults).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from xdsl_spirv.dialects import spv
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.types import Type

FORMATS = {16: "<e", 32: "<f", 64: "<d"}
SPECIALIZED = ("SpecConstant", "SpecConstantTrue", "SpecConstantFalse")


class UnknownConstantError(ValueError):
    """Error for a value that is not known before a launch. Its text gives the reason."""


class ConstantValues:
    """Computes constants by id. `values` maps SpecIds to the values of specialization constants."""

    def __init__(self, module: Module, values: Mapping[int, Any] | None = None):
        self.module = module
        self.values: Mapping[int, Any] = values or {}
        self._pending: set[int] = set()

    def value(self, id: int) -> Any:
        """Returns the value of a scalar constant. Raises `UnknownConstantError`."""
        m = self.module
        i, type_ = m.definitions.get(id), m.type_of(id)
        if i is None or type_ is None:
            raise UnknownConstantError(f"{m.spell(id)} is not a constant")
        if i.op == "ConstantNull":
            return 0
        if i.op in ("Constant", "ConstantTrue", "ConstantFalse"):
            return written(i, type_)
        if i.op in SPECIALIZED:
            decoration = m.decoration(id, "SpecId")
            number = int(decoration.parameters[0]) if decoration else -1
            return self.values[number] if number in self.values else written(i, type_)
        if i.op == "SpecConstantOp" and id not in self._pending:
            self._pending.add(id)
            try:
                return self._folded(i, type_)
            finally:
                self._pending.discard(id)
        raise UnknownConstantError(f"the value of {m.spell(id)} is not known before the launch")

    def _folded(self, i: Instruction, type_: Type) -> Any:
        from xdsl_spirv.grammar import grammar

        entry = grammar().by_opcode(i.words[3])
        if entry is not None and entry.name == "OpCompositeExtract":
            return self._part(*i.words[4:])
        operands = [self._number(id) for id in i.words[4:]]
        result = _attribute(type_)
        evaluated = None
        if entry is not None and result is not None:
            evaluated = spv.evaluate(entry.name, operands, result)
        if evaluated is None:
            raise UnknownConstantError(
                f"the value of {self.module.spell(i.result)} cannot be computed"
            )
        value = evaluated.value.data
        if type_.kind == "Int" and not type_.signed:
            return int(value) & ((1 << type_.width) - 1)
        return bool(value) if type_.kind == "Bool" else value

    def _part(self, id: int, *path: int) -> Any:
        for index in path:
            i = self.module.definitions.get(id)
            if i is None or not i.op.endswith("ConstantComposite") or len(i.words) <= 3 + index:
                raise UnknownConstantError(f"{self.module.spell(id)} is not a composite constant")
            id = i.words[3 + index]
        return self.value(id)

    def _number(self, id: int) -> spv.Number:
        from xdsl.dialects.builtin import FloatAttr, IntegerType

        type_ = self.module.type_of(id)
        attribute = _attribute(type_) if type_ is not None else None
        if attribute is None:
            raise UnknownConstantError(f"{self.module.spell(id)} is not a scalar constant")
        value = self.value(id)
        if isinstance(attribute, IntegerType):
            return spv.integer_attribute(int(value), attribute)
        return FloatAttr(float(value), attribute)


def written(i: Instruction, type_: Type) -> Any:
    """Returns the literal value that a constant instruction of this type contains."""
    if i.op.endswith(("True", "False")):
        return i.op.endswith("True")
    bits = sum(word << 32 * k for k, word in enumerate(i.words[3:5]))
    if type_.kind == "Int":
        width = min(max(type_.width, 1), 64)
        bits &= (1 << width) - 1
        return bits - (1 << width) if type_.signed and bits >> (width - 1) else bits
    if type_.kind != "Float" or type_.width not in FORMATS:
        raise UnknownConstantError(f"constants of type {type_} are not supported: %{i.result}")
    if type_.is_bfloat16:  # The format is the upper half of a 32-bit float.
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    return struct.unpack(FORMATS[type_.width], bits.to_bytes(8, "little")[: type_.width // 8])[0]


def _attribute(type_: Type) -> Any:
    from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64

    if type_.kind == "Float":
        return bf16 if type_.is_bfloat16 else {16: f16, 32: f32, 64: f64}.get(type_.width)
    return IntegerType(type_.width or 1) if type_.kind in ("Int", "Bool") else None
