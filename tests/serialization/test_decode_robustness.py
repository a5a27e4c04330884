"""`decode` of damaged modules returns a module that verifies, or raises `SPIRVDecodeError`."""

from __future__ import annotations

import gc
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_spirv.testing.mutation import check_dialect, mutate
from xdsl_spirv.testing.sampling import sample_module

SECONDS = 2.0
"""Time limit, far above the needed time. test_bounds.py has slow inputs."""


def survive(data: bytes) -> str:
    """Decodes bytes and returns the outcome. Any exception except a decode error propagates."""
    # Garbage of earlier tests must not be collected during this test.
    gc.disable()
    begin = time.process_time()
    try:
        return check_dialect(data)
    finally:
        gc.enable()
        assert time.process_time() - begin < SECONDS


def damage(modules: list[bytes], seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    found: dict[str, int] = {}
    for _ in range(count):
        outcome = survive(mutate(rng, rng.choice(modules)))
        found[outcome] = found.get(outcome, 0) + 1
    return found


def test_damaged_shaders_are_decoded_or_refused(glsl_modules: dict[str, bytes]):
    found = damage(list(glsl_modules.values()), 11, 300)
    assert found["refused"] > 30
    assert found["encoded"] > 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_damaged_shaders_are_decoded_or_refused(seed: int, glsl_modules: dict[str, bytes]):
    damage(list(glsl_modules.values()), seed, 3000)


@given(st.integers(0, 1 << 32), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_random_instructions_are_decoded_or_refused(seed: int, count: int):
    survive(sample_module(random.Random(seed), count).encode())


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_decoded_or_refused(data: bytes):
    survive(data)
