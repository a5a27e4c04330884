"""
`spirv-rotate-to-shuffle`: rewrites a rotation as the shuffle that the extension defines.

    rotate(v, delta)             ->  shuffle(v, (lane + delta) & (size - 1))
    rotate(v, delta, cluster n)  ->  shuffle(v, ((lane + delta) & (n - 1)) + (lane & ~(n - 1)))

The lane is SubgroupLocalInvocationId, and the size is SubgroupSize (SubgroupMaxSize for kernels).
For a workgroup they are LocalInvocationIndex and the workgroup's size. Rules ROT-07 and ROT-09.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals, rewrite_once
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter, ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_size

NAME = "spirv-rotate-to-shuffle"
refuse = refusals(NAME)


@dataclass(frozen=True)
class RotateToShufflePass(ModulePass):
    """Rewrites every spirv.GroupNonUniformRotateKHR as index arithmetic and a shuffle."""

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        for module in op.walk():
            if isinstance(module, spv.ModuleOp):
                rewrite_once(module, RotationToShuffle(ModuleEmitter(module)))


@dataclass
class RotationToShuffle(RewritePattern):
    """
    Computes the index of the invocation that a rotation reads, and shuffles with that index.

        GroupNonUniformRotateKHR %x, %d  ->  GroupNonUniformShuffle %x, (%lane + %d) & (size - 1)
    """

    codes: ModuleEmitter

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: spv.GroupNonUniformRotateKHROp, rewriter: PatternRewriter
    ) -> None:
        code = self.codes.before(op)
        whole = op.execution_scope.data is spv.Scope.Workgroup
        lane = code.built_in(
            spv.BuiltIn.LocalInvocationIndex if whole else spv.BuiltIn.SubgroupLocalInvocationId
        )
        further = code.plus(lane, code.as_index(op.delta))
        if op.cluster_size is None:
            source = _and(code, further, _minus_one(code, _group_size(op, code)))
        else:
            around = _minus_one(code, code.as_index(op.cluster_size))
            known = isinstance(around, int)
            inverse = ~around if known else code.add(spv.NotOp(code.index(around)))
            source = code.plus(_and(code, further, around), _and(code, lane, inverse))
        shuffle = spv.GroupNonUniformShuffleOp(op.execution_scope, op.value, code.index(source))
        rewriter.replace(op, shuffle)


def _group_size(op: spv.GroupNonUniformRotateKHROp, code: FunctionEmitter) -> Index:
    if op.execution_scope.data is not spv.Scope.Workgroup:
        return code.built_in(
            spv.BuiltIn.SubgroupMaxSize if _is_kernel(code.module) else spv.BuiltIn.SubgroupSize
        )
    size = workgroup_size(code.module, code.function)
    if isinstance(size, str):
        refuse(op, f"{size}; set a constant workgroup size, or a cluster size of the rotation")
    if size & (size - 1):
        refuse(
            op,
            f"a rotation exchanges values of a workgroup of {size} invocations: use a power of two",
        )
    return size


def _is_kernel(module: spv.ModuleOp) -> bool:
    if module.memory_model.data is spv.MemoryModel.OpenCL:
        return True
    triple = module.vce_triple
    return triple is not None and any(c.data is spv.Capability.Kernel for c in triple.capabilities)


def _and(code: FunctionEmitter, value: Index, mask: Index) -> Index:
    if isinstance(value, int) and isinstance(mask, int):
        return value & mask
    if mask == 0:
        return 0
    return code.add(spv.BitwiseAndOp(code.index(value), code.index(mask)))


def _minus_one(code: FunctionEmitter, value: Index) -> Index:
    if isinstance(value, int):
        return value - 1
    return code.add(spv.ISubOp(code.index(value), code.number(1)))
