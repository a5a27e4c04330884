"""
Runs a host function, one operation after the other, on whole numpy arrays.

A tensor or a memref is an array of its type's shape, a scalar a 0-d array. A tensor is never
changed: an operation whose `outs` is a tensor returns a new one. An operation whose `outs` is a
memref writes into it. Nearly all time is spent in kernels and in `linalg`, so host functions are
not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np
from xdsl.dialects import cf, func
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.batch import Geometry
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.upstream.scalar_extensions import element_of, of_each_element

HostFunction: TypeAlias = Callable[["Host", Any, Sequence[Any]], Sequence[Any]]
"""
Function of the host, an operation, and the values of its operands. Returns the values of the
results.
"""

ArrayFunctionT = TypeVar("ArrayFunctionT", bound=Callable[..., Any])
"""
Function of an operation and the values of its operands. Returns the value of the only result, or
None.
"""

TABLE: dict[type[Operation], HostFunction] = {}
"""Host functions of operations without a `value` entry in `semantics.TABLE`."""


def host(*ops: type[Operation]) -> Callable[[HostFunction], HostFunction]:
    """Registers the decorated host function for operations and their subclasses."""

    def decorate(function: HostFunction) -> HostFunction:
        for op in ops:
            TABLE[op] = function
        return function

    return decorate


def on_arrays(*ops: type[Operation]) -> Callable[[ArrayFunctionT], ArrayFunctionT]:
    """
    Registers a function of the operands' values. It returns the value of the only result, or None.
    """

    def decorate(function: ArrayFunctionT) -> ArrayFunctionT:
        def run(machine: Host, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
            result = function(op, *operands)
            if result is None:
                return ()
            refuse_other_sizes(op, result)
            return (result,)

        host(*ops)(run)
        return function

    return decorate


def refuse_other_sizes(op: Operation, array: Any) -> None:
    """Raises `InterpreterError` if an array's shape differs from the shape of the result type."""
    type = op.results[0].type if op.results else None
    if not isinstance(type, TensorType | MemRefType) or not isinstance(array, np.ndarray):
        return
    sizes = zip(type.get_shape(), array.shape, strict=True)
    if any(size not in (DYNAMIC_INDEX, given) for size, given in sizes):
        shape = "x".join(map(str, array.shape))
        raise InterpreterError(
            f"{op.name} computed an array of shape {shape}, but its result type is {type}", op
        )


class Host:
    """Runs the functions of a `builtin.module`. Without `launches`, refuses a `gpu.launch_func`."""

    def __init__(self, module: ModuleOp, options: Options, launches: bool = True):
        self.module = module
        self.options = options
        self.launches = launches
        self.context = Context(
            module, options, Geometry((1, 1, 1), (1, 1, 1), options.subgroup_size)
        )
        self._staged: dict[Operation, semantics.Function] = {}
        self.bodies: dict[Block, Any] = {}
        self._frames: list[dict[SSAValue, Any]] = []

    def function(self, name: str) -> func.FuncOp:
        """Returns the function of that name. Raises `InterpreterError` if it has no body."""
        symbol = self.context.symbols.get(name)
        if isinstance(symbol, func.FuncOp) and symbol.body.blocks:
            return symbol
        names = [n for n, op in self.context.symbols.items() if isinstance(op, func.FuncOp)]
        raise InterpreterError(
            f"the module has no function @{name} with a body",
            "the module",
            f"its functions are: {', '.join(names) or 'none'}",
        )

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """Runs a function on arguments and returns its results."""
        block = self.function(name).body.blocks[0]
        env: dict[SSAValue, Any] = dict(zip(block.args, arguments, strict=True))
        return self.run(block, env)

    def run(self, block: Block, env: dict[SSAValue, Any]) -> list[Any]:
        """Runs a block and its successors. Returns the operands of the last terminator."""
        self._frames.append(env)
        passed: list[Any] = []
        following: Block | None = block
        while following is not None:
            block, following = following, None
            for op in block.ops:
                operands = [env[operand] for operand in op.operands]
                if op.has_trait(IsTerminator):
                    following, passed = _follow_terminator(op, operands)
                    break
                results = self.evaluate(op, operands)
                for result, value in zip(op.results, results, strict=True):
                    env[result] = value
            if following is not None:
                env.update(zip(following.args, passed, strict=True))
        self._frames.pop()
        return passed

    def value(self, value: SSAValue) -> Array:
        """
        Returns a value that a body uses from outside. A scalar is given the shape (1, 1, 1), so
        that it broadcasts.
        """
        held = self._frames[-1][value]
        return (
            held if isinstance(value.type, TensorType | MemRefType) else np.reshape(held, (1,) * 3)
        )

    @contextmanager
    def frame(self, values: dict[SSAValue, Any]) -> Generator[None]:
        """Makes the values around an operation visible to its regions while they run."""
        self._frames.append(values)
        yield
        self._frames.pop()

    def run_nested(self, block: Block, arguments: Sequence[Any]) -> list[Any]:
        """Runs a block that may also read the values of outer blocks."""
        return self.run(block, self.bind_values(block, arguments))

    def bind_values(self, block: Block, arguments: Sequence[Any]) -> dict[SSAValue, Any]:
        """Returns the values that a block can read: its arguments, and values of outer blocks."""
        return self._frames[-1] | dict(zip(block.args, arguments, strict=True))

    def evaluate(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """
        Runs one operation on values, and returns its results. An operation without results (on
        memrefs) writes into its last operands.
        """
        try:
            function = find(type(op))
            if function is not None:
                results = function(self, op, operands)
            else:
                result = self._stage(op)(*operands)
                results = result if len(op.results) > 1 else (result,)
        except InterpreterError as error:
            raise error.at(op) from None
        if op.results or not results:
            return results
        for target, result in zip(operands[-len(results) :], results, strict=True):
            target[...] = result
        return ()

    def _stage(self, op: Operation) -> semantics.Function:
        staged = self._staged.get(op)
        if staged is None:
            meaning = semantics.TABLE.get(type(op))
            if meaning is None or meaning.kind != "value":
                raise InterpreterError(
                    f"{op.name} has no semantics in a host function",
                    op,
                    "tests/interpreter/test_coverage.py lists the unsupported operations",
                )
            # Arithmetic on tensors is elementwise.
            elements = Block(arg_types=[element_of(value.type) for value in op.operands])
            one = of_each_element(op, elements.args)
            staged = meaning.stage(one, self.context)
            if self.context.poison is not None:
                staged = self.context.poison.watch(one, self.context, staged)
            self._staged[op] = staged
        return staged


def _follow_terminator(op: Operation, operands: list[Any]) -> tuple[Block | None, list[Any]]:
    """Returns the block that runs next, or None, and the values that the terminator passes."""
    match op:
        case cf.BranchOp():
            return op.successor, operands
        case cf.ConditionalBranchOp():
            first = 1 + len(op.then_arguments)
            if bool(operands[0]):
                return op.then_block, operands[1:first]
            return op.else_block, operands[first:]
        case _ if op.successors:
            raise InterpreterError(
                f"{op.name} has no semantics in a host function", op, "write it as cf.cond_br"
            )
        case _:
            return None, operands


def find(kind: type[Operation]) -> HostFunction | None:
    """Returns the host function of an operation class or its nearest base class, or None."""
    for base in kind.__mro__:
        if base in TABLE:
            return TABLE[base]
    return None


def check_input(value: Any, type: Attribute, place: str) -> Array:
    """
    Converts an argument to an array of its type. Raises `InterpreterError` if its shape or its
    element type is wrong.
    """
    array = np.asarray(value)
    if isinstance(type, TensorType | MemRefType):
        shape, dtype = tuple(type.get_shape()), scalar_dtype(type.element_type)
    else:
        shape, dtype = (), scalar_dtype(type)
    if dtype is None:
        raise InterpreterError(f"inputs of type {type} are not supported", place)
    fits = len(shape) == array.ndim and all(
        size in (DYNAMIC_INDEX, given) for size, given in zip(shape, array.shape, strict=True)
    )
    if not fits:
        shown = tuple("?" if size == DYNAMIC_INDEX else size for size in shape)
        raise InterpreterError(
            f"the input has shape {array.shape}, but {type} was expected",
            place,
            f"pass an array of shape {shown}",
        )
    same_bits = array.dtype.itemsize == dtype.itemsize
    if array.dtype != dtype and not (same_bits and {array.dtype.kind, dtype.kind} <= set("iu")):
        raise InterpreterError(
            f"the input has dtype {array.dtype}, but {type} was expected",
            place,
            f"pass an array of dtype {dtype}",
        )
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)
