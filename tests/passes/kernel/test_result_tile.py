"""Addresses of elements follow the layout, with as little code as possible."""

from __future__ import annotations

from math import prod
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from xdsl_spirv.passes.analysis.layout import Axis, Guard, Layout
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.result_tile import (
    BatchTile,
    Part,
    address_along,
    offset_along,
    origin,
)

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

INDEX = IndexType()


@pytest.mark.parametrize("seed", range(8))
def test_an_index_along_loops_gives_an_address(seed: int, write_code: WriteCode):
    draw = Random(seed)
    sizes = [draw.choice([2, 3, 4]) for _ in range(draw.choice([1, 2, 3]))]
    strides = [draw.choice([1, 5, 12, 40]) for _ in sizes]
    walk = tuple(Axis(size, stride) for size, stride in zip(sizes, strides, strict=True))
    count = prod(sizes)

    def write(b: KernelEmitter, number: SSAValue) -> list[SSAValue]:
        layout = Layout(7, ((), walk, ()))
        address = origin(layout).plus(b, address_along(b, walk, number, 0))
        assert address.inside(b, layout) is True
        return [b.index(address.offset(b)), b.index(offset_along(b, layout, 1, number))]

    numbers = np.arange(count, dtype=np.int32)
    offsets, along = write_code([INDEX], write, invocations=count).run(numbers)
    expected = np.dot(strides, np.unravel_index(numbers, sizes))
    assert np.array_equal(along, expected)
    assert np.array_equal(offsets, expected + 7)


def test_constant_steps_emit_no_code(write_code: WriteCode):
    """The common part of addresses is computed once; the other parts are constants."""

    def write(b: KernelEmitter, number: SSAValue) -> list[SSAValue]:
        walk = (Axis(100, 6),)
        first, second = (address_along(b, walk, number, 0, constant=n) for n in (0, 3))
        assert second.base is first.base
        assert (first.constant, second.constant) == (0, 18)
        return [b.index(second.offset(b))]

    code = write_code([INDEX], write)
    assert code.run(5) == [5 * 6 + 18]
    assert code.count(arith.MuliOp) == 1


def test_a_coordinate_outside_its_dimension_is_outside(write_code: WriteCode):
    layout = Layout(-1, ((), (Axis(5, 1, (1,)),), (Axis(3, 1, (1,)),)), (Guard(-1, 5),))

    def write(b: KernelEmitter, i: SSAValue, k: SSAValue) -> list[SSAValue]:
        address = origin(layout)
        for walk, number in ((1, i), (2, k)):
            address = address.plus(b, address_along(b, layout.walks[walk], number, 1))
        inside = address.inside(b, layout)
        return [b.select(inside, b.number(1), b.number(0))]

    i, k = (part.ravel().astype(np.int32) for part in np.indices((5, 3)))
    (inside,) = write_code([INDEX, INDEX], write, invocations=15).run(i, k)
    place = i + k - 1
    assert np.array_equal(inside, (place >= 0) & (place < 5))


def test_an_address_includes_the_batch(write_code: WriteCode):
    layout = Layout(2, ((Axis(4, 100),), (Axis(5, 10),), (Axis(10, 1),)))

    def write(b: KernelEmitter, *places: SSAValue) -> list[SSAValue]:
        batch, row, column = places
        part = Part(batch, row, b.thread_id(), 8, b.lane_id(), column, subgroups=2, count=3)
        return [
            b.index(BatchTile(b, batch).offset(row, column, layout)),
            b.index(part.first_fragment(b)),
        ]

    assert write_code([INDEX] * 3, write).run(3, 4, 7) == [2 + 300 + 40 + 7, 4 * 2 * 3 + 7 * 3]
