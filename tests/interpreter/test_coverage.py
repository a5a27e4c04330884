"""Every operation of the dialect can be executed, or is listed here with the reason."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.interpreter import InterpreterError, semantics

DECLARATION = "read once when a module is loaded; nothing to execute"

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
    "spirv.EXT.BitcastExtract": "made for floats of 4 and 6 bits, which have no arrays here",
    "spirv.mlir.yield": "the end of a spirv.SpecConstantOperation, which is evaluated whole",
    "spirv.CL.printf": "its format is a string in memory; DebugPrintf is executed",
    "spirv.RawGlobal": DECLARATION,
}

WHOLE_TENSORS = ("spirv.Tosa.", "spirv.ARM.Graph")
"""Operations of graphs, which `interpreter/graphs` executes."""

OPERATIONS = {op.name: op for op in SPIRV.operations}


def test_every_other_operation_executes():
    semantics.load()
    without = {name for name, op in OPERATIONS.items() if op not in semantics.TABLE}
    whole = {name for name in without if name.startswith(WHOLE_TENSORS)}
    assert without - whole == set(NOT_EXECUTED)


@pytest.mark.parametrize("name", ["spirv.CL.printf", "spirv.EXT.BitcastExtract"])
def test_instructions_without_meaning_are_refused_by_name(name: str):
    kind: type[Operation] = OPERATIONS[name]
    operand = kind.create(result_types=[])
    with pytest.raises(InterpreterError, match=f"{name} has no semantics"):
        semantics.semantics_of(operand)
