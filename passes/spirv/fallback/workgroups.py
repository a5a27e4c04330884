"""Derives the sizes of the workgroups that execute a function."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Operation

from xdsl_spirv.dialects import spv


def workgroup_size(module: spv.ModuleOp, function: spv.FuncOp | None = None) -> int | str:
    """
    Returns the number of invocations of a workgroup that runs `function`, or any entry point.

    If entry points differ or do not state a size, returns the reason as a text: "the workgroup's
    size ...".
    """
    sizes = set(workgroup_sizes(module, function))
    if not sizes or None in sizes:
        return (
            "the workgroup's size is not known: add LocalSize, or run spirv-specialize if "
            "specialization constants determine the size"
        )
    if len(sizes) > 1:
        numbers = ", ".join(str(s) for s in sorted(s for s in sizes if s is not None))
        return (
            f"the workgroup's size differs between entry points, with {numbers} invocations: run "
            "spirv-split-entry-points first"
        )
    (size,) = sizes
    assert size is not None
    return size


def workgroup_sizes(module: spv.ModuleOp, function: spv.FuncOp | None = None) -> list[int | None]:
    """Returns the workgroup sizes of all entry points, or of those that run `function`."""
    return [
        _size(module, entry.fn.string_value())
        for entry in spv.entry_points(module)
        if function is None
        or function.sym_name.data in find_callees(module, entry.fn.string_value())
    ]


def find_callees(module: spv.ModuleOp, function: str) -> set[str]:
    """Returns a function and all functions that it calls, directly or indirectly."""
    functions = {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, spv.FuncOp)}
    reachable, waiting = {function}, [function]
    while waiting:
        body = functions.get(waiting.pop())
        for op in body.walk() if body is not None else ():
            if isinstance(op, spv.FunctionCallOp) and op.callee.string_value() not in reachable:
                reachable.add(op.callee.string_value())
                waiting.append(op.callee.string_value())
    return reachable


def _size(module: spv.ModuleOp, entry: str) -> int | None:
    """Returns an entry point's workgroup size; the built-in WorkgroupSize overrides LocalSize."""
    for op in module.body.block.ops:
        if _is_workgroup_size(op):
            return _of_composite(op) if isinstance(op, spv.RawGlobalOp) else None
        if isinstance(op, spv.RawGlobalOp) and op.workgroup_size is not None:
            return _of_plain(op.workgroup_size)
    for op in module.body.block.ops:
        if isinstance(op, spv.ExecutionModeOp) and op.fn.string_value() == entry:
            if op.execution_mode.data is spv.ExecutionMode.LocalSize:
                values = [v.value.data for v in op.values if isinstance(v, IntegerAttr)]
                return prod(values)
            if op.execution_mode.data is spv.ExecutionMode.LocalSizeId:
                values = [v.value.data for v in op.values if isinstance(v, IntegerAttr)]
                return prod(values) if len(values) == 3 else None
    return None


def _of_composite(op: spv.RawGlobalOp) -> int | None:
    """Returns the product of a composite's parts; None if one is not a constant."""
    values = [v.value for v in op.layout if isinstance(v, spv.ConstantRefAttr)]
    numbers = [v.value.data for v in values if isinstance(v, IntegerAttr)]
    return prod(numbers) if len(numbers) == 3 else None


def _of_plain(constant: spv.ConstantRefAttr) -> int | None:
    """Returns the product of a constant's three components; None for any other constant."""
    if not isinstance(constant.value, DenseIntOrFPElementsAttr):
        return None
    numbers = constant.value.get_values()
    return prod(map(int, numbers)) if len(numbers) == 3 else None


def _is_workgroup_size(op: Operation) -> bool:
    named = op.attributes.get("built_in")
    return getattr(named, "data", None) == spv.BuiltIn.WorkgroupSize.name
