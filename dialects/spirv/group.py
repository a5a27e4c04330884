"""
Group and non-uniform group operations (SPIR-V 3.42.21, 3.42.24), without rotation.

The operations do not access memory, but are not speculatable: their results depend on which
invocations are active, so they must not be moved into or out of a condition.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import VectorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    VarConstraint,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import GroupOperationAttr, ScopeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp, instruction_of
from xdsl_spirv.dialects.spirv.constraints import (
    Predicate,
    is_bool,
    is_ieee_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.enums import GroupOperation, Scope
from xdsl_spirv.dialects.spirv.pointers import ReadsInvocations
from xdsl_spirv.grammar import grammar

BALLOT = VectorType(i32, [4])
"""Type of a ballot, which has one bit for each invocation."""


class GroupInstruction(SPIRVOp, ABC):
    """
    An instruction that reads values of other invocations in its group.

    The class attributes name the rules that the interpreter checks at run time.
    """

    UNIFORM: ClassVar[tuple[str, str] | None] = None
    """
    The rule that the second operand must be uniform in the group: its id, and the operand's name
    for messages. None if the operand need not be uniform.
    """

    CLUSTER: ClassVar[str] = "GROUP-02"
    """The id of the rule that limits the size of a cluster."""

    INACTIVE: ClassVar[str | None] = None
    """
    The id of the rule that forbids to read from an inactive invocation. None if such a read gives
    an undefined value.
    """

    traits = traits_def(ReadsInvocations())


class GroupNonUniformOperation(GroupInstruction, ABC):
    """A group operation with the execution scope Workgroup or Subgroup (Vulkan: Subgroup)."""

    execution_scope = prop_def(ScopeAttr)

    def check_scope(self) -> None:
        """Checks that the execution scope is Workgroup or Subgroup."""
        if self.execution_scope.data not in (Scope.Workgroup, Scope.Subgroup):
            raise VerifyException(
                f"{self.name}: the execution scope must be Workgroup or Subgroup, not "
                f"{self.execution_scope.data.name}"
            )

    def verify_(self) -> None:
        self.check_scope()


class GroupNonUniformElectOp(GroupNonUniformOperation):
    """True in the active invocation with the lowest id: `spirv.X <Subgroup> : i1`."""

    result = result_def(i1)
    assembly_format = "$execution_scope attr-dict `:` type($result)"


class GroupVote(GroupNonUniformOperation, ABC):
    """Combines the Booleans of all invocations to one: `spirv.X <Subgroup> %p : i1`."""

    predicate = operand_def(i1)
    result = result_def(i1)
    assembly_format = "$execution_scope $predicate attr-dict `:` type($result)"


class GroupNonUniformAllOp(GroupVote):
    """True if the operand is true in all active invocations."""


class GroupNonUniformAnyOp(GroupVote):
    """True if the operand is true in any active invocation."""


class GroupNonUniformAllEqualOp(GroupNonUniformOperation):
    """True if the value is the same in all active invocations."""

    value = operand_def()
    result = result_def(i1)
    assembly_format = "$execution_scope $value attr-dict `:` type($value) `,` type($result)"


class GroupNonUniformBallotOp(GroupNonUniformOperation, result=BALLOT):
    """A ballot: the bits are the Booleans of the active invocations."""

    predicate = operand_def(i1)
    result = result_def(VectorType)
    assembly_format = "$execution_scope $predicate attr-dict `:` type($result)"

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.result.type)


def check_ballot(op: Operation, type_: Attribute) -> None:
    """Checks that a ballot is a vector of four unsigned 32-bit integers."""
    if (
        not isinstance(type_, VectorType)
        or type_.get_shape() != (4,)
        or not is_integer(type_.element_type)
        or type_.element_type.bitwidth != 32
        or rules.is_signed(type_.element_type)
    ):
        raise VerifyException(f"{op.name}: a ballot must be vector<4xi32>, not {type_}")


def check_scan(name: str, operation: GroupOperation) -> None:
    """Checks that the operation is a reduction or a scan, without clusters."""
    allowed = (GroupOperation.Reduce, GroupOperation.InclusiveScan, GroupOperation.ExclusiveScan)
    if operation not in allowed:
        raise VerifyException(
            f"{name} only allows Reduce, InclusiveScan and ExclusiveScan, not {operation.name}"
        )


class BallotQuestion(GroupNonUniformOperation, ABC, result=i32):
    """Computes a value from a ballot: `spirv.X <Subgroup> %ballot : vector<4xi32>, i32`."""

    value = operand_def()
    result = result_def()
    assembly_format = "$execution_scope $value attr-dict `:` type($value) `,` type($result)"

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)


# fmt: off
class GroupNonUniformBallotFindLSBOp(BallotQuestion): """Index of the lowest set bit."""
class GroupNonUniformBallotFindMSBOp(BallotQuestion): """Index of the highest set bit."""
class GroupNonUniformInverseBallotOp(BallotQuestion, result=i1): """The executing lane's bit."""
# fmt: on


class GroupNonUniformBallotBitExtractOp(GroupNonUniformOperation):
    """The bit of a given invocation: `spirv.X <Subgroup> %ballot, %i : vector<4xi32>, i32`."""

    value = operand_def()
    index = operand_def()
    result = result_def(i1)
    assembly_format = (
        "$execution_scope $value `,` $index attr-dict `:` type($value) `,` type($index)"
    )

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)


class GroupNonUniformBallotBitCountOp(GroupNonUniformOperation, result=i32):
    """Number of set bits in a ballot, or in the bits up to the executing invocation."""

    group_operation = prop_def(GroupOperationAttr)
    value = operand_def()
    result = result_def()
    assembly_format = (
        "$execution_scope $group_operation $value attr-dict `:` type($value) `->` type($result)"
    )

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)
        check_scan(self.name, self.group_operation.data)


class GroupExchange(GroupNonUniformOperation, ABC):
    """
    Reads another invocation's value: `spirv.X <Subgroup> %value, %which : value type, which type`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    which = operand_def()
    result = result_def(T)
    assembly_format = (
        "$execution_scope $value `,` $which attr-dict `:` type($value) `,` type($which)"
    )

    def verify_(self) -> None:
        self.check_scope()
        if not is_integer(self.which.type) or rules.is_signed(self.which.type):
            name = grammar().instruction(instruction_of(self)[1]).operands[-1].field
            raise VerifyException(
                f"{self.name}: the {name} must be an unsigned integer, not {self.which.type}"
            )
        rules.bf_09_no_group_operation(self.value.type)


class GroupNonUniformBroadcastOp(GroupExchange):
    """The value of one invocation, whose id must be equal in all active invocations."""

    UNIFORM: ClassVar[tuple[str, str] | None] = "GROUP-01", "the invocation's number"


# fmt: off
class GroupNonUniformShuffleOp(GroupExchange):
    """The value of a given invocation."""
class GroupNonUniformShuffleXorOp(GroupExchange):
    """The value of the invocation with the id `id xor mask`."""
class GroupNonUniformShuffleUpOp(GroupExchange):
    """The value of the invocation with the id `id - delta`."""
class GroupNonUniformShuffleDownOp(GroupExchange):
    """The value of the invocation with the id `id + delta`."""
# fmt: on


class GroupNonUniformQuadBroadcastOp(GroupExchange):
    """The value of a given invocation of the quad."""

    UNIFORM: ClassVar[tuple[str, str] | None] = "GROUP-01", "the invocation's number"


class GroupNonUniformQuadSwapOp(GroupExchange):
    """The value of the quad's horizontal, vertical or diagonal neighbour."""

    assembly_format = "$execution_scope $value $which attr-dict `:` type($value) `,` type($which)"


class GroupNonUniformBroadcastFirstOp(GroupNonUniformOperation):
    """The value of the active invocation with the lowest id."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    result = result_def(T)
    assembly_format = "$execution_scope $value attr-dict `:` type($value)"


PARTITIONED = (
    GroupOperation.PartitionedReduceNV,
    GroupOperation.PartitionedInclusiveScanNV,
    GroupOperation.PartitionedExclusiveScanNV,
)


class GroupArithmetic(GroupNonUniformOperation, ABC, result="value"):
    """
    A reduction or scan over the active invocations of a group, of each cluster or of each part.

    `spirv.X <Subgroup> <ClusteredReduce> %v cluster_size(%n) : f32, i32 -> f32`. ClusteredReduce
    has a cluster size, which must be constant. Operations on a partition have in its place the
    ballot of the invocation's part (SPV_NV_shader_subgroup_partitioned). Others have neither.
    """

    COMPONENT: ClassVar[tuple[Predicate, str]]

    group_operation = prop_def(GroupOperationAttr)
    value = operand_def()
    cluster_size = opt_operand_def()
    result = result_def()

    assembly_format = (
        "$execution_scope $group_operation $value (`cluster_size` `(` $cluster_size^ `)`)? "
        "attr-dict `:` type($value) (`,` type($cluster_size)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        self.check_scope()
        rules.bf_09_no_group_operation(self.value.type)
        require(self, [self.value.type], *self.COMPONENT)
        if self.result.type != self.value.type:
            raise VerifyException(
                f"{self.name} must return the type {self.value.type}, not {self.result.type}"
            )
        if self.group_operation.data in PARTITIONED:
            if self.cluster_size is None:
                raise VerifyException(
                    f"{self.name}: an operation on a partition needs the ballot of the part, "
                    "written in place of a cluster_size"
                )
            check_ballot(self, self.cluster_size.type)
            return
        clustered = self.group_operation.data is GroupOperation.ClusteredReduce
        if clustered == (self.cluster_size is None):
            raise VerifyException(
                f"{self.name}: ClusteredReduce needs a cluster_size, and no other operation has one"
            )
        if self.cluster_size is not None:
            self._check_cluster_size(self.cluster_size)

    def _check_cluster_size(self, cluster_size: SSAValue) -> None:
        if not rules.is_constant(cluster_size):
            raise VerifyException(
                f"{self.name}: cluster_size must come from a constant instruction"
            )
        size = rules.constant_integer(cluster_size)
        if size is not None and (size < 1 or size & (size - 1)):
            raise VerifyException(f"{self.name}: cluster_size must be a power of two, not {size}")


class IntegerGroupArithmetic(GroupArithmetic, ABC):
    """A reduction or scan of integers."""

    COMPONENT: ClassVar[tuple[Predicate, str]] = (is_integer, "integer")


class FloatGroupArithmetic(GroupArithmetic, ABC):
    """A reduction or scan of floats."""

    COMPONENT: ClassVar[tuple[Predicate, str]] = (is_ieee_float, "floating-point")


class LogicalGroupArithmetic(GroupArithmetic, ABC):
    """A reduction or scan of Booleans."""

    COMPONENT: ClassVar[tuple[Predicate, str]] = (is_bool, "Boolean")


# fmt: off
class GroupNonUniformIAddOp(IntegerGroupArithmetic): """The sum of integers."""
class GroupNonUniformFAddOp(FloatGroupArithmetic): """The sum of floats."""
class GroupNonUniformIMulOp(IntegerGroupArithmetic): """The product of integers."""
class GroupNonUniformFMulOp(FloatGroupArithmetic): """The product of floats."""
class GroupNonUniformSMinOp(IntegerGroupArithmetic): """The signed minimum."""
class GroupNonUniformUMinOp(IntegerGroupArithmetic): """The unsigned minimum."""
class GroupNonUniformFMinOp(FloatGroupArithmetic): """The minimum of floats."""
class GroupNonUniformSMaxOp(IntegerGroupArithmetic): """The signed maximum."""
class GroupNonUniformUMaxOp(IntegerGroupArithmetic): """The unsigned maximum."""
class GroupNonUniformFMaxOp(FloatGroupArithmetic): """The maximum of floats."""
class GroupNonUniformBitwiseAndOp(IntegerGroupArithmetic): """The bitwise and."""
class GroupNonUniformBitwiseOrOp(IntegerGroupArithmetic): """The bitwise or."""
class GroupNonUniformBitwiseXorOp(IntegerGroupArithmetic): """The bitwise exclusive or."""
class GroupNonUniformLogicalAndOp(LogicalGroupArithmetic): """Logical and of Booleans."""
class GroupNonUniformLogicalOrOp(LogicalGroupArithmetic): """Logical or of Booleans."""
class GroupNonUniformLogicalXorOp(LogicalGroupArithmetic): """Logical exclusive or of Booleans."""
# fmt: on
