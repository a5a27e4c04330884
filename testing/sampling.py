"""
Makes random modules from the grammar: every word is valid, but the programs are meaningless.

Tests and the fuzzer use the modules. Every instruction has the operands of the grammar, literals
have their declared type, and a result id is defined once. Nothing else is guaranteed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import Header, RawModule
from xdsl_spirv.serialization.raw.literals import NumberType, words_of
from xdsl_spirv.serialization.raw.operands import (
    Spec,
    enum_table,
    extended_operand_specs,
    nested_operand_specs,
    opcode_of,
    operand_specs,
    scalar_type,
)
from xdsl_spirv.serialization.raw.words import instruction, string_words

# SPIR-V 3.49.7, OpSpecConstantOp: operations that every environment with Shader or Kernel allows.
NESTED = (
    "SConvert FConvert SNegate Not IAdd ISub IMul UDiv SDiv UMod SRem SMod ShiftRightLogical "
    "ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd VectorShuffle "
    "CompositeExtract CompositeInsert LogicalOr LogicalAnd LogicalNot LogicalEqual "
    "LogicalNotEqual Select IEqual INotEqual ULessThan SLessThan UGreaterThan SGreaterThan "
    "ULessThanEqual SLessThanEqual UGreaterThanEqual SGreaterThanEqual UConvert AccessChain"
).split()
TEXTS = ("", "a", "main", "four", "Größe", 'a "quoted" \\ one', "two\nlines", "x" * 61)
SCALARS = ((8, 0), (8, 1), (16, 0), (16, 1), (32, 0), (32, 1), (64, 0), (64, 1))


class Sampler:
    """Makes the instructions of one module. `without` lists names that must not occur in it."""

    def __init__(self, rng: random.Random, without: Iterable[str] = ()):
        self.rng = rng
        self.without = frozenset(without)
        self.next = 1
        self.words: list[list[int]] = []
        self.scalars: dict[int, NumberType] = {}
        self.sets: dict[int, str] = {}
        self.forced: dict[str, int] = {}
        """
        Maps a kind of operand to the value that operands must have. If it is not empty, optional
        operands are present.
        """
        self.optional = True
        """True if optional operands may occur."""
        self.selectors: dict[int, NumberType] = {}
        self._type = 0
        self._set = ""
        self._selector: NumberType | None = None
        self._writers: Mapping[str, Callable[[Spec], list[int]]] = {
            "id": self._id,
            "integer": lambda _: [self.rng.choice((0, 1, 4, 7, 255, self.rng.getrandbits(32)))],
            "float": lambda _: [self.rng.getrandbits(32)],
            "string": lambda _: string_words(self.rng.choice(TEXTS)),
            "number": lambda _: self._literal(self.scalars[self._type]),
            "extended": self._extended,
            "opcode": self._opcode,
            "value": self._value,
            "mask": self._mask,
            "pair": self._pair,
        }

    def module(self) -> RawModule:
        header = Header(grammar().version, 0, self.next)
        return RawModule.build(header, self.words)

    def new_id(self) -> int:
        self.next += 1
        return self.next - 1

    def some_id(self) -> int:
        return self.rng.randrange(1, self.next) if self.next > 1 else self.new_id()

    def declare(self, sets: Iterable[str] = ("GLSL.std.450", "NonSemantic.Unknown")) -> None:
        """Appends types, instruction sets and constants that later instructions use."""
        for name in sets:
            imported = self.new_id()
            self.emit("OpExtInstImport", [imported, *string_words(name)])
            self.sets[imported] = name
        floats = [[16], [32], [64]]
        encodings = {"BFloat16KHR": 16, "Float8E4M3EXT": 8, "Float8E5M2EXT": 8}
        for name, width in encodings.items():
            if name not in self.without:
                floats.append([width, grammar().kind("FPEncoding")[name].value])
        for opcode, rows in (("OpTypeInt", SCALARS), ("OpTypeFloat", floats)):
            for row in rows:
                self._scalar(opcode, list(row))

    def _scalar(self, opcode: str, operands: list[int]) -> None:
        declared = self.new_id()
        self.emit(opcode, [declared, *operands])
        number = scalar_type(opcode_of(opcode), operands)
        if number is None:
            return
        self.scalars[declared] = number
        constant = self.new_id()
        self.emit("OpConstant", [declared, constant, *self._literal(number)])
        if not number.is_float:
            self.selectors[constant] = number

    def emit(self, name: str, operands: list[int]) -> None:
        self.words.append(instruction(opcode_of(name), operands))

    def sample(self, name: str) -> None:
        """Appends an instruction with random operands to the module."""
        self.emit(name, self._all(operand_specs(opcode_of(name)) or (), name))

    def enumerant(self, kind: str, value: int) -> list[int]:
        """Returns the words of an enumerant, with random parameters."""
        return [value, *self._all(enum_table(kind).parameters.get(value, ()))]

    def _count(self, spec: Spec) -> int:
        if not spec.quantifier or self.forced:
            return 1
        if spec.quantifier == "?":
            return self.rng.randrange(2) if self.optional else 0
        return self.rng.randrange(4)

    def _operand(self, name: str, spec: Spec) -> list[int]:
        if spec.kind == "IdResultType" and name in ("OpConstant", "OpSpecConstant"):
            self._type = self.rng.choice(list(self.scalars))
            return [self._type]
        if name == "OpSwitch" and spec.name == "Selector":
            selector = self.rng.choice(list(self.selectors))
            self._selector = self.selectors[selector]
            return [selector]
        if spec.form == "id" and spec.name == "Set":
            chosen = self.rng.choice(list(self.sets))
            self._set = self.sets[chosen]
            return [chosen]
        if (
            name.startswith("OpExtInst")
            and spec.quantifier == "*"
            and grammar().extended_set(self._set)
        ):
            return []
        return self._writers[spec.form](spec)

    def _id(self, spec: Spec) -> list[int]:
        return [self.new_id() if spec.kind == "IdResult" else self.some_id()]

    def _literal(self, number: NumberType) -> list[int]:
        value = self.rng.choice((0, 1, self.rng.getrandbits(number.width)))
        return words_of(value, number)

    def _extended(self, _: Spec) -> list[int]:
        known = grammar().extended_set(self._set)
        if known is None:
            return [self.rng.randrange(100)]
        names = [n for n in grammar().extended_names(known) if n not in self.without]
        number = grammar().instruction(self.rng.choice(names), known).opcode
        return self.extended(known, number)

    def extended(self, instruction_set: str, number: int) -> list[int]:
        """Returns the words of an extended instruction: its number, and random operands."""
        return [number, *self._all(extended_operand_specs(instruction_set, number) or ())]

    def _opcode(self, _: Spec) -> list[int]:
        opcode = opcode_of(f"Op{self.rng.choice(NESTED)}")
        return [opcode, *self._all(nested_operand_specs(opcode) or ())]

    def _all(self, specs: tuple[Spec, ...], name: str = "") -> list[int]:
        words: list[int] = []
        for spec in specs:
            count = self._count(spec)
            for _ in range(count):
                words += self._operand(name, spec)
            if spec.quantifier == "?" and not count:
                break  # An omitted optional operand must be the last one.
        return words

    def _values(self, kind: str) -> list[int]:
        return [v for v, n in enum_table(kind).names.items() if n not in self.without]

    def _value(self, spec: Spec) -> list[int]:
        value = self.forced.get(spec.kind)
        if value is None:
            value = self.rng.choice(self._values(spec.kind))
        return self.enumerant(spec.kind, value)

    def _mask(self, spec: Spec) -> list[int]:
        values = [v for v in self._values(spec.kind) if v and not v & (v - 1)]
        if spec.kind in self.forced:
            return self.enumerant(spec.kind, self.forced[spec.kind])
        least = 0 if 0 in enum_table(spec.kind).names else 1
        bits = sorted(self.rng.sample(values, min(len(values), self.rng.randrange(least, 3))))
        words = [sum(bits)]
        for bit in bits:
            words += self.enumerant(spec.kind, bit)[1:]
        return words

    def _pair(self, spec: Spec) -> list[int]:
        first, second = spec.parts
        if first.form == "integer" and self._selector is not None:
            left = self._literal(self._selector)
        else:
            left = self._writers[first.form](first)
        return left + self._writers[second.form](second)


def carriers(kind: str) -> tuple[str, dict[str, int]] | None:
    """
    Returns an instruction with an operand of the enumeration `kind`. If enumerants of other
    operands add this operand, returns them, too.

    Returns None if no core instruction has the enumeration.
    """
    for name in grammar().instruction_names:
        if any(spec.kind == kind for spec in operand_specs(opcode_of(name)) or ()):
            return name, {}
    for outer in grammar().kind_names:
        if not grammar().kind(outer).names or outer == kind:
            continue
        for value, parameters in enum_table(outer).parameters.items():
            if any(spec.kind == kind for spec in parameters):
                nested = carriers(outer)
                return None if nested is None else (nested[0], {**nested[1], outer: value})
    return None


def sample_module(rng: random.Random, count: int, without: Iterable[str] = ()) -> RawModule:
    """Returns a module with the declarations and `count` random instructions."""
    sampler = Sampler(rng, without)
    sampler.declare()
    names = [n for n in grammar().instruction_names if n not in sampler.without]
    for _ in range(count):
        sampler.sample(rng.choice(names))
    return sampler.module()
