"""
Decodes the instructions of a block into operations.

If the dialect has a class for an instruction, `operations.py` decodes it. An instruction without a
class, or whose operation does not verify, becomes a raw operation (`raw.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, LocationAttr, NoneType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.serialization.decode.blocks import TERMINATORS
from xdsl_spirv.serialization.decode.module_index import EXTENDED, facts
from xdsl_spirv.serialization.decode.operations import (
    Decode,
    NotDeclared,
    core_decoder,
    extended_decoder,
)
from xdsl_spirv.serialization.raw.operands import opcode_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.functions import Module
    from xdsl_spirv.serialization.decode.values import Values

VARIABLES = (spv.VariableOp, spv.UntypedVariableOp)


class InstructionDecoder:
    """
    Decodes the instructions of one function. Implements the interface `Known` of `operations.py`.
    """

    def __init__(self, module: Module, values: Values):
        self.module = module
        self.values = values
        self.index = module.index
        self.value = values.value
        self.type = module.types.type
        self.attribute = module.globals.attribute
        self.constant = module.globals.constant
        self.variables: list[Operation] = []
        """Variables of the function. They go to the start of its first block."""
        self.location: LocationAttr = UNKNOWN_LOC
        """Location that the last OpLine in the current block gives."""

    def notes(self, id: int) -> dict[str, Attribute]:
        """Returns an id's decorations as attributes."""
        module = self.module
        if id not in module.annotations.notes:
            return {}
        return module.annotations.attributes(id, module.globals.operand)

    def read_all(self, rows: Sequence[int], block: Block) -> None:
        """
        Decodes all instructions of one block. The location of the previous block is not valid in
        it.
        """
        self.location = UNKNOWN_LOC
        for row in rows:
            self.read(row, block)

    def read(self, row: int, block: Block) -> None:
        """
        Decodes an instruction and appends its operation to a block. Raises `SPIRVDecodeError`.
        """
        index, words = self.index, self.index.rows[row]
        index.at = row
        decode = self._decoder(words[0] & 0xFFFF, words)
        if decode is None:
            self._uncommon(row, block)
            return
        try:
            op = decode(self, words)
        except (NotDeclared, VerifyException):
            self._carry(row, block)
            return
        if op.results and words[2] in self.module.annotations.notes:
            op.attributes |= self.notes(words[2])
        is_variable = isinstance(op, VARIABLES)
        if not is_variable:
            block.add_op(op)
        if self.module.checked and not _is_accepted(op):
            self._carry(row, block)
            return
        if is_variable:
            self.variables.append(op)
        if op.results:
            self.values.define(words[2], op.results[0])

    def _decoder(self, opcode: int, words: Sequence[int]) -> Decode | None:
        if opcode != opcode_of("OpExtInst"):
            return None if opcode in _skipped_opcodes() else core_decoder(opcode)
        if len(words) < 5:
            raise self.index.error(
                "the instruction ends before the number of the extended instruction"
            )
        name = self.index.raw.symbols.imports.get(words[3])
        return None if name is None else extended_decoder(name, words[4])

    def _uncommon(self, row: int, block: Block) -> None:
        match self.index.name(row):
            case "OpLine":
                self._line(self.index.rows[row])
            case "OpNoLine":
                self.location = UNKNOWN_LOC
            case "OpNop":
                pass
            case "OpUndef":
                pass  # The first use makes the constant.
            case _:
                self._carry(row, block)

    def _line(self, words: Sequence[int]) -> None:
        index = self.index
        file = index.definitions.get(index.word(words, 1))
        if file is None or index.name(file) != "OpString":
            raise index.error("the file of OpLine is not an OpString")
        line, column = index.word(words, 2), index.word(words, 3)
        at = FileLineColLoc(index.file_name(file), IntAttr(line), IntAttr(column))
        self.location = cast("LocationAttr", at)

    def _carry(self, row: int, block: Block) -> None:
        index, words = self.index, self.index.rows[row]
        operands = self.module.globals.read_operands(row, self._id)
        known = facts(index.opcodes[row])
        assert known is not None  # Reading operands fails for an unknown opcode.
        t: Attribute | None = self.type(words[1]) if known.has_type else None
        if t is None and known.has_result:
            t = NoneType()
        cls = spv.RawTerminatorOp if known.name in TERMINATORS else spv.RawOp
        op = cls(known.name, operands, t)
        op.location = self.location
        if known.has_result:
            id = words[1 + known.has_type]
            op.attributes |= self.notes(id)
            self.values.define(id, op.results[0])
        block.add_op(op)

    def _id(self, id: int) -> Attribute | SSAValue:
        span = self.values.span
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        if row in span and row != span.start:
            if self.index.name(row) == "OpLabel":
                raise self.index.error("a block cannot be an operand of this instruction")
            return self.value(id)
        name = self.index.name(row) or ""
        if name.startswith("OpType"):
            return self.type(id)
        if name in ("OpString", "OpFunction", *EXTENDED):
            return self.module.globals.read_carried(id)
        return self.value(id)


def _is_accepted(op: Operation) -> bool:
    """True if an operation verifies. Otherwise erases the operation."""
    try:
        op.verify_()
    except VerifyException:
        if op.parent is not None:
            op.detach()
        op.erase()
        return False
    return True


@cache
def _skipped_opcodes() -> frozenset[int]:
    """Returns the opcodes that `_uncommon` handles, even if the dialect has a class for them."""
    return frozenset(map(opcode_of, ("OpLine", "OpNoLine", "OpNop", "OpUndef", "OpLabel")))
