"""Finds the sizes of the workgroups in which a function runs."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.control_flow import FunctionCallOp
from xdsl_spirv.dialects.spirv.enums import BuiltIn, ExecutionMode
from xdsl_spirv.dialects.spirv.function import FuncOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.raw import ConstantRefAttr, RawGlobalOp
from xdsl_spirv.dialects.spirv.structure import ExecutionModeOp, entry_points


def workgroup_size(module: ModuleOp, function: FuncOp | None = None) -> int | str:
    """
    The invocations of a workgroup that runs `function`, or any entry point.

    The reason as a text where entry points differ or do not say: "the workgroup's size is ...".
    """
    sizes = set(workgroup_sizes(module, function))
    if not sizes or None in sizes:
        return (
            "the workgroup's size is not known (no LocalSize, or one that specialization constants "
            "decide: run spirv-specialize before)"
        )
    if len(sizes) > 1:
        numbers = ", ".join(str(s) for s in sorted(s for s in sizes if s is not None))
        return (
            f"the workgroup's size is not one number: entry points have {numbers} invocations "
            "(run spirv-split-entry-points before)"
        )
    (size,) = sizes
    assert size is not None
    return size


def workgroup_sizes(module: ModuleOp, function: FuncOp | None = None) -> list[int | None]:
    """The invocations of a workgroup of each entry point that runs `function`, or of each."""
    return [
        _size(module, entry.fn.string_value())
        for entry in entry_points(module)
        if function is None or function.sym_name.data in reached(module, entry.fn.string_value())
    ]


def reached(module: ModuleOp, function: str) -> set[str]:
    """The functions that one calls, itself included."""
    functions = {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)}
    reachable, waiting = {function}, [function]
    while waiting:
        body = functions.get(waiting.pop())
        for op in body.walk() if body is not None else ():
            if isinstance(op, FunctionCallOp) and op.callee.string_value() not in reachable:
                reachable.add(op.callee.string_value())
                waiting.append(op.callee.string_value())
    return reachable


def _size(module: ModuleOp, entry: str) -> int | None:
    """The product of an entry point's LocalSize; the WorkgroupSize built-in wins over it."""
    for op in module.body.block.ops:
        if _is_workgroup_size(op):
            return _of_composite(op) if isinstance(op, RawGlobalOp) else None
        if isinstance(op, RawGlobalOp) and op.workgroup_size is not None:
            return _of_plain(op.workgroup_size)
    for op in module.body.block.ops:
        if isinstance(op, ExecutionModeOp) and op.fn.string_value() == entry:
            if op.execution_mode.data is ExecutionMode.LocalSize:
                values = [v.value.data for v in op.values if isinstance(v, IntegerAttr)]
                return prod(values)
            if op.execution_mode.data is ExecutionMode.LocalSizeId:
                values = [v.value.data for v in op.values if isinstance(v, IntegerAttr)]
                return prod(values) if len(values) == 3 else None
    return None


def _of_composite(op: RawGlobalOp) -> int | None:
    """The product of a composite's parts, where each is a number."""
    values = [v.value for v in op.layout if isinstance(v, ConstantRefAttr)]
    numbers = [v.value.data for v in values if isinstance(v, IntegerAttr)]
    return prod(numbers) if len(numbers) == 3 else None


def _of_plain(constant: ConstantRefAttr) -> int | None:
    """The product of a constant that is not a specialization constant."""
    if not isinstance(constant.value, DenseIntOrFPElementsAttr):
        return None
    numbers = constant.value.get_values()
    return prod(map(int, numbers)) if len(numbers) == 3 else None


def _is_workgroup_size(op: Operation) -> bool:
    named = op.attributes.get("built_in")
    return getattr(named, "data", None) == BuiltIn.WorkgroupSize.name
