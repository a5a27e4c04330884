"""
Encodes raw operations: instructions for which the dialect has no class. They hold the words.

The grammar gives an instruction's opcode, the positions of result type and result, and the section
of the module that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects.builtin import BytesAttr, IntAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.spirv.raw import VALUE, Carried, ExtendedSetAttr, RawGlobalOp, RawType
from xdsl_spirv.grammar import Instruction, grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.raw.words import ModuleWords, Section, instruction, string_words

SECTIONS = {
    "OpSamplerImageAddressingModeNV": Section.MEMORY_MODEL,
    "OpString": Section.SOURCES,
    "OpSource": Section.SOURCES,
    "OpSourceContinued": Section.SOURCES,
    "OpSourceExtension": Section.SOURCES,
    "OpName": Section.NAMES,
    "OpMemberName": Section.NAMES,
    "OpModuleProcessed": Section.PROCESSES,
    "OpDecorate": Section.ANNOTATIONS,
    "OpDecorateId": Section.ANNOTATIONS,
    "OpDecorateString": Section.ANNOTATIONS,
    "OpMemberDecorate": Section.ANNOTATIONS,
    "OpMemberDecorateIdEXT": Section.ANNOTATIONS,
    "OpMemberDecorateString": Section.ANNOTATIONS,
}
"""
Maps an instruction to its section of the module. Other instructions belong to `Section.GLOBALS`.
"""

NAMES = ("OpName", "OpMemberName")
"""Instructions that are left out if the caller does not want names."""


class Source(Protocol):
    """Interface of `ModuleEncoder` for `Carrier`."""

    names: bool
    words: ModuleWords

    def value(self, value: SSAValue) -> int: ...
    def type(self, attribute: Attribute, op: Operation | None = None) -> int: ...
    def operand(self, attribute: Attribute, op: Operation | None = None) -> int: ...
    def extended_set(self, name: str) -> int: ...
    def forward(self, name: str) -> int: ...
    def void(self) -> int: ...
    def fresh(self) -> int: ...


class Carrier:
    """Encodes the raw operations of one module."""

    def __init__(self, source: Source):
        self._source = source

    def words(self, op: Carried) -> Sequence[int]:
        """Returns the words of a raw operation inside a function."""
        entry = _entry(op.instruction.data, op)
        values = iter(op.arguments)
        operands: list[int] = []
        for operand in op.layout.data:
            if operand == VALUE:
                operands.append(self._source.value(next(values)))
            else:
                operands += self._operand(operand, op)
        head: list[int] = []
        result = op.result
        if entry.has_result_type:
            head.append(
                self._source.void() if result is None else self._source.type(result.type, op)
            )
        if entry.has_result:
            head.append(self._source.fresh() if result is None else self._source.value(result))
        return instruction(entry.opcode, (*head, *operands))

    def write(self, op: RawGlobalOp, result: int | None) -> None:
        """
        Writes a raw operation outside of functions. `result` is the id of its result, or None.
        """
        name = op.instruction.data
        entry = _entry(name, op)
        if name in NAMES and not self._source.names:
            return
        head: list[int] = []
        if entry.has_result_type:
            head.append(self._source.void() if op.type is None else self._source.type(op.type, op))
        if entry.has_result:
            head.append(self._source.fresh() if result is None else result)
        operands = [word for o in op.layout.data for word in self._operand(o, op, name)]
        section = SECTIONS.get(name, Section.GLOBALS)
        self._source.words.add(section, entry.opcode, (*head, *operands))

    def __call__(self, t: RawType, op: Operation | None) -> int:
        """Writes the declaration of a type that has no class in the dialect, and returns its id."""
        entry = _entry(t.instruction.data, op)
        operands = [word for o in t.layout.data for word in self._operand(o, op)]
        result = self._source.fresh()
        self._source.words.add(Section.GLOBALS, entry.opcode, (result, *operands))
        return result

    def _operand(self, operand: Attribute, op: Operation | None, name: str = "") -> Sequence[int]:
        if isinstance(operand, IntAttr):
            return (operand.data & 0xFFFFFFFF,)
        if isinstance(operand, StringAttr):
            if name == "OpSpecConstantOp":
                return (_entry(operand.data, op).opcode,)
            return string_words(operand.data)
        if isinstance(operand, BytesAttr):
            return string_words(operand.data.decode("utf-8", "surrogateescape"))
        if isinstance(operand, SymbolRefAttr) and name == "OpExtInstWithForwardRefsKHR":
            return (self._source.forward(operand.string_value()),)
        if isinstance(operand, ExtendedSetAttr):
            return (self._source.extended_set(operand.data),)
        return (self._source.operand(operand, op),)


def _entry(name: str, op: Operation | None) -> Instruction:
    if name not in grammar():
        raise SPIRVEncodeError(f"{name} is not an instruction of SPIR-V", op)
    return grammar().instruction(name)
