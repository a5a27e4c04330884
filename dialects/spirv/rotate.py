"""
SPV_KHR_subgroup_rotate: one instruction, in MLIR's syntax.

The rotation reads other invocations, so it has no effect on memory but is not speculatable: moved
under a condition it would read lanes that the condition turned off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import ScopeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import Scope


@irdl_op_definition
class GroupNonUniformRotateKHROp(SPIRVOp):
    """
    The value of the invocation `delta` further on, around the group or the cluster.

    `spirv.GroupNonUniformRotateKHR <Subgroup> %v, %delta, cluster_size(%n) : f32, i32, i32 -> f32`
    """

    name = "spirv.GroupNonUniformRotateKHR"
    INSTRUCTION: ClassVar[str | None] = "OpGroupNonUniformRotateKHR"
    FIELDS: ClassVar[Mapping[str, str]] = {"execution": "execution_scope"}

    execution_scope = prop_def(ScopeAttr)
    value = operand_def()
    delta = operand_def()
    cluster_size = opt_operand_def()
    result = result_def()

    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$execution_scope $value `,` $delta (`,` `cluster_size` `(` $cluster_size^ `)`)? attr-dict "
        "`:` type($value) `,` type($delta) (`,` type($cluster_size)^)? `->` type($result)"
    )

    def __init__(
        self,
        execution_scope: Scope | ScopeAttr,
        value: SSAValue | Operation,
        delta: SSAValue | Operation,
        cluster_size: SSAValue | Operation | None = None,
        result_type: Attribute | None = None,
    ):
        if isinstance(execution_scope, Scope):
            execution_scope = ScopeAttr(execution_scope)
        super().__init__(
            operands=[value, delta, cluster_size],
            properties={"execution_scope": execution_scope},
            result_types=[result_type or SSAValue.get(value).type],
        )

    def verify_(self) -> None:
        rules.rot_03_value(self.value.type, self.result.type)
        rules.bf_09_no_group_operation(self.value.type)
        rules.rot_04_scope(self.execution_scope)
        rules.rot_05_unsigned("Delta", self.delta.type)
        if self.cluster_size is not None:
            rules.rot_05_unsigned("ClusterSize", self.cluster_size.type)
            rules.rot_06_cluster_size(self.cluster_size)
