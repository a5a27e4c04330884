"""The encoder writes interfaces, sections, names and header of a module correctly."""

import struct
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw.binary import RawInstruction, decode
from xdsl_spirv.tools import khronos

Encoded = Callable[..., bytes]


@pytest.fixture
def encoded(parse: Callable[[str], ModuleOp]) -> Encoded:
    """Returns a function that encodes a module's text with the encoder's options."""
    return lambda text, **options: encode(find_module(parse(text)), **options)


def rows(data: bytes, *names: str) -> list[RawInstruction]:
    return [row for row in decode(data) if row.name in names]


INTERFACE = """
spirv.module Logical Vulkan requires #spirv.vce<v{version}, [Shader, VulkanMemoryModel], []> {{
  spirv.GlobalVariable @unused bind(0, 0) : !spirv.ptr<!spirv.struct<(i32 [0])>, StorageBuffer>
  spirv.GlobalVariable @used bind(0, 1) : !spirv.ptr<!spirv.struct<(i32 [0])>, StorageBuffer>
  spirv.GlobalVariable @id built_in("LocalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {{
    spirv.FunctionCall @helper() : () -> ()
    spirv.Return
  }}
  spirv.func @helper() "None" {{
    %p = spirv.mlir.addressof @used : !spirv.ptr<!spirv.struct<(i32 [0])>, StorageBuffer>
    %q = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 4, 1, 1
}}"""


@pytest.mark.parametrize(("version", "listed"), [("1.3", [2]), ("1.4", [1, 2])])
def test_an_interface_lists_variables_that_called_functions_use(
    encoded: Encoded, version: str, listed: list[int]
):
    data = encoded(INTERFACE.format(version=version))
    variables = [row.words[2] for row in rows(data, "OpVariable")]
    (entry,) = rows(data, "OpEntryPoint")
    assert [o.value for o in entry.operands[3:]] == [variables[i] for i in listed]


def test_an_interface_lists_nothing_of_another_entry_point(encoded: Encoded):
    text = INTERFACE.format(version="1.6").rstrip().removesuffix("}")
    text += """
  spirv.func @other() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @other
}"""
    first, second = (row.operands[3:] for row in rows(encoded(text), "OpEntryPoint"))
    assert len(first) == 2
    assert second == []


def test_sections_are_in_the_specified_order(encoded: Encoded):
    data = encoded(INTERFACE.format(version="1.6"), names=True)
    names = [row.name for row in decode(data)]
    order = ["OpCapability", "OpMemoryModel", "OpEntryPoint", "OpExecutionMode", "OpName"]
    order += ["OpDecorate", "OpTypeVoid", "OpFunction"]
    places = [names.index(name) for name in order]
    assert places == sorted(places)
    assert khronos.find("spirv-val") is None or khronos.spirv_val(data) == ""


NAMED = """
spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
  spirv.func @f(%a: i32) "None" {
    %sum = spirv.IAdd %a, %a : i32 loc("model.py":3:7)
    spirv.Return loc("model.py":4:1)
  }
}"""


def test_names_and_lines_are_written_on_request(encoded: Encoded):
    assert rows(encoded(NAMED), "OpName", "OpLine", "OpString") == []
    named = rows(encoded(NAMED, names=True), "OpName")
    assert [row.operands[1].value for row in named] == ["f", "a", "sum"]
    lined = encoded(NAMED, lines=True)
    assert [row.operands[1].value for row in rows(lined, "OpString")] == ["model.py"]
    assert [row.words[2:] for row in rows(lined, "OpLine")] == [[3, 7], [4, 1]]


def test_the_header_is_right(encoded: Encoded):
    data = encoded(NAMED)
    magic, version, generator, bound, schema = struct.unpack("<5I", data[:20])
    assert (magic, version, generator, schema) == (0x07230203, 0x00010600, 0, 0)
    results = {o.value for row in decode(data) for o in row.operands if o.kind == "IdResult"}
    assert results == set(range(1, bound))
