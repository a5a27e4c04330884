"""
What a schedule means in bytes and counts for one contraction on one target.

Everything that more than one pass needs to agree on (Workgroup memory, the grid, whether a result
tile can be stored directly) is computed here, once, from the contraction, the schedule and the
target.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.ir import Attribute

from xdsl_spirv.dialects.schedule import ContractionAttr, StagedAttr, bit_width
from xdsl_spirv.passes.schedule.contraction import Contraction
from xdsl_spirv.targets import Target


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def vector_type(element_type: Attribute, count: int) -> Attribute:
    """
    The type of `count` elements moved as one: SPIR-V vectors have at most 4 components.

    >>> from xdsl.dialects.builtin import f16
    >>> print(vector_type(f16, 4), vector_type(f16, 8))
    vector<4xf16> vector<4xi32>
    """
    if count == 1:
        return element_type
    if count <= 4:
        return VectorType(element_type, [count])
    words = count * bit_width(element_type) // 32
    return VectorType(i32, [words]) if words > 1 else IntegerType(32)


@dataclass(frozen=True)
class StagedTile:
    """
    One operand's tile as it lies in global and in Workgroup memory: rows of contiguous elements.

    `shape` is the tile's (rows, columns) and `extent` the whole operand's, both as stored.
    `k_axis` says which of the two is K: 1 (columns) as A usually lies, 0 (rows) as B does.
    """

    shape: tuple[int, int]
    extent: tuple[int, int]
    k_axis: int
    element_type: Attribute
    padding: int
    vector: int

    @property
    def element_bytes(self) -> int:
        return bit_width(self.element_type) // 8

    @property
    def moved_type(self) -> Attribute:
        """What one invocation moves at a time."""
        return vector_type(self.element_type, self.vector)

    @property
    def row_vectors(self) -> int:
        """Vectors in a row of the tile, without its padding."""
        return self.shape[1] // self.vector

    @property
    def stride(self) -> int:
        """Vectors from one row to the next in Workgroup memory."""
        return (self.shape[1] + self.padding) // self.vector

    @property
    def vectors(self) -> int:
        return self.shape[0] * self.row_vectors

    @property
    def workgroup_bytes(self) -> int:
        return self.shape[0] * (self.shape[1] + self.padding) * self.element_bytes

    @property
    def guarded(self) -> tuple[bool, bool]:
        """Whether some tile reaches beyond the operand along rows, columns."""
        return self.extent[0] % self.shape[0] != 0, self.extent[1] % self.shape[1] != 0


@dataclass(frozen=True)
class Plan:
    """A contraction with its schedule on a target."""

    contraction: Contraction
    schedule: ContractionAttr
    target: Target
    a: StagedTile
    b: StagedTile

    @property
    def invocations(self) -> int:
        return self.schedule.subgroup_count * self.target.subgroup_size

    @property
    def tiles(self) -> tuple[int, int]:
        """Workgroup tiles along M and N."""
        tile_m, tile_n, _ = self.schedule.tile
        return ceil_div(self.contraction.m, tile_m), ceil_div(self.contraction.n, tile_n)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups in x, y, z: neighbours in x lie along the raster's dimension."""
        rows, columns = self.tiles
        by_rows = self.schedule.raster.data == "rows"
        return (columns, rows, 1) if by_rows else (rows, columns, 1)

    @property
    def result_bytes(self) -> int:
        return bit_width(self.contraction.element_types[2]) // 8

    @property
    def result_aligned(self) -> bool:
        """
        Whether a fragment of the result may be loaded and stored directly in global memory.

        Pointer and stride must be multiples of min(16, bytes of a fragment's row).
        """
        _, n, _ = self.schedule.instruction.sizes
        needed = min(self.target.cooperative_matrix_alignment, n * self.result_bytes)
        row = self.contraction.n * self.result_bytes
        return row % needed == 0 and n * self.result_bytes % needed == 0

    @property
    def whole_tiles(self) -> bool:
        """Whether every workgroup tile lies inside the result."""
        tile_m, tile_n, _ = self.schedule.tile
        return self.contraction.m % tile_m == 0 and self.contraction.n % tile_n == 0

    @property
    def scratch_shape(self) -> tuple[int, int] | None:
        """
        Rows and columns of Workgroup memory through which result fragments pass, if they must.

        Each subgroup has room for one fragment.
        """
        if self.result_aligned and self.whole_tiles:
            return None
        m, n, _ = self.schedule.instruction.sizes
        return m * self.schedule.subgroup_count, n

    @property
    def workgroup_bytes(self) -> int:
        scratch = self.scratch_shape
        scratch_bytes = scratch[0] * scratch[1] * self.result_bytes if scratch else 0
        return self.a.workgroup_bytes + self.b.workgroup_bytes + scratch_bytes


def _staged(
    path: StagedAttr,
    element_type: Attribute,
    outer: tuple[int, int],
    inner: tuple[int, int],
    k_axis: int,
) -> StagedTile:
    """`outer` and `inner` are (tile, extent) of the operand's M or N, and of K."""
    rows, columns = (inner, outer) if k_axis == 0 else (outer, inner)
    return StagedTile(
        (rows[0], columns[0]),
        (rows[1], columns[1]),
        k_axis,
        element_type,
        path.padding.data,
        path.vector.data,
    )


def plan(contraction: Contraction, schedule: ContractionAttr, target: Target) -> Plan:
    """Pure arithmetic; whether the plan fits is asked of `fit.check`."""
    tile_m, tile_n, tile_k = schedule.tile
    a_type, b_type, _ = contraction.element_types
    inner = (tile_k, contraction.k)
    return Plan(
        contraction,
        schedule,
        target,
        _staged(
            schedule.a, a_type, (tile_m, contraction.m), inner, 0 if contraction.a_transposed else 1
        ),
        _staged(
            schedule.b, b_type, (tile_n, contraction.n), inner, 1 if contraction.b_transposed else 0
        ),
    )
