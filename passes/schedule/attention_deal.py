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
    """

    fragment: Fragment
    axis: int
    vector: int
    size: int

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
    def rows(self) -> list[int]:
        """The offset from the invocation's own row of each row of which it has components."""
        return self.fragment.component.values(1 - self.axis)

    @property
    def components(self) -> list[tuple[int, int]]:
        """
        Returns for each component the number of its row among `rows`, and its element's in the
        share.
        """
        rows, dealt = self.rows, self.fragment.component.then(self.axis, self.weights)
        return [(rows.index(at[1 - self.axis]), at[self.axis]) for at in dealt.places]

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
        return self.fragment.lane.bits_along(1 - self.axis)

    @property
    def lane_vector_bits(self) -> list[tuple[int, int]]:
        """Bits of the invocation's number, and the weight of each in its vector's number."""
        bits = self.fragment.lane.bits_along(self.axis)
        return [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]
