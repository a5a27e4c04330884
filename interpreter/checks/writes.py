"""
Which instructions write to memory, and which variables they may write.

Buffers that nothing writes need no history.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.dialects.spirv.atomic import AtomicOperation
from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixStoreOp
from xdsl_spirv.dialects.spirv.cooperative_matrix_tensor import CooperativeMatrixStoreTensorOp
from xdsl_spirv.dialects.spirv.cooperative_vector import (
    CooperativeVectorOuterProductAccumulateOp,
    CooperativeVectorReduceSumAccumulateOp,
    CooperativeVectorStoreOp,
)
from xdsl_spirv.dialects.spirv.glsl import GLPointerForm
from xdsl_spirv.dialects.spirv.pointer import CopyMemorySizedOp
from xdsl_spirv.dialects.spirv.tensor_arm import TensorWriteOp
from xdsl_spirv.dialects.spirv.types import UntypedPointerType
from xdsl_spirv.dialects.spirv.vendor import CooperativeMatrixStoreNVOp
from xdsl_spirv.interpreter.checks.memory_model import accessed_pointer, root_of

STORES = (
    memory_ops.StoreOp
    | memory_ops.CopyMemoryOp
    | GLPointerForm
    | CooperativeMatrixStoreOp
    | AtomicOperation
)
OTHER_STORES = (
    CopyMemorySizedOp
    | kernel.SubgroupBlockWriteOp
    | kernel.AtomicFlag
    | CooperativeMatrixStoreTensorOp
    | CooperativeMatrixStoreNVOp
    | CooperativeVectorStoreOp
    | CooperativeVectorReduceSumAccumulateOp
    | CooperativeVectorOuterProductAccumulateOp
)
"""Extensions' instructions that write through one pointer."""


def is_write(op: Operation) -> bool:
    """Whether an instruction writes to memory."""
    return isinstance(op, STORES | OTHER_STORES | TensorWriteOp)


def written_variables(module: Operation) -> set[str] | None:
    """The variables that anything may write, None if that may be any."""
    found: set[str] = set()
    for op in module.walk():
        if not is_write(op):
            continue
        pointer = accessed_pointer(op, True)
        root = None if pointer is None else root_of(pointer)
        if root is not None:
            found.add(root)
        elif not isinstance(op, STORES) or isinstance(op, AtomicOperation) or _may_alias(op):
            return None
    return found


def _may_alias(op: Operation) -> bool:
    from xdsl_spirv.interpreter.spirv.memory import has_bytes, pointer_type

    pointer = accessed_pointer(op, True)
    assert pointer is not None
    return isinstance(pointer.type, UntypedPointerType) or has_bytes(pointer_type(pointer))
