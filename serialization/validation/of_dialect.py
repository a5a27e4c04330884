"""
Validation of a `spirv.module`: the dialect's verifiers, then the rules on the binary it becomes.

A finding in the binary is told with the operation that the instruction was written for. The encoder
itself says which: it is run a second time with a source position on every instruction, the
operation's number, and the two binaries are laid side by side without those positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.constants import SpecConstantCompositeOp, SpecConstantOp
from xdsl_spirv.dialects.spirv.structure import (
    EntryPointOp,
    ExecutionModeOp,
    FuncOp,
    GlobalVariableOp,
    ModuleOp,
)
from xdsl_spirv.serialization.encode.encoder import ModuleEncoder
from xdsl_spirv.serialization.encode.errors import SPIRVEncodeError
from xdsl_spirv.serialization.encode.target import symbol_of
from xdsl_spirv.serialization.raw.binary import RawModule, decode
from xdsl_spirv.serialization.raw.words import Section, string_words
from xdsl_spirv.serialization.validation.registry import Severity
from xdsl_spirv.serialization.validation.validator import VERIFIER, WRITABLE, Finding, validate

_RULE = re.compile(r"((?:DOT|CM|ROT|BF)-\d\d): ([^;]*); (.*)", re.DOTALL)
_LINES = ("OpLine", "OpNoLine", "OpString")


class _PlacedEncoder(ModuleEncoder):
    """Writes the number of the operation as the line of every instruction."""

    def __init__(self, module: ModuleOp):
        super().__init__(module, names=True, lines=True)
        self.order = {id(op): k for k, op in enumerate(module.walk())}
        self.file = 0

    def line(self, op: Operation) -> tuple[int, int, int] | None:
        if not self.file:
            self.file = self.ids.fresh()
            self._add(Section.SOURCES, "OpString", self.file, *string_words("operations"))
        return self.file, self.order.get(id(op), 0), 0


def validate_operation(module: ModuleOp, target_env: str | None = None) -> list[Finding]:
    """Every breach of a rule in a `spirv.module`, each with the text of an operation."""
    found = list(_verified(module))
    try:
        binary = ModuleEncoder(module, names=True, lines=True).encode()
    except (SPIRVEncodeError, VerifyException, OverflowError) as error:
        cause = str(error).strip().splitlines()[0]
        return [*found, _finding(WRITABLE, cause, "correct the module", None)]
    operations = _operations(module)
    seen = {(f.rule, f.operation) for f in found}
    for finding in validate(binary, target_env):
        op = operations.get(finding.index)
        finding = replace(finding, operation=None if op is None else text_of(op))
        if (finding.rule, finding.operation) not in seen:
            found.append(finding)
    return found


def _verified(module: ModuleOp) -> Iterator[Finding]:
    """What the verifiers of the operations say, each once."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            known = _RULE.search(str(error))
            if known is None:
                cause = str(error).strip().splitlines()[-1]
                yield _finding(VERIFIER, cause, "correct the operation", op)
            else:
                yield _finding(known[1], known[2], known[3].strip(), op)


def _finding(rule: str, cause: str, remedy: str, op: Operation | None) -> Finding:
    text = None if op is None else text_of(op)
    return Finding(rule, Severity.ERROR, cause, remedy, -1, 0, operation=text)


def text_of(op: Operation) -> str:
    """The first line of an operation's text."""
    first, _, rest = str(op).partition("\n")
    return first + (" ..." if rest else "")


def _operations(module: ModuleOp) -> dict[int, Operation]:
    """Instruction of the binary -> the operation it is written for, where there is one."""
    plain = decode(ModuleEncoder(module, names=True, lines=True).encode())
    placed = decode(_PlacedEncoder(module).encode())
    operations = list(module.walk())
    targets = [i.index for i in plain if i.name not in _LINES]
    found: dict[int, Operation] = {}
    line, at = -1, 0
    for i in placed:
        if i.name in _LINES:
            line = i.words[2] if i.name == "OpLine" else -1
            continue
        if at < len(targets) and 0 <= line < len(operations):
            found[targets[at]] = operations[line]
        at += 1
    return _declared(plain, operations) | (found if at == len(targets) else {})


def _declared(binary: RawModule, operations: list[Operation]) -> dict[int, Operation]:
    """What stands outside of functions: by order, or by name."""
    found: dict[int, Operation] = {}
    for name, kind in ORDERED.items():
        written = [i.index for i in binary if i.name == name]
        found |= dict(zip(written, (op for op in operations if isinstance(op, kind)), strict=False))
    symbols = {symbol_of(op): op for op in operations if isinstance(op, NAMED)}
    names = {i.words[1]: i.operands[1].value for i in binary if i.name == "OpName"}
    for i in binary:
        if i.name in ("OpVariable", "OpSpecConstant", "OpSpecConstantComposite"):
            op = symbols.get(str(names.get(i.words[2], "")))
            if op is not None:
                found[i.index] = op
    return found


ORDERED: dict[str, type[Operation]] = {
    "OpEntryPoint": EntryPointOp,
    "OpExecutionMode": ExecutionModeOp,
    "OpFunction": FuncOp,
}
"""Instructions that stand in the order of their operations."""

NAMED = (GlobalVariableOp, SpecConstantOp, SpecConstantCompositeOp)


def parse_finding(error: VerifyException, file: str, line: int) -> Finding:
    """The finding for a type or an attribute that is refused while the text is read."""
    known = _RULE.search(str(error))
    if known is None:
        found = _finding(VERIFIER, str(error).strip(), "correct the type", None)
    else:
        found = _finding(known[1], known[2], known[3].strip(), None)
    return replace(found, operation=f"{file}:{line}")
