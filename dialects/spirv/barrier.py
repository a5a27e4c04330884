"""Execution and memory barriers (SPIR-V 3.42.20), with constant scopes and semantics."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import prop_def

from xdsl_spirv.dialects.spirv.attributes import MemorySemanticsAttr, ScopeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp


class ControlBarrier(SPIRVOp, ABC):
    """A barrier, or its arrive or wait half, with an execution scope and memory semantics."""

    execution_scope = prop_def(ScopeAttr)
    memory_scope = prop_def(ScopeAttr)
    memory_semantics = prop_def(MemorySemanticsAttr)


class ControlBarrierOp(ControlBarrier):
    """
    OpControlBarrier: `spirv.ControlBarrier <Workgroup>, <Workgroup>,
    <AcquireRelease|WorkgroupMemory>`.
    """

    assembly_format = "$execution_scope `,` $memory_scope `,` $memory_semantics attr-dict"


class MemoryBarrierOp(SPIRVOp):
    """OpMemoryBarrier: `spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory>`."""

    memory_scope = prop_def(ScopeAttr)
    memory_semantics = prop_def(MemorySemanticsAttr)
    assembly_format = "$memory_scope `,` $memory_semantics attr-dict"
