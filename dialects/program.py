"""
Attributes of a host function's arguments that say what is known of them in every run.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

VALUE = "program.value"
"""Marks a weight: an argument that has this value, a constant's attribute, in every run."""

RANGE = "program.range"
"""An argument's attribute: the least and the greatest number that its elements may be."""


def value_of(function: FuncOp, index: int) -> Attribute | None:
    """The value of an argument that is a weight; None of one that callers give."""
    entries = function.arg_attrs.data if function.arg_attrs else ()
    return entries[index].data.get(VALUE) if index < len(entries) else None


def inputs_of(function: FuncOp) -> list[int]:
    """The numbers of the arguments that callers give."""
    count = len(function.function_type.inputs)
    return [index for index in range(count) if value_of(function, index) is None]
