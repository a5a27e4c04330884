"""
Writes operations into blocks: chooses the block, reuses operations, and folds known index
arithmetic.

An index is a Python int if the compiler knows it, and an SSA value if only the device does; a
condition is a bool or a value in the same way. Code that emits treats both alike, and known numbers
cost no instructions. The compiler also computes with symbolic sizes; such a size becomes a value of
the launch when code needs it. An emitter for a level of the lowering names its operations
(`instructions`) and decides how far out a pure operation is placed (`outermost`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, UnknownSizeError, is_dynamic

Index: TypeAlias = Size | SSAValue
Condition: TypeAlias = bool | SSAValue
Constant: TypeAlias = IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr


@dataclass
class Scope:
    """
    A block that is being written, and the facts that hold there and in the scopes inside.

    Code that may fault or wait is not hoisted out of a `fence`: not every invocation enters it.
    """

    place: InsertPoint
    fence: bool = False
    known: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    bounds: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])


@dataclass(frozen=True)
class Instructions:
    """The operations of a dialect that indices and conditions are computed by, without sign."""

    index: Attribute
    constant: Callable[..., Operation]
    add: Callable[[SSAValue, SSAValue], Operation]
    multiply: Callable[[SSAValue, SSAValue], Operation]
    divide: Callable[[SSAValue, SSAValue], Operation]
    remainder: Callable[[SSAValue, SSAValue], Operation]
    less: Callable[[SSAValue, SSAValue], Operation]
    both: Callable[[SSAValue, SSAValue], Operation]
    select: Callable[[SSAValue, SSAValue, SSAValue], Operation]


class Emitter:
    """
    Writes to the innermost of `scopes`.

    Constants, identifiers of the invocation and addresses stand once, at the function's top.
    """

    instructions: ClassVar[Instructions]

    def __init__(self, place: InsertPoint, after: Operation | None = None):
        """
        Operations at the function's top are inserted behind `after`, or at the start of the block.
        """
        self.entry = place.block
        self.scopes = [Scope(place)]
        self._last_at_top = after
        self._at_top: dict[Hashable, SSAValue] = {}

    # Places

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def insert(self, op: Operation, depth: int = -1) -> None:
        """Writes an operation at the end of a scope, the innermost if none is named."""
        place = self.scopes[depth].place
        if place.insert_before is None:
            place.block.add_op(op)
        else:
            place.block.insert_op_before(op, place.insert_before)

    def add(self, op: Operation) -> SSAValue:
        """Writes an operation with one result."""
        self.insert(op)
        return op.results[0]

    def at_top(self, op: Operation, name: str | None = None) -> SSAValue:
        """Writes an operation at the function's top, behind the ones written there before."""
        if self._last_at_top is not None:
            self.entry.insert_op_after(op, self._last_at_top)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(op, self.entry.first_op)
        else:
            self.entry.add_op(op)
        self._last_at_top = op
        op.results[0].name_hint = name
        return op.results[0]

    def once(
        self, key: Hashable, make: Callable[[], Operation], name: str | None = None
    ) -> SSAValue:
        """
        Returns the value that the function has under a key; writes it at the top at the first call.
        """
        if key not in self._at_top:
            self._at_top[key] = self.at_top(make(), name)
        return self._at_top[key]

    def remembered(self, key: Hashable, depth: int, make: Callable[[], Any]) -> Any:
        """
        Returns the value that scope `depth` sees under a key. Makes and stores it if there is none.
        """
        for scope in reversed(self.scopes[: depth + 1]):
            if key in scope.known:
                return scope.known[key]
        value = make()
        self.scopes[depth].known[key] = value
        return value

    def pure(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        """Returns a visible result of the same operation on these operands, or writes a new one."""
        depth = self.outermost(kind, operands)

        def make() -> SSAValue:
            op = kind(*operands)
            self.insert(op, depth)
            return op.results[0]

        return self.remembered((kind, *operands), depth, make)

    def outermost(self, kind: Callable[..., Operation], operands: Sequence[SSAValue]) -> int:
        """The scope that a pure operation is written to, which sees the operands."""
        return self.depth

    @contextmanager
    def inside(self, block: Block, fence: bool = True) -> Generator[None]:
        """Writes at the end of a block; forgets afterwards what became known there."""
        self.scopes.append(Scope(InsertPoint.at_end(block), fence))
        try:
            yield
        finally:
            self.scopes.pop()

    # Constants

    def constant(self, attribute: Constant, type: Attribute | None = None) -> SSAValue:
        """Writes a constant. `type` is needed if the attribute has none."""
        types = () if type is None else (type,)
        make = self.instructions.constant
        key = attribute, type or attribute.get_type()
        return self.once(key, lambda: make(attribute, *types))

    def number(self, value: float, type: Attribute | None = None) -> SSAValue:
        """A constant of this type, `index` by default. Integers wrap; vectors repeat the number."""
        type = type or self.instructions.index
        element = type.element_type if isinstance(type, VectorType) else type
        if isinstance(element, IntegerType | IndexType):
            number = IntegerAttr(int(value), element, truncate_bits=True)
        else:
            number = FloatAttr(value, cast(AnyFloat, element))
        if isinstance(type, VectorType):
            return self.constant(DenseIntOrFPElementsAttr.from_list(type, [number.value.data]))
        return self.constant(number)

    def index(self, value: Index) -> SSAValue:
        """Returns an index as a value."""
        if isinstance(value, SSAValue):
            return value
        if is_dynamic(value):
            raise UnknownSizeError(f"{type(self).__name__} writes code that is given no sizes")
        return self.number(value)

    # Index arithmetic: unsigned, of numbers that fit 31 bits

    def plus(self, a: Index, b: Index) -> Index:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return a + b
        a, b = (a, b) if isinstance(a, SSAValue) else (b, a)
        return a if b == 0 else self.pure(self.instructions.add, self.index(a), self.index(b))

    def times(self, a: Index, b: Index) -> Index:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return a * b
        a, b = (a, b) if isinstance(a, SSAValue) else (b, a)
        if b in (0, 1):
            return a if b == 1 else 0
        return self.pure(self.instructions.multiply, self.index(a), self.index(b))

    def divided(self, a: Index, b: Size) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        a = self.index(a)
        return a if b == 1 else self.pure(self.instructions.divide, a, self.index(b))

    def remainder(self, a: Index, b: Size) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        a = self.index(a)
        return 0 if b == 1 else self.pure(self.instructions.remainder, a, self.index(b))

    def below(self, a: Index, limit: Index) -> Condition:
        """Returns whether a < limit."""
        if isinstance(a, int) and isinstance(limit, int):
            return 0 <= a < limit
        return self.pure(self.instructions.less, self.index(a), self.index(limit))

    def both(self, a: Condition, b: Condition) -> Condition:
        if a is False or b is False:
            return False
        if not isinstance(a, SSAValue) or not isinstance(b, SSAValue):
            return b if isinstance(b, SSAValue) else a
        return self.pure(self.instructions.both, a, b)

    def select(self, condition: Condition, a: Index, b: Index) -> SSAValue:
        """Selects `a` or `b`; numbers are indices, values may be of any type."""
        if isinstance(condition, bool):
            return self.index(a if condition else b)
        first, second = self.index(a), self.index(b)
        return self.pure(self.instructions.select, condition, first, second)

    def index_inside(self, inside: Condition, number: Index) -> Index:
        """Selects the number if it is inside, else 0, an index that can always be read."""
        if isinstance(inside, bool):
            return number if inside else 0
        return self.select(inside, number, 0)
