"""
Executes atomics. The invocations take effect in the order of workgroup, subgroup and lane.

Operations of several invocations on one address are computed together. Their operands are sorted by
address, and each operation reads the value that the previous operation wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.memory import Pointer, Pointers, by_case
from xdsl_spirv.interpreter.numbers import Array, DType, raw_dtype
from xdsl_spirv.interpreter.pointers import has_bytes
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.spirv.memory import accessed


class Places:
    """The active invocations of an atomic: their element indices, and a flat view of the memory."""

    def __init__(self, batch: Batch, pointer: Pointer, dtype: DType):
        self.shape = batch.shape
        target = pointer.memory
        view = target.view(dtype)
        mask = batch.mask
        items = pointer.items(dtype.itemsize, mask)
        if mask is not None:
            items = np.where(mask, items, 0)
        if target.robust:
            lost = items.view(np.uint64) >= target.length(view.dtype)
            if lost.any():
                mask = ~lost if mask is None else mask & ~lost
                items = np.where(lost, 0, items)
        else:
            memory.check_items(target, items, 1, target.length(view.dtype), "an atomic access")
        if target.rows != "shared":
            items = items + target.row_starts(view.shape[1])
        self.view = view.reshape(-1)
        self.mask = self._mask(mask)
        self.items = self.pick(items)

    def _mask(self, mask: Mask) -> Mask:
        return None if mask is None else np.broadcast_to(mask, self.shape)

    def pick(self, value: Array) -> Array:
        """Returns the values of the active lanes as a flat array, in the order of the lanes."""
        full = np.broadcast_to(value, self.shape)
        return full.reshape(-1) if self.mask is None else full[self.mask]

    def put(self, values: Array) -> Array:
        """
        Reverses `pick`: returns an array of all lanes from the values of the active ones. Inactive
        lanes get 0.
        """
        if self.mask is None:
            return values.reshape(self.shape)
        result = np.zeros(self.shape, values.dtype)
        result[self.mask] = values
        return result


def atomic_type(op: Any) -> spv.PointerType:
    """
    Returns the type of an atomic's pointer. An untyped pointer points to the type of the result or
    of the stored value.
    """
    if isinstance(op, spv.AtomicFlag):
        return accessed(op.pointer, i32)
    return accessed(op.pointer, op.results[0].type if op.results else op.value.type)


def _view_dtype(op: Any, context: Context) -> DType:
    type = atomic_type(op)
    if not has_bytes(type):
        raise InterpreterError(
            f"{op.name} needs a storage buffer or Workgroup memory, "
            f"not {type.storage_class.data.name} memory",
            op,
        )
    return context.plain(type.pointee).dtype


def segments(items: Array) -> tuple[Array, Array]:
    """Sorts items stably. Returns the order, and the start of each run of equal items."""
    order = np.argsort(items, kind="stable")
    ordered = items[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: order.size])
    return order, starts


def accumulate(view: Array, items: Array, operands: Array, ufunc: np.ufunc) -> Array:
    """
    Sets `memory = ufunc(memory, operand)` for each operand in order. Returns the old value that
    each operation read.
    """
    order, starts = segments(items)
    ends = np.append(starts[1:], items.size)
    held_before = np.empty(items.size, view.dtype)
    ordered = operands[order]
    if starts.size == items.size:
        held_before[:] = view[items]
        view[items] = ufunc(held_before, operands).astype(view.dtype, copy=False)
        return held_before
    for start, end in zip(starts, ends, strict=True):
        place = items[order[start]]
        steps = np.concatenate([view[place : place + 1], ordered[start:end]])
        states = ufunc.accumulate(steps, dtype=view.dtype)
        held_before[order[start:end]] = states[:-1]
        view[place] = states[-1]
    return held_before


_UPDATES: dict[type[Operation], np.ufunc] = {
    spv.AtomicIAddOp: np.add,
    spv.AtomicISubOp: np.subtract,
    spv.AtomicSMinOp: np.minimum,
    spv.AtomicSMaxOp: np.maximum,
    spv.AtomicUMinOp: np.minimum,
    spv.AtomicUMaxOp: np.maximum,
    spv.AtomicAndOp: np.bitwise_and,
    spv.AtomicOrOp: np.bitwise_or,
    spv.AtomicXorOp: np.bitwise_xor,
    spv.AtomicFAddEXTOp: np.add,
    spv.AtomicFMinEXTOp: np.fmin,
    spv.AtomicFMaxEXTOp: np.fmax,
}


@action(*_UPDATES)
def update(op: spv.AtomicUpdate, context: Context) -> Function:
    """Combines memory with the operand. Returns the old value of memory."""
    ufunc, dtype = _UPDATES[type(op)], _view_dtype(op, context)
    if isinstance(op, spv.AtomicUMinOp | spv.AtomicUMaxOp):
        return by_memory(_updater(ufunc, raw_dtype(dtype), dtype, bool(op.result.uses)))
    return by_memory(_updater(ufunc, dtype, dtype, bool(op.result.uses)))


def _updater(ufunc: np.ufunc, dtype: DType, result: DType, used: bool) -> Function:
    def call(batch: Batch, pointer: Pointer, value: Array) -> Array:
        places = Places(batch, pointer, dtype)
        operands = places.pick(value.view(dtype))
        if used:
            return places.put(accumulate(places.view, places.items, operands, ufunc)).view(result)
        ufunc.at(places.view, places.items, operands)
        return np.zeros((1, 1, 1), result)

    return call


@action(spv.AtomicIIncrementOp, spv.AtomicIDecrementOp)
def step(op: spv.AtomicStep, context: Context) -> Function:
    """Adds or subtracts 1. Returns the old value of memory."""
    dtype = _view_dtype(op, context)
    one = np.full((1, 1, 1), 1 if isinstance(op, spv.AtomicIIncrementOp) else -1, dtype)
    call = _updater(np.add, dtype, dtype, bool(op.result.uses))
    return by_memory(lambda batch, pointer: call(batch, pointer, one))


@action(spv.AtomicLoadOp)
def load(op: spv.AtomicLoadOp, context: Context) -> Function:
    """Loads the value in memory."""
    form = Plain(_view_dtype(op, context))
    return by_memory(lambda batch, pointer: memory.load(pointer, form, batch.mask))


@action(spv.AtomicStoreOp)
def store(op: spv.AtomicStoreOp, context: Context) -> Function:
    """Stores the value. If several stores have one address, the last invocation's value remains."""
    form = Plain(_view_dtype(op, context))
    names = list(op.operands)
    pointer_first = names[0] is op.pointer

    def call(batch: Batch, first: Any, second: Any) -> None:
        pointer, value = (first, second) if pointer_first else (second, first)
        memory.store(pointer, form, value, batch.mask)

    return by_memory(call)


def by_memory(function: Function) -> Function:
    """
    Wraps an atomic's function so that it runs separately for each memory that its pointer refers
    to.
    """

    def call(batch: Batch, *operands: Any) -> Any:
        place = next(n for n, o in enumerate(operands) if isinstance(o, Pointer | Pointers))

        def one_memory(pointer: Pointer, lanes: Mask) -> Any:
            outer, batch.mask = batch.mask, lanes
            result = function(batch, *operands[:place], pointer, *operands[place + 1 :])
            batch.mask = outer
            return result

        return by_case(operands[place], batch.mask, one_memory, merge_results)

    return call


def merge_results(lanes: Mask, new: Any, old: Any) -> Any:
    """
    Returns the new results in the lanes of a mask and the old ones elsewhere. Returns None if there
    are no results.
    """
    return None if old is None else np.where(lanes, new, old)


Sequential = Callable[[Array, Array, tuple[Array, ...]], None]


def one_by_one(
    batch: Batch, pointer: Pointer, dtype: DType, operands: tuple[Array, ...], change: Sequential
) -> Array:
    """
    Changes memory by `change(view, items, operands)` for each invocation in order. Returns the old
    values.

    The addresses within one call of `change` are distinct. If several invocations have one address,
    the first call gets the first one, the next call the second one, and so on.
    """
    places = Places(batch, pointer, dtype)
    picked = tuple(places.pick(operand) for operand in operands)
    order, starts = segments(places.items)
    lengths: Array = np.diff(starts, append=order.size)
    rank = np.arange(order.size) - np.repeat(starts, lengths)
    held_before = np.empty(order.size, dtype)
    for turn in range(int(rank.max(initial=-1)) + 1):
        chosen = order[rank == turn]
        items = places.items[chosen]
        held_before[chosen] = places.view[items]
        change(places.view, items, tuple(operand[chosen] for operand in picked))
    return places.put(held_before)


@action(spv.AtomicExchangeOp)
def exchange(op: spv.AtomicExchangeOp, context: Context) -> Function:
    """Stores the value. Returns the old value of memory."""
    dtype = _view_dtype(op, context)

    def change(view: Array, items: Array, operands: tuple[Array, ...]) -> None:
        view[items] = operands[0]

    return by_memory(
        lambda batch, pointer, value: one_by_one(batch, pointer, dtype, (value,), change)
    )


@action(spv.AtomicFlagTestAndSetOp)
def test_and_set(op: spv.AtomicFlagTestAndSetOp, context: Context) -> Function:
    """Sets the flag. Returns True if it was set before."""
    dtype, one = _view_dtype(op, context), np.ones((1, 1, 1), np.int32)

    def change(view: Array, items: Array, operands: tuple[Array, ...]) -> None:
        view[items] = operands[0]

    return by_memory(lambda batch, pointer: one_by_one(batch, pointer, dtype, (one,), change) != 0)


@action(spv.AtomicFlagClearOp)
def clear(op: spv.AtomicFlagClearOp, context: Context) -> Function:
    """Clears the flag."""
    form, zero = Plain(_view_dtype(op, context)), np.zeros((1, 1, 1), np.int32)
    return by_memory(lambda batch, pointer: memory.store(pointer, form, zero, batch.mask))


@action(spv.AtomicCompareExchangeOp, spv.AtomicCompareExchangeWeakOp)
def compare_exchange(op: spv.AtomicCompare, context: Context) -> Function:
    """Stores the value where memory equals the comparator. Returns the old value of memory."""
    dtype = _view_dtype(op, context)

    def change(view: Array, items: Array, operands: tuple[Array, ...]) -> None:
        value, comparator = operands
        view[items] = np.where(view[items] == comparator, value, view[items])

    return by_memory(
        lambda batch, pointer, value, comparator: one_by_one(
            batch, pointer, dtype, (value, comparator), change
        )
    )
