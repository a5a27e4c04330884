"""No bytes break the reader: they are refused with a place, or come back as they were."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_spirv.serialization.binary import Header, decode
from xdsl_spirv.serialization.disassembler import disassemble
from xdsl_spirv.serialization.mutation import (
    check,
    check_dialect,
    check_validation,
    in_lengths,
    mutate,
)
from xdsl_spirv.serialization.operands import opcode_of
from xdsl_spirv.serialization.raw_errors import SPIRVDecodeError
from xdsl_spirv.serialization.sampling import sample_module
from xdsl_spirv.serialization.words import instruction, string_words

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.bin"))
SIZE = 100_000
"""Bytes of the largest input that the limits on time and memory hold for."""

MAX_SECONDS = 1.0
MAX_MEMORY_RATIO = 50


def test_what_was_found_once_is_mended():
    for path in CORPUS:
        for reader in (check, check_dialect, check_validation):
            start = time.process_time()
            assert reader(path.read_bytes()), path.name
            assert time.process_time() - start < 2 * MAX_SECONDS, path.name


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes):
    assert check(data) == "refused" or data[:4] in (b"\x03\x02#\x07", b"\x07#\x02\x03")


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=80), st.integers(0, 300), st.booleans())
def test_any_words_behind_a_header(words: list[int], bound: int, big: bool):
    order = ">" if big else "<"
    check(struct.pack(f"{order}{5 + len(words)}I", *Header((1, 6), 0, bound).words(), *words))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_damaged_modules(seed: int):
    rng = random.Random(seed)
    data = sample_module(rng, rng.randrange(30)).encode()
    assert check(data) == "wholly"
    for _ in range(4):
        check(mutate(rng, data))
    check(in_lengths(rng, data))


def test_damaged_modules_of_glslang(glsl_modules: dict[str, bytes]):
    rng = random.Random(0)
    for data in glsl_modules.values():
        assert check(data) != "refused"
        for _ in range(5):
            check(mutate(rng, data))


def of(name: str, *operands: int) -> list[int]:
    return instruction(opcode_of(name), operands)


def arrays_of_arrays() -> list[list[int]]:
    rows = [of("OpTypeInt", 1, 32, 0), of("OpConstant", 1, 2, 4), of("OpTypeArray", 3, 1, 2)]
    return rows + [of("OpTypeArray", i, i - 1, 2) for i in range(4, SIZE // 16)]


def one_name_for_all() -> list[list[int]]:
    return [of("OpName", i, *string_words("x")) for i in range(1, SIZE // 12)]


def a_long_name() -> list[list[int]]:
    name = of("OpName", 1, *string_words("x" * (SIZE // 2)))
    return [name] + [of("OpReturnValue", 1)] * (SIZE // 16)


def numbers_for_names() -> list[list[int]]:
    names = [of("OpName", i, *string_words(str(i % 7))) for i in range(1, SIZE // 24)]
    return names + [of("OpTypeVoid", i) for i in range(1, SIZE // 24)]


def nothing_but_nops() -> list[list[int]]:
    return [of("OpNop")] * (SIZE // 4)


def unknown_opcodes() -> list[list[int]]:
    return [instruction(0x7777, [])] * (SIZE // 4)


def undecided_then_unknown() -> list[list[int]]:
    return [of("OpReturnValue", 1), of("OpLoad", 1, 2, 3)] * (SIZE // 24) + [
        instruction(0x7777, [])
    ]


def one_long_switch() -> list[list[int]]:
    types = [of("OpTypeInt", 1, 64, 0), of("OpConstant", 1, 2, 4, 0)]
    return [*types, of("OpSwitch", 2, 3, *([9, 9, 3] * (SIZE // 12 - 10)))]


def many_types() -> list[list[int]]:
    return [of("OpTypeInt", i, 32, 0) for i in range(1, SIZE // 16)]


HOSTILE = (
    arrays_of_arrays,
    one_name_for_all,
    a_long_name,
    numbers_for_names,
    nothing_but_nops,
    unknown_opcodes,
    undecided_then_unknown,
    one_long_switch,
    many_types,
)


@pytest.mark.parametrize("make", HOSTILE, ids=lambda f: f.__name__)
def test_time_and_memory_are_bounded(make: Callable[[], list[list[int]]]):
    words = Header((1, 6), 0, 0x3FFFFF).words() + [w for row in make() for w in row]
    data = struct.pack(f"<{len(words)}I", *words)
    assert len(data) <= SIZE + 100
    disassemble(decode(data[:20]), tolerant=True)  # The grammar is loaded once, for all.

    start = time.process_time()
    module = decode(data)
    for entry in module:
        try:
            _ = entry.operands
        except SPIRVDecodeError:
            continue
    disassemble(module, tolerant=True)
    assert time.process_time() - start < 2 * MAX_SECONDS  # Both readings; CI machines are slow.

    tracemalloc.start()
    text = disassemble(decode(data), tolerant=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MAX_MEMORY_RATIO * len(data), f"{peak / len(data):.0f} x"
    assert text
