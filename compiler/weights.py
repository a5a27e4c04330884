"""
Weights never pass through text: constants of the host function become arguments and safetensors.

A constant that a kernel reads is lifted before lowering, so that every pass sees an argument like
any other. One that only starts an accumulator stays: the lowering knows what to do with a zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation, Use

from xdsl_spirv.compiler.signature import argument_name, note_argument, note_names
from xdsl_spirv.passes.analysis.value_ranges import RANGE
from xdsl_spirv.passes.analysis.weights import WEIGHTS
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError

RESOURCE_HEADER = 4
"""A dense resource's bytes begin with its alignment, a 32-bit integer."""


def lift_constants(function: FuncOp, ctx: Context) -> dict[str, Array]:
    """
    Turn the constants that `function`'s operations read into arguments, at the end of its list.

    Returns their values by the name of the new argument. Raises `ProgramError` for a resource
    without data.
    """
    block = function.body.block
    taken = {argument_name(argument, i) for i, argument in enumerate(block.args)}
    lifted: dict[str, Array] = {}
    for op in list(block.ops):
        if not isinstance(op, ConstantOp) or not isinstance(op.result.type, TensorType):
            continue
        if is_splat(op.value) or not any(map(_is_read, op.result.uses)):
            continue
        hint = op.result.name_hint or "weight"
        name = next(n for n in _candidates(hint) if n not in taken)
        taken.add(name)
        lifted[name] = constant_array(op.value, ctx)
        argument = block.insert_arg(op.result.type, len(block.args))
        op.result.replace_all_uses_with(argument)
        argument.name_hint = name
        note_argument(function, argument, name)
        op.detach()
        op.erase()
    outputs = function.function_type.outputs
    function.function_type = FunctionType.from_lists(list(block.arg_types), list(outputs))
    return lifted


def mark_weights(function: FuncOp, names: Collection[str]) -> None:
    """Tell the passes which arguments are the same in every run."""
    arguments = enumerate(function.body.block.args)
    numbers = [i for i, argument in arguments if argument_name(argument, i) in names]
    function.attributes[WEIGHTS] = DenseArrayBase.from_list(i64, numbers)


def note_ranges(function: FuncOp, values: Mapping[str, Array]) -> None:
    """Tell the passes the least and the greatest number of each weight of 64-bit integers."""
    arguments = list(enumerate(function.body.block.args))
    names = {number: argument_name(argument, number) for number, argument in arguments}
    wide = [n for n, name in names.items() if name in values and _is_wide(values[name])]
    if not wide:
        return
    note_names(function)
    attributes = list(function.arg_attrs or ())
    for number in wide:
        array = values[names[number]]
        ends = ArrayAttr(IntegerAttr(int(end), i64) for end in (array.min(), array.max()))
        attributes[number] = DictionaryAttr({**attributes[number].data, RANGE: ends})
    function.properties["arg_attrs"] = ArrayAttr(attributes)


def _is_wide(array: Array) -> bool:
    return array.dtype.kind == "i" and array.dtype.itemsize == 8 and array.size > 0


def is_splat(value: Attribute) -> bool:
    """Whether all elements of a constant are one: a kernel makes them where it needs them."""
    if not isinstance(value, DenseIntOrFPElementsAttr):
        return False
    return 0 in value.get_shape() or value.is_splat()


def _candidates(hint: str):
    yield hint
    number = 0
    while True:
        yield f"{hint}_{number}"
        number += 1


def _is_read(use: Use) -> bool:
    """Whether the use is more than the start of an accumulator."""
    op: Operation = use.operation
    return not isinstance(op, LinalgStructuredOperation) or use.index < len(op.inputs)


def constant_array(value: Attribute, ctx: Context) -> Array:
    """The elements of a dense tensor constant, whether written in place or as a resource."""
    import numpy as np

    if isinstance(value, DenseIntOrFPElementsAttr):
        data = value.data.data
    elif isinstance(value, DenseResourceAttr):
        data = _resource(value, ctx)
    else:
        raise ProgramError(f"a constant of the form {value.name} has no elements", "arith.constant")
    kind = value.get_type()
    if not isinstance(kind, TensorType):
        raise ProgramError(f"a constant has the type {kind}, not a tensor", "arith.constant")
    shape = kind.get_shape()
    dtype = dtype_of(str(kind.element_type), "arith.constant")
    array = np.frombuffer(data, dtype)
    if array.size == 1:
        return np.full(shape, array[0])
    if array.size != int(np.prod(shape)):
        raise ProgramError(f"a constant has {array.size} elements for the shape {list(shape)}")
    return array.reshape(shape)


def _resource(value: DenseResourceAttr, ctx: Context) -> bytes:
    key = value.resource_handle.data
    interface = ctx.get_dialect("builtin").get_interface(OpAsmDialectInterface)
    blob = interface.lookup(key) if interface is not None else None
    if not blob:
        raise ProgramError(
            f"the resource {key!r} has no data",
            "arith.constant",
            "add it to the dialect_resources at the end of the file, or give --weights",
        )
    return bytes.fromhex(blob.removeprefix("0x"))[RESOURCE_HEADER:]
