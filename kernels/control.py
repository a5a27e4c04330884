"""
Loops and branches of a kernel.

    for i in k.range(n):
        with k.when(x[i] > 0.0):
            y[i] = x[i]
        with k.otherwise():
            y[i] = 0.0

A value that a loop changes must be a variable (`k.variable`). A body is traced once, so `break`,
`continue` and `return` cannot depend on values of the device, and `kernel` rejects them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from xdsl.ir import Block, Region

from xdsl_spirv.dialects import spv
from xdsl_spirv.kernels.tracer import KernelError, current
from xdsl_spirv.kernels.types import boolean, u32
from xdsl_spirv.kernels.values import Number, Value, value_of


def range(start: Number, stop: Number | None = None, step: int | Value = 1) -> Iterator[Value]:
    """
    Yields the index of a loop of the kernel, like Python's `range`: `range(stop)` or `range(start,
    stop, step)`.

    The index has the type of the bounds, u32 for Python numbers. The step must be positive, also
    if the device computes it.
    """
    if stop is None:
        start, stop = 0, start
    if not isinstance(step, Value) and (type(step) is not int or step < 1):
        raise KernelError(f"a loop's step must be above 0, not {step!r}", "", "give an integer")
    known = next((v for v in (start, stop, step) if isinstance(v, Value)), None)
    kind = u32 if known is None else known.type
    if kind.is_float or kind.is_boolean or kind.lanes != 1:
        raise KernelError(
            f"a loop's bounds cannot have the type {kind}", "", "convert the bounds to u32 or i32"
        )
    return _loop(value_of(start, kind), value_of(stop, kind), value_of(step, kind))


def _loop(lower: Value, upper: Value, step: Value) -> Iterator[Value]:
    """Yields a loop's index once. Operations that the caller then traces are the loop's body."""
    tracer = current()
    entry, body, back, merge = Block(), Block(), Block(), Block()
    header = Block(arg_types=[lower.type.attribute])
    entry.add_op(spv.BranchOp(header, [lower.ssa]))
    index = header.args[0]
    below = (spv.SLessThanOp if lower.type.is_signed else spv.ULessThanOp)(index, upper.ssa)
    header.add_ops([below, spv.BranchConditionalOp(below.results[0], body, merge)])
    try:
        with tracer.code.inside(body):
            yield Value(index, lower.type)
            tracer.insert(spv.BranchOp(back))
    except GeneratorExit:
        tracer.fault = "break and return are not possible in a loop over kernels.range"
        return
    following = spv.IAddOp(index, step.ssa)
    back.add_ops([following, spv.BranchOp(header, [following.result])])
    merge.add_op(spv.MergeOp([]))
    tracer.insert(spv.LoopOp(Region([entry, header, body, back, merge]), []))
    tracer.code.left |= {header, body}


class _Arm(AbstractContextManager[None]):
    def __init__(self) -> None:
        self.tracer = current()
        self.block, self.merge = Block(), Block()

    def __enter__(self) -> None:
        self._inside = self.tracer.code.inside(self.block)
        self._inside.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.tracer.insert(spv.BranchOp(self.merge))
        self._inside.__exit__(None, None, None)
        self.tracer.code.left.add(self.block)
        if kind is None:
            self.finish()

    @abstractmethod
    def finish(self) -> None: ...


class _When(_Arm):
    def __init__(self, condition: Number):
        super().__init__()
        self.condition = value_of(condition, boolean).ssa
        self.header = Block()

    def finish(self) -> None:
        self.header.add_op(spv.BranchConditionalOp(self.condition, self.block, self.merge))
        self.merge.add_op(spv.MergeOp([]))
        self.region = Region([self.header, self.block, self.merge])
        self.tracer.insert(spv.SelectionOp(self.region, []))
        self.tracer.branch = (self,)


class _Otherwise(_Arm):
    def __init__(self, first: _When):
        super().__init__()
        self.first, self.merge = first, first.merge

    def finish(self) -> None:
        first = self.first
        selection = first.header.parent
        assert selection is not None
        selection.insert_block_before(self.block, first.merge)
        last = first.header.last_op
        assert last is not None
        last.detach()
        last.erase()
        first.header.add_op(spv.BranchConditionalOp(first.condition, first.block, self.block))


def when(condition: Number) -> AbstractContextManager[None]:
    """Starts a branch, `with when(condition):`, for the invocations whose condition is true."""
    return _When(condition)


def otherwise() -> AbstractContextManager[None]:
    """Starts the other arm of a branch, `with otherwise():`, directly after the `when`."""
    branch: Any = current().branch
    if branch is None:
        raise KernelError("otherwise() must follow a when()", "", "move it after a when()")
    return _Otherwise(branch[0])
