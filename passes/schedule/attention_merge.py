"""Plans the kernel that merges the parts of an attention: one workgroup for each row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from xdsl.dialects.builtin import MemRefType, TensorType

from xdsl_spirv.dialects.schedule import AttentionMergeOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, named_sizes, static
from xdsl_spirv.passes.analysis.layout import Layout, layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.schedule.attention import drop_guards
from xdsl_spirv.passes.schedule.kinds import KernelPlan
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class MergePlan(KernelPlan):
    """Plans the merge of an attention's partial results for a target."""

    op: AttentionMergeOp
    target: Target

    @cached_property
    def loops(self) -> tuple[Size, ...]:
        return self.op.sized([number(value) for value in self.op.numbers])

    @property
    def width(self) -> int:
        return static(self.loops[-1:])[0]

    @property
    def rows(self) -> Size:
        return prod(self.loops[:-1])

    @property
    def kernel_name(self) -> str:
        return f"attention_merge_{self.count}x{named_sizes((self.rows, self.width))}"

    @property
    def count(self) -> int:
        """Number of parts."""
        assert isinstance(self.op.parts.type, TensorType | MemRefType)
        return self.op.parts.type.get_shape()[0]

    @property
    def invocations(self) -> int:
        size, most = self.target.subgroup_size, self.target.model.attention.lanes.merging_subgroups
        return size * min(most, ceil_div(self.width // self.vector, size))

    @property
    def vector(self) -> int:
        """Elements of a row in one load: at most 2, because two more numbers end each row."""
        return gcd(self.width, 2)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        return self.rows, 1, 1

    @property
    def layout(self) -> Layout:
        """The result's layout, with walks (groups of loops) for rows and for a row's elements."""
        last = len(self.loops) - 1
        groups = (range(last), range(last, last + 1))
        shape = extents(self.op.out)
        return drop_guards(layout_of(self.op.map.data, shape, None, self.loops, groups))
