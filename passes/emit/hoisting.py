"""
Emits each pure operation into the outermost scope in which all of its operands are defined.

The result is reused wherever the operation dominates. An operation that depends on a row only is
therefore computed once for each row. A loop is inserted into its block only when its body is
complete, so that hoisted operations precede it.

Index arithmetic uses known bounds and factors: a remainder that cannot change its operand is not
emitted, and linearizing delinearized indices gives the original index.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    SymbolicSize,
    common_divisor,
    exact_quotient,
    is_dynamic,
    surely_below,
)
from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import INDEX, KernelEmitter, load_element


@dataclass(frozen=True)
class Run:
    """
    The indices of element `number` of a row-major shape `sizes`, as a delinearization returns them.

    A run contains only the indices along the dimensions `first` to `last`.
    """

    number: Index
    sizes: tuple[Size, ...]
    first: int
    last: int


class HoistingEmitter(KernelEmitter):
    """Emits pure operations into the outermost possible scope."""

    def __init__(self, place: InsertPoint):
        super().__init__(place)
        self.depths: dict[SSAValue, int] = {}
        self.multiples: dict[SSAValue, int] = {}
        self.splits: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.products: dict[SSAValue, tuple[SSAValue, Size]] = {}
        self.quotients: dict[SSAValue, tuple[SSAValue, int]] = {}
        """Maps the quotient of each exact division to its dividend and divisor."""
        self.runs: dict[tuple[Index, ...], Run] = {}

    # Places

    def depth_of(self, *values: Index) -> int:
        """Returns the depth of the innermost scope that defines one of the values."""
        return max((self.depths.get(v, 0) for v in values if isinstance(v, SSAValue)), default=0)

    def fenced(self, depth: int) -> int:
        """
        Returns the outermost scope at or inside of `depth` to which code that may fault can be
        moved.
        """
        for outer in range(self.depth, depth, -1):
            if self.scopes[outer].fence:
                return outer
        return depth

    @contextmanager
    def at(self, depth: int) -> Generator[None]:
        """Emits into the scope with index `depth` inside of the `with` block."""
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        yield
        self.scopes += inner

    @contextmanager
    def inside(self, block: Block, fence: bool = True) -> Generator[None]:
        with super().inside(block, fence):
            self.depths |= dict.fromkeys(block.args, self.depth)
            yield

    def insert(self, op: Operation, depth: int = -1) -> None:
        super().insert(op, depth)
        self.depths |= dict.fromkeys(op.results, depth % len(self.scopes))

    def at_top(self, op: Operation, name: str | None = None) -> SSAValue:
        self.insert(op, 0)
        op.results[0].name_hint = name
        return op.results[0]

    def outermost(self, kind: Callable[..., Operation], operands: Sequence[SSAValue]) -> int:
        depth = self.depth_of(*operands)
        return self.fenced(depth) if kind is load_element else depth

    def copied(self, op: Operation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Copies a pure operation with other operands, or returns the results of an equal copy."""
        facts = *op.properties.items(), *op.attributes.items(), *op.result_types
        depth = self.depth_of(*operands)

        def make() -> Sequence[SSAValue]:
            copy = copy_with(op, operands)
            self.insert(copy, depth)
            return copy.results

        return self.remembered((type(op), facts, *operands), depth, make)

    def know_loaded(self, value: SSAValue, source: SSAValue, number: Index) -> None:
        """Records the loaded value of a memory element that no operation writes."""
        operands = source, self.index(number)
        depth = self.outermost(load_element, operands)
        self.scopes[depth].known[load_element, *operands] = value

    # Facts about an index

    def size(self, size: SymbolicSize) -> SSAValue:
        value = super().size(size)
        self.multiples.setdefault(value, common_divisor(size))
        return value

    def identifier(
        self, key: object, make: Callable[[], Operation], name: str, count: int | None
    ) -> SSAValue:
        value = super().identifier(key, make, name, count)
        if count is not None:
            self.scopes[0].bounds[value] = count
        return value

    def bound(self, value: Index) -> int | None:
        """Returns a known exclusive upper bound of an index; None if there is none."""
        if not isinstance(value, SSAValue):
            return value + 1 if isinstance(value, int) and value >= 0 else None
        for scope in reversed(self.scopes):
            if value in scope.bounds:
                return scope.bounds[value]
        return None

    def assume(self, value: Index, bound: Size) -> Index:
        """Records that an index is less than `bound` in the current scope; returns the index."""
        if isinstance(value, SSAValue):
            depth = max(self.depth_of(value), self.fenced(0))
            if is_dynamic(bound):
                self.scopes[depth].known["below", value, bound] = True
            else:
                self._bounded(value, bound, depth)
        return value

    def _bounded(self, value: Index, bound: int | None, depth: int = -1) -> Index:
        if bound is not None and isinstance(value, SSAValue):
            known = self.bound(value)
            if known is None or known > bound:
                self.scopes[depth].bounds[value] = bound
        return value

    def _is_below(self, value: Index, limit: Size) -> bool:
        if not isinstance(value, SSAValue):
            return surely_below(-1, value) and surely_below(value, limit)
        bound = self.bound(value)
        if bound is not None and surely_below(bound - 1, limit):
            return True
        return is_dynamic(limit) and any(
            ("below", value, limit) in scope.known for scope in self.scopes
        )

    def multiple(self, value: Index) -> int:
        """
        Returns a number by which an index is known to be divisible. Returns 0 if the index is 0.
        """
        if isinstance(value, SSAValue):
            return self.multiples.get(value, 1)
        return common_divisor(value)

    def split(self, value: SSAValue) -> tuple[SSAValue, int]:
        """Splits an index into a value and an added constant."""
        return self.splits.get(value, (value, 0))

    def _without_low_part(self, value: SSAValue, divisor: int) -> tuple[SSAValue, int]:
        """
        Splits an index into a part that determines the quotient by `divisor`, and an added constant
        that cannot change the quotient (or 0).
        """
        base, number = self.split(value)
        return (base, number) if 0 <= number < gcd(self.multiple(base), divisor) else (value, 0)

    # Index arithmetic modulo 2^32; only nonnegative numbers are divided and compared

    def plus(self, a: Index, b: Index) -> Index:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return a + b
        # A symbolic size is converted to an index if the other operand is one.
        a, b = (self.index(x) if is_dynamic(x) else x for x in (a, b))
        first, low = self.split(a) if isinstance(a, SSAValue) else (None, a)
        second, high = self.split(b) if isinstance(b, SSAValue) else (None, b)
        bounds = self.bound(a), self.bound(b)
        total = bounds[0] + bounds[1] - 1 if bounds[0] and bounds[1] else None
        if first is None or second is None:
            base = first or second
            assert base is not None
        else:
            base = self.pure(self.instructions.add, first, second)
            self.multiples.setdefault(base, gcd(self.multiple(first), self.multiple(second)))
            self._bounded(base, total)
        return self._bounded(self._plus_number(base, low + high), total)

    def _plus_number(self, base: SSAValue, number: int) -> SSAValue:
        if number == 0:
            return base
        result = self.pure(self.instructions.add, base, self.index(number))
        self.splits[result] = (base, number)
        self.multiples.setdefault(result, gcd(self.multiple(base), abs(number)))
        return result

    def times(self, a: Index, b: Index) -> Index:
        if not isinstance(a, SSAValue) or isinstance(b, SSAValue) or b in (0, 1):
            return super().times(a, b)
        base, number = (a, 0) if is_dynamic(b) else self.split(a)
        whole, divisor = self.quotients.get(base, (base, 0))
        if divisor and not is_dynamic(b) and b > 0 and b % divisor == 0:
            return self.plus(self.times(whole, b // divisor), number * b)
        product = self.pure(self.instructions.multiply, base, self.index(b))
        self.products[product] = (base, b)
        self.multiples.setdefault(product, self.multiple(base) * common_divisor(b))
        if is_dynamic(b):
            return product

        def scaled_bound(value: SSAValue) -> int | None:
            bound = self.bound(value)
            return (bound - 1) * b + 1 if bound is not None and b > 0 else None

        self._bounded(product, scaled_bound(base))
        return self._bounded(self._plus_number(product, number * b), scaled_bound(a))

    def divided(self, a: Index, b: Size) -> Index:
        if not isinstance(a, SSAValue) and isinstance(b, int):
            return a // b
        if b == 1:
            return a
        if a == 0 or self._is_below(a, b):
            return 0
        bound = self.bound(a)
        if isinstance(a, SSAValue):
            if not is_dynamic(b):
                base, number = self.split(a)
                exact = number >= b and self.multiple(base) % b == 0
                if exact and not may_be_negative(base):
                    return self.plus(self.divided(base, b), number // b)
                a, _ = self._without_low_part(a, b)
            product = self.products.get(a)
            if product is not None and surely_below(-1, product[1]):
                factor = exact_quotient(product[1], b)
                if factor is not None:
                    return self.times(product[0], factor)
        quotient = self.pure(self.instructions.divide, self.index(a), self.index(b))
        if is_dynamic(b):
            return quotient
        if self.multiple(a) % b == 0:
            self.multiples.setdefault(quotient, self.multiple(a) // b)
            if isinstance(a, SSAValue):
                self.quotients.setdefault(quotient, (a, b))
        return self._bounded(quotient, None if bound is None else (bound - 1) // b + 1)

    def remainder(self, a: Index, b: Size) -> Index:
        if not is_dynamic(b):
            a = self.index(a) if is_dynamic(a) else a
            if isinstance(a, int):
                return a % b
            if self.multiple(a) % b == 0:
                return 0
        if a == 0 or self._is_below(a, b):
            return a
        if isinstance(a, SSAValue) and is_dynamic(b):
            product = self.products.get(a)
            if product is not None and exact_quotient(product[1], b) is not None:
                return 0
            base, number = self.split(a)
            if 0 < number < common_divisor(self.multiple(base), b):
                return self.assume(self.plus(self.remainder(base, b), number), b)
        elif isinstance(a, SSAValue) and not is_dynamic(b):
            base, number = self.split(a)
            if number >= b and self.multiple(base) % b == 0:
                return number % b
            base, low = self._without_low_part(a, b)
            if low:
                return self._bounded(self.plus(self.remainder(base, b), low), b)
        rest = self.pure(self.instructions.remainder, self.index(a), self.index(b))
        self.multiples.setdefault(rest, common_divisor(self.multiple(a), b))
        return self.assume(rest, b) if is_dynamic(b) else self._bounded(rest, b)

    def below(self, a: Index, limit: Index) -> Condition:
        if not isinstance(limit, SSAValue) and self._is_below(a, limit):
            return True
        if isinstance(a, int) and (a < 0 or isinstance(limit, int)):
            return False
        return self.pure(self.instructions.less, self.index(a), self.index(limit))

    def select(self, condition: Condition, a: Index, b: Index) -> SSAValue:
        first, second = self.index(a), self.index(b)
        if first is second:
            return first
        choice = super().select(condition, first, second)
        if choice.type == INDEX:
            self.multiples.setdefault(choice, gcd(self.multiple(a), self.multiple(b)))
        return choice

    # Shapes

    def delinearized(self, number: Index, sizes: Sequence[Size]) -> tuple[Index, ...]:
        """Returns the indices of element `number` of a row-major shape."""
        indices: list[Index] = [0] * len(sizes)
        if any(not is_dynamic(size) and size == 0 for size in sizes):
            # The shape is empty: it has no valid number.
            return tuple(indices)
        wide = [axis for axis, size in enumerate(sizes) if size != 1]
        rest = number
        for axis in reversed(wide[1:]):
            indices[axis] = self.remainder(rest, sizes[axis])
            rest = self.divided(rest, sizes[axis])
        if wide:
            indices[wide[0]] = self.assume(rest, sizes[wide[0]])
        if isinstance(number, SSAValue):
            self._remember(number, [indices[a] for a in wide], tuple(sizes[a] for a in wide))
        return tuple(indices)

    def _remember(
        self, number: SSAValue, indices: Sequence[Index], sizes: tuple[Size, ...]
    ) -> None:
        for first in range(len(indices)):
            for last in range(first + 1, len(indices)):
                key = tuple(indices[first : last + 1])
                if any(isinstance(index, SSAValue) for index in key):
                    self.runs.setdefault(key, Run(number, sizes, first, last))

    def reshaped(
        self, indices: Sequence[Index], shape: Sequence[Size], source: Sequence[Size]
    ) -> tuple[Index, ...]:
        """
        Converts indices into a row-major shape to indices into another shape of equal size.

        Outer and inner dimensions that both shapes share keep their indices, so that facts about
        these indices remain usable.
        """
        pairs = [(i, s) for i, s in zip(indices, shape, strict=True) if s != 1]
        many = [size for size in source if size != 1]
        most = min(len(pairs), len(many))
        sizes = [size for _, size in pairs]
        outer = next((n for n in range(most) if sizes[n] != many[n]), most)
        inner = next((n for n in range(most - outer) if sizes[~n] != many[~n]), most - outer)
        middle, between = pairs[outer : len(pairs) - inner], many[outer : len(many) - inner]
        wide = [index for index, _ in pairs[:outer]]
        if between:
            number = self.linear([i for i, _ in middle], [s for _, s in middle])
            wide += self.delinearized(number, between)
        wide += [index for index, _ in pairs[len(pairs) - inner :]]
        left = iter(wide)
        return tuple(0 if size == 1 else next(left) for size in source)

    def linear(self, indices: Sequence[Index], sizes: Sequence[Size]) -> Index:
        """Returns the linear index of an element of a row-major shape."""
        pairs = [(i, s) for i, s in zip(indices, sizes, strict=True) if s != 1]
        total: Index = 0
        position = 0
        while position < len(pairs):
            number, length = self._run(pairs[position:])
            position += length
            stride = prod(size for _, size in pairs[position:])
            total = self.plus(total, self.times(number, stride))
        return total

    def _run(self, pairs: Sequence[tuple[Index, Size]]) -> tuple[Index, int]:
        """
        Finds the longest prefix of the indices that is a known `Run`, and returns the linear index
        of this prefix.

        Also returns the length of the prefix.
        """
        for length in range(len(pairs), 1, -1):
            run = self.runs.get(tuple(index for index, _ in pairs[:length]))
            if run is None:
                continue
            sizes = tuple(size for _, size in pairs[1:length])
            if run.sizes[run.first + 1 : run.last + 1] != sizes:
                continue
            number = self.divided(run.number, prod(run.sizes[run.last + 1 :]))
            if run.first:
                number = self.remainder(number, prod(run.sizes[run.first : run.last + 1]))
            return number, length
        return pairs[0][0], 1

    # Control flow

    def is_single_trip(self, lower: Index, upper: int, step: int) -> bool:
        bound = self.bound(lower)
        return bound is not None and bound <= upper <= step

    def enter_loop(self, index: SSAValue, lower: Index, upper: Index, step: int) -> None:
        for bound in (lower, upper, step):
            self.index(bound)
        if is_dynamic(upper):
            self.scopes[-1].known["below", index, upper] = True
        elif isinstance(upper, int):
            self.scopes[-1].bounds[index] = upper
        self.multiples[index] = gcd(self.multiple(lower), step)


def may_be_negative(index: SSAValue) -> bool:
    """True if an index may be negative, as when a map reverses a dimension."""
    match index.owner:
        case arith.ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data < 0
        case arith.SubiOp():
            return True
        case arith.AddiOp() | arith.MuliOp() as op:
            return any(map(may_be_negative, op.operands))
        case _:
            return False
