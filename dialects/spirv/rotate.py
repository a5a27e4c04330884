"""
SPV_KHR_subgroup_rotate: one instruction, in MLIR's syntax.

`group.py` defines its scope and its effects.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.group import GroupNonUniformOperation


class GroupNonUniformRotateKHROp(GroupNonUniformOperation, result="value"):
    """
    The value of the invocation with the id `id + delta`, modulo the size of the group or cluster.

    `spirv.GroupNonUniformRotateKHR <Subgroup> %v, %delta, cluster_size(%n) : f32, i32, i32 -> f32`
    """

    UNIFORM: ClassVar[tuple[str, str] | None] = "ROT-08", "Delta"
    CLUSTER: ClassVar[str] = "ROT-08"
    INACTIVE: ClassVar[str | None] = "ROT-08"

    value = operand_def()
    delta = operand_def()
    cluster_size = opt_operand_def()
    result = result_def()

    assembly_format = (
        "$execution_scope $value `,` $delta (`,` `cluster_size` `(` $cluster_size^ `)`)? attr-dict "
        "`:` type($value) `,` type($delta) (`,` type($cluster_size)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        rules.rot_03_value(self.value.type, self.result.type)
        rules.bf_09_no_group_operation(self.value.type)
        rules.rot_04_scope(self.execution_scope)
        rules.rot_05_unsigned("Delta", self.delta.type)
        if self.cluster_size is not None:
            rules.rot_05_unsigned("ClusterSize", self.cluster_size.type)
            rules.rot_06_cluster_size(self.cluster_size)
