"""
Traces a pointer back through the instructions that made it: to its variable, to who accesses memory
through it, and to the variables that a module writes.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from xdsl.ir import Block, Operation, SSAValue

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
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.glsl_forms import GLPointerForm
from xdsl_spirv.dialects.spirv.pointer import CopyMemorySizedOp
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.structure import AddressOfOp
from xdsl_spirv.dialects.spirv.tensor_arm import TensorWriteOp
from xdsl_spirv.dialects.spirv.types import PointerType, UntypedPointerType
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.dialects.spirv.vendor import CooperativeMatrixStoreNVOp
from xdsl_spirv.interpreter.errors import InterpreterError

VALUE_CLASSES = (StorageClass.Function, StorageClass.Private, StorageClass.Input)
"""Storage classes whose variables are values rather than bytes."""

SHARED = (
    StorageClass.StorageBuffer,
    StorageClass.Uniform,
    StorageClass.PhysicalStorageBuffer,
    StorageClass.CrossWorkgroup,
    StorageClass.Generic,
    StorageClass.Workgroup,
    StorageClass.Image,
)
"""Memory that other invocations may write."""

CHAINS = (memory_ops.AccessChain, memory_ops.PtrAccessChain, memory_ops.CopyObjectOp)
"""Instructions whose first operand is the pointer that their result is part of."""

Root: TypeAlias = SSAValue | str
"""A variable of a function, or the symbol of one of the module."""


def pointer_type(value: SSAValue) -> PointerType:
    """The type of a value that the verifier has found to be a pointer, refused if untyped."""
    if isinstance(value.type, UntypedPointerType):
        raise InterpreterError(
            "this access through an untyped pointer is not executed",
            remedy="give the pointer a type",
        )
    assert isinstance(value.type, PointerType)
    return value.type


def has_bytes(type: PointerType) -> bool:
    """Whether a pointer is into memory that has bytes."""
    if isinstance(type.pointee, TensorArmType):
        return False
    return type.storage_class.data not in VALUE_CLASSES


def storage_of(pointer: SSAValue | None) -> StorageClass | None:
    """The storage class of a pointer, None of anything else."""
    storage = getattr(getattr(pointer, "type", None), "storage_class", None)
    return None if storage is None else storage.data


def is_shared(value: SSAValue) -> bool:
    """Whether a value is a pointer to memory that other invocations may write."""
    return storage_of(value) in SHARED


def source_of_pointer(pointer: SSAValue) -> SSAValue:
    """The pointer that access chains and copies began with."""
    owner = pointer.owner
    while isinstance(owner, CHAINS) or carries(owner, "OpImageTexelPointer"):
        pointer = owner.operands[0]
        owner = pointer.owner
    return pointer


def carries(op: object, *instructions: str) -> TypeGuard[RawOp]:
    """True for a raw operation that stands for one of the named instructions."""
    return isinstance(op, RawOp) and op.instruction.data in instructions


def image_pointer(op: RawOp) -> SSAValue | None:
    """The pointer to the variable of the image that an instruction accesses."""
    if not op.instruction.data.startswith("OpImage") or "Query" in op.instruction.data:
        return None
    owner = op.arguments[0].owner
    while carries(owner, "OpImage", "OpSampledImage", "OpCopyObject"):
        owner = owner.arguments[0].owner
    return owner.operands[0] if isinstance(owner, memory_ops.LoadOp) else None


def named_variable(pointer: SSAValue) -> str | None:
    """The module's variable that a pointer is, None if it is anything else."""
    owner = pointer.owner
    return owner.variable.string_value() if isinstance(owner, AddressOfOp) else None


def root_of(pointer: SSAValue) -> str | None:
    """The module's variable that a pointer is into, None if that is not obvious."""
    return named_variable(source_of_pointer(pointer))


def probable_root(pointer: SSAValue) -> Root:
    """
    Follows the first operands of a pointer, through casts and selections, to the probable variable
    of the module or a function, or else to the value where the chain ends.
    """
    owner: Operation | Block = pointer.owner
    while isinstance(owner, Operation) and owner.operands:
        if isinstance(owner, memory_ops.VariableOp):
            break
        pointer, owner = owner.operands[0], owner.operands[0].owner
    return named_variable(pointer) or pointer


def accessed_pointer(op: Operation, write: bool) -> SSAValue | None:
    """The pointer that an instruction reads or writes through."""
    if isinstance(op, memory_ops.CopyMemoryOp | CopyMemorySizedOp):
        return op.operands[0 if write else 1]
    if isinstance(op, AtomicOperation):
        return op.pointer  # pyright: ignore
    if isinstance(op, RawOp):
        return image_pointer(op)
    return next((o for o in op.operands if storage_of(o) is not None), None)


STORES = (
    memory_ops.StoreOp
    | memory_ops.CopyMemoryOp
    | GLPointerForm
    | CooperativeMatrixStoreOp
    | AtomicOperation
)

DIRECT_STORES = (
    memory_ops.StoreOp,
    memory_ops.CopyMemoryOp,
    CooperativeMatrixStoreOp,
    AtomicOperation,
)
"""Instructions that write through their first operand."""

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
    return isinstance(op, STORES | OTHER_STORES | TensorWriteOp) or carries(op, "OpImageWrite")


def written_variables(module: Operation) -> set[str] | None:
    """The variables that anything may write, None if that may be any."""
    written: set[str] = set()
    for op in module.walk():
        if not is_write(op):
            continue
        pointer = accessed_pointer(op, True)
        root = None if pointer is None else root_of(pointer)
        if root is not None:
            written.add(root)
        elif not isinstance(op, STORES) or isinstance(op, AtomicOperation) or _may_alias(op):
            return None
    return written


def _may_alias(op: Operation) -> bool:
    pointer = accessed_pointer(op, True)
    assert pointer is not None
    return isinstance(pointer.type, UntypedPointerType) or has_bytes(pointer_type(pointer))
