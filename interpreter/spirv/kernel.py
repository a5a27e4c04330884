"""
Executes instructions for OpenCL kernels, and Intel's block accesses and roundings.

Like barriers (barrier.py), lifetime instructions and split barriers need no action.
"""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from xdsl_spirv.dialects.spirv import kernel as ops
from xdsl_spirv.dialects.spirv.enums import MemorySemantics, StorageClass
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.layout import PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memories import nothing
from xdsl_spirv.interpreter.memory import Pointer, Pointers, by_case, cases, leaders, start_of
from xdsl_spirv.interpreter.numbers import F32, Array, integer_to_integer, signed, unsigned
from xdsl_spirv.interpreter.semantics import (
    Function,
    action,
    action_of,
    nothing_happens,
    value,
    value_table,
)
from xdsl_spirv.interpreter.variables import VariablePointer

_CLASSES = {
    "shared": StorageClass.CrossWorkgroup,
    "workgroup": StorageClass.Workgroup,
    "lane": StorageClass.Function,
}
"""Maps the kind of a memory's rows (`Memory.rows`) to the memory's storage class."""

_SEMANTICS = {
    StorageClass.CrossWorkgroup: MemorySemantics.CrossWorkgroupMemory,
    StorageClass.Workgroup: MemorySemantics.WorkgroupMemory,
    StorageClass.Function: MemorySemantics(0),
}


def storage_of(pointer: Pointer) -> StorageClass:
    """Returns the storage class of the memory that a Generic pointer refers to."""
    return _CLASSES[pointer.memory.rows]


@action(ops.GenericCastToPtrExplicitOp)
def cast_explicit(op: ops.GenericCastToPtrExplicitOp, context: Context) -> Function:
    """
    Returns the pointer if its memory has the requested storage class, otherwise a null pointer.
    """
    wanted = op.storage.data
    null = start_of(nothing())

    def call(batch: Batch, pointer: Any) -> Any:
        if isinstance(pointer, VariablePointer):
            return pointer if wanted == StorageClass.Function else null
        active_cases = [(one, lanes) for one, lanes in cases(pointer, batch.active())]
        casts = [(one if storage_of(one) == wanted else null, lanes) for one, lanes in active_cases]
        return casts[0][0] if len(casts) == 1 else Pointers(casts)

    return call


@action_of(ops.GenericPtrMemSemanticsOp)
def memory_semantics(batch: Batch, pointer: Any) -> Array:
    """Returns the memory-semantics bit of the storage class that the pointer refers to."""
    if isinstance(pointer, VariablePointer):
        return np.zeros((1, 1, 1), np.int32)
    return by_case(
        pointer,
        batch.active(),
        lambda one, lanes: np.full((1, 1, 1), _SEMANTICS[storage_of(one)], np.int32),
    )


@value(ops.SatConvertSToUOp)
def saturate_to_unsigned(op: ops.SatConvertSToUOp, context: Context) -> Function:
    """Converts signed to unsigned integers. Values out of range are clamped."""
    target = context.plain(op.result.type).dtype
    convert = integer_to_integer(target, sign=True)

    def call(a: Array) -> Array:
        largest = min(2 ** (8 * target.itemsize) - 1, np.iinfo(a.dtype).max)
        return convert(np.clip(a, 0, largest))

    return call


@value(ops.SatConvertUToSOp)
def saturate_to_signed(op: ops.SatConvertUToSOp, context: Context) -> Function:
    """Converts unsigned to signed integers. Values out of range are clamped."""
    target = context.plain(op.result.type).dtype
    convert = integer_to_integer(target, sign=False)

    def call(a: Array) -> Array:
        bits = unsigned(a)
        largest = min(np.iinfo(target).max, int(np.iinfo(bits.dtype).max))
        return convert(signed(np.minimum(bits, bits.dtype.type(largest))))

    return call


nothing_happens(ops.LifetimeStartOp, ops.LifetimeStopOp, ops.ControlBarrierArriveOp)

TF32_DROPPED = 13
"""Number of fraction bits of binary32 that TF32 drops."""


def round_to_tf32(a: Array) -> Array:
    """Rounds to 10 fraction bits, to nearest even. NaN and infinities are unchanged."""
    bits = a.view(np.uint32).astype(np.uint64)
    odd = (bits >> np.uint64(TF32_DROPPED)) & np.uint64(1)
    below_half = np.uint64((1 << (TF32_DROPPED - 1)) - 1)
    rounded = (bits + below_half + odd) >> np.uint64(TF32_DROPPED) << np.uint64(TF32_DROPPED)
    return np.where(np.isfinite(a), rounded.astype(np.uint32).view(F32), a)


value_table(
    {
        ops.LessOrGreaterOp: ew.ordered_not_equal,
        ops.RoundFToTF32Op: round_to_tf32,
        ops.ConvertFToBF16Op: lambda a: a.astype(ml_dtypes.bfloat16).view(np.int16),
        ops.ConvertBF16ToFOp: lambda a: a.view(ml_dtypes.bfloat16).astype(F32),
    }
)


class Block:
    """
    Memory accessed by a block read or write of SPV_INTEL_subgroups. Component c of lane l is
    element c * (subgroup size) + l.
    """

    def __init__(self, type: Any, context: Context):
        self.form = context.plain(type)
        self.count = prod(self.form.shape)
        self.element = Plain(self.form.dtype)

    def places(self, batch: Batch, pointer: Pointer) -> list[Pointer]:
        """
        Returns a pointer for each component. The pointer of the first active lane gives the start
        of the block.
        """
        start = leaders(pointer, batch.mask, (2,))
        size = self.form.dtype.itemsize
        lane = batch.lane_ids()
        return [start.plus(lane, size, c * batch.lanes * size) for c in range(self.count)]


@action(ops.SubgroupBlockReadOp)
def block_read(
    op: ops.SubgroupBlockReadOp, context: Context, load: PlainLoader = memory.load
) -> Function:
    """Reads consecutive integers. Lanes get consecutive elements."""
    block = Block(op.result.type, context)

    def call(batch: Batch, pointer: Pointer) -> Array:
        active_cases = [load(p, block.element, batch.mask) for p in block.places(batch, pointer)]
        return np.stack(active_cases, axis=3) if block.form.shape else active_cases[0]

    return call


@action(ops.SubgroupBlockWriteOp)
def block_write(
    op: ops.SubgroupBlockWriteOp, context: Context, store: PlainStorer = memory.store
) -> Function:
    """Writes integers so that the elements of consecutive lanes are adjacent."""
    block = Block(op.value.type, context)

    def call(batch: Batch, pointer: Pointer, value: Array) -> None:
        for number, place in enumerate(block.places(batch, pointer)):
            part = value[..., number] if block.form.shape else value
            store(place, block.element, part, batch.mask)

    return call
