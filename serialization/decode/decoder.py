"""
Decodes a SPIR-V binary to a `spirv.module`.

`operations.py` decodes an ordinary instruction to its operation, by the grammar and the class's
declaration. An instruction without a class becomes a raw operation, which holds its words
(`raw.py`). Handwritten code exists only for sections, symbols, types and constants, annotations,
functions and their blocks.

Types and constants are decoded when their ids are first used, so unused ones are dropped. Symbols
have the module's order.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import OPERATIONS
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.serialization.decode.annotations import Annotations
from xdsl_spirv.serialization.decode.functions import FunctionDecoder, declare
from xdsl_spirv.serialization.decode.globals import GlobalTable
from xdsl_spirv.serialization.decode.module_index import ModuleIndex
from xdsl_spirv.serialization.decode.types import TypeReader
from xdsl_spirv.serialization.raw import binary
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.upstream.collection import without_collection
from xdsl_spirv.upstream.symbols import symbols_at_hand

TOO_DEEP = "types or constructs are nested too deeply"


def decode(data: bytes | bytearray | memoryview[Any], *, unchecked: bool = False) -> ModuleOp:
    """
    Decodes a binary of either byte order to a program with one `spirv.module`, and verifies it.

    Raises `SPIRVDecodeError` if the bytes are not a module, or declarations break the dialect's
    rules. An instruction whose operation does not verify becomes a raw operation, which holds the
    instruction's words. With `unchecked`, nothing is verified.
    """
    raw = binary.decode(data)
    with without_collection():
        _settle_layouts()
        return _decode(raw, unchecked=unchecked)


@cache
def _settle_layouts() -> None:
    """
    Reduces the memory of all later operations.

    CPython stores an object's fields compactly if the first objects of the class had the same
    fields. This function therefore creates operations with all fields set. Otherwise, each later
    operation needs a dictionary of 230 bytes, because xDSL sets some fields late.
    """
    operations = Block([cls.create() for cls in (ModuleOp, *OPERATIONS, ModuleOp)])
    Region([Block(), operations, Block()])


def _decode(raw: binary.RawModule, *, unchecked: bool) -> ModuleOp:
    index = ModuleIndex(raw)
    if not unchecked:
        try:
            module = _attempt(index, checked=False)
            module.verify()
            return module
        except (VerifyException, SPIRVDecodeError, RecursionError):
            module = None
        gc.collect(0)  # Frees the first attempt, whose objects form cycles.
        index = ModuleIndex(raw)
    module = _attempt(index, checked=not unchecked)
    if not unchecked:
        try:
            module.verify()
        except VerifyException as error:
            raise _refusal_without_place(error, index) from error
        except RecursionError as error:
            index.at = 0
            raise index.error(TOO_DEEP) from error
    return module


def _attempt(index: ModuleIndex, *, checked: bool) -> ModuleOp:
    """Decodes the module once. With `checked`, an invalid instruction becomes a raw operation."""
    try:
        return ModuleDecoder(index, checked=checked).decode()
    except SPIRVDecodeError:
        raise
    except (VerifyException, OverflowError) as error:
        raise index.error(_cause(error)) from error
    except RecursionError as error:
        raise index.error(TOO_DEEP) from error


def _cause(error: Exception) -> str:
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__


def _refusal_without_place(error: VerifyException, index: ModuleIndex) -> SPIRVDecodeError:
    """
    Creates the error for a rule that concerns the whole module. The error names no instruction.
    """
    text = str(error).strip()
    index.at = 0
    return index.error(f"the module breaks a rule of the dialect: {text}")


class ModuleDecoder:
    """Decodes one module."""

    def __init__(self, index: ModuleIndex, *, checked: bool):
        self.index = index
        self.checked = checked
        self.annotations = Annotations(index)
        self.types = TypeReader(index, self.annotations)
        self.globals = GlobalTable(index, self.annotations, self.types)
        self.types.globals = self.globals
        self._capabilities: list[spv.Capability] = []
        self._extensions: list[str] = []
        self._model = (spv.AddressingModel.Logical, spv.MemoryModel.Simple)
        self._tail: list[Operation] = []
        self._sections: dict[str, Callable[[Sequence[int]], None]] = {
            "OpCapability": self._capability,
            "OpExtension": self._extension,
            "OpMemoryModel": self._memory_model,
            "OpEntryPoint": self._entry_point,
            "OpExecutionMode": self._execution_mode,
            "OpExecutionModeId": self._execution_mode,
        }

    def decode(self) -> ModuleOp:
        index = self.index
        for row in range(index.first_function):
            index.at = row
            handler = self._sections.get(index.name(row) or "")
            if handler is not None:
                handler(index.rows[row])
        triple = spv.VerCapExtAttr(index.raw.header.version, self._capabilities, self._extensions)
        module = ModuleOp((), *self._model, triple)
        block = module.body.block
        spans = list(index.functions())
        self.globals.declare()
        functions = [declare(self, span) for span in spans]
        # All functions get symbols first, because function bodies refer to symbols.
        block.add_ops([f.op for f in functions])
        first = functions[0].op if functions else None
        if self.checked:
            self._place(block, first, self.globals.take())
        graphs = self._graphs()
        first = first or next(iter(graphs), None)
        block.add_ops(graphs)
        with symbols_at_hand(module):
            for function in functions:
                FunctionDecoder(self, function).decode()
        # Decoding decorations may add constants.
        notes = self.globals.notes()
        self._place(block, first, self.globals.take() + notes)
        block.add_ops(self._tail)
        return module

    def _graphs(self) -> list[Operation]:
        rows = np.flatnonzero(self.index.raw.opcodes == opcode_of("OpGraphARM")).tolist()
        if not rows:
            return []
        from xdsl_spirv.serialization.decode.graphs import read_entry_points, read_graph

        graphs = [read_graph(self, row) for row in rows]
        self._tail += read_entry_points(self, graphs)
        return list(graphs)

    def _place(self, block: Any, first: Operation | None, ops: Sequence[Operation]) -> None:
        if first is None:
            block.add_ops(ops)
        else:
            block.insert_ops_before(ops, first)

    # Sections

    def _capability(self, words: Sequence[int]) -> None:
        value = self.index.word(words, 1)
        try:
            capability = spv.Capability(value)
        except ValueError:
            raise self.index.error(f"{value} is not a Capability of the grammar") from None
        if capability not in self._capabilities:
            self._capabilities.append(capability)

    def _extension(self, words: Sequence[int]) -> None:
        name = self.index.string(words, 1)
        if not name.startswith("SPV_") or not name.isidentifier():
            raise self.index.error(f"{name!r} is not the name of an extension")
        if name not in self._extensions:
            self._extensions.append(name)

    def _memory_model(self, words: Sequence[int]) -> None:
        addressing, memory = self.index.word(words, 1), self.index.word(words, 2)
        try:
            self._model = (spv.AddressingModel(addressing), spv.MemoryModel(memory))
        except ValueError:
            raise self.index.error("the addressing or memory model is unknown") from None

    def _entry_point(self, words: Sequence[int]) -> None:
        index = self.index
        operands = index.raw[index.at].operands
        model, function, name, *interface = [o.value for o in operands]
        symbols = [self.globals.variable(int(i)) for i in dict.fromkeys(interface)]
        symbol = self.globals.function(int(function))
        op = spv.EntryPointOp(spv.ExecutionModel(int(model)), symbol, symbols)
        if symbol != name:
            op.attributes["entry_name"] = index.text(str(name))
        self._tail.append(op)

    def _execution_mode(self, words: Sequence[int]) -> None:
        index = self.index
        function, mode, *rest = (o for o in index.raw[index.at].operands)
        values: list[int | Attribute] = []
        for operand in rest:
            if not isinstance(operand.value, int):
                raise index.error(
                    "an execution mode has a string operand, which the dialect does not support"
                )
            if operand.kind.startswith("Id"):
                values.append(self.globals.operand(operand.value))
            else:
                n = operand.value
                values.append(n - (1 << 32) if n >> 31 else n)
        symbol = self.globals.function(int(function.value))
        op = spv.ExecutionModeOp(symbol, spv.ExecutionMode(int(mode.value)), values)
        self._tail.append(op)
