"""
Time and memory of all readers are bounded for any input.

Time is measured in runs of a loop of about a twentieth of a second, so that a slow or busy machine
slows both. Memory is Python's peak allocation divided by the input's size.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest
from xdsl.dialects import test as anything
from xdsl.dialects.builtin import i32
from xdsl.ir import Block

from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.raw import binary
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.testing.hostile import (
    BEGIN,
    END,
    ENTRY,
    FIRST,
    HOSTILE,
    SIZE,
    Maker,
    a_chain_of_sums,
    a_group_for_all,
    a_long_file,
    a_long_name,
    a_switch_of_many_cases,
    backward_branches,
    build,
    calls_of_calls,
    errors_with_a_long_name,
    every_opcode,
    few_structs_of_two,
    loops_in_a_row,
    many_entry_points,
    many_functions,
    many_phis,
    many_types,
    many_variables,
    nested_selections,
    nothing_but_nops,
    of,
    one_name_for_all,
    selections_in_a_row,
    unknown_opcodes,
)
from xdsl_spirv.upstream.collection import without_collection

UNITS = 40
"""Time limit for a reader of 100 kB, as a multiple of the time of `unit` (about 50 ms)."""


def text(data: bytes) -> object:
    return disassemble(binary.decode(data), tolerant=True)


def dialect(data: bytes) -> object:
    try:
        return decode(data)
    except SPIRVDecodeError as error:
        return error.cause


def validator(data: bytes) -> object:
    try:
        return validate(data, "vulkan1.3")
    except SPIRVDecodeError as error:
        return error.cause


Reader = Callable[[bytes], object]
MEMORY: dict[Reader, int] = {text: 50, dialect: 160, validator: 100}
"""
Limit of peak memory divided by the input's size.

An xDSL operation takes at least 400 bytes, and a validator's instruction takes 170. The shortest
instructions take 4 bytes in the input. With 20 bytes per instruction, as in kernels, the quotient
is about 50. Python 3.13 takes 5 % more than 3.11.
"""

# Inputs that once took quadratic time or more, or that have the most objects for their size.
WORST: dict[Reader, tuple[Maker, ...]] = {
    text: (a_long_name, one_name_for_all),
    dialect: (
        a_long_file,
        a_switch_of_many_cases,
        backward_branches,
        calls_of_calls,
        loops_in_a_row,
        many_entry_points,
        many_phis,
        many_variables,
        nested_selections,
    ),
    validator: (a_group_for_all, few_structs_of_two, many_entry_points),
}
LARGEST: dict[Reader, tuple[Maker, ...]] = {
    text: (nothing_but_nops, unknown_opcodes),
    dialect: (a_long_file, many_functions, many_phis, selections_in_a_row),
    validator: (errors_with_a_long_name, every_opcode, many_functions, many_types),
}


def unit() -> float:
    """Returns the processor seconds of a loop."""
    start, total = time.process_time(), 0
    for k in range(1_000_000):
        total += k & 3
    return time.process_time() - start


def check_time(reader: Reader, maker: Maker) -> None:
    data = build(maker(SIZE))
    assert 0.4 * SIZE < len(data) < 1.4 * SIZE
    reader(build(ENTRY + END))  # Objects that are created once exist now.
    before = unit()
    # A garbage collection would also examine objects of other tests.
    with without_collection():
        start = time.process_time()
        assert reader(data) is not None
        taken = time.process_time() - start
    assert taken < UNITS * (before + unit()) / 2, f"{taken:.1f} s"


def peak(reader: Reader, data: bytes) -> float:
    """Returns peak memory divided by the input's size."""
    reader(data)
    tracemalloc.start()
    kept = reader(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return most / len(data)


@pytest.mark.parametrize(
    ("reader", "maker"),
    [(r, m) for r, makers in WORST.items() for m in makers],
    ids=lambda f: f.__name__,
)
def test_time_is_bounded(reader: Reader, maker: Maker):
    check_time(reader, maker)


@pytest.mark.long
@pytest.mark.parametrize("maker", HOSTILE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reader", MEMORY, ids=lambda f: f.__name__)
def test_time_of_all_is_bounded(reader: Reader, maker: Maker):
    check_time(reader, maker)


@pytest.mark.parametrize(
    ("reader", "maker"),
    [(r, m) for r, makers in LARGEST.items() for m in makers],
    ids=lambda f: f.__name__,
)
def test_memory_is_bounded(reader: Reader, maker: Maker):
    # The printer's window is a few thousand instructions.
    size = SIZE if reader is text else SIZE // 5
    assert peak(reader, build(maker(size))) < MEMORY[reader]


@pytest.mark.long
@pytest.mark.parametrize("maker", HOSTILE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reader", MEMORY, ids=lambda f: f.__name__)
def test_memory_of_all_is_bounded(reader: Reader, maker: Maker):
    assert peak(reader, build(maker(SIZE))) < MEMORY[reader]


def held(make: Callable[[], object]) -> int:
    """Returns the memory in bytes that a second call of `make` allocates and keeps."""
    kept = make()
    tracemalloc.start()
    kept = make()
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return now


@pytest.mark.parametrize("reader", [dialect, validator], ids=lambda f: f.__name__)
def test_memory_of_sums_is_fifty_times_the_input(reader: Reader):
    data = build(a_chain_of_sums(SIZE // 5))
    assert held(lambda: reader(data)) < 50 * len(data)


def test_an_operation_takes_little_more_than_xdsl_needs():
    data = build(a_chain_of_sums(SIZE // 5))
    count = sum(row.name == "OpIAdd" for row in binary.decode(data))

    def chain() -> Block:
        block = Block([anything.TestOp.create(result_types=[i32])])
        for _ in range(count):
            operands = [block.ops.last.results[0]] * 2 if block.ops.last else []
            block.add_op(anything.TestOp.create(operands=operands, result_types=[i32]))
        return block

    assert held(lambda: dialect(data)) < 1.25 * held(chain)


def test_groups_have_at_most_the_limit_of_decorations():
    """Nested groups double the decorations with every line."""
    notes = [of("OpDecorate", 100, 44, k) for k in range(10)]
    groups = [of("OpDecorationGroup", 100 + k) for k in range(40)]
    doubled = [of("OpGroupDecorate", 100 + k, 101 + k, 101 + k) for k in range(39)]
    data = build([*BEGIN[:2], *notes, *groups, *doubled, *BEGIN[2:], of("OpLabel", FIRST), *END])
    assert "decoration groups expand to more than 100000 decorations" in str(validator(data))
    assert dialect(data) is not None


def test_a_switch_has_at_most_the_limit_of_values():
    """Cases with a common target repeat their phi values."""
    assert "above the limit of 20000 plus the module" in str(dialect(build(many_phis(SIZE))))
    assert isinstance(dialect(build(many_phis(SIZE // 50))), ModuleOp)


def test_a_finding_shortens_a_long_name():
    found = validate(build(errors_with_a_long_name(SIZE)), "vulkan1.3")
    assert any("xxx...xxx" in str(finding) for finding in found)
    assert max(len(str(finding)) for finding in found) < 2000
