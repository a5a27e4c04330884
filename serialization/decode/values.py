"""
The values of a function's ids while its body is read.

An id is visible in the region that it is defined in and in those within; a value that is used
outside of it is noted, and led out when the function is read (`escapes.py`). A constant, or any
other value outside of functions, gets an operation at the function's beginning when it is first
used. An id that is defined behind its use has a stand-in until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.serialization.decode.module_index import facts

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.functions import Module


class Values:
    """Ids and their values in one function, whose instructions are `span`."""

    def __init__(self, module: Module, span: range):
        self.module = module
        self.index = module.index
        self.span = span
        self.first: list[Operation] = []
        """The operations of constants and symbols, for the function's beginning."""
        self._visible: dict[int, SSAValue] = {}
        self._hidden: dict[int, SSAValue] = {}
        """Ids that are defined in a region that is finished."""
        self._awaited: dict[int, SSAValue] = {}
        self._undefined: dict[Attribute, SSAValue] = {}
        self._scopes: list[list[int]] = [[]]
        """The ids that each region that is read defines, from the function's to the innermost."""
        self.escaping: dict[SSAValue, None] = {}
        """Values that are used outside of the region that defines them."""

    def value(self, id: int) -> SSAValue:
        """The value of an id where the function is read. Raises `SPIRVDecodeError`."""
        visible = self._visible.get(id)
        return self._bring(id) if visible is None else visible

    def define(self, id: int, value: SSAValue) -> None:
        """Gives the id this value from here on, in this region."""
        self._visible[id] = value
        self._scopes[-1].append(id)
        self._hint(value, id)
        if self._awaited and id in self._awaited:
            self._awaited.pop(id).replace_all_uses_with(value)
            self.escaping[value] = None

    def enter(self) -> None:
        """The region of a construct is read."""
        self._scopes.append([])

    def leave(self) -> None:
        """Ends the region and hides the values that it defines."""
        for id in self._scopes.pop():
            value = self._visible.pop(id, None)
            if value is not None:
                self._hidden[id] = value

    def finish(self) -> None:
        """Raises `SPIRVDecodeError` if something is used that is nowhere defined."""
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
        """A stand-in for a value that comes later: a block that is never reached may use it."""
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
        # The printer would write letters beyond ASCII, which no parser reads.
        if name is not None and name.isascii() and SSAValue.is_valid_name(name):
            value.name_hint = name
