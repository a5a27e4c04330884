"""Finds all layers of a model that do not compile, by compiling each dispatch separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from xdsl_spirv.compiler.host import host_function, on_host
from xdsl_spirv.compiler.pipeline import linalg_to_spirv, split_after
from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.dialects.places import labels_of
from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context

REFUSALS = (DiagnosticException, VerifyException, ProgramError)


def refused_layers(
    module: ModuleOp, function: str, weights: Mapping[str, Array], target: str
) -> dict[str, str]:
    """
    Returns the reasons why parts of a model are refused, by node name.

    `function` is the name of the host function, and `weights` are its weights. Destroys the module.
    The result is empty if the model is refused before it is split into dispatches.
    """
    ctx = context()
    forming, lowering = split_after(linalg_to_spirv(target), FormDispatchesPass.name)
    try:
        give_weights(host_function(module, function), weights)
        for forming_pass in forming:
            forming_pass.apply(ctx, module)
    except REFUSALS:
        return {}
    reasons: dict[str, str] = {}
    for op in host_function(module, function).body.block.ops:
        reason = None
        if isinstance(op, DispatchOp):
            reason = _refusal(op, lowering, ctx)
        elif not on_host(op):
            reason = f"{op.name} is not part of a dispatch, and the host cannot compute it"
        if reason is not None:
            labels = labels_of(op) or (op.name,)
            blamed = [label for label in labels if f'loc("{label}")' in reason]
            for label in blamed or labels:
                reasons.setdefault(label, reason)
    return reasons


def _refusal(dispatch: DispatchOp, passes: Sequence[ModulePass], ctx: Context) -> str | None:
    alone = _alone(dispatch)
    try:
        for lowering in passes:
            lowering.apply(ctx, alone)
    except REFUSALS as error:
        return str(error).splitlines()[0]
    return None


def _alone(dispatch: DispatchOp) -> ModuleOp:
    """Makes a module whose host function contains only one dispatch."""
    inputs = [value.type for value in dispatch.inputs]
    outputs = [value.type for value in dispatch.outputs]
    block = Block(arg_types=inputs)
    copy: Operation = dispatch.clone(dict(zip(dispatch.inputs, block.args, strict=True)))
    block.add_ops([copy, ReturnOp(*copy.results)])
    return ModuleOp([FuncOp("main", (inputs, outputs), Region(block))])
