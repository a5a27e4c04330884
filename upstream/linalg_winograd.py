"""Adds `linalg.winograd_*` as in MLIR 22, and their matrices, as a pull request to xDSL would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.linalg_packing import OfOneTensor, shape_of

Matrix: TypeAlias = tuple[tuple[float, ...], ...]


def _over(divisor: float, *rows: Sequence[float]) -> Matrix:
    return tuple(tuple(number / divisor for number in row) for row in rows)


WINOGRAD = ((2, 3), (4, 3), (2, 5))
"""
Sizes (m, r) of a result's tile and of the filter. The attribute `fmr` is an index into this list.
"""


MATRICES: dict[tuple[int, int], tuple[Matrix, Matrix, Matrix]] = {
    (2, 3): (
        _over(2, (-2, 0, 0), (1, -1, 1), (1, 1, 1), (0, 0, 2)),
        _over(1, (-1, 0, 1, 0), (0, -1, 1, 0), (0, 1, 1, 0), (0, -1, 0, 1)),
        _over(1, (1, 1, 1, 0), (0, -1, 1, 1)),
    ),
    (4, 3): (
        _over(12, (12, 0, 0), (-4, 4, -4), (-4, -4, -4), (1, -2, 4), (1, 2, 4), (0, 0, 12)),
        _over(
            16,
            *((4, 0, -5, 0, 1, 0), (0, 4, -4, -1, 1, 0), (0, -4, -4, 1, 1, 0)),
            *((0, 4, -2, -4, 2, 0), (0, -4, -2, 4, 2, 0), (0, 4, 0, -5, 0, 1)),
        ),
        # MLIR multiplies the result by 32 for each axis.
        _over(
            0.25,
            *((1, 2, 2, 1, 1, 0), (0, -2, 2, -2, 2, 0)),
            *((0, 2, 2, 4, 4, 0), (0, -2, 2, -8, 8, 4)),
        ),
    ),
    (2, 5): (
        _over(
            60,
            *((60, 0, 0, 0, 0), (10, -10, 10, -10, 10), (-10, -10, -10, -10, -10)),
            *((-16, 8, -4, 2, -1), (1, 2, 4, 8, 16), (0, 0, 0, 0, 60)),
        ),
        _over(
            16,
            *((2, 3, -4, -3, 2, 0), (0, 2, 1, -5, 2, 0), (0, -2, -5, -1, 2, 0)),
            *((0, 4, -2, -4, 2, 0), (0, -2, -4, 2, 4, 0), (0, 2, 3, -4, -3, 2)),
        ),
        # MLIR multiplies the result by 16 for each axis.
        _over(0.125, (1, 2, 2, 4, 2, 0), (0, -2, 2, -2, 4, 1)),
    ),
}
"""Maps (m, r) to the matrices for filters, images and products. They are scaled as in MLIR."""


class Winograd(OfOneTensor):
    """
    The base class of Winograd's transforms.

    `fmr(F_4_3)` denotes result tiles of 4 x 4 and filters of 3 x 3.
    """

    KEY: ClassVar = "fmr"
    NUMBER: ClassVar[int]
    """Index of the operation's matrix among the matrices in `MATRICES`."""

    fmr = prop_def(IntegerAttr)

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes (m, r) of the result's tiles and of the filter."""
        return WINOGRAD[self.fmr.value.data]

    @classmethod
    def parse_parameter(cls, parser: Parser) -> Attribute:
        start, name = parser.pos, parser.parse_identifier()
        known = [f"F_{m}_{r}" for m, r in WINOGRAD]
        if name not in known:
            parser.raise_error(f"fmr must be one of {', '.join(known)}", start, parser.pos)
        return IntegerAttr(known.index(name), i32)

    def shown_parameter(self) -> str:
        return "F_{}_{}".format(*self.sizes)

    def windows(self) -> tuple[Sequence[int], Sequence[int]]:
        """Returns the shapes of the transformed tensor and of the untransformed tensor."""
        return shape_of(self.result), shape_of(self.input)

    def matrices(self) -> tuple[Matrix, Matrix]:
        """
        Returns the matrix for rows and the matrix for columns. It is ((1.0,),) for an axis without
        transform.
        """
        given = MATRICES[self.sizes][self.NUMBER]
        left, right = (given if self.is_transformed(axis) else ((1.0,),) for axis in (0, 1))
        return left, right

    def steps(self) -> tuple[int, int]:
        """Returns the distance between tiles in rows and in columns."""
        down, right = (self.sizes[0] if self.is_transformed(axis) else 1 for axis in (0, 1))
        return down, right

    def is_transformed(self, axis: int) -> bool:
        """
        True if rows (axis 0) or columns (axis 1) are transformed.

        An axis along which the filter has size 1 is not transformed.
        """
        return self.windows()[0][axis] != 1

    def verify_(self) -> None:
        tiles, image = self.windows()
        if not 0 <= self.fmr.value.data < len(WINOGRAD):
            raise VerifyException(f"fmr should be below {len(WINOGRAD)}")
        m, r = self.sizes
        made = self.tile_sizes(image)
        pairs = [pair for pair in zip(made, tiles, strict=True) if DYNAMIC_INDEX not in pair]
        if any(a not in (1, m + r - 1) for a in tiles[:2]) or any(a != b for a, b in pairs):
            shown = ([s if s != DYNAMIC_INDEX else "?" for s in sizes] for sizes in (made, tiles))
            made, tiles = (", ".join(map(str, sizes)) for sizes in shown)
            raise VerifyException(f"{self.shown_parameter()} needs tiles [{made}], not [{tiles}]")
        if self.output.type != self.result.type:
            raise VerifyException("the result should have the type of outs")

    def tile_sizes(self, image: Sequence[int]) -> Sequence[int]:
        """Returns the shape of the transformed tensor for an image of shape `image`."""
        raise NotImplementedError


@irdl_op_definition
class WinogradFilterOp(Winograd):
    """Transforms filters [F, H, W, C] to [m + r - 1, m + r - 1, C, F]."""

    name = "linalg.winograd_filter_transform"
    NUMBER: ClassVar = 0

    def tile_sizes(self, image: Sequence[int]) -> Sequence[int]:
        f, height, width, c = image
        alpha = sum(self.sizes) - 1
        return (1 if height == 1 else alpha, 1 if width == 1 else alpha, c, f)


@irdl_op_definition
class WinogradInputOp(Winograd):
    """Transforms an image [N, H, W, C] to [m + r - 1, m + r - 1, tiles of H, tiles of W, N, C]."""

    name = "linalg.winograd_input_transform"
    NUMBER: ClassVar = 1

    def tile_sizes(self, image: Sequence[int]) -> Sequence[int]:
        n, *extents, c = image
        m, r = self.sizes
        moved = [self.is_transformed(axis) for axis in (0, 1)]
        counts = [
            (s - r + 1) // m if is_moved and s != DYNAMIC_INDEX else s
            for s, is_moved in zip(extents, moved)
        ]
        return (*self.windows()[0][:2], *counts, n, c)


@irdl_op_definition
class WinogradOutputOp(Winograd):
    """
    Transforms [m + r - 1, m + r - 1, tiles of H, of W, N, F] to [N, H, W, F], and adds the output.
    """

    name = "linalg.winograd_output_transform"
    NUMBER: ClassVar = 2

    def windows(self) -> tuple[Sequence[int], Sequence[int]]:
        return shape_of(self.input), shape_of(self.result)

    def tile_sizes(self, image: Sequence[int]) -> Sequence[int]:
        n, *extents, f = image
        m, _ = self.sizes
        moved = [self.is_transformed(axis) for axis in (0, 1)]
        counts = [
            s // m if is_moved and s != DYNAMIC_INDEX else s for s, is_moved in zip(extents, moved)
        ]
        return (*self.windows()[0][:2], *counts, n, f)


OPERATIONS = (WinogradFilterOp, WinogradInputOp, WinogradOutputOp)
MAKERS = {op.name: (lambda op=op: op) for op in OPERATIONS}
