"""The values of a kernel that may still be chosen when it is launched."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.constants import SpecConstantOp
from xdsl_spirv.runtime.program import SpecConstant


def spec_constants(module: Operation) -> tuple[SpecConstant, ...]:
    """The specialization constants of a module that have an id, in the order of their ids."""
    constants: list[SpecConstant] = []
    for op in module.walk():
        if not isinstance(op, SpecConstantOp):
            continue
        default = op.default_value
        if op.spec_id is None or not isinstance(default, IntegerAttr | FloatAttr):
            continue
        value: int | float | bool = default.value.data
        if default.type == IntegerType(1):
            value = bool(value)
        name = op.sym_name.data
        constants.append(SpecConstant(op.spec_id, str(default.type), value, name))
    return tuple(sorted(constants, key=lambda constant: constant.id))
