"""Every operation of the dialect has a binary form that agrees with the grammar."""

import pytest
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OptOperandDef, OptPropertyDef, VarOperandDef

from xdsl_spirv.dialects.spirv import OPERATIONS
from xdsl_spirv.dialects.spirv.base import instruction_of
from xdsl_spirv.serialization.encode.operations import (
    PARAMETERS,
    encoder_of,
    fields,
    instruction_for,
)

HANDWRITTEN = {
    "spirv.ARM.Graph",
    "spirv.ARM.GraphConstant",
    "spirv.ARM.GraphEntryPoint",
    "spirv.ARM.GraphOutputs",
    "spirv.module",
    "spirv.func",
    "spirv.EntryPoint",
    "spirv.ExecutionMode",
    "spirv.GlobalVariable",
    "spirv.KHR.UntypedGlobalVariable",
    "spirv.Constant",
    "spirv.ConstantNull",
    "spirv.Undef",
    "spirv.SpecConstant",
    "spirv.SpecConstantComposite",
    "spirv.EXT.ConstantCompositeReplicate",
    "spirv.EXT.SpecConstantCompositeReplicate",
    "spirv.KHR.SpecConstantData",
    "spirv.SpecConstantOperation",
    "spirv.mlir.addressof",
    "spirv.mlir.referenceof",
    "spirv.mlir.yield",
    "spirv.Branch",
    "spirv.BranchConditional",
    "spirv.Switch",
    "spirv.mlir.merge",
    "spirv.mlir.selection",
    "spirv.mlir.loop",
    "spirv.mlir.break",
    "spirv.mlir.continue",
    "spirv.Decorate",
    "spirv.Raw",
    "spirv.RawGlobal",
    "spirv.RawTerminator",
}
"""Operations of a module's structure, which the encoder handles by special code."""

ORDINARY = [cls for cls in OPERATIONS if cls.name not in HANDWRITTEN]
NOT_ENCODED = {"arg_attrs", "res_attrs"}
"""MLIR's discardable attributes of a call's arguments and results."""


def test_the_handwritten_operations_exist():
    assert {cls.name for cls in OPERATIONS} >= HANDWRITTEN


@pytest.mark.parametrize("cls", ORDINARY, ids=[cls.name for cls in ORDINARY])
def test_declaration_agrees_with_the_grammar(cls: type[IRDLOperation]):
    instruction = instruction_for(cls)
    definition = cls.get_irdl_definition()
    names = {**dict(definition.operands), **definition.properties, **definition.attributes}
    declared = {field: names[field] for field in names if field not in NOT_ENCODED}
    parameters = {p for p in declared if p.removeprefix("source_") in PARAMETERS.values()}
    by_grammar = {
        field: operand
        for field, operand in fields(cls).items()
        if not isinstance(getattr(cls, field, None), property) or field in declared
    }
    # A memory scope is an operand of a barrier, but a parameter of a load's memory operand.
    assert set(declared) - (parameters - set(by_grammar)) == set(by_grammar)
    optional = (OptOperandDef, VarOperandDef, OptPropertyDef)
    for field, operand in by_grammar.items():
        if not operand.quantifier:
            assert not isinstance(declared[field], optional), field
    for field, definition_of in declared.items():
        if isinstance(definition_of, OptPropertyDef) and field in by_grammar:
            assert by_grammar[field].quantifier, field
    extended = instruction_of(cls)[0] is not None
    assert len(definition.results) == int(instruction.has_result or extended)


@pytest.mark.parametrize("cls", ORDINARY, ids=[cls.name for cls in ORDINARY])
def test_every_operation_has_a_plan_for_encoding(cls: type[Operation]):
    in_set, name = instruction_of(cls)
    assert instruction_for(cls).name == name
    assert (in_set is None) == name.startswith("Op")
    # `create` omits the operands, because a plan reads only the class.
    assert callable(encoder_of(cls.create()))
