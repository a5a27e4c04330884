"""The encoder follows the binary rules of extensions, types and functions."""

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.control_flow import EXITS
from xdsl_spirv.dialects.spirv.enums import BuiltIn, Decoration, FPEncoding, MemoryAccess
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.encoder import ModuleEncoder, encode
from xdsl_spirv.serialization.encode.functions import FunctionEncoder
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw.binary import RawInstruction, decode

Rows = list[RawInstruction]


def parse(text: str):
    context = Context()
    for dialect in (Builtin, Arith, SPIRV):
        context.load_dialect(dialect)
    return find_module(Parser(context, text, "kernel.mlir").parse_module())


def binary(body: str, signature: str = "()", before: str = "", version: str = "1.6") -> bytes:
    return encode(
        parse(f"""
        spirv.module Logical Vulkan requires #spirv.vce<v{version}, [Shader], []> {{
          {before}
          spirv.func @f{signature} "None" {{
            {body}
          }}
        }}""")
    )


def rows(data: bytes, *names: str) -> Rows:
    return [row for row in decode(data) if not names or row.name in names]


def only(data: bytes, name: str) -> RawInstruction:
    (row,) = rows(data, name)
    return row


A, B, C = (
    f"!spirv.coopmatrix<16x16x{t}, Subgroup, {use}>"
    for t, use in (("i8", "MatrixA"), ("i8", "MatrixB"), ("i32", "MatrixAcc"))
)
POINTER = "!spirv.ptr<i8, StorageBuffer>"


# Binary rules of the four extensions, with numbers from the specifications


@pytest.mark.parametrize(
    ("name", "opcode"),
    [
        ("SDot", 4450),
        ("UDot", 4451),
        ("SUDot", 4452),
        ("SDotAccSat", 4453),
        ("UDotAccSat", 4454),
        ("SUDotAccSat", 4455),
    ],
)
def test_dot_06_opcodes_and_packed_format(name: str, opcode: int):
    accumulator = ", %a" if name.endswith("AccSat") else ""
    form = f"%a, %b{accumulator}"
    packed = binary(
        f"%r = spirv.{name} {form}, <PackedVectorFormat4x8Bit> : i32 -> i32\nspirv.Return",
        "(%a: i32, %b: i32)",
    )
    (row,) = (r for r in rows(packed) if r.opcode == opcode)
    count = 6 if accumulator else 5
    assert len(row.words) == count + 1
    assert row.words[-1] == 0
    vectors = binary(
        f"%r = spirv.{name} %a, %b{', %c' if accumulator else ''} : vector<4xi8> -> i32\n"
        "spirv.Return",
        "(%a: vector<4xi8>, %b: vector<4xi8>, %c: i32)",
    )
    (row,) = (r for r in rows(vectors) if r.opcode == opcode)
    assert len(row.words) == count


def test_cm_03_opcodes():
    data = binary(
        f"""
        %st = spirv.Constant 16 : i32
        %a = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : {POINTER}, i32 -> {A}
        %b = spirv.KHR.CooperativeMatrixLoad %p, %st, <ColumnMajor> : {POINTER}, i32 -> {B}
        %c = spirv.ConstantNull : {C}
        %r = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : {A}, {B} -> {C}
        %n = spirv.KHR.CooperativeMatrixLength : {C}
        spirv.KHR.CooperativeMatrixStore %p, %a, %st, <RowMajor> : {POINTER}, {A}, i32
        spirv.Return""",
        f"(%p: {POINTER})",
    )
    found = {row.opcode for row in decode(data)}
    assert {4456, 4457, 4458, 4459, 4460} <= found
    loads = rows(data, "OpCooperativeMatrixLoadKHR")
    constants = {row.words[2]: row.words[3] for row in rows(data, "OpConstant")}
    assert [constants[row.words[4]] for row in loads] == [0, 1]
    (length,) = rows(data, "OpCooperativeMatrixLengthKHR")
    types = rows(data, "OpTypeCooperativeMatrixKHR")
    assert length.words[3] == types[-1].words[1]
    # Scope, rows, columns and use are constants: Subgroup is 3, MatrixAccumulator is 2.
    assert [constants[w] for w in types[-1].words[3:]] == [3, 16, 16, 2]


@pytest.mark.parametrize(
    ("flag", "bit"),
    [
        ("ASigned", 0x1),
        ("BSigned", 0x2),
        ("CSigned", 0x4),
        ("ResultSigned", 0x8),
        ("AccSat", 0x10),
        ("ASigned|BSigned|CSigned|ResultSigned|AccSat", 0x1F),
    ],
)
def test_cm_22_operands(flag: str, bit: int):
    data = binary(
        f"%r = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <{flag}> : {A}, {B} -> {C}\n"
        "spirv.Return",
        f"(%a: {A}, %b: {B}, %c: {C})",
    )
    row = only(data, "OpCooperativeMatrixMulAddKHR")
    assert len(row.words) == 7
    assert row.words[-1] == bit


def test_rot_02_opcode_and_operands():
    data = binary(
        """
        %four = spirv.Constant 4 : i32
        %r = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
        %s = spirv.GroupNonUniformRotateKHR <Workgroup> %v, %d, cluster_size(%four)
          : f32, i32, i32 -> f32
        spirv.Return""",
        "(%v: f32, %d: i32)",
    )
    first, second = (row for row in decode(data) if row.opcode == 4431)
    parameters = [row.words[2] for row in rows(data, "OpFunctionParameter")]
    constants = {row.words[2]: row.words[3] for row in rows(data, "OpConstant")}
    assert constants[first.words[3]] == 3
    assert first.words[4:] == parameters
    assert constants[second.words[3]] == 2
    assert second.words[4:6] == parameters
    assert constants[second.words[6]] == 4


def test_bf_04_encoding_makes_a_separate_type():
    data = binary(
        """
        %a = spirv.Constant 1.5 : bf16
        %b = spirv.Constant 1.5 : f16
        spirv.Return"""
    )
    floats = {tuple(row.words[2:]) for row in rows(data, "OpTypeFloat")}
    assert floats == {(16, 0), (16,)}
    assert [row.words[3] for row in rows(data, "OpConstant")] == [0x3FC0, 0x3E00]


def test_float8_encodings():
    data = binary(
        """
        %a = spirv.Constant 1.5 : f8E4M3FN
        %b = spirv.Constant 1.5 : f8E5M2
        spirv.Return"""
    )
    encodings = [FPEncoding.Float8E4M3EXT, FPEncoding.Float8E5M2EXT]
    assert [row.words[2:] for row in rows(data, "OpTypeFloat")] == [[8, e] for e in encodings]
    assert [row.words[3] for row in rows(data, "OpConstant")] == [0x3C, 0x3E]


# Types and constants


def test_types_are_declared_once_whatever_their_spelling():
    data = binary(
        "spirv.Return", "(%a: i32, %b: ui32, %c: si32, %d: vector<2xi32>, %e: vector<2xui32>)"
    )
    assert [row.words[2:] for row in rows(data, "OpTypeInt")] == [[32, 0], [32, 1]]
    assert len(rows(data, "OpTypeVector")) == 1


@pytest.mark.parametrize(
    ("constant", "words"),
    [
        ("-1 : i8", [0xFF]),
        ("-1 : si8", [0xFFFFFFFF]),
        ("-2 : i64", [0xFFFFFFFE, 0xFFFFFFFF]),
        ("1.0 : f16", [0x3C00]),
        ("1.0 : f64", [0, 0x3FF00000]),
        ("0xFF800000 : f32", [0xFF800000]),
        ("0x7E00 : f16", [0x7E00]),
    ],
)
def test_constant_words(constant: str, words: list[int]):
    data = binary(f"%c = spirv.Constant {constant}\nspirv.Return")
    assert only(data, "OpConstant").words[3:] == words


def test_constants_are_compared_by_their_bits():
    data = binary(
        """
        %a = spirv.Constant 0.0 : f32
        %b = spirv.Constant -0.0 : f32
        %c = spirv.Constant 0.0 : f32
        %t = spirv.Constant true
        %u = spirv.Constant false
        spirv.Return"""
    )
    assert [row.words[3] for row in rows(data, "OpConstant")] == [0, 0x80000000]
    assert len(rows(data, "OpConstantTrue", "OpConstantFalse")) == 2


def test_composite_constants_nest():
    data = binary(
        """
        %a = spirv.Constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
          : !spirv.array<2 x !spirv.array<2 x i32>>
        %m = spirv.Constant dense<2.0> : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
        spirv.Return"""
    )
    inner_1, inner_2, outer, matrix = rows(data, "OpConstantComposite")
    assert outer.words[3:] == [inner_1.words[2], inner_2.words[2]]
    assert len(matrix.words) == 4


SPECIALIZED = """
  spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<@n x f32>, Workgroup>
  spirv.func @f(%p: !spirv.ptr<f16, StorageBuffer>) "None" {
    %st = spirv.mlir.referenceof @n : i32
    %a = spirv.KHR.CooperativeMatrixLoad %p, %st, @layout
      : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<@n x 16 x f16, @scope, MatrixA>
    %double = spirv.SpecConstantOperation wraps "spirv.IAdd"(%st, %st) : (i32, i32) -> i32
    spirv.Return
  }
  spirv.SpecConstant @n spec_id(7) = 16 : i32
  spirv.SpecConstant @scope spec_id(1) = 3 : i32
  spirv.SpecConstant @layout spec_id(2) = 0 : i32
  spirv.SpecConstant @flag spec_id(3) = true
  spirv.SpecConstantComposite @pair (@n, @scope) : vector<2xi32>
"""


def test_specialization_constants_precede_the_types_that_need_them():
    text = f"spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {{{SPECIALIZED}}}"
    data = encode(parse(text))
    decorations = [row.words for row in rows(data, "OpDecorate")]
    numbers = {words[1]: words[3] for words in decorations if words[2] == Decoration.SpecId}
    assert sorted(numbers.values()) == [1, 2, 3, 7]
    by_number = {numbers[row.words[2]]: row for row in rows(data, "OpSpecConstant")}
    matrix, array = only(data, "OpTypeCooperativeMatrixKHR"), only(data, "OpTypeArray")
    assert matrix.words[3:5] == [by_number[1].words[2], by_number[7].words[2]]
    assert array.words[3] == by_number[7].words[2]
    assert by_number[7].offset < array.offset
    assert by_number[1].offset < matrix.offset
    assert only(data, "OpCooperativeMatrixLoadKHR").words[4] == by_number[2].words[2]
    assert only(data, "OpSpecConstantTrue").words[2] in numbers
    operation = only(data, "OpSpecConstantOp")
    add = grammar().instruction("OpIAdd").opcode
    assert operation.words[3:] == [add, by_number[7].words[2], by_number[7].words[2]]
    pair = only(data, "OpSpecConstantComposite")
    assert pair.words[3:] == [by_number[7].words[2], by_number[1].words[2]]


def test_struct_layout_and_block():
    before = """
      spirv.GlobalVariable @a bind(1, 2) : !spirv.ptr<!spirv.struct<(
        !spirv.struct<(f32 [0])> [0], !spirv.rtarray<f32, stride=4> [16, NonWritable]
      )>, StorageBuffer>
      spirv.GlobalVariable @b bind(0, 3) : !spirv.ptr<
        !spirv.array<4 x !spirv.struct<(i32 [0])>>, StorageBuffer>
      spirv.GlobalVariable @c built_in("WorkgroupId") : !spirv.ptr<vector<3xi32>, Input>"""
    data = binary("spirv.Return", before=before)
    inner, outer, other = (row.words[1] for row in rows(data, "OpTypeStruct"))
    blocks = {row.words[1] for row in rows(data, "OpDecorate") if row.words[2] == Decoration.Block}
    assert blocks == {outer, other}
    members = {tuple(row.words[1:]) for row in rows(data, "OpMemberDecorate")}
    assert members == {
        (inner, 0, Decoration.Offset, 0),
        (outer, 0, Decoration.Offset, 0),
        (outer, 1, Decoration.Offset, 16),
        (outer, 1, Decoration.NonWritable),
        (other, 0, Decoration.Offset, 0),
    }
    a, b, c = (row.words[2] for row in rows(data, "OpVariable"))
    decorations = {tuple(row.words[1:]) for row in rows(data, "OpDecorate")}
    assert decorations >= {
        (a, Decoration.DescriptorSet, 1),
        (a, Decoration.Binding, 2),
        (b, Decoration.DescriptorSet, 0),
        (b, Decoration.Binding, 3),
        (c, Decoration.BuiltIn, BuiltIn.WorkgroupId),
    }


def test_a_struct_that_points_to_itself():
    node = (
        "!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8])>"
    )
    data = binary("spirv.Return", f"(%p: !spirv.ptr<{node}, PhysicalStorageBuffer>)")
    forward, pointer = only(data, "OpTypeForwardPointer"), only(data, "OpTypePointer")
    node_row = only(data, "OpTypeStruct")
    assert forward.offset < node_row.offset < pointer.offset
    assert forward.words[1] == pointer.words[1] == node_row.words[3]


# Functions and control flow


def test_loop_and_selection():
    data = binary(
        """
        %zero = spirv.Constant 0 : i32
        %r = spirv.mlir.loop -> i32 {
          spirv.Branch ^header(%zero : i32)
        ^header(%i: i32):
          %c = spirv.SLessThan %i, %n : i32
          spirv.BranchConditional %c, ^body, ^merge
        ^body:
          %s = spirv.mlir.selection -> i32 {
            %d = spirv.IEqual %i, %zero : i32
            spirv.BranchConditional %d, ^then, ^merge(%i : i32)
          ^then:
            %t = spirv.IAdd %i, %n : i32
            spirv.Branch ^merge(%t : i32)
          ^merge(%x: i32):
            spirv.mlir.merge %x : i32
          }
          spirv.Branch ^continue
        ^continue:
          spirv.Branch ^header(%s : i32)
        ^merge:
          spirv.mlir.merge %i : i32
        }
        spirv.ReturnValue %r : i32""",
        "(%n: i32) -> i32",
    )
    inside = rows(data)
    at = {row.name: row for row in inside}
    labels = [row.words[1] for row in rows(data, "OpLabel")]
    phi_i, phi_s = rows(data, "OpPhi")
    loop, selection = at["OpLoopMerge"], at["OpSelectionMerge"]
    entry, header, body, then, after, following, end = labels
    assert loop.words[1:] == [end, following, 0]
    assert selection.words[1:] == [after, 0]
    assert phi_i.words[3:] == [only(data, "OpConstant").words[2], entry, phi_s.words[2], following]
    assert set(zip(phi_s.words[3::2], phi_s.words[4::2], strict=True)) == {
        (phi_i.words[2], body),
        (only(data, "OpIAdd").words[2], then),
    }
    assert at["OpReturnValue"].words[1] == phi_i.words[2]
    # A merge instruction directly precedes its branch.
    order = [row.name for row in inside]
    assert order[order.index("OpLoopMerge") + 1] == "OpBranchConditional"
    assert order[order.index("OpSelectionMerge") + 1] == "OpBranchConditional"
    assert (header, body) == (labels[1], labels[2])


def test_branches_to_one_block_with_different_values_get_separate_blocks():
    data = binary(
        """
        %r = spirv.mlir.selection -> i32 {
          spirv.BranchConditional %c, ^merge(%a : i32), ^merge(%b : i32)
        ^merge(%x: i32):
          spirv.mlir.merge %x : i32
        }
        spirv.ReturnValue %r : i32""",
        "(%c: i1, %a: i32, %b: i32) -> i32",
    )
    phi, branch = only(data, "OpPhi"), only(data, "OpBranchConditional")
    assert len(set(branch.words[2:4])) == 2
    assert len(set(phi.words[4::2])) == 2
    assert len(rows(data, "OpLabel")) == 3


def test_blocks_follow_their_dominators():
    data = binary(
        """
        spirv.mlir.selection {
          spirv.BranchConditional %c, ^first, ^merge
        ^second:
          %y = spirv.IAdd %x, %x : i32
          spirv.Branch ^merge
        ^first:
          %x = spirv.IAdd %a, %a : i32
          spirv.Branch ^second
        ^merge:
          spirv.mlir.merge
        }
        spirv.Return""",
        "(%c: i1, %a: i32)",
    )
    x, y = rows(data, "OpIAdd")
    assert y.words[3:] == [x.words[2]] * 2


def test_switch_literals_have_the_selectors_width():
    data = binary(
        """
        spirv.mlir.selection {
          spirv.Switch %s : i64, [
          default: ^merge,
          -1: ^one
          ]
        ^one:
          spirv.Branch ^merge
        ^merge:
          spirv.mlir.merge
        }
        spirv.Return""",
        "(%s: i64)",
    )
    switch = only(data, "OpSwitch")
    assert switch.words[3:5] == [0xFFFFFFFF, 0xFFFFFFFF]
    assert len(switch.words) == 6


def test_variables_come_first():
    data = binary(
        """
        %x = spirv.IAdd %a, %a : i32
        %v = spirv.Variable : !spirv.ptr<i32, Function>
        spirv.Store "Function" %v, %x : i32
        spirv.Return""",
        "(%a: i32)",
    )
    names = [row.name for row in decode(data)]
    assert names[names.index("OpLabel") + 1] == "OpVariable"


def test_memory_operands_have_their_parameters():
    data = binary(
        """
        %x = spirv.Load "StorageBuffer" %p ["Aligned", 8] : f32
        spirv.CopyMemory "StorageBuffer" %p, "StorageBuffer" %p ["Aligned", 4], ["Volatile"] : f32
        spirv.Return""",
        "(%p: !spirv.ptr<f32, StorageBuffer>)",
    )
    aligned, volatile = MemoryAccess.Aligned, MemoryAccess.Volatile
    assert only(data, "OpLoad").words[4:] == [aligned, 8]
    assert only(data, "OpCopyMemory").words[3:] == [aligned, 4, volatile]


def test_attributes_become_decorations():
    data = binary(
        "%x = spirv.FAdd %a, %a {no_contraction, other.note = 1 : i32} : f32\nspirv.Return",
        "(%a: f32)",
    )
    added = only(data, "OpFAdd").words[2]
    assert [row.words[1:] for row in rows(data, "OpDecorate")] == [
        [added, Decoration.NoContraction]
    ]


# Errors name the operation and a remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "spirv.module Logical Vulkan {}",
            r"spirv\.module: .* run the pass spirv-update-vce",
        ),
        (
            """spirv.module @k Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f(%a: index) "None" { spirv.Return } }""",
            r"spirv\.func @f in @k: the type index has no SPIR-V form",
        ),
        (
            """spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f(%a: f32) "None" {
                %b = spirv.FAdd %a, %a {no_contration} : f32
                spirv.Return } }""",
            r"spirv\.FAdd in @f: the attribute 'no_contration' is not a decoration",
        ),
        (
            """spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f() "None" {
                %b = "spirv.mlir.referenceof"() <{spec_const = @gone}> : () -> i32
                spirv.Return } }""",
            r"spirv\.mlir\.referenceof in @f: @gone is not defined",
        ),
        (
            """spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f(%a: vector<1xf32>) "None" { spirv.Return } }""",
            r"a vector has one dimension of 2 or more",
        ),
        (
            """spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f(%a: i32) "None" {
                %b = arith.addi %a, %a : i32 loc("k.mlir":4:5)
                spirv.Return } }""",
            r"arith\.addi in @f at k\.mlir:4:5: the operation is not SPIR-V",
        ),
        (
            """spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> {
              spirv.func @f() "None" {
                spirv.mlir.loop control(Unroll|PeelCount) {
                  spirv.Branch ^header
                ^header:
                  spirv.Branch ^continue
                ^continue:
                  spirv.Branch ^header
                ^merge:
                  spirv.mlir.merge
                }
                spirv.Return } }""",
            r"the loop control PeelCount needs a number",
        ),
    ],
)
def test_operations_without_an_encoding_are_refused(text: str, message: str):
    with pytest.raises(SPIRVEncodeError, match=message):
        encode(parse(text))


def test_the_encoders_name_existing_operations():
    encoder = ModuleEncoder(parse("spirv.module Logical GLSL450 {}"), names=False, lines=False)
    function = FunctionEncoder(encoder)
    names = "_without_instruction", "_definitions", "_handlers"
    tables = [getattr(e, n) for e in (encoder, function) for n in names if hasattr(e, n)]
    assert len(tables) == 3
    named = set(EXITS).union(*tables)
    assert named <= set(SPIRV.names)
