"""
Maps ids to values while a function's body is decoded.

An id is visible in the region that defines it and in nested regions. A value that is used elsewhere
is recorded, and `escapes.py` later passes it out of its region. When a constant or another value
from outside of functions is first used, its operation is added at the function's start. An id that
is used before its definition gets a placeholder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.serialization.decode.module_index import facts

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.functions import Module


class Values:
    """Maps ids to values in one function. `span` are the indices of the function's instructions."""

    def __init__(self, module: Module, span: range):
        self.module = module
        self.index = module.index
        self.span = span
        self.first: list[Operation] = []
        """Operations of constants and symbols. They go to the start of the function."""
        self._visible: dict[int, SSAValue] = {}
        self._hidden: dict[int, SSAValue] = {}
        """
        Maps ids that regions defined to their values. The regions are finished, so the ids are out
        of scope.
        """
        self._awaited: dict[int, SSAValue] = {}
        self._undefined: dict[Attribute, SSAValue] = {}
        self._scopes: list[list[int]] = [[]]
        """For each open region, the ids that it defines. The outermost region is first."""
        self.escaping: dict[SSAValue, None] = {}
        """Values that are used outside of the region that defines them."""

    def value(self, id: int) -> SSAValue:
        """Returns the value of an id at the current instruction. Raises `SPIRVDecodeError`."""
        visible = self._visible.get(id)
        return self._bring(id) if visible is None else visible

    def define(self, id: int, value: SSAValue) -> None:
        """Maps an id to a value until the current region ends."""
        self._visible[id] = value
        self._scopes[-1].append(id)
        self._hint(value, id)
        if self._awaited and id in self._awaited:
            self._awaited.pop(id).replace_all_uses_with(value)
            self.escaping[value] = None

    def enter(self) -> None:
        """Opens the region of a construct."""
        self._scopes.append([])

    def leave(self) -> None:
        """Closes the innermost region and hides the values that it defines."""
        for id in self._scopes.pop():
            value = self._visible.pop(id, None)
            if value is not None:
                self._hidden[id] = value

    def finish(self) -> None:
        """Raises `SPIRVDecodeError` if a used id is never defined."""
        if self._awaited:
            raise self.index.error(f"%{next(iter(self._awaited))} is used before it is defined")

    def _bring(self, id: int) -> SSAValue:
        hidden = self._hidden.get(id)
        if hidden is not None:
            self.escaping[hidden] = None
            return hidden
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        undefined = self.index.name(row) == "OpUndef"
        if row in self.span and not undefined:
            return self._await(id, row)
        constant = self.module.globals.materialize(id)
        if constant is None:
            raise self.index.error(f"%{id} is not a value")
        value = constant.results[0]
        if undefined:
            known = self._undefined.setdefault(value.type, value)
            if known is not value:
                self._visible[id] = known
                return known
        self._hint(value, id)
        self.first.append(constant)
        self._visible[id] = value
        return value

    def _await(self, id: int, row: int) -> SSAValue:
        """Returns a placeholder for a value that a later block defines."""
        known = self._awaited.get(id)
        if known is None:
            if self.index.in_one_block(self.index.at, row):
                raise self.index.error(f"%{id} is used before it is defined")
            entry = facts(self.index.opcodes[row])
            if entry is None or not entry.has_type:
                raise self.index.error(f"%{id} is not a value")
            t = self.module.types.type(self.index.word(self.index.rows[row], 1))
            known = self._awaited[id] = Block(arg_types=[t]).args[0]
        return known

    def _hint(self, value: SSAValue, id: int) -> None:
        name = self.module.annotations.names.get(id)
        # xDSL prints names with non-ASCII letters, but its parser does not accept them.
        if name is not None and name.isascii() and SSAValue.is_valid_name(name):
            value.name_hint = name
