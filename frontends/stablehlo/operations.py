"""Imports operations on whole tensors: data movement, contractions, windows, gathers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from math import prod
from operator import and_, or_
from typing import Any

import numpy as np
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize, surely_below
from xdsl_spirv.frontends.onnx.building import LARGE
from xdsl_spirv.frontends.onnx.dimensions import Map
from xdsl_spirv.frontends.onnx.operators.shapes import reverse as reversed_along
from xdsl_spirv.frontends.onnx.operators.windows import Window, convolve
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import ELEMENTS, I32, I64, Tensor
from xdsl_spirv.frontends.stablehlo.importer import (
    OPERATIONS,
    Function,
    Importer,
    array_of,
    comparison_of,
    element_of,
    operation,
    type_of,
)

CUSTOM_CALL = "stablehlo.custom_call"


def integers(op: Any, name: str, default: Sequence[int] = ()) -> list[int]:
    """Returns the integers of an attribute, or the default."""
    return list(op.attributes[name]) if name in op.attributes else list(default)


def number(op: Any, name: str) -> int:
    return op.attributes[name].value


def sizes_in(b: Importer, t: Tensor) -> list[Size]:
    """Returns the sizes that a vector holds. Refuses a vector that is computed from data."""
    if t.known is None:
        b.refuse("a size is computed from data", "compute sizes from the sizes of the inputs")
    return [n if isinstance(n, SymbolicSize) else int(n) for n in t.known.flat]


@operation("stablehlo.get_dimension_size")
def get_dimension_size(b: Importer, op: Any, x: Tensor) -> Tensor:
    known = np.array(x.sizes[number(op, "dimension")], object)
    return Tensor(I32, (), known=known)


@operation("stablehlo.constant")
def constant(b: Importer, op: Any) -> Tensor:
    element, sizes = type_of(op.results[0])
    array = array_of(op.attributes["value"], element)
    if array.shape != sizes and prod(sizes) * element.dtype.itemsize > LARGE:
        return Tensor(element, sizes, b.fill(array.item(), sizes, element))
    return Tensor(element, sizes, known=np.broadcast_to(array, sizes))


@operation("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(b: Importer, op: Any, *shape: Tensor) -> Tensor:
    element, sizes = type_of(op.results[0], sizes_in(b, shape[0]) if shape else ())
    axis = number(op, "iota_dimension")
    if all(isinstance(n, int) for n in sizes) and prod(sizes) * element.dtype.itemsize <= LARGE:
        places = np.arange(sizes[axis]).reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        return Tensor(element, sizes, known=np.broadcast_to(places.astype(element.dtype), sizes))
    return b.mapped(lambda s: s.index(axis).to(element), [], sizes, element)


@operation("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast_in_dim(b: Importer, op: Any, x: Tensor, *shape: Tensor) -> Tensor:
    _, sizes = type_of(op.results[0], sizes_in(b, shape[0]) if shape else ())
    places = integers(op, "broadcast_dimensions")
    if places != sorted(places):
        order = sorted(range(x.rank), key=places.__getitem__)
        x, places = b.transpose(x, order), sorted(places)
    spread = [1] * len(sizes)
    for place, size in zip(places, x.sizes, strict=True):
        spread[place] = size  # pyright: ignore
    return b.expand(b.reshape(x, spread), sizes)


@operation("stablehlo.reshape", "stablehlo.dynamic_reshape")
def reshape(b: Importer, op: Any, x: Tensor, *shape: Tensor) -> Tensor:
    return b.reshape(x, type_of(op.results[0], sizes_in(b, shape[0]) if shape else ())[1])


@operation("stablehlo.transpose")
def transpose(b: Importer, op: Any, x: Tensor) -> Tensor:
    return b.transpose(x, integers(op, "permutation"))


@operation("stablehlo.optimization_barrier")
def barrier(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    return tensors


def external(*names: str) -> Callable[[Function], Function]:
    """Returns a decorator that registers a function for calls of external functions."""
    return operation(*(f"{CUSTOM_CALL} @{name}" for name in names))


@operation(CUSTOM_CALL)
def custom_call(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    target = op.attributes["call_target_name"].value
    function = OPERATIONS.get(f"{CUSTOM_CALL} @{target}")
    if function is None:
        b.refuse(f"the external function {target!r} is not supported", "leave the call out")
    return function(b, op, *tensors)  # pyright: ignore[reportReturnType]


@external("Sharding", "annotate_device_placement")
def keep(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    return tensors


@external("shape_assertion")
def assert_sizes(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    insist_on_sizes(b, op.operands[0])
    return []


def insist_on_sizes(b: Importer, condition: Any) -> None:
    """Requires a comparison of sizes to be true. A run with other sizes is refused."""
    known = b.values[condition].numbers
    if known is not None and known.item():
        return
    op = condition.owner
    direction = comparison_of(op)[0] if op.name == "stablehlo.compare" else ""
    if direction not in ("EQ", "GE", "LE") or known is not None:
        b.refuse("the assertion on sizes is false or not supported", "give other sizes")
    x, y = (size for value in op.operands for size in sizes_in(b, b.values[value]))
    if direction == "EQ":
        b.insist_equal(x, y)
    else:
        b.insist_natural(x - y if direction == "GE" else y - x)


@operation("stablehlo.bitcast_convert")
def bitcast_convert(b: Importer, op: Any, x: Tensor) -> Tensor:
    """Reinterprets bits. A last dimension holds the parts of the wider type, the low bits first."""
    element = element_of(op.results[0])
    wide, narrow = max(x.element.bits, element.bits), min(x.element.bits, element.bits)
    if wide == narrow:
        return b.elementwise(lambda s, x: s.reinterpret(x, element), x, element=element)
    if narrow < 8:
        b.refuse(f"{x} cannot be read as {element}", "convert the numbers, or use whole bytes")
    axes = list(range(x.rank))
    word, part = ELEMENTS[f"ui{wide}"], ELEMENTS[f"ui{narrow}"]

    def split(s: Scalars, whole: Number) -> Number:
        place = s.index(x.rank).to(word)
        return s.reinterpret((s.reinterpret(whole, word) >> place * narrow).to(part), element)

    if element.bits == narrow:
        return b.mapped(split, [(x, axes)], [*x.sizes, wide // narrow], element)
    source = Reader(b, x)

    def join(s: Scalars) -> Number:
        at = [s.index(i) for i in axes[:-1]]
        parts = [source.read(s, [*at, s.number(i, I64)]) for i in range(wide // narrow)]
        words = [s.reinterpret(n, part).to(word) << i * narrow for i, n in enumerate(parts)]
        return s.reinterpret(reduce(or_, words), element)

    return b.mapped(join, [], x.sizes[:-1], element)


@operation("stablehlo.concatenate")
def concatenate(b: Importer, op: Any, *tensors: Tensor) -> Tensor:
    axis = number(op, "dimension")
    tensors = tuple(t for t in tensors if t.sizes[axis] != 0) or tensors[:1]
    known = [t.known for t in tensors if t.known is not None]
    if len(known) == len(tensors) and sum(array.nbytes for array in known) <= LARGE:
        whole = np.concatenate(known, axis)
        return Tensor(tensors[0].element, whole.shape, known=whole)
    return tensors[0] if len(tensors) == 1 else b.concatenate(tensors, axis)


@operation("stablehlo.reverse")
def reverse(b: Importer, op: Any, x: Tensor) -> Tensor:
    return reversed_along(b, x, integers(op, "dimensions"))  # pyright: ignore


@operation("stablehlo.slice")
def slice_(b: Importer, op: Any, x: Tensor) -> Tensor:
    _, sizes = type_of(op.results[0], x.sizes)
    starts, steps = integers(op, "start_indices"), integers(op, "strides")
    if x.known is not None and x.value is None:
        places = zip(starts, integers(op, "limit_indices"), steps, strict=True)
        return Tensor(x.element, sizes, known=x.known[tuple(slice(*place) for place in places)])
    return b.slice(x, starts, sizes, steps)


def starts_of(b: Importer, x: Tensor, sizes: Sequence[Any], starts: Sequence[Tensor]) -> Any:
    """Returns a slice's start indices, clamped to the tensor, or None if a start is unknown."""
    known: list[Any] = []
    for size, part, start in zip(x.sizes, sizes, starts, strict=True):
        item = 0 if size == part else None if start.known is None else start.known.item()
        if item is None or item == 0:
            known.append(item)
        elif isinstance(item, SymbolicSize) or isinstance(size, SymbolicSize):
            inside = surely_below(-1, item) and surely_below(item, size - part + 1)
            known.append(item if inside else None)
        else:
            known.append(min(max(int(item), 0), size - part))
    return None if None in known else known


def held_starts(
    b: Importer, s: Scalars, x: Tensor, sizes: Sequence[Any], starts: Sequence[Number]
) -> list[Number]:
    """Returns start indices that are clamped at run time so that the slice is inside the tensor."""
    return [
        s.minimum(s.maximum(start.to(I64), 0), b.size_number(s, size - part, I64))
        for start, size, part in zip(starts, x.sizes, sizes, strict=True)
    ]


@operation("stablehlo.dynamic_slice")
def dynamic_slice(b: Importer, op: Any, x: Tensor, *starts: Tensor) -> Tensor:
    sizes = integers(op, "slice_sizes")
    known = starts_of(b, x, sizes, starts)
    if known is not None:
        return b.slice(x, known, sizes)
    source = Reader(b, x)

    def body(s: Scalars, *places: Number) -> Number:
        held = held_starts(b, s, x, sizes, places)
        return source.read(s, [start + s.index(i) for i, start in enumerate(held)])

    return b.mapped(body, [(t, []) for t in starts], sizes, x.element)


@operation("stablehlo.dynamic_update_slice")
def dynamic_update_slice(
    b: Importer, op: Any, x: Tensor, update: Tensor, *starts: Tensor
) -> Tensor:
    if 0 in update.sizes:
        return x
    known = starts_of(b, x, update.sizes, starts)
    if known is not None:
        value = b.insert_slice(update, b.value(x), known)
        return Tensor(x.element, x.sizes, value)
    every = list(range(x.rank))
    source = Reader(b, update)

    def body(s: Scalars, old: Number, *places: Number) -> Number:
        at = [s.index(i) - p for i, p in enumerate(held_starts(b, s, x, update.sizes, places))]
        return chosen_inside(s, source, at, update, old)

    return b.mapped(body, [(x, every), *((t, []) for t in starts)], x.sizes, x.element)


def chosen_inside(
    s: Scalars, source: Reader, at: Sequence[Number], t: Tensor, otherwise: Number
) -> Number:
    """Reads a tensor's element at an index; returns `otherwise` if the index is out of bounds."""
    if not at:
        return source.read(s, [])
    inside, held = find_inside(s, source, at, t)
    return s.select(inside, source.read(s, held), otherwise)


def find_inside(
    s: Scalars, source: Reader, at: Sequence[Number], t: Tensor
) -> tuple[Number, list[Number]]:
    """Returns whether an index is in a tensor's bounds, and the nearest index in bounds."""
    sizes = [n if isinstance(n, int) else source.extent(s, i) for i, n in enumerate(t.sizes)]
    inside = [(p >= 0) & (p < n) for p, n in zip(at, sizes, strict=True)]
    held = [s.minimum(s.maximum(p, 0), n - 1) for p, n in zip(at, sizes, strict=True)]
    return reduce(and_, inside), held


@operation("stablehlo.real_dynamic_slice")
def slice_to_limits(
    b: Importer, op: Any, x: Tensor, starts: Tensor, limits: Tensor, steps: Tensor
) -> Tensor:
    first, last = sizes_in(b, starts), sizes_in(b, limits)
    by: list[Any] = sizes_in(b, steps)
    sizes = [(z - a + k - 1) // k for a, z, k in zip(first, last, by, strict=True)]
    return b.slice(x, first, type_of(op.results[0], sizes)[1], by)


@operation("stablehlo.pad")
def pad(b: Importer, op: Any, x: Tensor, value: Tensor) -> Tensor:
    low, high = integers(op, "edge_padding_low"), integers(op, "edge_padding_high")
    return pad_tensor(b, x, value, low, high, integers(op, "interior_padding"))


@operation("stablehlo.dynamic_pad")
def pad_by_sizes(b: Importer, op: Any, x: Tensor, value: Tensor, *amounts: Tensor) -> Tensor:
    low, high, between = (sizes_in(b, t) for t in amounts)
    return pad_tensor(b, x, value, low, high, between)  # pyright: ignore


def pad_tensor(
    b: Importer,
    x: Tensor,
    value: Tensor,
    low: Sequence[int],
    high: Sequence[int],
    between: Sequence[int],
) -> Tensor:
    """Pads a tensor around and between its elements; negative amounts remove elements."""
    if not x.rank:
        return x
    spans: list[Any] = [
        n + max(n - 1, 0) * k if k else n  # pyright: ignore
        for n, k in zip(x.sizes, between, strict=True)
    ]
    sizes = [a + n + c for a, n, c in zip(low, spans, high, strict=True)]
    if 0 in sizes or 0 in x.sizes or (value.numbers is None and any((*low, *high, *between))):
        filled = b.expand(b.reshape(value, [1] * x.rank), sizes)
        if 0 in sizes or 0 in x.sizes:
            return filled
    if not any(between) and value.numbers is not None:
        starts, ends = ([max(-n, 0) for n in amounts] for amounts in (low, high))
        kept = [n - a - c for n, a, c in zip(x.sizes, starts, ends, strict=True)]
        cut = b.slice(x, starts, kept)
        before, behind = ([max(n, 0) for n in some] for some in (low, high))
        return b.pad(cut, before, behind, value.numbers.item())
    source = Reader(b, x)

    def body(s: Scalars, filler: Number) -> Number:
        places = [s.index(i) - n for i, n in enumerate(low)]
        steps = [k + 1 for k in between]
        at = [p / k if k > 1 else p for p, k in zip(places, steps, strict=True)]
        result = chosen_inside(s, source, at, x, filler)
        on = [(p % k).equals(0) & (p >= 0) for p, k in zip(places, steps, strict=True) if k > 1]
        return s.select(reduce(and_, on), result, filler) if on else result

    return b.mapped(body, [(value, [])], sizes, x.element)


@operation("stablehlo.dot_general")
def dot_general(b: Importer, op: Any, x: Tensor, y: Tensor) -> Tensor:
    hlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    dims = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    rank = op.results[0].type.rank
    summed = len(dims.lhs_contracting_dimensions)
    sizes: dict[int, Size] = {}
    maps: list[Map] = []
    free = len(dims.lhs_batching_dimensions)
    for t, batch, contracted in (
        (x, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions),
        (y, dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions),
    ):
        loops = {d: i for i, d in enumerate(batch)}
        loops |= {d: rank + i for i, d in enumerate(contracted)}
        rest = [d for d in range(t.rank) if d not in loops]
        loops |= {d: free + i for i, d in enumerate(rest)}
        free += len(rest)
        maps.append([loops[d] for d in range(t.rank)])
        sizes |= {loop: t.sizes[d] for d, loop in loops.items() if loop < rank}
    element, shape = type_of(op.results[0], [sizes[i] for i in range(rank)])
    return b.contract(x, maps[0], y, maps[1], shape, rank + summed, element)


@operation("stablehlo.convolution", "stablehlo.dynamic_conv")
def convolution(b: Importer, op: Any, x: Tensor, w: Tensor, *padding: Tensor) -> Tensor:
    """Imports a convolution; grouped channels may need transpositions."""
    hlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    dims = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    group = number(op, "feature_group_count")
    if (parts := number(op, "batch_group_count")) != 1:
        batch, feature = dims.input_batch_dimension, dims.input_feature_dimension
        x, group = _batch_groups_as_features(b, x, batch, feature, parts), parts
    space, kernel = list(dims.input_spatial_dimensions), list(dims.kernel_spatial_dimensions)
    ones = [1] * len(space)
    pads: Any = np.zeros([len(ones), 2], int)
    if padding:
        pads = np.array(sizes_in(b, padding[0]), object)
    elif "padding" in op.attributes:
        pads = np.array(op.attributes["padding"])
    amounts = pads.reshape(-1, 2).tolist()
    low, high, between = ([0] * x.rank for _ in range(3))
    dilation = integers(op, "lhs_dilation", ones)
    for axis, (before, behind), step in zip(space, amounts, dilation, strict=True):
        low[axis], high[axis], between[axis] = before, behind, step - 1
    image = pad_tensor(b, x, Tensor.of(np.zeros((), x.element.dtype)), low, high, between)
    if "window_reversal" in op.attributes:
        turned = [k for k, yes in zip(kernel, op.attributes["window_reversal"], strict=True) if yes]
        w = reversed_along(b, w, turned)  # pyright: ignore
    steps = integers(op, "window_strides", ones)
    distances = integers(op, "rhs_dilation", ones)
    out = list(dims.output_spatial_dimensions)
    derived: list[Size] = [0] * image.rank
    derived[dims.output_batch_dimension] = image.sizes[dims.input_batch_dimension]
    for place, axis, k, step, apart in zip(out, space, kernel, steps, distances, strict=True):
        reach = (int(w.sizes[k]) - 1) * apart + 1  # pyright: ignore
        derived[place] = (image.sizes[axis] - reach) // step + 1
    element, sizes = type_of(op.results[0], derived)
    inputs, outputs = dims.kernel_input_feature_dimension, dims.kernel_output_feature_dimension
    images = {dims.input_batch_dimension: dims.output_batch_dimension}
    kernels = {outputs: dims.output_feature_dimension}
    loops = len(sizes)
    if group == 1:
        images[dims.input_feature_dimension] = kernels[inputs] = loops
        loops += 1
    elif w.sizes[inputs] == 1 and w.sizes[outputs] == group:
        images[dims.input_feature_dimension] = dims.output_feature_dimension
        w = b.reshape(w, [n for i, n in enumerate(w.sizes) if i != inputs])
        kernels = {i - (i > inputs): v for i, v in kernels.items()}
        kernel = [i - (i > inputs) for i in kernel]
    else:
        order = [dims.input_batch_dimension, dims.input_feature_dimension, *space]
        window = Window(
            [int(w.sizes[k]) for k in kernel], steps, distances,  # pyright: ignore
            [0] * len(ones), [0] * len(ones), [0] * len(ones), [sizes[i] for i in out],
        )  # fmt: skip
        weights = b.transpose(w, [outputs, inputs, *kernel])
        result = convolve(b, b.transpose(image, order), weights, window, group, element)  # pyright: ignore
        natural = [dims.output_batch_dimension, dims.output_feature_dimension, *out]
        return b.transpose(result, [natural.index(i) for i in range(len(sizes))])
    for i, axis in enumerate(space):
        walk = AffineDimExpr(out[i]) * steps[i] + AffineDimExpr(loops + i) * distances[i]
        images[axis], kernels[kernel[i]] = walk, loops + i
    maps = [[m[d] for d in range(len(m))] for m in (images, kernels)]
    return b.contract(image, maps[0], w, maps[1], sizes, loops + len(ones), element)


def _batch_groups_as_features(
    b: Importer, x: Tensor, batch: int, feature: int, groups: int
) -> Tensor:
    """Moves the groups of an image's batch in front of its features, and joins both."""
    sizes: list[Any] = list(x.sizes)
    sizes[batch] //= groups
    apart = b.reshape(x, [*sizes[:batch], groups, *sizes[batch:]])
    order = [i for i in range(apart.rank) if i != batch]
    order.insert(feature, batch)
    sizes[feature] *= groups
    return b.reshape(b.transpose(apart, order), sizes)


@operation("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(b: Importer, op: Any, x: Tensor, indices: Tensor, *shape: Tensor) -> Tensor:
    """Imports a gather: each element of the result reads one index per indexed dimension."""
    hlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    dims = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    parts: list[Any] = sizes_in(b, shape[0]) if shape else integers(op, "slice_sizes")
    offsets, named = list(dims.offset_dims), list(dims.start_index_map)
    alike = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    batch = [i for i in range(op.results[0].type.rank) if i not in offsets]
    inner = [d for d in range(x.rank) if d not in (*dims.collapsed_slice_dims, *alike)]
    source, places = Reader(b, x), Reader(b, indices)
    vector = dims.index_vector_dim
    rows = [n for d, n in enumerate(indices.sizes) if d != vector]
    derived = dict(zip(batch, rows, strict=True))
    derived |= {i: parts[d] for d, i in zip(inner, offsets, strict=True)}
    element, sizes = type_of(op.results[0], [derived[i] for i in range(len(derived))])

    def body(s: Scalars) -> Number:
        row = [s.index(i) for i in batch]
        at = [s.number(0, I64) for _ in range(x.rank)]
        for k, d in enumerate(named):
            index = _of_vector(s, places, row, vector, k)
            last = b.size_number(s, x.sizes[d] - parts[d], I64)
            at[d] = s.minimum(s.maximum(index, 0), last)
        for d, i in alike.items():
            at[d] = row[i - (i > vector)]
        for d, i in zip(inner, offsets, strict=True):
            at[d] = at[d] + s.index(i) if d in named else s.index(i)
        return source.read(s, at)

    return b.mapped(body, [], sizes, element)


def _of_vector(s: Scalars, places: Reader, row: list[Number], vector: int, k: int) -> Number:
    """Returns component k of an index vector, in i64."""
    if vector == len(places.extents):
        return places.read(s, row).to(I64)
    return places.read(s, [*row[:vector], s.number(k, I64), *row[vector:]]).to(I64)


@operation("stablehlo.scatter")
def scatter(b: Importer, op: Any, *tensors: Tensor) -> Sequence[Tensor]:
    """
    Imports a scatter: each element of the result loops over all updates.

    An update is skipped if its window is not completely inside the tensor.
    """
    hlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
    count = len(tensors) // 2
    targets, indices, (updates, *_) = tensors[:count], tensors[count], tensors[count + 1 :]
    x = targets[0]
    dims = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    named, vector = list(dims.scattered_dims_to_operand_dims), dims.index_vector_dim
    windows = list(dims.update_window_dims)
    alike = dict(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    rows = [i for i in range(updates.rank) if i not in windows]
    inner = [d for d in range(x.rank) if d not in (*dims.inserted_window_dims, *alike)]
    parts = {d: updates.sizes[i] for d, i in zip(inner, windows, strict=True)}
    counts = [updates.sizes[i] for i in rows]
    every = list(range(x.rank))
    sources, places = [Reader(b, t) for t in tensors[count + 1 :]], Reader(b, indices)
    combine = op.regions[0].blocks[0]
    starts = [(b.value(b.elementwise(lambda s, x: x, t)), t.element) for t in targets]

    def write(s: Scalars, *held: Number) -> Sequence[Number]:
        row = [s.index(x.rank + i) for i in range(len(rows))]
        at: list[Number] = [s.number(0, I64)] * updates.rank
        for i, place in zip(rows, row, strict=True):
            at[i] = place
        mine: list[Number] = []
        for d in every:
            here, size = s.index(d), parts.get(d, 1)
            if d in alike:
                mine.append(row[alike[d] - (alike[d] > vector)].equals(here))
                continue
            if d not in named:
                start = s.number(0, I64)
            else:
                start = _of_vector(s, places, row, vector, named.index(d))
                last = b.size_number(s, x.sizes[d] - size, I64)
                mine.append((start >= 0) & (start <= last))
            offset = here - start
            if size != x.sizes[d] or d in named:
                mine.append((offset >= 0) & (offset < b.size_number(s, size, I64)))
            if d in parts:
                last = b.size_number(s, size - 1, I64)
                at[windows[inner.index(d)]] = s.minimum(s.maximum(offset, 0), last)
        new = b.scalars(combine, s, [*held, *(source.read(s, at) for source in sources)])
        if not mine:
            return new
        hits = reduce(and_, mine)
        return [s.select(hits, n, old) for n, old in zip(new, held, strict=True)]

    return b.accumulate(write, starts, [], x.sizes, counts)
