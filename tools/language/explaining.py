"""Makes hover texts (documentation and the SPIR-V of a source line), and finds definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.description import SOURCES
from xdsl_spirv.tools.kernel_test.loading import load_kernel

WORD = re.compile(r"[%@#^]?[\w.$]+")
LINE = re.compile(r"OpLine %\S+ (\d+)|DebugLine %\S+ %u?int_(\d+)\b")
END = re.compile(r" ; 0x[0-9a-f]{8}\n")
"""Matches the end of an instruction in a disassembly with offsets."""
ENDS_BLOCK = re.compile(r"Op(FunctionEnd|Branch|Switch|Return|Kill|Unreachable|NoLine)")
MOST = 60
"""Maximum number of instructions in a hover text."""


def word_at(line: str, column: int) -> str:
    """Returns the word at a column of a line, or an empty text."""
    words = (m for m in WORD.finditer(line) if m.start() <= column <= m.end())
    return next((match[0].rstrip(".") for match in words), "")


def lower(path: Path) -> dict[int, list[str]]:
    """Returns a kernel's SPIR-V assembly by source line. Raises the errors of `load_kernel`."""
    (test,) = collect([str(path)]).tests
    text = disassemble(load_kernel(test).index.raw, header=False, indent=False, offsets=True)
    lines: dict[int, list[str]] = {}
    current = 0
    for instruction in END.split(text):
        match = LINE.search(instruction)
        if match:
            current = int(match[1] or match[2])
        elif current:
            lines.setdefault(current, []).append(instruction.strip())
            if ENDS_BLOCK.search(instruction):
                current = 0
    return lines


def hover(path: Path, lines: list[str], row: int, column: int) -> str:
    """Returns the hover text in Markdown for a position in the file `lines`, or an empty text."""
    word = word_at(lines[row], column) if row < len(lines) else ""
    if path.suffix in SOURCES:
        lowered = lower(path).get(row + 1, [])
        more = [f"; and {len(lowered) - MOST} more"] * (len(lowered) > MOST)
        return "\n".join(["```spirv", *lowered[:MOST], *more, "```"]) if lowered else ""
    if word.startswith("%"):
        defined = definition(path, lines, row, word)
        return "" if defined is None else f"```\n{lines[defined[0]].strip()}\n```"
    if word.startswith("spirv."):
        return "\n\n".join([*_of_operation(word), *_of_instruction(_opcode(word))])
    if word.startswith("Op"):
        names = [name for name in _operations() if _opcode(name) == word]
        return "\n\n".join([*_of_instruction(word), *(t for n in names for t in _of_operation(n))])
    return ""


@cache
def _operations() -> dict[str, type]:
    from xdsl_spirv.dialects.spirv import SPIRV

    return {operation.name: operation for operation in SPIRV.operations}


def _opcode(name: str) -> str:
    """Converts an operation's name to its SPIR-V instruction: `spirv.KHR.Expect` to OpExpectKHR."""
    *vendor, last = name.split(".")[1:]
    with_vendor = f"Op{last}{''.join(vendor)}"
    return with_vendor if with_vendor in grammar() else f"Op{last}"


def _of_operation(name: str) -> Iterator[str]:
    """Yields the documentation of a dialect's operation."""
    operation = _operations().get(name)
    if operation is not None and operation.__doc__:
        yield f"**{name}**: {' '.join(operation.__doc__.split())}"


def _of_instruction(name: str) -> Iterator[str]:
    """Yields the operands, capabilities and validation rules of an instruction."""
    from xdsl_spirv.serialization.validation import validator
    from xdsl_spirv.serialization.validation.registry import INSTRUCTION_CHECKS

    assert validator  # The import registers the rules.
    if name not in grammar():
        return
    instruction = grammar().instruction(name)
    operands = " ".join(f"*{o.name or o.kind}*" for o in instruction.inputs)
    result = "*Result* = " * instruction.has_result
    yield f"**{instruction.name}** ({instruction.family}): {result}{instruction.name} {operands}"
    if instruction.capabilities:
        yield f"needs one of the capabilities {', '.join(instruction.capabilities)}"
    rules = [f"- {rule.id}: {rule.says}" for rule, names, _ in INSTRUCTION_CHECKS if name in names]
    if rules:
        yield "\n".join(rules)


DECLARES = r"(?:^|[\w>\]\)*&]\s+|,\s*|[(<{{]\s*){name}\s*(?:[=;,:\[({{)]|$)"
"""Matches a declaration of a name in GLSL, Slang, HLSL and WGSL."""
STATEMENT = re.compile(r"\b(return|else|case)\s")


def definition(path: Path, lines: list[str], row: int, word: str) -> tuple[int, int] | None:
    """
    Returns the line and column of a word's definition, counted from 0. Prefers the nearest
    definition above.
    """
    name = re.escape(word)
    if path.suffix == ".spvasm":
        pattern = rf"^\s*{name}\s*="
    elif path.suffix == ".mlir":
        pattern = rf"(?:^|[,(])\s*{name}(?:\s*,[^=()]*)?\s*[=:]"
        if word.startswith("@"):
            pattern = rf"(?:spirv\.(?:func|\w*Variable|Spec\w+)|func\.func)\s+{name}\b"
    else:
        pattern = DECLARES.format(name=name)
    found = [
        (number, match.start() + match[0].index(word))
        for number, line in enumerate(lines)
        if (match := re.search(pattern, STATEMENT.sub(lambda m: " " * len(m[0]), line)))
    ]
    above = [place for place in found if place[0] <= row]
    return above[-1] if above else found[0] if found else None
