"""The dialect parses its printed modules to the same words, for any string and damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.raw.binary import RawModule
from xdsl_spirv.serialization.raw.binary import decode as decode_words
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.testing.mutation import check_printed, mutate
from xdsl_spirv.testing.sampling import sample_module
from xdsl_spirv.testing.semantic_mutation import mutate_meaning

HERE = Path(__file__).resolve().parent
MODULES = sorted((HERE / "printed").glob("*.spv"))
"""Damaged modules that once failed. Other tests damage them again."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_that_failed_once_survive(path: Path) -> None:
    check_printed(path.read_bytes())


def damaged(number: int) -> bytes:
    rng = random.Random(number)
    data = rng.choice(MODULES).read_bytes()
    choice = rng.randrange(8)
    if choice == 0:
        return mutate(rng, sample_module(rng, rng.randrange(30)).encode())
    return mutate(rng, data) if choice == 1 else mutate_meaning(rng, data)


@pytest.mark.parametrize(
    "numbers", [range(60), pytest.param(range(60, 6000), marks=pytest.mark.long)]
)
def test_damaged_modules_are_printed_or_refused(numbers: range) -> None:
    outcomes = [check_printed(damaged(number)) for number in numbers]
    assert outcomes.count("encoded") > len(numbers) // 20
    assert outcomes.count("refused") > len(numbers) // 20


TEXT = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
%s = OpString "MARK"
OpSourceExtension "MARK"
OpSource GLSL 450 %s "MARK"
OpName %x "MARK"
OpName %main "MARK"
OpName %st "MARK"
OpMemberName %st 0 "MARK"
OpName %v "MARK"
OpName %y "MARK"
OpModuleProcessed "MARK"
OpMemberDecorate %st 0 Offset 0
OpDecorate %st Block
OpDecorate %v DescriptorSet 0
OpDecorate %v Binding 0
%void = OpTypeVoid
%f = OpTypeFunction %void
%u = OpTypeInt 32 0
%st = OpTypeStruct %u
%p = OpTypePointer StorageBuffer %st
%v = OpVariable %p StorageBuffer
%x = OpConstant %u 7
%main = OpFunction %void None %f
%e = OpLabel
OpLine %s 3 4
%y = OpIAdd %u %x %x
OpReturn
OpFunctionEnd
"""

STRINGS = (
    "josé",
    "😀/é",
    "日本" * 50,
    "\u2028\x85",
    'quo"te',
    "back\\slash\\",
    "\\22",
    "new\nline\ttab\r",
    "\x01\x7f\x1b[2J",
    "",
    "@sym // comment",
    "a" * 3000,
    b"\xff\xfe",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xc3",
)


def as_words(text: bytes) -> list[int]:
    data = text + b"\0" * (4 - len(text) % 4)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


@pytest.mark.parametrize("text", STRINGS, ids=ascii)
def test_any_string_survives_printing(text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    mark, rows = as_words(b"MARK"), []
    module = decode_words(assemble(TEXT).encode())
    for row in module.rows():
        at = next((n for n in range(len(row)) if row[n : n + len(mark)] == mark), None)
        if at is not None:
            row = row[:at] + as_words(data) + row[at + len(mark) :]
        rows.append([len(row) << 16 | row[0] & 0xFFFF, *row[1:]])
    changed = RawModule.build(module.header, rows).encode()
    assert check_printed(changed) == "encoded"
    if isinstance(text, str) and text:
        assert encode(decode(changed), names=True, lines=True).count(data) >= 4
