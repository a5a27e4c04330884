"""
Replaces the operations of a matched attention by a single operation in a dispatch.

Batch loops are split where operands are reshaped, so that all index maps are linear. Dynamic sizes
are computed in the dispatch from its operands' sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import AttentionLanesAttr, AttentionOp, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.dialects.schedule.attributes import DYNAMIC
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic, static, symbol
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.linalg_code import Code, make_generic, merge_dimensions, tensor_type
from xdsl_spirv.passes.analysis.sizes import SizeCode, extent, extents
from xdsl_spirv.passes.analysis.values import erase_unused_ops
from xdsl_spirv.passes.graph.attention_patterns import Band
from xdsl_spirv.passes.graph.element_trees import Index, NotTraced, Piece, Place, index_of_loop
from xdsl_spirv.passes.schedule.attention_choice import choose_attention
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan, parts_for
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.paths import COMPUTED, note_before_schedules
from xdsl_spirv.targets import Target

Operand = tuple[SSAValue, Place]


@dataclass(frozen=True)
class Computed:
    """An operation that computes keys or values, with its operands."""

    op: linalg.ops.GenericOp
    planes: Sequence[Operand]


@dataclass(frozen=True)
class Attention:
    """
    A matched attention.

    The index expressions of operands and result use the loops b0, b1, ..., n (keys), d and e
    (heads). The loop along the queries is one of the b loops, or an additional loop m.
    """

    operands: dict[str, Operand]
    """Operands and result, with the names and the order of `AttentionOp.named`."""
    loops: dict[str, Size]
    """Size of each loop."""
    rows: str
    """Name of the loop along the queries."""
    normal: Callable[[Size], Size]
    band: Band
    properties: Mapping[str, Attribute | None]
    """Properties of the operation, except its loops, maps and bounds."""
    computed: dict[str, Computed]
    """Computation of keys ("k") and values ("v"), if the kernel can contain it."""

    @property
    def own(self) -> tuple[str, str, str, str]:
        """Names of the loops along queries, keys, and the head dimensions of keys and of values."""
        return self.rows, "n", "d", "e"

    @property
    def read(self) -> list[Operand]:
        """The operands that the kernel reads."""
        return [
            operand
            for name, own in self.operands.items()
            if name != "result"
            for operand in (self.computed[name].planes if name in self.computed else [own])
        ]


def _divisions(attention: Attention) -> dict[str, list[int]]:
    """
    Returns, for each batch loop, the sorted strides at which reshapes of operands split it. The
    first is 1, the last is the loop's size.
    """
    divided: dict[str, list[int]] = {}
    for loop, size in attention.loops.items():
        if loop in attention.own:
            continue
        pieces = [piece for piece in _pieces(attention) if piece.loop == loop]
        if is_dynamic(size):
            if any(piece.divisor != 1 or not is_dynamic(piece.size) for piece in pieces):
                raise NotTraced("a reshape splits a loop of dynamic size")
            divided[loop] = [1]
            continue
        points = {1, size}
        for piece in pieces:
            points |= {piece.divisor, piece.divisor * static([piece.size])[0]}
        ordered = sorted(points)
        if any(after % before for before, after in pairwise(ordered)):
            raise NotTraced("reshapes split the batch in different ways")
        divided[loop] = ordered
    return divided


def _pieces(attention: Attention) -> Iterable[Piece]:
    for _, place in (*attention.operands.values(), *attention.read):
        for index in place:
            yield from index


class _Loops:
    """Loops of an attention. Batch loops, split where operands are reshaped, come first."""

    def __init__(self, attention: Attention):
        self.numbers: dict[tuple[str, int], int] = {}
        self.sizes: list[Size] = []
        self.divisions = _divisions(attention)
        for loop, points in self.divisions.items():
            if is_dynamic(attention.loops[loop]):
                self._whole(attention, loop)
            for low, high in reversed(list(pairwise(points))):
                self.numbers[loop, low] = len(self.sizes)
                self.sizes.append(high // low)
        for loop in attention.own:
            self._whole(attention, loop)
        if any(
            attention.normal(piece.size) != attention.loops[piece.loop]
            for piece in _pieces(attention)
            if piece.loop in attention.own
        ):
            raise NotTraced("a reshape splits the queries' or the keys' dimension")

    def _whole(self, attention: Attention, loop: str) -> None:
        self.numbers[loop, 1] = len(self.sizes)
        self.sizes.append(attention.loops[loop])
        self.divisions[loop] = [1]

    def map(self, place: Place) -> AffineMap:
        """Returns the affine map from the loops to an index expression."""
        return AffineMap(len(self.sizes), 0, tuple(map(self._expression, place)))

    def _expression(self, index: Index) -> AffineExpr:
        total: AffineExpr | None = None
        step: Size = 1
        for piece in reversed(index):
            for point in self.divisions[piece.loop]:
                inside = is_dynamic(piece.size) or point < piece.divisor * piece.size
                if point < piece.divisor or not inside or (piece.loop, point) not in self.numbers:
                    continue
                if is_dynamic(step):
                    raise NotTraced("an operand is read with a dynamic stride")
                number = self.numbers[piece.loop, point]
                term: AffineExpr = AffineDimExpr(number)
                if step != 1:
                    term = term * step
                total = term if total is None else term + total
                step *= self.sizes[number]
        return AffineConstantExpr(0) if total is None else total


class _Sizes:
    """Expresses the sizes of an attention in terms of its operands' sizes."""

    def __init__(self, traced: Attention):
        self.traced = traced
        self.operands = traced.read
        self.own = {loop: self._of_operand(loop) for loop in traced.loops}
        self.known: dict[Extent, Size] = {}
        for loop, own in self.own.items():
            size = traced.loops[loop]
            if own is not None and is_dynamic(size) and size == symbol(size.extents[0]):
                self.known[size.extents[0]] = own

    def _of_operand(self, loop: str) -> Size | None:
        size = self.traced.loops[loop]
        for value, place in self.operands:
            for dimension, index in enumerate(place):
                if index == index_of_loop(loop, size) and self._is(value, dimension, size):
                    return symbol(Extent(value, dimension))
        return None

    def _is(self, value: SSAValue, dimension: int, size: Size) -> bool:
        own = extent(value, dimension)
        return is_dynamic(own) and self.traced.normal(own) == size

    def local(self, size: Size) -> Size:
        """Expresses a size by the operands' sizes. Returns it unchanged if that is not possible."""
        if not is_dynamic(size):
            return size
        for loop, own in self.own.items():
            if own is not None and size == self.traced.loops[loop]:
                return own
        local = size.replaced(self.known)
        values = {value for value, _ in self.operands}
        if not is_dynamic(local) or all(e.value in values for e in local.extents):
            return local
        keys, rows = self.own["n"], self.own[self.traced.rows]
        if keys is not None:
            # The number of past keys is the number of keys minus the number of queries.
            count = self.traced.loops[self.traced.rows]
            rest = size - (self.traced.loops["n"] - count)
            if not is_dynamic(rest) and not (rows is None and is_dynamic(count)):
                return keys - (count if rows is None else rows) + rest
        return local


def replace_attention(traced: Attention, block: Block, target: Target | None) -> None:
    """
    Replaces a matched attention by dispatches, and erases operations that become unused.

    For few rows and many keys, the first dispatch computes parts of the keys concurrently and a
    second dispatch merges them. Kernels of multiply-adds also compute keys and values if possible.
    Raises `NotTraced` if no operation can express the attention, and `ScheduleDoesNotFit` if no
    schedule fits the target. The block is unchanged after an error.
    """
    before = replace(traced, computed={})
    try:
        dispatches = _build(traced if target is not None else before, target)
    except (NotTraced, ScheduleDoesNotFit) as problem:
        if not traced.computed:
            raise
        dispatches = _build(before, target)
        reason = f"keys and values are computed by kernels of their own: {problem}"
        note_before_schedules(_attention_of(dispatches[0]), COMPUTED, reason)
    result, _ = traced.operands["result"]
    owner = result.owner
    assert isinstance(owner, Operation)
    for dispatch in dispatches:
        dispatch.location = owner.location
        block.insert_op_before(dispatch, owner)
    last = dispatches[-1].outputs[0]
    result.replace_all_uses_with(last)
    erase_unused_ops(block, _is_pure)


def _build(traced: Attention, target: Target | None) -> list[DispatchOp]:
    planes = (plane for own in traced.computed.values() for plane, _ in own.planes)
    if any(is_dynamic(size) for plane in planes for size in extents(plane)):
        raise ScheduleDoesNotFit("sizes of keys and values are known only at run time")
    replacement = _Replacement(traced)
    whole = replacement.dispatch(None)
    if target is None:
        return [whole]
    attention = _attention_of(whole)
    try:
        schedule = choose_attention(attention, target)
        if traced.computed and not isinstance(schedule, AttentionLanesAttr):
            raise ScheduleDoesNotFit("cooperative matrices cannot load computed keys and values")
    except ScheduleDoesNotFit:
        whole.erase()
        raise
    if not isinstance(schedule, AttentionLanesAttr):
        return [whole]
    parts = parts_for(LanesPlan(attention, schedule, target), _most_keys(traced))
    if parts == 1:
        return [whole]
    partial = replacement.dispatch(parts)
    return [partial, replacement.merge(partial.outputs[0])]


def _attention_of(dispatch: DispatchOp) -> AttentionOp:
    return next(op for op in dispatch.body.block.ops if isinstance(op, AttentionOp))


def _most_keys(traced: Attention) -> int | None:
    """
    Returns an upper bound of the number of keys, from the tensor that contains them; else None.
    """
    own = traced.computed.get("k")
    value, place = own.planes[0] if own else traced.operands["k"]
    if isinstance(value.owner, tensor.ExtractSliceOp):
        value = value.owner.source
    assert isinstance(value.type, TensorType)
    shape = value.type.get_shape()
    walked = [i for i, index in enumerate(place) if any(piece.loop == "n" for piece in index)]
    if len(walked) != 1 or len(place) != len(shape) or shape[walked[0]] == DYNAMIC_INDEX:
        return None
    return shape[walked[0]]


class _Replacement:
    """Builds the dispatches of a matched attention; raises `NotTraced` if that is not possible."""

    def __init__(self, traced: Attention):
        self.traced = traced
        loops = _Loops(traced)
        self.place_map = loops.map
        self.maps = {name: loops.map(place) for name, (_, place) in traced.operands.items()}
        sizes = _Sizes(traced)
        self.operands = sizes.operands
        self.loops = [sizes.local(size) for size in loops.sizes]
        bounds = traced.band.last, traced.band.first
        self.bounds = [None if size is None else sizes.local(size) for size in bounds]
        result, _ = traced.operands["result"]
        assert isinstance(result.type, TensorType)
        assert isinstance(result.owner, Operation)
        self.type, self.owner = result.type, result.owner
        self.shape = [sizes.local(traced.normal(size)) for size in extents(result)]

    def dispatch(self, parts: int | None) -> DispatchOp:
        """Builds the dispatch of the attention, or of its partial results if `parts` is given."""
        traced = self.traced
        shape, element, maps = self.shape, self.type.element_type, dict(self.maps)
        if parts is not None:
            *rows, _, _, width = self.loops
            shape, element = [parts, *rows, width + 2], f32
            kept = [*range(len(rows)), len(self.loops) - 1]
            maps["result"] = AffineMap(len(self.loops), 0, tuple(map(AffineDimExpr, kept)))
        dynamic = [size for size in (*self.loops, *self.bounds) if is_dynamic(size)]
        asked = [e.value for s in (*dynamic, *shape) if is_dynamic(s) for e in s.extents]
        inputs = list(dict.fromkeys([*(value for value, _ in self.operands), *asked]))
        body, inside = DispatchOp.open_body(inputs)
        code = SizeCode(body.add_op, inside)
        numbers = [code.value(size) for size in dynamic]
        empty = code.empty(shape, element)
        sizes = [DYNAMIC if is_dynamic(size) else size for size in self.loops]
        causal, window, count = (
            None if size is None else IntegerAttr(DYNAMIC if is_dynamic(size) else size, i64)
            for size in (*self.bounds, parts)
        )
        own: dict[str, SSAValue] = {}
        for name, (value, _) in traced.operands.items():
            if computed := traced.computed.get(name):
                own[name], maps[name] = self._compute(computed, maps[name], inside, body, code)
            elif name != "result":
                own[name] = inside[value]
        more = ([own[name]] if name in own else [] for name in ("mask", "sink"))
        attention = AttentionOp(
            operands=[own["q"], own["k"], own["v"], *more, empty, numbers],
            properties={
                "loops": DenseArrayBase.from_list(i64, sizes),
                "maps": ArrayAttr(map(AffineMapAttr, maps.values())),
                "causal": causal,
                "window": window,
                "parts": count,
                **traced.properties,
            },
            result_types=[[empty.type]],
        )
        assert attention.result is not None
        body.add_ops([attention, YieldOp(attention.result)])
        return DispatchOp(inputs, [empty.type], Region(body))

    def _compute(
        self,
        computed: Computed,
        map: AffineMap,
        inside: dict[SSAValue, SSAValue],
        body: Block,
        code: SizeCode,
    ) -> tuple[SSAValue, AffineMap]:
        """
        Emits the computation of an operand into the dispatch's body. Returns the value and its
        index map. `inside` maps values of the host to arguments of the dispatch.
        """
        loops = sorted(map.used_dims())
        element = element_type(computed.op.results[0])
        empty = code.empty([self.loops[loop] for loop in loops], element)
        own: list[AffineExpr] = [AffineConstantExpr(0)] * len(self.loops)
        for dimension, loop in enumerate(loops):
            own[loop] = AffineDimExpr(dimension)
        maps = [
            self.place_map(place).replace_dims_and_symbols(own, [], len(loops), 0)
            for _, place in computed.planes
        ]
        generic = make_generic(
            [inside[value] for value, _ in computed.planes],
            empty,
            [*maps, AffineMap.identity(len(loops))],
            computed.op.body.clone(),
        )
        body.add_op(generic)
        places = tuple(AffineDimExpr(loop) for loop in loops)
        return generic.results[0], AffineMap(len(self.loops), 0, places)

    def merge(self, partial: SSAValue) -> DispatchOp:
        """Builds the dispatch that merges the partial results."""
        count = len(self.loops) - len(LOOPS) + 1
        zeros, dims = [AffineConstantExpr(0)] * 2, [AffineDimExpr(n) for n in range(count + 1)]
        places = [*dims[:count], *zeros, dims[count]]
        place = self.maps["result"].replace_dims_and_symbols(places, [], count + 1, 0)
        body, inside = DispatchOp.open_body([partial])
        code = Code(self.owner, InsertPoint.at_end(body))
        nan_to_zero = self.traced.properties["nan_to_zero"] is not None
        merged = merge_parts(code, inside[partial], place, self.type, nan_to_zero)
        body.add_op(YieldOp(merged))
        return DispatchOp([partial], [self.type], Region(body))


def _is_pure(op: Operation) -> bool:
    return isinstance(op, LinalgStructuredOperation) or op.name.split(".")[0] in (
        "tensor",
        "arith",
    )


# Merging parts of the keys


def merge_parts(
    code: Code, parts: SSAValue, place: AffineMap, type: TensorType, nan_to_zero: bool
) -> SSAValue:
    """
    Merges partial results of an attention: `parts` is the result of a `schedule.attention` that
    divides the keys into runs.

        f[s, b, m] = exp(top[s, b, m] - the greatest top over s)
        total[b, m, e] = sum over s of f[s, b, m] * parts[s, b, m, e]
        result[b, m, e] = total[b, m, e] / total[b, m, column of the sums]

    `place` maps the loops b, m and e to the result's dimensions.
    """
    _, *rows, columns = extents(parts)
    element = type.element_type
    width, count = static([columns])[0] - 2, len(rows)
    *row, part, column = map(AffineDimExpr, range(count + 2))
    sums, tops = map(AffineConstantExpr, (width, width + 1))

    def at(*places: AffineExpr, loops: int = count + 2) -> AffineMap:
        return AffineMap(loops, 0, places)

    greatest = code.generic(
        [parts],
        code.fill(rows, f32, -inf),
        [at(part, *row, tops, loops=count + 1), at(*row, loops=count + 1)],
        lambda b, v: b.insert(arith.MaximumfOp(v[1], v[0])),
    )

    def add_weighted(b: Builder, v: Sequence[SSAValue]) -> Operation:
        top, most, value, total = v
        factor = b.insert(math.ExpOp(b.insert(arith.SubfOp(top, most)).result))
        added = b.insert(arith.MulfOp(factor.result, value)).result
        return b.insert(arith.AddfOp(total, added))

    total = code.generic(
        [parts, greatest, parts],
        code.fill([*rows, columns], f32, 0.0),
        [at(part, *row, tops), at(*row), at(part, *row, column), at(*row, column)],
        add_weighted,
    )

    def divide(b: Builder, v: Sequence[SSAValue]) -> SSAValue:
        result = b.insert(arith.DivfOp(v[0], v[1])).result
        if nan_to_zero:
            zero = b.insert(arith.ConstantOp(FloatAttr(0.0, f32))).result
            positive = b.insert(arith.CmpfOp(v[1], zero, "ogt")).result
            result = b.insert(arith.SelectOp(positive, result, zero)).result
        return result if element == f32 else b.insert(arith.TruncFOp(result, element)).result

    sizes, groups = _split(place, [*rows, width])
    order = [loop for group in groups for loop in group]
    result = code.generic(
        [_first_columns(code, total, width), total],
        code.empty([sizes[loop] for loop in order], element),
        [
            at(*row, part, loops=len(sizes)),
            at(*row, sums, loops=len(sizes)),
            at(*map(AffineDimExpr, order), loops=len(sizes)),
        ],
        divide,
    )
    if len(order) > len(groups):
        shape = iter(tensor_type(result).get_shape())
        merged = [[next(shape) for _ in group] for group in groups]
        known = [DYNAMIC_INDEX if DYNAMIC_INDEX in own else prod(own) for own in merged]
        dimensions = iter(range(len(order)))
        result = code.insert(
            merge_dimensions(result, [[next(dimensions) for _ in own] for own in groups], known)
        )
    return code.cast(result, type)


def _split(place: AffineMap, sizes: list[Size]) -> tuple[list[Size], list[list[int]]]:
    """
    Returns the loops that index each dimension of the result, and the sizes of all loops.

    Each loop indexes one dimension. Loops of size 1 index the dimensions that are read at 0.
    """
    count, groups = len(sizes), list[list[int]]()
    strides = [place.eval([int(at == loop) for at in range(count)], []) for loop in range(count)]
    left = [loop for loop in range(count) if loop not in place.used_dims()]
    for dimension, index in enumerate(place.results):
        loops = sorted(index.used_dims(), key=lambda loop: -strides[loop][dimension])
        if not loops and not left:
            left, sizes = [len(sizes)], [*sizes, 1]
        groups.append(loops or [left.pop()])
    groups[0] += left
    return sizes, groups


def _first_columns(code: Code, value: SSAValue, count: int) -> SSAValue:
    write = SizeCode(code.insert)
    given = (*extents(value)[:-1], count)
    sizes = [write.value(size) if is_dynamic(size) else size for size in given]
    starts, steps = ([number] * len(sizes) for number in (0, 1))
    type = tensor.ExtractSliceOp.infer_result_type(tensor_type(value), sizes)
    return code.insert(tensor.ExtractSliceOp(value, starts, sizes, steps, type))
