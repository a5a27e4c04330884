"""
Every compute instruction of the grammar has an operation. Every other instruction has a reason.

A grammar update with a new instruction fails here. Declare an operation for the instruction, or
add a reason to `scripts/compute_instructions.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from xdsl_spirv.dialects.spirv import ATTRIBUTES
from xdsl_spirv.dialects.spirv.types_declared import DeclaredType
from xdsl_spirv.grammar import grammar

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "compute_instructions.py"
CARRIERS = {"OpDecorate"}
"""Instructions that are mostly attributes in the dialect, but have an operation for other cases."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compute_instructions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_compute_instruction_has_an_operation(script: ModuleType):
    typed = script.operations_by_name()
    missing = [i.name for i in script.compute_instructions() if i.name not in typed]
    assert not missing, (
        f"{', '.join(missing)}: declare an operation, or give a reason in {SCRIPT.name}"
    )


def test_only_compute_instructions_have_operations(script: ModuleType):
    compute = {i.name for i in script.compute_instructions()}
    assert set(script.operations_by_name()) - compute - CARRIERS == set()


def test_every_group_is_needed_and_explained(script: ModuleType):
    groups = script.left_out()
    assert set(groups) == {g.name for g in script.GROUPS} | set(script.OTHER_REASONS)
    assert all(script.reason_for(group) for group in groups)


def test_named_instructions_exist(script: ModuleType):
    named = {*script.EXCEPTIONS, *script.SHARED, *script.FORMS}
    assert named <= set(grammar().instruction_names)


def test_instructions_of_types_have_other_forms(script: ModuleType):
    """The dialect expresses instructions of types by attributes, which `FORMS` states."""
    declared = [cls for cls in ATTRIBUTES if issubclass(cls, DeclaredType)]
    assert {cls.INSTRUCTION for cls in declared} <= set(script.FORMS)


def test_page_is_current(script: ModuleType):
    assert script.PAGE.read_text() == script.page(), f"run python scripts/{SCRIPT.name}"
