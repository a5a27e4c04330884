"""
Builds `linalg` operations on tensors that implement a model's operators; sizes may be dynamic.

A size is an integer or a `SymbolicSize` in the dimensions of the function's inputs, so that equal
sizes are recognised. Operations get the location of the current node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain, count
from math import prod
from typing import Any, NoReturn

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, cf, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    UnknownLoc,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Extent,
    Quotient,
    Size,
    SymbolicSize,
    least,
    surely_below,
)
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.dimensions import (
    Map,
    affine,
    broadcast,
    broadcast_map,
    groups_of,
    is_empty,
    reassociation,
    with_size,
)
from xdsl_spirv.frontends.onnx.portions import Portion, split_portions
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import (
    I64,
    Array,
    Element,
    Front,
    Tensor,
    sum_element,
    tensor_type,
)

LARGE = 1024
"""Minimum size in bytes of a constant that becomes an argument of the function (a weight)."""

Body = Callable[..., Number]
"""Function that builds an elementwise body. It takes a `Scalars` and one number per operand."""


class TensorBuilder:
    """Adds operations at the end of a block."""

    def __init__(self, entry: Block):
        self.entry = entry
        self.block = entry
        self.location: LocationAttr = UnknownLoc()
        self.weights: dict[str, Array] = {}
        """Values of the large constants that become arguments, by name."""
        self._last_constant: Operation | None = None
        self.insisted: set[tuple[Size, Size]] = set()
        """Pairs of sizes that must be equal. In a pair with an integer, the integer is second."""

    def refuse(self, cause: str, remedy: str) -> NoReturn:
        """Raises `FrontendError` for the current node."""
        raise FrontendError(cause, str(self.location), remedy)

    def insert(self, op: Operation) -> SSAValue:
        """Appends an operation to the block. Returns its first result."""
        for inner in op.walk():
            inner.location = self.location
        self.block.add_op(op)
        return op.results[0]

    # Constants and sizes

    def constant(self, op: Operation) -> SSAValue:
        """Adds a constant at the function's start, for use in all blocks. Returns its value."""
        op.location = self.location
        if self._last_constant is not None:
            self.entry.insert_op_after(op, self._last_constant)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(op, self.entry.first_op)
        else:
            self.entry.add_op(op)
        self._last_constant = op
        return op.results[0]

    def value(self, t: Tensor) -> SSAValue:
        """Returns a tensor as an SSA value. A large constant becomes an argument."""
        if t.value is not None:
            return t.value
        array = t.numbers
        if array is None:
            t.value = self._sizes_tensor(t) if t.element == I64 else self.value(self._of_sizes(t))
            return t.value
        array = np.asarray(array, t.element.dtype, order="C")
        if array.nbytes >= LARGE:
            t.value = self.entry.insert_arg(t.type, len(self.entry.args))
            self.weights[self._weight_name(t)] = array
            return t.value
        # xDSL reads the byte of a bool as signed, so True is -1.
        data = -array.astype(np.int8) if t.element.is_bool else array
        attribute = DenseIntOrFPElementsAttr(t.type, BytesAttr(data.tobytes()))  # pyright: ignore
        t.value = self.constant(arith.ConstantOp(attribute))
        return t.value

    def _of_sizes(self, t: Tensor) -> Tensor:
        """
        Computes a tensor whose elements are symbolic sizes, or quotients of sizes. Its element type
        must not be i64.
        """
        sizes, divisors = split_portions(t.known)  # pyright: ignore[reportArgumentType]
        whole = self.convert(Tensor(I64, t.sizes, known=sizes), t.element)
        if not t.element.is_float or set(divisors.flat) == {1}:
            return whole
        by = Tensor.of(divisors.astype(t.element.dtype))
        return self.elementwise(lambda s, by, x: x / by, by, whole)

    def _weight_name(self, t: Tensor) -> str:
        base = t.name or "constant"
        names = chain([base], (f"{base}.{number}" for number in count(1)))
        return next(name for name in names if name not in self.weights)

    def _sizes_tensor(self, t: Tensor) -> SSAValue:
        assert t.known is not None
        items = [self.integer(item) for item in t.known.flat]
        return self.insert(tensor.FromElementsOp(*items, result_type=t.type))

    def integer(self, size: Size) -> SSAValue:
        """Returns a size as an i64 value."""
        return self.insert(arith.IndexCastOp(self.index(size), I64.type))

    def index(self, size: Size) -> SSAValue:
        """Returns a size as an `index` value."""
        if isinstance(size, int):
            return self.constant(arith.ConstantOp(IntegerAttr(size, IndexType())))
        terms: list[SSAValue] = []
        for atoms, factor in size.terms:
            factors = [self._atom(atom) for atom in atoms]
            if factor != 1 or not factors:
                factors.append(self.index(factor))
            terms.append(reduce(lambda x, y: self.insert(arith.MuliOp(x, y)), factors))
        return reduce(lambda x, y: self.insert(arith.AddiOp(x, y)), terms)

    def _atom(self, atom: Any) -> SSAValue:
        if isinstance(atom, Extent):
            if isinstance(atom.value.type, IndexType):
                return atom.value
            return self.insert(tensor.DimOp(atom.value, self.index(atom.dimension)))
        if isinstance(atom, Quotient):
            divide = arith.DivUIOp if atom.is_natural else arith.FloorDivSIOp
            return self.insert(divide(self.index(atom.size), self.index(atom.number)))
        minimum = arith.MinUIOp if atom.is_natural else arith.MinSIOp
        return self.insert(minimum(self.index(atom.size), self.index(atom.number)))

    def insist_equal(self, a: Size, b: Size) -> None:
        """
        Requires two sizes to be equal. A run with other sizes is refused.

        Raises `ValueError` if two integers differ.
        """
        a, b = (b, a) if isinstance(a, int) else (a, b)
        if a == b or (a, b) in self.insisted:
            return
        if isinstance(a, int):
            raise ValueError(f"a size is {a}, but must be {b}")
        self.insisted.add((a, b))
        equal = self.insert(arith.CmpiOp(self.index(a), self.index(b), "eq"))
        assertion = cf.AssertOp(equal, f"{a} has to be {b}")
        assertion.location = self.location
        self.block.add_op(assertion)

    def insist_natural(self, size: Size) -> None:
        """Requires a size to be at least 0. A run with a negative size is refused."""
        if not surely_below(-1, size):
            self.insist_equal(least(size, 0), 0)

    def broadcast(self, *shapes: Sequence[Size]) -> tuple[Size, ...]:
        """Broadcasts shapes to one shape. Requires that corresponding dynamic sizes are equal."""
        sizes = broadcast(*shapes)
        for shape in shapes:
            for size, whole in zip(reversed(shape), reversed(sizes), strict=False):
                if size != 1:
                    self.insist_equal(size, whole)
        return sizes

    def dynamic(self, sizes: Sequence[Size]) -> list[SSAValue]:
        """Returns the sizes that are dynamic, as `index` values."""
        return [self.index(size) for size in sizes if isinstance(size, SymbolicSize)]

    def operands(self, sizes: Sequence[Size]) -> list[SSAValue | int]:
        """Returns the sizes, with dynamic sizes as `index` values."""
        return [size if isinstance(size, int) else self.index(size) for size in sizes]

    # Whole tensors

    def empty(self, sizes: Sequence[Size], element: Element) -> SSAValue:
        return self.insert(tensor.EmptyOp(self.dynamic(sizes), tensor_type(element, sizes)))

    def scalar(self, number: float, element: Element) -> SSAValue:
        """Returns a constant scalar."""
        block = Block()
        value = Scalars(Builder(InsertPoint.at_end(block))).number(number, element)
        op = value.value.owner
        assert isinstance(op, Operation)
        op.detach()
        return self.constant(op)

    def fill(self, number: float, sizes: Sequence[Size], element: Element) -> SSAValue:
        """Returns a tensor filled with a number."""
        out = self.empty(sizes, element)
        if 0 in sizes:
            return out
        fill = linalg.ops.FillOp(
            [self.scalar(number, element)], [out], [tensor_type(element, sizes)]
        )
        return self.insert(fill)

    def generic(
        self,
        inputs: Sequence[tuple[Tensor, Map]],
        outputs: Sequence[tuple[SSAValue, Element, Sequence[Size], Map]],
        loops: int,
        body: Callable[..., Sequence[Number]],
        reduced: Sequence[int] = (),
    ) -> list[Tensor]:
        """
        Builds a `linalg.generic`. Returns the initial outputs if there are no iterations.

        `outputs` are initial values, and `reduced` are the reduction loops. `body` takes a
        `Scalars`, one number per input and one per output. An input of one known element becomes a
        constant in the body.
        """
        shapes = [*((t.sizes, m) for t, m in inputs), *((o[2], o[3]) for o in outputs)]
        if any(is_empty(sizes, dimensions) for sizes, dimensions in shapes):
            # There are no iterations.
            return [Tensor(o[1], o[2], o[0]) for o in outputs]
        items = [
            t.known.item() if t.known is not None and t.known.size == 1 else None for t, _ in inputs
        ]
        scalars = [None if isinstance(item, Portion) else item for item in items]
        read = [m for (_, m), s in zip(inputs, scalars, strict=True) if s is None]
        walked = {d for m in (*read, *(o[3] for o in outputs)) for d in m if isinstance(d, int)}
        if len(walked) < loops:
            # Some loops get their trip counts from one-element operands.
            scalars = [None] * len(inputs)
        given = [(t, m) for (t, m), s in zip(inputs, scalars, strict=True) if s is None]
        block = Block(
            arg_types=[*(t.element.type for t, _ in given), *(o[1].type for o in outputs)]
        )
        writer = Scalars(Builder(InsertPoint.at_end(block)))
        arguments = iter(block.args)
        numbers = [
            Number(writer, next(arguments), t.element)
            if s is None
            else self.size_number(writer, s, t.element)
            for (t, _), s in zip(inputs, scalars, strict=True)
        ]
        accumulators = [Number(writer, next(arguments), o[1]) for o in outputs]
        results = body(writer, *numbers, *accumulators)
        writer.builder.insert(linalg.ops.YieldOp(*(r.value for r in results)))
        maps = [*(m for _, m in given), *(o[3] for o in outputs)]
        kinds = [
            IteratorTypeAttr.reduction() if i in reduced else IteratorTypeAttr.parallel()
            for i in range(loops)
        ]
        op = linalg.ops.GenericOp(
            [self.value(t) for t, _ in given],
            [o[0] for o in outputs],
            Region(block),
            [AffineMapAttr(affine(m, loops)) for m in maps],
            kinds,
            [tensor_type(o[1], o[2]) for o in outputs],
        )
        self.insert(op)
        return [Tensor(o[1], o[2], r) for o, r in zip(outputs, op.results, strict=True)]

    def size_number(self, writer: Scalars, number: Any, element: Element) -> Number:
        """Returns a known number or size as a scalar in a body."""
        if not isinstance(number, SymbolicSize):
            return writer.number(number, element)
        cast = arith.IndexCastOp(self.index(number), I64.type)
        return Number(writer, writer.builder.insert(cast).result, I64).to(element)

    def elementwise(self, body: Body, *tensors: Tensor, element: Element | None = None) -> Tensor:
        """
        Applies `body` to the elements of broadcast operands.

        The element type of the result is by default that of the last operand.
        """
        sizes = self.broadcast(*(t.sizes for t in tensors))
        operands = [(t, broadcast_map(t.sizes, sizes)) for t in tensors]
        return self.mapped(body, operands, sizes, element or tensors[-1].element)

    def mapped(
        self,
        body: Body,
        operands: Sequence[tuple[Tensor, Map]],
        sizes: Sequence[Size],
        element: Element,
    ) -> Tensor:
        """Computes each element of the result with `body` from one element of each operand."""
        out = (self.empty(sizes, element), element, sizes, range(len(sizes)))

        def write(s: Scalars, *numbers: Number) -> Sequence[Number]:
            return [body(s, *numbers[:-1])]

        return self.generic(operands, [out], len(sizes), write)[0]

    def accumulate(
        self,
        body: Callable[..., Sequence[Number]],
        starts: Sequence[tuple[float | SSAValue, Element]],
        operands: Sequence[tuple[Tensor, Map]],
        sizes: Sequence[Size],
        inner: int | Sequence[Size] = 1,
    ) -> list[Tensor]:
        """
        Computes results by inner loops of `body(s, elements, accumulators)`, from start values.

        The inner loops come after the loops over the results. `inner` is their number, or their
        sizes if no operand has these sizes.
        """
        rank = len(sizes)
        outputs = [
            (s if isinstance(s, SSAValue) else self.fill(s, sizes, e), e, sizes, range(rank))
            for s, e in starts
        ]
        if isinstance(inner, int):
            loops = range(rank, rank + inner)
            return self.generic(operands, outputs, loops.stop, body, loops)
        loops, given = range(rank, rank + len(inner)), len(operands)
        shape = Tensor(starts[0][1], inner, self.empty(inner, starts[0][1]))

        def write(s: Scalars, *numbers: Number) -> Sequence[Number]:
            return body(s, *numbers[:given], *numbers[given + 1 :])

        return self.generic([*operands, (shape, loops)], outputs, loops.stop, write, loops)

    def convert(self, t: Tensor, element: Element) -> Tensor:
        """Converts a tensor to another element type."""
        if t.element == element:
            return t
        if t.numbers is not None and t.value is None and not element.narrow:
            return Tensor(element, t.sizes, known=t.numbers.astype(element.dtype))
        return self.elementwise(lambda s, x: x.to(element), t, element=element)

    def reduce(
        self,
        body: Callable[[Scalars, Number, Number], Number],
        start: float,
        t: Tensor,
        axes: Sequence[int],
        keep: bool = True,
        element: Element | None = None,
    ) -> Tensor:
        """
        Reduces axes with `body(s, element, accumulator)`, from the value `start`.

        `element` is the accumulator's type: use F32 for sums of narrow floats.
        """
        element = element or t.element
        kept = [i for i in range(t.rank) if i not in axes]
        sizes = [t.sizes[i] for i in kept]
        out = (self.fill(start, sizes, element), element, sizes, kept)

        def write(s: Scalars, x: Number, accumulator: Number) -> Sequence[Number]:
            return [body(s, x.to(element), accumulator)]

        result = self.generic([(t, list(range(t.rank)))], [out], t.rank, write, axes)[0]
        if not keep:
            return result
        return self.reshape(result, [1 if i in axes else s for i, s in enumerate(t.sizes)])

    def reshape(self, t: Tensor, sizes: Sequence[Size]) -> Tensor:
        """
        Reshapes a tensor. If the numbers of elements may differ, they are compared at run time.

        Groups of dimensions with equal products are collapsed and expanded separately, so that
        other dimensions are not merged.
        """
        sizes = tuple(sizes)
        if sizes == t.sizes:
            return t
        if t.known is not None and t.value is None and all(isinstance(s, int) for s in sizes):
            return Tensor(t.element, sizes, known=t.known.reshape(sizes))  # pyright: ignore
        if 0 in sizes and 0 in t.sizes:
            return Tensor(t.element, sizes, self.empty(sizes, t.element))
        count, wanted = prod(t.sizes), prod(sizes)
        if count != wanted and not (isinstance(count, int) and isinstance(wanted, int)):
            self.insist_equal(count, wanted)
            flat = self.reshape(t, [count]) if t.rank else self.reshape(t, [1])
            return self.reshape(self.slice(flat, [0], [wanted], [1]), sizes)
        if not sizes or not t.rank:
            if any(size != 1 for size in (*t.sizes, *sizes)):
                raise ValueError(f"{t} has {count} elements, but {list(sizes)} has {wanted}")
            # xDSL cannot expand a tensor of rank 0.
            return self.expand(self._collapse(t, (), []), sizes)
        groups = groups_of(t.sizes, sizes)
        middle = [prod(t.sizes[i] for i in given) for given, _ in groups]
        collapsed = self._collapse(t, middle, [given for given, _ in groups])
        return self._expand(collapsed, sizes, [wanted for _, wanted in groups])

    def _collapse(self, t: Tensor, sizes: Sequence[Size], groups: list[list[int]]) -> Tensor:
        if len(sizes) == t.rank:
            return t
        op = tensor.CollapseShapeOp(
            operands=[self.value(t)],
            properties={"reassociation": reassociation(groups)},
            result_types=[tensor_type(t.element, sizes)],
        )
        return Tensor(t.element, sizes, self.insert(op))

    def _expand(self, t: Tensor, sizes: Sequence[Size], groups: list[list[int]]) -> Tensor:
        if len(sizes) == t.rank:
            return t
        result = tensor_type(t.element, sizes)
        op = tensor.ExpandShapeOp(
            self.value(t), self.dynamic(sizes), reassociation(groups), result.get_shape(), result
        )
        return Tensor(t.element, sizes, self.insert(op))

    def transpose(self, t: Tensor, order: Sequence[int]) -> Tensor:
        """Transposes a tensor: the result's dimension `i` is the operand's dimension `order[i]`."""
        if list(order) == list(range(t.rank)):
            return t
        sizes = [t.sizes[i] for i in order]
        walked = [i for i in order if t.sizes[i] != 1]
        if walked == sorted(walked):
            # Transposing dimensions of size 1 moves no elements.
            return self.reshape(t, sizes)
        source = [list(order).index(i) for i in range(t.rank)]
        return self.mapped(lambda s, x: x, [(t, source)], sizes, t.element)

    def expand(self, t: Tensor, sizes: Sequence[Size]) -> Tensor:
        """Broadcasts a tensor to the given sizes."""
        sizes = self.broadcast(t.sizes, sizes)
        if sizes == t.sizes:
            return t
        count = prod(sizes)
        is_few = isinstance(count, int) and count <= LARGE
        if t.known is not None and t.known.size == 1 and t.value is None and is_few:
            return Tensor(t.element, sizes, known=np.broadcast_to(t.known, sizes))  # pyright: ignore
        maps = broadcast_map(t.sizes, sizes)
        return self.mapped(lambda s, x: x, [(t, maps)], sizes, t.element)

    def slice(
        self,
        t: Tensor,
        starts: Sequence[Size],
        sizes: Sequence[Size],
        steps: Sequence[int] | None = None,
    ) -> Tensor:
        """Extracts a slice of shape `sizes` that begins at `starts`, with positive `steps`."""
        steps = steps or [1] * t.rank
        if all(s == 0 for s in starts) and tuple(sizes) == t.sizes and set(steps) <= {1}:
            return t
        if 0 in sizes:
            return Tensor(t.element, sizes, self.empty(sizes, t.element))
        op = tensor.ExtractSliceOp(
            self.value(t),
            self.operands(starts),
            self.operands(sizes),
            list(steps),
            tensor_type(t.element, sizes),
        )
        return Tensor(t.element, sizes, self.insert(op))

    def part(self, t: Tensor, axis: int, start: Size, size: Size) -> Tensor:
        """Slices `size` elements of an axis from `start` on."""
        starts, sizes = [0] * t.rank, list(t.sizes)
        return self.slice(t, with_size(starts, axis, start), with_size(sizes, axis, size))

    def row(self, t: Tensor, axis: int, place: Size) -> Tensor:
        """Selects the element `place` of an axis, and removes the axis."""
        return self.reshape(self.part(t, axis, place, 1), [*t.sizes[:axis], *t.sizes[axis + 1 :]])

    def stack(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Stacks tensors of one shape along a new axis."""
        rows = [self.reshape(t, [*t.sizes[:axis], 1, *t.sizes[axis:]]) for t in tensors]
        return rows[0] if len(rows) == 1 else self.concatenate(rows, axis)

    def insert_slice(
        self,
        t: Tensor,
        into: SSAValue,
        starts: Sequence[Size],
        steps: Sequence[int] | None = None,
    ) -> SSAValue:
        """Returns `into` with the elements of `t` inserted from `starts` on, by stride `steps`."""
        if 0 in t.sizes:
            return into
        given = self.dynamic(starts), self.dynamic(t.sizes)
        offsets, sizes = (
            [size if isinstance(size, int) else DYNAMIC_INDEX for size in numbers]
            for numbers in (starts, t.sizes)
        )
        strides = steps or [1] * t.rank
        op = tensor.InsertSliceOp.get(self.value(t), into, sizes, offsets, strides, *given)
        return self.insert(op)

    def concatenate(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """
        Concatenates tensors along an axis. If the first tensor is the front part of a state, the
        others are appended to the state.
        """
        first = tensors[0]
        if isinstance(first, Front) and first.axis == axis:
            return self._appended(first, tensors[1:])
        sizes = with_size(first.sizes, axis, sum((t.sizes[axis] for t in tensors), start=0))
        result = self.empty(sizes, first.element)
        start: Size = 0
        for t in tensors:
            result = self.insert_slice(t, result, with_size([0] * len(sizes), axis, start))
            start = start + t.sizes[axis]
        return Tensor(first.element, sizes, result)

    def front(self, state: SSAValue, whole: Tensor, size: Size, axis: int) -> Front:
        """Returns the first `size` elements of an axis of `whole`, a state's current value."""
        part = self.part(whole, axis, 0, size)
        return Front(state, whole, part.sizes, axis, self.value(part))

    def _appended(self, front: Front, tensors: Sequence[Tensor]) -> Front:
        """
        Writes tensors into a state, directly after the part `front`. Returns the enlarged part.
        """
        whole, size, axis = front.whole, front.sizes[front.axis], front.axis
        for t in tensors:
            starts = with_size([0] * whole.rank, axis, size)
            value = self.insert_slice(t, self.value(whole), starts)
            whole = Tensor(whole.element, whole.sizes, value)
            size = size + t.sizes[axis]
        return self.front(front.state, whole, size, axis)

    def pad(self, t: Tensor, low: Sequence[int], high: Sequence[int], number: float) -> Tensor:
        """Pads a tensor with a number; `low` and `high` are at least 0."""
        if not any((*low, *high)):
            return t
        sizes = [a + s + b for a, s, b in zip(low, t.sizes, high, strict=True)]
        if 0 in t.sizes:
            return Tensor(t.element, sizes, self.fill(number, sizes, t.element))
        block = Block(arg_types=[IndexType()] * t.rank)
        padding = self.scalar(number, t.element)
        block.add_op(tensor.YieldOp(padding))
        op = tensor.PadOp(
            self.value(t),
            [],
            [],
            Region(block),
            list(low),
            list(high),
            tensor_type(t.element, sizes),
        )
        return Tensor(t.element, sizes, self.insert(op))

    def contract(
        self,
        a: Tensor,
        a_map: Map,
        b: Tensor,
        b_map: Map,
        sizes: Sequence[Size],
        loops: int,
        element: Element | None = None,
    ) -> Tensor:
        """
        Sums products of two tensors. Maps index them by `loops` loops, the result's loops first.

        Products of narrow floats are summed in f32, products of integers in `element`.
        """
        result = element or a.element
        element = sum_element(result)

        def write(s: Scalars, x: Number, y: Number, total: Number) -> Sequence[Number]:
            return [total + x.to(element) * y.to(element)]

        operands = [(a, a_map), (b, b_map)]
        product = self.accumulate(write, [(0, element)], operands, sizes, loops - len(sizes))[0]
        return self.convert(product, result)
