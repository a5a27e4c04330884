"""The raw reader reproduces arbitrary bytes, or refuses them with the position of the fault."""

from __future__ import annotations

import pickle
import random
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_spirv.serialization.raw.binary import Header
from xdsl_spirv.serialization.raw.errors import (
    SPIRVAssemblyError,
    SPIRVDecodeError,
    SPIRVUnknownError,
)
from xdsl_spirv.testing.mutation import check, check_dialect, check_validation, in_lengths, mutate
from xdsl_spirv.testing.sampling import sample_module

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.bin"))
MAX_SECONDS = 1.0


def test_inputs_that_failed_once_are_reproduced_or_refused():
    for path in CORPUS:
        for reader in (check, check_dialect, check_validation):
            start = time.process_time()
            assert reader(path.read_bytes()), path.name
            assert time.process_time() - start < 2 * MAX_SECONDS, path.name


@given(st.binary(max_size=400))
def test_random_bytes_are_reproduced_or_refused(data: bytes):
    assert check(data) == "refused" or data[:4] in (b"\x03\x02#\x07", b"\x07#\x02\x03")


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=80), st.integers(0, 300), st.booleans())
def test_random_words_after_a_header_are_reproduced_or_refused(
    words: list[int], bound: int, big: bool
):
    order = ">" if big else "<"
    check(struct.pack(f"{order}{5 + len(words)}I", *Header((1, 6), 0, bound).words(), *words))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_damaged_modules_are_reproduced_or_refused(seed: int):
    rng = random.Random(seed)
    data = sample_module(rng, rng.randrange(30)).encode()
    assert check(data) == "wholly"
    for _ in range(4):
        check(mutate(rng, data))
    check(in_lengths(rng, data))


def test_damaged_modules_of_glslang_are_reproduced_or_refused(glsl_modules: dict[str, bytes]):
    rng = random.Random(0)
    for data in glsl_modules.values():
        assert check(data) != "refused"
        for _ in range(5):
            check(mutate(rng, data))


@pytest.mark.parametrize(
    "error",
    [
        SPIRVDecodeError("cause", 7, 3, 19, "OpExecutionMode"),
        SPIRVUnknownError("cause", 7),
        SPIRVAssemblyError("cause", 4, 2),
    ],
)
def test_an_error_can_be_pickled(error: ValueError):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
