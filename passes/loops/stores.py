"""
Stores elements at their places in a nest's results, except for elements that other parts replace.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import SSAValue

from xdsl_spirv.passes.analysis.loops_arrays import Shape
from xdsl_spirv.passes.analysis.loops_nests import Nest, Place
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.loops.code import LoopsCode


def store_elements(
    code: LoopsCode, nest: Nest, point: tuple[Index, ...], values: Sequence[SSAValue]
) -> None:
    """Stores the elements of a nest's results at a point of its shape."""
    b = code.b
    for (_, place), value in zip(nest.results, values, strict=True):
        at = tuple(
            b.plus(b.times(i, s), o)
            for i, s, o in zip(point, place.strides, place.offsets, strict=True)
        )
        _store(code, place, at, value)


def _store(code: LoopsCode, place: Place, at: tuple[Index, ...], value: SSAValue) -> None:
    b = code.b
    offset = b.linear(at, place.shape)
    memory = code.view(place.target)

    def store(left: Sequence[tuple[Shape, Shape, Shape]]) -> None:
        if not left:
            b.store(value, memory, [offset])
            return
        offsets, sizes, strides = left[0]
        places = [b.plus(i, -o) for i, o in zip(at, offsets, strict=True)]
        condition = code.inside(places, sizes, strides)
        if isinstance(condition, SSAValue):
            outside = b.pure(arith.XOrIOp, condition, b.constant(IntegerAttr(1, i1)))
        else:
            outside = not condition
        b.when(outside, lambda: store(left[1:]))

    store(place.replaced)
