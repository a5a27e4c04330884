"""
Group and non-uniform group operations (SPIR-V 3.42.21, 3.42.24), rotation aside.

They read other invocations: they have no effect on memory, but are not speculatable, since moved
under a condition they would see fewer invocations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
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
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import (
    Predicate,
    is_bool,
    is_ieee_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.enums import GroupOperation, Scope
from xdsl_spirv.dialects.spirv.pointers import ReadsInvocations

BALLOT = VectorType(i32, [4])
"""The type of a ballot: a bit for each invocation."""


class GroupInstruction(SPIRVOp, ABC):
    """
    Reads other invocations of its group.

    The class attributes name the rules that the interpreter checks when it executes it.
    """

    UNIFORM: ClassVar[tuple[str, str] | None] = None
    """The rule that the second operand is uniform in the group, and that operand's name."""

    CLUSTER: ClassVar[str] = "GROUP-02"
    """The rule for the size of a cluster."""

    INACTIVE: ClassVar[str | None] = None
    """The rule against reading an inactive invocation; None: the value is undefined."""

    traits = traits_def(ReadsInvocations())


class GroupNonUniformOperation(GroupInstruction, ABC):
    """Has an execution scope, which is Workgroup or Subgroup; Vulkan takes Subgroup only."""

    FIELDS: ClassVar[Mapping[str, str]] = {"execution": "execution_scope"}
    execution_scope = prop_def(ScopeAttr)

    def __init__(
        self,
        execution_scope: Scope | ScopeAttr,
        operands: Sequence[Value | None],
        result: Attribute,
        group_operation: GroupOperation | None = None,
    ):
        super().__init__(
            operands, [result], execution_scope=execution_scope, group_operation=group_operation
        )

    def check_scope(self) -> None:
        """SPIR-V: Execution is a Scope, Workgroup or Subgroup."""
        if self.execution_scope.data not in (Scope.Workgroup, Scope.Subgroup):
            raise VerifyException(
                f"{self.name}: the execution scope is Workgroup or Subgroup, not "
                f"{self.execution_scope.data.name}"
            )

    def verify_(self) -> None:
        self.check_scope()


class GroupNonUniformElectOp(GroupNonUniformOperation):
    """True in the active invocation with the lowest id: `spirv.X <Subgroup> : i1`."""

    result = result_def(i1)
    assembly_format = "$execution_scope attr-dict `:` type($result)"

    def __init__(self, execution_scope: Scope | ScopeAttr):
        super().__init__(execution_scope, [], i1)


class GroupVote(GroupNonUniformOperation, ABC):
    """A Boolean of the invocations' Booleans: `spirv.X <Subgroup> %p : i1`."""

    predicate = operand_def(i1)
    result = result_def(i1)
    assembly_format = "$execution_scope $predicate attr-dict `:` type($result)"

    def __init__(self, execution_scope: Scope | ScopeAttr, predicate: Value):
        super().__init__(execution_scope, [predicate], i1)


class GroupNonUniformAllOp(GroupVote):
    """Whether every active invocation says true."""


class GroupNonUniformAnyOp(GroupVote):
    """Whether any active invocation says true."""


class GroupNonUniformAllEqualOp(GroupNonUniformOperation):
    """Whether the value is the same in all active invocations."""

    value = operand_def()
    result = result_def(i1)
    assembly_format = "$execution_scope $value attr-dict `:` type($value) `,` type($result)"

    def __init__(self, execution_scope: Scope | ScopeAttr, value: Value):
        super().__init__(execution_scope, [value], i1)


class GroupNonUniformBallotOp(GroupNonUniformOperation):
    """A bit for each active invocation's Boolean."""

    predicate = operand_def(i1)
    result = result_def(VectorType)
    assembly_format = "$execution_scope $predicate attr-dict `:` type($result)"

    def __init__(self, execution_scope: Scope | ScopeAttr, predicate: Value):
        super().__init__(execution_scope, [predicate], BALLOT)

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.result.type)


def check_ballot(op: Operation, type_: Attribute) -> None:
    """A ballot is a vector of four unsigned 32-bit integers."""
    if (
        not isinstance(type_, VectorType)
        or type_.get_shape() != (4,)
        or not is_integer(type_.element_type)
        or type_.element_type.bitwidth != 32
        or rules.is_signed(type_.element_type)
    ):
        raise VerifyException(f"{op.name}: a ballot is vector<4xi32>, not {type_}")


def check_scan(name: str, operation: GroupOperation) -> None:
    """A reduction or a scan of the whole group, not of clusters or partitions."""
    allowed = (GroupOperation.Reduce, GroupOperation.InclusiveScan, GroupOperation.ExclusiveScan)
    if operation not in allowed:
        raise VerifyException(
            f"{name} takes Reduce, InclusiveScan or ExclusiveScan, not {operation.name}"
        )


class BallotQuestion(GroupNonUniformOperation, ABC):
    """A number from a ballot: `spirv.X <Subgroup> %ballot : vector<4xi32>, i32`."""

    value = operand_def()
    result = result_def()
    assembly_format = "$execution_scope $value attr-dict `:` type($value) `,` type($result)"

    RESULT: ClassVar[Attribute] = i32

    def __init__(self, execution_scope: Scope | ScopeAttr, value: Value):
        super().__init__(execution_scope, [value], self.RESULT)

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)


# fmt: off
class GroupNonUniformBallotFindLSBOp(BallotQuestion): """The number of the lowest bit set."""
class GroupNonUniformBallotFindMSBOp(BallotQuestion): """The number of the highest bit set."""
class GroupNonUniformInverseBallotOp(BallotQuestion, result=i1): """This invocation's own bit."""
# fmt: on


class GroupNonUniformBallotBitExtractOp(GroupNonUniformOperation):
    """The bit of one invocation: `spirv.X <Subgroup> %ballot, %i : vector<4xi32>, i32`."""

    value = operand_def()
    index = operand_def()
    result = result_def(i1)
    assembly_format = (
        "$execution_scope $value `,` $index attr-dict `:` type($value) `,` type($index)"
    )

    def __init__(self, execution_scope: Scope | ScopeAttr, value: Value, index: Value):
        super().__init__(execution_scope, [value, index], i1)

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)


class GroupNonUniformBallotBitCountOp(GroupNonUniformOperation):
    """Bits set in all of a ballot, or up to this invocation."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "execution": "execution_scope",
        "operation": "group_operation",
    }
    group_operation = prop_def(GroupOperationAttr)
    value = operand_def()
    result = result_def()
    assembly_format = (
        "$execution_scope $group_operation $value attr-dict `:` type($value) `->` type($result)"
    )

    def __init__(self, execution_scope: Scope | ScopeAttr, operation: GroupOperation, value: Value):
        super().__init__(execution_scope, [value], i32, group_operation=operation)

    def verify_(self) -> None:
        self.check_scope()
        check_ballot(self, self.value.type)
        check_scan(self.name, self.group_operation.data)


def _second(name: str) -> Mapping[str, str]:
    """The `FIELDS` of an exchange whose second operand is `name` in the grammar."""
    return {"execution": "execution_scope", name: "which"}


class GroupExchange(GroupNonUniformOperation, ABC):
    """
    Another invocation's value: `spirv.X <Subgroup> %value, %which : value type, which type`.

    `FIELDS` has the second operand's name in the grammar.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    which = operand_def()
    result = result_def(T)
    assembly_format = (
        "$execution_scope $value `,` $which attr-dict `:` type($value) `,` type($which)"
    )

    def __init__(self, execution_scope: Scope | ScopeAttr, value: Value, which: Value):
        super().__init__(execution_scope, [value, which], SSAValue.get(value).type)

    def verify_(self) -> None:
        self.check_scope()
        if not is_integer(self.which.type) or rules.is_signed(self.which.type):
            (name,) = (name for name, field in self.FIELDS.items() if field == "which")
            raise VerifyException(
                f"{self.name}: the {name} is an unsigned integer, not {self.which.type}"
            )
        rules.bf_09_no_group_operation(self.value.type)


class GroupNonUniformBroadcastOp(GroupExchange):
    """The value of one invocation, the same for all."""

    FIELDS: ClassVar[Mapping[str, str]] = _second("invocation_id")
    UNIFORM: ClassVar[tuple[str, str] | None] = "GROUP-01", "the invocation's number"


# fmt: off
class GroupNonUniformShuffleOp(GroupExchange, fields=_second("invocation_id")):
    """The value of any invocation."""
class GroupNonUniformShuffleXorOp(GroupExchange, fields=_second("mask")):
    """The value of the invocation whose id differs by a mask."""
class GroupNonUniformShuffleUpOp(GroupExchange, fields=_second("delta")):
    """The value of the invocation `delta` below."""
class GroupNonUniformShuffleDownOp(GroupExchange, fields=_second("delta")):
    """The value of the invocation `delta` above."""
# fmt: on


class GroupNonUniformQuadBroadcastOp(GroupExchange):
    """The value of one invocation of the quad."""

    FIELDS: ClassVar[Mapping[str, str]] = _second("index")
    UNIFORM: ClassVar[tuple[str, str] | None] = "GROUP-01", "the invocation's number"


class GroupNonUniformQuadSwapOp(GroupExchange):
    """The value of the quad's horizontal, vertical or diagonal neighbour."""

    FIELDS: ClassVar[Mapping[str, str]] = _second("direction")
    assembly_format = "$execution_scope $value $which attr-dict `:` type($value) `,` type($which)"


class GroupNonUniformBroadcastFirstOp(GroupNonUniformOperation):
    """The value of the active invocation with the lowest id."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    result = result_def(T)
    assembly_format = "$execution_scope $value attr-dict `:` type($value)"

    def __init__(self, execution_scope: Scope | ScopeAttr, value: Value):
        super().__init__(execution_scope, [value], SSAValue.get(value).type)


class GroupArithmetic(GroupNonUniformOperation, ABC):
    """
    A reduction or scan over the active invocations, of a subgroup or of its clusters.

    `spirv.X <Subgroup> <ClusteredReduce> %v cluster_size(%n) : f32, i32 -> f32`; the cluster's size
    is a constant and is given for ClusteredReduce only.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {
        "execution": "execution_scope",
        "operation": "group_operation",
    }
    COMPONENT: ClassVar[tuple[Predicate, str]]

    group_operation = prop_def(GroupOperationAttr)
    value = operand_def()
    cluster_size = opt_operand_def()
    result = result_def()

    def __init__(
        self,
        execution_scope: Scope | ScopeAttr,
        operation: GroupOperation,
        value: Value,
        cluster_size: Value | None = None,
    ):
        super().__init__(
            execution_scope,
            [value, cluster_size],
            SSAValue.get(value).type,
            group_operation=operation,
        )

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
                f"{self.name} gives the value's type {self.value.type}, not {self.result.type}"
            )
        clustered = self.group_operation.data is GroupOperation.ClusteredReduce
        if clustered == (self.cluster_size is None):
            raise VerifyException(
                f"{self.name}: ClusteredReduce needs a cluster_size and the others take none"
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
    """Combines integers of a group."""

    COMPONENT: ClassVar[tuple[Predicate, str]] = (is_integer, "integer")


class FloatGroupArithmetic(GroupArithmetic, ABC):
    """Combines floats of a group."""

    COMPONENT: ClassVar[tuple[Predicate, str]] = (is_ieee_float, "floating-point")


class LogicalGroupArithmetic(GroupArithmetic, ABC):
    """Combines Booleans of a group."""

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
class GroupNonUniformLogicalAndOp(LogicalGroupArithmetic): """Whether all are true."""
class GroupNonUniformLogicalOrOp(LogicalGroupArithmetic): """Whether any is true."""
class GroupNonUniformLogicalXorOp(LogicalGroupArithmetic): """Whether an odd number is true."""
# fmt: on
