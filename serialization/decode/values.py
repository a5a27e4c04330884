"""
The values of a function's ids while its body is read.

An id is visible in the region that it is defined in and in those within. A value that is used
behind the construct that defines it becomes a result of the construct, by an operand of its merge.
Pointers cannot be results under logical addressing: their chain is repeated there. A constant, or
another value from outside of functions, gets an operation at the function's beginning when it is
first used; a value that is defined after its use has a stand-in until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, SSAValues

from xdsl_spirv.dialects.spirv.control_flow import Construct
from xdsl_spirv.dialects.spirv.memory import AccessChain, PtrAccessChain
from xdsl_spirv.serialization.decode.module_index import facts

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.functions import Module


@dataclass(eq=False, slots=True)
class Scope:
    """A construct's region, while it is read and after."""

    op: Construct | None
    around: Scope | None
    is_open: bool = True
    last: Operation | None = None
    """The last operation that was repeated behind the construct."""
    ids: list[int] = field(default_factory=list[int])
    given: list[SSAValue] = field(default_factory=list[SSAValue])
    """Values of the region that become results, behind those that there are."""
    results: list[OpResult] = field(default_factory=list[OpResult])
    """The results that they become, which the construct has when the function is finished."""

    def give(self, value: SSAValue) -> SSAValue:
        """A value of the region as a result of the construct."""
        op = self.op
        if op is None:
            raise ValueError("the construct is not finished")
        self.given.append(value)
        self.results.append(OpResult(value.type, op, len(op.results) + len(self.results)))
        return self.results[-1]

    def finish(self) -> None:
        """Give the construct its results: one by one they would take the square of their number."""
        op = self.op
        last = None if op is None else op.body.blocks.last
        merge = None if last is None else last.last_op
        if op is None or merge is None:
            raise ValueError("the construct is not finished")
        merge.operands = [*merge.operands, *self.given]
        op.results = SSAValues((*op.results, *self.results))


class Values:
    """Ids and their values in one function, whose instructions are `span`."""

    def __init__(self, module: Module, span: range):
        self.module = module
        self.index = module.index
        self.span = span
        self.first: list[Operation] = []
        """The operations of constants and symbols, for the function's beginning."""
        self._visible: dict[int, SSAValue] = {}
        self._hidden: dict[int, tuple[Scope, SSAValue]] = {}
        self._awaited: dict[int, SSAValue] = {}
        self._undefined: dict[Attribute, SSAValue] = {}
        self._scope = Scope(None, None)
        self._giving: list[Scope] = []
        """Constructs whose values are used behind them."""

    def value(self, id: int) -> SSAValue:
        """The value of an id where the function is read. Raises `SPIRVDecodeError`."""
        visible = self._visible.get(id)
        return self._bring(id) if visible is None else visible

    def define(self, id: int, value: SSAValue) -> None:
        """Gives the id this value from here on, in this region."""
        self._visible[id] = value
        self._scope.ids.append(id)
        self._hint(value, id)
        if self._awaited and id in self._awaited:
            self._awaited.pop(id).replace_all_uses_with(value)

    def enter(self, op: Construct) -> None:
        """The region of a construct is read."""
        self._scope = Scope(op, self._scope)

    def leave(self) -> None:
        """Ends the region and hides the values that it defines."""
        scope = self._scope
        scope.is_open = False
        for id in scope.ids:
            value = self._visible.pop(id, None)
            if value is not None:
                self._hidden[id] = (scope, value)
        assert scope.around is not None
        self._scope = scope.around

    def finish(self) -> None:
        """
        Give constructs their results.

        Raises `SPIRVDecodeError` if something is used that is nowhere defined.
        """
        for scope in self._giving:
            scope.finish()
        if self._awaited:
            raise self.index.error(f"%{next(iter(self._awaited))} is used before it is defined")

    def _bring(self, id: int) -> SSAValue:
        hidden = self._hidden.pop(id, None)
        if hidden is not None:
            return self._out(id, *hidden)
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

    def _out(self, id: int, scope: Scope, value: SSAValue) -> SSAValue:
        """A value that is defined in a region that is finished."""
        if isinstance(value.owner, AccessChain | PtrAccessChain):
            around, value = self._repeat(id, scope, value.owner)
        else:
            around = scope
            while around is not None and not around.is_open:
                if not around.given:
                    self._giving.append(around)
                value = around.give(value)
                around = around.around
        self._visible[id] = value
        if around is not None:
            around.ids.append(id)
        return value

    def _repeat(self, id: int, scope: Scope, op: Operation) -> tuple[Scope | None, SSAValue]:
        """A pointer's chain once more, behind the outermost finished construct around it."""
        while scope.around is not None and not scope.around.is_open:
            scope = scope.around
        words = self.index.rows[self.index.definitions[id]]
        given = [self.value(self.index.word(words, 3 + n)) for n in range(len(op.operands))]
        copy = op.clone(dict(zip(op.operands, given, strict=True)))
        before = scope.last or scope.op
        block = None if before is None else before.parent
        if before is None or block is None:
            raise ValueError("the construct is not finished")
        block.insert_op_after(copy, before)
        scope.last = copy
        return scope.around, copy.results[0]

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
