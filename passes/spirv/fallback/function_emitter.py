"""Inserts new operations into a module's functions, before the operations that they replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.emit.emitter import Index, Scope
from xdsl_spirv.passes.emit.spirv import SpirvEmitter


class FunctionEmitter(SpirvEmitter):
    """
    Inserts operations into one function, at the point that `before` sets.

    Index arithmetic on constants and built-ins is hoisted to the start of the function.
    """

    def __init__(self, function: spv.FuncOp, module: spv.ModuleOp):
        super().__init__(InsertPoint.at_start(function.body.blocks[0]), module)
        self.function = function
        self._top_values: set[SSAValue] = set()

    def before(self, op: Operation) -> None:
        """Sets the insertion point to before `op`."""
        self.scopes[1:] = [Scope(InsertPoint.before(op))]

    def insert(self, op: Operation, depth: int = -1) -> None:
        if depth % len(self.scopes):
            super().insert(op, depth)
        else:
            self.at_top(op)

    def at_top(self, op: Operation, name: str | None = None) -> SSAValue:
        value = super().at_top(op, name)
        self._top_values.add(value)
        return value

    def outermost(self, kind: Callable[..., Operation], operands: Sequence[SSAValue]) -> int:
        return 0 if self._top_values.issuperset(operands) else self.depth

    def divided(self, a: Index, b: Size) -> Index:
        """Returns the quotient rounded down, by a shift if `b` is a power of two."""
        if isinstance(a, SSAValue) and (bits := _bits_of_power(b)):
            return self.pure(spv.ShiftRightLogicalOp, a, self.index(bits))
        return super().divided(a, b)

    def remainder(self, a: Index, b: Size) -> Index:
        """Returns the remainder, by a mask if `b` is a power of two."""
        if isinstance(a, SSAValue) and (bits := _bits_of_power(b)):
            return self.pure(spv.BitwiseAndOp, a, self.index((1 << bits) - 1))
        return super().remainder(a, b)


def _bits_of_power(number: Size) -> int:
    """Returns n for a number 2^n, and 0 for any other number."""
    return 0 if is_dynamic(number) or number & (number - 1) else number.bit_length() - 1


class ModuleEmitter:
    """Creates and caches an emitter for each function of a module."""

    def __init__(self, module: spv.ModuleOp):
        self.module = module
        self._emitters: dict[spv.FuncOp, FunctionEmitter] = {}

    def before(self, op: Operation) -> FunctionEmitter:
        """Returns the emitter of the function that contains `op`, set to insert before `op`."""
        function = spv.enclosing_function(op)
        assert function is not None
        emitter = self.of(function)
        emitter.before(op)
        return emitter

    def of(self, function: spv.FuncOp) -> FunctionEmitter:
        if function not in self._emitters:
            self._emitters[function] = FunctionEmitter(function, self.module)
        return self._emitters[function]
