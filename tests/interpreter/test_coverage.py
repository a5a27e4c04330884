"""Every operation of the dialect executes, or stands here with the reason why it does not."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.interpreter import InterpreterError, semantics

DECLARATION = "read once when a module is loaded; nothing to execute"
ADDRESSES = "pointers are places in buffers, not numbers, so they have no physical address"

NOT_EXECUTED = {
    "spirv.module": DECLARATION,
    "spirv.func": DECLARATION,
    "spirv.EntryPoint": DECLARATION,
    "spirv.ExecutionMode": DECLARATION,
    "spirv.GlobalVariable": DECLARATION,
    "spirv.SpecConstant": DECLARATION,
    "spirv.SpecConstantComposite": DECLARATION,
    "spirv.mlir.yield": "the end of a spirv.SpecConstantOperation, which is evaluated whole",
    "spirv.ConvertPtrToU": ADDRESSES,
    "spirv.ConvertUToPtr": ADDRESSES,
}

OPERATIONS = {op.name: op for op in SPIRV.operations}


def test_every_other_operation_executes():
    without = {name for name, op in OPERATIONS.items() if op not in semantics.TABLE}
    assert without == set(NOT_EXECUTED)


@pytest.mark.parametrize("name", [n for n, why in NOT_EXECUTED.items() if why == ADDRESSES])
def test_what_does_not_execute_is_refused_by_name(name: str):
    kind: type[Operation] = OPERATIONS[name]
    operand = kind.create(result_types=[])
    with pytest.raises(InterpreterError, match=f"{name} has no semantics"):
        semantics.semantics_of(operand)
