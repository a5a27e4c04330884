"""
Names and element types of a host function's arguments and results, as its callers know them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue

from xdsl_spirv.dialects.program import NAME, TYPE, VALUE


def _note(name: str, argument: SSAValue) -> DictionaryAttr:
    return DictionaryAttr({NAME: StringAttr(name), TYPE: StringAttr(_element(argument.type))})


def add_weight(
    function: FuncOp, name: str, hint: str, type: Attribute, value: Attribute
) -> BlockArgument:
    """Add an argument that is a weight behind the others."""
    block = function.body.block
    known = _noted_names(function)
    argument = block.insert_arg(type, len(block.args))
    argument.name_hint = hint
    note = DictionaryAttr({**_note(name, argument).data, VALUE: value})
    function.properties["arg_attrs"] = ArrayAttr([*known, note])
    function.update_function_type()
    return argument


def note_names(function: FuncOp) -> None:
    """Note the names of all arguments, so that they outlive changes of their positions."""
    function.properties["arg_attrs"] = ArrayAttr(_noted_names(function))


def note_attributes(function: FuncOp, key: str, values: Mapping[int, Attribute]) -> None:
    """Note something of arguments by their numbers, and the names of all arguments."""
    if not values:
        return
    entries = _noted_names(function)
    for index, value in values.items():
        entries[index] = DictionaryAttr({**entries[index].data, key: value})
    function.properties["arg_attrs"] = ArrayAttr(entries)


def _noted_names(function: FuncOp) -> list[DictionaryAttr]:
    known = list(function.arg_attrs or ())
    arguments = list(enumerate(function.body.block.args))
    return known + [_note(argument_name(a, i), a) for i, a in arguments[len(known) :]]


def argument_name(value: SSAValue, index: int) -> str:
    """
    The name by which a host function's argument is known outside.

    Of several whose names differ in a number at the end (`%w_0`, `%w_1`), which xDSL does not keep,
    they are `w`, `w_1`, as xDSL prints them.
    """
    noted, hint, block = _noted(value, index, NAME), value.name_hint, value.owner
    if noted or hint is None or not isinstance(block, Block):
        return noted or hint or f"arg{index}"
    alike = sum(argument.name_hint == hint for argument in block.args[:index])
    return f"{hint}_{alike}" if alike else hint


def argument_type(value: SSAValue, index: int) -> str:
    """The element type that a host function's argument has outside: with a sign if it is noted."""
    return _noted(value, index, TYPE) or _element(value.type)


def result_name(function: FuncOp, index: int) -> str:
    """The name by which a host function's result is known outside."""
    return _entry(function.res_attrs, index, NAME) or f"result{index}"


def result_type(function: FuncOp, index: int) -> str:
    """The element type that a host function's result has outside."""
    noted = _entry(function.res_attrs, index, TYPE)
    return noted or _element(function.function_type.outputs.data[index])


def _noted(value: SSAValue, index: int, key: str) -> str | None:
    block = value.owner
    function = block.parent_op() if isinstance(block, Block) else None
    return _entry(function.arg_attrs, index, key) if isinstance(function, FuncOp) else None


def _entry(attributes: ArrayAttr[DictionaryAttr] | None, index: int, key: str) -> str | None:
    """A string that a front end noted of an argument or result."""
    if attributes is None or index >= len(attributes):
        return None
    entry = attributes.data[index].data.get(key)
    return entry.data if isinstance(entry, StringAttr) else None


def _element(type: Attribute) -> str:
    return str(type.element_type) if isinstance(type, TensorType | MemRefType) else str(type)
