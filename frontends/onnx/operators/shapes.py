"""
Imports operators that move elements or compute shapes.

Lists of sizes, axes and positions must be known while importing; they may contain dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any, NoReturn

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize, ceil_div, exact_quotient
from xdsl_spirv.frontends.onnx.bounds import span_of
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.reading import Reader, of_axis
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Array, Chosen, Tensor, element_of


def integers(b: Nodes, t: Tensor, what: str) -> list[int]:
    """Returns the integers of a known list. Raises `FrontendError` if the list is not known."""
    numbers = t.numbers
    if numbers is None:
        _refuse_unknown(b, what)
    return [int(n) for n in numbers.ravel()]


def _refuse_unknown(b: Nodes, what: str) -> NoReturn:
    is_one = what == "axis" or not what.endswith("s")
    verb, them = ("is", "it a constant") if is_one else ("are", "them constants")
    b.refuse(f"the {what} {verb} computed when the model runs", f"make {them}")


def sizes_in(b: Nodes, t: Tensor, what: str) -> list[Size]:
    """Returns the sizes in a list. Raises `FrontendError` if input sizes do not determine them."""
    if t.known is None:
        _refuse_unknown(b, what)
    return [s if isinstance(s, SymbolicSize) else int(s) for s in t.known.ravel()]


def axis_of(b: Nodes, axis: int, rank: int) -> int:
    """
    Converts a possibly negative axis to a dimension number. Raises `FrontendError` if it is out of
    range.
    """
    if not -rank <= axis < max(rank, 1):
        b.refuse(
            f"axis {axis} is outside of {rank} dimensions", f"give an axis in {-rank} to {rank - 1}"
        )
    return axis % rank if rank else 0


def axes_of(b: Nodes, axes: Sequence[int], rank: int) -> list[int]:
    numbers = [axis_of(b, axis, rank) for axis in axes]
    if len(set(numbers)) != len(numbers):
        b.refuse(f"axes {list(axes)} name a dimension twice", "name each once")
    return numbers


# Shapes as data


def sizes_tensor(sizes: Sequence[Size]) -> Tensor:
    """Returns a 1-D i64 tensor of known sizes."""
    data = np.empty(len(sizes), object)
    data[:] = list(sizes)
    return Tensor(I64, (len(sizes),), known=data)


@operator("Shape")
def shape(b: Nodes, x: Tensor, /, *, start: int = 0, end: int | None = None) -> Tensor:
    return sizes_tensor(x.sizes[slice(start, end)])


@operator("Size")
def size(b: Nodes, x: Tensor, /) -> Tensor:
    return Tensor(I64, (), known=np.array(prod(x.sizes), object))


@operator("Constant")
def constant(
    b: Nodes,
    /,
    *,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Tensor:
    if value_string is not None or value_strings is not None:
        b.refuse(
            "the value is text, but kernels read only numbers",
            "convert the text to numbers on the host",
        )
    if value is not None:
        return Tensor.of(np.asarray(value))
    for number, dtype in ((value_float, np.float32), (value_floats, np.float32)):
        if number is not None:
            return Tensor.of(np.array(number, dtype))
    integer = value_int if value_int is not None else value_ints
    if integer is None:
        b.refuse("the value is sparse", "use a dense tensor of numbers")
    return Tensor.of(np.array(integer, np.int64))


@operator("ConstantOfShape")
def constant_of_shape(b: Nodes, shape: Tensor, /, *, value: Array | None = None) -> Tensor:
    array = np.zeros(1, np.float32) if value is None else np.asarray(value)
    sizes = sizes_in(b, shape, "sizes")
    known = [s for s in sizes if isinstance(s, int)]
    if len(known) == len(sizes) and np.prod(known, dtype=np.int64) <= 1 << 14:
        return Tensor.of(np.full(known, array.item(), array.dtype))
    element = element_of(array.dtype)
    result = Tensor(element, sizes, b.fill(array.item(), sizes, element))
    if array.dtype.kind in "iub":
        result.progression = int(array.item()), 0
    return result


@operator("Range")
def range_(b: Nodes, start: Tensor, limit: Tensor, delta: Tensor, /) -> Tensor:
    """
    Imports Range.

    Without a declared size, the step must be known, and the limits must be known numbers or sizes.
    Between dynamic sizes, the step must be an integer.
    """
    element, step = start.element, delta.numbers
    sizes = b.declared_result
    if sizes is not None and any(t.known is None for t in (start, limit, delta)):

        def spread(s: Scalars, first: Number, by: Number) -> Number:
            return first + s.index(0).to(element) * by

        operands = [(t, [None] * t.rank) for t in (start, delta)]
        return b.mapped(spread, operands, sizes, element)
    first, last = (_number_or_size(b, t) for t in (start, limit))
    if step is None:
        b.refuse("delta is computed when the model runs", "make it a constant")
    by = int(step.item()) if float(step.item()).is_integer() else step.item()
    if not isinstance(first, SymbolicSize) and not isinstance(last, SymbolicSize):
        count: Size = max(0, ceil((last - first) / by))
    elif by and all(isinstance(n, int | SymbolicSize) for n in (by, first, last)):
        span = last - first if by > 0 else first - last
        b.insist_natural(span)
        count = ceil_div(span, abs(by))
    else:
        b.refuse(
            f"a range with a dynamic bound must have integer bounds and an integer step other than "
            f"0, not {first} to {last} in steps of {by}",
            "use integers, or give the dynamic size: --dim",
        )
    moved = b.integer(first) if isinstance(first, SymbolicSize) else None

    def body(s: Scalars) -> Number:
        from_start = s.index(0).to(element) * by
        begin = first if moved is None else Number(s, moved, I64).to(element)
        return from_start + begin  # pyright: ignore

    return b.mapped(body, [], [count], element)


def _number_or_size(b: Nodes, t: Tensor) -> Any:
    """Returns the element of a known one-element tensor, as a number or a size."""
    numbers = t.numbers
    if numbers is None:
        return sizes_in(b, t, "limits")[0]
    number = numbers.item()
    return int(number) if float(number).is_integer() else number


# Operators that keep the order of elements and change the shape


def _reshape_fold(x: Any, shape: Any, **attributes: Any) -> Any:
    return np.reshape(x, [int(s) for s in shape])


@operator("Reshape", fold=_reshape_fold)
def reshape(b: Nodes, x: Tensor, shape: Tensor, /, *, allowzero: int = 0) -> Tensor:
    wanted = sizes_in(b, shape, "sizes")
    if not allowzero:
        wanted = [x.sizes[i] if s == 0 and i < x.rank else s for i, s in enumerate(wanted)]
    if wanted.count(-1) > 1:
        b.refuse("several sizes are -1", "give at most one size as -1")
    if -1 in wanted:
        total, rest = prod(x.sizes), prod(size for size in wanted if size != -1)
        if rest == 0:
            b.refuse("a size is -1 and another size is 0", "give all sizes")
        quotient = exact_quotient(total, rest)
        if quotient is None and isinstance(rest, int) and rest > 0:
            # A run detects a remainder.
            quotient = total // rest
        if quotient is None:
            b.refuse(
                f"the number of elements {total} is not known to be a multiple of {rest}",
                "give all sizes",
            )
        wanted[wanted.index(-1)] = quotient
    return b.reshape(x, wanted)


@operator("Flatten")
def flatten(b: Nodes, x: Tensor, /, *, axis: int = 1) -> Tensor:
    axis = axis + x.rank if axis < 0 else axis
    return b.reshape(x, [prod(x.sizes[:axis]), prod(x.sizes[axis:])])


def _squeeze_fold(x: Any, axes: Any = None, **attributes: Any) -> Any:
    axes = attributes.get("axes") if axes is None else axes
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in axes))


@operator("Squeeze", fold=_squeeze_fold)
def squeeze(b: Nodes, x: Tensor, axes: Tensor | None = None, /) -> Tensor:
    if axes is None:
        dropped = _unit_dimensions(b, x)
    else:
        dropped = axes_of(b, integers(b, axes, "axes"), x.rank)
    if any(isinstance(x.sizes[i], int) and x.sizes[i] != 1 for i in dropped):
        b.refuse(f"{x} does not have size 1 at axes {dropped}", "name axes of size 1")
    for i in dropped:
        b.insist_equal(x.sizes[i], 1)
    sizes = [1 if i in dropped else s for i, s in enumerate(x.sizes)]
    one = b.slice(x, [0] * x.rank, sizes)
    return b.reshape(one, [s for i, s in enumerate(x.sizes) if i not in dropped])


def _unit_dimensions(b: Nodes, x: Tensor) -> list[int]:
    """
    Returns the dimensions of size 1. The declared rank tells if a dynamic dimension has size 1.

    Without a declared rank, dynamic dimensions must not have size 1 in a run.
    """
    ones = [i for i, s in enumerate(x.sizes) if s == 1 or (s, 1) in b.insisted]
    unknown = [i for i, s in enumerate(x.sizes) if not isinstance(s, int) and i not in ones]
    declared = b.declared.get(b.node.output[0])
    if declared is not None and len(declared) == x.rank - len(ones) - len(unknown):
        return sorted(ones + unknown)
    if declared is None or len(declared) != x.rank - len(ones):
        for i in unknown:
            b.insist_natural(x.sizes[i] - 2)
    return ones


def _unsqueeze_fold(x: Any, axes: Any = None, **attributes: Any) -> Any:
    axes = attributes.get("axes") if axes is None else axes
    return np.expand_dims(x, tuple(int(a) for a in axes))


@operator("Unsqueeze", fold=_unsqueeze_fold)
def unsqueeze(b: Nodes, x: Tensor, axes: Tensor, /) -> Tensor:
    numbers = integers(b, axes, "axes")
    new = axes_of(b, numbers, x.rank + len(numbers))
    given = iter(x.sizes)
    return b.reshape(x, [1 if i in new else next(given) for i in range(x.rank + len(new))])


@operator("Transpose")
def transpose(b: Nodes, x: Tensor, /, *, perm: Sequence[int] | None = None) -> Tensor:
    order = list(reversed(range(x.rank))) if perm is None else axes_of(b, perm, x.rank)
    return b.transpose(x, order)


@operator("Expand")
def expand(b: Nodes, x: Tensor, shape: Tensor, /) -> Tensor:
    """
    Imports Expand. If one element is repeated as often as a tensor tells at run time, returns a
    data-dependent list (`chosen`).
    """
    rank = shape.sizes[0]
    if (
        shape.known is None
        and b.declared_result is None
        and prod(x.sizes) == 1
        and isinstance(rank, int)
    ):
        return Chosen(b.reshape(x, [1] * max(rank, x.rank)), 0, None)  # pyright: ignore[reportReturnType]
    return b.expand(x, sizes_in(b, shape, "sizes"))


@operator("Tile")
def tile(b: Nodes, x: Tensor, repeats: Tensor, /) -> Tensor:
    """Imports Tile: broadcasts along a new dimension for each repeat, then collapses it."""
    times = sizes_in(b, repeats, "repeats")
    apart: list[Size] = []
    together: list[Size] = []
    for count, one in zip(times, x.sizes, strict=True):
        apart += [count, one]
        together.append(count * one)
    spread = b.reshape(x, [s for one in x.sizes for s in (1, one)])
    return b.reshape(b.expand(spread, apart), together)


# Splits, slices and joins


def _concat_fold(*arrays: Any, axis: int, **attributes: Any) -> Any:
    return np.concatenate([np.asarray(a, object) for a in arrays], axis)


@operator("Concat", fold=_concat_fold)
def concat(b: Nodes, *tensors: Tensor, axis: int = 1) -> Tensor:
    axis = axis_of(b, axis, tensors[0].rank)
    parts = [t for t in tensors if t.sizes[axis] != 0] or [tensors[0]]
    return parts[0] if len(parts) == 1 else b.concatenate(parts, axis)


@operator("Split")
def split(
    b: Nodes,
    x: Tensor,
    split: Tensor | None = None,
    /,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> list[Tensor]:
    axis = axis_of(b, axis, x.rank)
    whole = x.sizes[axis]
    declared = [(b.declared.get(n) or (None,) * x.rank)[axis] for n in b.node.output]
    numbers = [size for size in declared if size is not None]
    if split is not None and split.known is None and len(numbers) == len(declared):
        parts: list[Size] = [*numbers]
        if isinstance(whole, int) and sum(numbers) != whole:
            b.refuse(
                f"the declared parts {parts} do not fit {x}",
                "correct the declaration",
            )
    elif split is not None:
        parts = sizes_in(b, split, "sizes")
    else:
        count = num_outputs or len(b.node.output)
        part = ceil_div(whole, count)
        parts = [part] * (count - 1) + [whole - part * (count - 1)]
        if isinstance(whole, int) and isinstance(part, int):
            parts = [max(0, min(part, whole - i * part)) for i in range(count)]
    b.insist_natural(parts[-1])
    b.insist_equal(sum(parts, start=0), whole)
    results: list[Tensor] = []
    start: Size = 0
    for part in parts:
        results.append(b.part(x, axis, start, part))
        start = start + part
    return results


def _slice_fold(
    x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **given: Any
) -> Any:
    starts, ends = (
        given.get(n) if v is None else v for n, v in (("starts", starts), ("ends", ends))
    )
    axes = given.get("axes") if axes is None else axes
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index: list[Any] = [slice(None)] * np.ndim(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Unlike in Python, the start of a backward slice is clamped to the dimension.
        first = max(int(start), -np.shape(x)[int(axis)]) if step < 0 else int(start)
        index[int(axis)] = slice(first, _end_of(int(end), int(step)), int(step))
    return x[tuple(index)]


NO_END = ((1 << 31) - 1, (1 << 63) - 1)
"""The largest i32 and i64, which mean the end of a dimension in slices."""


def _end_of(end: Size, step: int) -> Size:
    """
    Returns the end of a slice. A backward slice with end NO_END includes the first element.

    onnxruntime includes the element, although the slice is empty according to ONNX's text.
    """
    return -(1 << 63) if step < 0 and end in NO_END else end


@operator("Slice", fold=_slice_fold)
def slice_(
    b: Nodes,
    x: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
    /,
) -> Tensor:
    """Imports Slice with known bounds, or with bounds from data and a declared size."""
    given, sizes = [t for t in (starts, ends, axes, steps) if t is not None], b.declared_result
    if sizes is not None and any(t.known is None for t in given):
        return _sliced_by_data(b, x, starts, axes, steps, sizes)
    first, last = sizes_in(b, starts, "starts"), sizes_in(b, ends, "ends")
    along = axes_of(b, integers(b, axes, "axes") if axes else range(len(first)), x.rank)
    by = integers(b, steps, "steps") if steps else [1] * len(first)
    begin: list[Size] = [0] * x.rank
    count: list[Size] = list(x.sizes)
    step = [1] * x.rank
    backwards: list[int] = []
    for axis, start, end, stride in zip(along, first, last, by, strict=True):
        stop = _end_of(end, stride)
        begin[axis], count[axis] = span_of(b, x.sizes[axis], start, stop, stride)
        step[axis] = abs(stride)
        if stride < 0:
            backwards.append(axis)
    for axis in backwards:
        # Converts to positions in the reversed dimension.
        begin[axis] = x.sizes[axis] - 1 - begin[axis]
    return b.slice(reverse(b, x, backwards), begin, count, step)


def _sliced_by_data(
    b: Nodes,
    x: Tensor,
    starts: Tensor,
    axes: Tensor | None,
    steps: Tensor | None,
    sizes: Sequence[int],
) -> Tensor:
    """Slices at positions from data, to given sizes. Positions out of bounds are clamped."""
    count = starts.sizes[0]
    if len(sizes) != x.rank or not isinstance(count, int) or (0 in x.sizes and 0 not in sizes):
        b.refuse(
            f"the declared sizes {list(sizes)} do not fit a slice of {x}",
            "correct them",
        )
    source, first = Reader(b, x), Reader(b, starts)
    along, by = axes and Reader(b, axes), steps and Reader(b, steps)

    def body(s: Scalars) -> Number:
        places: list[Number] = []
        for axis in range(x.rank):
            list_ = s, along, count, axis, x.rank
            last = source.extent(s, axis) - 1
            start = source.wrapped(s, of_axis(*list_, first, s.number(0, I64)), axis)
            start = s.minimum(s.maximum(start, 0), last)
            step = s.number(1, I64) if by is None else of_axis(*list_, by, s.number(1, I64))
            places.append(s.minimum(s.maximum(start + s.index(axis) * step, 0), last))
        return source.read(s, places)

    return b.mapped(body, [], sizes, x.element)


def reverse(b: Nodes, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reverses the elements along axes."""
    if not axes:
        return x
    source, ends = Reader(b, x), {i: b.integer(x.sizes[i] - 1) for i in axes}

    def body(s: Scalars) -> Number:
        places = [
            Number(s, ends[i], I64) - s.index(i) if i in axes else s.index(i) for i in range(x.rank)
        ]
        return source.read(s, places)

    return b.mapped(body, [], x.sizes, x.element)


def checked(b: Nodes, indices: Tensor, size: Size) -> None:
    """Raises `FrontendError` if a known index is out of bounds."""
    known = indices.numbers
    if known is None or not isinstance(size, int):
        return
    wrong = known[(known < -size) | (known >= size)]
    if wrong.size:
        b.refuse(
            f"index {wrong[0]} is out of range: the dimension has {size} elements",
            "correct the indices",
        )


def _gather_fold(x: Any, indices: Any, axis: int = 0, **attributes: Any) -> Any:
    return np.take(x, np.asarray(indices, np.int64), axis)


@operator("Gather", fold=_gather_fold)
def gather(b: Nodes, x: Tensor, indices: Tensor, /, *, axis: int = 0) -> Tensor:
    """Gathers slices along an axis; negative indices count from the end."""
    axis = axis_of(b, axis, x.rank)
    known, size = indices.numbers, x.sizes[axis]
    checked(b, indices, size)
    sizes = [*x.sizes[:axis], *indices.sizes, *x.sizes[axis + 1 :]]
    if known is not None and known.size == 1 and isinstance(size, int):
        return b.reshape(b.part(x, axis, int(known.item()) % size, 1), sizes)
    source, inner = Reader(b, x), range(axis, axis + indices.rank)

    def body(s: Scalars, index: Number) -> Number:
        at = source.wrapped(s, index, axis)
        before, behind = range(axis), range(inner.stop, len(sizes))
        return source.read(s, [*map(s.index, before), at, *map(s.index, behind)])

    return b.mapped(body, [(indices, inner)], sizes, x.element)


@operator("DepthToSpace")
def depth_to_space(b: Nodes, x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.sizes
    depth = exact_quotient(c, blocksize * blocksize)
    if depth is None:
        b.refuse(f"{c} channels are not a multiple of {blocksize}^2", "correct blocksize")
    if mode == "DCR":
        apart = b.reshape(x, [n, blocksize, blocksize, depth, h, w])
        moved = b.transpose(apart, [0, 3, 4, 1, 5, 2])
    else:
        apart = b.reshape(x, [n, depth, blocksize, blocksize, h, w])
        moved = b.transpose(apart, [0, 1, 4, 2, 5, 3])
    return b.reshape(moved, [n, depth, h * blocksize, w * blocksize])


@operator("SpaceToDepth")
def space_to_depth(b: Nodes, x: Tensor, /, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.sizes
    rows, columns = exact_quotient(h, blocksize), exact_quotient(w, blocksize)
    if rows is None or columns is None:
        b.refuse(f"{h} x {w} is not a multiple of {blocksize}", "correct blocksize")
    apart = b.reshape(x, [n, c, rows, blocksize, columns, blocksize])
    moved = b.transpose(apart, [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4])
    return b.reshape(moved, [n, c * (blocksize * blocksize), rows, columns])
