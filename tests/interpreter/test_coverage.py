"""Every operation of the dialect executes, or stands here with the reason why it does not."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import (
    SPIRV,
    cooperative_vector,
    tensor_arm,
    vendor,
)
from xdsl_spirv.interpreter import InterpreterError, semantics

DECLARATION = "read once when a module is loaded; nothing to execute"
CLOCK = "its value is no function of the program"

NOT_EXECUTED = {
    "spirv.module": DECLARATION,
    "spirv.func": DECLARATION,
    "spirv.EntryPoint": DECLARATION,
    "spirv.ExecutionMode": DECLARATION,
    "spirv.GlobalVariable": DECLARATION,
    "spirv.SpecConstant": DECLARATION,
    "spirv.SpecConstantComposite": DECLARATION,
    "spirv.KHR.UntypedGlobalVariable": DECLARATION,
    "spirv.EXT.SpecConstantCompositeReplicate": DECLARATION,
    "spirv.KHR.SpecConstantData": DECLARATION,
    "spirv.KHR.ReadClock": CLOCK,
    "spirv.KHR.Abort": "ends a device's work, which an exception of the caller's should",
    "spirv.EXT.BitcastExtract": "made for floats of 4 and 6 bits, which have no arrays here",
    "spirv.mlir.yield": "the end of a spirv.SpecConstantOperation, which is evaluated whole",
    "spirv.CL.printf": "its format is a string in memory; DebugPrintf is executed",
    "spirv.RawGlobal": DECLARATION,
    "spirv.RawTerminator": "an instruction that is only carried ends the block",
}

NOT_YET = {
    "SPV_NV_cooperative_vector": cooperative_vector,
    "one vendor's matrices and dot products": vendor,
    "SPV_ARM_tensors": tensor_arm,
}
"""Families that are typed, but have no semantics: running one is refused by its name."""

OPERATIONS = {op.name: op for op in SPIRV.operations}


def test_every_other_operation_executes():
    without = {name for name, op in OPERATIONS.items() if op not in semantics.TABLE}
    families = {op.name for family in NOT_YET.values() for op in family.OPERATIONS}
    assert without - families == set(NOT_EXECUTED)


def test_families_without_semantics_have_none():
    """A family of which an operation executes is listed by its operations instead."""
    executing = {
        why
        for why, family in NOT_YET.items()
        if any(op in semantics.TABLE for op in family.OPERATIONS)
    }
    assert not executing


@pytest.mark.parametrize("name", [n for n, why in NOT_EXECUTED.items() if why == CLOCK])
def test_what_does_not_execute_is_refused_by_name(name: str):
    kind: type[Operation] = OPERATIONS[name]
    operand = kind.create(result_types=[])
    with pytest.raises(InterpreterError, match=f"{name} has no semantics"):
        semantics.semantics_of(operand)
