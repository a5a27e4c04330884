"""
Defines the layout of a contraction's packed operand, and the operations that pack it.

A packed operand stores its fragments, or the panels of a K tile, one after the other. A subgroup or
workgroup therefore reads contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import (
    KeyedAttr,
    integer_array,
    integers,
    key,
    keyed_attr_definition,
    word,
)
from xdsl_spirv.dialects.schedule.attributes import DYNAMIC
from xdsl_spirv.dialects.schedule.operations import shaped_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, UnknownSizeError, ceil_div, static

Shaped = TensorType | MemRefType


def consecutive(counts: Iterable[int]) -> list[range]:
    """Returns consecutive ranges with the lengths `counts`. The first range begins at 0."""
    return [range(*ends) for ends in pairwise(accumulate(counts, initial=0))]


def _parse_map(parser: AttrParser) -> AffineMapAttr:
    start = parser.pos
    map = parser.parse_attribute()
    if not isinstance(map, AffineMapAttr):
        parser.raise_error(f"expected an affine_map, found {map}", start, parser.pos)
    return map


@keyed_attr_definition
class PackingAttr(KeyedAttr):
    """
    Memory layout of a contraction's operand that is packed into fragments or panels.

    The operand is a batch of (M or N) x K matrices, padded with zeros to multiples of `tile`. Each
    matrix is divided into fragments of `fragment` elements along M or N and along K. The packed
    shape is batch x fragments along K x fragments along M or N x elements of a fragment.

    - `map`: affine map from the loops (batch, M or N, K) to the operand's dimensions.
    - `sizes`: sizes of the loops; DYNAMIC (the least i64) for sizes that an operation's `numbers`
      give.
    - `groups`: numbers of loops for batch, for M or N, and for K.
    - `words`: the order in which an invocation reads the 32-bit words of a fragment. Empty if it is
      the order of the components.

    The device determines the order of elements in a fragment. If a fragment has one row, the
    operand is packed into panels instead: a panel has the elements of one K tile in row-major
    order.
    """

    name = "schedule.packing"
    use: StringAttr = word(("A", "B"), converter=StringAttr, is_leading=True)
    fragment: ArrayAttr[IntAttr] = integers(2, converter=integer_array, least=1)
    tile: ArrayAttr[IntAttr] = integers(2, converter=integer_array, least=1)
    map: AffineMapAttr = key(_parse_map, Printer.print_attribute)
    sizes: ArrayAttr[IntAttr] = integers(converter=integer_array)
    groups: ArrayAttr[IntAttr] = integers(3, converter=integer_array)
    words: ArrayAttr[IntAttr] = integers(converter=integer_array, default=())

    @property
    def fragment_sizes(self) -> tuple[int, int]:
        """Numbers of elements of a fragment along M or N, and along K."""
        outer, inner = (size.data for size in self.fragment)
        return outer, inner

    @property
    def is_panels(self) -> bool:
        """True if the operand is packed into panels. This is the case if a fragment has one row."""
        return self.fragment_sizes[0] == 1

    @property
    def loops(self) -> tuple[range, range, range]:
        """Indices of the loops for batch, for M or N, and for K."""
        batch, outer, inner = consecutive(count.data for count in self.groups)
        return batch, outer, inner

    def sized(self, numbers: Sequence[Size]) -> PackedSizes:
        """Returns the sizes of the loops, with `numbers` in place of the dynamic sizes."""
        known = [size.data for size in self.sizes]
        if known.count(DYNAMIC) != len(numbers):
            raise UnknownSizeError(
                f"a packing got {len(numbers)} numbers for {known.count(DYNAMIC)} dynamic sizes"
            )
        return PackedSizes(self, tuple(fill_in(known, numbers)))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The packed shape. All sizes must be static."""
        batch, inner, outer, elements = static(self.sized(()).shape)
        return batch, inner, outer, elements

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The packed shape, as the dimensions of a tensor type. Dynamic sizes are DYNAMIC_INDEX."""
        batch, outer, inner = (
            any(self.sizes.data[loop].data == DYNAMIC for loop in loops) for loops in self.loops
        )
        ones = [1 for size in self.sizes if size.data == DYNAMIC]
        opens = (batch, inner, outer, False)
        shape = self.sized(ones).shape
        return tuple(
            DYNAMIC_INDEX if is_open else size
            for is_open, size in zip(opens, static(shape), strict=True)
        )

    def verify(self) -> None:
        super().verify()
        if len(self.sizes) != self.map.data.num_dims:
            raise VerifyException(
                f"{len(self.sizes)} sizes are given for {self.map.data.num_dims} loops"
            )
        if sum(count.data for count in self.groups) != len(self.sizes):
            raise VerifyException("groups must add up to the number of loops")
        if any(size.data < 1 for size in self.sizes if size.data != DYNAMIC):
            raise VerifyException("sizes must be positive")
        if sorted(word.data for word in self.words) != list(range(len(self.words))):
            raise VerifyException("`words` must be a permutation of 0, 1, 2, ...")
        for tile, fragment in zip(self.tile, self.fragment, strict=True):
            if tile.data % fragment.data:
                raise VerifyException(
                    f"tile = {tile.data} is not a multiple of the fragment's {fragment.data}"
                )


@dataclass(frozen=True)
class PackedSizes:
    """Sizes of a packed operand. Dynamic sizes are symbolic."""

    packing: PackingAttr
    sizes: tuple[Size, ...]

    @property
    def extents(self) -> tuple[Size, Size, Size]:
        """Sizes of batch, M or N, and K without padding."""
        batch, outer, inner = (
            prod(self.sizes[loop] for loop in loops) for loops in self.packing.loops
        )
        return batch, outer, inner

    @property
    def shape(self) -> tuple[Size, Size, Size, int]:
        """The packed shape."""
        batch, *extents = self.extents
        outer, inner = (
            ceil_div(extent, tile.data) * (tile.data // fragment.data)
            for extent, tile, fragment in zip(
                extents, self.packing.tile, self.packing.fragment, strict=True
            )
        )
        return batch, inner, outer, prod(self.packing.fragment_sizes)


def check_result(result: SSAValue | None, out: SSAValue) -> None:
    """Raises `VerifyException` if a tensor has no result, or a memref has a result."""
    if (result is not None) != isinstance(out.type, TensorType):
        raise VerifyException(
            "the operation must have a result if it writes a tensor, and none if it writes a memref"
        )


def check_numbers(given: Sequence[Any], numbers: Sequence[SSAValue]) -> None:
    """Raises `VerifyException` unless there is one number for each DYNAMIC size."""
    opens = given.count(DYNAMIC)
    if opens != len(numbers):
        raise VerifyException(f"{opens} sizes are dynamic, but {len(numbers)} numbers are given")


def fill_in(given: Iterable[Any], numbers: Sequence[Size]) -> list[Any]:
    """Replaces the DYNAMIC sizes by the numbers, in order."""
    left = iter(numbers)
    return [next(left) if size == DYNAMIC else size for size in given]


def _check_packed(packing: PackingAttr, plain: SSAValue, packed: SSAValue) -> None:
    operand, result = shaped_of(plain), shaped_of(packed)
    if packing.map.data.num_dims and len(packing.map.data.results) != operand.get_num_dims():
        raise VerifyException(f"{packing.map} must have a result for each dimension of {operand}")
    element = operand.element_type
    if result.get_shape() != packing.dimensions or result.element_type != element:
        shape = ("?" if n == DYNAMIC_INDEX else n for n in packing.dimensions)
        expected = "x".join(map(str, (*shape, element)))
        raise VerifyException(f"the result of packing {operand} must be {expected}, not {result}")


@irdl_op_definition
class PackOp(IRDLOperation):
    """
    Copies a contraction's operand into fragments, in the device's element order.

    `schedule.pack %B into %e by <...> : tensor<64x32xf16> into tensor<1x4x2x256xf16> ->
    tensor<1x4x2x256xf16>`; on memrefs it has no result. `numbers` are the dynamic sizes of the
    packing.
    """

    name = "schedule.pack"
    source = operand_def(Shaped)
    destination = operand_def(Shaped)
    numbers = var_operand_def(IndexType)
    packing = prop_def(PackingAttr)
    result = opt_result_def(TensorType)

    assembly_format = (
        "$source `into` $destination (`numbers` $numbers^)? `by` $packing attr-dict `:` "
        "type($source) `into` type($destination) (`->` type($result)^)?"
    )

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        packing: PackingAttr,
        numbers: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[source, destination, list(numbers)],
            properties={"packing": packing},
            result_types=[destination.type if isinstance(destination.type, TensorType) else None],
        )

    def verify_(self) -> None:
        _check_packed(self.packing, self.source, self.destination)
        check_numbers([size.data for size in self.packing.sizes], self.numbers)
        check_result(self.result, self.destination)


@irdl_op_definition
class PackedViewOp(IRDLOperation):
    """
    A view of a packed operand with the unpacked type. The unpacked operand is not in memory.

    `schedule.packed_view %p by <...> : tensor<1x4x2x256xf16> to tensor<64x32xf16>`. `numbers` are
    the dynamic sizes of the packing.
    """

    name = "schedule.packed_view"
    source = operand_def(Shaped)
    numbers = var_operand_def(IndexType)
    packing = prop_def(PackingAttr)
    result = result_def(Shaped)

    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$source (`numbers` $numbers^)? `by` $packing attr-dict `:` type($source) `to` "
        "type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        packing: PackingAttr,
        result_type: Attribute,
        numbers: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[source, list(numbers)],
            properties={"packing": packing},
            result_types=[result_type],
        )

    def verify_(self) -> None:
        _check_packed(self.packing, self.result, self.source)
        check_numbers([size.data for size in self.packing.sizes], self.numbers)
