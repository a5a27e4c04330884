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
    axis along them, "r" or "c".
    """

    fragment: Fragment
    axis: str
    vector: int
    size: int

    @property
    def other(self) -> str:
        return "c" if self.axis == "r" else "r"

    def _of_lane(self, axis: str) -> list[tuple[int, int]]:
        """Bits of the invocation's number, and which of the axis they are."""
        names = self.fragment.lane
        return [(bit, int(name[1:])) for bit, name in enumerate(names) if name[0] == axis]

    def _of_component(self, axis: str) -> list[tuple[int, int]]:
        names = self.fragment.component
        return [(bit, int(name[1:])) for bit, name in enumerate(names) if name[0] == axis]

    @property
    def share(self) -> int:
        """Elements of a row that an invocation has in one fragment."""
        return 1 << len(self._of_component(self.axis))

    @property
    def fragments(self) -> int:
        """Fragments side by side that share a block."""
        return self.vector // self.share

    @property
    def block_vectors(self) -> int:
        """Vectors of a block."""
        return 1 << len(self._of_lane(self.axis))

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
        """
        Returns the offset from the invocation's own row of each row of which it has components.
        """
        return sorted({self._place(n, self.other) for n in range(self._component_count)})

    @property
    def _component_count(self) -> int:
        return 1 << len(self.fragment.component)

    def _place(self, component: int, axis: str) -> int:
        bits = self._of_component(axis)
        return sum((component >> bit & 1) << place for bit, place in bits)

    @property
    def components(self) -> list[tuple[int, int]]:
        """
        Returns for each component the number of its row among `rows`, and its element's in the
        share.
        """
        ranks = [bit for bit, _ in self._of_component(self.axis)]
        places: list[tuple[int, int]] = []
        for number in range(self._component_count):
            along = sum((number >> bit & 1) << rank for rank, bit in enumerate(ranks))
            places.append((self.rows.index(self._place(number, self.other)), along))
        return places

    @property
    def weights(self) -> dict[int, int]:
        """Returns the weight of each bit of the axis in the element's number in its block."""
        own = {place: 1 << rank for rank, (_, place) in enumerate(self._of_component(self.axis))}
        lanes = enumerate(self._of_lane(self.axis))
        return own | {place: self.vector << rank for rank, (_, place) in lanes}

    def element(self, number: int, bits: int) -> int:
        """The element that stands in a fragment, of all side by side, at a place of the axis."""
        block, of_block = divmod(number, self.fragments)
        in_block = sum(w for bit, w in self.weights.items() if bits >> bit & 1)
        return block * self.block_vectors * self.vector + of_block * self.share + in_block

    @property
    def lane_row_bits(self) -> list[tuple[int, int]]:
        """Bits of the invocation's number, and the bits of its row that they give."""
        return self._of_lane(self.other)

    @property
    def lane_vector_bits(self) -> list[tuple[int, int]]:
        """The bits of a lane's number that count its vector in a block, each with its rank."""
        return [(bit, rank) for rank, (bit, _) in enumerate(self._of_lane(self.axis))]
