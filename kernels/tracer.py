"""Traces a Python function to a kernel, and defines the error for invalid kernels."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import index
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects import spv
from xdsl_spirv.kernels.lines import Lines
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, built_in_variable, declare
from xdsl_spirv.runtime.errors import ProgramError


class KernelError(ProgramError):
    """Raised for a Python kernel that cannot be traced, and for invalid arguments of a launch."""


def refuse_left(op: Operation, left: set[Block]) -> None:
    """
    Raises `KernelError` if an operation uses a value of one of the blocks `left`: the bodies of
    loops and branches that the code has left.
    """
    for inner in op.walk():
        for value in inner.operands:
            block = value.owner if isinstance(value.owner, Block) else value.owner.parent
            if block is not None and block in left and not op.is_ancestor(block):
                raise KernelError(
                    "a value that a loop or branch computes is used after it",
                    "",
                    "make it a variable: v = variable(...) before, v.value = ... inside",
                )


class Code(SpirvEmitter):
    """
    The code of a kernel while it is traced. `interface` names the global variables that the code
    uses; `lines` are its Python lines.
    """

    def __init__(self, function: spv.FuncOp, module: spv.ModuleOp):
        super().__init__(InsertPoint.at_end(function.body.block), module)
        self.interface: dict[str, None] = {}
        self.lines = Lines()
        self.left: set[Block] = set()
        """Blocks of the loops and branches that the code has left."""

    def insert(self, op: Operation, depth: int = -1) -> None:
        refuse_left(op, self.left)
        op.location = self.lines.here()
        super().insert(op, depth)

    def address(self, variable: spv.ModuleVariable) -> SSAValue:
        self.interface[variable.sym_name.data] = None
        return super().address(variable)


@dataclass
class Tracer:
    """State of tracing a kernel."""

    name: str
    workgroup: tuple[int, int, int]
    module: spv.ModuleOp = field(init=False)
    function: spv.FuncOp = field(init=False)
    code: Code = field(init=False)
    branch: tuple[Any, ...] | None = None
    """The last `when` of this block, which an `otherwise` may follow."""
    fault: str | None = None
    """An error in code that cannot raise exceptions. It is raised later."""

    def __post_init__(self) -> None:
        self.module = spv.ModuleOp([], spv.AddressingModel.Logical, spv.MemoryModel.GLSL450)
        self.function = spv.FuncOp(self.name, ([], []))
        self.module.body.block.add_op(self.function)
        self.code = Code(self.function, self.module)

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation to the kernel. Returns the operation's result."""
        self.branch = None
        return self.code.add(op)

    def insert(self, op: Operation) -> None:
        """Appends an operation to the kernel."""
        self.branch = None
        self.code.insert(op)

    def declare(self, variable: spv.GlobalVariableOp) -> SSAValue:
        """Declares a global variable and returns its pointer."""
        return self.code.address(declare(self.module, variable))

    def built_in(self, built_in: spv.BuiltIn, component: int | None = None) -> SSAValue:
        built_in_variable(self.module, built_in)
        return self.code.built_in(built_in, component)

    def first(self, make: Callable[[], Operation]) -> SSAValue:
        """Inserts an operation at the start of the function. Returns the operation's result."""
        return self.code.at_top(make())


_current: ContextVar[Tracer | None] = ContextVar("kernel", default=None)


def current() -> Tracer:
    """Returns the kernel that is being traced. Raises `KernelError` outside of a kernel."""
    tracer = _current.get()
    if tracer is None:
        raise KernelError(
            "no kernel is being traced", "", "call this in a function under @kernel(workgroup=...)"
        )
    return tracer


@contextmanager
def tracing(tracer: Tracer) -> Generator[None]:
    """Makes `tracer` the current kernel inside the `with`."""
    if _current.get() is not None:
        raise KernelError(
            "a kernel cannot be defined inside another kernel",
            tracer.name,
            "move the inner kernel out of the function",
        )
    token = _current.set(tracer)
    try:
        yield
    finally:
        _current.reset(token)


def three(size: Any, what: str) -> tuple[int, int, int]:
    """
    Returns one to three positive integers, padded with 1s to three.

    Raises `KernelError` for other values of `size`.
    """
    parts: tuple[Any, ...] = tuple(size) if isinstance(size, tuple | list) else (size,)
    if not 1 <= len(parts) <= 3 or not all(_is_count(part) for part in parts):
        raise KernelError(f"{size!r} is not a {what}", "", "give one to three integers above 0")
    x, y, z = (*map(index, parts), 1, 1)[:3]
    return x, y, z


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and 0 < value <= spv.WORD
