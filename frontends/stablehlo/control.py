"""Imports operations with regions: calls, conditions, loops, reductions, windows and sorts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import SymbolicSize
from xdsl_spirv.frontends.onnx.dimensions import Map
from xdsl_spirv.frontends.onnx.reading import Reader, choose
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.steps import repeat
from xdsl_spirv.frontends.onnx.values import BOOL, I32, I64, Tensor
from xdsl_spirv.frontends.stablehlo.importer import (
    Importer,
    array_of,
    element_of,
    operation,
    type_of,
)
from xdsl_spirv.frontends.stablehlo.operations import (
    external,
    find_inside,
    integers,
    number,
    pad_tensor,
    sizes_in,
)
from xdsl_spirv.frontends.stablehlo.scalars import divide_size

DIVISIONS = re.compile(r"(floor_divide|remainder)(?:_\d+)?")
"""Names of the functions in which JAX divides integers. The last two arguments are the operands."""

FEW = 4
"""Maximum iterations of a loop that is unrolled."""


@operation("func.call")
def call(b: Importer, op: Any, *arguments: Tensor) -> Sequence[Tensor]:
    """Inlines a function. JAX's functions that divide are folded for dynamic sizes."""
    name = op.attributes["callee"].value
    known = [t.known for t in arguments[-2:] if t.known is not None and t.known.size == 1]
    division = DIVISIONS.fullmatch(name)
    if division and len(known) == 2 and isinstance(known[0].item(), SymbolicSize):
        parts = divide_size(known[0].item(), known[1].item())
        if parts is not None:
            part = np.full(known[0].shape, parts[division[1] == "remainder"], object)
            return [Tensor(arguments[-2].element, part.shape, known=part)]
    return b.call(name, arguments)


@operation("stablehlo.composite")
def composite(b: Importer, op: Any, *arguments: Tensor) -> Sequence[Tensor]:
    return b.call(op.attributes["decomposition"].value, arguments)


@operation("stablehlo.case", "stablehlo.if")
def case(b: Importer, op: Any, index: Tensor) -> Sequence[Tensor]:
    """
    Imports the region that the index selects, if the index is known. Otherwise imports all regions,
    and selects their results by the index.
    """
    regions = [region.blocks[0] for region in op.regions]
    last = len(regions) - 1
    if index.numbers is not None:
        item = int(index.numbers.item())
        if op.name == "stablehlo.if":
            return b.run(regions[0 if item else 1], [])
        return b.run(regions[item if 0 <= item <= last else last], [])
    branches = [b.run(region, []) for region in regions]
    results = branches[-1]
    for branch, values in reversed(list(enumerate(branches[:-1]))):
        condition = index
        if op.name == "stablehlo.case":
            condition = _is_equal(b, index, branch)
        results = [choose(b, condition, x, y) for x, y in zip(values, results, strict=True)]
    return results


def _is_equal(b: Importer, index: Tensor, branch: int) -> Tensor:
    return b.elementwise(lambda s, x: x.equals(branch), index, element=BOOL)


# Loops


@operation("stablehlo.while")
def while_(b: Importer, op: Any, *carried: Tensor) -> Sequence[Tensor]:
    """
    Imports a loop whose condition compares a counter with a constant, possibly and-ed with data.

    If the condition depends on data, all iterations that the counter allows run, but the results
    do not change after the condition fails.
    """
    condition, body = (region.blocks[0] for region in op.regions)
    bound = _find_bound(condition, body, carried)
    if bound is None:
        b.refuse(
            "no constant limits the number of iterations",
            "compare a counter with a constant: `(i < 100) & ...`, or use fori_loop or scan",
        )
    place, limit, is_alone = bound
    start = int(carried[place].numbers.item())  # pyright: ignore
    rounds = max(limit - start, 0)

    def counter(item: Any) -> Tensor:
        return Tensor(carried[place].element, (), known=np.array(item, object))

    def insert(values: Sequence[Tensor], t: Tensor) -> list[Tensor]:
        return [*values[:place], t, *values[place:]]

    def one(step: Any, *values: Tensor) -> list[Tensor]:
        new = b.run(body, insert(values, counter(start + step)))
        known = new.pop(place).known
        if known is None or known.item() != start + step + 1:
            b.refuse("the loop does not increment its counter by 1", "increment the counter by 1")
        return new

    def one_if(step: Any, *values: Tensor) -> list[Tensor]:
        """Runs and counts an iteration; keeps the old values if the condition has failed."""
        *old, made = values
        (going,) = b.run(condition, insert(old, counter(start + step)))
        new = [choose(b, going, x, y) for x, y in zip(one(step, *old), old, strict=True)]
        return [*new, b.elementwise(lambda s, c, n: s.select(c, n + 1, n), going, made)]

    rest = [t for i, t in enumerate(carried) if i != place]
    kept = _find_kept(body, place)
    if is_alone:
        rest = _repeat(b, rounds, rest, one, kept)
        return insert(rest, counter(start + rounds))
    *rest, made = _repeat(b, rounds, [*rest, carried[place]], one_if, [*kept, False])
    return insert(rest, made)


def _find_kept(body: Any, place: int) -> list[bool]:
    """Returns a flag for each carried value except the counter: True if it stays unchanged."""
    last = list(body.operations)[-1].operation
    pairs = zip(body.arguments, last.operands, strict=True)
    kept = [argument == operand for argument, operand in pairs]
    del kept[place]
    return kept


def _repeat(
    b: Importer, rounds: int, carried: Sequence[Tensor], one: Any, kept: Sequence[bool]
) -> list[Tensor]:
    """
    Builds a loop of `rounds` calls of `one`, and returns the final values.

    Values that are marked in `kept` stay unchanged, and are not carried.
    """
    if rounds <= FEW:
        for number in range(rounds):
            carried = one(number, *carried)
        return list(carried)

    def step(number: Any, *values: Tensor) -> list[Tensor]:
        given = iter(values)
        whole = [t if same else next(given) for t, same in zip(carried, kept, strict=True)]
        results = one(number, *whole)
        return [t for t, same in zip(results, kept, strict=True) if not same]

    changed = [t for t, same in zip(carried, kept, strict=True) if not same]
    results = iter(repeat(b, rounds, changed, step))
    return [t if same else next(results) for t, same in zip(carried, kept, strict=True)]


def _find_bound(
    condition: Any, body: Any, carried: Sequence[Tensor]
) -> tuple[int, int, bool] | None:
    """Returns (counter's position, limit, True if the condition has no other test), or None."""
    arguments = list(condition.arguments)
    last = list(condition.operations)[-1].operation
    whole = last.operands[0]
    terms = [whole]
    while terms:
        term = terms.pop()
        op = term.owner
        name = getattr(op, "name", "")
        if name in ("stablehlo.and", "stablehlo.convert", "stablehlo.broadcast_in_dim"):
            terms += op.operands
        if name != "stablehlo.compare":
            continue
        direction = str(op.attributes["comparison_direction"])
        if " NE>" in direction and _constant(op.operands[1], arguments, body, carried) == 0:
            terms.append(op.operands[0])
        left, right = op.operands if "LT" in direction else (op.operands[1], op.operands[0])
        if not any(f" {name}>" in direction for name in ("LT", "GT")) or left not in arguments:
            continue
        place = arguments.index(left)
        limit = _constant(right, arguments, body, carried)
        if limit is not None and carried[place].numbers is not None and not carried[place].rank:
            return place, limit, term == whole
    return None


def _constant(value: Any, arguments: list[Any], body: Any, carried: Sequence[Tensor]) -> int | None:
    """Returns the value of a constant or of an unchanged carried value, or None."""
    if value in arguments:
        place = arguments.index(value)
        last = list(body.operations)[-1].operation
        known = carried[place].numbers
        same = last.operands[place] == body.arguments[place]
        return int(known.item()) if same and known is not None and not carried[place].rank else None
    op = value.owner
    if op.name == "stablehlo.broadcast_in_dim":
        return _constant(op.operands[0], arguments, body, carried)
    if op.name != "stablehlo.constant":
        return None
    return int(array_of(op.attributes["value"], element_of(value)).item())


# Reductions, windows and sorts


@operation("stablehlo.reduce")
def reduce_dimensions(b: Importer, op: Any, *operands: Tensor) -> Sequence[Tensor]:
    count = len(operands) // 2
    axes = integers(op, "dimensions")
    kept = [i for i in range(operands[0].rank) if i not in axes]
    maps: list[Map] = [list(range(operands[0].rank))] * count
    loops = operands[0].rank
    return _reduce(b, op, operands[:count], operands[count:], maps, kept, loops, axes)


def _reduce(
    b: Importer,
    op: Any,
    tensors: Sequence[Tensor],
    starts: Sequence[Tensor],
    maps: Sequence[Map],
    kept: Sequence[int],
    loops: int,
    reduced: Sequence[int],
) -> Sequence[Tensor]:
    """
    Reduces elements with the region of `op`, beginning with the start values.

    `maps` index the tensors, and `kept` the results, by `loops` loops. The loops `reduced` are
    reductions.
    """
    region = op.regions[0].blocks[0]
    outputs: list[Any] = []
    for start, result in zip(starts, op.results, strict=True):
        element, sizes = type_of(result, [tensors[0].sizes[i] for i in kept])
        if start.numbers is not None:
            out = b.fill(start.numbers.item(), sizes, element)
        else:
            out = b.value(b.expand(start, sizes) if sizes else start)
        outputs.append((out, element, sizes, list(kept)))

    def write(s: Scalars, *numbers: Number) -> Sequence[Number]:
        return b.scalars(region, s, [*numbers[len(tensors) :], *numbers[: len(tensors)]])

    return b.generic(list(zip(tensors, maps, strict=True)), outputs, loops, write, reduced)


@operation("stablehlo.reduce_window")
def reduce_window(b: Importer, op: Any, *operands: Tensor) -> Sequence[Tensor]:
    """Reduces windows of tensors. The padding is the start value, which must be neutral."""
    count = len(operands) // 2
    tensors, starts = operands[:count], operands[count:]
    rank = tensors[0].rank
    ones = [1] * rank
    window = integers(op, "window_dimensions")
    steps, apart = integers(op, "window_strides", ones), integers(op, "window_dilations", ones)
    pads = op.attributes["padding"] if "padding" in op.attributes else None
    amounts = [[0, 0]] * rank if pads is None else np.array(pads).reshape(-1, 2).tolist()
    low, high = ([pair[i] for pair in amounts] for i in range(2))
    between = [n - 1 for n in integers(op, "base_dilations", ones)]
    walked = [i for i in range(rank) if window[i] > 1]
    walk: Map = [
        AffineDimExpr(i) * steps[i]
        + (AffineDimExpr(rank + walked.index(i)) * apart[i] if i in walked else 0)
        for i in range(rank)
    ]
    images = [pad_tensor(b, t, s, low, high, between) for t, s in zip(tensors, starts, strict=True)]
    region = op.regions[0].blocks[0]
    given: list[Any] = []
    for start in starts:
        if start.numbers is None:
            b.refuse("the start value is computed when the program runs", "start from a constant")
        given.append((start.numbers.item(), start.element))

    def write(s: Scalars, *numbers: Number) -> Sequence[Number]:
        return b.scalars(region, s, [*numbers[count:], *numbers[:count]])

    derived = [
        (size - (window[i] - 1) * apart[i] - 1) // steps[i] + 1
        for i, size in enumerate(images[0].sizes)
    ]
    _, sizes = type_of(op.results[0], derived)
    inputs = [(t, walk) for t in images]
    return b.accumulate(write, given, inputs, sizes, [window[i] for i in walked])


@external("stablehlo.dynamic_reduce_window")
def reduce_dynamic_window(
    b: Importer, op: Any, x: Tensor, start: Tensor, *attributes: Tensor
) -> Sequence[Tensor]:
    """Reduces windows of dynamic sizes. JAX writes them for cumulative sums."""
    window, steps, between, apart, padding = (sizes_in(b, t) for t in attributes)
    if start.numbers is None or any(n != 1 for n in between):
        b.refuse("the start value or the dilation is not supported", "reduce a tensor")
    region = b.functions[op.attributes["called_computations"][0].value].regions[0].blocks[0]
    walked = [i for i, n in enumerate(window) if n != 1]
    low, high = padding[::2], padding[1::2]
    sizes = [
        (n + a + c - (w - 1) * k - 1) // step + 1  # pyright: ignore[reportOperatorIssue]
        for n, a, c, w, k, step in zip(x.sizes, low, high, window, apart, steps, strict=True)
    ]
    source = Reader(b, x)

    def write(s: Scalars, held: Number) -> Sequence[Number]:
        at: list[Number] = []
        for i, (step, distance, before) in enumerate(zip(steps, apart, low, strict=True)):
            place = s.index(i) * b.size_number(s, step, I64)
            if i in walked:
                inner = s.index(x.rank + walked.index(i))
                place = place + inner * b.size_number(s, distance, I64)
            at.append(place - b.size_number(s, before, I64))
        inside, nearest = find_inside(s, source, at, x)
        (new,) = b.scalars(region, s, [held, source.read(s, nearest)])
        return [s.select(inside, new, held)]

    given = [(start.numbers.item(), x.element)]
    return b.accumulate(write, given, [], sizes, [window[i] for i in walked])


@operation("stablehlo.select_and_scatter")
def select_and_scatter(b: Importer, op: Any, x: Tensor, source: Tensor, start: Tensor) -> Tensor:
    """
    Imports the gradient of a pooling: each window selects one element of `x`, and combines the
    window's element of `source` with the selected place of the result.
    """
    rank, ones = x.rank, [1] * x.rank
    window, steps = integers(op, "window_dimensions", ones), integers(op, "window_strides", ones)
    pads = op.attributes["padding"] if "padding" in op.attributes else None
    before = [0] * rank if pads is None else np.array(pads).reshape(-1, 2)[:, 0].tolist()
    select, combine = (region.blocks[0] for region in op.regions)
    if start.numbers is None:
        b.refuse("the start value is computed when the program runs", "start from a constant")
    walked = [i for i in range(rank) if window[i] > 1]
    extents = [window[i] for i in walked]
    image, sources = Reader(b, x), Reader(b, source)

    def offsets(s: Scalars) -> list[Number]:
        """Returns the place in the window: one inner loop for each dimension of the window."""
        inner = {i: s.index(rank + n) for n, i in enumerate(walked)}
        return [inner.get(i, s.number(0, I64)) for i in range(rank)]

    def find(s: Scalars, held: Number, chosen: Number) -> Sequence[Number]:
        place = offsets(s)
        at = [s.index(i) * steps[i] + place[i] - before[i] for i in range(rank)]
        inside, held_at = find_inside(s, image, at, x)
        item = image.read(s, held_at)
        (stays,) = b.scalars(select, s, [held, item])
        taken = inside & (~stays | (chosen < 0))
        return [s.select(taken, item, held), s.select(taken, number_of(s, place), chosen)]

    def number_of(s: Scalars, place: Sequence[Number]) -> Number:
        number = s.number(0, I64)
        for i in walked:
            number = number * window[i] + place[i]
        return number.to(I32)

    starts = [(0, x.element), (-1, I32)]
    _, chosen = b.accumulate(find, starts, [], source.sizes, extents)
    choices = Reader(b, chosen)

    def write(s: Scalars, held: Number) -> Sequence[Number]:
        place = offsets(s)
        ahead = [s.index(i) + before[i] - place[i] for i in range(rank)]
        inside, at = find_inside(
            s, sources, [p / k for p, k in zip(ahead, steps, strict=True)], source
        )
        hits = [inside, choices.read(s, at).equals(number_of(s, place))]
        hits += [(p >= 0) & (p % k).equals(0) for p, k in zip(ahead, steps, strict=True) if k > 1]
        (new,) = b.scalars(combine, s, [held, sources.read(s, at)])
        return [s.select(reduce(and_, hits), new, held)]

    return b.accumulate(write, [(start.numbers.item(), x.element)], [], x.sizes, extents)[0]


@operation("stablehlo.sort")
def sort(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    """
    Sorts tensors: the position of an element is the number of elements that come before it.

    Equal elements keep their order. The work is quadratic in the axis, but parallel.
    """
    axis, rank = number(op, "dimension"), tensors[0].rank
    axis %= rank
    every = list(range(rank))
    other = [rank if i == axis else i for i in every]
    region = op.regions[0].blocks[0]
    sizes = tensors[0].sizes

    def count(s: Scalars, *numbers: Number) -> Sequence[Number]:
        here, there, total = numbers[: len(tensors)], numbers[len(tensors) : -1], numbers[-1]
        pairs = list(zip(here, there, strict=True))
        (before,) = b.scalars(region, s, [n for x, y in pairs for n in (y, x)])
        (behind,) = b.scalars(region, s, [n for pair in pairs for n in pair])
        first = before | (~behind & (s.index(rank) < s.index(axis)))
        return [total + s.select(first, s.number(1, I32), 0)]

    inputs: list[Any] = [*((t, every) for t in tensors), *((t, other) for t in tensors)]
    (places,) = b.accumulate(count, [(0, I32)], inputs, sizes)

    def take(s: Scalars, place: Number, x: Number, held: Number) -> Sequence[Number]:
        return [s.select(place.equals(s.index(axis).to(I32)), x, held)]

    return [
        b.accumulate(take, [(0, t.element)], [(places, other), (t, other)], sizes)[0]
        for t in tensors
    ]


@operation("chlo.top_k")
def top_k(b: Importer, op: Any, x: Tensor) -> Sequence[Tensor]:
    from xdsl_spirv.frontends.onnx.operators.indexing import top_k as first_elements

    k = Tensor.of(np.array([number(op, "k")], np.int64))
    values, indices = first_elements(b, x, k)  # pyright: ignore
    return values, b.convert(indices, I32)
