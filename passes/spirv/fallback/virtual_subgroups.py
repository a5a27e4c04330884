"""
Subgroups that are so many invocations of a workgroup in a row, whatever the device's own are.

The built-ins that speak of subgroups are computed from LocalInvocationIndex; a subgroup's barrier
is the workgroup's. Instructions that let a subgroup's invocations read each other would speak of
the device's subgroups, so a module with them is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.spirv.attributes import ScopeAttr
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp, MemoryBarrierOp
from xdsl_spirv.dialects.spirv.enums import BuiltIn, Scope
from xdsl_spirv.dialects.spirv.memory import LoadOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import AddressOfOp, EntryPointOp, ModuleVariable
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.function_emitter import ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.uniformity import Uniformity
from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_size

REPLACED: dict[str, Callable[[SpirvEmitter, int, int], Index]] = {
    BuiltIn.SubgroupSize.name: lambda code, lanes, size: lanes,
    BuiltIn.NumSubgroups.name: lambda code, lanes, size: size // lanes,
    BuiltIn.SubgroupId.name: lambda code, lanes, size: code.divided(
        code.built_in(BuiltIn.LocalInvocationIndex), lanes
    ),
    BuiltIn.SubgroupLocalInvocationId.name: lambda code, lanes, size: code.remainder(
        code.built_in(BuiltIn.LocalInvocationIndex), lanes
    ),
}
OF_THE_DEVICE = frozenset(
    b.name
    for b in (
        BuiltIn.SubgroupEqMask,
        BuiltIn.SubgroupGeMask,
        BuiltIn.SubgroupGtMask,
        BuiltIn.SubgroupLeMask,
        BuiltIn.SubgroupLtMask,
        BuiltIn.SubgroupMaxSize,
        BuiltIn.NumEnqueuedSubgroups,
    )
)


def check_virtual_subgroups(pass_name: str, module: ModuleOp, lanes: int) -> None:
    """Refuse a module that speaks of the device's subgroups."""
    uniformity: Uniformity | None = None
    for op in module.walk():
        if isinstance(op, ModuleVariable) and op.built_in and op.built_in.data in OF_THE_DEVICE:
            _refuse(pass_name, op, lanes)
        if isinstance(op, ControlBarrierOp) and op.execution_scope.data is Scope.Subgroup:
            uniformity = uniformity or Uniformity(module)
            if not uniformity.executed_together(op):
                _refuse(pass_name, op, lanes)
        elif not isinstance(op, MemoryBarrierOp | ControlBarrierOp) and _is_of_subgroups(op):
            _refuse(pass_name, op, lanes)


def _is_of_subgroups(op: Operation) -> bool:
    scope = op.properties.get("execution_scope")
    return (isinstance(scope, ScopeAttr) and scope.data is Scope.Subgroup) or op.name.startswith(
        ("spirv.KHR.Subgroup", "spirv.INTEL.Subgroup")
    )


def _refuse(pass_name: str, op: Operation, lanes: int) -> None:
    refuse(
        pass_name,
        op,
        f"it speaks of the device's subgroups, not of virtual ones of {lanes} invocations: use "
        f"subgroups=device on a device with subgroups of {lanes}",
    )


def use_virtual_subgroups(module: ModuleOp, codes: ModuleEmitter, lanes: int) -> None:
    """Replace the built-ins and the barriers of a module that `check_virtual_subgroups` accepts."""
    size = workgroup_size(module)
    variables = {
        op.sym_name.data: op
        for op in module.body.block.ops
        if isinstance(op, ModuleVariable) and op.built_in and op.built_in.data in REPLACED
    }
    for op in list(module.walk()):
        if isinstance(op, AddressOfOp) and op.variable.string_value() in variables:
            built_in = variables[op.variable.string_value()].built_in
            assert built_in is not None
            assert isinstance(size, int)
            for use in list(op.result.uses):
                _replace(use.operation, codes, lambda code, name=built_in.data: REPLACED[name](
                    code, lanes, size
                ))  # fmt: skip
            Rewriter.erase_op(op)
        elif isinstance(op, ControlBarrierOp | MemoryBarrierOp):
            _widen(op)
    for name, variable in variables.items():
        _drop(module, name, variable)


def _replace(load: Operation, codes: ModuleEmitter, make: Callable[[SpirvEmitter], Index]) -> None:
    assert isinstance(load, LoadOp)
    code = codes.before(load)
    value = code.index(make(code))
    Rewriter.replace_op(load, [], [code.same_bits(value, load.result.type)])


def _widen(op: ControlBarrierOp | MemoryBarrierOp) -> None:
    for name in ("execution_scope", "memory_scope"):
        scope = op.properties.get(name)
        if isinstance(scope, ScopeAttr) and scope.data is Scope.Subgroup:
            op.properties[name] = ScopeAttr(Scope.Workgroup)


def _drop(module: ModuleOp, name: str, variable: ModuleVariable) -> None:
    for op in module.body.block.ops:
        if isinstance(op, EntryPointOp):
            kept = [s for s in op.interface if s.string_value() != name]
            op.interface = ArrayAttr[SymbolRefAttr](kept)
    Rewriter.erase_op(variable)
