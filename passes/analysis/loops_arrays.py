"""
Describes a kernel without a contraction as arrays that are computed from other arrays.

    linalg.fill outs(%t)                      Filled
    linalg.generic ins(%a) outs(%t)     ->    Computed(Loops(Stored(%a), Filled), 0)
    linalg.generic ins(%t) outs(%r)           Computed(Loops(Computed(...)), 0), kept in %r

Nothing is computed here, and only results that leave the kernel are stored: an element of an array
is an expression of elements of the arrays it is made of, which `LoopsCode` writes where it is
needed. `loops_reader` makes them from operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.sizes import extents

Shape: TypeAlias = tuple[Size, ...]


class NotLoops(ValueError):
    """
    The reason why operations are not loops that can be divided among invocations; `op` is the first
    of them.
    """

    def __init__(self, op: Operation, cause: str):
        super().__init__(cause)
        self.op = op


@dataclass(eq=False)
class Array:
    """Elements of type `element` at the points of `shape`."""

    shape: Shape
    element: Attribute


@dataclass(eq=False)
class Stored(Array):
    """A buffer or tensor that comes from outside."""

    value: SSAValue


@dataclass(eq=False)
class Unwritten(Array):
    """An array that was not written: to read it is an error."""

    op: Operation


@dataclass(eq=False)
class Filled(Array):
    """Every element is the scalar `value`."""

    value: SSAValue


@dataclass(eq=False)
class Literal(Array):
    """A constant whose elements differ."""

    dense: DenseIntOrFPElementsAttr
    op: Operation


@dataclass(eq=False)
class Computed(Array):
    """Output number `number` of loops."""

    loops: Loops
    number: int


@dataclass(eq=False)
class Reshaped(Array):
    """An array with the elements of another in row-major order."""

    source: Array


@dataclass(eq=False)
class Transposed(Array):
    """Dimension i is dimension `permutation[i]` of the source; -1 stands for a new one."""

    source: Array
    permutation: tuple[int, ...]


@dataclass(eq=False)
class Sliced(Array):
    """Element i is element `offsets` + i * `strides` of the source."""

    source: Array
    offsets: Shape
    strides: Shape


@dataclass(eq=False)
class Patched(Array):
    """`base` with the elements at `offsets` + i * `strides` replaced by elements of `part`."""

    base: Array
    part: Array
    offsets: Shape
    strides: Shape


@dataclass(eq=False)
class Padded(Array):
    """The source, its first element at `low`, surrounded by a value; None stands for zero."""

    source: Array
    low: Shape
    value: SSAValue | None


@dataclass(eq=False)
class Loops:
    """
    A structured operation: loops, operands read through index maps, and a body per iteration.

    `captured` are the arrays that the body reads at computed indices. `inverse` names, for each
    output, the loop that walks each of its dimensions.
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
    def input_maps(self) -> list[AffineMap]:
        return self.maps[: len(self.inputs)]

    @property
    def output_maps(self) -> list[AffineMap]:
        return self.maps[len(self.inputs) :]

    @property
    def reduces(self) -> bool:
        """True if a loop with more than one iteration is a reduction."""
        return any(
            reduction and size != 1
            for reduction, size in zip(self.reduction, self.sizes, strict=True)
        )


@dataclass(eq=False)
class Result:
    """An array that leaves the kernel, and the buffer it is written to or the tensor it becomes."""

    array: Array
    target: SSAValue


def shaped(value: SSAValue, op: Operation) -> tuple[Shape, Attribute]:
    """The shape and the element type of a tensor or memref."""
    type = value.type
    if not isinstance(type, TensorType | MemRefType):
        raise NotLoops(op, f"{type} is not a ranked tensor or memref")
    return extents(value), type.element_type
