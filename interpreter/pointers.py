"""Finds the variables to which pointers lead, and the instructions that access memory."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias, TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.errors import InterpreterError

VALUE_CLASSES = (spv.StorageClass.Function, spv.StorageClass.Private, spv.StorageClass.Input)
"""Storage classes whose variables are stored as values, not as bytes."""

SHARED = (
    spv.StorageClass.StorageBuffer,
    spv.StorageClass.Uniform,
    spv.StorageClass.PhysicalStorageBuffer,
    spv.StorageClass.CrossWorkgroup,
    spv.StorageClass.Generic,
    spv.StorageClass.Workgroup,
    spv.StorageClass.Image,
)
"""Storage classes whose memory other invocations may write."""

CHAINS = (spv.AccessChain, spv.PtrAccessChain, spv.CopyObjectOp)
"""Instructions that compute a pointer into the same memory as their first operand."""

Root: TypeAlias = SSAValue | str
"""
The variable of a pointer: a variable of a function (an SSA value), or a variable of the module (a
symbol).
"""


def pointer_type(value: SSAValue) -> spv.PointerType:
    """Returns the type of a pointer value. Raises `InterpreterError` for an untyped pointer."""
    if isinstance(value.type, spv.UntypedPointerType):
        raise InterpreterError(
            "this access through an untyped pointer is not supported",
            remedy="give the pointer a type",
        )
    assert isinstance(value.type, spv.PointerType)
    return value.type


def has_bytes(type: spv.PointerType) -> bool:
    """True if a pointer refers to memory that is stored as bytes."""
    if isinstance(type.pointee, spv.TensorArmType):
        return False
    return type.storage_class.data not in VALUE_CLASSES


def storage_of(pointer: SSAValue | None) -> spv.StorageClass | None:
    """Returns the storage class of a pointer, or None for another value."""
    storage = getattr(getattr(pointer, "type", None), "storage_class", None)
    return None if storage is None else storage.data


def is_shared(value: SSAValue) -> bool:
    """True if a value is a pointer to memory that other invocations may write."""
    return storage_of(value) in SHARED


def source_of_pointer(pointer: SSAValue) -> SSAValue:
    """
    Follows access chains and copies backwards. Returns the pointer from which they derive this
    pointer.
    """
    owner = pointer.owner
    while isinstance(owner, CHAINS) or carries(owner, "OpImageTexelPointer"):
        pointer = owner.operands[0]
        owner = pointer.owner
    return pointer


def carries(op: object, *instructions: str) -> TypeGuard[spv.RawOp]:
    """True for a raw operation that represents one of the named instructions."""
    return isinstance(op, spv.RawOp) and op.instruction.data in instructions


def image_pointer(op: spv.RawOp) -> SSAValue | None:
    """
    Returns the pointer to the variable of the image that an instruction accesses. Returns None if
    it accesses no image.
    """
    if not op.instruction.data.startswith("OpImage") or "Query" in op.instruction.data:
        return None
    owner = op.arguments[0].owner
    while carries(owner, "OpImage", "OpSampledImage", "OpCopyObject"):
        owner = owner.arguments[0].owner
    return owner.operands[0] if isinstance(owner, spv.LoadOp) else None


def named_variable(pointer: SSAValue) -> str | None:
    """Returns the symbol of a module variable if the value is its address, otherwise None."""
    owner = pointer.owner
    return owner.variable.string_value() if isinstance(owner, spv.AddressOfOp) else None


def root_of(pointer: SSAValue) -> str | None:
    """
    Returns the symbol of the module variable that a pointer leads to. Returns None if it is not
    obvious.
    """
    return named_variable(source_of_pointer(pointer))


def probable_root(pointer: SSAValue) -> Root:
    """
    Returns the variable that a pointer probably leads to.

    Follows the first operands of casts and selections, too. If the last value is not a variable,
    returns that value.
    """
    owner: Operation | Block = pointer.owner
    while isinstance(owner, Operation) and owner.operands:
        if isinstance(owner, spv.VariableOp):
            break
        pointer, owner = owner.operands[0], owner.operands[0].owner
    return named_variable(pointer) or pointer


def accessed_pointer(op: Operation, write: bool) -> SSAValue | None:
    """Returns the pointer through which an instruction reads or writes, or None."""
    if isinstance(op, spv.CopyMemoryOp | spv.CopyMemorySizedOp):
        return op.operands[0 if write else 1]
    if isinstance(op, spv.AtomicOperation):
        return op.pointer  # pyright: ignore
    if isinstance(op, spv.RawOp):
        return image_pointer(op)
    return next((o for o in op.operands if storage_of(o) is not None), None)


STORES = (
    spv.StoreOp
    | spv.CopyMemoryOp
    | spv.GLPointerForm
    | spv.CooperativeMatrixStoreOp
    | spv.AtomicOperation
)

DIRECT_STORES = (
    spv.StoreOp,
    spv.CopyMemoryOp,
    spv.CooperativeMatrixStoreOp,
    spv.AtomicOperation,
)
"""Instructions that write through their first operand."""

OTHER_STORES = (
    spv.CopyMemorySizedOp
    | spv.SubgroupBlockWriteOp
    | spv.AtomicFlag
    | spv.CooperativeMatrixStoreTensorOp
    | spv.CooperativeMatrixStoreNVOp
    | spv.CooperativeVectorStoreOp
    | spv.CooperativeVectorReduceSumAccumulateOp
    | spv.CooperativeVectorOuterProductAccumulateOp
)
"""Instructions of extensions that write through one pointer."""


def is_write(op: Operation) -> bool:
    """True if an instruction writes to memory."""
    return _is_store(type(op)) or carries(op, "OpImageWrite")


@cache
def _is_store(kind: type[Operation]) -> bool:
    return issubclass(kind, STORES | OTHER_STORES | spv.TensorWriteOp)


def written_variables(module: Operation) -> set[str] | None:
    """
    Returns the variables that instructions may write. Returns None if a write may reach any
    variable.
    """
    written: set[str] = set()
    for op in module.walk():
        if not is_write(op):
            continue
        pointer = accessed_pointer(op, True)
        root = None if pointer is None else root_of(pointer)
        if root is not None:
            written.add(root)
        elif not isinstance(op, STORES) or isinstance(op, spv.AtomicOperation) or _may_alias(op):
            return None
    return written


def _may_alias(op: Operation) -> bool:
    pointer = accessed_pointer(op, True)
    assert pointer is not None
    return isinstance(pointer.type, spv.UntypedPointerType) or has_bytes(pointer_type(pointer))
