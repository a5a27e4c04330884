"""
Builds a graph module (SPV_ARM_graph) operator by operator, with constant folding.

A value is a known array or an SSA value of the graph. Known arrays become constants where they are
used: small arrays in the module, others as OpGraphConstantARM with a separate array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.compiler.graph_files import GraphProgram
from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.interpreter.graphs import OPERATORS
from xdsl_spirv.passes.spirv.update_vce import update

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = SSAValue | Array

SMALL = 16
"""Maximum number of elements of a constant in the module. Larger ones are separate arrays."""

MAX_RANK = 6
"""Maximum rank of a tensor in TOSA."""

ELEMENTS: dict[str, IntegerType | AnyFloat] = {
    "bool": IntegerType(1),
    "int8": IntegerType(8),
    "int16": IntegerType(16),
    "int32": IntegerType(32),
    "float16": Float16Type(),
    "float32": Float32Type(),
}


def numpy_type(element: Attribute) -> np.dtype[Any]:
    """
    Returns the numpy type of a tensor's elements. Raises KeyError if graphs do not support the
    type.
    """
    return np.dtype({str(t): name for name, t in ELEMENTS.items()}[str(element)])


@dataclass
class GraphBuilder:
    """Appends operators to one graph."""

    inputs: Sequence[TensorArmType]
    constants: dict[int, Array] = field(default_factory=dict[int, Array])

    def __post_init__(self) -> None:
        self.graph = spv.GraphOp("main", (self.inputs, ()), entry_point=True)
        self.block = self.graph.body.block
        self._known: dict[tuple[Any, ...], SSAValue] = {}
        self.arrays: dict[SSAValue, Array] = {}
        """The arrays of the graph's constants."""

    def emit(
        self,
        cls: type[spv.TosaOp],
        values: Sequence[Value],
        shape: Sequence[int],
        element: np.dtype[Any] | type | None = None,
        **parameters: object,
    ) -> Value:
        """
        Appends an operator to the graph and returns its result, or computes the result if all
        operands are known. The result's element type is `element`, or the type of the first value.
        """
        dtype = np.dtype(self.dtype(values[0]) if element is None else element)
        type_ = TensorArmType(list(shape), ELEMENTS[dtype.name])
        known = [v for v in values if isinstance(v, np.ndarray)]
        if len(known) == len(values):
            stand_ins = [spv.GraphConstantOp(0, type_).result for _ in values]
            with np.errstate(all="ignore"):
                op = cls(stand_ins, type_, **parameters)
                return np.asarray(OPERATORS[cls](op, *known), dtype).reshape(shape)
        op = cls([self.value(v) for v in values], type_, **parameters)
        self.block.add_op(op)
        return op.result

    def value(self, value: Value) -> SSAValue:
        """Returns the SSA value of an array. All uses of an array share one constant."""
        if isinstance(value, SSAValue):
            return value
        array = np.ascontiguousarray(value)
        key = (array.dtype, array.shape, array.tobytes())
        known = self._known.get(key)
        if known is None:
            type_ = TensorArmType(list(array.shape), ELEMENTS[array.dtype.name])
            if array.size > SMALL and not any(array.tobytes()):
                op = spv.ConstantNullOp(type_)
            elif array.size > SMALL:
                op = spv.GraphConstantOp(len(self.constants), type_)
                self.constants[len(self.constants)] = array
            else:
                literal = cast("TensorType[IntegerType]", type_.literal_type)
                data = DenseIntOrFPElementsAttr(literal, BytesAttr(array.tobytes()))
                op = spv.ConstantOp(data, type_)
            known = self._known[key] = op.result
            self.block.add_op(op)
            self.arrays[known] = array
        return known

    @staticmethod
    def shape(value: Value) -> tuple[int, ...]:
        if isinstance(value, np.ndarray):
            return value.shape
        assert isinstance(value.type, TensorArmType)
        return value.type.extents

    @staticmethod
    def dtype(value: Value) -> np.dtype[Any]:
        if isinstance(value, np.ndarray):
            return value.dtype
        assert isinstance(value.type, TensorArmType)
        return numpy_type(value.type.element_type)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        if tuple(shape) == self.shape(value):
            return value
        if isinstance(value, SSAValue) and isinstance(value.owner, spv.TosaReshapeOp):
            return self.reshape(value.owner.operands[0], shape)
        return self.emit(spv.TosaReshapeOp, [value, np.array(shape, np.int32)], shape)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Permutes dimensions: `order[i]` becomes dimension i. Merges consecutive transposes."""
        if isinstance(value, SSAValue) and isinstance(value.owner, spv.TosaTransposeOp):
            before = value.owner.vector("perms")
            return self.transpose(value.owner.operands[0], [before[i] for i in order])
        shape = [self.shape(value)[i] for i in order]
        if list(order) == sorted(order):
            return value
        return self.emit(spv.TosaTransposeOp, [value], shape, perms=list(order))

    def slice(self, value: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        if tuple(size) == self.shape(value):
            return value
        places = [np.array(numbers, np.int32) for numbers in (start, size)]
        return self.emit(spv.TosaSliceOp, [value, *places], size)

    def pad(self, value: Value, low: Sequence[int], high: Sequence[int], fill: Any) -> Value:
        shape = [a + n + b for a, n, b in zip(low, self.shape(value), high, strict=True)]
        if not any([*low, *high]):
            return value
        pairs = np.array(list(zip(low, high, strict=True)), np.int32).ravel()
        constant = np.array([fill], self.dtype(value))
        return self.emit(spv.TosaPadOp, [value, pairs, constant], shape)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        if len(values) == 1:
            return values[0]
        shape = list(self.shape(values[0]))
        shape[axis] = sum(self.shape(value)[axis] for value in values)
        return self.emit(spv.TosaConcatOp, values, shape, axis=axis)

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeats dimensions of size 1 to the given shape."""
        here = self.shape(value)
        if here == tuple(shape):
            return value
        times = [n // m for n, m in zip(shape, here, strict=True)]
        return self.emit(spv.TosaTileOp, [value, np.array(times, np.int32)], shape)

    def _drop_unused(self) -> None:
        """Erases operators and constants without uses, and renumbers the constants."""
        for op in reversed(list(self.block.ops)):
            if op.results and not any(list(result.uses) for result in op.results):
                self.block.erase_op(op)
        kept = [op for op in self.block.ops if isinstance(op, spv.GraphConstantOp)]
        arrays = [self.constants[op.graph_constant_id.value.data] for op in kept]
        self.constants.clear()
        for number, (op, array) in enumerate(zip(kept, arrays, strict=True)):
            op.properties["graph_constant_id"] = IntegerAttr(number, 32)
            self.constants[number] = array

    def finish(
        self, results: Sequence[Value], inputs: Sequence[str], outputs: Sequence[str]
    ) -> GraphProgram:
        """Returns the program: its module with variables, the graph, and the entry point `main`."""
        values = [self.value(result) for result in results]
        self.block.add_op(spv.GraphOutputsOp(values))
        self._drop_unused()
        types = [*self.inputs, *(value.type for value in values)]
        whole = spv.GraphOp("main", (self.inputs, types[len(self.inputs) :]),
                        self.graph.detach_region(self.graph.body), entry_point=True)  # fmt: skip
        names = [f"input_{k}" for k in range(len(inputs))]
        names += [f"output_{k}" for k in range(len(outputs))]
        variables = [
            spv.GlobalVariableOp(
                name, spv.PointerType(type_, spv.StorageClass.UniformConstant), bind=(0, k)
            )
            for k, (name, type_) in enumerate(zip(names, types, strict=True))
        ]
        operations = [*variables, spv.GraphEntryPointOp("main", names), whole]
        module = ModuleOp(operations, spv.AddressingModel.Logical, spv.MemoryModel.Vulkan)
        update(module)
        module.verify()
        return GraphProgram(whole, self.constants, list(inputs), list(outputs))
