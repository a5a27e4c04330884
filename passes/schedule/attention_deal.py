"""
Orders the elements of rows so that each invocation can load its fragment components as vectors.

A fragment has an axis along rows (queries or keys) and an axis along the head. Along the head,
some position bits come from the lane and some from the component index. The order replaces the
natural order in a block of `count` neighbouring fragments: the component's bits become the lowest
bits of the element index, then the fragment's index, then the lane's bits. The elements of an
invocation are then contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.targets import Fragment


@dataclass(frozen=True)
class Deal:
    """
    An order of the `size` elements of a row, for loads by vectors of `vector` elements.

    `axis` (0 or 1) is the fragment's axis along the rows. Elements have 16 bits. If `paired`, a
    word holds one element of each of two neighbouring rows; the two rows count as one row, and
    `vector` counts words.
    """

    fragment: Fragment
    axis: int
    vector: int
    size: int
    paired: bool = False

    @property
    def share(self) -> int:
        """Number of a row's elements that an invocation holds in one fragment."""
        return 1 << len(self.fragment.component.bits_along(self.axis))

    @property
    def fragments(self) -> int:
        """Number of neighbouring fragments whose elements are reordered together (a block)."""
        return self.vector // self.share

    @property
    def block_vectors(self) -> int:
        """Number of vectors in a block: neighbouring fragments that are reordered together."""
        return 1 << len(self.fragment.lane.bits_along(self.axis))

    @property
    def blocks(self) -> int:
        """Number of reordered blocks (see `fragments`) in a row."""
        return -(-self.size // (self.block_vectors * self.vector))

    @property
    def count(self) -> int:
        """Number of fragments along a row."""
        return self.blocks * self.fragments

    @property
    def apart(self) -> int:
        """Number of rows that one word combines: 2 if `paired`, else 1."""
        return 2 if self.paired else 1

    @property
    def rows(self) -> list[int]:
        """Offsets of the rows of which an invocation holds components."""
        offsets = self.fragment.component.values(1 - self.axis)
        return [row // self.apart for row in offsets if row % self.apart == 0]

    def halves(self, number: int) -> list[tuple[int, int, int]]:
        """Returns the source of each component: index in `rows`, word, half of the word."""
        rows, halves = self.rows, list[tuple[int, int, int]]()
        for at in self.fragment.component.then(self.axis, self.weights).places:
            row, element = at[1 - self.axis], number * self.share + at[self.axis]
            word, half = (element, row % 2) if self.paired else divmod(element, 2)
            halves.append((rows.index(row // self.apart), word, half))
        return halves

    @property
    def weights(self) -> dict[int, int]:
        """Maps each bit of a position along the axis to its weight in the element index."""
        own, lanes = (
            [place for _, place in bits.bits_along(self.axis)]
            for bits in (self.fragment.component, self.fragment.lane)
        )
        weights = {place: 1 << rank for rank, place in enumerate(own)}
        return weights | {place: self.vector << rank for rank, place in enumerate(lanes)}

    def element(self, number: int, place: int) -> int:
        """Returns the element at position `place` along the axis of fragment `number`."""
        block, of_block = divmod(number, self.fragments)
        in_block = sum(weight for bit, weight in self.weights.items() if place & bit)
        return block * self.block_vectors * self.vector + of_block * self.share + in_block

    @property
    def lane_row_bits(self) -> list[tuple[int, int]]:
        """Bits of the lane index that select the row, with their weights in the row index."""
        bits = self.fragment.lane.bits_along(1 - self.axis)
        return [(bit, weight // self.apart) for bit, weight in bits]

    @property
    def lane_vector_bits(self) -> list[tuple[int, int]]:
        """Bits of the lane index that select the vector, with their weights in the vector index."""
        bits = self.fragment.lane.bits_along(self.axis)
        return [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]

    @property
    def tile_rows(self) -> TileRows:
        """Rows in Workgroup memory, with the stride and swizzle of fewest bank conflicts."""
        together = 128 // (self.vector * (4 if self.paired else 2))
        bits = self.lane_row_bits, self.lane_vector_bits
        lanes = [(_spread(lane, bits[0]), _spread(lane, bits[1])) for lane in range(together)]
        width = self.blocks * self.block_vectors
        rows = 1 + max(row for row, _ in lanes)
        swizzled = width % together == 0 and all(row % rows == 0 for row in self.rows)
        orders = [TileRows(width)]
        if swizzled and rows & (rows - 1) == 0:
            orders.append(TileRows(width, rows, together // rows))
        orders += [TileRows(width + more) for more in range(1, together)]

        def banks(order: TileRows) -> int:
            return len({order.place(row, vector) % together for row, vector in lanes})

        return max(orders, key=banks)


@dataclass(frozen=True)
class TileRows:
    """
    Rows of vectors in Workgroup memory, `stride` vectors apart, with an XOR swizzle.

    The row index modulo `rows` (a power of two), times `weight`, is XORed to the vector index.
    Rows that are read together therefore lie in different banks.
    """

    stride: int
    rows: int = 1
    weight: int = 0

    def place(self, row: int, vector: int) -> int:
        """Returns the address of a row's vector, in vectors."""
        return row * self.stride + (vector ^ row % self.rows * self.weight)

    @property
    def period(self) -> int:
        """Number of vectors after which the swizzle repeats."""
        return self.rows * self.weight


def _spread(number: int, bits: list[tuple[int, int]]) -> int:
    return sum(weight for bit, weight in bits if number >> bit & 1)
