"""A kernel's operations are converted to arrays, whose contents equal numpy's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, MemRefType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Filled,
    Literal,
    NotLoops,
    Padded,
    Patched,
    Reshaped,
    Sliced,
    Stored,
    Transposed,
)
from xdsl_spirv.passes.analysis.loops_reader import results_of_collective, results_of_operations
from xdsl_spirv.runtime.modules import parse_text

MODULE = parse_text(Path(__file__).with_name("loops_reader.mlir").read_text())
FUNCTIONS = {op.sym_name.data: op for op in MODULE.ops if isinstance(op, FuncOp)}
Numbers = Any
"""A numpy array of f32."""

ELEMENTS: dict[type, Callable[[Any, Any], Any]] = {
    arith.AddfOp: lambda a, b: a + b,
    arith.MulfOp: lambda a, b: a * b,
}


def number(value: SSAValue | None) -> float:
    assert value is not None
    constant = value.owner
    assert isinstance(constant, arith.ConstantOp)
    return cast(FloatAttr[Any], constant.value).value.data


def body(block: Block, arguments: Sequence[float]) -> float:
    """Computes the value that a body of additions and multiplications yields."""
    known: dict[SSAValue, float] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if op.results:
            known[op.results[0]] = ELEMENTS[type(op)](*(known[v] for v in op.operands))
    last = block.last_op
    assert last is not None
    return known[last.operands[0]]


def box(offsets: Any, sizes: Any, strides: Any) -> tuple[slice, ...]:
    triples = zip(offsets, sizes, strides, strict=True)
    return tuple(slice(o, o + n * s, s) for o, n, s in triples)


def contents(array: Array | SSAValue, given: dict[SSAValue, Numbers]) -> Numbers:
    """Returns an array's elements. `given` are the elements of stored arrays."""
    assert isinstance(array, Array)
    elements = (
        run_loops(array, given) if isinstance(array, Computed) else move_elements(array, given)
    )
    assert elements.shape == array.shape
    return elements


def move_elements(array: Array, given: dict[SSAValue, Numbers]) -> Numbers:
    match array:
        case Stored():
            return given[array.value]
        case Filled():
            return np.full(array.shape, number(array.value), np.float32)  # pyright: ignore
        case Literal():
            return np.array(array.dense.get_values(), np.float32).reshape(array.shape)  # pyright: ignore
        case Reshaped():
            return contents(array.source, given).reshape(array.shape)
        case Transposed():
            source = contents(array.source, given)
            result = np.zeros(array.shape, np.float32)  # pyright: ignore
            for at in np.ndindex(result.shape):
                result[at] = source[array.place(at, 0)]
            return result
        case Sliced():
            return contents(array.source, given)[box(array.offsets, array.shape, array.strides)]
        case Patched():
            result = contents(array.base, given).copy()
            result[box(array.offsets, array.part.shape, array.strides)] = contents(
                array.part, given
            )
            return result
        case Padded():
            result = np.full(array.shape, number(array.value), np.float32)  # pyright: ignore
            inner = contents(array.source, given)
            result[box(array.low, inner.shape, [1] * inner.ndim)] = inner
            return result
        case _:
            return np.full(array.shape, np.nan, np.float32)  # pyright: ignore


def run_loops(array: Computed, given: dict[SSAValue, Numbers]) -> Numbers:
    loops = array.loops
    inputs = [contents(operand, given) for operand in loops.inputs]
    result = contents(loops.outputs[array.number], given).copy()
    places = array.point(range(len(array.shape)), -1)
    assert sorted(place for place in places if place >= 0) == [*range(len(array.shape))]
    for point in product(*map(range, loops.sizes)):  # pyright: ignore
        at = tuple(loops.output_maps[array.number].eval(point, []))
        reads = [x[tuple(m.eval(point, []))] for x, m in zip(inputs, loops.input_maps, strict=True)]
        result[at] = body(loops.body, [*reads, result[at]])
    return result


def draw(function: FuncOp) -> dict[SSAValue, Numbers]:
    """Returns small whole numbers for each argument that is a tensor or buffer."""
    generator = np.random.default_rng(len(function.args))
    return {
        argument: generator.integers(-9, 10, argument.type.get_shape()).astype(np.float32)
        for argument in function.args
        if isinstance(argument.type, TensorType | MemRefType)
    }


def read(name: str) -> tuple[Numbers, list[Numbers]]:
    """Returns the contents of a function's result, and the contents of its arguments."""
    function = FUNCTIONS[name]
    given, ops = draw(function), list(function.body.block.ops)
    _, (result,) = results_of_operations(ops[:-1], ops[-1].operands)
    return contents(result.array, given), list(given.values())


def patch(base: Numbers, at: Any, part: Numbers) -> Numbers:
    result = base.copy()
    result[at] = part
    return result


def pad(x: Numbers) -> Numbers:
    return np.pad(x, ((1, 1), (0, 4)), constant_values=7).reshape(14, 2)


def windows(x: Numbers, w: Numbers, s: Numbers) -> Numbers:
    return np.convolve(x, w[::-1], "valid") + s


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("turned", lambda x: np.broadcast_to(x.transpose(2, 0, 1)[:, None], (4, 5, 2, 3))),
        ("pieces", lambda x, y: patch(y, np.s_[:, 5], x[4, 1:7:2])),
        ("side_by_side", lambda *all: np.concatenate(all, 1)),
        ("bordered", pad),
        ("sums", lambda x: x.sum((0, 2)) + 0.5),
        ("constants", lambda: np.array([[3, 4], [5, 6]])),
        ("windows", windows),
    ],
)
def test_the_contents_are_numpys(name: str, expected: Callable[..., Numbers]):
    result, arguments = read(name)
    assert np.array_equal(result, expected(*arguments))


def test_buffers_have_the_contents_at_each_write():
    """
    Written buffers of the caller are the results, in the order of their first writes. A copy of a
    buffer keeps its contents when the buffer changes.
    """
    function = FUNCTIONS["buffers"]
    given = draw(function)
    x, y, z, w, _ = function.args
    _, results = results_of_collective(function.body.block)
    assert [result.target for result in results] == [y, x, z, w]
    whole, changed, filled, halves = (contents(result.array, given) for result in results)
    assert np.array_equal(whole, given[x].ravel())
    assert np.array_equal(changed, patch(given[x], np.s_[1::2, ::2], given[z]))
    assert (filled == 9).all()
    assert halves.tolist() == [[9, 9], [0, 0]]


def test_memory_that_was_never_written_has_no_contents():
    """A part that is written to an empty tensor leaves the rest without contents."""
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<5xf32> {
      %e = tensor.empty() : tensor<5xf32>
      %r = tensor.insert_slice %x into %e[1] [2] [1] : tensor<2xf32> into tensor<5xf32>
      return %r : tensor<5xf32>
    }"""
    (function,) = (op for op in parse_text(text).ops if isinstance(op, FuncOp))
    ops = list(function.body.block.ops)
    _, (result,) = results_of_operations(ops[:-1], ops[-1].operands)
    elements = contents(result.array, draw(function))
    assert np.isnan(elements).tolist() == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("computed_padding", "the padding value depends on the index"),
        ("cropped", "the padding is negative: slice the tensor instead"),
        ("slice_by_data", "offsets are computed at run time: make them static"),
        ("open_stride", "strides are dynamic: make them static"),
        ("diagonal", "an output is indexed by"),
        ("last_one_stays", "the parallel loop d1 does not index every output"),
        ("reduced_rows", "a reduction loop indexes an output: declare the loop parallel"),
        ("foreign", "tensor.from_elements cannot be lowered to loops"),
        ("copy_to_floats", "which differ in shape or type"),
    ],
)
def test_others_are_refused_with_the_reason(name: str, reason: str):
    with pytest.raises(NotLoops, match=reason):
        results_of_collective(FUNCTIONS[name].body.block)
