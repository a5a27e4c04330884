"""Compiles the candidates of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.pipeline import lowering
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.passes.schedule.tuned import give_schedules, parse_schedule
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.upstream.passes_on_demand import run


@dataclass(frozen=True)
class Source:
    """
    A contraction whose schedule is searched, in a module for a target.

    `weights` are the arguments of the module's function that do not change between runs.
    """

    text: str
    target: str
    key: str
    weights: tuple[str, ...] = ()


def compiled(source: Source, schedule: str) -> Program | ProgramError:
    """Compiles a module with a schedule but without weights. Returns the program or the error."""
    try:
        module = parse_text(source.text)
        give_schedules(module, {source.key: parse_schedule(schedule)})
        program = compile_module(module, source.target, weights=_nothing(module, source.weights))
        for name in source.weights:
            program.weights.pop(name, None)
        return program
    except ProgramError as error:
        return ProgramError(error.cause, error.place, error.remedy)
    except Exception as error:
        return ProgramError(f"{type(error).__name__}: {error}"[:300])


def _nothing(module: ModuleOp, names: tuple[str, ...]) -> dict[str, Array]:
    """Returns zero weights that use no memory, by name."""
    host = host_function(module, None)
    types = dict(_tensors(host))
    return {
        name: np.broadcast_to(np.zeros((), dtype_of(str(type.element_type))), type.get_shape())
        if (type := types.get(name))
        else np.zeros(())
        for name in names
    }


def _tensors(host: FuncOp) -> Iterator[tuple[str, TensorType]]:
    for number, argument in enumerate(host.body.block.args):
        if isinstance(argument.type, TensorType):
            yield argument_name(argument, number), argument.type


def contractions_of(text: str, target: str, weights: tuple[str, ...] = ()) -> list[Contraction]:
    """Returns the contractions of a module that `assign-schedule` would schedule."""
    ctx = context()
    module: ModuleOp = parse_text(text, ctx=ctx)
    if weights:
        give_weights(host_function(module, None), _nothing(module, weights))
    before = takewhile(lambda one: one.name != AssignSchedulePass.name, lowering(target))
    run(tuple(before), ctx, module)
    contractions: list[Contraction] = []
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                contractions.append(contraction_of(op))
            except NotAContraction:
                continue
    if not contractions:
        raise ProgramError(
            "the module has no contraction to tune", "", "give a module with a linalg.matmul"
        )
    return contractions
