"""Translates indexing maps and scalar operations of `linalg.generic` to TOSA."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap

from xdsl_spirv.compiler.graph_builder import Array, GraphBuilder, Value, numpy_type
from xdsl_spirv.dialects.spirv import tosa
from xdsl_spirv.runtime.errors import ProgramError


def refusal(op: Operation, cause: str) -> ProgramError:
    first = str(op).partition("\n")[0][:160]
    return ProgramError(
        f"the model cannot become a graph: {cause}", first, "compile the model to kernels"
    )


def loop_numbers(sizes: Sequence[int], loop: int) -> Array:
    """
    Returns the indices of one loop, as an array that has size 1 in the dimensions of all other
    loops.
    """
    shape = [size if k == loop else 1 for k, size in enumerate(sizes)]
    return np.arange(sizes[loop], dtype=np.int32).reshape(shape)


@dataclass(frozen=True)
class Windows:
    """
    Sliding windows that an operation reads from an operand.

    `dimensions` are the operand's dimensions along which windows slide. The other lists have an
    entry for each of them.
    """

    dimensions: list[int]
    outer: list[int]
    """The loop over the positions of windows, for each dimension."""
    inner: list[int]
    """The loop over the elements of a window, for each dimension that has one."""
    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    places: list[int]

    @property
    def used(self) -> list[int]:
        """
        For each dimension, the number of elements up to the end of the last window. TOSA refuses
        operands with more elements.
        """
        numbers = zip(self.places, self.stride, self.kernel, self.dilation, strict=True)
        return [(p - 1) * s + (k - 1) * d + 1 for p, s, k, d in numbers]

    def of_two(self, shape: Sequence[int]) -> list[int]:
        """
        Returns the sizes of two dimensions of `shape`, along which windows slide. If windows slide
        along one dimension only, the first size is 1.
        """
        extents = [shape[k] for k in self.dimensions]
        return [1] * (2 - len(extents)) + extents


class Access:
    """
    An affine map from loops to the dimensions of an operand: for each dimension, the coefficients
    of the loops, and a constant.
    """

    def __init__(self, map: AffineMap):
        self.map = map
        count = map.num_dims
        zeros = [0] * count
        self.constant = list(map.eval(zeros, []))
        self.rows = [[0] * count for _ in self.constant]
        for loop in range(count):
            unit = [int(k == loop) for k in range(count)]
            for k, value in enumerate(map.eval(unit, [])):
                self.rows[k][loop] = value - self.constant[k]
        self.used = {i for row in self.rows for i, c in enumerate(row) if c}

    def loops(self) -> list[int | None] | None:
        """
        Returns the loop that indexes each dimension (None for a constant index). Returns None if an
        index is neither a loop nor a constant, or if two dimensions have the same loop.
        """
        loops: list[int | None] = []
        for row, constant in zip(self.rows, self.constant, strict=True):
            used = [i for i, c in enumerate(row) if c]
            if len(used) > 1 or (used and (row[used[0]] != 1 or constant)):
                return None
            loops.append(used[0] if used else None)
        named = [loop for loop in loops if loop is not None]
        return loops if len(set(named)) == len(named) else None

    def all_loops(self) -> list[int] | None:
        """Returns the loop of each dimension, or None if a dimension is not indexed by one loop."""
        loops = self.loops()
        return None if loops is None or None in loops else [i for i in loops if i is not None]

    def places(self, sizes: Sequence[int]) -> list[Value]:
        """
        Returns, for each dimension of the operand, an array with the index that each iteration
        reads. The array has a dimension for each loop.
        """
        return [
            sum(
                (loop_numbers(sizes, loop) * c for loop, c in enumerate(row) if c),
                np.full([1] * len(sizes), constant, np.int32),
            )
            for row, constant in zip(self.rows, self.constant, strict=True)
        ]

    def single(self, op: Operation, k: int) -> int:
        """Returns the loop that indexes dimension k. Raises `ProgramError` if there is none."""
        used = [i for i, c in enumerate(self.rows[k]) if c]
        if len(used) != 1 or self.rows[k][used[0]] != 1 or self.constant[k]:
            raise refusal(op, f"dimension {k} of the map {self.map} is not the index of one loop")
        return used[0]

    def windows(self, op: GenericOp, sizes: Sequence[int]) -> Windows:
        """
        Returns the sliding windows that a reduction reads from the operand. Raises `ProgramError`
        if an index is neither a loop nor a window.
        """
        parallel = [t.data is IteratorType.PARALLEL for t in op.iterator_types]
        dimensions, outer, inner = list[int](), list[int](), list[int]()
        geometry = list[list[int]]()
        for k, row in enumerate(self.rows):
            used = [i for i, c in enumerate(row) if c]
            if len(used) == 1 and row[used[0]] == 1 and not self.constant[k]:
                continue
            moving = [i for i in used if parallel[i]]
            within = [i for i in used if not parallel[i]]
            if self.constant[k] or len(moving) != 1 or len(within) > 1 or min(row) < 0:
                raise refusal(op, f"dimension {k} of the map {self.map} is not a window")
            dimensions.append(k)
            outer.append(moving[0])
            inner += within
            kernel, step = (sizes[within[0]], row[within[0]]) if within else (1, 1)
            geometry.append([kernel, row[moving[0]], step, sizes[moving[0]]])
        if not 1 <= len(geometry) <= 2:
            raise refusal(op, f"windows in {len(geometry)} dimensions are not supported")
        geometry = [[1, 1, 1, 1]] * (2 - len(geometry)) + geometry
        kernel, stride, dilation, places = (list(column) for column in zip(*geometry, strict=True))
        return Windows(dimensions, outer, inner, kernel, stride, dilation, places)


def loop_sizes(op: GenericOp, accesses: Sequence[Access]) -> list[int]:
    """
    Returns the trip count of each loop: the size of an operand's dimension that only this loop
    indexes.
    """
    sizes: dict[int, int] = {}
    for operand, access in zip(op.operands, accesses, strict=True):
        shape = operand.type.get_shape()  # pyright: ignore
        for row, constant, extent in zip(access.rows, access.constant, shape, strict=True):
            used = [i for i, c in enumerate(row) if c]
            if len(used) == 1 and row[used[0]] == 1 and not constant:
                sizes.setdefault(used[0], extent)
    if len(sizes) != len(op.iterator_types.data):
        raise refusal(op, "no operand gives the size of a loop")
    return [sizes[i] for i in range(len(sizes))]


NAN = {"nan_mode": tosa.NaNMode.Propagate}


def multiply(b: GraphBuilder, x: Value, y: Value) -> Value:
    shape = np.broadcast_shapes(b.shape(x), b.shape(y))
    return b.emit(tosa.TosaMulOp, [x, y, np.zeros(1, np.int8)], shape)


def gather(b: GraphBuilder, table: Value, indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """
    Returns the element of `table` that each iteration reads.

    `indices` holds, for each dimension of the table, an array of indices with a dimension for each
    loop. A trailing dimension that a loop reads completely becomes part of the rows that TOSA's
    Gather copies.
    """
    extents, rank = list(b.shape(table)), len(sizes)
    rest, rows = list(indices), list[int]()
    while rest and (loop := _whole_loop(b, rest[-1], extents[len(rest) - 1])) is not None:
        if any(b.shape(other)[loop] > 1 for other in rest[:-1]):
            break
        rest.pop()
        rows.insert(0, loop)
    place: Value = np.zeros([1] * rank, np.int32)
    for index, extent in zip(rest, extents, strict=False):
        place = multiply(b, place, np.full([1] * rank, extent, np.int32))
        place = b.emit(
            tosa.TosaAddOp, [place, index], np.broadcast_shapes(b.shape(place), b.shape(index))
        )
    outer, width = b.shape(place), [sizes[loop] for loop in rows]
    count = math.prod(outer)
    is_truth = b.dtype(table) == np.bool_
    if is_truth:
        table = b.emit(tosa.TosaCastOp, [table], extents, np.int8)
    lines = b.reshape(table, [1, math.prod(extents[: len(rest)]), math.prod(width)])
    shape = [1, count, math.prod(width)]
    value = b.emit(tosa.TosaGatherOp, [lines, b.reshape(place, [1, count])], shape)
    if is_truth:
        value = b.emit(tosa.TosaCastOp, [value], shape, np.bool_)
    loops = [loop for loop in range(rank) if loop not in rows] + rows
    value = b.reshape(value, [outer[loop] for loop in loops[: rank - len(rows)]] + width)
    return b.transpose(value, [loops.index(loop) for loop in range(rank)])


def _whole_loop(b: GraphBuilder, index: Value, extent: int) -> int | None:
    """
    Returns the only loop that changes `index`, if `index` counts all `extent` elements of a
    dimension. Otherwise returns None.
    """
    shape = b.shape(index)
    if not isinstance(index, np.ndarray) or math.prod(shape) != extent or extent not in shape:
        return None
    is_whole = extent > 1 and (index.ravel() == np.arange(extent)).all()
    return shape.index(extent) if is_whole else None


@dataclass(frozen=True)
class Combiner:
    """
    The TOSA operators that combine elements: one for a reduction, one for a pooling and one for two
    operands.
    """

    reduce: type[tosa.TosaOp]
    pool: type[tosa.TosaOp] | None
    neutral: Callable[[np.dtype[Any]], Any]
    combine: Callable[[GraphBuilder, Value, Value], Value]
    parameters: Mapping[str, Any]


def _make_combine(cls: type[tosa.TosaOp], parameters: Mapping[str, Any]) -> Any:
    def combine(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.emit(cls, [x, y], np.broadcast_shapes(b.shape(x), b.shape(y)), **parameters)

    return combine


def _least(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


SUM = Combiner(
    tosa.TosaReduceSumOp, tosa.TosaAvgPool2DOp, lambda t: 0, _make_combine(tosa.TosaAddOp, {}), {}
)
MAXIMUM = Combiner(
    tosa.TosaReduceMaxOp, tosa.TosaMaxPool2DOp, _least, _make_combine(tosa.TosaMaximumOp, NAN), NAN
)
MINIMUM = Combiner(
    tosa.TosaReduceMinOp, None, _greatest, _make_combine(tosa.TosaMinimumOp, NAN), NAN
)
PRODUCT = Combiner(tosa.TosaReduceProductOp, None, lambda t: 1, multiply, {})

COMBINERS: Mapping[str, Combiner] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), SUM),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), MAXIMUM),
    **dict.fromkeys(("arith.minimumf", "arith.minsi"), MINIMUM),
    **dict.fromkeys(("arith.mulf",), PRODUCT),
}

PRODUCTS = (["arith.mulf", "arith.addf"], ["arith.muli", "arith.addi"])

IGNORE = {"nan_mode": tosa.NaNMode.Ignore}

BINARY: Mapping[str, tuple[type[tosa.TosaOp], Mapping[str, Any]]] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), (tosa.TosaAddOp, {})),
    **dict.fromkeys(("arith.subf", "arith.subi"), (tosa.TosaSubOp, {})),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), (tosa.TosaMaximumOp, NAN)),
    **dict.fromkeys(("arith.minimumf", "arith.minsi"), (tosa.TosaMinimumOp, NAN)),
    "arith.maxnumf": (tosa.TosaMaximumOp, IGNORE),
    "arith.minnumf": (tosa.TosaMinimumOp, IGNORE),
    "math.powf": (tosa.TosaPowOp, {}),
    "arith.divsi": (tosa.TosaIntDivOp, {}),
}

UNARY: Mapping[str, type[tosa.TosaOp]] = {
    "math.absf": tosa.TosaAbsOp,
    "math.ceil": tosa.TosaCeilOp,
    "math.cos": tosa.TosaCosOp,
    "math.erf": tosa.TosaErfOp,
    "math.exp": tosa.TosaExpOp,
    "math.floor": tosa.TosaFloorOp,
    "math.log": tosa.TosaLogOp,
    "math.rsqrt": tosa.TosaRsqrtOp,
    "math.sin": tosa.TosaSinOp,
    "math.tanh": tosa.TosaTanhOp,
}

GREATER, EQUAL = tosa.TosaGreaterOp, tosa.TosaEqualOp
FLOAT_COMPARISONS = {"oeq": (EQUAL, 0), "ogt": (GREATER, 0), "oge": (tosa.TosaGreaterEqualOp, 0),
                     "olt": (GREATER, 1), "ole": (tosa.TosaGreaterEqualOp, 1)}  # fmt: skip
INTEGER_COMPARISONS = {"eq": (EQUAL, 0), "sgt": (GREATER, 0), "sge": (tosa.TosaGreaterEqualOp, 0),
                       "slt": (GREATER, 1), "sle": (tosa.TosaGreaterEqualOp, 1)}  # fmt: skip

LOGICAL: Mapping[str, tuple[type[tosa.TosaOp], type[tosa.TosaOp]]] = {
    "arith.andi": (tosa.TosaLogicalAndOp, tosa.TosaBitwiseAndOp),
    "arith.ori": (tosa.TosaLogicalOrOp, tosa.TosaBitwiseOrOp),
    "arith.xori": (tosa.TosaLogicalXorOp, tosa.TosaBitwiseXorOp),
}

CASTS = ("arith.sitofp", "arith.extsi", "arith.trunci", "arith.extf", "arith.truncf",
         "arith.index_cast")  # fmt: skip


def emit_scalar(b: GraphBuilder, op: Operation, values: Sequence[Value]) -> Value:
    """Appends a scalar operation on whole tensors to the graph, or raises `ProgramError`."""
    name, x = op.name, values[0]
    shape = np.broadcast_shapes(*(b.shape(value) for value in values))
    if name in BINARY:
        cls, parameters = BINARY[name]
        return b.emit(cls, values, shape, **parameters)
    if name in UNARY:
        return b.emit(UNARY[name], values, shape)
    if name in ("arith.mulf", "arith.muli"):
        return multiply(b, *values)
    if name == "arith.divf":
        return multiply(b, x, b.emit(tosa.TosaReciprocalOp, values[1:], b.shape(values[1])))
    if name == "math.sqrt":
        root = b.emit(tosa.TosaRsqrtOp, values, shape)
        return b.emit(tosa.TosaReciprocalOp, [root], shape)
    if name == "arith.negf":
        zero: Array = np.zeros(1, b.dtype(x))
        return b.emit(tosa.TosaNegateOp, [x, zero, zero], shape)
    if name == "arith.select":
        return b.emit(tosa.TosaSelectOp, values, shape, b.dtype(values[1]))
    if name == "math.roundeven":
        whole = b.emit(tosa.TosaCastOp, [x], shape, np.int32)
        return b.emit(tosa.TosaCastOp, [whole], shape, b.dtype(x))
    if name in LOGICAL:
        return b.emit(LOGICAL[name][b.dtype(x) != np.bool_], values, shape)
    if name in CASTS or (name == "arith.uitofp" and b.dtype(x) == np.bool_):
        kind = op.results[0].type
        wanted = np.dtype(np.int32) if isinstance(kind, IndexType) else numpy_type(kind)
        if b.dtype(x) == np.bool_ and wanted.kind == "f":
            numbers: list[Array] = [np.full([1] * len(shape), n, wanted) for n in (1, 0)]
            return b.emit(tosa.TosaSelectOp, [x, *numbers], shape, wanted)
        return x if b.dtype(x) == wanted else b.emit(tosa.TosaCastOp, [x], shape, wanted)
    if name == "arith.remsi":
        whole = multiply(b, b.emit(tosa.TosaIntDivOp, values, shape), values[1])
        return b.emit(tosa.TosaSubOp, [x, whole], shape)
    if name in ("arith.extui", "arith.uitofp") and b.dtype(x) == np.int8:
        wide = b.emit(tosa.TosaCastOp, [x], shape, np.int32)
        low: Array = np.full([1] * len(shape), 255, np.int32)
        byte = b.emit(tosa.TosaBitwiseAndOp, [wide, low], shape)
        return b.emit(tosa.TosaCastOp, [byte], shape, numpy_type(op.results[0].type))
    if name == "arith.fptosi":
        halves = [b.emit(cls, [x], shape) for cls in (tosa.TosaCeilOp, tosa.TosaFloorOp)]
        negative = b.emit(GREATER, [np.zeros([1] * len(shape), b.dtype(x)), x], shape, np.bool_)
        truncated = b.emit(tosa.TosaSelectOp, [negative, *halves], shape, b.dtype(x))
        return b.emit(tosa.TosaCastOp, [truncated], shape, numpy_type(op.results[0].type))
    if isinstance(op, arith.CmpfOp | arith.CmpiOp):
        is_float = isinstance(op, arith.CmpfOp)
        names = arith.CMPF_COMPARISON_OPERATIONS if is_float else arith.CMPI_COMPARISON_OPERATIONS
        predicate = names[op.predicate.value.data]
        negated = predicate in ("une", "ne")
        table = FLOAT_COMPARISONS if is_float else INTEGER_COMPARISONS
        form = table.get({"une": "oeq", "ne": "eq"}.get(predicate, predicate))
        if form is not None:
            ordered = values[::-1] if form[1] else values
            result = b.emit(form[0], ordered, shape, np.bool_)
            return b.emit(tosa.TosaLogicalNotOp, [result], shape) if negated else result
    raise refusal(op, f"{name} has no equivalent in TOSA")
