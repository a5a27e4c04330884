"""
Replaces the device's subgroups by virtual subgroups: a fixed number of consecutive invocations.

Subgroup built-ins are computed from LocalInvocationIndex, and a subgroup's barrier becomes a
barrier of the workgroup. Instructions that exchange values within a subgroup would use the
device's subgroups, so a module with such instructions is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.function_emitter import ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.matrices import refuse
from xdsl_spirv.passes.spirv.fallback.uniformity import Uniformity
from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_size

REPLACED: dict[str, Callable[[SpirvEmitter, int, int], Index]] = {
    spv.BuiltIn.SubgroupSize.name: lambda code, lanes, size: lanes,
    spv.BuiltIn.NumSubgroups.name: lambda code, lanes, size: size // lanes,
    spv.BuiltIn.SubgroupId.name: lambda code, lanes, size: code.divided(
        code.built_in(spv.BuiltIn.LocalInvocationIndex), lanes
    ),
    spv.BuiltIn.SubgroupLocalInvocationId.name: lambda code, lanes, size: code.remainder(
        code.built_in(spv.BuiltIn.LocalInvocationIndex), lanes
    ),
}
OF_THE_DEVICE = frozenset(
    b.name
    for b in (
        spv.BuiltIn.SubgroupEqMask,
        spv.BuiltIn.SubgroupGeMask,
        spv.BuiltIn.SubgroupGtMask,
        spv.BuiltIn.SubgroupLeMask,
        spv.BuiltIn.SubgroupLtMask,
        spv.BuiltIn.SubgroupMaxSize,
        spv.BuiltIn.NumEnqueuedSubgroups,
    )
)


def check_virtual_subgroups(module: spv.ModuleOp, lanes: int) -> None:
    """Refuses a module with instructions that use the device's subgroups."""
    uniformity: Uniformity | None = None
    for op in module.walk():
        if isinstance(op, spv.ModuleVariable) and op.built_in and op.built_in.data in OF_THE_DEVICE:
            _refuse(op, lanes)
        if isinstance(op, spv.ControlBarrierOp) and op.execution_scope.data is spv.Scope.Subgroup:
            uniformity = uniformity or Uniformity(module)
            if not uniformity.executed_together(op):
                _refuse(op, lanes)
        elif not isinstance(op, spv.MemoryBarrierOp | spv.ControlBarrierOp) and _is_of_subgroups(
            op
        ):
            _refuse(op, lanes)


def _is_of_subgroups(op: Operation) -> bool:
    scope = op.properties.get("execution_scope")
    return (
        isinstance(scope, spv.ScopeAttr) and scope.data is spv.Scope.Subgroup
    ) or op.name.startswith(("spirv.KHR.Subgroup", "spirv.INTEL.Subgroup"))


def _refuse(op: Operation, lanes: int) -> None:
    refuse(
        op,
        "the operation works on the device's subgroups, not on virtual subgroups: use "
        f"subgroups=device on a device with subgroups of {lanes} invocations",
    )


def use_virtual_subgroups(module: spv.ModuleOp, codes: ModuleEmitter, lanes: int) -> None:
    """Replaces subgroup built-ins and barriers. Call `check_virtual_subgroups` first."""
    size = workgroup_size(module)
    variables = {
        op.sym_name.data: op
        for op in module.body.block.ops
        if isinstance(op, spv.ModuleVariable) and op.built_in and op.built_in.data in REPLACED
    }
    names = {name: v.built_in.data for name, v in variables.items() if v.built_in}
    rewrite_once(module, ComputedBuiltIn(codes, names, lanes, size), WidenedBarrier())
    for name, variable in variables.items():
        _drop(module, name, variable)


@dataclass
class ComputedBuiltIn(RewritePattern):
    """
    Replaces the load of a subgroup built-in by its value for virtual subgroups.

        %p = mlir.addressof @id  ;  %n = Load %p  ->  %n = LocalInvocationIndex % lanes
    """

    codes: ModuleEmitter
    names: Mapping[str, str]
    """Maps the symbols of variables to the names of their subgroup built-ins."""
    lanes: int
    size: int | str
    """Number of invocations of the workgroup, or a text with the reason why this is not known."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: spv.AddressOfOp, rewriter: PatternRewriter) -> None:
        name = self.names.get(op.variable.string_value())
        if name is None:
            return
        assert isinstance(self.size, int)
        for load in [use.operation for use in op.result.uses]:
            assert isinstance(load, spv.LoadOp)
            code = self.codes.before(load)
            value = code.index(REPLACED[name](code, self.lanes, self.size))
            rewriter.replace(load, [], [code.same_bits(value, load.result.type)])
        rewriter.erase(op)


class WidenedBarrier(RewritePattern):
    """
    Widens a barrier of a subgroup to the workgroup.

        MemoryBarrier <Subgroup>, ...  ->  MemoryBarrier <Workgroup>, ...
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: spv.ControlBarrierOp | spv.MemoryBarrierOp, rewriter: PatternRewriter
    ) -> None:
        for name in ("execution_scope", "memory_scope"):
            scope = op.properties.get(name)
            if isinstance(scope, spv.ScopeAttr) and scope.data is spv.Scope.Subgroup:
                op.properties[name] = spv.ScopeAttr(spv.Scope.Workgroup)
                rewriter.notify_op_modified(op)


def _drop(module: spv.ModuleOp, name: str, variable: spv.ModuleVariable) -> None:
    for op in module.body.block.ops:
        if isinstance(op, spv.EntryPointOp):
            kept = [s for s in op.interface if s.string_value() != name]
            op.interface = ArrayAttr[SymbolRefAttr](kept)
    Rewriter.erase_op(variable)
