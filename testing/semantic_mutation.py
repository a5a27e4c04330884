"""
Makes grammatical but invalid modules: after each change, every word is still readable.

The differential test of the validator changes valid modules and compares verdicts with `spirv-val`.
The changes are typical mistakes of people and compilers: another id, another type, a missing
declaration, a misplaced block.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from xdsl_spirv.grammar import Category, grammar
from xdsl_spirv.serialization.raw.binary import RawInstruction, RawModule, decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.raw.operands import enum_table, opcode_of
from xdsl_spirv.serialization.raw.words import instruction

Rows = list[list[int]]
Change = Callable[[random.Random, Rows, RawModule], bool]
"""Function that changes instructions in place. Returns True if it changed something."""

TRIES = 40


def mutate_meaning(rng: random.Random, data: bytes) -> bytes:
    """Returns the module with one random change. Returns it unchanged if no change is possible."""
    module = decode(data)
    rows = list(module.rows())
    for _ in range(TRIES if rows else 0):
        change = rng.choice(CHANGES)
        if change(rng, rows, module):
            return RawModule.build(module.header, rows).encode()
    return data


def _pick(rng: random.Random, rows: Rows, *names: str) -> int | None:
    wanted = {opcode_of(n) for n in names}
    candidates = [k for k, row in enumerate(rows) if row[0] & 0xFFFF in wanted]
    return rng.choice(candidates) if candidates else None


def _operands(module: RawModule, at: int) -> list[tuple[str, int, int]]:
    """
    Returns the kind, word index and value of each operand of an instruction. Returns an empty list
    if the instruction cannot be decoded.
    """
    try:
        read = module[at].operands
    except SPIRVDecodeError:
        return []
    return [(o.kind, o.word, o.value) for o in read if isinstance(o.value, int)]


def _ids(module: RawModule, at: int) -> list[int]:
    kinds = ("IdRef", "IdScope", "IdMemorySemantics")
    return [word for kind, word, _ in _operands(module, at) if kind in kinds]


def _function_rows(rows: Rows) -> range:
    start = next((k for k, r in enumerate(rows) if r[0] & 0xFFFF == opcode_of("OpFunction")), 0)
    return range(start, len(rows))


def _somewhere(rng: random.Random, rows: Rows) -> int:
    inside = _function_rows(rows)
    return rng.choice(inside) if inside and rng.randrange(3) else rng.randrange(len(rows))


def _any_id(rng: random.Random, module: RawModule) -> int:
    return rng.randrange(1, max(2, module.header.bound))


def another_id(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Replaces an operand by another id of the module, if possible."""
    at = _somewhere(rng, rows)
    places = _ids(module, at)
    if not places:
        return False
    rows[at][rng.choice(places)] = _any_id(rng, module)
    return True


def another_value(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """
    Replaces an operand by another value: the result of an instruction of the same function, or a
    constant.
    """
    at = _somewhere(rng, rows)
    places = _ids(module, at)
    values = [r.words[2] for r in module if r.grammar and _has_type(r)]
    if not places or not values:
        return False
    rows[at][rng.choice(places)] = rng.choice(values)
    return True


def _has_type(row: RawInstruction) -> bool:
    entry = row.grammar
    return entry is not None and entry.has_result_type and len(row.words) > 2


def another_type(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Replaces a result type by another type."""
    typed = [r.index for r in module if _has_type(r)]
    types = [r.words[1] for r in module if (r.name or "").startswith("OpType") and len(r.words) > 1]
    if not typed or not types:
        return False
    rows[rng.choice(typed)][1] = rng.choice(types)
    return True


def dropped(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Removes a random instruction."""
    del rows[_somewhere(rng, rows)]
    return True


def dropped_declaration(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Removes a capability, an extension, a decoration or an execution mode."""
    names = ("OpCapability", "OpExtension", "OpDecorate", "OpMemberDecorate", "OpExecutionMode")
    at = _pick(rng, rows, rng.choice(names))
    if at is None:
        return False
    del rows[at]
    return True


def repeated(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Repeats a random instruction."""
    at = _somewhere(rng, rows)
    rows.insert(at, list(rows[at]))
    return True


def swapped(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Swaps two adjacent instructions."""
    at = _somewhere(rng, rows)
    if at + 1 >= len(rows):
        return False
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    return True


def moved(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Moves an instruction to another position in its function."""
    inside = _function_rows(rows)
    if len(inside) < 2:
        return False
    row = rows.pop(rng.choice(inside))
    rows.insert(rng.choice(inside[:-1]), row)
    return True


def another_enumerant(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """
    Replaces an enumerant (storage class, decoration, ...) by another enumerant with the same number
    of parameters.
    """
    at = rng.randrange(len(rows))
    candidates = [
        (kind, word, value)
        for kind, word, value in _operands(module, at)
        if grammar().kind(kind).category in (Category.VALUE, Category.BITS)
    ]
    if not candidates:
        return False
    kind, word, value = rng.choice(candidates)
    table = enum_table(kind)
    count = len(table.parameters.get(value, ()))
    others = [v for v in table.names if len(table.parameters.get(v, ())) == count]
    if not others:
        return False
    rows[at][word] = rng.choice(others)
    return True


def another_number(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Replaces a literal by another number."""
    at = rng.randrange(len(rows))
    candidates = [word for kind, word, _ in _operands(module, at) if kind.startswith("Literal")]
    if not candidates:
        return False
    word = rng.choice(candidates)
    if word < len(rows[at]):
        rows[at][word] = rng.choice(
            (0, 1, 2, 3, 4, 7, 8, 12, 16, 32, 64, rows[at][word] + 1 & 0xFFFFFFFF)
        )
    return True


def another_constant(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Changes the value of a random integer constant, if there is one."""
    at = _pick(rng, rows, "OpConstant", "OpSpecConstant")
    if at is None or len(rows[at]) < 4:
        return False
    rows[at][3] = rng.choice((0, 1, 2, 3, 4, 5, 8, 0x40, 0x48, 0x108, 0x148, 0xFFFFFFFF))
    return True


@cache
def _same_operand_kinds(opcode: int) -> tuple[int, ...]:
    entry = grammar().by_opcode(opcode)
    if entry is None:
        return ()
    kinds = [(o.kind, o.quantifier) for o in entry.operands]
    return tuple(
        other.opcode
        for name in grammar().instruction_names
        if (other := grammar().instruction(name)).family == entry.family
        and [(o.kind, o.quantifier) for o in other.operands] == kinds
        and other.opcode != opcode
    )


def another_opcode(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """
    Replaces the opcode of an instruction by another opcode of its family. The operands remain.
    """
    at = _somewhere(rng, rows)
    others = _same_operand_kinds(rows[at][0] & 0xFFFF)
    if not others:
        return False
    rows[at][0] = rows[at][0] & 0xFFFF0000 | rng.choice(others)
    return True


def _labels(rows: Rows) -> list[int]:
    return [r[1] for r in rows if r[0] & 0xFFFF == opcode_of("OpLabel") and len(r) > 1]


def another_branch(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Replaces a target of a branch or merge instruction by another block."""
    at = _pick(
        rng, rows, "OpBranch", "OpBranchConditional", "OpSwitch", "OpLoopMerge", "OpSelectionMerge"
    )
    labels = _labels(rows)
    if at is None:
        return False
    places = [w for w in _ids(module, at) if rows[at][w] in labels]
    if not places:
        return False
    rows[at][rng.choice(places)] = rng.choice(labels)
    return True


def another_terminator(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Replaces the terminator of a block."""
    at = _pick(rng, rows, "OpBranch", "OpReturn", "OpBranchConditional")
    labels = _labels(rows)
    if at is None or not labels:
        return False
    rows[at] = rng.choice(
        (
            instruction(opcode_of("OpBranch"), [rng.choice(labels)]),
            instruction(opcode_of("OpReturn"), []),
            instruction(opcode_of("OpUnreachable"), []),
        )
    )
    return True


def shorter(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Removes the last operand of a random instruction."""
    at = _somewhere(rng, rows)
    if len(rows[at]) < 2:
        return False
    row = rows[at][:-1]
    rows[at] = [len(row) << 16 | row[0] & 0xFFFF, *row[1:]]
    return True


def longer(rng: random.Random, rows: Rows, module: RawModule) -> bool:
    """Appends an operand to a random instruction."""
    at = _somewhere(rng, rows)
    row = [*rows[at], _any_id(rng, module)]
    rows[at] = [len(row) << 16 | row[0] & 0xFFFF, *row[1:]]
    return True


CHANGES: tuple[Change, ...] = (
    another_id,
    another_value,
    another_value,
    another_type,
    another_type,
    dropped,
    dropped_declaration,
    dropped_declaration,
    repeated,
    swapped,
    moved,
    another_enumerant,
    another_enumerant,
    another_number,
    another_constant,
    another_opcode,
    another_opcode,
    another_branch,
    another_terminator,
    shorter,
    longer,
)
