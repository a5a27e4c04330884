"""A module of the dialect is imported only on first use of one of its names."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import ATTRIBUTES, OPERATIONS, SPIRV, operation_name
from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
from xdsl_spirv.dialects.spirv.base import instruction_of
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.dialects.spirv.types_declared import DeclaredType
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.decode.operations import class_of
from xdsl_spirv.serialization.decode.types import declared_types
from xdsl_spirv.upstream import on_demand
from xdsl_spirv.upstream.on_demand import DialectOfModules

PARSES_AN_ADDITION = """
import sys
from xdsl.parser import Parser
from xdsl_spirv.runtime.modules import context
Parser(context(), '''
spirv.module Logical GLSL450 {
  spirv.func @f(%a: i32) -> i32 "None" {
    %b = spirv.IAdd %a, %a : i32
    spirv.ReturnValue %b : i32
  }
}
''').parse_module()
print(*(m.rpartition(".")[2] for m in sys.modules if m.startswith("xdsl_spirv.dialects.spirv.")))
"""


def fresh() -> DialectOfModules:
    return DialectOfModules(
        "spirv", SPIRV.package, SPIRV.module_names, operation_name=operation_name
    )


def context_with(dialect: Dialect) -> Context:
    ctx = Context()
    ctx.register_dialect(dialect.name, lambda: dialect)
    return ctx


def test_a_text_imports_the_families_of_its_operations_and_no_others():
    done = subprocess.run(
        [sys.executable, "-c", PARSES_AN_ADDITION], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert {"arithmetic", "structure", "control_flow"} <= modules
    assert not modules & {"opencl", "vendor", "tensor_arm", "kernel", "glsl", "group", "atomic"}


@pytest.mark.parametrize("declared", [*OPERATIONS, *ATTRIBUTES], ids=lambda cls: cls.name)
def test_every_name_leads_to_its_module_alone(declared: Any):
    family = list(fresh().declaring(declared.name))
    assert declared in family
    assert {cls.__module__ for cls in family} == {declared.__module__}


def test_every_instruction_leads_to_its_operation():
    """The decoder finds classes by name without importing other modules."""
    for cls in OPERATIONS:
        in_set, instruction = instruction_of(cls)
        table = grammar().extended_names(in_set) if in_set else grammar()
        if instruction in table:
            opcode = grammar().instruction(instruction, in_set).opcode
            assert class_of(in_set, opcode) is cls
    types = {cls for cls in ATTRIBUTES if issubclass(cls, DeclaredType)}
    assert types == set(declared_types().values())


def test_a_context_contains_only_the_requested_names():
    ctx = context_with(fresh())
    assert ctx.get_op("spirv.IAdd") is IAddOp
    assert ctx.get_op("IAdd", dialect_stack=["spirv"]) is IAddOp
    assert ctx.get_type("spirv.ptr") is PointerType
    names = {op.name for op in ctx.loaded_ops}
    assert "spirv.ISub" in names
    assert "spirv.CL.exp" not in names


def test_without_sources_everything_is_loaded(monkeypatch: pytest.MonkeyPatch):
    def no_source(package: str, name: str) -> bytes:
        raise OSError(name)

    monkeypatch.setattr(on_demand, "get_data", no_source)
    ctx = context_with(fresh())
    assert ctx.get_op("spirv.IAdd") is IAddOp
    assert {op.name for op in ctx.loaded_ops} == {op.name for op in OPERATIONS}


def test_a_name_that_nothing_declares_is_refused():
    ctx = context_with(fresh())
    assert ctx.get_optional_op("spirv.Nothing") is None
    assert ctx.get_optional_attr("spirv.nothing") is None
    with pytest.raises(ParseError, match=r"spirv\.Nothing"):
        Parser(ctx, '"spirv.Nothing"() : () -> ()').parse_module()


@pytest.mark.parametrize(("name", "modules"), [("constant_integer", 2), ("NoSuchOp", 0)])
def test_spv_refuses_a_name_unless_exactly_one_module_declares_it(name: str, modules: int):
    with pytest.raises(AttributeError, match=f"^{modules} modules of .* declare '{name}'"):
        getattr(spv, name)


def test_spv_has_every_operation_of_the_dialect():
    for operation in SPIRV.operations:
        assert getattr(spv, operation.__name__) is operation
