"""
Converts regions that compute a matrix's elements to functions of `spirv`.

    %r = schedule.each_element %m(%x) ... {        %r = spirv.NV.CooperativeMatrixPerElementOp
    ^bb0(%row: index, ...): ...               ->       %m, @f_each_0(%x) ...
    }                                              spirv.func @f_each_0(%row: i32, ...) -> f32

Equal regions share one function. A function accesses buffers through the module's variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import EachElementOp, ReduceRowsOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.passes.spirv.kernel_code import Convert, KernelCode


def each_element(code: KernelCode, each: EachElementOp) -> SSAValue:
    name = _function(code, "each", each.body.block, (None, None, None, *each.arguments))
    given = [a for a in each.arguments if not isinstance(a.type, MemRefType)]
    return code.add(
        spv.CooperativeMatrixPerElementOp(code.value(each.matrix), name, [*map(code.value, given)])
    )


def reduce_rows(code: KernelCode, reduce: ReduceRowsOp) -> SSAValue:
    name = _function(code, "combine", reduce.body.block, (None, None))
    matrix = code.value(reduce.matrix)
    row = spv.CooperativeMatrixReduce.Row
    return code.add(spv.CooperativeMatrixReduceOp(matrix, row, name, reduce.matrix.type))  # pyright: ignore


HANDLERS: dict[type[Operation], Convert] = {
    EachElementOp: each_element,
    ReduceRowsOp: reduce_rows,
}


def _function(code: KernelCode, kind: str, block: Block, given: Sequence[SSAValue | None]) -> str:
    inner = KernelCode(code.name, code.module, code.handler_of, code.device)
    inner.interface = code.interface
    types: list[Attribute] = []
    for argument, value in zip(block.args, given, strict=True):
        if isinstance(argument.type, MemRefType):
            assert value is not None
            inner.bases[argument] = _address(inner, code.bases[value])
            continue
        types.append(code.type(argument.type, block.parent_op() or cast(Operation, block.last_op)))
        parameter = inner.entry.insert_arg(types[-1], len(inner.entry.args))
        parameter.name_hint = argument.name_hint
        inner.values[argument] = parameter
    (result,) = inner.convert(block)
    inner.insert(spv.ReturnValueOp(result))
    body = Region(inner.entry)
    for known in code.functions:
        if known.body.is_structurally_equivalent(body):
            return known.sym_name.data
    name = f"{code.name}_{kind}_{len(code.functions)}"
    code.functions.append(FuncOp(name, (types, [result.type]), body))
    return name


def _address(inner: KernelCode, address: SSAValue) -> SSAValue:
    """Returns a variable's address for a function other than the kernel."""
    of_kernel = address.owner
    assert isinstance(of_kernel, spv.AddressOfOp)
    name, type = of_kernel.variable.string_value(), of_kernel.result.type
    return inner.once(f"@{name}", lambda: spv.AddressOfOp(name, type))  # pyright: ignore
