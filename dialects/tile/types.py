"""The types of tile programs and the helpers of their verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, FixedBitwidthType, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True, init=False)  # compares types by their fields
class _Shaped(ParametrizedAttribute, TypeAttribute):
    sizes: ArrayAttr[IntAttr]
    element: Attribute

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(size.data for size in self.sizes)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
        return ArrayAttr([IntAttr(size) for size in shape]), element

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for size in self.shape:
                printer.print_string("?x" if size == DYNAMIC_INDEX else f"{size}x")
            printer.print_attribute(self.element)

    def verify(self) -> None:
        if not isinstance(self.element, FixedBitwidthType) or not self.shape:
            raise VerifyException(
                f"{self} must have at least one axis, and integers or floats as elements"
            )


@irdl_attr_definition
class TileType(_Shaped):
    """A tile of a workgroup, with known sizes: `!tile.tile<64x32xf16>`."""

    name = "tile.tile"

    def verify(self) -> None:
        super().verify()
        if min(self.shape) < 1:
            raise VerifyException(f"a tile's sizes must be known and above 0, not {self.shape}")


@irdl_attr_definition
class ViewType(_Shaped):
    """Elements of a buffer that are accessed by indices: `!tile.view<?x64xf16>`."""

    name = "tile.view"


def tile_of(value: SSAValue) -> TileType:
    """Returns the type of a value that is a tile."""
    type = value.type
    assert isinstance(type, TileType)
    return type


def view_of(value: SSAValue) -> ViewType:
    """Returns the type of a value that is a view."""
    type = value.type
    assert isinstance(type, ViewType)
    return type


def scalar_of(type: Attribute) -> Attribute:
    """Returns the element type of a tile. Returns other types unchanged."""
    return type.element if isinstance(type, TileType) else type


def require(condition: bool, text: str) -> None:
    if not condition:
        raise VerifyException(text)


def require_same_elements(a: Attribute, b: Attribute) -> None:
    require(scalar_of(a) == scalar_of(b), f"{a} and {b} have different element types")


def numbers_of(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values.get_values())


def reduce_type(tile: TileType, axis: int) -> Attribute:
    """
    Returns the type of a tile after removing an axis. If it is the only axis, returns the element
    type.
    """
    shape = [size for number, size in enumerate(tile.shape) if number != axis]
    return tile_type(shape, tile.element) if shape else tile.element


def tile_type(shape: Sequence[int], element: Attribute) -> TileType:
    """Creates a tile type."""
    return TileType.new([ArrayAttr([IntAttr(size) for size in shape]), element])


def view_type(shape: Sequence[int], element: Attribute) -> ViewType:
    """Creates a view type."""
    return ViewType.new([ArrayAttr([IntAttr(size) for size in shape]), element])
