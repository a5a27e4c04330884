"""
Our assembler and disassembler give the same text and bytes as Khronos' tools.

If our disassembler writes words (`!0x...`), spirv-dis refuses the module or prints text that
spirv-as cannot read. Then only the bytes are compared.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import HEADER_WORDS, RawModule, decode
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError, SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble, assemble_file
from xdsl_spirv.serialization.text.disassembler import disassemble, disassemble_file
from xdsl_spirv.testing.sampling import Sampler, carriers, sample_module

Assemble = Callable[..., bytes]
Disassemble = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
ADDITIONS = json.loads((ROOT / "scripts" / "grammar_additions.json").read_text())
NEW_NAMES = frozenset(
    [i["opname"] for i in ADDITIONS["instructions"]]
    + [e["enumerant"] for k in ADDITIONS["operand_kinds"] for e in k["enumerants"] if "value" in e]
    + [i["opname"] for rows in ADDITIONS["extended"].values() for i in rows]
)
"""Instructions and enumerants that the PyPI package's tools lack or give other operands."""

SETS = (
    "GLSL.std.450",
    "OpenCL.std",
    "NonSemantic.Unknown",
    "NonSemantic.DebugPrintf",
    "NonSemantic.ClspvReflection.5",
    "NonSemantic.Shader.DebugInfo.100",
    "OpenCL.DebugInfo.100",
    "DebugInfo",
    "SPV_AMD_gcn_shader",
)
NAMES = [
    name
    for name in grammar().instruction_names
    # Declared first, because spirv-dis refuses a second set and invalid widths.
    if name not in NEW_NAMES | {"OpExtInstImport", "OpTypeInt", "OpTypeFloat"}
]
KINDS = [
    kind
    for kind in grammar().kind_names
    if grammar().kind(kind).names and (found := carriers(kind)) and found[0] not in NEW_NAMES
]
GLSL_NAMES = sorted(p.stem for p in (Path(__file__).parent / "glsl").glob("*.comp"))


def sampler(seed: int) -> Sampler:
    made = Sampler(random.Random(seed), NEW_NAMES)
    made.declare(SETS)
    return made


def body(data: bytes) -> bytes:
    """Returns all words after the header, because headers of assemblers differ."""
    return data[4 * HEADER_WORDS :]


def check_both_ways(module: RawModule, spirv_as: Assemble, spirv_dis: Disassemble) -> None:
    """Compares the module through both disassemblers and both assemblers."""
    data = module.encode()
    major, minor = module.header.version
    options = ("--preserve-numeric-ids", "--target-env", f"spv{major}.{minor}")
    for raw_ids in (True, False):
        text = disassemble(module, raw_ids=raw_ids)
        if "!0x" not in text:
            assert text == spirv_dis(data, *["--raw-id"] * raw_ids)
        assert assemble(text, preserve_numeric_ids=False).encode()[20:] == body(
            spirv_as(text, *options[1:])
        )
        assert body(assemble(text).encode()) == body(spirv_as(text, *options))
        if raw_ids:
            assert assemble(text).encode() == data
            assert body(spirv_as(text, *options)) == body(data)


@pytest.mark.parametrize("first", range(0, len(NAMES), 120))
def test_every_instruction_has_the_text_of_khronos_tools(
    first: int, spirv_as: Assemble, spirv_dis: Disassemble
):
    made = sampler(first)
    for name in NAMES[first : first + 120]:
        made.sample(name)
    check_both_ways(made.module(), spirv_as, spirv_dis)


@pytest.mark.parametrize("kind", KINDS)
def test_every_enumerant_has_the_text_of_khronos_tools(
    kind: str, spirv_as: Assemble, spirv_dis: Disassemble
):
    found = carriers(kind)
    assert found is not None
    name, forced = found
    made = sampler(len(kind))
    for enumerant in grammar().kind(kind).names:
        if enumerant not in NEW_NAMES:
            made.forced = {**forced, kind: grammar().kind(kind)[enumerant].value}
            made.sample(name)
    check_both_ways(made.module(), spirv_as, spirv_dis)


@pytest.mark.parametrize("name", [s for s in grammar().extended_sets if "Experimental" not in s])
def test_every_extended_instruction_has_the_text_of_khronos_tools(
    name: str, spirv_as: Assemble, spirv_dis: Disassemble
):
    made = Sampler(random.Random(1), NEW_NAMES)
    imported = name + "100" if name.endswith(".") else name
    made.declare([imported])
    (set_id,) = made.sets
    for instruction in grammar().extended_names(name):
        if instruction not in NEW_NAMES:
            number = grammar().instruction(instruction, name).opcode
            made.emit("OpExtInst", [1, made.new_id(), set_id, *made.extended(name, number)])
    check_both_ways(made.module(), spirv_as, spirv_dis)


@pytest.mark.parametrize("seed", range(5))
def test_modules_with_new_names_survive_a_round_trip(seed: int):
    module = sample_module(random.Random(seed), 200)
    assert assemble(disassemble(module, raw_ids=True)).encode() == module.encode()


def test_every_new_instruction_survives_a_round_trip():
    made = Sampler(random.Random(0))
    made.declare()
    for name in sorted(NEW_NAMES):
        if name in grammar():
            made.sample(name)
    module = made.module()
    assert "!0x" not in disassemble(module)
    assert assemble(disassemble(module, raw_ids=True)).encode() == module.encode()


@pytest.mark.parametrize("name", GLSL_NAMES)
def test_assembly_of_glslang_modules(
    name: str, glsl_modules: dict[str, bytes], spirv_as: Assemble, spirv_dis: Disassemble
):
    found = {k: v for k, v in glsl_modules.items() if k.split("-")[0] == name}
    if not found:
        pytest.skip(f"this glslang cannot compile {name}.comp")
    for data in found.values():
        module = decode(data)
        assert module.encode() == data
        check_both_ways(module, spirv_as, spirv_dis)


MLIR_MODULE = """
spirv.module Logical GLSL450 requires #spirv.vce<v1.5, [Shader, Int64, Float16], []> {
  spirv.SpecConstant @size spec_id(3) = 7 : i32
  spirv.GlobalVariable @data bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.func @main() -> () "None" {
    %zero = spirv.Constant 0 : i32
    %size = spirv.mlir.referenceof @size : i32
    %wide = spirv.Constant -5000000000 : i64
    %half = spirv.Constant 0x7C00 : f16
    %data = spirv.mlir.addressof @data : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
    %at = spirv.AccessChain %data[%zero, %size] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %value = spirv.Load "StorageBuffer" %at ["Aligned", 4] : f32
    %root = spirv.GL.Sqrt %value : f32
    spirv.Store "StorageBuffer" %at, %root : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @data
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
"""  # noqa: E501


def test_assembly_of_mlir_modules(
    mlir_translate: str, tmp_path: Path, spirv_as: Assemble, spirv_dis: Disassemble
):
    source, output = tmp_path / "x.mlir", tmp_path / "x.spv"
    source.write_text(MLIR_MODULE)
    options = ["--no-implicit-module", "--serialize-spirv", str(source), "-o", str(output)]
    subprocess.run([mlir_translate, *options], check=True)
    module = decode(output.read_bytes())
    assert module.encode() == output.read_bytes()
    check_both_ways(module, spirv_as, spirv_dis)


def test_unknown_content_is_printed_as_words(spirv_as: Assemble):
    text = """
        OpCapability Shader
        OpDecorate %7 !0x7777 !3
        %1 = OpTypeFloat 32
        OpMemoryModel Logical GLSL450
        !0x0003270f %1 !7 !0x0001270f
        %2 = OpConstant %1 0x1.8p+128
        !0x0004003d %1 %3 %2 !0x0002270f -1
    """
    module = assemble(text)
    assert body(module.encode()) == body(spirv_as(text, "--preserve-numeric-ids"))
    printed = disassemble(module)
    assert "OpDecorate %7 !0x00007777 !0x00000003\n" in printed
    assert "!0x0003270f !0x00000001 !0x00000007\n" in printed
    # The following words could be read as an optional operand of the load.
    assert "OpLoad" not in printed
    assert assemble(printed).encode() == module.encode()
    assert body(spirv_as(printed, "--preserve-numeric-ids")) == body(module.encode())


LANGUAGE = {
    "names fill gaps": "%a = OpTypeVoid\n%2 = OpTypeBool\n%b = OpTypeSampler",
    "comments": "; first\nOpCapability ; between\n  Shader;last\n;",
    "one line": 'OpCapability Shader OpCapability Kernel %x = OpTypeVoid OpName %x "a b ; c"',
    "many lines": "OpDecorate\n  %x\n\n  BuiltIn ; yes\n WorkgroupId\n%x\n=\nOpTypeVoid",
    "escapes": r'OpName %x "a\"b\\c\n"' + '\nOpName %x "two\nlines" OpName %x ""',
    "masks": "%1 = OpLoad %2 %3 Aligned|Volatile|Nontemporal 16\n%4 = OpLoad %2 %3 None",
    "aliases": "OpDecorate %1 NonUniformEXT\n%2 = OpSDotKHR %3 %4 %5",
    "words": '%1 = OpConstant !2 %3 !0xff 1.5 "text" -1\nOpName !1 !0x00616161\n!0x00020011 !1',
    "forward": 'OpEntryPoint GLCompute %main "main" %b %a\n%a = OpTypeVoid\n%b = OpTypeBool',
    "switch": ("%s = OpTypeInt 16 1 %c = OpConstant %s -7 OpSwitch %c %d -1 %e 32767 %f 0xfffe %g"),
    "ext inst": '%s = OpExtInstImport "GLSL.std.450" %r = OpExtInst %t %s Fma %a %b %c',
    "by number": '%s = OpExtInstImport "NonSemantic.X" %r = OpExtInst %t %s 77 %a',
    "nested": "%a = OpSpecConstantOp %t CompositeExtract %b 1 2",
    "empty": "; nothing",
}


@pytest.mark.parametrize("name", LANGUAGE)
@pytest.mark.parametrize("preserve", [True, False])
def test_the_language_of_spirv_as_is_assembled(name: str, preserve: bool, spirv_as: Assemble):
    text = LANGUAGE[name]
    expected = spirv_as(text, *["--preserve-numeric-ids"] * preserve)
    module = assemble(text, preserve_numeric_ids=preserve)
    assert body(module.encode()) == body(expected)
    assert module.header.bound == decode(expected).header.bound


MISTAKES = {
    "OpFoo": (1, 1, "'OpFoo' is not an instruction"),
    "OpCapability\n  Shaders": (2, 3, "'Shaders' is not a Capability"),
    "OpTypeVoid": (1, 1, "OpTypeVoid needs a result id"),
    "%1 = OpCapability Shader": (1, 1, "OpCapability has no result id"),
    "%1 OpTypeVoid": (1, 4, "'=' is expected"),
    "%1 =": (1, 4, "an instruction is expected"),
    "OpMemoryModel Logical": (1, 15, "MemoryModel is missing"),
    "OpCapability Shader Kernel": (1, 21, "'Kernel' follows the last operand"),
    "%1 = OpTypeInt 32 x": (1, 19, "'x' is not an integer"),
    "%1 = OpTypeInt 32 -1": (1, 19, "negative but the type is unsigned"),
    "%1 = OpTypeInt 4294967296 0": (1, 16, "does not fit in unsigned 32 bits"),
    "OpName %1 name": (1, 11, "a string in quotes is expected"),
    'OpName %1 "name': (1, 11, "a string in quotes is expected"),
    'OpName 1 "a"': (1, 8, "'1' is not an id"),
    "%a-b = OpTypeVoid": (1, 1, "'%a-b' is not an id"),
    "%2 = OpConstant %1 3": (1, 20, "not a scalar type of an earlier line"),
    "%1 = OpTypeInt 8 0 %2 = OpConstant %1 256": (1, 39, "does not fit in unsigned 8 bits"),
    "%1 = OpTypeFloat 16 %2 = OpConstant %1 70000": (1, 40, "beyond the type's 16 bits"),
    "%1 = OpTypeFloat 32 %2 = OpConstant %1 1e40": (1, 40, "beyond 32-bit floats"),
    "%1 = OpTypeFloat 32 %2 = OpConstant %1 0x10": (1, 40, "is a hexadecimal integer"),
    "%1 = OpLoad %2 %3 Aligned|Foo 4": (1, 19, "'Foo' is not a MemoryAccess"),
    "%1 = OpExtInst %2 %3 Sin %4": (1, 22, "the instruction set must be imported"),
    "%1 = OpSpecConstantOp %2 Label": (1, 26, "'Label' is not an operation on constants"),
    "!0x00050011 !1": (1, 1, "an instruction of 5 words goes beyond the 2 given words"),
    "!x": (1, 1, "'x' is not an integer"),
    "hello": (1, 1, "'hello' is not an instruction"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_have_a_line_and_column(text: str):
    line, column, cause = MISTAKES[text]
    with pytest.raises(SPIRVAssemblyError, match=r"^\d+:\d+: ") as caught:
        assemble(text)
    assert cause in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_header_is_in_the_comments():
    module = sample_module(random.Random(3), 5)
    words = module.words.copy()
    words[1], words[2], words[3], words[4] = 1 << 16 | 3 << 8, 8 << 16 | 11, 5000, 9
    for order in ("<", ">"):
        data = words.astype(f"{order}u4").tobytes()
        text = disassemble(decode(data), raw_ids=True)
        assert "; Generator: Khronos Glslang Reference Front End; 11\n; Bound: 5000" in text
        assert assemble(text).encode() == data
    assert assemble("OpNop").header.version == grammar().version
    assert assemble("OpNop", version=(1, 0)).header.version == (1, 0)


def test_other_forms_of_the_text_agree_with_spirv_dis(
    glsl_modules: dict[str, bytes], spirv_dis: Disassemble
):
    data = glsl_modules["add-g"]
    module = decode(data)
    expected = spirv_dis(data, "--no-indent", "--no-header")
    assert disassemble(module, indent=False, header=False) == expected
    offsets = [line.split(" ; ")[-1] for line in disassemble(module, offsets=True).split("\n")]
    assert f"0x{4 * int(module.starts[-1]):08x}" in offsets


def test_names_that_look_like_numbers_are_kept_apart(spirv_dis: Disassemble):
    text = 'OpName %3 "2" OpName %4 "x" OpName %5 "x" OpName %6 "a b" %2 = OpString ""'
    module = assemble(f'{text} %3 = OpTypeBool %4 = OpString "" %5 = OpString "" %6 = OpLabel')
    assert disassemble(module) == spirv_dis(module.encode())
    assert '%2_0 = OpString ""' in disassemble(module)


def test_a_hostile_name_does_not_enlarge_the_text():
    uses = "\n".join("%3 = OpFAdd %1 %2 %2" for _ in range(4000))
    module = assemble(f'OpName %1 "{"x" * 60000}"\n{uses}')
    text = disassemble(module)
    assert len(text) < 40 * len(module.encode())
    assert assemble(text).encode() == module.encode()


def test_a_contradiction_is_refused_unless_tolerated():
    module = assemble("!0x00030013 %1 !2 OpNop")
    with pytest.raises(SPIRVDecodeError, match="1 words follow"):
        disassemble(module)
    text = disassemble(module, tolerant=True)
    assert "!0x00030013 !0x00000001 !0x00000002 ; 1 words follow" in text
    assert assemble(text).encode() == module.encode()


def test_files_are_written_completely_or_not_at_all(tmp_path: Path):
    source, text, binary = (tmp_path / n for n in ("x.spv", "x.spvasm", "y.spv"))
    source.write_bytes(sample_module(random.Random(0), 9).encode())
    disassemble_file(source, text, raw_ids=True)
    assert assemble_file(text, binary) == source.read_bytes() == binary.read_bytes()
    text.write_text("OpFoo")
    with pytest.raises(SPIRVAssemblyError):
        assemble_file(text, tmp_path / "z.spv")
    source.write_bytes(b"no")
    with pytest.raises(SPIRVDecodeError):
        disassemble_file(source, tmp_path / "z.spvasm")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.spv", "x.spvasm", "y.spv"]
