"""
Describes a kernel without a contraction as arrays that are computed from other arrays.

    linalg.fill outs(%t)                      Filled
    linalg.generic ins(%a) outs(%t)     ->    Computed(Loops(Stored(%a), Filled), 0)
    linalg.generic ins(%t) outs(%r)           Computed(Loops(Computed(...)), 0), stored in %r

An element of an array is an expression of elements of other arrays. `LoopsCode` emits the
expression where the element is used. Only results that leave the kernel are stored. `loops_reader`
builds the arrays from operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes import NotPossible
from xdsl_spirv.passes.analysis.sizes import extents

Shape: TypeAlias = tuple[Size, ...]
IndexT = TypeVar("IndexT")


class NotLoops(NotPossible):
    """Raised if an operation cannot be computed by loops that are distributed over invocations."""


@dataclass(eq=False)
class Array:
    """An array of `shape` with elements of type `element`."""

    shape: Shape
    element: Attribute


@dataclass(eq=False)
class Stored(Array):
    """A buffer or tensor from outside of the kernel."""

    value: SSAValue


@dataclass(eq=False)
class Unwritten(Array):
    """An array without contents. Reading an element is an error."""

    op: Operation


@dataclass(eq=False)
class Filled(Array):
    """An array whose elements all equal the scalar `value`."""

    value: SSAValue


@dataclass(eq=False)
class Literal(Array):
    """A constant whose elements differ."""

    dense: DenseIntOrFPElementsAttr
    op: Operation


@dataclass(eq=False)
class Computed(Array):
    """Output `number` of a structured operation, `loops`."""

    loops: Loops
    number: int

    def point(self, at: Sequence[IndexT], nowhere: IndexT) -> list[IndexT]:
        """
        Returns the index of each loop for the element `at`. Loops that do not index the element
        have the index `nowhere`.
        """
        point = [nowhere] * len(self.loops.sizes)
        for loop, index in zip(self.loops.inverse[self.number], at, strict=True):
            if loop is not None:
                point[loop] = index
        return point


@dataclass(eq=False)
class Reshaped(Array):
    """An array with the source's elements in row-major order."""

    source: Array


@dataclass(eq=False)
class Transposed(Array):
    """
    The source with permuted dimensions: dimension i is dimension `permutation[i]` of the source.
    For -1, dimension i is new.
    """

    source: Array
    permutation: tuple[int, ...]

    def place(self, at: Sequence[IndexT], nowhere: IndexT) -> tuple[IndexT, ...]:
        """
        Returns the source's indices of the element `at`. Dimensions that the array drops have the
        index `nowhere`.
        """
        place = [nowhere] * len(self.source.shape)
        for axis, index in zip(self.permutation, at, strict=True):
            if axis >= 0:
                place[axis] = index
        return tuple(place)


@dataclass(eq=False)
class Sliced(Array):
    """An array whose element i is element `offsets` + i * `strides` of the source."""

    source: Array
    offsets: Shape
    strides: Shape


@dataclass(eq=False)
class Patched(Array):
    """`base` with the elements at `offsets` + i * `strides` replaced by the elements of `part`."""

    base: Array
    part: Array
    offsets: Shape
    strides: Shape


@dataclass(eq=False)
class Padded(Array):
    """The source, with its first element at `low`, surrounded by `value` (None: zeros)."""

    source: Array
    low: Shape
    value: SSAValue | None


@dataclass(eq=False)
class Loops:
    """
    A structured operation: loops, operands with index maps, and a body.

    `captured` are the arrays that the body reads at computed indices. `inverse` has, for each
    output, the loop that indexes each dimension.
    """

    op: Operation
    body: Block
    sizes: Shape
    reduction: tuple[bool, ...]
    inputs: list[Array | SSAValue]
    outputs: list[Array]
    maps: list[AffineMap]
    captured: Mapping[SSAValue, Array]
    inverse: list[tuple[int | None, ...]] = field(default_factory=list[Any])

    @property
    def reduced(self) -> list[Size]:
        """Sizes of the loops along which the operation reduces."""
        return [size for size, yes in zip(self.sizes, self.reduction, strict=True) if yes]

    @property
    def input_maps(self) -> list[AffineMap]:
        return self.maps[: len(self.inputs)]

    @property
    def output_maps(self) -> list[AffineMap]:
        return self.maps[len(self.inputs) :]

    @property
    def reduces(self) -> bool:
        """True if a reduction loop has more than one iteration."""
        return any(
            reduction and size != 1
            for reduction, size in zip(self.reduction, self.sizes, strict=True)
        )


@dataclass(eq=False)
class Result:
    """An array that leaves the kernel, and the buffer or tensor that receives it."""

    array: Array
    target: SSAValue


def shaped(value: SSAValue, op: Operation) -> tuple[Shape, Attribute]:
    """Returns the shape and the element type of a tensor or memref."""
    type = value.type
    if not isinstance(type, TensorType | MemRefType):
        raise NotLoops(op, f"{type} is not a ranked tensor or memref")
    return extents(value), type.element_type
