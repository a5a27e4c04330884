"""
Assigns the components of a cooperative matrix to invocations, each of which has an array.

Component i of lane l has the row-major index i * lanes + l. All lanes have arrays of equal length,
rounded up. Lanes are the invocations that share a matrix. They form a workgroup, a subgroup of the
device, or a *virtual* subgroup (a fixed number of consecutive invocations of a workgroup).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_size

NAME = "spirv-cooperative-matrix-to-invocations"
refuse = refusals(NAME)


@dataclass(frozen=True)
class Group:
    """
    The invocations that share a matrix: `lanes` invocations, and `count` groups in a workgroup.
    """

    lanes: int
    count: int
    whole: bool
    virtual: bool

    def lane(self, code: SpirvEmitter) -> Index:
        """Returns the index of the invocation in its group."""
        if self.lanes == 1:
            return 0
        if self.whole or self.virtual:
            local = code.built_in(spv.BuiltIn.LocalInvocationIndex)
            return local if self.count == 1 else code.remainder(local, self.lanes)
        return code.built_in(spv.BuiltIn.SubgroupLocalInvocationId)

    def number(self, code: SpirvEmitter) -> Index:
        """Returns the index of the invocation's group in the workgroup."""
        if self.count == 1:
            return 0
        if not self.virtual:
            return code.built_in(spv.BuiltIn.SubgroupId)
        return code.divided(code.built_in(spv.BuiltIn.LocalInvocationIndex), self.lanes)


@dataclass(frozen=True)
class Place:
    """Row and column of a component, clamped to the matrix if the component does not `exist`."""

    row: Index
    column: Index
    exists: Condition = True


@dataclass(frozen=True)
class Form:
    """The distribution of a matrix's components over the invocations (lanes) of a group."""

    rows: int
    columns: int
    element: Attribute
    group: Group

    @property
    def total(self) -> int:
        return self.rows * self.columns

    @property
    def count(self) -> int:
        """Number of components of each invocation, rounded up (CM-18)."""
        return -(-self.total // self.group.lanes)

    @property
    def array(self) -> spv.ArrayType:
        return spv.ArrayType(self.count, self.element)

    def place(self, code: SpirvEmitter, number: int) -> Place:
        """Computes row and column of the invocation's component `number`."""
        lanes, columns, lane = self.group.lanes, self.columns, self.group.lane(code)
        if (number + 1) * lanes > self.total:
            return self._last_place(code, number)
        if lanes % columns == 0:
            first, column = code.divided(lane, columns), code.remainder(lane, columns)
            return Place(code.plus(first, number * (lanes // columns)), column)
        if columns % lanes == 0:
            row, part = divmod(number, columns // lanes)
            return Place(row, code.plus(lane, part * lanes))
        return self._any_place(code, self.position(code, number))

    def position(self, code: SpirvEmitter, number: int) -> Index:
        """Returns a component's row-major index, which may be beyond the matrix."""
        return code.plus(self.group.lane(code), number * self.group.lanes)

    def _any_place(self, code: SpirvEmitter, position: Index, exists: Condition = True) -> Place:
        row, column = code.divided(position, self.columns), code.remainder(position, self.columns)
        return Place(row, column, exists)

    def _last_place(self, code: SpirvEmitter, number: int) -> Place:
        """
        Returns row and column of a component, or of the matrix's last component if it does not
        exist.
        """
        position = self.position(code, number)
        exists = code.below(position, self.total)
        return self._any_place(code, code.select(exists, position, self.total - 1), exists)


class Sharing:
    """Chooses how the components of each matrix type are distributed over invocations."""

    def __init__(self, module: spv.ModuleOp, subgroup_size: int, virtual: bool):
        self.module = module
        self.subgroup_size = subgroup_size
        self.virtual = virtual
        self._forms: dict[spv.CooperativeMatrixType, Form] = {}

    def form(self, type_: spv.CooperativeMatrixType, op: Operation) -> Form:
        """Returns the distribution of a matrix type. Refuses `op` if there is none."""
        if type_ not in self._forms:
            self._forms[type_] = self._new_form(type_, op)
        return self._forms[type_]

    def known_form(self, type_: spv.CooperativeMatrixType) -> Form | None:
        return self._forms.get(type_)

    def _new_form(self, type_: spv.CooperativeMatrixType, op: Operation) -> Form:
        rows, columns = spv.known_size(type_.rows), spv.known_size(type_.columns)
        if rows is None or columns is None or not isinstance(type_.scope, spv.ScopeAttr):
            refuse(op, f"{type_} depends on specialization constants: run spirv-specialize first")
        return Form(rows, columns, type_.element_type, self._group(type_, type_.scope.data, op))

    def _group(self, type_: spv.CooperativeMatrixType, scope: spv.Scope, op: Operation) -> Group:
        size = workgroup_size(self.module)
        if isinstance(size, str):
            refuse(op, f"{type_} cannot be distributed over invocations: {size}")
        if scope is spv.Scope.Workgroup:
            return Group(size, 1, True, self.virtual)
        if scope is not spv.Scope.Subgroup:
            refuse(op, f"the scope of {type_} is {scope.name}: use Subgroup or Workgroup")
        lanes = self.subgroup_size
        if not lanes:
            refuse(
                op,
                f"the number of invocations that share {type_} is not known: set subgroup-size "
                f"or target",
            )
        if size % lanes:
            refuse(
                op,
                f"a workgroup of {size} invocations is not a multiple of subgroups of {lanes}, but "
                "cooperative matrices need full subgroups: choose another subgroup-size",
            )
        return Group(lanes, size // lanes, False, self.virtual)
