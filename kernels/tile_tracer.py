"""Traces a Python function to a tile program."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.kernels.lines import Lines
from xdsl_spirv.kernels.tracer import KernelError, refuse_left


class TileTracer:
    """State of tracing a tile program. Operations are written to `block`."""

    def __init__(self, name: str, block: Block):
        self.name, self.block = name, block
        self.lines = Lines()
        self.variables: list[Any] = []
        self.fault: str | None = None
        self.left: set[Block] = set()
        """Bodies of the loops that the code has left."""

    def insert(self, op: Operation) -> None:
        """Appends an operation to the program."""
        refuse_left(op, self.left)
        op.location = self.lines.here()
        self.block.add_op(op)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation to the program. Returns the operation's result."""
        self.insert(op)
        name = self.lines.assigned()
        if name and op.results[0].name_hint is None:
            op.results[0].name_hint = name
        return op.results[0]

    def as_index(self, value: Any) -> SSAValue:
        """Converts a number of the program or a Python integer to an index."""
        if type(value) is int:
            return self.add(arith.ConstantOp.from_int_and_width(value, IndexType()))
        ssa: Any = getattr(value, "ssa", None)
        if not isinstance(ssa, SSAValue) or getattr(value, "shape", ()):
            raise KernelError(f"{value!r} is not a number", "", "give an integer or a number")
        if isinstance(ssa.type, IndexType):
            return ssa
        if value.type.is_float or value.type.is_boolean:
            raise KernelError(f"{value!r} is not an integer", "", "convert with .to(i32)")
        return self.add(arith.IndexCastOp(ssa, IndexType()))

    def plain(self, ssa: SSAValue) -> SSAValue:
        """Converts an index to i32, the type of tile elements; returns other values unchanged."""
        return self.add(arith.IndexCastOp(ssa, i32)) if isinstance(ssa.type, IndexType) else ssa

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Appends operations to `block` inside the `with`."""
        before, self.block = self.block, block
        try:
            yield
        finally:
            self.block = before
            self.left.add(block)


_current: ContextVar[TileTracer | None] = ContextVar("tile program", default=None)


def current() -> TileTracer:
    """Returns the program that is being traced. Raises `KernelError` outside of a kernel."""
    tracer = _current.get()
    if tracer is None:
        raise KernelError("no kernel is being traced", "", "call this under @tiles.kernel")
    return tracer


@contextmanager
def tracing(tracer: TileTracer) -> Generator[None]:
    """Makes `tracer` the current program inside the `with`."""
    token = _current.set(tracer)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass
class Traced:
    """A tile program, the Python source lines of its operations, and its parameters."""

    program: tile.ProgramOp
    lines: Lines
    names: Sequence[str]
    """The parameter of each argument of the program."""

    @property
    def hints(self) -> dict[str, str]:
        """Maps the name hint of each argument to its parameter."""
        arguments = self.program.body.block.args
        return {a.name_hint or "": n for a, n in zip(arguments, self.names, strict=True)}
