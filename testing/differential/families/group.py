"""
Kernels with group-non-uniform operations and rotations, on full subgroups and in branches.

In a branch, the operations apply to the invocations that took the branch. Vulkan guarantees this
for a selection in uniform control flow. Results are read only from active invocations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import EXACT, Legal
from xdsl_spirv.testing.differential.types import BOOL, FLOATS, I32, INTEGERS, Array, Type

OPERATIONS = 7
BALLOT = Type("i32", 4)
INTEGER_SUMS = ("IAdd", "IMul", "SMin", "SMax", "UMin", "UMax", "BitwiseAnd", "BitwiseOr",
                "BitwiseXor")  # fmt: skip
FLOAT_SUMS = ("FAdd", "FMul", "FMin", "FMax")
BOOLEAN_SUMS = ("LogicalAnd", "LogicalOr", "LogicalXor")
GROUP_OPERATIONS = ("Reduce", "InclusiveScan", "ExclusiveScan", "ClusteredReduce")


def _type(k: Kernel, scalars: tuple[str, ...]) -> Type:
    return Type(str(k.rng.choice(scalars)), int(k.rng.choice([1, 1, 2, 3, 4])))


def group_operations(k: Kernel) -> None:
    """Fills the kernel with random operations of all kinds."""
    for _ in range(OPERATIONS):
        k.draw(lambda: k.rng.choice(np.array(_KINDS, dtype=object))(k))


def _boolean(k: Kernel) -> str:
    value, _ = k.input(I32, k.rng.integers(0, 2, (k.invocations, 1)))
    return k.op(f"spirv.INotEqual {value}, %zero : i32")


def _vote(k: Kernel) -> None:
    name = str(k.rng.choice(["All", "Any"]))
    value = k.op(f"spirv.GroupNonUniform{name} <Subgroup> {_boolean(k)} : i1")
    k.output(value, BOOL, name)
    type = _type(k, INTEGERS)
    # The values of every second subgroup are uniform.
    values = k.rng.integers(0, 100, (k.invocations, type.count))
    rows = np.arange(k.invocations) // k.machine.subgroup
    values = np.where((rows % 2 == 0)[:, None], values[rows * k.machine.subgroup], values)
    equal = k.op(
        f"spirv.GroupNonUniformAllEqual <Subgroup> {k.input(type, values)[0]} : {type}, i1"
    )
    k.output(equal, BOOL, f"AllEqual : {type}")
    k.output(k.op("spirv.GroupNonUniformElect <Subgroup> : i1"), BOOL, "Elect")


def _ballot(k: Kernel) -> None:
    ballot = k.op(f"spirv.GroupNonUniformBallot <Subgroup> {_boolean(k)} : {BALLOT}")
    k.output(ballot, BALLOT, "Ballot")
    operation = str(k.rng.choice(GROUP_OPERATIONS[:3]))
    count = k.op(
        f"spirv.GroupNonUniformBallotBitCount <Subgroup> <{operation}> {ballot} : {BALLOT} -> i32"
    )
    k.output(count, I32, f"BallotBitCount {operation}")
    own = k.op(f"spirv.GroupNonUniformInverseBallot <Subgroup> {ballot} : {BALLOT}, i1")
    k.output(own, BOOL, "InverseBallot")
    index = k.op(
        f"spirv.BitwiseXor %lane, {k.constant(int(k.rng.integers(k.machine.subgroup)))} : i32"
    )
    bit = k.op(
        f"spirv.GroupNonUniformBallotBitExtract <Subgroup> {ballot}, {index} : {BALLOT}, i32"
    )
    k.output(bit, BOOL, "BallotBitExtract")
    # The ballot is never zero, because the result would be undefined.
    true = k.op("spirv.Constant true")
    everyone = k.op(f"spirv.GroupNonUniformBallot <Subgroup> {true} : {BALLOT}")
    full = k.op(f"spirv.BitwiseOr {ballot}, {everyone} : {BALLOT}")
    for name in ("LSB", "MSB"):
        position = k.op(f"spirv.GroupNonUniformBallotFind{name} <Subgroup> {full} : {BALLOT}, i32")
        k.output(position, I32, f"BallotFind{name}")


def _exchange(k: Kernel) -> None:
    type = _type(k, (*INTEGERS, *FLOATS))
    value, _ = k.input(type)
    mask = int(k.rng.integers(k.machine.subgroup))
    name = str(k.rng.choice(["Shuffle", "ShuffleXor", "ShuffleUp", "ShuffleDown", "Broadcast"]))
    index = k.constant(mask)
    if name == "Shuffle":
        moved, _ = k.input(I32, k.rng.integers(0, k.machine.subgroup, (k.invocations, 1)))
        index = moved
    if name in ("ShuffleUp", "ShuffleDown"):
        # Lanes without a source lane use a delta of 0.
        edge = f"spirv.SLessThan %lane, {index} : i32"
        if name == "ShuffleDown":
            last = k.constant(k.machine.subgroup - 1 - mask)
            edge = f"spirv.SGreaterThan %lane, {last} : i32"
        index = k.op(f"spirv.Select {k.op(edge)}, %zero, {index} : i1, i32")
    exchanged = k.op(f"spirv.GroupNonUniform{name} <Subgroup> {value}, {index} : {type}, i32")
    k.output(exchanged, type, f"{name} : {type}")


def _quad(k: Kernel) -> None:
    type = _type(k, (*INTEGERS, *FLOATS))
    value, _ = k.input(type)
    first = k.op(f"spirv.GroupNonUniformBroadcastFirst <Subgroup> {value} : {type}")
    k.output(first, type, f"BroadcastFirst : {type}")
    direction = k.constant(int(k.rng.integers(3)))
    swapped = k.op(f"spirv.GroupNonUniformQuadSwap <Subgroup> {value} {direction} : {type}, i32")
    k.output(swapped, type, f"QuadSwap : {type}")
    index = k.constant(int(k.rng.integers(4)))
    cast = k.op(f"spirv.GroupNonUniformQuadBroadcast <Subgroup> {value}, {index} : {type}, i32")
    k.output(cast, type, f"QuadBroadcast : {type}")


def _arithmetic(k: Kernel) -> None:
    names = (*INTEGER_SUMS, *FLOAT_SUMS, *BOOLEAN_SUMS)
    _reduce(k, str(k.rng.choice(names)), str(k.rng.choice(GROUP_OPERATIONS)))


def _reduce(k: Kernel, name: str, operation: str) -> None:
    if name in BOOLEAN_SUMS:
        type = BOOL
        value, legal = _boolean(k), EXACT
    elif name in FLOAT_SUMS:
        type = _type(k, FLOATS)
        value, legal = _summable(k, name, type)
    else:
        type = _type(k, INTEGERS)
        value, legal = k.input(type)[0], EXACT
    cluster, kind = "", str(type)
    if operation == "ClusteredReduce":
        size = k.constant(int(2 ** k.rng.integers(0, k.machine.subgroup.bit_length())))
        cluster, kind = f" cluster_size({size})", f"{type}, i32"
    reduced = k.op(
        f"spirv.GroupNonUniform{name} <Subgroup> <{operation}> {value}{cluster} : {kind} -> {type}"
    )
    k.output(reduced, type, f"{name} {operation} : {type}", legal)


def _summable(k: Kernel, name: str, type: Type) -> tuple[str, Legal]:
    """Returns values whose sums and products are exact in any order."""
    shape = (k.invocations, type.count)
    if name == "FMul":
        values: Array = k.rng.choice([-2.0, -1.0, 1.0, 2.0, 0.5], shape)
    elif name == "FAdd":
        values = k.rng.integers(-50, 50, shape).astype(np.float64)
    else:
        values = k.rng.uniform(-8, 8, shape)
    return k.input(type, values)[0], EXACT


_KINDS: list[Callable[[Kernel], None]] = [
    _vote, _ballot, _exchange, _exchange, _quad, _arithmetic, _arithmetic, _arithmetic, _arithmetic,
]  # fmt: skip


def rotations(k: Kernel) -> None:
    """Fills the kernel with SPV_KHR_subgroup_rotate: all kinds of deltas and cluster sizes."""
    for _ in range(OPERATIONS):
        scalars = (*INTEGERS, *FLOATS)
        type = _type(k, scalars)
        boolean = k.rng.random() < 0.12
        value = _boolean(k) if boolean else k.input(type)[0]
        type = BOOL if boolean else type
        delta = k.constant(int(k.rng.integers(0, 2 * k.machine.subgroup)))
        loaded = k.rng.random() < 0.5
        if loaded:
            whole = np.full((k.invocations, 1), k.rng.integers(0, 2 * k.machine.subgroup))
            delta = k.load(k.input(I32, whole)[1], "%zero")
        cluster, kind = "", f"{type}, i32"
        clustered = k.rng.random() < 0.6
        if clustered:
            size = k.constant(int(2 ** k.rng.integers(0, k.machine.subgroup.bit_length())))
            cluster, kind = f", cluster_size({size})", f"{type}, i32, i32"
        operands = f"{value}, {delta}{cluster}"
        rotated = k.op(f"spirv.GroupNonUniformRotateKHR <Subgroup> {operands} : {kind} -> {type}")
        what = f"rotate : {type}{', clustered' * clustered}{', loaded delta' * loaded}"
        k.output(rotated, type, what)


def in_branches(k: Kernel) -> None:
    """Fills the kernel with reductions, scans and ballots in branches."""
    for _ in range(4):
        type = Type(str(k.rng.choice(["i32", "i32", "i64", "i16"])))
        value, _ = k.input(type)
        chosen = _boolean(k)
        name = str(k.rng.choice(INTEGER_SUMS))
        operation = str(k.rng.choice(GROUP_OPERATIONS[:3]))
        other = str(k.rng.choice(["BroadcastFirst", "Reduce"]))
        result, x, y, merged = (k.name() for _ in range(4))
        if other == "Reduce":
            second = (
                f"{y} = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> {value} : {type} -> {type}"
            )
        else:
            second = f"{y} = spirv.GroupNonUniformBroadcastFirst <Subgroup> {value} : {type}"
        number = result[1:]
        k.block(
            result,
            f"""{result} = spirv.mlir.selection -> {type} {{
              spirv.BranchConditional {chosen}, ^then{number}, ^else{number}
            ^then{number}:
              {x} = spirv.GroupNonUniform{name} <Subgroup> <{operation}> {value} : {type} -> {type}
              spirv.Branch ^merge{number}({x} : {type})
            ^else{number}:
              {second}
              spirv.Branch ^merge{number}({y} : {type})
            ^merge{number}({merged}: {type}):
              spirv.mlir.merge {merged} : {type}
            }}""",
        )
        k.output(result, type, f"{name} {operation} in a branch, {other} in the other : {type}")
