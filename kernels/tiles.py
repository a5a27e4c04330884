"""
Kernels over whole tiles, written in Python.

    from xdsl_spirv import kernels as k
    from xdsl_spirv.kernels import tiles as t

    @t.kernel
    def double(x=t.view(k.f32, None), y=t.view(k.f32, None), *, N=256):
        i = t.place(y, N)
        y.store(i, x.load(i, N) * 2.0)

    double.launch(x, y)["y"]                       # whole tiles, on the interpreter
    double.check(x, y, target="nvidia-h200")       # what invocations do, under all checks
    double.launch(x, y, device="vulkan")

The function runs once for each set of sizes. Its operations become a `tile.program`, which
`lower-tiles` lowers to a kernel. Keyword parameters with integers are sizes that a launch can
change. A loop is `for at in t.range(...)`. A value that a loop changes must be a variable
(`t.variable`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.ir import Block

from xdsl_spirv.dialects import tile
from xdsl_spirv.kernels.tile_kernel import TileKernel, Unwritten, View, ViewType, kernel, view
from xdsl_spirv.kernels.tile_tracer import current
from xdsl_spirv.kernels.tile_values import (
    Number,
    Tile,
    absolute,
    attribute_of,
    binary,
    broadcast_together,
    constant,
    exp,
    exp2,
    log,
    map_tiles,
    rsqrt,
    sqrt,
    tanh,
)
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.kernels.types import Type, boolean, i32

__all__ = [
    "Number", "Tile", "TileKernel", "Unwritten", "Variable", "View", "ViewType", "absolute",
    "clamp", "exp", "exp2", "full", "inf", "kernel", "log", "maximum", "minimum", "multiply_add",
    "place", "places", "range", "rsqrt", "sqrt", "tanh", "variable", "view", "where", "zeros",
]  # fmt: skip


class Variable:
    """A tile or number that loops of the kernel change by assigning to `value`."""

    def __init__(self, value: Any):
        self._value = value
        current().variables.append(self)

    @property
    def value(self) -> Any:
        """The value at the current point of the kernel."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        old = self._value
        if isinstance(value, int | float):
            value = constant(value, old.type)
        if (type(value), value.type, value.shape) != (type(old), old.type, old.shape):
            raise KernelError(
                f"a variable of {old!r} cannot be assigned {value!r}", "", "convert with .to(...)"
            )
        self._value = value


def variable(value: Any) -> Variable:
    """Makes a variable with an initial value."""
    if not isinstance(value, Tile | Number):
        raise KernelError(f"{value!r} is not a tile or number", "", "write zeros(...)")
    return Variable(value)


def range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Number]:
    """Yields the index of a loop of the kernel, like Python's `range`. The step is an int >= 1."""
    if stop is None:
        start, stop = 0, start
    if type(step) is not int or step < 1:
        raise KernelError(f"a loop's step must be above 0, not {step!r}", "", "give an integer")
    return _loop(start, stop, step)


def _loop(start: Any, stop: Any, step: int) -> Iterator[Number]:
    tracer = current()
    bounds = [tracer.as_index(value) for value in (start, stop, step)]
    changed = list(tracer.variables)
    before = [variable.value for variable in changed]
    block = Block(arg_types=[bounds[0].type, *(value.ssa.type for value in before)])
    block.args[0].name_hint = "at"
    for variable, value, argument in zip(changed, before, block.args[1:], strict=True):
        argument.name_hint = value.ssa.name_hint
        variable.value = type(value)(argument, value.type)
    try:
        with tracer.inside(block):
            yield Number(block.args[0], i32)
            results = [variable.value.ssa for variable in changed]
            tracer.insert(scf.YieldOp(*results))
    except GeneratorExit:
        tracer.fault = "break and return are not possible in a loop over tiles.range"
        return
    del tracer.variables[len(changed) :]
    low, high, stride = bounds
    loop = scf.ForOp(low, high, stride, [value.ssa for value in before], block)
    tracer.insert(loop)
    for variable, value, result in zip(changed, before, loop.results, strict=True):
        result.name_hint = value.ssa.name_hint
        variable.value = type(value)(result, value.type)


def place(
    view: View, *sizes: int, axes: tuple[int, ...] | None = None, group: int | None = None
) -> Any:
    """
    Returns the first index of the workgroup's tile along each of `axes` of a view. The slowest axis
    comes first. `sizes` are the tile's sizes along these axes.

    The grid covers the view with tiles of these sizes; other axes have tiles of size 1. With
    `group`, workgroups process this many tiles along the first axis before the next tile along the
    last axis.
    """
    rank = len(view.type.shape)
    chosen = tuple(axes) if axes is not None else tuple(_integers(len(sizes)))
    wanted = (*sizes, *([1] * (len(chosen) - len(sizes))))
    if len(wanted) != len(chosen) or len(set(chosen)) != len(chosen) or not chosen:
        raise KernelError(
            f"{len(sizes)} sizes do not fit the axes {chosen}",
            view.name,
            "give a size for each axis",
        )
    if not all(0 <= axis < rank for axis in chosen) or min(wanted) < 1 or len(chosen) > 3:
        raise KernelError(
            f"axes {chosen} and tile sizes {wanted} do not fit a view of {rank} axes",
            view.name,
            "name up to three of its axes, and sizes above 0",
        )
    if group is not None and (type(group) is not int or group < 1 or len(chosen) != 2):
        cause = f"group={group!r} does not fit {len(chosen)} axes"
        raise KernelError(cause, view.name, "give an integer above 0, and two axes")
    op = tile.PlaceOp(view.ssa, wanted, chosen, group)
    current().insert(op)
    numbers = [Number(first, i32) for first in op.firsts]
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _integers(count: int) -> list[int]:
    return [n for n, _ in enumerate("x" * count)]


def full(value: Any, type: Type, *shape: int) -> Tile:
    """Returns a tile whose elements all have one value."""
    tracer = current()
    number = value if isinstance(value, Number) else constant(value, type)
    if number.type != type:
        raise KernelError(
            f"{number!r} cannot fill a tile of {type}", "", f"convert it: .to({type})"
        )
    ssa = number.ssa if number.ssa.type == type.attribute else None
    if ssa is None and not isinstance(value, Number):
        ssa = tracer.add(arith.ConstantOp(attribute_of(value, type)))
    return Tile(tracer.add(tile.FullOp(ssa or tracer.plain(number.ssa), shape)), type)


def zeros(type: Type, *shape: int) -> Tile:
    """Returns a tile of zeros."""
    return full(0, type, *shape)


def multiply_add(a: Tile, b: Tile, c: Tile) -> Tile:
    """Returns a * b + c of matrices. Products and sums have c's type."""
    shapes = [t.shape for t in (a, b, c)]
    if any(len(shape) != 2 for shape in shapes):
        raise KernelError(
            f"multiply_add does not support {a!r}, {b!r} and {c!r}", "", "give three matrices"
        )
    if a.shape[1] != b.shape[0]:
        turned = "write y.T" if a.shape[1] == b.shape[1] else "load tiles whose sizes fit"
        raise KernelError(
            f"{a!r} and {b!r} have different sizes along K: {a.shape[1]} and {b.shape[0]}",
            "",
            turned,
        )
    if c.shape != (a.shape[0], b.shape[1]) or a.type != b.type:
        other = "convert a factor with .to(...): both need one type"
        raise KernelError(
            f"multiply_add cannot add the product of {a!r} and {b!r} to {c!r}",
            "",
            "give tiles whose sizes fit" if a.type == b.type else other,
        )
    if a.type.is_float != c.type.is_float or a.type.is_signed != c.type.is_signed:
        raise KernelError(
            f"products of {a.type} cannot be added to {c.type}",
            "",
            "use integers only, or floats only",
        )
    unsigned = not a.type.is_float and not a.type.is_signed
    return Tile(current().add(tile.MultiplyAddOp(a.ssa, b.ssa, c.ssa, unsigned)), c.type)


def maximum(a: Any, b: Any) -> Any:
    """Returns the elementwise maximum."""
    return binary("max", a, b)


def minimum(a: Any, b: Any) -> Any:
    """Returns the elementwise minimum."""
    return binary("min", a, b)


def clamp(value: Any, low: Any, high: Any) -> Any:
    """Returns the value limited to the range from `low` to `high`."""
    return minimum(maximum(value, low), high)


def where(condition: Tile, a: Any, b: Any) -> Tile:
    """
    Returns `a` where the condition is true, else `b`, broadcast to one shape. At least one of `a`
    and `b` must be a tile.
    """
    known = next((v for v in (a, b) if isinstance(v, Tile)), None)
    if known is None or condition.type != boolean:
        raise KernelError("where(condition, a, b) needs a tile as a or b", "", "give tiles")
    x, y = (v if isinstance(v, Tile) else full(v, known.type, *known.shape) for v in (a, b))
    if x.type != y.type:
        raise KernelError(
            f"where cannot choose between {x!r} and {y!r}", "", "convert one tile with .to(...)"
        )
    wide = broadcast_together([condition, x, y])
    return map_tiles(wide, known.type, lambda add, c, x, y: add(arith.SelectOp(c, x, y)))


def places(like: Tile) -> tuple[Tile, ...]:
    """
    Returns an array of indices for each axis of a tile: 0, 1, ... along this axis. Each array can
    be broadcast to the tile.
    """
    tracer, rank = current(), len(like.shape)
    result: list[Tile] = []
    for axis, size in enumerate(like.shape):
        numbers = Tile(tracer.add(tile.RangeOp(size)), i32)
        result.append(numbers.reshape(*(size if a == axis else 1 for a in _integers(rank))))
    return tuple(result)
