"""
What each operation of a kernel becomes in `spirv`.

Memory that invocations share is accessed by non-private pointers, and a barrier makes what was
written before it available and visible: under the Vulkan memory model neither goes without saying.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    i1,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import spirv_operations as spirv
from xdsl_spirv.dialects.schedule import ElementPtrOp, VectorViewOp
