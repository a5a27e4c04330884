"""
Assigns elements of rows to the components of fragments, so that an invocation's elements can be
read as wide pieces.

A fragment has an axis along rows (queries or keys) and one along the head. Some bits of the latter
are the invocation's, some the component's. Instead of the elements' own order, `count` fragments
side by side take the elements of a block such that each invocation's are neighbours: the bits of
the component are lowest, then which fragment it is, then the bits of the invocation.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.targets import Fragment


@dataclass(frozen=True)
class Deal:
    """
    The deal of `vector` elements to each invocation from rows of `size`; `axis` is the fragment's
    axis along them, 0 or 1.

    Elements have 16 bits. With `paired` the elements of two neighbouring rows lie in a word: a row
    is such a pair, and `vector` counts words.
    """

    fragment: Fragment
    axis: int
    vector: int
    size: int
    paired: bool = False

    @property
    def share(self) -> int:
        """Elements of a row that an invocation has in one fragment."""
        return 1 << len(self.fragment.component.bits_along(self.axis))

    @property
    def fragments(self) -> int:
        """Fragments side by side that share a block."""
        return self.vector // self.share

    @property
    def block_vectors(self) -> int:
        """Vectors of a block."""
        return 1 << len(self.fragment.lane.bits_along(self.axis))

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.size // (self.block_vectors * self.vector))

    @property
    def count(self) -> int:
        """Fragments along a row."""
        return self.blocks * self.fragments

    @property
    def apart(self) -> int:
        """Rows of a fragment that make up one row of the deal."""
        return 2 if self.paired else 1

    @property
    def rows(self) -> list[int]:
        """The rows of which an invocation has components, relative to its first."""
        offsets = self.fragment.component.values(1 - self.axis)
        return [row // self.apart for row in offsets if row % self.apart == 0]

    def halves(self, number: int) -> list[tuple[int, int, int]]:
        """For each component of the fragment: its row among `rows`, its word and half."""
        rows, halves = self.rows, list[tuple[int, int, int]]()
        for at in self.fragment.component.then(self.axis, self.weights).places:
            row, element = at[1 - self.axis], number * self.share + at[self.axis]
            word, half = (element, row % 2) if self.paired else divmod(element, 2)
            halves.append((rows.index(row // self.apart), word, half))
        return halves

    @property
    def weights(self) -> dict[int, int]:
        """Returns what each bit of a place along the axis adds to the element's number."""
        own, lanes = (
            [place for _, place in bits.bits_along(self.axis)]
            for bits in (self.fragment.component, self.fragment.lane)
        )
        weights = {place: 1 << rank for rank, place in enumerate(own)}
        return weights | {place: self.vector << rank for rank, place in enumerate(lanes)}

    def element(self, number: int, place: int) -> int:
        """Returns the element at a place of the axis of a fragment."""
        block, of_block = divmod(number, self.fragments)
        in_block = sum(weight for bit, weight in self.weights.items() if place & bit)
        return block * self.block_vectors * self.vector + of_block * self.share + in_block

    @property
    def lane_row_bits(self) -> list[tuple[int, int]]:
        """Bits of the invocation's number, and the weight of each in its row."""
        bits = self.fragment.lane.bits_along(1 - self.axis)
        return [(bit, weight // self.apart) for bit, weight in bits]

    @property
    def lane_vector_bits(self) -> list[tuple[int, int]]:
        """Bits of the invocation's number, and the weight of each in its vector's number."""
        bits = self.fragment.lane.bits_along(self.axis)
        return [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]

    @property
    def tile_rows(self) -> TileRows:
        """The order of vectors in Workgroup memory, for reads of 128 bytes at once."""
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
    Rows of vectors in Workgroup memory, `stride` vectors apart.

    The last bits of a row's number (below `rows`, a power of two) times `weight` flip bits of a
    vector's number, so that rows that are read together lie in different banks.
    """

    stride: int
    rows: int = 1
    weight: int = 0

    def place(self, row: int, vector: int) -> int:
        """Returns where a vector of a row is."""
        return row * self.stride + (vector ^ row % self.rows * self.weight)

    @property
    def period(self) -> int:
        """Number of vectors after which the flipping of bits repeats."""
        return self.rows * self.weight


def _spread(number: int, bits: list[tuple[int, int]]) -> int:
    """Adds the weights of a number's set bits."""
    return sum(weight for bit, weight in bits if number >> bit & 1)
