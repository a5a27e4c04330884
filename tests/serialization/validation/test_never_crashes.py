"""No bytes break the validator: it reports, or the decoder refuses."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_spirv.serialization.binary import Header, RawModule
from xdsl_spirv.serialization.mutation import check_validation as check
from xdsl_spirv.serialization.mutation import in_lengths, mutate
from xdsl_spirv.serialization.operands import opcode_of
from xdsl_spirv.serialization.sampling import sample_module
from xdsl_spirv.serialization.semantic_mutation import mutate_meaning
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.serialization.words import instruction

MAX_SECONDS = 4.0
"""For 100 kB; machines of CI are slow."""


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_modules_of_the_grammar(seed: int):
    rng = random.Random(seed)
    data = sample_module(rng, rng.randrange(60)).encode()
    check(data)
    check(mutate(rng, data))
    check(in_lengths(rng, data))


def test_damaged_shaders(glsl_modules: dict[str, bytes]):
    rng = random.Random(0)
    for data in glsl_modules.values():
        for _ in range(6):
            check(mutate(rng, data))
            check(mutate_meaning(rng, mutate_meaning(rng, data)))


def test_a_change_of_meaning_takes_any_module():
    """Rows too short for the change among them: a label without an id, a type without a result."""
    names = ("OpLabel", "OpBranch", "OpTypeInt", "OpConstant", "OpFunction")
    for bound in (0, 1, 20):
        for rows in ([], [of(name) for name in names], [of("OpLabel"), of("OpReturn")]):
            data = RawModule.build(Header((1, 6), 0, bound), rows).encode()
            for seed in range(100):
                check(mutate_meaning(random.Random(seed), data))


def of(name: str, *operands: int) -> list[int]:
    return instruction(opcode_of(name), operands)


SIZE = 100_000
PROLOGUE = [
    of("OpCapability", 1),
    of("OpMemoryModel", 0, 1),
    of("OpTypeVoid", 1),
    of("OpTypeFunction", 2, 1),
    of("OpTypeBool", 3),
    of("OpConstantTrue", 3, 4),
    of("OpTypeInt", 5, 32, 0),
    of("OpConstant", 5, 6, 4),
    of("OpFunction", 1, 7, 0, 2),
]


def nested_arrays() -> list[list[int]]:
    return PROLOGUE[:-1] + [
        of("OpTypeArray", i, i - 1 if i > 10 else 5, 6) for i in range(10, 6000)
    ]


def nested_structs() -> list[list[int]]:
    rows = [*PROLOGUE[:-1], of("OpTypeStruct", 10, 5, 5)]
    rows += [of("OpTypeStruct", i, i - 1, i - 1) for i in range(11, 5000)]
    pointer = of("OpTypePointer", 5000, 12, 4999)
    return [of("OpDecorate", 4999, 2), *rows, pointer, of("OpVariable", 5000, 5001, 12)]


def nested_selections() -> list[list[int]]:
    rows = [*PROLOGUE, of("OpLabel", 10)]
    for i in range(1000):
        rows += [of("OpSelectionMerge", 3000 + i, 0)]
        rows += [of("OpBranchConditional", 4, 11 + i, 3000 + i), of("OpLabel", 11 + i)]
    for i in reversed(range(1000)):
        rows += [of("OpBranch", 3000 + i), of("OpLabel", 3000 + i)]
    return [*rows, of("OpReturn"), of("OpFunctionEnd")]


def a_long_chain_of_blocks() -> list[list[int]]:
    rows = list(PROLOGUE)
    for i in range(10, 5000):
        rows += [of("OpLabel", i), of("OpBranch", i + 1)]
    return [*rows, of("OpFunctionEnd")]


def breaks_out_of_everything() -> list[list[int]]:
    """Each of many nested loops is left from the innermost block."""
    rows = [*PROLOGUE, of("OpLabel", 10)]
    for i in range(1000):
        rows += [of("OpLoopMerge", 3000, 4000, 0), of("OpBranchConditional", 4, 11 + i, 3000)]
        rows += [of("OpLabel", 11 + i)]
    return [*rows, of("OpReturn"), of("OpFunctionEnd")]


def one_type_in_itself() -> list[list[int]]:
    return [of("OpTypeStruct", 10, *([10] * 2000)), of("OpTypeArray", 11, 11, 11)] * 5


def a_switch_of_many_cases() -> list[list[int]]:
    cases = [w for i in range(2000) for w in (i, 100 + i)]
    rows = [*PROLOGUE, of("OpLabel", 10), of("OpSelectionMerge", 99, 0)]
    rows += [of("OpSwitch", 6, 99, *cases)]
    for i in range(2000):
        rows += [of("OpLabel", 100 + i), of("OpBranch", 100 + (i * 7) % 2000)]
    return [*rows, of("OpLabel", 99), of("OpReturn"), of("OpFunctionEnd")]


def one_decoration_for_all() -> list[list[int]]:
    return [of("OpGroupDecorate", 1, *([1] * 5000))] * 4 + [of("OpDecorate", 1, 2)] * 1000


HOSTILE = (
    nested_arrays,
    nested_structs,
    nested_selections,
    a_long_chain_of_blocks,
    breaks_out_of_everything,
    one_type_in_itself,
    a_switch_of_many_cases,
    one_decoration_for_all,
)


@pytest.mark.parametrize("make", HOSTILE, ids=lambda f: f.__name__)
def test_time_is_bounded(make: Callable[[], list[list[int]]]):
    data = RawModule.build(Header((1, 6), 0, 10_000), make()).encode()
    assert len(data) <= 1.3 * SIZE
    validate(struct.pack("<5I", *Header((1, 6), 0, 10).words()))  # The tables are made once.
    start = time.process_time()
    check(data)
    assert time.process_time() - start < MAX_SECONDS
