"""The elements of an attention's result that an invocation holds, and the way they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_multiple
from xdsl_spirv.passes.schedule.attention import MOST_BITS, AttentionPlan


@dataclass(frozen=True)
class ResultRows:
    """Rows of the result in registers."""

    plan: AttentionPlan

    @property
    def _column_weights(self) -> dict[int, int]:
        """The part of the element's number for each bit of a column of the result's fragments."""
        if self.plan.is_dealt("v"):
            return self.plan.deal("v").weights
        return {
            1 << bit: 1 << bit
            for bit in range(self.plan.schedule.instruction.sizes[1].bit_length() - 1)
        }

    def column_of(self, number: int, column: int) -> int:
        """The element of a value at a column of one of the result's fragments."""
        if self.plan.is_dealt("v"):
            return self.plan.deal("v").element(number, column)
        return number * self.plan.schedule.instruction.sizes[1] + column

    @property
    def lane_columns(self) -> list[tuple[int, int]]:
        """Bits of an invocation's number, and the weight of each in its elements' numbers."""
        assert self.plan.shared_places is not None
        weights = self._column_weights
        return [(bit, weights[place]) for bit, place in self.plan.shared_places.lane.bits_along(1)]

    @property
    def most_lane_column(self) -> int:
        """The greatest element offset along the head that follows from a lane's number."""
        return sum(weight for _, weight in self.lane_columns)

    @property
    def stored_at_once(self) -> int:
        """Elements of the result that are neighbours in an invocation and in memory."""
        assert self.plan.shared_places is not None
        weights = self._column_weights
        own = {weights[place] for _, place in self.plan.shared_places.component.bits_along(1)}
        if self.plan.is_dealt("v"):
            deal = self.plan.deal("v")
            own |= {deal.share << i for i in range((deal.fragments).bit_length() - 1)}
        width, most = 1, MOST_BITS // bit_width(self.plan.element_of("result"))
        run = self.plan.layout("result").run(2)
        while width in own and width < most and run % (2 * width) == 0:
            width *= 2
        # Below a word nothing is moved as one.
        return width

    @property
    def stored_in_fragments(self) -> bool:
        """Whether the result is stored cooperatively."""
        return not self.plan.ends_within and self.fragments_are_stored

    @property
    def fragments_are_stored(self) -> bool:
        """Whether fragments that lie inside the result are stored cooperatively."""
        result = self.plan.element_of("result")
        if isinstance(result, BFloat16Type):
            return False
        layout = self.plan.layout("result")
        _, _, _, e = self.plan.extents
        _, n, _ = self.plan.schedule.instruction.sizes
        if e % n:
            return False
        if not layout.is_contiguous(2):
            return False
        alignment = self.plan.count_aligned(n, result)
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, alignment) for step in steps)
