"""
Evaluates computations of a host function on weights and constants at compile time.

The interpreter evaluates them, so folding gives the reference result of the operation. A
transposed weight, or the slice that an unrolled loop reads, becomes a new weight. Indices become
constants, and slices at constant indices become static. A result that is much larger than its
operands (a broadcast) is not folded, because reading it would cost more than computing it. The
conversion of quantized weights to floats is not folded either, because integer kernels read the
quantized weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.compiler.host import host_functions
from xdsl_spirv.compiler.signature import note_names
from xdsl_spirv.dialects.program import value_of
from xdsl_spirv.passes.analysis.values import MAKERS, operands_of


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluates computations of host functions on weights and constants."""

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in host_functions(op):
            if may_fold(function):
                fold(ctx, op, function)


def may_fold(function: FuncOp) -> bool:
    """True if some operation may have known operands. A cheap test before the costly `Folder`."""
    known: set[SSAValue] = set()
    for argument in function.body.block.args:
        if value_of(function, argument.index) is not None:
            return True
    for op in function.body.block.ops:
        if isinstance(op, arith.ConstantOp):
            if not isinstance(op.value, IntegerAttr | FloatAttr):
                return True
            known.add(op.result)
        elif not known.issuperset(operands_of(op)):
            if isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp):
                return True
        elif not isinstance(op, MAKERS):
            if op.results:
                return True
        elif any(not result.uses for result in op.results):
            return True
        else:
            known.update(op.results)
    return False


def fold(ctx: Context, module: ModuleOp, function: FuncOp) -> None:
    """Folds computations on weights and constants into new weights, and removes unused weights."""
    from xdsl_spirv.compiler.folder import Folder
    from xdsl_spirv.upstream.held_tensors import let_print

    let_print(ctx)
    folder = Folder(module, function)
    for op in list(function.body.block.ops):
        folder.visit(op)
    folder.materialize()
    drop_unread(function)


def drop_unread(function: FuncOp) -> None:
    """Removes the arguments that are weights without uses."""
    block = function.body.block
    unread = [a for a in block.args if not a.uses and value_of(function, a.index) is not None]
    if not unread:
        return
    note_names(function)
    attributes = list(function.arg_attrs or ())
    for argument in reversed(unread):
        del attributes[argument.index]
        block.erase_arg(argument)
    function.properties["arg_attrs"] = ArrayAttr(attributes)
    function.update_function_type()
