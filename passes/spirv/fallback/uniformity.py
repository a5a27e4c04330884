"""
Finds the operations that all invocations of a workgroup execute together, as barriers require.

Divergent values are an invocation's identifiers, memory that other invocations may write, and
results of atomics and group operations. Results of operations on a divergent value are divergent,
and so are operations that a branch on a divergent value controls, and variables that these
operations store to. All other values are uniform. Calls of functions that the module does not
define are divergent.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import BlockArgument, Operation, Region, SSAValue
from xdsl.traits import Pure

from xdsl_spirv.dialects import spv

SAME_FOR_ALL = frozenset(
    b.name
    for b in (
        spv.BuiltIn.NumSubgroups,
        spv.BuiltIn.NumWorkgroups,
        spv.BuiltIn.SubgroupSize,
        spv.BuiltIn.WorkgroupId,
        spv.BuiltIn.WorkgroupSize,
    )
)
READ_ONLY = (
    spv.StorageClass.PushConstant,
    spv.StorageClass.Uniform,
    spv.StorageClass.UniformConstant,
)
OWN = (spv.StorageClass.Function, spv.StorageClass.Private)
CONSTANT = (
    spv.AddressOfOp,
    spv.ConstantNullOp,
    spv.ConstantOp,
    spv.CooperativeMatrixLengthOp,
    spv.ReferenceOfOp,
    spv.UndefOp,
    spv.VariableOp,
)


class Uniformity:
    """Finds the values of a module that are uniform over the invocations of a workgroup."""

    def __init__(self, module: spv.ModuleOp):
        self._functions = {
            f.sym_name.data: f for f in module.body.block.ops if isinstance(f, spv.FuncOp)
        }
        self._globals = {
            v.sym_name.data: v for v in module.body.block.ops if isinstance(v, spv.ModuleVariable)
        }
        self._divergent: set[object] = set()
        """Values, variables, regions and functions that may be divergent."""
        self._changed = True
        while self._changed:
            self._changed = False
            for function in self._functions.values():
                self._region(function.body)

    def executed_together(self, op: Operation) -> bool:
        """True if either all or no invocations of the workgroup execute the operation."""
        inside: Operation | None = op
        while inside is not None and not isinstance(inside, spv.FuncOp):
            block = inside.parent
            assert block is not None
            region = block.parent
            assert region is not None
            if region in self._divergent and region.blocks.first is not block:
                return False
            inside = region.parent
        return inside not in self._divergent

    def _mark(self, what: object) -> None:
        if what not in self._divergent:
            self._divergent.add(what)
            self._changed = True

    def _any(self, values: Iterable[SSAValue]) -> bool:
        return any(v in self._divergent for v in values)

    def _region(self, region: Region) -> None:
        for block in region.blocks:
            last = block.last_op
            if isinstance(last, spv.BranchConditionalOp | spv.SwitchOp) and last.operands[0] in (
                self._divergent
            ):
                self._mark(region)
        divergent = region in self._divergent
        for block in region.blocks:
            if divergent and block is not region.blocks.first:
                for argument in block.args:
                    self._mark(argument)
            for op in block.ops:
                self._operation(op)

    def _operation(self, op: Operation) -> None:
        for region in op.regions:
            self._region(region)
        if isinstance(op, spv.Branching):
            self._branch(op)
        elif isinstance(op, spv.SelectionOp | spv.LoopOp):
            self._construct(op)
        elif isinstance(op, spv.LoadOp):
            if self._reads_differently(op.pointer):
                self._mark(op.result)
        elif isinstance(op, spv.StoreOp):
            self._written(op, op.pointer, differs=self._any(op.operands))
        elif isinstance(op, spv.CopyMemoryOp):
            differs = op.target in self._divergent or self._reads_differently(op.source)
            self._written(op, op.target, differs=differs)
        elif isinstance(op, spv.FunctionCallOp):
            self._call(op)
        elif isinstance(op, spv.ReturnOp | spv.ReturnValueOp):
            self._leaves(op)
        elif not isinstance(op, CONSTANT) and (not _is_pure(op) or self._any(op.operands)):
            for result in op.results:
                self._mark(result)

    def _branch(self, op: spv.Branching) -> None:
        for target, passed in op.edges:
            for argument, value in zip(target.args, passed, strict=True):
                if value in self._divergent:
                    self._mark(argument)

    def _construct(self, op: spv.SelectionOp | spv.LoopOp) -> None:
        merge = op.merge_block
        assert merge is not None
        last = merge.last_op
        assert isinstance(last, spv.MergeOp)
        for result, value in zip(op.results, last.arguments, strict=True):
            if op.body in self._divergent or value in self._divergent:
                self._mark(result)

    def _reads_differently(self, pointer: SSAValue) -> bool:
        root = variable_behind(pointer)
        if pointer in self._divergent or not isinstance(pointer.type, spv.PointerType):
            return True
        storage = pointer.type.storage_class.data
        if storage in READ_ONLY:
            return False
        if isinstance(root, spv.VariableOp):
            return root in self._divergent
        variable = self._variable(root)
        if variable is None:
            return True
        if storage is spv.StorageClass.Input:
            return variable.built_in is None or variable.built_in.data not in SAME_FOR_ALL
        if storage is spv.StorageClass.StorageBuffer:
            return not _is_read_only(variable)
        return storage is not spv.StorageClass.Private or variable in self._divergent

    def _variable(self, root: Operation | None) -> spv.ModuleVariable | None:
        if not isinstance(root, spv.AddressOfOp):
            return None
        return self._globals.get(root.variable.string_value())

    def _written(self, op: Operation, pointer: SSAValue, *, differs: bool) -> None:
        if (
            not isinstance(pointer.type, spv.PointerType)
            or pointer.type.storage_class.data not in OWN
        ):
            return
        root = variable_behind(pointer)
        target = root if isinstance(root, spv.VariableOp) else self._variable(root)
        if target is None:
            # A pointer that was passed in may point to any variable.
            self._mark_all_variables()
        elif differs or not self.executed_together(op):
            self._mark(target)

    def _mark_all_variables(self) -> None:
        for function in self._functions.values():
            for op in function.walk():
                if isinstance(op, spv.VariableOp):
                    self._mark(op)
        for variable in self._globals.values():
            self._mark(variable)

    def _call(self, op: spv.FunctionCallOp) -> None:
        callee = self._functions.get(op.callee.string_value())
        if callee is None or not callee.body.blocks:
            for result in op.results:
                self._mark(result)
            return
        if not self.executed_together(op):
            self._mark(callee)
        for argument, value in zip(callee.body.blocks[0].args, op.arguments, strict=True):
            if value in self._divergent:
                self._mark(argument)
        for inner in callee.walk() if op.results else ():
            if isinstance(inner, spv.ReturnValueOp) and (
                inner.value in self._divergent or not self.executed_together(inner)
            ):
                self._mark(op.results[0])

    def _leaves(self, op: spv.ReturnOp | spv.ReturnValueOp) -> None:
        """Marks a function that returns in divergent control flow as divergent."""
        function = spv.enclosing_function(op)
        assert function is not None
        if op.parent_op() is not function and not self.executed_together(op):
            self._mark(function)


def _is_pure(op: Operation) -> bool:
    if isinstance(op, spv.RawOp):
        carried = spv.operations_by_instruction().get(op.instruction.data)
        return carried is not None and carried.has_trait(Pure)
    return op.has_trait(Pure)


def variable_behind(pointer: SSAValue) -> Operation | None:
    """Returns the variable that a pointer points into, through access chains and copies."""
    while not isinstance(pointer, BlockArgument):
        owner = pointer.owner
        assert isinstance(owner, Operation)
        if isinstance(owner, spv.VariableOp | spv.AddressOfOp):
            return owner
        if not owner.operands or not isinstance(owner.operands[0].type, spv.PointerType):
            return None
        pointer = owner.operands[0]
    return None


def _is_read_only(variable: spv.ModuleVariable) -> bool:
    if "non_writable" in variable.attributes:
        return True
    struct = variable.object_type
    if not isinstance(struct, spv.StructType):
        return False
    members = range(len(struct.member_types))
    return all(
        any(d.decoration.data is spv.Decoration.NonWritable for d in struct.decorations_of(m))
        for m in members
    )
