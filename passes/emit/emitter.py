"""
Emits operations into blocks: chooses the block, reuses operations, and folds index arithmetic.

An index is a Python int if its value is known at compile time, else an SSA value. In the same way,
a condition is a bool or an SSA value. Emitting code treats both alike, and known values cost no
instructions. The compiler also computes with symbolic sizes; a symbolic size becomes a launch
argument when code needs its value. The emitter of each lowering level defines the operations
(`instructions`) and the scope of pure operations (`outermost`).
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
    A block that is being written, and the facts that hold in it.

    With `fence`, code that may fault or wait is not hoisted out of the block, because not every
    invocation enters it.
    """

    place: InsertPoint
    fence: bool = False
    known: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    bounds: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])


@dataclass(frozen=True)
class Instructions:
    """Operations of a dialect for unsigned index arithmetic and conditions."""

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
    Emits operations into the innermost of `scopes`.

    Constants, invocation ids and addresses are emitted once, at the top of the function.
    """

    instructions: ClassVar[Instructions]

    def __init__(self, place: InsertPoint, after: Operation | None = None):
        """
        Operations at the top are inserted after `after`; by default, at the start of the block.
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
        """Inserts an operation at the end of scope `depth`; default: the innermost scope."""
        place = self.scopes[depth].place
        if place.insert_before is None:
            place.block.add_op(op)
        else:
            place.block.insert_op_before(op, place.insert_before)

    def add(self, op: Operation) -> SSAValue:
        """Inserts an operation with one result and returns the result."""
        self.insert(op)
        return op.results[0]

    def at_top(self, op: Operation, name: str | None = None) -> SSAValue:
        """Inserts an operation at the top of the function, after the operations inserted before."""
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
        """Emits an operation at the top of the function; once for each key."""
        if key not in self._at_top:
            self._at_top[key] = self.at_top(make(), name)
        return self._at_top[key]

    def remembered(self, key: Hashable, depth: int, make: Callable[[], Any]) -> Any:
        """
        Returns the value of a key in scope `depth` or around it; calls `make` if there is none.
        """
        for scope in reversed(self.scopes[: depth + 1]):
            if key in scope.known:
                return scope.known[key]
        value = make()
        self.scopes[depth].known[key] = value
        return value

    def pure(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        """Emits a pure operation, or reuses an equal operation that dominates the current place."""
        depth = self.outermost(kind, operands)

        def make() -> SSAValue:
            op = kind(*operands)
            self.insert(op, depth)
            return op.results[0]

        return self.remembered((kind, *operands), depth, make)

    def outermost(self, kind: Callable[..., Operation], operands: Sequence[SSAValue]) -> int:
        """Returns the scope into which a pure operation with these operands is emitted."""
        return self.depth

    @contextmanager
    def inside(self, block: Block, fence: bool = True) -> Generator[None]:
        """Emits into `block` inside of the `with`, then forgets values cached for the block."""
        self.scopes.append(Scope(InsertPoint.at_end(block), fence))
        try:
            yield
        finally:
            self.scopes.pop()

    # Constants

    def constant(self, attribute: Constant, type: Attribute | None = None) -> SSAValue:
        """Emits a constant. `type` is required if the attribute has no type."""
        types = () if type is None else (type,)
        make = self.instructions.constant
        key = attribute, type or attribute.get_type()
        return self.once(key, lambda: make(attribute, *types))

    def number(self, value: float, type: Attribute | None = None) -> SSAValue:
        """
        Emits a constant of a type, by default `index`. Integers wrap; vectors repeat the value.
        """
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
        """Returns an index as an SSA value."""
        if isinstance(value, SSAValue):
            return value
        if is_dynamic(value):
            raise UnknownSizeError(f"{type(self).__name__} does not support dynamic sizes")
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
        """Returns the condition a < limit, unsigned."""
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
        """Returns `condition ? a : b`. Python ints are indices; SSA values may have any type."""
        if isinstance(condition, bool):
            return self.index(a if condition else b)
        first, second = self.index(a), self.index(b)
        return self.pure(self.instructions.select, condition, first, second)

    def index_inside(self, inside: Condition, number: Index) -> Index:
        """Returns `number` if `inside` holds, else 0, which is always a valid index."""
        if isinstance(inside, bool):
            return number if inside else 0
        return self.select(inside, number, 0)
