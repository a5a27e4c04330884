"""Instructions outside of functions are kept word for word, or an error names them."""

from __future__ import annotations

import random
from io import StringIO

import pytest
from xdsl.ir import Operation
from xdsl.printer import Printer

from xdsl_spirv.grammar import grammar
from xdsl_spirv.interpreter.batch import Geometry
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.interpreter.spirv.module import find_entry, workgroup_size
from xdsl_spirv.interpreter.spirv.specialization import specialize
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.decode.globals import READ_BY_OTHERS
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw import binary
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.tools.kernel_test import running
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.interface import Interface, choose_entry

MODULE = """
OpCapability Shader
CAPABILITY
OpMemoryModel Logical GLSL450
BEHIND_MODEL
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
ANNOTATION
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%v3 = OpTypeVector %u32 3
%four = OpConstant %u32 4
DECLARATION
%main = OpFunction %void None %fn
%entry = OpLabel
OpReturn
OpFunctionEnd
"""


def module(**parts: str) -> bytes:
    text = MODULE
    for name in ("CAPABILITY", "BEHIND_MODEL", "ANNOTATION", "DECLARATION"):
        text = text.replace(name, parts.get(name.lower(), ""))
    return assemble(text).encode()


def print_text(decoded: Operation) -> str:
    text = StringIO()
    Printer(stream=text).print_op(decoded)
    return text.getvalue()


def opcodes(data: bytes) -> list[str]:
    return [i.name or "" for i in binary.decode(data)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "OpSamplerImageAddressingModeNV",
            {
                "capability": "OpCapability BindlessTextureNV",
                "behind_model": "OpSamplerImageAddressingModeNV 64",
            },
        ),
        (
            "OpConstantCompositeReplicateEXT",
            {
                "capability": "OpCapability ReplicatedCompositesEXT",
                "annotation": "OpDecorate %size BuiltIn WorkgroupSize",
                "declaration": "%size = OpConstantCompositeReplicateEXT %v3 %four",
            },
        ),
        ("OpConstantComposite", {
            "annotation": "OpDecorate %size BuiltIn WorkgroupSize",
            "declaration": "%size = OpConstantComposite %v3 %four %four %four",
        }),
    ],
)  # fmt: skip
def test_an_instruction_is_carried(name: str, parts: dict[str, str]):
    data = module(**parts)
    decoded = decode(data)
    assert name in opcodes(encode(decoded))
    # The instruction's text is a module, too.
    assert encode(find_module(parse_text(print_text(decoded)))) == encode(decoded)


DECORATED = """
%pointer = OpTypePointer Private %u32
%variable = OpVariable %pointer Private
"""
ARGUMENTS = {"LiteralInteger": "7", "LiteralString": '"a b"', "LiteralFloat": "1.5"}


def decoration(name: str) -> str:
    """Returns an instruction that decorates a variable, with all parameters."""
    kinds = [p.kind for p in grammar().kind("Decoration")[name].parameters]
    of_id, of_text = any(k.startswith("Id") for k in kinds), "LiteralString" in kinds
    words = [
        ARGUMENTS.get(kind) or ("%four" if kind.startswith("Id") else first_name(kind))
        for kind in kinds
    ]
    instruction = "OpDecorateId" if of_id else "OpDecorateString" if of_text else "OpDecorate"
    return " ".join([instruction, "%variable", name, *words])


def first_name(kind: str) -> str:
    return next(iter(grammar().kind(kind).names))


@pytest.mark.parametrize("name", grammar().kind("Decoration").names)
def test_a_decoration_is_carried(name: str):
    data = module(annotation=decoration(name), declaration=DECORATED)
    again = encode(decode(data, unchecked=True))

    def list_decorations(data: bytes) -> list[list[int]]:
        rows = [(i.name or "", i.words) for i in binary.decode(data)]
        # The round trip renumbers ids.
        ends = {"OpDecorateId": 3}
        return [[*words[2 : ends.get(n)]] for n, words in rows if n.startswith("OpDecorate")]

    assert list_decorations(again) == list_decorations(data)
    assert encode(decode(again, unchecked=True)) == again


def test_a_copy_between_ids_of_one_type():
    """SPIR-V requires OpCopyLogical if two type ids differ. The dialect has one type."""
    declared = "%a = OpTypeArray %u32 %four\n%b = OpTypeArray %u32 %four\n%null = OpConstantNull %a"
    text = MODULE.replace("DECLARATION", declared)
    text = text.replace("%entry = OpLabel", "%entry = OpLabel\n%copy = OpCopyLogical %b %null")
    for part in ("CAPABILITY", "BEHIND_MODEL", "ANNOTATION"):
        text = text.replace(part, "")
    decoded = decode(assemble(text).encode())
    decoded.verify()
    assert "OpCopyObject" in opcodes(encode(decoded))


def draw_size(drawn: random.Random) -> tuple[str, tuple[int, int, int]]:
    """Returns constants that define a workgroup's size in a random way, and the size."""
    lines, spec = list[str](), drawn.choice(["", "Spec"])

    def number(name: str) -> int:
        a, b = drawn.randint(1, 9), drawn.randint(1, 9)
        lines.append(f"%{name}a = Op{spec}Constant %u32 {a}")
        if not spec or drawn.random() < 0.5:
            lines.append(f"%{name} = Op{spec}Constant %u32 {a}")
            return a
        lines.append(f"%{name}b = OpConstant %u32 {b}")
        kind = drawn.choice(["IAdd", "IMul", "UMod"])
        lines.append(f"%{name} = OpSpecConstantOp %u32 {kind} %{name}a %{name}b")
        return {"IAdd": a + b, "IMul": a * b, "UMod": a % b}[kind]

    x = number("x")
    if drawn.random() < 0.5:
        lines.append(f"%size = Op{spec}ConstantCompositeReplicateEXT %v3 %x")
        return "\n".join(lines), (x, x, x)
    y, z = number("y"), number("z")
    lines.append(f"%size = Op{spec}ConstantComposite %v3 %x %y %z")
    return "\n".join(lines), (x, y, z)


@pytest.mark.parametrize("seed", range(16))
def test_a_workgroup_size_of_any_constants(seed: int):
    declaration, size = draw_size(random.Random(seed))
    data = module(
        capability="OpCapability ReplicatedCompositesEXT",
        annotation="OpDecorate %size BuiltIn WorkgroupSize",
        declaration=declaration,
    )
    index = Module(binary.decode(data), ENVIRONMENTS["vulkan1.3"])
    interface = Interface(index, choose_entry(index, None), Constants(index, {}))
    decoded = decode(data)
    for each in (decoded, decode(encode(decoded)), find_module(parse_text(print_text(decoded)))):
        context = Context(each, Options(), Geometry((0, 0, 0), (1, 1, 1), 1))
        specialize(context, {})
        sizes = running.workgroup_size(interface), workgroup_size(context, find_entry(each, "main"))
        assert sizes == (size, size)


def test_any_other_instruction_is_refused_by_name():
    for name in grammar().instruction_names:
        if not name.startswith(READ_BY_OTHERS) or name.endswith("ContinuedINTEL"):
            refuse_by_name(name)


def refuse_by_name(name: str) -> None:
    entry = grammar().instruction(name)
    words = [*([5] if entry.has_result_type else []), *([60] if entry.has_result else [])]
    data = bytearray(module())
    body = [5] * len([o for o in entry.inputs if o.quantifier == ""]) + [0]
    row = [(1 + len(words) + len(body)) << 16 | entry.opcode, *words, *body]
    at = data.index(assemble_row("OpFunction"))
    data[at:at] = b"".join(w.to_bytes(4, "little") for w in row)
    with pytest.raises(SPIRVDecodeError, match=f"{name}"):
        decode(bytes(data))


def assemble_row(name: str) -> bytes:
    """Returns the first word (length and opcode) of an instruction that has five words."""
    return (5 << 16 | grammar().instruction(name).opcode).to_bytes(4, "little")


TRIP = """
spirv.module Logical GLSL450 requires #spirv.vce<v1.6,
    [Shader, CacheControlsINTEL, ReplicatedCompositesEXT],
    [SPV_INTEL_cache_controls, SPV_EXT_replicated_composites]> {
  spirv.func @main() "None" {
    %0 = spirv.Variable {cache_control_load_intel = [CONTROLS]} : !spirv.ptr<f32, Function>
    spirv.Return
  }
  spirv.func @repeated() -> !spirv.array<2 x !spirv.array<3 x vector<2xi32>>> "None" {
    %1 = spirv.EXT.ConstantCompositeReplicate [3 : i32] :
      !spirv.array<2 x !spirv.array<3 x vector<2xi32>>>
    spirv.ReturnValue %1 : !spirv.array<2 x !spirv.array<3 x vector<2xi32>>>
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}"""


@pytest.mark.parametrize("count", [1, 3])
def test_cache_controls_and_nested_replications_survive_a_round_trip(count: int):
    words = ["Uncached", "Cached", "InvalidateAfterR"][:count]
    name = "#spirv.cache_control_load_intel"
    controls = [f"{name}<cache_level = {n}, load_cache_control = {w}>" for n, w in enumerate(words)]
    module = find_module(parse_text(TRIP.replace("CONTROLS", ", ".join(controls))))
    data = encode(module)
    stream = StringIO()
    Printer(stream).print_op(again := decode(data))
    assert f"cache_control_load_intel = [{', '.join(controls)}]" in stream.getvalue()
    assert "ConstantCompositeReplicate [3 : i32] : !spirv.array<2 x " in stream.getvalue()
    assert encode(again) == data
