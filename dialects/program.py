"""
Attributes of a host function and its arguments: names and types in the model, and properties of
arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException

NAME = "program.name"
"""Attribute with the name that an argument or result has in the model."""

TYPE = "program.type"
"""
Attribute with the element type in the model. Unlike MLIR's types, it states if integers are signed.
"""

SIZES = "program.sizes"
"""
Attribute with the names of an argument's dynamic dimensions. The name of a static dimension is
empty.
"""

FLOATS = "program.floats"
"""
Attribute with the widest float type in the model. Wider float types in the program were introduced
by the importer.
"""

VALUE = "program.value"
"""Attribute with the value of a weight. For a state, its value in the first run."""

STATE = "program.state"
"""
Attribute of a state argument. Its value is the index of the result that becomes the argument's
value in the next run.
"""

RANGE = "program.range"
"""Attribute with the smallest and the largest value of an argument's elements."""


def functions_of(module: ModuleOp) -> Iterator[FuncOp]:
    """
    Yields the functions with a body. Raises `DiagnosticException` for one with several blocks.
    """
    for function in module.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            refuse_branches(function)
            yield function


def refuse_branches(function: FuncOp) -> None:
    """Raises `DiagnosticException` if a function has several blocks."""
    if len(function.body.blocks) > 1:
        raise DiagnosticException(
            f"@{function.sym_name.data} has {len(function.body.blocks)} blocks, but a program "
            "function has one; write branches as scf.if and loops as scf.for"
        )


def _noted_attribute(function: FuncOp, index: int, key: str) -> Attribute | None:
    entries = function.arg_attrs.data if function.arg_attrs else ()
    return entries[index].data.get(key) if index < len(entries) else None


def first_value_of(function: FuncOp, index: int) -> Attribute | None:
    """
    Returns the value of a weight, or the first value of a state. Returns None for an argument that
    callers give.
    """
    return _noted_attribute(function, index, VALUE)


def value_of(function: FuncOp, index: int) -> Attribute | None:
    """Returns the value of an argument that is a weight. Returns None for other arguments."""
    return None if state_of(function, index) is not None else first_value_of(function, index)


def state_of(function: FuncOp, index: int) -> int | None:
    """
    Returns the index of the result that becomes a state's next value. Returns None for an argument
    that is not a state.
    """
    number = _noted_attribute(function, index, STATE)
    return number.value.data if isinstance(number, IntegerAttr) else None


def states_of(function: FuncOp) -> dict[int, int]:
    """Maps the argument index of each state to the index of the result with its next value."""
    states = {i: state_of(function, i) for i in range(len(function.function_type.inputs))}
    return {index: number for index, number in states.items() if number is not None}


def is_step(function: FuncOp) -> bool:
    """True if a loop in another function calls this function in each step."""
    return function.sym_visibility is not None and function.sym_visibility.data == "private"


def step_of(call: CallOp) -> FuncOp:
    """Returns the function that a loop calls in each step."""
    module = call.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    name = call.callee.string_value()
    return next(function for function in functions_of(module) if function.sym_name.data == name)


def inputs_of(function: FuncOp) -> list[int]:
    """Returns the indices of the arguments that callers give."""
    count = len(function.function_type.inputs)
    return [index for index in range(count) if first_value_of(function, index) is None]
