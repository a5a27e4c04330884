"""Group-non-uniform instructions and atomics agree with loops over the invocations."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from operator import add, and_, mul, or_, xor
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

INTEGER = {
    "IAdd": add,
    "IMul": mul,
    "SMin": min,
    "SMax": max,
    "BitwiseAnd": and_,
    "BitwiseOr": or_,
    "BitwiseXor": xor,
    "UMin": lambda a, b: min(a, b, key=lambda x: x % 2**32),
    "UMax": lambda a, b: max(a, b, key=lambda x: x % 2**32),
}


def wrap(value: int) -> int:
    """Returns a signed integer modulo 2^32."""
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("name", list(INTEGER))
@pytest.mark.parametrize(
    "operation", ["Reduce", "InclusiveScan", "ExclusiveScan", "ClusteredReduce"]
)
def test_integer_reductions_and_scans(
    kernel: Kernel, rng: np.random.Generator, name: str, operation: str
) -> None:
    data = rng.integers(-(2**31), 2**31, 32).astype(np.int32)
    source, out = kernel.buffer("i32", data.copy()), kernel.buffer("i32", np.zeros(32, np.int32))
    value = kernel.load(source)
    head = f"spirv.GroupNonUniform{name} <Subgroup> <{operation}> {value}"
    if operation == "ClusteredReduce":
        size = kernel.constant(4)
        result = kernel.op(f"{head} cluster_size({size}) : i32, i32 -> i32")
    else:
        result = kernel.op(f"{head} : i32 -> i32")
    found = kernel.store(out, result).run(subgroup_size=16)[1].tolist()
    function = INTEGER[name]
    for first in (0, 16):
        group, part = data[first : first + 16].tolist(), found[first : first + 16]
        scanned = [wrap(v) for v in accumulate(group, function)]
        if operation == "Reduce":
            assert part == [scanned[-1]] * 16
        elif operation == "InclusiveScan":
            assert part == scanned
        elif operation == "ExclusiveScan":
            assert part[1:] == scanned[:-1]
            assert wrap(function(part[0], group[0])) == group[0], "the identity"
        else:
            fours = [wrap(reduce(function, group[i : i + 4])) for i in range(0, 16, 4)]
            assert part == [four for four in fours for _ in range(4)]


@pytest.mark.parametrize("operation", ["Reduce", "InclusiveScan", "ExclusiveScan"])
def test_reductions_and_scans_of_partitions(kernel: Kernel, operation: str) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    pointer, three = kernel.pointer(out), kernel.constant(3)
    sums = f"spirv.GroupNonUniformIAdd <Subgroup> <Partitioned{operation}NV>"
    kernel(f"""
      spirv.mlir.selection {{
        %kind = spirv.UMod %lane, {three} : i32
        %is = spirv.INotEqual %lane, %one : i32
        spirv.BranchConditional %is, ^yes, ^end
      ^yes:
        %part = spirv.NV.GroupNonUniformPartition %kind : i32 -> vector<4xi32>
        %pair = spirv.CompositeConstruct %lane, %one : (i32, i32) -> vector<2xi32>
        %both = {sums} %pair cluster_size(%part) : vector<2xi32>, vector<4xi32> -> vector<2xi32>
        %sum = spirv.CompositeExtract %both[0 : i32] : vector<2xi32>
        %count = spirv.CompositeExtract %both[1 : i32] : vector<2xi32>
        %hundreds = spirv.IMul %count, {kernel.constant(100)} : i32
        %all = spirv.IAdd %sum, %hundreds : i32
        spirv.Store "StorageBuffer" {pointer}, %all : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    found = kernel.run(subgroup_size=16)[0].tolist()
    for lane in (lane for lane in range(16) if lane != 1):
        part = [i for i in range(16) if i % 3 == lane % 3 and i != 1]
        if operation != "Reduce":
            part = [i for i in part if i < lane + (operation == "InclusiveScan")]
        assert found[lane] == found[16 + lane] == sum(part) + 100 * len(part)


def test_reductions_skip_inactive_lanes(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    pointer = kernel.pointer(out)
    kernel(f"""
      spirv.mlir.selection {{
        %odd = spirv.BitwiseAnd %lane, %one : i32
        %is = spirv.IEqual %odd, %one : i32
        spirv.BranchConditional %is, ^yes, ^end
      ^yes:
        %sum = spirv.GroupNonUniformIAdd <Subgroup> <InclusiveScan> %lane : i32 -> i32
        %elected = spirv.GroupNonUniformElect <Subgroup> : i1
        %first = spirv.GroupNonUniformBroadcastFirst <Subgroup> %lane : i32
        %bit = spirv.Select %elected, {kernel.constant(1000)}, %first : i1, i32
        %all = spirv.IAdd %sum, %bit : i32
        spirv.Store "StorageBuffer" {pointer}, %all : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    found = kernel.run()[0].tolist()
    sums = list(accumulate(range(1, 32, 2)))
    assert found[1::2] == [sums[0] + 1000, *[s + 1 for s in sums[1:]]]
    assert found[::2] == [0] * 16


EXCHANGES = {
    "Shuffle": lambda i: (i * 7 + 3) % 16,
    "ShuffleXor": lambda i: i ^ 5,
    "ShuffleUp": lambda i: i - 2 if i >= 2 else None,
    "ShuffleDown": lambda i: i + 3 if i < 13 else None,
    "Broadcast": lambda i: 9,
    "QuadBroadcast": lambda i: (i & ~3) + 2,
    "QuadSwap": lambda i: i ^ 2,
}


@pytest.mark.parametrize("name", list(EXCHANGES))
def test_exchanges(kernel: Kernel, name: str) -> None:
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    numbers = {"ShuffleXor": 5, "ShuffleUp": 2, "ShuffleDown": 3, "Broadcast": 9,
               "QuadBroadcast": 2, "QuadSwap": 1}  # fmt: skip
    if name == "Shuffle":
        which = kernel.op(f"spirv.IMul %lane, {kernel.constant(7)} : i32")
        which = kernel.op(f"spirv.IAdd {which}, {kernel.constant(3)} : i32")
        which = kernel.op(f"spirv.UMod {which}, {kernel.constant(16)} : i32")
    else:
        which = kernel.constant(numbers[name])
    comma = "" if name == "QuadSwap" else ","
    value = kernel.op(f"spirv.GroupNonUniform{name} <Subgroup> %id{comma} {which} : i32, i32")
    if name in ("ShuffleUp", "ShuffleDown"):
        kernel.intended = {"UNDEF-08"}  # The last lanes of a subgroup have no source lane.
    found = kernel.store(out, value).run((2, 1, 1), (32, 1, 1), 16)[0].tolist()
    for i, value in enumerate(found):
        source = EXCHANGES[name](i % 16)
        assert source is None or value == i // 16 * 16 + source


def test_votes_and_ballots(kernel: Kernel) -> None:
    low = kernel.op(f"spirv.ULessThan %lane, {kernel.constant(3)} : i32")
    ballot = kernel.op(f"spirv.GroupNonUniformBallot <Subgroup> {low} : vector<4xi32>")
    questions = [
        kernel.op(f"spirv.Select {v}, %one, %zero : i1, i32")
        for v in (
            kernel.op(f"spirv.GroupNonUniformAny <Subgroup> {low} : i1"),
            kernel.op(f"spirv.GroupNonUniformAll <Subgroup> {low} : i1"),
            kernel.op("spirv.GroupNonUniformAllEqual <Subgroup> %subgroup : i32, i1"),
            kernel.op("spirv.GroupNonUniformAllEqual <Subgroup> %lane : i32, i1"),
            kernel.op(
                f"spirv.GroupNonUniformInverseBallot <Subgroup> {ballot} : vector<4xi32>, i1"
            ),
        )
    ]
    for name in ("BallotFindLSB", "BallotFindMSB"):
        questions.append(
            kernel.op(f"spirv.GroupNonUniform{name} <Subgroup> {ballot} : vector<4xi32>, i32")
        )
    for operation in ("Reduce", "InclusiveScan", "ExclusiveScan"):
        questions.append(
            kernel.op(
                f"spirv.GroupNonUniformBallotBitCount <Subgroup> <{operation}> {ballot} "
                ": vector<4xi32> -> i32"
            )
        )
    outs = [kernel.buffer("i32", np.zeros(32, np.int32)) for _ in questions]
    for out, question in zip(outs, questions, strict=True):
        kernel.store(out, question)
    found = [array.tolist() for array in kernel.run()]
    low_lanes = [int(i < 3) for i in range(32)]
    counts = list(accumulate(low_lanes))
    expected = [[1] * 32, [0] * 32, [1] * 32, [0] * 32, low_lanes, [0] * 32, [2] * 32, [3] * 32]
    assert found == [*expected, counts, [0, *counts[:-1]]]


ATOMICS = {
    "IAdd": add,
    "ISub": lambda a, b: a - b,
    "And": and_,
    "Or": or_,
    "Xor": xor,
    "SMin": min,
    "SMax": max,
    "Exchange": lambda a, b: b,
    "UMin": INTEGER["UMin"],
    "UMax": INTEGER["UMax"],
}


@pytest.mark.parametrize("name", list(ATOMICS))
@pytest.mark.parametrize("places", [1, 5, 256])
@pytest.mark.parametrize("used", [True, False])
def test_atomics_act_one_after_the_other(
    kernel: Kernel, rng: np.random.Generator, name: str, places: int, used: bool
) -> None:
    memory = rng.integers(-(2**31), 2**31, places).astype(np.int32)
    values = rng.integers(-(2**31), 2**31, 128).astype(np.int32)
    cells, source = kernel.buffer("i32", memory.copy()), kernel.buffer("i32", values.copy())
    out = kernel.buffer("i32", np.zeros(128, np.int32))
    index = kernel.op(f"spirv.UMod %id, {kernel.constant(places)} : i32")
    pointer = kernel.pointer(cells, index)
    old = kernel.op(
        f"spirv.Atomic{name} <Device> <AcquireRelease> {pointer}, {kernel.load(source)} "
        ": !spirv.ptr<i32, StorageBuffer>"
    )
    if used:
        kernel.store(out, old)
    found, _, before = kernel.run((2, 1, 1), (64, 1, 1), 16)
    expected = memory.tolist()
    for i, value in enumerate(values.tolist()):
        cell = i % places
        if used:
            assert before[i] == expected[cell]
        expected[cell] = wrap(ATOMICS[name](expected[cell], value))
    assert found.tolist() == expected


def test_compare_exchange_and_counters_in_workgroup_memory(kernel: Kernel) -> None:
    type = "!spirv.ptr<i32, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @counter : {type}")
    out = kernel.buffer("i32", np.zeros(128, np.int32))
    winners = kernel.buffer("i32", np.zeros(4, np.int32))
    counter = kernel.op(f"spirv.mlir.addressof @counter : {type}")
    kernel(f"""
      spirv.mlir.selection {{
        %first = spirv.IEqual %local, %zero : i32
        spirv.BranchConditional %first, ^yes, ^end
      ^yes:
        spirv.Store "Workgroup" {counter}, %zero ["NonPrivatePointer"] : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    semantics = "AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible"
    kernel(f"spirv.ControlBarrier <Workgroup>, <Workgroup>, <{semantics}>")
    old = kernel.op(f"spirv.AtomicIIncrement <Workgroup> <AcquireRelease> {counter} : {type}")
    kernel.store(out, old)
    slot = kernel.pointer(winners, "%group")
    mine = kernel.op("spirv.IAdd %local, %one : i32")
    kernel.op(
        f"spirv.AtomicCompareExchange <Device> <AcquireRelease> <Acquire> {slot}, {mine}, %zero "
        ": !spirv.ptr<i32, StorageBuffer>"
    )
    found = kernel.run((4, 1, 1), (32, 1, 1), 8)
    assert found[0].reshape(4, 32).tolist() == [list(range(32))] * 4
    assert found[1].tolist() == [1] * 4
