"""Defines the semantics of `math`. Inexact functions are computed in binary64 and rounded once."""

from __future__ import annotations

from types import ModuleType

from xdsl.ir import Operation

from xdsl_spirv.dialects.scalars.functions import RECORDS
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.semantics import Function, value_table
from xdsl_spirv.upstream.on_demand import operations_of

FUNCTIONS: dict[type[Operation], Function] = {
    record.op: (ew.in_binary32 if record.is_exact else ew.wide_math)(record.meaning)
    for record in RECORDS
}

value_table(FUNCTIONS)


def of_the_same_name(family: ModuleType) -> dict[type[Operation], Function]:
    """
    Maps each operation of an instruction set to the semantics of the `math` operation with the same
    name.
    """
    by_name = {op.name.removeprefix("math."): function for op, function in FUNCTIONS.items()}
    operations = {op.name.rpartition(".")[2].lower(): op for op in operations_of((family,))}
    return {operations[name]: by_name[name] for name in operations.keys() & by_name.keys()}
