"""
Encodes the operands of assembly text as words. Uses the same specs as `raw/operands.py`, its
inverse.

The encoder goes through a module once and records facts that later instructions need: scalar types,
instruction sets, and (for OpSwitch) the types of values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.literals import (
    FLOAT32,
    UINT32,
    NumberType,
    parse_integer,
    parse_number,
    words_of,
)
from xdsl_spirv.serialization.raw.operands import (
    Spec,
    enum_table,
    extended_operand_specs,
    nested_operand_specs,
    opcode_of,
    operand_specs,
    scalar_type,
)
from xdsl_spirv.serialization.raw.words import MAX_WORD_COUNT

_FLOAT = re.compile(r"-?(?:[0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|0[xX].*[pP].*)")
_INT32 = NumberType(32, False, True)

NAME = -1
"""Value of `OperandError.token` for an error at the instruction's name."""
RESULT = -2
"""Value of `OperandError.token` for an error at the instruction's result id."""


class OperandError(Exception):
    """
    Error at a token of an instruction. `token` is the index of the token, counted from 0 after the
    instruction's name.
    """

    def __init__(self, cause: str, token: int):
        super().__init__(cause)
        self.cause = cause
        self.token = token


class Ids(dict[str, int]):
    """
    Maps `%name` to an id. A name without an id gets a new one. Raises `ValueError` for an invalid
    name.

    `numeric` returns the ids that the text gives as numbers. It is called at the first name, so
    that names do not get these ids. If it is None, all ids are renumbered.
    """

    def __init__(self, numeric: Callable[[], set[int]] | None):
        super().__init__()
        self._numeric = numeric
        self._preserved: set[int] | None = None
        self._next = 1
        self.bound = 1

    def __missing__(self, token: str) -> int:
        name = token[1:]
        if not (token[0] == "%" and name.isascii() and name.replace("_", "0").isalnum()):
            raise ValueError(f"'{token[:60]}' is not an id")
        number = self[token] = self._number(name)
        if number >= self.bound:
            self.bound = number + 1
        return number

    def _number(self, name: str) -> int:
        if self._numeric is not None:
            if name.isdecimal() and len(name) < 11 and int(name) < 1 << 32:
                return int(name)
            if self._preserved is None:
                self._preserved = self._numeric()
            while self._next in self._preserved:
                self._next += 1
        self._next += 1
        return self._next - 1


class _Integers(dict[str, int]):
    """
    Maps the text of an unsigned 32-bit literal to its word. Raises `ValueError` for other texts.
    """

    def __missing__(self, token: str) -> int:
        return parse_integer(token, 32, False)


_INTEGERS = _Integers()


@cache
def _values(kind: str) -> dict[str, int]:
    facts = grammar().kind(kind)
    values: dict[str, int] = {}
    for name in facts.names:
        for spelling in (name, *facts[name].aliases):
            values.setdefault(spelling, facts[name].value)
    return values


@cache
def _opcode(name: str) -> int | None:
    return opcode_of(name) if name in grammar() else None


class _Shape:
    """
    The leading operands of an instruction that always have one word each. The result is not
    included.
    """

    def __init__(self, opcode: int):
        specs = operand_specs(opcode) or ()
        self.opcode = opcode
        self.result = next((i for i, s in enumerate(specs) if s.kind == "IdResult"), None)
        self.specs = tuple(s for s in specs if s.kind != "IdResult")
        self.least = sum(not s.quantifier for s in self.specs)
        self.columns: list[Mapping[str, int] | None] = []
        """For each operand, a table from its token to its word. None for an id."""
        self.tail = 0
        for spec in self.specs:
            if spec.quantifier == "*":
                self.tail = 1 if spec.form == "id" else 0
                self.tail = 2 if _pair_of_ids(spec) else self.tail
                break
            if spec.form == "id":
                self.columns.append(None)
            elif spec.form == "integer":
                self.columns.append(_INTEGERS)
            elif spec.form == "value":
                plain = enum_table(spec.kind).parameters
                values = _values(spec.kind)
                self.columns.append({n: v for n, v in values.items() if v not in plain})
            else:
                break
        self.rows: dict[int, list[Mapping[str, int] | None] | None] = {}
        self.needs_memory = opcode_of("OpExtInstImport") == opcode or opcode in (
            opcode_of("OpTypeInt"),
            opcode_of("OpTypeFloat"),
        )

    def row(self, operands: int) -> list[Mapping[str, int] | None] | None:
        """
        Returns the table for each token of an instruction with this number of operands. Returns
        None if an operand may have several words.
        """
        tail = operands - len(self.columns)
        if operands < self.least:
            return None
        if tail > 0 and (not self.tail or tail % self.tail):
            return None
        return self.columns[:operands] + [None] * tail


def _pair_of_ids(spec: Spec) -> bool:
    return spec.form == "pair" and all(part.form == "id" for part in spec.parts)


@cache
def _shape(opcode: int) -> _Shape:
    return _Shape(opcode)


def string_words(token: str, place: int) -> list[int]:
    """Encodes a quoted token. A backslash escapes the next character. Raises `OperandError`."""
    if len(token) < 2 or token[0] != '"' or token[-1] != '"':
        raise OperandError(f"a string in quotes is expected, not '{token[:60]}'", place)
    text = re.sub(r"\\([\s\S])", r"\1", token[1:-1])
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise OperandError("a string contains a zero byte, which would end the string", place)
    data += bytes(4 - len(data) % 4)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


class Encoder:
    """Encodes the instructions of one module in order."""

    def __init__(self, ids: Ids, follow_values: bool):
        self.ids = ids
        self.follow_values = follow_values
        self.numbers: dict[int, NumberType | None] = {}
        self.sets: dict[int, str | None] = {}
        self.values: dict[int, int] = {}
        self._shapes: dict[str, _Shape] = {}

    def instruction(self, name: str, arguments: list[str], result: str | None) -> list[int]:
        """
        Returns the words of an instruction and of the verbatim words (`!`) that follow it.

        Raises `OperandError`.
        """
        shape = self._shapes.get(name) or self._shape(name)
        if (result is None) != (shape.result is None):
            needs = "needs a result id: %name =" if result is None else "has no result id"
            raise OperandError(f"{name} {needs}", NAME if result is None else RESULT)
        words = self._simple(shape, arguments, result)
        behind: list[int] = []
        if words is None:
            writer = _Writer(self, shape, arguments, result)
            words = writer.write()
            if writer.at < len(arguments):
                behind = self.verbatim(arguments[writer.at :], writer.at)
        if len(words) > MAX_WORD_COUNT:
            cause = f"{name} of {len(words)} words exceeds SPIR-V's limit of {MAX_WORD_COUNT}"
            raise OperandError(cause, NAME)
        words[0] = len(words) << 16 | shape.opcode
        if self.follow_values or shape.needs_memory:
            self._remember(shape, words)
        return words + behind if behind else words

    def _shape(self, name: str) -> _Shape:
        opcode = _opcode(name)
        if opcode is None:
            raise OperandError(f"'{name}' is not an instruction", NAME)
        shape = self._shapes[name] = _shape(opcode)
        return shape

    def result_id(self, token: str) -> int:
        try:
            return self.ids[token]
        except ValueError as error:
            raise OperandError(str(error), RESULT) from None

    def _simple(self, shape: _Shape, arguments: list[str], result: str | None) -> list[int] | None:
        """
        Encodes an instruction if each token is one word. Otherwise returns None. The result type
        gets an id before the result does.
        """
        count = len(arguments)
        if count not in shape.rows:
            shape.rows[count] = shape.row(count)
        row = shape.rows[count]
        if row is None:
            return None
        ids = self.ids
        words = [0]
        try:
            if result is not None:
                if shape.result:
                    words.append(ids[arguments[0]])
                words.append(self.result_id(result))
                if shape.result:
                    row, arguments = row[1:], arguments[1:]
            words += [
                ids[token] if column is None else column[token]
                for column, token in zip(row, arguments, strict=True)
            ]
        except (KeyError, ValueError):
            return None
        return words

    def _remember(self, shape: _Shape, words: list[int]) -> None:
        opcode = shape.opcode
        if self.follow_values and shape.result == 1 and len(words) > 2:
            self.values.setdefault(words[2], words[1])
        if opcode == opcode_of("OpExtInstImport") and len(words) > 2:
            data = b"".join(w.to_bytes(4, "little") for w in words[2:])
            name = data.split(b"\0")[0].decode("utf-8", "surrogateescape")
            self.sets.setdefault(words[1], grammar().extended_set(name))
        elif opcode in (opcode_of("OpTypeInt"), opcode_of("OpTypeFloat")):
            try:
                self.numbers.setdefault(words[1], scalar_type(opcode, words[2:]))
            except (KeyError, IndexError, ValueError):
                return  # The type is invalid, so it has no literals to read.

    def verbatim(self, tokens: list[str], first: int) -> list[int]:
        """
        Returns the words of `!` tokens. They must form whole instructions.

        Raises `OperandError`. The indices of its tokens start at `first`.
        """
        words: list[int] = []
        for place, token in enumerate(tokens, first):
            words += self.free(token, place)
        at = 0
        while at < len(words):
            count, opcode = words[at] >> 16, words[at] & 0xFFFF
            if not 0 < count <= len(words) - at:
                cause = f"an instruction of {count} words goes beyond the {len(words)} given words"
                raise OperandError(cause, first)
            if operand_specs(opcode) is not None:
                self._remember(_shape(opcode), words[at : at + count])
            at += count
        return words

    def unknown(self, name: str, arguments: list[str], result: str | None) -> list[int]:
        """
        Encodes `OpUnknown(opcode, words)` and the integers that follow it. Newer versions of
        `spirv-dis` print unknown instructions like this. Raises `OperandError`.
        """
        head = name
        taken = 0
        while not head.endswith(")") and taken < len(arguments):
            head += arguments[taken]
            taken += 1
        match = re.fullmatch(r"OpUnknown\(([0-9]{1,5}),([0-9]{1,5})\)", head)
        if match is None or result is not None:
            raise OperandError(
                "expected OpUnknown(opcode, number of words) without a result id", NAME
            )
        words = [0]
        for place in range(taken, len(arguments)):
            words += self.free(arguments[place], place)
        if len(words) != int(match[2]):
            raise OperandError(
                f"OpUnknown declares {match[2]} words, but {len(words)} follow", NAME
            )
        words[0] = len(words) << 16 | int(match[1])
        return words

    def _word(self, token: str, place: int) -> int:
        try:
            return parse_integer(token[1:], 32, False)
        except ValueError as error:
            raise OperandError(str(error), place) from None

    def free(self, token: str, place: int) -> list[int]:
        """Encodes a token without the grammar. Its spelling determines its kind."""
        try:
            if token[0] == "!":
                return [self._word(token, place)]
            if token[0] == "%":
                return [self.ids[token]]
            if token[0] == '"':
                return string_words(token, place)
            if _FLOAT.fullmatch(token):
                return [parse_number(token, FLOAT32)]
            return [parse_number(token, _INT32 if token[0] == "-" else UINT32)]
        except ValueError as error:
            raise OperandError(str(error), place) from None


class _Writer:
    def __init__(self, encoder: Encoder, shape: _Shape, arguments: list[str], result: str | None):
        self.encoder = encoder
        self.shape = shape
        self.arguments = arguments
        self.result = result
        self.words: list[int] = [0]
        self.at = 0
        self.free = False
        self.writers: Mapping[str, Callable[[Spec, str], None]] = {
            "id": self._id,
            "integer": lambda s, t: self._number_of(UINT32, t),
            "float": lambda s, t: self._number_of(FLOAT32, t),
            "string": lambda s, t: self.words.extend(string_words(t, self.at)),
            "number": self._number,
            "extended": self._extended,
            "opcode": self._opcode,
            "value": self._value,
            "mask": self._mask,
            "pair": self._pair,
        }

    def write(self) -> list[int]:
        if self.shape.result == 0:
            self._write_result()
        self._write(self.shape.specs)
        self._write_result()
        while self.free and self.at < len(self.arguments):
            self.words += self.encoder.free(self.arguments[self.at], self.at)
            self.at += 1
        if self.at < len(self.arguments) and self.arguments[self.at][0] != "!":
            extra = self.arguments[self.at]
            raise OperandError(f"'{extra[:60]}' follows the last operand", self.at)
        return self.words

    def _write_result(self) -> None:
        if self.result is not None:
            self.words.append(self.encoder.result_id(self.result))
            self.result = None

    def _write(self, specs: tuple[Spec, ...]) -> None:
        for spec in specs:
            while not self.free:
                if self.at >= len(self.arguments):
                    if not spec.quantifier:
                        raise OperandError(f"{spec.name} is missing", self.at - 1)
                    break
                self._write_one(spec)
                if spec.quantifier != "*":
                    break
            if spec.kind == "IdResultType":
                self._write_result()

    def _write_one(self, spec: Spec) -> None:
        if self.at >= len(self.arguments):
            raise OperandError(f"{spec.name} is missing", self.at - 1)
        token = self.arguments[self.at]
        if token[0] == "!":
            # After a word the grammar does not know what follows, except for the result.
            if spec.kind == "IdResultType":
                self.words += self.encoder.free(token, self.at)
                self.at += 1
            self.free = True
            return
        self.writers[spec.form](spec, token)
        if spec.form not in ("value", "mask", "extended", "opcode", "pair"):
            self.at += 1

    def _fail(self, cause: str) -> OperandError:
        return OperandError(cause, self.at)

    def _id(self, spec: Spec, token: str) -> None:
        try:
            self.words.append(self.encoder.ids[token])
        except ValueError as error:
            raise self._fail(f"{spec.name}: {error}") from None

    def _number_of(self, number: NumberType, token: str) -> None:
        try:
            self.words += words_of(parse_number(token, number), number)
        except ValueError as error:
            raise self._fail(str(error)) from None

    def _number(self, spec: Spec, token: str) -> None:
        type_id = self.words[1]
        number = self.encoder.numbers.get(type_id)
        if number is None:
            raise self._fail(f"{spec.name}'s type is not a scalar type of an earlier line")
        self._number_of(number, token)

    def _extended(self, spec: Spec, token: str) -> None:
        set_id = self.words[-1]
        if set_id not in self.encoder.sets:
            raise self._fail("the instruction set must be imported on an earlier line")
        known = self.encoder.sets[set_id]
        if known is None:
            self._number_of(UINT32, token)
            self.at += 1
            return
        try:
            number = int(token) if token.isdecimal() else grammar().instruction(token, known).opcode
        except (KeyError, ValueError):
            raise self._fail(f"{known} has no instruction '{token[:60]}'") from None
        specs = extended_operand_specs(known, number)
        if specs is None:
            raise self._fail(f"{known} has no instruction {number}")
        self.words.append(number)
        self.at += 1
        self._write(specs)

    def _opcode(self, spec: Spec, token: str) -> None:
        opcode = _opcode(f"Op{token}")
        specs = None if opcode is None else nested_operand_specs(opcode)
        if opcode is None or specs is None:
            raise self._fail(f"'{token[:60]}' is not an operation on constants")
        self.words.append(opcode)
        self.at += 1
        self._write(specs)

    def _value(self, spec: Spec, token: str) -> None:
        value = _values(spec.kind).get(token)
        if value is None:
            raise self._fail(f"'{token[:60]}' is not a {spec.kind}")
        self.words.append(value)
        self.at += 1
        self._write(enum_table(spec.kind).parameters.get(value, ()))

    def _mask(self, spec: Spec, token: str) -> None:
        values = _values(spec.kind)
        mask = 0
        for name in token.split("|"):
            if name not in values:
                raise self._fail(f"'{name[:60]}' is not a {spec.kind}")
            mask |= values[name]
        self.words.append(mask)
        self.at += 1
        parameters = enum_table(spec.kind).parameters
        for bit in (1 << i for i in range(mask.bit_length()) if mask >> i & 1):
            self._write(parameters.get(bit, ()))

    def _pair(self, spec: Spec, token: str) -> None:
        first, second = spec.parts
        if first.form == "integer" and self.shape.opcode == opcode_of("OpSwitch"):
            self._case(token)
            self.at += 1
        else:
            self._write_one(first)
        if not self.free:
            self._write_one(second)

    def _case(self, token: str) -> None:
        type_id = self.encoder.values.get(self.words[1], 0)
        number = self.encoder.numbers.get(type_id)
        if number is None or number.is_float:
            raise self._fail("the selector must be an integer that an earlier line defines")
        self._number_of(number, token)
