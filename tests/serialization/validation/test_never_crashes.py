"""For any bytes, the validator reports findings or the decoder refuses."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_spirv.serialization.raw.binary import Header, RawModule
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.serialization.raw.words import instruction
from xdsl_spirv.testing.mutation import check_validation as check
from xdsl_spirv.testing.mutation import in_lengths, mutate
from xdsl_spirv.testing.sampling import sample_module
from xdsl_spirv.testing.semantic_mutation import mutate_meaning


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_random_modules_are_validated_or_refused(seed: int):
    rng = random.Random(seed)
    data = sample_module(rng, rng.randrange(60)).encode()
    check(data)
    check(mutate(rng, data))
    check(in_lengths(rng, data))


def test_damaged_shaders_are_validated_or_refused(glsl_modules: dict[str, bytes]):
    rng = random.Random(0)
    for data in glsl_modules.values():
        for _ in range(6):
            check(mutate(rng, data))
            check(mutate_meaning(rng, mutate_meaning(rng, data)))


def test_mutations_can_be_applied_to_any_module():
    names = ("OpLabel", "OpBranch", "OpTypeInt", "OpConstant", "OpFunction")
    for bound in (0, 1, 20):
        for rows in ([], [of(name) for name in names], [of("OpLabel"), of("OpReturn")]):
            data = RawModule.build(Header((1, 6), 0, bound), rows).encode()
            for seed in range(100):
                check(mutate_meaning(random.Random(seed), data))


def of(name: str, *operands: int) -> list[int]:
    return instruction(opcode_of(name), operands)
