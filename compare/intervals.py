"""
Bounds the results of a host function by interval arithmetic, with an interval for every element.

A contraction followed by other operations has no single error formula. Here every operation maps
intervals to an interval that contains all results that a device may legally compute from any of
their points. The interval of a contraction follows from the bound of docs/numerics.md. The interval
of a scalar operation follows from its monotonicity and its precision in Vulkan. Moves of data are
exact. A comparison that may have either result gives both. Exact values remain exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, scf, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.traits import IsTerminator

from xdsl_spirv.compare.attention_intervals import attention_interval
from xdsl_spirv.compare.bounds import contraction_bound
from xdsl_spirv.compare.scalar_intervals import SCALARS, Interval, exact, spread
from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.schedule import AttentionOp, DispatchOp
from xdsl_spirv.interpreter.api import with_first_values
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.host.affine import Space, loop_sizes
from xdsl_spirv.interpreter.host.machine import Host
from xdsl_spirv.interpreter.numbers import DType, is_float, scalar_dtype
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.passes.analysis.contraction import Contraction, as_contraction
from xdsl_spirv.passes.analysis.linalg_code import maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import body_ops, generalize, is_permutation
from xdsl_spirv.passes.graph.decompose_linalg import DecomposeLinalgPass
from xdsl_spirv.passes.schedule.form_attention import FormAttentionPass
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

MOST_ELEMENTS = 64
"""Maximum number of elements between which an inexact index of one tensor access may choose."""


@dataclass
class Intervals:
    """Evaluates the functions of a module on intervals. `module` is changed."""

    module: ModuleOp

    def __post_init__(self) -> None:
        DecomposeLinalgPass().apply(Context(), self.module)
        LinalgToContractionPass().apply(Context(), self.module)
        FormAttentionPass().apply(Context(), self.module)
        for op in list(self.module.walk()):
            if op.parent is not None and not isinstance(op.parent_op(), LinalgStructuredOperation):
                generalize(op)
        self.host = Host(self.module, Options(), launches=False)

    def run(self, function: str, values: Sequence[Array]) -> list[Interval]:
        """
        Returns an interval for each result of `@function` on exact arguments.

        Raises `ProgramError` for an operation without a known error bound.
        """
        called = self.host.function(function)
        block, values = called.body.block, with_first_values(called, values)
        env: dict[SSAValue, Interval] = {
            argument: exact(value) for argument, value in zip(block.args, values, strict=True)
        }
        with np.errstate(all="ignore"):
            return self._block(block, env)

    def _block(self, block: Block, env: dict[SSAValue, Interval]) -> list[Interval]:
        """
        Executes a block on intervals. Returns the intervals of its terminator's operands. `env` may
        contain values from outside the block.
        """
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return [env[value] for value in op.operands]
            env |= zip(op.results, self._results(op, env), strict=True)
        return []

    def _results(self, op: Operation, env: dict[SSAValue, Interval]) -> list[Interval]:
        operands = [env[value] for value in op.operands]
        if isinstance(op, DispatchOp):
            return self._block(op.body.block, dict(zip(op.body.block.args, operands, strict=True)))
        if isinstance(op, func.CallOp):
            called = self.host.function(op.callee.string_value()).body.block
            return self._block(called, dict(zip(called.args, operands, strict=True)))
        if op.name.startswith("scf."):
            return self._follow_control(op, operands, env)
        if isinstance(op, AttentionOp):
            assert op.result is not None
            return [attention_interval(op, operands, _dtype(op.result.type))]
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, linalg.ops.FillOp):
            contraction = as_contraction(op)
            if contraction is not None:
                return [self._contract(contraction, operands)]
            if reduces(op) and not in_any_order(op) and all(item.is_point for item in operands):
                # A reduction without rounding has the same result in every order.
                return self._moved(op, operands, {v: x.low for v, x in env.items()})
            return [self._structured(op, operands, env)]
        if not all(isinstance(v.type, TensorType) for v in op.results) and any(
            not operand.is_point for operand in operands
        ):
            raise ProgramError(f"no error bound is known for {op.name}", place(op))
        around = {value: operand.low for value, operand in env.items()} if op.regions else {}
        return self._moved(op, operands, around)

    def _follow_control(
        self, op: Operation, operands: Sequence[Interval], env: dict[SSAValue, Interval]
    ) -> list[Interval]:
        """Runs the iterations of a loop, or the branch, that exact operands select."""
        match op:
            case scf.ForOp() if all(operand.is_point for operand in operands[:3]):
                low, high, step = (int(operand.low) for operand in operands[:3])
                carried = operands[3:]
                for counter in range(low, high, step):
                    index = exact(np.asarray(counter, operands[0].dtype))
                    pairs = zip(op.body.block.args, [index, *carried], strict=True)
                    carried = self._block(op.body.block, env | dict(pairs))
                return list(carried)
            case scf.IfOp() if operands[0].is_point:
                region = op.true_region if operands[0].low else op.false_region
                return self._block(region.block, dict(env)) if region.blocks else []
            case _:
                raise ProgramError(f"no error bound is known for {op.name}", place(op))

    def _moved(
        self, op: Operation, operands: Sequence[Interval], around: dict[SSAValue, Array]
    ) -> list[Interval]:
        with self.host.frame(around):
            low = self.host.evaluate(op, [operand.low for operand in operands])
            points = all(operand.is_point for operand in operands)
            high = low if points else self.host.evaluate(op, [x.high for x in operands])
        pairs = zip(low, high, op.results, strict=True)
        return [Interval(np.asarray(x), np.asarray(y), _dtype(v.type)) for x, y, v in pairs]

    def _contract(self, contraction: Contraction, operands: Sequence[Interval]) -> Interval:
        """
        Returns the interval of a contraction, from the intervals of the operands and the error
        bound.
        """
        dtype = _dtype(contraction.init.type)
        a, b = (
            _as_named(operand, name)
            for operand, name in zip(operands[:2], contraction.types, strict=False)
        )
        if not is_float(dtype) and all(operand.is_point for operand in operands):
            points = [operand.low.astype(operand.dtype) for operand in operands]
            return exact(np.asarray(self.host.evaluate(contraction.op, points)[0]))
        init = operands[2]
        middle = self._sum(contraction, a.middle, b.middle, init.middle)
        size = self._sum(contraction, a.magnitude, b.magnitude, init.magnitude)
        zero = np.zeros_like(init.middle)
        off = self._sum(contraction, np.abs(a.middle), b.radius, init.radius)
        off = off + self._sum(contraction, a.radius, b.magnitude, zero)
        if is_float(dtype):
            bound = contraction_bound(_depth(contraction.op, operands), contraction.types[2])
            off = off + bound.evaluate(middle, size)
            if _is_whole(operands) and size.max(initial=0) <= 2.0 ** _digits(dtype):
                off = np.zeros_like(off)
        return spread(middle, off, dtype)

    def _sum(self, contraction: Contraction, a: Array, b: Array, init: Array) -> Array:
        wide = [np.asarray(array, np.float64) for array in (a, b, init)]
        return np.asarray(self.host.evaluate(contraction.op, wide)[0])

    def _structured(
        self,
        op: LinalgStructuredOperation,
        operands: Sequence[Interval],
        env: dict[SSAValue, Interval],
    ) -> Interval:
        maps, parallel = maps_of(op), not reduces(op)
        if not parallel and _adds_up(op):
            return self._added_up(op, operands)
        if not parallel and _multiplies_up(op):
            return self._multiplied_up(op, operands)
        if not parallel and _is_monotone(op):
            return self._extreme(op, operands)
        if not parallel and _adds_up_computed(op):
            return self._added_up_computed(op, operands, env)
        if len(op.outputs) != 1 or not parallel or not is_permutation(maps[-1]):
            raise ProgramError(f"no error bound is known for {op.name}", place(op))
        space, inputs = _in_space(op, operands)
        result = self._body(op, inputs, env, space)
        dims = [e.position for e in maps[-1].results if isinstance(e, AffineDimExpr)]
        low, high = (
            np.broadcast_to(item, space.full_shape).reshape(space.shape).transpose(dims)
            for item in (result.low, result.high)
        )
        return Interval(low, high, _dtype(op.results[0].type))

    def _body(
        self,
        op: LinalgStructuredOperation,
        inputs: Sequence[Interval],
        env: dict[SSAValue, Interval],
        space: Space,
    ) -> Interval:
        block = op.body.block
        known = dict(env) | dict(zip(block.args, inputs, strict=True))
        for inner in body_ops(block):
            if isinstance(inner, arith.ConstantOp):
                known[inner.result] = exact(attribute_array(inner.value))
            elif isinstance(inner, linalg.ops.IndexOp):
                known[inner.result] = exact(space.index(inner.dim.value.data, {}))
            elif len(inner.results) != 1:
                raise ProgramError(f"no error bound is known for {inner.name}", place(op))
            else:
                (result,) = inner.results
                known[result] = self._scalar(inner, [known[v] for v in inner.operands], place(op))
        return known[yields_of(block)[0]]

    def _scalar(self, op: Operation, operands: Sequence[Interval], where: str) -> Interval:
        """
        Returns the interval of one operation of a body, by its function in `SCALARS`; `where` is
        the place for an error. Integer operations on exact operands are computed by the interpreter
        instead.
        """
        dtype = _dtype(op.results[0].type)
        function = SCALARS.get(type(op))
        if function is not None:
            return function(op, operands, dtype)
        if isinstance(op, tensor.ExtractOp):
            return _extract(op, operands, where)
        if not is_float(dtype) and all(operand.is_point for operand in operands):
            (value,) = self.host.evaluate(op, [x.low.astype(x.dtype) for x in operands])
            return exact(np.asarray(value))
        raise ProgramError(f"no error bound is known for {op.name}", where)

    def _evaluate_wide(self, op: LinalgStructuredOperation, values: Sequence[Array]) -> Array:
        return np.asarray(
            self.host.evaluate(op, [np.asarray(value, np.float64) for value in values])[0]
        )

    def _added_up(self, op: LinalgStructuredOperation, operands: Sequence[Interval]) -> Interval:
        ends = ([x.middle, x.radius, x.magnitude] for x in operands)
        middle, off, size = (self._evaluate_wide(op, values) for values in zip(*ends, strict=True))
        return _spread_sum(op, operands, middle, off, size)

    def _multiplied_up(
        self, op: LinalgStructuredOperation, operands: Sequence[Interval]
    ) -> Interval:
        dtype = _dtype(op.results[0].type)
        sizes = [item.magnitude for item in operands]
        middle = self._evaluate_wide(op, [item.middle for item in operands])
        size = self._evaluate_wide(op, sizes)
        greatest = self._evaluate_wide(op, [np.maximum(item, 1) for item in sizes])
        bound = contraction_bound(_depth(op, operands), NAMES[dtype.itemsize])
        # A partial product may be as large as `greatest`, which scales up an earlier underflow
        # error. If a partial product may overflow, there is no bound.
        off = size - np.abs(middle) + bound.evaluate(middle, size) + bound.absolute * greatest
        return spread(middle, np.where(greatest < bound.largest, off, np.inf), dtype)

    def _added_up_computed(
        self,
        op: LinalgStructuredOperation,
        operands: Sequence[Interval],
        env: dict[SSAValue, Interval],
    ) -> Interval:
        """Returns the interval of a reduction that sums computed floats (such as squares)."""
        init = operands[-1]
        space, (*inputs, _) = _in_space(op, operands)
        # A term is the body's result with 0 as accumulator. The rounding of that addition is
        # ignored: it is small beside the error of the sum.
        zero = exact(np.zeros((), init.dtype))
        terms = self._body(op, [*inputs, zero], env, space)
        kept = [e.position for e in maps_of(op)[-1].results if isinstance(e, AffineDimExpr)]
        summed = tuple(axis for axis in range(len(space.shape)) if axis not in kept)
        order = [sorted(kept).index(axis) for axis in kept]

        def total(array: Array, first: Array) -> Array:
            whole = np.broadcast_to(array, space.full_shape).reshape(space.shape)
            return whole.sum(axis=summed).transpose(order) + first

        middle = total(terms.middle, init.middle)
        off = total(terms.radius, init.radius)
        return _spread_sum(op, operands, middle, off, total(terms.magnitude, init.magnitude))

    def _extreme(self, op: LinalgStructuredOperation, operands: Sequence[Interval]) -> Interval:
        """
        Returns the interval of a maximum or minimum. Both are monotonic, so the ends of the
        interval are computed from the ends of the operands.
        """
        low, high = (
            np.asarray(self.host.evaluate(op, values)[0])
            for values in (
                [operand.low for operand in operands],
                [operand.high for operand in operands],
            )
        )
        return Interval(low, high, _dtype(op.results[0].type))


def _in_space(
    op: LinalgStructuredOperation, operands: Sequence[Interval]
) -> tuple[Space, list[Interval]]:
    maps = maps_of(op)
    sizes = loop_sizes(maps, [item.low.shape for item in operands])
    space = Space(sizes, range(len(sizes)))
    return space, [
        Interval(space.operand(x.low, map, {}), space.operand(x.high, map, {}), x.dtype)
        for x, map in zip(operands, maps, strict=True)
    ]


def _spread_sum(
    op: LinalgStructuredOperation,
    operands: Sequence[Interval],
    middle: Array,
    off: Array,
    size: Array,
) -> Interval:
    """
    Returns the interval of sums whose exact value is `middle` +- `off`, widened by rounding errors.

    `size` is the sum of the magnitudes of the terms.
    """
    dtype = _dtype(op.results[0].type)
    bound = contraction_bound(_depth(op, operands), NAMES[dtype.itemsize])
    return spread(middle, off + bound.evaluate(middle, size), dtype)


def _depth(op: LinalgStructuredOperation, operands: Sequence[Interval]) -> int:
    """Returns the number of elements that are summed for each result element."""
    sizes = loop_sizes(maps_of(op), [interval.low.shape for interval in operands])
    kinds = [str(iterator.data) for iterator in op.get_iterator_types()]
    return prod(size for size, kind in zip(sizes, kinds, strict=True) if kind != "parallel")


EXTREMES = (
    *(arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp),
    *(arith.MaxSIOp, arith.MinSIOp),
)

NAMES = {2: "f16", 4: "f32", 8: "f64"}


def reduces(op: LinalgStructuredOperation) -> bool:
    """True if an operation combines several elements to one."""
    return any(str(kind.data) != "parallel" for kind in op.get_iterator_types())


def in_any_order(op: LinalgStructuredOperation) -> bool:
    """True if a reduction rounds, so that its result depends on the order."""
    return reduces(op) and (_adds_up(op) or _adds_up_computed(op) or _multiplies_up(op))


def _reduces_by(op: LinalgStructuredOperation, kinds: tuple[type[Operation], ...]) -> bool:
    """True if a reduction combines its first operand and the accumulator by one of `kinds`."""
    block, outputs = op.body.block, len(op.outputs)
    first = block.first_op
    if outputs != 1 or not isinstance(first, kinds) or first.next_op is not block.last_op:
        return False
    ends = yields_of(block)[0] is first.results[0]
    return ends and {*first.operands} == {block.args[0], block.args[-1]}


def _adds_up(op: LinalgStructuredOperation) -> bool:
    """
    True if a reduction adds its first operand to a float accumulator. A second operand may be a
    window.
    """
    return _is_of_floats(op) and _reduces_by(op, (arith.AddfOp,))


def _multiplies_up(op: LinalgStructuredOperation) -> bool:
    return _is_of_floats(op) and _reduces_by(op, (arith.MulfOp,))


def _is_of_floats(op: LinalgStructuredOperation) -> bool:
    return str(op.body.block.args[-1].type) in ("f16", "f32", "f64")


def _adds_up_computed(op: LinalgStructuredOperation) -> bool:
    """True if a reduction adds a computed term, independent of the sum, to a float sum."""
    carried = op.body.block.args[-1]
    if len(op.outputs) != 1 or not _is_of_floats(op):
        return False
    add = yields_of(op.body.block)[0].owner
    return (
        all(isinstance(e, AffineDimExpr) for e in maps_of(op)[-1].results)
        and isinstance(add, arith.AddfOp)
        and carried in add.operands
        and len(list(carried.uses)) == 1
    )


def _is_monotone(op: LinalgStructuredOperation) -> bool:
    return _reduces_by(op, EXTREMES)


def _extract(op: Operation, operands: Sequence[Interval], where: str) -> Interval:
    """
    Returns the interval of all elements that the indices may select. An index computed from floats
    may be rounded to either of two elements.
    """
    source, *indexes = operands
    # In floats, because the width of an unknown i64's interval overflows an i64.
    spans = [
        1 + np.subtract(index.high, index.low, dtype=np.float64).max(initial=0) for index in indexes
    ]
    if prod(spans) > MOST_ELEMENTS:
        raise ProgramError(
            f"no error bound is known for {op.name}: its index is computed from inexact numbers",
            where,
        )
    low, high = np.inf, -np.inf
    for offsets in product(*(range(int(span)) for span in spans)):
        at = tuple(
            np.clip(np.minimum(index.low + offset, index.high), 0, size - 1)
            for index, offset, size in zip(indexes, offsets, source.low.shape, strict=True)
        )
        low, high = np.minimum(low, source.low[at]), np.maximum(high, source.high[at])
    return Interval(np.asarray(low), np.asarray(high), source.dtype)


def _dtype(type: Attribute) -> DType:
    dtype = scalar_dtype(type.element_type if isinstance(type, TensorType) else type)
    if dtype is None:
        raise ProgramError(f"no error bound is known for elements of type {type}", "a result")
    return dtype


def _as_named(value: Interval, name: str) -> Interval:
    """
    Returns an integer value as unsigned if the name of its type begins with `u` (such as `u8`).
    Returns other values unchanged.
    """
    if name[0] != "u":
        return value
    if value.is_point:
        return exact(value.low.astype(value.dtype).view(f"u{value.dtype.itemsize}"))
    bits = value.dtype.itemsize * 8
    full = (np.zeros_like(value.low), np.full_like(value.high, 2**bits - 1))
    fits = value.low >= 0
    low, high = (np.where(fits, x, y) for x, y in zip((value.low, value.high), full, strict=True))
    return Interval(low, high, value.dtype)


def _is_whole(operands: Sequence[Interval]) -> bool:
    """True if all operands are known integers, so that sums of a few operands are exact."""
    return all(
        operand.is_point
        and bool(np.all(np.isfinite(operand.low) & (operand.low == np.rint(operand.low))))
        for operand in operands
    )


def _digits(dtype: DType) -> int:
    return int(ml_dtypes.finfo(dtype).nmant) + 1


def tolerances(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    expected: Sequence[Array],
    results: Sequence[int] | None = None,
) -> list[Array]:
    """
    Returns the allowed distance of results of `@function` from `expected`; `inf` where any value
    is legal. `results` are the indices of the compared results, by default all.

    Raises `ProgramError` for an operation without a known error bound.
    """
    intervals = list(Intervals(module.clone()).run(function, arguments))
    if results is not None:
        intervals = [intervals[number] for number in results]
    return [tolerance(*pair) for pair in zip(intervals, expected, strict=True)]


def tolerance(interval: Interval, centre: Array) -> Array:
    """Returns the largest distance of a value in an interval from `centre`."""
    middle = np.asarray(centre).astype(np.float64)
    low, high = interval.low.astype(np.float64), interval.high.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.maximum(np.maximum(high - middle, middle - low), 0.0)
        off = np.where(low == high, np.where(low == middle, 0.0, off), off)
    return np.where(np.isnan(off), np.inf, off)
