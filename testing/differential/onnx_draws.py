"""
Draws one node of a random graph: types, values of operands, attributes.

An operator's record determines shapes and attributes. ONNX's schema determines the allowed types.
It also states which parameters are inputs or attributes in an opset, so one record covers all
opsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from xdsl_spirv.testing.differential.onnx_graphs import OPEN, RandomGraph, Value
from xdsl_spirv.testing.differential.onnx_references import CONTRIB, Array, NotComputed

T = TypeVar("T")

TYPES: dict[str, np.dtype[Any]] = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in {
        "float": np.float32,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "double": np.float64,
        "bool": np.bool_,
        **{
            f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
        },
    }.items()
}
"""Element types that are drawn, by ONNX's names."""

F32 = TYPES["tensor(float)"]

OFTEN = 0.55
"""Probability of f32 for operators that allow f32."""

SIZES = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8)


@cache
def _contrib_schemas() -> dict[str, Any]:
    state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return {s.name: s for s in state.get_all_operator_schema() if s.domain == CONTRIB}


@cache
def schema_of(name: str, domain: str, opset: int) -> Any:
    """
    Returns the operator's schema. Raises `NotComputed` if the opset does not have the operator.
    """
    if domain == CONTRIB:
        if name not in _contrib_schemas():
            raise NotComputed(f"ONNX has no schema of {name}")
        return _contrib_schemas()[name]
    defs: Any = import_module("onnx.defs")
    try:
        schema = defs.get_schema(name, opset, domain)
    except Exception as error:
        raise NotComputed(str(error)) from error
    if schema.deprecated:
        raise NotComputed(f"{name} is deprecated")
    return schema


@dataclass(frozen=True)
class Operand:
    """Values of an operand, with a function that draws values of another shape."""

    array: Array
    remake: Callable[[tuple[int, ...]], Array]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


class Draw:
    """A node under construction, with functions that draw its parameters at random."""

    def __init__(self, graph: RandomGraph, name: str, domain: str = "", pool: Sequence[Value] = ()):
        self.graph = graph
        self.rng = graph.rng
        self.name = name
        self.domain = domain
        self.pool = pool
        """Values of earlier nodes, from which the first operand may be taken."""
        self.schema = schema_of(name, domain, graph.opset)
        self._types: dict[str, np.dtype[Any]] = {}

    # Chance

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, part: float) -> bool:
        return bool(self.rng.random() < part)

    def number(self, low: int, high: int) -> int:
        """Returns a random integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    # Types

    def _formal(self, position: int) -> Any:
        formals = self.schema.inputs
        return formals[min(position, len(formals) - 1)]

    def _kind(self, position: int) -> str:
        formal = self._formal(position)
        # onnx and onnxruntime use different names for the attribute.
        return formal.type_str if hasattr(formal, "type_str") else formal.typeStr

    def allowed(self, position: int) -> list[np.dtype[Any]]:
        """Returns the allowed element types of an operand."""
        kind = self._kind(position)
        names = next(
            (c.allowed_type_strs for c in self.schema.type_constraints if c.type_param_str == kind),
            [kind],
        )
        return [TYPES[name] for name in names if name in TYPES]

    def dtype(self, position: int = 0) -> np.dtype[Any]:
        """
        Returns the element type of an operand, drawn on first use. Operands with the same type
        constraint have the same type.
        """
        kind = self._kind(position)
        if kind not in self._types:
            allowed = self.allowed(position)
            if not allowed:
                raise NotComputed(f"{self.name} accepts none of the drawn types")
            often = F32 in allowed and self.chance(OFTEN)
            self._types[kind] = F32 if often else self.pick(allowed)
        return self._types[kind]

    def use(self, dtype: Any, position: int = 0) -> None:
        """Sets an operand's type. Raises `NotComputed` if the type is not allowed."""
        if np.dtype(dtype) not in self.allowed(position):
            raise NotComputed(f"{self.name} does not accept {np.dtype(dtype)}")
        self._types[self._kind(position)] = np.dtype(dtype)

    # Shapes

    def size(self) -> int:
        if self.graph.open_sizes and self.chance(0.4):
            return self.pick(OPEN)
        return 0 if self.chance(0.015) and not self.graph.open_sizes else self.pick(SIZES)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.number(max(least, min(1, most)), most) if self.chance(0.95) else least
        return tuple(self.size() for _ in range(rank))

    def axis(self, rank: int) -> int:
        """Returns a random axis. It may be negative, counted from the end."""
        return int(self.rng.integers(-rank, rank)) if rank else 0

    def axes(self, rank: int, some: bool = True) -> list[int]:
        """Returns distinct random axes. Each may be negative, counted from the end."""
        count = self.number(1 if some else 0, rank) if rank else 0
        chosen = self.rng.permutation(rank)[:count]
        return [int(a) - rank * int(self.rng.integers(2)) for a in chosen]

    def narrowed(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns a random shape that broadcasts to the given one."""
        sizes = [1 if self.chance(0.3) else size for size in shape]
        return tuple(sizes[self.number(0, len(sizes)) if self.chance(0.3) else 0 :])

    # Values

    def values(
        self,
        position: int,
        shape: Sequence[int],
        low: float | None = None,
        high: float | None = None,
        dtype: Any = None,
    ) -> Operand:
        """
        Returns an operand with random values: between `low` and `high`, or from the whole range of
        the type.
        """
        kind = np.dtype(dtype) if dtype is not None else self.dtype(position)

        def remake(shape: tuple[int, ...]) -> Array:
            return drawn(self.graph, kind, shape, low, high)

        return Operand(remake(tuple(shape)), remake)

    def main(self, least: int = 0, most: int = 4, **bounds: float) -> Operand | Value:
        """
        Returns the first operand. It is a value of the pool if one fits, otherwise of a random
        shape.
        """
        fits = [
            v for v in self.pool if least <= v.rank <= most and v.array.dtype in self.allowed(0)
        ]
        if self.pool and not fits:
            raise NotComputed("no earlier value fits the operand")
        if fits:
            value = fits[-1] if self.chance(0.8) else self.pick(fits)
            self.use(value.array.dtype)
            return value
        return self.values(0, self.shape(least, most), **bounds)

    def several(self, count: int, **bounds: float) -> list[Operand | Value]:
        """
        Returns operands whose shapes broadcast to each other. The operand from `main` comes first
        or last.
        """
        first = self.main(0, 4, **bounds)
        rest = [self.values(i, self.narrowed(first.shape), **bounds) for i in range(1, count)]
        if self.pool or self.chance(0.5):
            return [first, *rest]
        return [*rest, first] if self.dtype(0) == self.dtype(count - 1) else [first, *rest]

    # The node

    def add(self, *operands: Any, outputs: int | Sequence[bool] = 1, **named: Any) -> list[Value]:
        """
        Adds the node to the graph. Returns its outputs.

        An operand is an `Operand`, a list of numbers (a constant), or None. A `named` value
        becomes an attribute or an input, depending on the opset, or is dropped. A tuple lists
        choices; at most one choice is used.
        """
        given = [self._value(i, operand) for i, operand in enumerate(operands)]
        attributes: dict[str, Any] = {}
        formals = [formal.name for formal in self.schema.inputs]
        for name, value in named.items():
            if isinstance(value, tuple):
                if self.chance(0.3):
                    continue
                value = self.pick(value)
            if value is None or (isinstance(value, list) and not value):
                continue
            if name in self.schema.attributes:
                attributes[name] = _attribute(value)
            elif name in formals:
                position = formals.index(name)
                given += [None] * (position + 1 - len(given))
                given[position] = self._value(position, value)
        return self.graph.nodes_of(
            self.name, *given, outputs=outputs, domain=self.domain, **attributes
        )

    def _value(self, position: int, operand: Any) -> Value | None:
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, Operand):
            return self.graph.either(operand.array, operand.remake)
        array = np.asarray(operand)
        if array.dtype == np.float64 or (array.dtype == np.int64 and not array.size):
            allowed = self.allowed(position)
            array = array.astype(allowed[0] if len(allowed) == 1 else array.dtype)
        if self.graph.open_sizes and array.dtype == np.int64:
            return computed_sizes(self.graph, array)
        return self.graph.constant(array)


def _attribute(value: Any) -> Any:
    if isinstance(value, Operand):
        value = value.array
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else value.tolist()
    return value


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5)


def drawn(
    g: RandomGraph,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    low: float | None,
    high: float | None,
) -> Array:
    """
    Returns random numbers of a type. Integers, numbers halfway between two integers, and the ends
    of the range are frequent.
    """
    rng = g.rng
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        least = info.min if low is None else max(int(low), info.min)
        most = info.max if high is None else min(int(high), info.max)
        if low is None and high is None and rng.random() < 0.5:
            least, most = max(-20, least), min(20, most)
        values = rng.integers(least, most, shape, dtype=dtype, endpoint=True)
        ends = rng.choice(np.array([least, most, max(least, min(most, 1))], dtype), shape)
        return np.where(rng.random(shape) < 0.15, ends, values).astype(dtype)
    scale = float(rng.choice([1.0, 1.0, 3.0]))
    values = rng.standard_normal(shape) * scale
    if rng.random() < 0.25:
        values = np.round(values * 2) / 2
    if low is not None or high is not None:
        a, b = (-4.0 if low is None else low), (4.0 if high is None else high)
        values = a + (b - a) * rng.random(shape)
        return values.astype(dtype)
    if g.edges:
        chosen = rng.choice(_at_edges(dtype, g.omitted), shape)
        values = np.where(rng.random(shape) < 0.35, chosen, values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def _at_edges(dtype: np.dtype[Any], omitted: Sequence[str]) -> Array:
    numbers = np.concatenate([np.array(SPECIAL), _extremes(dtype)])
    info: Any = ml_dtypes.finfo(dtype)
    # The sum of squares of values up to this limit does not overflow.
    huge = min(1e5, float(info.max) ** 0.5 / 2)
    left_out = {
        "nan": np.isnan(numbers),
        "inf": np.isinf(numbers),
        "huge": np.isfinite(numbers) & (np.abs(numbers) >= huge),
        "tiny": (numbers != 0) & (np.abs(numbers) < float(info.tiny)),
    }
    kept = np.ones(len(numbers), np.bool_)
    for name in omitted:
        kept &= ~left_out[name]
    return numbers[kept]


def _extremes(dtype: np.dtype[Any]) -> Array:
    info: Any = ml_dtypes.finfo(dtype)
    big, tiny, least = float(info.max), float(info.tiny), float(info.smallest_subnormal)
    ends = [big, -big, tiny, -tiny, least, -least, tiny / 2, big / 2, 88.0, -88.0, 710.0, 1e4, -1e4]
    return np.array(ends)


def computed_sizes(g: RandomGraph, numbers: Array) -> Value:
    """
    Returns a vector of integers as a value of the graph. If one is a dynamic size, the graph
    computes it from the shapes of its inputs.
    """
    flat = [int(n) for n in numbers.ravel()]
    if not any(_open_factor(n) for n in flat):
        return g.constant(numbers)
    parts = [_computed_size(g, n) for n in flat]
    return g.node("Concat", *parts, axis=0) if numbers.ndim else g.node("Squeeze", *parts)


def _open_factor(number: int) -> int | None:
    return next((p for p in OPEN if number and number % p == 0), None)


def _computed_size(g: RandomGraph, number: int) -> Value:
    factor = _open_factor(number)
    if factor is None:
        return g.constant(np.array([number]))
    sources = [(n, a.shape.index(factor)) for n, a in g.inputs.items() if factor in a.shape]
    if not sources:
        raise NotComputed("no input has a dynamic dimension of this size")
    name, axis = sources[int(g.rng.integers(len(sources)))]
    shape = g.node("Shape", Value(name, g.inputs[name]))
    size = g.node("Gather", shape, g.constant(np.array([axis])))
    rest = number // factor
    return size if rest == 1 else g.node("Mul", size, _computed_size(g, rest))
