"""
Computes 64-bit numbers in 32 bits where that changes no value.

    %i = linalg.index 1                        %i = linalg.index 1
    %w = arith.index_cast %i : i64       ->    %n = arith.index_cast %i : i32
    %s = arith.addi %w, %c1 : i64              %s = arith.addi %n, %c1 : i32       [1, 80]

Importers compute indices, zero points and counts in i64, and some constants in f64. Devices
compute 64-bit numbers slowly, or not at all. Integers are narrowed if their interval
(`value_ranges`) proves that they fit; other integers keep 64 bits, and become pairs of words if
the target lacks 64-bit integers (`spirv-int64-to-words`). `narrow_floats` has the rule for f64;
the pass refuses remaining f64 if the target lacks f64. Arguments and results of the function keep
their types, because callers rely on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import ModuleOp, TensorType, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation
from xdsl.passes import ModulePass

from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.ranges import element
from xdsl_spirv.passes.graph.narrow_bodies import touches
from xdsl_spirv.passes.graph.narrow_tensors import narrow
from xdsl_spirv.targets import Target, load

FLOAT_FEATURE = "float64"
"""Name of the target feature for computing in f64."""


@dataclass(frozen=True)
class NarrowTo32BitsPass(ModulePass):
    """
    Rewrites 64-bit values that provably fit in 32 bits, and refuses f64 if the target lacks f64.
    """

    name = "narrow-to-32-bits"

    target: str = ""
    """
    A device name or a target file. The pass refuses remaining f64 if the target lacks f64. If
    empty, the pass refuses nothing.
    """

    addresses: bool = True
    """Assumes that every index lies inside its tensor, as ONNX and MLIR both require."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load(self.target) if self.target else None
        for function in op.ops:
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            if not any(touches(inner) for inner in function.body.block.ops):
                continue
            narrow(function, self.addresses)
            if target is not None and FLOAT_FEATURE not in target.features:
                _refuse_f64(function, target)


def _refuse_f64(function: FuncOp, target: Target) -> None:
    for op in function.body.block.ops:
        unused = op.results and not any(result.uses for result in op.results)
        if unused or isinstance(op, tensor.EmptyOp) or _is_scalar(op):
            continue
        values = [(i, v) for i in op.walk() for v in (*i.operands, *i.results)]
        inner, value = next((p for p in values if element(p[1].type) == f64), (None, None))
        if inner is None:
            continue
        what = "the operation computes in f64, and f32 may give another result"
        if isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), FuncOp):
            what += f" (argument {value.index})"
        inner.location = op.location if inner is not op else inner.location
        remedy = "compute in f32 in the model"
        why = f"{what}, and {target.name} has no {FLOAT_FEATURE}: {remedy}"
        refuse(NarrowTo32BitsPass.name, inner, why)


def _is_scalar(op: Operation) -> bool:
    values = (*op.operands, *op.results)
    return not op.regions and not any(isinstance(v.type, TensorType) for v in values)
