"""
Writing code in which every pure operation stands as far out as its operands allow.

What depends on a row only is computed once a row, without anybody asking for it: an operation is
appended to the block of the innermost loop that one of its operands needs, and is not written twice
where the first one can be seen. A loop enters its block only when its body is complete, so that
whatever is appended to an outer block meanwhile stands before it.

Index arithmetic knows sizes and multiples: a remainder that cannot change its operand is not
written, and what was taken apart into indices and is put together again in the same way is what it
was before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.passes.analysis.local_sizes import SizeCode
from xdsl_spirv.passes.analysis.sizes import Size, is_dynamic, surely_below
from xdsl_spirv.passes.kernel.builder import INDEX, Condition, Index


@dataclass
class Scope:
    """
    A block that is being written. What may fault or wait does not leave a `fence`, which is a block
    that not every invocation enters.
    """

    block: Block
    fence: bool = False
    known: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    bounds: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])


@dataclass(frozen=True)
class Run:
    """Neighbouring indices `first` to `last` of a number taken apart by `sizes`."""

    number: Index
    sizes: tuple[int, ...]
    first: int
    last: int


class LoopsBuilder:
    """Appends to the innermost of `scopes`, or further out."""

    def __init__(self, block: Block):
        self.scopes = [Scope(block)]
        self.depths: dict[SSAValue, int] = {}
        self.multiples: dict[SSAValue, int] = {}
        self.splits: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.products: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.runs: dict[tuple[Index, ...], Run] = {}
        self._sizes: dict[object, SSAValue] = {}

    # Places

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def depth_of(self, *values: Index) -> int:
        """The innermost scope that one of the values belongs to."""
        return max((self.depths.get(v, 0) for v in values if isinstance(v, SSAValue)), default=0)

    def fenced(self, depth: int) -> int:
        """How far out something may stand that needs what the fences around check."""
        for outer in range(self.depth, depth, -1):
            if self.scopes[outer].fence:
                return outer
        return depth

    @contextmanager
    def at(self, depth: int) -> Generator[None]:
        """Write at the end of an outer scope."""
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        yield
        self.scopes += inner

    def add(self, op: Operation, depth: int | None = None) -> SSAValue:
        """Append an operation with one result."""
        place = self.depth if depth is None else depth
        self.scopes[place].block.add_op(op)
        for result in op.results:
            self.depths[result] = place
        return op.results[0]

    def known(self, key: Hashable, depth: int, make: Callable[[], Any]) -> Any:
        """What was remembered under a key where `depth` can see it, made there if nothing was."""
        for scope in reversed(self.scopes[: depth + 1]):
            if key in scope.known:
                return scope.known[key]
        made = make()
        self.scopes[depth].known[key] = made
        return made

    def pure(
        self,
        key: Hashable,
        operands: Sequence[SSAValue],
        make: Callable[[], Operation],
        fenced: bool = False,
    ) -> SSAValue:
        """The operation under that key on these operands, as far out as they allow."""
        depth = self.depth_of(*operands)
        if fenced:
            depth = self.fenced(depth)
        return self.known((key, *operands), depth, lambda: self.add(make(), depth))

    def _once(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        return self.pure(kind, operands, lambda: kind(*operands))

    # Values

    def constant(self, attribute: IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr) -> SSAValue:
        return self.pure(attribute, (), lambda: arith.ConstantOp(attribute))

    def index(self, value: Index) -> SSAValue:
        if isinstance(value, Size):
            return self._size(value)
        return self.constant(IntegerAttr(value, INDEX)) if isinstance(value, int) else value

    def _size(self, size: Size) -> SSAValue:
        """A size that the launch gives, computed once, outside of everything."""

        def make() -> SSAValue:
            block = Block([end := gpu.ReturnOp([])])
            value = SizeCode(block, end, known=self._sizes).value(size)
            end.detach()
            for op in list(block.ops):
                op.detach()
                self.add(op, 0)
            return value

        value = self.known(("size", size), 0, make)
        self.multiples.setdefault(value, size.content)
        return value

    def block_id(self) -> SSAValue:
        dimension = gpu.DimensionAttr(gpu.DimensionEnum.X)
        return self.pure(gpu.BlockIdOp, (), lambda: _named(gpu.BlockIdOp(dimension), "workgroup"))

    def thread_id(self, size: int) -> Index:
        if size == 1:
            return 0
        dimension = gpu.DimensionAttr(gpu.DimensionEnum.X)
        value = self.pure(
            gpu.ThreadIdOp, (), lambda: _named(gpu.ThreadIdOp(dimension), "invocation")
        )
        self.scopes[0].bounds[value] = size
        return value

    def lane_id(self, size: int) -> SSAValue:
        value = self.pure(gpu.LaneIdOp, (), lambda: _named(gpu.LaneIdOp(), "lane"))
        self.scopes[0].bounds[value] = size
        return value

    def subgroup_id(self, count: int) -> Index:
        if count == 1:
            return 0
        value = self.pure(gpu.SubgroupIdOp, (), lambda: _named(gpu.SubgroupIdOp(), "subgroup"))
        self.scopes[0].bounds[value] = count
        return value

    # What is known of an index

    def bound(self, value: Index) -> int | None:
        """A number that is greater than the index, None if nothing is known."""
        if isinstance(value, int):
            return value + 1 if value >= 0 else None
        for scope in reversed(self.scopes):
            if value in scope.bounds:
                return scope.bounds[value]
        return None

    def assume(self, value: Index, bound: int) -> Index:
        """The index, which is less than `bound` from here to the end of the scope."""
        if isinstance(value, SSAValue):
            scope = self.scopes[max(self.depth_of(value), self.fenced(0))]
            if is_dynamic(bound):
                scope.known["below", value, bound] = True
                return value
            known = self.bound(value)
            if known is None or known > bound:
                scope.bounds[value] = bound
        return value

    def _is_below(self, value: Index, limit: int) -> bool:
        """Whether an index is known to be less than a size."""
        if isinstance(value, int):
            return value >= 0 and surely_below(value, limit)
        bound = self.bound(value)
        if bound is not None and surely_below(bound - 1, limit):
            return True
        return is_dynamic(limit) and any(
            ("below", value, limit) in scope.known for scope in self.scopes
        )

    def _bounded(self, value: Index, bound: int | None) -> Index:
        if bound is not None and not is_dynamic(bound) and isinstance(value, SSAValue):
            known = self.bound(value)
            if known is None or known > bound:
                self.scopes[self.depth].bounds[value] = bound
        return value

    def multiple(self, value: Index) -> int:
        """A number that divides the index; 0 divides nothing but 0."""
        return abs(value) if isinstance(value, int) else self.multiples.get(value, 1)

    def split(self, value: SSAValue) -> tuple[SSAValue, int]:
        """The index as a value and a number added to it."""
        return self.splits.get(value, (value, 0))

    # Index arithmetic, modulo 2^32; division and comparison of what is not negative

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        # Beside an index, a size that the launch gives is an index too.
        a, b = (self.index(x) if isinstance(x, Size) else x for x in (a, b))
        first, low = self.split(a) if isinstance(a, SSAValue) else (None, a)
        second, high = self.split(b) if isinstance(b, SSAValue) else (None, b)
        bounds = self.bound(a), self.bound(b)
        total = bounds[0] + bounds[1] - 1 if bounds[0] and bounds[1] else None
        if first is None or second is None:
            base = first or second
            assert base is not None
        else:
            base = self._once(arith.AddiOp, first, second)
            self.multiples.setdefault(base, gcd(self.multiple(first), self.multiple(second)))
            self._bounded(base, total)
        return self._bounded(self._plus_number(base, low + high), total)

    def _plus_number(self, base: SSAValue, number: int) -> SSAValue:
        if number == 0:
            return base
        result = self._once(arith.AddiOp, base, self.index(number))
        self.splits[result] = (base, number)
        self.multiples.setdefault(result, gcd(self.multiple(base), abs(number)))
        return result

    def times(self, a: Index, b: int) -> Index:
        if isinstance(a, int):
            return a * b
        if b in (0, 1):
            return a if b else 0
        if isinstance(b, Size):
            return self._scaled(a, b)
        base, number = self.split(a)
        result = self._once(arith.MuliOp, base, self.index(b))
        self.products[result] = (base, b)
        self.multiples.setdefault(result, self.multiple(base) * abs(b))
        bound = self.bound(base)
        if bound is not None and b > 0:
            self._bounded(result, (bound - 1) * b + 1)
        whole = self.bound(a)
        total = self._plus_number(result, number * b)
        return self._bounded(total, (whole - 1) * b + 1 if whole is not None and b > 0 else None)

    def _scaled(self, a: SSAValue, b: Size) -> SSAValue:
        result = self._once(arith.MuliOp, a, self.index(b))
        self.products[result] = (a, b)
        self.multiples.setdefault(result, self.multiple(a) * b.content)
        return result

    def _divided_by_size(self, a: Index, b: Size) -> Index:
        if a == 0 or self._is_below(a, b):
            return 0
        if isinstance(a, SSAValue) and (product := self.products.get(a)) is not None:
            if product[1] % b == 0:
                return self.times(product[0], product[1] // b)
        return self._once(arith.DivUIOp, self.index(a), self.index(b))

    def _remainder_by_size(self, a: Index, b: Size) -> Index:
        if a == 0 or self._is_below(a, b):
            return a
        if isinstance(a, SSAValue) and (product := self.products.get(a)) is not None:
            if product[1] % b == 0:
                return 0
        result = self._once(arith.RemUIOp, self.index(a), self.index(b))
        self.multiples.setdefault(result, gcd(self.multiple(a), b.content))
        self.assume(result, b)
        return result

    def divided(self, a: Index, b: int) -> Index:
        if isinstance(b, Size):
            return self._divided_by_size(a, b)
        if isinstance(a, Size):
            return a // b
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        bound = self.bound(a)
        if bound is not None and bound <= b:
            return 0
        base, number = self.split(a)
        if number and 0 <= number < gcd(self.multiple(base), b):
            a = base
        product = self.products.get(a)
        if product is not None and product[1] % b == 0 and product[1] > 0:
            return self.times(product[0], product[1] // b)
        result = self._once(arith.DivUIOp, a, self.index(b))
        if self.multiple(a) % b == 0:
            self.multiples.setdefault(result, self.multiple(a) // b)
        return self._bounded(result, None if bound is None else (bound - 1) // b + 1)

    def remainder(self, a: Index, b: int) -> Index:
        if isinstance(b, Size):
            return self._remainder_by_size(a, b)
        a = self.index(a) if isinstance(a, Size) else a
        if isinstance(a, int):
            return a % b
        if b == 1 or self.multiple(a) % b == 0:
            return 0
        bound = self.bound(a)
        if bound is not None and bound <= b:
            return a
        base, number = self.split(a)
        if number and 0 <= number < gcd(self.multiple(base), b):
            return self._bounded(self.plus(self.remainder(base, b), number), b)
        result = self._once(arith.RemUIOp, a, self.index(b))
        self.multiples.setdefault(result, gcd(self.multiple(a), b))
        return self._bounded(result, b)

    def below(self, a: Index, limit: int) -> Condition | bool:
        """a < limit, both without sign: a condition, or what is known before the program runs."""
        if isinstance(a, int) and not (is_dynamic(a) or is_dynamic(limit)):
            return 0 <= a < limit
        if self._is_below(a, limit):
            return True
        if isinstance(a, int) and not is_dynamic(a) and a < 0:
            return False
        a, second = self.index(a), self.index(limit)
        return self.pure("ult", (a, second), lambda: arith.CmpiOp(a, second, "ult"))

    def both(self, a: Condition | bool, b: Condition | bool) -> Condition | bool:
        if a is False or b is False:
            return False
        if not isinstance(a, SSAValue) or not isinstance(b, SSAValue):
            return b if isinstance(b, SSAValue) else a
        return self._once(arith.AndIOp, a, b)

    def select(self, condition: SSAValue, a: Index, b: Index) -> SSAValue:
        first, second = self.index(a), self.index(b)
        if first is second:
            return first
        result = self._once(arith.SelectOp, condition, first, second)
        if result.type == INDEX:
            self.multiples.setdefault(result, gcd(self.multiple(a), self.multiple(b)))
        return result

    def delinearized(self, number: Index, sizes: Sequence[int]) -> tuple[Index, ...]:
        """The indices of element `number` of a row-major shape."""
        indices: list[Index] = []
        rest = number
        many = [size for size in sizes if size != 1]
        for position in reversed(range(len(sizes))):
            size = sizes[position]
            last = size != 1 and len(many) == sum(1 for s in sizes[position:] if s != 1)
            if size == 1:
                indices.append(0)
            elif last:
                indices.append(self.assume(rest, size))
            else:
                indices.append(self.remainder(rest, size))
                rest = self.divided(rest, size)
        indices.reverse()
        if isinstance(number, SSAValue):
            self._remember(number, indices, sizes)
        return tuple(indices)

    def reshaped(
        self, indices: Sequence[Index], shape: Sequence[int], source: Sequence[int]
    ) -> tuple[Index, ...]:
        """
        The indices in a row-major shape of what has these in another one.

        Outer and inner dimensions that both have keep their index: it is not taken apart, so that
        what depends on it alone is still seen to.
        """
        pairs = [(i, s) for i, s in zip(indices, shape, strict=True) if s != 1]
        many = [size for size in source if size != 1]
        most = min(len(pairs), len(many))
        sizes = [size for _, size in pairs]
        outer = next((n for n in range(most) if sizes[n] != many[n]), most)
        inner = next((n for n in range(most - outer) if sizes[~n] != many[~n]), most - outer)
        middle, between = pairs[outer : len(pairs) - inner], many[outer : len(many) - inner]
        found = [index for index, _ in pairs[:outer]]
        if between:
            number = self.linear([i for i, _ in middle], [s for _, s in middle])
            found += self.delinearized(number, between)
        found += [index for index, _ in pairs[len(pairs) - inner :]]
        left = iter(found)
        return tuple(0 if size == 1 else next(left) for size in source)

    def _remember(self, number: SSAValue, indices: list[Index], sizes: Sequence[int]) -> None:
        pairs = [(i, s) for i, s in zip(indices, sizes, strict=True) if s != 1]
        shape = tuple(size for _, size in pairs)
        for first in range(len(pairs)):
            for last in range(first + 1, len(pairs)):
                key = tuple(index for index, _ in pairs[first : last + 1])
                if any(isinstance(index, SSAValue) for index in key):
                    self.runs.setdefault(key, Run(number, shape, first, last))

    def linear(self, indices: Sequence[Index], sizes: Sequence[int]) -> Index:
        """The number of an element of a row-major shape."""
        pairs = [(i, s) for i, s in zip(indices, sizes, strict=True) if s != 1]
        total: Index = 0
        position = 0
        while position < len(pairs):
            number, length = self._run(pairs[position:])
            position += length
            stride = prod(size for _, size in pairs[position:])
            total = self.plus(total, self.times(number, stride))
        return total

    def _run(self, pairs: Sequence[tuple[Index, int]]) -> tuple[Index, int]:
        """The number that the longest known run of indices is, and its length."""
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

    # Memory and control

    def allocate(self, type: MemRefType, name: str) -> SSAValue:
        return self.add(_named(memref.AllocOp((), (), type), name), 0)

    def load(self, source: SSAValue, offset: Index) -> SSAValue:
        """An element of memory of one dimension that nobody writes."""
        operands = (source, self.index(offset))
        return self.pure(
            "load", operands, lambda: memref.LoadOp.get(source, operands[1:]), fenced=True
        )

    def store(self, value: SSAValue, target: SSAValue, offset: Index) -> None:
        self.scopes[-1].block.add_op(memref.StoreOp.get(value, target, [self.index(offset)]))

    def barrier(self) -> None:
        self.scopes[-1].block.add_op(gpu.BarrierOp())

    def loop(
        self,
        bounds: tuple[Index, int, int],
        carried: Sequence[SSAValue],
        body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        `for i in range(*bounds)`: body(i, carried) gives the next carried values.

        A single trip that is known to be one is written without a loop.
        """
        lower, upper, step = bounds
        most = self.bound(lower)
        single = not is_dynamic(upper) and upper <= step
        if single and most is not None and most <= min(step, upper):
            return body(lower, carried)
        block = Block(arg_types=[INDEX, *(value.type for value in carried)])
        scope = Scope(block)
        start, end, by = (self.index(value) for value in bounds)
        self.scopes.append(scope)
        for argument in block.args:
            self.depths[argument] = self.depth
        if is_dynamic(upper):
            scope.known["below", block.args[0], upper] = True
        else:
            scope.bounds[block.args[0]] = upper
        self.multiples[block.args[0]] = gcd(self.multiple(lower), step)
        results = body(block.args[0], block.args[1:])
        block.add_op(scf.YieldOp(*results))
        self.scopes.pop()
        made = scf.ForOp(start, end, by, list(carried), block)
        self.scopes[-1].block.add_op(made)
        for result in made.results:
            self.depths[result] = self.depth
        return made.results

    def when(self, condition: Condition | bool, then: Callable[[], None]) -> None:
        """`if condition: then()`."""
        if condition is False:
            return
        if not isinstance(condition, SSAValue):
            then()
            return
        region = self.region(Block(), then)
        self.scopes[-1].block.add_op(scf.IfOp(condition, [], region, None))

    def region(
        self, block: Block, body: Callable[[], Sequence[SSAValue] | None], fence: bool = True
    ) -> Region:
        """A region of one block, which ends with a `scf.yield` of what the body returns."""
        self.scopes.append(Scope(block, fence=fence))
        for argument in block.args:
            self.depths[argument] = self.depth
        results = body()
        block.add_op(scf.YieldOp(*(results or ())))
        self.scopes.pop()
        return Region(block)

    def region_of(self, like: Block, body: Callable[[Block, Block], Operation | None]) -> Region:
        """A region of a block with the same arguments; the body gives its terminator."""
        block = Block(arg_types=like.arg_types)
        self.scopes.append(Scope(block, fence=True))
        for argument in block.args:
            self.depths[argument] = self.depth
        end = body(block, like)
        if end is not None:
            block.add_op(end)
        self.scopes.pop()
        return Region(block)

    def choose(
        self,
        condition: SSAValue,
        type: Attribute,
        yes: Callable[[], SSAValue],
        no: Callable[[], SSAValue],
    ) -> SSAValue:
        """One of two values, of which only the one that is taken is computed."""
        then = self.region(Block(), lambda: [yes()])
        otherwise = self.region(Block(), lambda: [no()])
        return self.add(scf.IfOp(condition, [type], then, otherwise))


def _named(op: Operation, name: str) -> Operation:
    op.results[0].name_hint = name
    return op


def erase_unused(block: Block) -> None:
    """Erase pure operations whose results nobody uses, in a block and the blocks inside."""
    for op in reversed(list(block.ops)):
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    erase_unused(inner)
            if not isinstance(op, scf.ForOp | scf.IfOp) or not _idle(op):
                continue
        elif op.has_trait(_terminator()) or isinstance(
            op, memref.StoreOp | gpu.BarrierOp | gpu.ReturnOp
        ):
            continue
        if not any(result.first_use for result in op.results):
            op.detach()
            op.erase()


def _idle(op: Operation) -> bool:
    """Whether nothing inside has an effect."""
    return not any(isinstance(inner, memref.StoreOp | gpu.BarrierOp) for inner in op.walk())


def _terminator() -> Any:
    from xdsl.traits import IsTerminator

    return IsTerminator
