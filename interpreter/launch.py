"""Runs a launch: compiles the entry point, and runs chunks of workgroups within a memory limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter.batch import Batch, Geometry, Triple
from xdsl_spirv.interpreter.context import Context, symbol_name
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.interpreter.schedule import run_scheduled
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.turns import Turns, chunk_size, parted_by

KEPT = (32 << 20) - (8 << 10)
"""
Size in bytes of an array that is allocated and freed once, when this module is imported.

glibc returns freed memory to the system if it is above a threshold. The threshold grows with the
largest freed array, up to 32 MiB. Without this array, each operation on a million lanes would get
new pages from the system.
"""
np.empty(KEPT, np.uint8)


def geometry_of(grid: Sequence[int], workgroup: Sequence[int], options: Options) -> Geometry:
    """Returns the shape of a launch. Raises `InterpreterError` for an invalid size."""
    if len(grid) != 3 or len(workgroup) != 3 or min(*workgroup) < 1 or min(*grid) < 0:
        raise InterpreterError(
            f"the grid {tuple(grid)} and the workgroup {tuple(workgroup)} must have valid sizes",
            remedy="give three sizes of at least 1 for each",
        )
    return Geometry(_triple(grid), _triple(workgroup), options.subgroup_size)


def _triple(numbers: Sequence[int]) -> Triple:
    x, y, z = (int(number) for number in numbers)
    return x, y, z


def run(
    context: Context, function: Operation, arguments: Sequence[Any], workgroups: int | None = None
) -> None:
    """
    Runs a function for the first `workgroups` workgroups of the launch, or for all if it is None.
    """
    if context.options.schedule is not None:
        run_scheduled(context, function, arguments, workgroups)
        return
    with np.errstate(all="ignore"):
        code = context.code(_name(function), compile_function)
        geometry = context.geometry
        chunk = chunk_size(context, code)
        last = geometry.workgroups if workgroups is None else min(workgroups, geometry.workgroups)
        turns = Turns(context, code, arguments, lambda: parted_by(context, function))
        start = time.monotonic()
        for first in range(0, last, chunk):
            _refuse_endless(context.options.seconds, time.monotonic() - start, first, last)
            batch = Batch(geometry, first, min(first + chunk, last))
            batch.globals = context.batch_globals(batch)
            turns.run(batch)
        turns.finish()


PACE_SECONDS = 2.0
"""Seconds after which the speed of a launch is measured."""


def _refuse_endless(most: float, seconds: float, done: int, workgroups: int) -> None:
    """
    Raises `InterpreterError` if a launch would exceed its time limit at the speed measured so far.
    """
    if seconds < min(PACE_SECONDS, most) or seconds * workgroups <= most * done:
        return
    raise InterpreterError(
        f"a launch of {workgroups:,} workgroups would take more than {most:,.0f} s: the "
        f"first {done:,} took {seconds:.1f} s",
        remedy="launch fewer workgroups, or allow more time",
    )


def _name(function: Operation) -> str:
    name = function.get_attr_or_prop("sym_name")
    assert name is not None
    return symbol_name(name)
