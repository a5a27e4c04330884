"""
Group instructions from before SPIR-V 1.3, and group instructions of extensions.

All invocations of the group must execute OpGroup* (capability Groups and
SPV_KHR_uniform_group_instructions) and OpSubgroup*KHR together, so these are not speculatable. MLIR
has `spirv.GroupBroadcast`, the eight reductions of Groups, `spirv.KHR.GroupIMul`,
`spirv.KHR.GroupFMul` and `spirv.KHR.SubgroupBallot`. The syntax of the other operations is similar.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import VectorType, i1
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import GroupOperationAttr
from xdsl_spirv.dialects.spirv.constraints import (
    Predicate,
    is_bool,
    is_ieee_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.group import (
    BALLOT,
    GroupInstruction,
    GroupNonUniformOperation,
    GroupVote,
    check_ballot,
    check_scan,
)


class GroupAllOp(GroupVote):
    """True if the operand is true in all invocations of the group."""


class GroupAnyOp(GroupVote):
    """True if the operand is true in any invocation of the group."""


class GroupBroadcastOp(GroupNonUniformOperation):
    """
    The value of the invocation with the given local id, of one to three components.

    `spirv.GroupBroadcast <Workgroup> %x, %id : f32, vector<3xi32>`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    localid = operand_def()
    result = result_def(T)
    assembly_format = (
        "$execution_scope $value `,` $localid attr-dict `:` type($value) `,` type($localid)"
    )

    def verify_(self) -> None:
        self.check_scope()
        rules.bf_09_no_group_operation(self.value.type)
        type_ = self.localid.type
        if not is_integer(rules.element_of(type_)) or (
            isinstance(type_, VectorType) and type_.get_shape()[0] not in (2, 3)
        ):
            raise VerifyException(
                f"{self.name}: a local id must have one to three integers, not {type_}"
            )


class GroupReduction(GroupNonUniformOperation, ABC):
    """
    A reduction or scan over the group: `spirv.X <Workgroup> <Reduce> %x : f32`.

    Clustered and partitioned operations are not allowed.
    """

    PREDICATE: ClassVar[tuple[Predicate, str]] = (is_integer, "integer")
    T: ClassVar = VarConstraint("T", AnyAttr())
    group_operation = prop_def(GroupOperationAttr)
    x = operand_def(T)
    result = result_def(T)
    assembly_format = "$execution_scope $group_operation $x attr-dict `:` type($x)"

    def verify_(self) -> None:
        self.check_scope()
        rules.bf_09_no_group_operation(self.x.type)
        require(self, [self.x.type], *self.PREDICATE)
        check_scan(self.name, self.group_operation.data)


class FloatReduction(GroupReduction, ABC):
    """A reduction or scan of floats."""

    PREDICATE: ClassVar[tuple[Predicate, str]] = (is_ieee_float, "floating-point")


class LogicalReduction(GroupReduction, ABC):
    """A reduction or scan of Booleans."""

    PREDICATE: ClassVar[tuple[Predicate, str]] = (is_bool, "Boolean")


# fmt: off
class GroupIAddOp(GroupReduction): """The sum of integers."""
class GroupFAddOp(FloatReduction): """The sum of floats."""
class GroupFMinOp(FloatReduction): """The minimum of floats."""
class GroupUMinOp(GroupReduction): """The minimum of unsigned integers."""
class GroupSMinOp(GroupReduction): """The minimum of signed integers."""
class GroupFMaxOp(FloatReduction): """The maximum of floats."""
class GroupUMaxOp(GroupReduction): """The maximum of unsigned integers."""
class GroupSMaxOp(GroupReduction): """The maximum of signed integers."""
class GroupIMulOp(GroupReduction, name="spirv.KHR.GroupIMul"): """The product of integers."""
class GroupFMulOp(FloatReduction, name="spirv.KHR.GroupFMul"): """The product of floats."""
class GroupBitwiseAndOp(GroupReduction, name="spirv.KHR.GroupBitwiseAnd"):
    """The bitwise and of integers."""
class GroupBitwiseOrOp(GroupReduction, name="spirv.KHR.GroupBitwiseOr"):
    """The bitwise or of integers."""
class GroupBitwiseXorOp(GroupReduction, name="spirv.KHR.GroupBitwiseXor"):
    """The bitwise exclusive or of integers."""
class GroupLogicalAndOp(LogicalReduction, name="spirv.KHR.GroupLogicalAnd"):
    """The logical and of Booleans."""
class GroupLogicalOrOp(LogicalReduction, name="spirv.KHR.GroupLogicalOr"):
    """The logical or of Booleans."""
class GroupLogicalXorOp(LogicalReduction, name="spirv.KHR.GroupLogicalXor"):
    """The logical exclusive or of Booleans."""
# fmt: on


class SubgroupVote(GroupInstruction, ABC):
    """Combines the Booleans of a subgroup or quad to one: `spirv.X %p : i1`."""

    predicate = operand_def(i1)
    result = result_def(i1)
    assembly_format = "$predicate attr-dict `:` type($result)"


# fmt: off
class SubgroupAllOp(SubgroupVote, name="spirv.KHR.SubgroupAll"):
    """True if the operand is true in all invocations."""
class SubgroupAnyOp(SubgroupVote, name="spirv.KHR.SubgroupAny"):
    """True if the operand is true in any invocation."""
class SubgroupAllEqualOp(SubgroupVote, name="spirv.KHR.SubgroupAllEqual"):
    """True if the operand is equal in all invocations."""
class GroupNonUniformQuadAllOp(SubgroupVote, name="spirv.KHR.GroupNonUniformQuadAll"):
    """True if the operand is true in the whole quad (SPV_KHR_quad_control)."""
class GroupNonUniformQuadAnyOp(SubgroupVote, name="spirv.KHR.GroupNonUniformQuadAny"):
    """True if the operand is true anywhere in the quad (SPV_KHR_quad_control)."""
# fmt: on


class SubgroupBallotOp(GroupInstruction, name="spirv.KHR.SubgroupBallot", result=BALLOT):
    """A ballot of the invocations' Booleans: `spirv.KHR.SubgroupBallot %p : vector<4xi32>`."""

    predicate = operand_def(i1)
    result = result_def(VectorType)
    assembly_format = "$predicate attr-dict `:` type($result)"

    def verify_(self) -> None:
        check_ballot(self, self.result.type)


class SubgroupRead(GroupInstruction, ABC):
    """The value of one invocation, whose index must be equal in all invocations."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    result = result_def(T)

    def check_value(self) -> None:
        """Checks that the value is a scalar or vector of numbers other than bfloat16."""
        type_ = self.operands[0].type
        rules.bf_09_no_group_operation(type_)
        if not rules.is_scalar_or_vector(type_):
            raise VerifyException(f"{self.name} takes scalars and vectors, not {type_}")


class SubgroupFirstInvocationOp(SubgroupRead, name="spirv.KHR.SubgroupFirstInvocation"):
    """The value of the first active invocation: `spirv.KHR.SubgroupFirstInvocation %x : f32`."""

    value = operand_def(SubgroupRead.T)
    assembly_format = "$value attr-dict `:` type($result)"

    def verify_(self) -> None:
        self.check_value()


class SubgroupReadInvocationOp(SubgroupRead, name="spirv.KHR.SubgroupReadInvocation"):
    """The value of a given invocation: `spirv.KHR.SubgroupReadInvocation %x, %i : f32, i32`."""

    value = operand_def(SubgroupRead.T)
    index = operand_def()
    assembly_format = "$value `,` $index attr-dict `:` type($value) `,` type($index)"

    def verify_(self) -> None:
        self.check_value()
        if not is_integer(self.index.type):
            raise VerifyException(
                f"{self.name}: the index must be an integer, not {self.index.type}"
            )


class GroupNonUniformPartitionOp(
    GroupInstruction, name="spirv.NV.GroupNonUniformPartition", result=BALLOT
):
    """
    A ballot of the invocations with the same value (SPV_NV_shader_subgroup_partitioned).

    `spirv.NV.GroupNonUniformPartition %x : f32 -> vector<4xi32>`.
    """

    value = operand_def()
    result = result_def(VectorType)
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def verify_(self) -> None:
        check_ballot(self, self.result.type)
        if not rules.is_scalar_or_vector(self.value.type):
            raise VerifyException(f"{self.name} takes scalars and vectors, not {self.value.type}")
