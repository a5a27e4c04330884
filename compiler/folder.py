"""
Evaluates operations on weights and constants for `fold-constants`, with the interpreter.

The interpreter and numpy are imported only if an operation can be folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.compiler.signature import add_weight, argument_name, result_name
from xdsl_spirv.compiler.weights import constant_array, hold_array, known_weights
from xdsl_spirv.passes.analysis.values import MAKERS, operands_of
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.upstream.held_tensors import has_data

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.host.machine import Host

GROWTH = 2
"""Maximum ratio of the elements of a folded tensor to the elements of its largest operand."""

SMALL = 4096
"""Maximum number of elements of a folded tensor to which `GROWTH` does not apply."""


class Known(dict[SSAValue, Any]):
    """
    Maps a value to its contents, if they are known. Contents may be given as a function, which is
    called at the first read and replaced by its result.
    """

    def __getitem__(self, value: SSAValue) -> Any:
        known = super().__getitem__(value)
        if callable(known):
            known = self[value] = known()
        return known


class Folder:
    """Folds the operations of a function, in order. `known` maps values to their known contents."""

    def __init__(self, module: ModuleOp, function: FuncOp):
        self.function = function
        self.module = module
        self.known = Known()
        self.folded: list[Operation] = []
        for index, array in known_weights(function).items():
            self.known[function.body.block.args[index]] = array

    @cached_property
    def machine(self) -> Host:
        """The interpreter, created on first use."""
        from xdsl_spirv.interpreter.host.machine import Host
        from xdsl_spirv.interpreter.options import Options

        return Host(self.module, Options())

    def visit(self, op: Operation) -> None:
        """
        Evaluates an operation whose operands are all known. Otherwise replaces the known offsets,
        sizes and strides of a slice by static attributes.
        """
        if isinstance(op, arith.ConstantOp):
            if has_data(op.value):
                self.known[op.result] = lambda: self._constant(op)
            return
        values = operands_of(op)
        pure = op.name.startswith(("arith.", "tensor.", "math.")) or (
            isinstance(op, LinalgStructuredOperation) and bool(op.results)
        )
        if not pure or not op.results or any(value not in self.known for value in values):
            if isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp):
                self._make_static(op)
            return
        types = [r.type for r in op.results if isinstance(r.type, TensorType)]
        if any(-1 in type.get_shape() for type in types) or dequantizes(op):
            return
        if isinstance(op, MAKERS):
            self.known[op.results[0]] = lambda: self._results(op, values)[0]
        else:
            results = self._evaluate(op, values)
            if results is None:
                return
            self.known.update(zip(op.results, results, strict=True))
        self.folded.append(op)

    def _constant(self, op: arith.ConstantOp) -> Any:
        value = op.value
        if isinstance(value, IntegerAttr | FloatAttr):
            import numpy as np

            (result,) = self.machine.evaluate(op, [])
            return np.asarray(result).reshape(())
        return constant_array(value)

    def _evaluate(self, op: Operation, values: Sequence[SSAValue]) -> list[Any] | None:
        """Returns the results on known operands, or None if the interpreter lacks the operation."""
        from xdsl_spirv.interpreter.errors import InterpreterError

        try:
            return self._results(op, values)
        except InterpreterError:
            return None

    def _results(self, op: Operation, values: Sequence[SSAValue]) -> list[Any]:
        import numpy as np

        env = {value: self.known[value] for value in values}
        operands = [env[value] for value in op.operands]
        with self.machine.frame(env), np.errstate(all="ignore"):
            results = [np.asarray(result) for result in self.machine.evaluate(op, operands)]
        shapes = [v.type.get_shape() if isinstance(v.type, TensorType) else () for v in op.results]
        return [
            r if DYNAMIC_INDEX in shape else r.reshape(shape)
            for r, shape in zip(results, shapes, strict=True)
        ]

    def _make_static(self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> None:
        """
        Replaces known operands for offsets, sizes and strides by static attributes of the
        operation.
        """
        groups: list[list[SSAValue]] = []
        for name in ("offsets", "sizes", "strides"):
            static = op.properties[f"static_{name}"]
            assert isinstance(static, DenseArrayBase)
            dynamic: list[SSAValue] = list(getattr(op, name))
            if all(value in self.known for value in dynamic):
                given = iter(dynamic)
                numbers = [
                    int(self.known[next(given)]) if n == DYNAMIC_INDEX else int(n)
                    for n in static.get_values()
                ]
                op.properties[f"static_{name}"] = DenseArrayBase.from_list(i64, numbers)
                dynamic = []
            groups.append(dynamic)
        count = 1 if isinstance(op, tensor.ExtractSliceOp) else 2
        segments = [1] * count + [len(group) for group in groups]
        op.operands = [*op.operands[:count], *(value for group in groups for value in group)]
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, segments)

    def materialize(self) -> None:
        """Creates constants or weights for the known values that remaining operations read."""
        folded = dict.fromkeys(self.folded)
        for op in reversed(self.folded):
            for result in op.results:
                if all(use.operation in folded for use in result.uses):
                    continue
                replacement = self._replacement(op, result)
                if replacement is None:
                    folded.pop(op, None)
                    continue
                result.replace_all_uses_with(replacement)
                self.known[replacement] = self.known[result]
        for op in reversed(self.folded):
            if all(not result.uses for result in op.results):
                Rewriter.erase_op(op)

    def _replacement(self, op: Operation, result: SSAValue) -> SSAValue | None:
        if isinstance(op, MAKERS) or fills(op):
            return None
        array = self.known[result]
        if not isinstance(result.type, TensorType):
            return self._scalar(op, result, array)
        if self._grows(op, array):
            return None
        return self._weight(op, result, array)

    def _grows(self, op: Operation, array: Array) -> bool:
        read = op.inputs if isinstance(op, LinalgStructuredOperation) else op.operands
        given = [self.known[v].size for v in read if isinstance(v.type, TensorType)]
        largest = max(given, default=1)
        return array.size > SMALL and array.size > GROWTH * largest

    def _scalar(self, op: Operation, result: SSAValue, array: Array) -> SSAValue | None:
        type = result.type
        if isinstance(type, IntegerType | IndexType):
            constant = arith.ConstantOp(IntegerAttr(int(array), type))
        elif type in (f32, f64):
            constant = arith.ConstantOp(FloatAttr(float(array), type))  # pyright: ignore
        else:
            return None
        Rewriter.insert_op(constant, InsertPoint.before(op))
        return constant.result

    def _weight(self, op: Operation, result: SSAValue, array: Array) -> SSAValue:
        import numpy as np

        block = self.function.body.block
        base = next(
            (argument_name(v, i) for i, v in enumerate(block.args) if v in op.operands), "folded"
        )
        name, number = f"{base}.folded", 1
        outputs = range(len(self.function.function_type.outputs))
        taken = {argument_name(v, i) for i, v in enumerate(block.args)}
        taken |= {result_name(self.function, i) for i in outputs}
        while name in taken:
            number += 1
            name = f"{base}.folded{number}"
        assert isinstance(result.type, TensorType)
        known = TensorType(result.type.element_type, array.shape)
        value = hold_array(self.function, name, known, np.asarray(array, order="C"))
        weight = add_weight(self.function, name, "folded", known, value)
        if known == result.type:
            return weight
        opened = tensor.CastOp(weight, result.type)
        Rewriter.insert_op(opened, InsertPoint.before(op))
        return opened.dest


def fills(op: Operation) -> bool:
    """True if an operation creates a tensor whose elements are one number."""
    if not isinstance(op, linalg.ops.GenericOp) or not op.results:
        return False
    last = op.body.block.last_op
    return (
        last is not None
        and len(op.inputs) == 1
        and not isinstance(op.inputs[0].type, TensorType)
        and last.operands[0] is op.body.block.args[0]
    )


def dequantizes(op: Operation) -> bool:
    """True if an operation converts integers of a few bits to floats."""
    if not isinstance(op, LinalgStructuredOperation):
        return False
    given = [v.type.element_type for v in op.operands if isinstance(v.type, TensorType)]
    narrow = any(isinstance(type, IntegerType) and 1 < type.width.data <= 16 for type in given)
    return (
        narrow
        and any(isinstance(r.type, TensorType) for r in op.results)
        and any(
            isinstance(inner, arith.SIToFPOp | arith.UIToFPOp | arith.BitcastOp)
            for inner in op.walk()
        )
    )
