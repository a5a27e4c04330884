"""Verifiers of operations apply to single instructions, and remedies are imperative sentences."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import module as rules_module
from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.rotate import GroupNonUniformRotateKHROp
from xdsl_spirv.dialects.spirv.rules_types import RuleViolation
from xdsl_spirv.serialization import validation
from xdsl_spirv.serialization.decode.decoder import decode as decode_module
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.serialization.validation.lifting import Lifter
from xdsl_spirv.serialization.validation.module import Module

ROTATE = """
OpCapability Shader
OpCapability GroupNonUniformRotateKHR
OpExtension "SPV_KHR_subgroup_rotate"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 64 1 1
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%int = OpTypeInt 32 1
%scope = OpConstant %uint 3
%one = OpConstant %uint 1
%negative = OpConstant %int -1
%main = OpFunction %void None %function
%entry = OpLabel
%r = OpGroupNonUniformRotateKHR %uint %scope %one %one
OpReturn
OpFunctionEnd
"""


def rules_broken(text: str) -> set[str]:
    return {f.rule for f in validate(assemble(text), "vulkan1.3")}


def test_an_instruction_becomes_its_operation():
    m = Module(assemble(ROTATE))
    (rotate,) = m.by_op["GroupNonUniformRotateKHR"]
    op = Lifter(m).operation(rotate)
    assert isinstance(op, GroupNonUniformRotateKHROp)
    assert op.parent is None
    assert rules.constant_integer(op.delta) == 1
    op.verify_()
    assert rules_broken(ROTATE) == set()


def test_the_verifier_of_an_operation_names_the_rule():
    text = ROTATE.replace("%uint %scope %one %one", "%uint %scope %one %negative")
    m = Module(assemble(text))
    op = Lifter(m).operation(m.by_op["GroupNonUniformRotateKHR"][0])
    assert op is not None
    with pytest.raises(RuleViolation) as refused:
        op.verify_()
    assert refused.value.rule == "ROT-05"
    assert refused.value.remedy == "use a signless or unsigned integer"
    assert rules_broken(text) == {"ROT-05"}


def test_a_scope_by_specialization_counts_by_its_default():
    text = ROTATE.replace("%scope = OpConstant %uint 3", "%scope = OpSpecConstant %uint 1")
    assert "ROT-04" in rules_broken(text)
    assert "ROT-04" not in rules_broken(text.replace("%uint 1\n%one", "%uint 3\n%one"))


def test_instructions_of_a_module_that_cannot_be_decoded_are_verified():
    text = ROTATE.replace("%one %one\n", "%one %negative\n").replace(
        "%scope =", "%odd = OpTypeFloat 24\n%scope ="
    )
    text = text.replace("OpReturn", "%u = OpUndef %odd\n%c = OpCopyObject %odd %u\nOpReturn")
    with pytest.raises(SPIRVDecodeError):
        decode_module(assemble(text).encode())
    assert "ROT-05" in rules_broken(text)


def test_a_violation_has_rule_cause_and_remedy():
    with pytest.raises(VerifyException) as refused:
        rules_module.cm_10_into_array(_variable())
    violation = refused.value
    assert isinstance(violation, RuleViolation)
    assert str(violation) == f"{violation.rule}: {violation.cause}; {violation.remedy}"
    assert violation.rule == "CM-10"


def _variable():
    from xdsl.dialects.builtin import f32

    from xdsl_spirv.dialects.spirv.enums import StorageClass
    from xdsl_spirv.dialects.spirv.memory import VariableOp
    from xdsl_spirv.dialects.spirv.types import PointerType

    return VariableOp(PointerType(f32, StorageClass.Function)).result


EMPTY = re.compile(
    r"(use|convert|declare|name|give|add|drop|move|keep|pass|correct|merge|raise|state|take|end) "
    r"(it|one|them|that|all|two|another|the same|a type|one type|one that is( not)?|that type|"
    r"it up|something else|another type|another way)"
)
"""Matches advice that names nothing, such as `use another type`."""


def remedies() -> list[tuple[str, str]]:
    """Returns every literal remedy in the sources, with its location."""
    folders = (Path(validation.__file__).parent, Path(rules.__file__).parent)
    found: list[tuple[str, str]] = []
    for file in sorted(f for folder in folders for f in folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            place = {"Problem": 1, "refuse": 2}.get(node.func.id, len(node.args))
            for argument in node.args[place : place + 1]:
                if isinstance(argument, ast.Constant):
                    found.append((f"{file.name}:{node.lineno}", str(argument.value)))
    return found


def test_every_remedy_says_what_to_do():
    assert len(remedies()) > 200
    assert [(place, text) for place, text in remedies() if EMPTY.fullmatch(text)] == []
