"""The raw layer reproduces bytes, and reports the position of invalid ones."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import Header, Limits, RawModule, decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError, SPIRVUnknownError
from xdsl_spirv.serialization.raw.literals import NumberType
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.serialization.raw.words import instruction, string_words
from xdsl_spirv.testing.sampling import sample_module


def header(bound: int = 100) -> list[int]:
    return Header((1, 6), 0, bound).words()


def of(name: str, *operands: int) -> list[int]:
    return instruction(opcode_of(name), operands)


def module(*instructions: list[int], bound: int = 100) -> RawModule:
    return RawModule.build(Header((1, 6), 0, bound), instructions)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("order", ["<", ">"])
def test_encoding_reproduces_the_bytes(seed: int, order: str):
    words = sample_module(random.Random(seed), 60).words
    data = words.astype(f"{order}u4").tobytes()
    decoded = decode(data)
    assert decoded.encode() == data
    assert decoded.byte_order == {"<": "little", ">": "big"}[order]
    assert np.array_equal(decoded.words, words)
    for entry in decoded:
        assert entry.operands is not None
        assert decoded[entry.index] == entry


def test_unknown_instructions_are_preserved():
    made = module(instruction(0x7FFF, [1, 2, 3]), of("OpTypeVoid", 1), instruction(0xFFFF, []))
    decoded = decode(made.encode())
    assert decoded.encode() == made.encode()
    assert [i.name for i in decoded] == [None, "OpTypeVoid", None]
    with pytest.raises(SPIRVUnknownError, match=r"not in the grammar \(at word 5, instruction 0"):
        _ = decoded[0].operands


def test_an_empty_module_is_decoded():
    decoded = decode(module().encode())
    assert len(decoded) == 0
    assert list(decoded) == []
    assert decoded.header == Header((1, 6), 0, 100)


BAD_MODULES = {
    "no bytes": (b"", "has 0 bytes, fewer than"),
    "no magic": (b"\0" * 20, "must begin with SPIR-V's magic number"),
    "half a word": (struct.pack("<6I", *header(), 0)[:-2], "which is not a multiple of 4"),
    "short header": (struct.pack("<4I", *header()[:4]), "has 4 words, fewer than its header of 5"),
    "version": (struct.pack("<5I", header()[0], 7, 0, 1, 0), "the version must have"),
    "bound": (struct.pack("<5I", *header(0x400000)), "above the limit of 4194303"),
    "length 0": (
        struct.pack("<7I", *header(), 1 << 16, 19),
        r"word count of 0 \(at word 6, instruction 1, opcode 19",
    ),
    "too long": (
        struct.pack("<6I", *header(), 3 << 16 | 19),
        r"3 words ends 2 words after the module \(at word 5, instruction 0, opcode 19",
    ),
}


@pytest.mark.parametrize("name", BAD_MODULES)
def test_other_files_are_refused_as_modules(name: str):
    data, message = BAD_MODULES[name]
    with pytest.raises(SPIRVDecodeError, match=message):
        decode(data)


def test_limits_can_be_raised():
    data = struct.pack("<5I", *header(0x400000))
    assert decode(data, Limits(id_bound=0x400000)).header.bound == 0x400000


BAD_OPERANDS = {
    "missing": (of("OpTypeInt", 1, 32), r"ends after 3 words, before its Signedness \(at word 8"),
    "left": (of("OpTypeVoid", 1, 2), "1 words follow the last operand"),
    "id zero": (of("OpTypeVoid", 0), "IdResult is 0: ids are from 1 to 99"),
    "id beyond": (of("OpTypeVoid", 100), "IdResult is 100: ids are from 1 to 99"),
    "string": (of("OpName", 1, 0x61616161), "a string without a zero byte"),
    "padding": (of("OpName", 1, 0x62000061), "nonzero bytes after its end"),
    "enumerant": (of("OpCapability", 999999), "999999 is not a Capability"),
    "mask": (of("OpLoad", 1, 2, 3, 1 << 30), "bit 0x40000000 is not a MemoryAccess"),
    "parameter": (of("OpLoad", 1, 2, 3, 2), "before its MemoryAccess|before its LiteralInteger"),
    "pair": (of("OpPhi", 1, 2, 3), "ends after 4 words"),
    "type": (of("OpConstant", 1, 2, 3), "has type %1, but no earlier scalar type has this id"),
    "selector": (of("OpSwitch", 1, 2, 3, 4), "selector %1 must be a number that is defined"),
    "set": (of("OpExtInst", 1, 2, 3, 4), "no earlier OpExtInstImport defines %3"),
    "nested": (of("OpSpecConstantOp", 1, 2, 52), "52 is not an operation on constants"),
}


@pytest.mark.parametrize("name", BAD_OPERANDS)
def test_operands_against_the_grammar_are_refused(name: str):
    words, message = BAD_OPERANDS[name]
    with pytest.raises(SPIRVDecodeError, match=message) as caught:
        _ = module(words)[0].operands
    assert caught.value.index == 0
    assert caught.value.opcode == words[0] & 0xFFFF
    assert 5 <= caught.value.word <= 5 + len(words)


def test_numbers_have_their_types_width():
    made = module(
        of("OpTypeInt", 1, 64, 1),
        of("OpTypeInt", 2, 8, 1),
        of("OpTypeFloat", 3, 16, grammar().kind("FPEncoding")["BFloat16KHR"].value),
        of("OpConstant", 1, 4, 0xFFFFFFFE, 0xFFFFFFFF),
        of("OpConstant", 2, 5, 0xFFFFFFFF),
        of("OpConstant", 3, 6, 0x3FC0),
        of("OpSwitch", 4, 7, 5, 1, 8),
        of("OpConstant", 2, 9, 0xFF),
    )
    values = [made[i].operands[2] for i in (3, 4, 5)]
    assert [v.value for v in values] == [(1 << 64) - 2, 0xFF, 0x3FC0]
    assert values[0].number == NumberType(64, False, True)
    assert values[2].number == NumberType(16, True, False, "BFloat16KHR")
    assert [o.value for o in made[6].operands] == [4, 7, 5 + (1 << 32), 8]
    with pytest.raises(SPIRVUnknownError, match="bits beyond the 8 of its type"):
        _ = made[7].operands


def test_a_declaration_holds_only_for_later_instructions():
    made = module(of("OpConstant", 1, 2, 3), of("OpTypeInt", 1, 32, 0), of("OpTypeInt", 1, 64, 0))
    with pytest.raises(SPIRVDecodeError, match="no earlier scalar type has this id"):
        _ = made[0].operands
    assert made.symbols.number_type(1, 3) == NumberType(32, False)


def test_parameters_follow_their_enumerant():
    made = module(of("OpExecutionMode", 1, 17, 8, 4, 1), of("OpLoad", 1, 2, 3, 0x22, 16))
    assert [(o.kind, o.value) for o in made[0].operands] == [
        ("IdRef", 1),
        ("ExecutionMode", 17),
        ("LiteralInteger", 8),
        ("LiteralInteger", 4),
        ("LiteralInteger", 1),
    ]
    assert [(o.kind, o.value) for o in made[1].operands[3:]] == [
        ("MemoryAccess", 0x22),
        ("LiteralInteger", 16),
    ]


def test_extended_instructions_have_their_sets_operands():
    made = module(
        of("OpExtInstImport", 1, *string_words("OpenCL.std")),
        of("OpExtInstImport", 2, *string_words("NonSemantic.Never.Heard.Of")),
        of("OpExtInst", 3, 4, 1, grammar().instruction("vloadn", "OpenCL.std").opcode, 5, 6, 16),
        of("OpExtInst", 3, 7, 2, 123, 5),
    )
    assert [o.kind for o in made[2].operands[4:]] == ["IdRef", "IdRef", "LiteralInteger"]
    assert [o.value for o in made[3].operands] == [3, 7, 2, 123, 5]
