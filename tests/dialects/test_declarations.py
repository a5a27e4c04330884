"""Every operation of the dialect agrees with the grammar and occurs in a FileCheck test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.irdl import IRDLOperation, OptOperandDef, VarOperandDef
from xdsl.traits import Commutative, Pure

from xdsl_spirv.dialects.spirv import SPIRV, arithmetic
from xdsl_spirv.dialects.spirv.base import SPIRVOp, instruction_of
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.encode.operations import PARAMETERS, field_of
from xdsl_spirv.upstream.lazy_formats import LazyFormat

FILECHECK = Path(__file__).parent.parent / "filecheck"
OPERATIONS = sorted(SPIRV.operations, key=lambda op: op.name)

CARRIERS = {
    "spirv.Decorate",
    "spirv.Raw",
    "spirv.RawGlobal",
    "spirv.RawTerminator",
}
"""Operations that contain any instruction or decoration as words."""

STRUCTURAL = {
    "spirv.mlir.addressof",
    "spirv.mlir.break",
    "spirv.mlir.continue",
    "spirv.mlir.loop",
    "spirv.mlir.merge",
    "spirv.mlir.referenceof",
    "spirv.mlir.selection",
    "spirv.mlir.yield",
    "spirv.module",
}
"""MLIR's structural operations for facts that SPIR-V expresses by instruction order."""

BY_HAND = {
    "spirv.ARM.Graph",
    "spirv.ARM.GraphEntryPoint",
    "spirv.ARM.GraphOutputs",
    "spirv.Branch",
    "spirv.BranchConditional",
    "spirv.Constant",
    "spirv.ConstantNull",
    "spirv.EntryPoint",
    "spirv.ExecutionMode",
    "spirv.ExecutionModeId",
    "spirv.func",
    "spirv.FunctionCall",
    "spirv.GlobalVariable",
    "spirv.KHR.UntypedGlobalVariable",
    "spirv.SpecConstant",
    "spirv.SpecConstantComposite",
    "spirv.EXT.ConstantCompositeReplicate",
    "spirv.EXT.SpecConstantCompositeReplicate",
    "spirv.KHR.SpecConstantData",
    "spirv.SpecConstantOperation",
    "spirv.Switch",
    "spirv.CopyMemory",
    "spirv.KHR.CooperativeMatrixLength",
    "spirv.NV.CooperativeMatrixLength",
    "spirv.ArrayLength",
}
"""Operations that name symbols, blocks or types, where the grammar has ids."""


def test_every_operation_is_in_a_filecheck_test():
    text = "\n".join(p.read_text() for p in FILECHECK.rglob("*.mlir"))
    used = set(re.findall(r"\bspirv\.[A-Za-z0-9_.]*[A-Za-z0-9_]", text))
    missing = [op.name for op in OPERATIONS if op.name not in used]
    assert not missing, f"no FileCheck test shows {', '.join(missing)}"


DECLARED = [op for op in OPERATIONS if op.name not in STRUCTURAL | BY_HAND | CARRIERS]


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.name)
def test_declaration_agrees_with_the_grammar(cls: type[IRDLOperation]):
    """SSA operands have the grammar's order and quantifiers."""
    in_set, name = instruction_of(cls)
    instruction = grammar().instruction(name, in_set)
    definition = cls.get_irdl_definition()
    ssa = {field: kind for field, kind in definition.operands}
    wanted: list[str] = []
    for operand in instruction.operands:
        if operand.kind in ("IdResult", "IdResultType"):
            continue
        field = field_of(cls, operand)
        if field in ssa:
            wanted.append(field)
            optional = isinstance(ssa[field], OptOperandDef)
            many = isinstance(ssa[field], VarOperandDef) and not optional
            assert optional == (operand.quantifier == "?") or field == "stride", field
            assert many == (operand.quantifier == "*"), field
        else:
            computed = isinstance(getattr(cls, field, None), property)
            assert operand.quantifier or field in definition.properties or computed, (
                f"{cls.name} has no {field}, which {name} demands"
            )
    parameters = set(PARAMETERS.values()) - set(wanted)
    declared = [field for field in ssa if field not in parameters]
    assert wanted == declared, f"{cls.name} declares {list(ssa)}, {name} has {wanted}"
    assert bool(definition.results) == (in_set is not None or instruction.has_result)


def test_a_header_states_facts_of_its_families_only():
    with pytest.raises(TypeError, match="WrongOp: none of its base classes declares NEUTRAL"):

        class WrongOp(SPIRVOp, name="spirv.Wrong", neutral=0):  # pyright: ignore[reportUnusedClass]
            """Sets `neutral`, which no base class declares."""


def test_an_operation_has_the_facts_of_its_header():
    """A class with ABC as a base is a family. Other classes are operations."""

    class SumOp(arithmetic.IntegerArithmetic, compute=max, neutral=7, commutative=True):
        """An operation whose name is derived from the class name."""

    definition = SumOp.get_irdl_definition()
    assert (SumOp.name, SumOp.COMPUTE, SumOp.NEUTRAL) == ("spirv.Sum", max, 7)
    assert {Commutative, Pure} <= {type(trait) for trait in definition.traits}
    assert arithmetic.IntegerArithmetic.NEUTRAL is None
    assert "get_irdl_definition" not in vars(arithmetic.IntegerArithmetic)


def test_every_declarative_format_parses():
    """Formats are parsed on first use, so that other tests may miss mistakes."""

    operations = [op for op in SPIRV.operations if issubclass(op, IRDLOperation)]
    definitions = [op.get_irdl_definition() for op in operations]
    texts = [(d.assembly_format, d) for d in definitions if d.assembly_format is not None]
    assert len(texts) > 200
    for text, definition in texts:
        assert LazyFormat(text, definition).program.stmts
