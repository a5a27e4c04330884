"""
Turns constants of a host function into arguments with values, so that weights are not printed.

A constant that a kernel reads is lifted before lowering, so that passes see only arguments. A
constant that only initializes an accumulator is not lifted, because the lowering handles it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation, Use
from xdsl.passes import ModulePass

from xdsl_spirv.compiler.host import host_functions
from xdsl_spirv.compiler.signature import add_weight, argument_name, note_attributes
from xdsl_spirv.dialects.program import RANGE, VALUE, first_value_of, states_of, value_of
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.upstream.held_tensors import (
    HeldTensor,
    HeldTensorAttr,
    has_data,
    let_print,
    resource_bytes,
)

LITERAL = 16
"""Maximum number of elements of a constant stored as a literal. Larger ones are resources."""


@dataclass(frozen=True)
class LiftWeightsPass(ModulePass):
    """Turns the constants that kernels will read into arguments of the host function."""

    name = "lift-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        let_print(ctx)
        for function in host_functions(op):
            lift_weights(function)


@dataclass(frozen=True)
class NoteRangesPass(ModulePass):
    """Stores the minimum and maximum of each weight of 64-bit integers as an attribute."""

    name = "note-ranges"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            ranges: dict[int, Attribute] = {}
            for index, array in known_weights(function).items():
                if array.dtype.kind == "i" and array.dtype.itemsize == 8 and array.size > 0:
                    ends = (IntegerAttr(int(end), i64) for end in (array.min(), array.max()))
                    ranges[index] = ArrayAttr(ends)
            note_attributes(function, RANGE, ranges)


def give_weights(function: FuncOp, weights: Mapping[str, Array]) -> None:
    """Turns the arguments of these names into weights. Raises `ProgramError` for unknown names."""
    arguments = function.body.block.args
    indices = {argument_name(argument, i): i for i, argument in enumerate(arguments)}
    values: dict[int, Attribute] = {}
    for name, array in weights.items():
        if name not in indices:
            raise ProgramError(
                f"the weight {name!r} does not match any argument",
                f"arguments: {', '.join(indices)}",
                "rename the tensor or the argument",
            )
        values[indices[name]] = hold_array(function, name, arguments[indices[name]].type, array)
    note_attributes(function, VALUE, values)


def hold_array(function: FuncOp, name: str, type: Attribute, array: Array) -> HeldTensorAttr:
    """Creates the attribute of a function's weight, which refers to the array without a copy."""
    return HeldTensorAttr(HeldTensor(f"{function.sym_name.data}.{name}", type, array))


def weights_of(function: FuncOp) -> dict[str, Array]:
    """
    Returns the values of a function's weights by name.

    Raises `ProgramError` for a resource without data.
    """
    arguments = enumerate(function.body.block.args)
    values = {argument_name(argument, i): value_of(function, i) for i, argument in arguments}
    return {name: constant_array(value) for name, value in values.items() if value is not None}


def first_values_of(function: FuncOp) -> dict[str, Array]:
    """
    Returns the first values of a function's states by name.

    Raises `ProgramError` for a state without a first value, or a resource without data.
    """
    values: dict[str, Array] = {}
    for index in states_of(function):
        name = argument_name(function.body.block.args[index], index)
        value = first_value_of(function, index)
        if value is None:
            raise ProgramError(
                f"the state {name!r} has no first value",
                f"@{function.sym_name.data}",
                f"add {VALUE}, dense<0.0> for zeros",
            )
        values[name] = constant_array(value)
    return values


def known_weights(function: FuncOp) -> dict[int, Array]:
    """Returns the values of a function's weights by position, without resources that lack data."""
    values = {i: value_of(function, i) for i in range(len(function.body.block.args))}
    return {
        i: constant_array(value)
        for i, value in values.items()
        if value is not None and has_data(value)
    }


def lift_weights(function: FuncOp) -> None:
    """
    Turns the constants that operations of `function` read into arguments. The new arguments come
    last.
    """
    block = function.body.block
    taken = {argument_name(argument, i) for i, argument in enumerate(block.args)}
    for op in list(block.ops):
        if not isinstance(op, ConstantOp) or not isinstance(op.result.type, TensorType):
            continue
        if is_splat(op.value) or not any(map(_is_read, op.result.uses)):
            continue
        hint = op.result.name_hint or "weight"
        name = next(n for n in _candidates(hint) if n not in taken)
        taken.add(name)
        argument = add_weight(function, name, name, op.result.type, _value(function, name, op))
        op.result.replace_all_uses_with(argument)
        op.detach()
        op.erase()


def _value(function: FuncOp, name: str, op: ConstantOp) -> Attribute:
    """
    Returns the value of a constant. A constant with data and more than `LITERAL` elements becomes a
    resource.
    """
    type = op.result.type
    assert isinstance(type, TensorType)
    is_short = isinstance(op.value, DenseIntOrFPElementsAttr) and prod(type.get_shape()) <= LITERAL
    if is_short or not has_data(op.value):
        return op.value
    return hold_array(function, name, type, constant_array(op.value))


def is_splat(value: Attribute) -> bool:
    """True if all elements of a constant are equal. Kernels then contain the value as code."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return False
    return 0 in value.get_shape() or value.is_splat()


def _candidates(hint: str) -> Iterator[str]:
    yield hint
    yield from (f"{hint}_{number}" for number in itertools.count())


def _is_read(use: Use) -> bool:
    """True unless the use is the initial value of an accumulator."""
    op: Operation = use.operation
    return not isinstance(op, LinalgStructuredOperation) or use.index < len(op.inputs)


def constant_array(value: Attribute) -> Array:
    """Returns the elements of a dense tensor constant, given as a literal or a resource."""
    import numpy as np

    if isinstance(value, HeldTensorAttr):
        return value.array
    if isinstance(value, DenseIntOrFPElementsAttr):
        data = value.data.data
    elif isinstance(value, DenseResourceAttr):
        data = resource_bytes(value)
        if data is None:
            raise ProgramError(
                f"the resource {value.resource_handle.data!r} has no data",
                "arith.constant",
                "add it to the dialect_resources at the end of the file, or give --weights",
            )
    else:
        raise ProgramError(
            f"constants given by {value.name} are not supported",
            "arith.constant",
            "use dense<...> or dense_resource<...>",
        )
    kind = value.get_type()
    if not isinstance(kind, TensorType):
        raise ProgramError(
            f"a constant must be a tensor, not {kind}", "arith.constant", "give it a tensor type"
        )
    shape = kind.get_shape()
    dtype = dtype_of(str(kind.element_type), "arith.constant")
    array = np.frombuffer(data, dtype)
    if array.size == 1:
        return np.full(shape, array[0])
    if array.size != int(np.prod(shape)):
        raise ProgramError(
            f"a constant of shape {list(shape)} has {array.size} elements",
            "arith.constant",
            "correct its data or its type",
        )
    return array.reshape(shape)
