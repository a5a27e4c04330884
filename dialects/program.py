"""
Attributes of a host function and its arguments: the model's names and types, and facts about an
argument that hold in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException

NAME = "program.name"
"""The model's name of an argument or a result."""

TYPE = "program.type"
"""The element type in the model, where integers have a sign, unlike in MLIR."""

SIZES = "program.sizes"
"""The names of an argument's dimensions, empty for static ones."""

FLOATS = "program.floats"
"""The widest float that a model computes in; wider ones in its module are the importer's choice."""

VALUE = "program.value"
"""The value of an argument: of a weight in every run, of a state in the first run."""

STATE = "program.state"
"""Marks a state: an argument whose contents after a run are the result of this number."""

RANGE = "program.range"
"""An argument's attribute: the least and the greatest number that its elements may be."""


def functions_of(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions of a module that have a body; raises `DiagnosticException` at one of blocks."""
    for function in module.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            refuse_branches(function)
            yield function


def refuse_branches(function: FuncOp) -> None:
    """Raises `DiagnosticException` for a function of several blocks: no program has branches."""
    if len(function.body.blocks) > 1:
        raise DiagnosticException(
            f"@{function.sym_name.data} has {len(function.body.blocks)} blocks; write branches as "
            "scf.if, loops as scf.for: a program is a list of kernels"
        )


def _noted_attribute(function: FuncOp, index: int, key: str) -> Attribute | None:
    entries = function.arg_attrs.data if function.arg_attrs else ()
    return entries[index].data.get(key) if index < len(entries) else None


def first_value_of(function: FuncOp, index: int) -> Attribute | None:
    """
    Returns the value of an argument in the first run if no caller gives it; None for one that
    callers give.
    """
    return _noted_attribute(function, index, VALUE)


def value_of(function: FuncOp, index: int) -> Attribute | None:
    """The value of an argument that is a weight; None of any other."""
    return None if state_of(function, index) is not None else first_value_of(function, index)


def state_of(function: FuncOp, index: int) -> int | None:
    """Returns the number of the result with an argument's next value; None if it is not a state."""
    number = _noted_attribute(function, index, STATE)
    return number.value.data if isinstance(number, IntegerAttr) else None


def states_of(function: FuncOp) -> dict[int, int]:
    """Returns, for each argument that is a state, the number of its result."""
    states = {i: state_of(function, i) for i in range(len(function.function_type.inputs))}
    return {index: number for index, number in states.items() if number is not None}


def is_step(function: FuncOp) -> bool:
    """True if a function is the step of a loop in another function, which carries its states."""
    return function.sym_visibility is not None and function.sym_visibility.data == "private"


def step_of(call: CallOp) -> FuncOp:
    """The function that a loop calls in each step."""
    module = call.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    name = call.callee.string_value()
    return next(function for function in functions_of(module) if function.sym_name.data == name)


def inputs_of(function: FuncOp) -> list[int]:
    """Returns the numbers of the arguments that callers give."""
    count = len(function.function_type.inputs)
    return [index for index in range(count) if first_value_of(function, index) is None]
