"""Group instructions before SPIR-V 1.3, OpenCL's instructions and DebugPrintf execute correctly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

I32 = np.int32
GENERIC = "!spirv.ptr<i32, Generic>"

REDUCTIONS = {
    "GroupIAdd": np.add,
    "GroupSMin": np.minimum,
    "GroupSMax": np.maximum,
    "KHR.GroupIMul": np.multiply,
    "KHR.GroupBitwiseAnd": np.bitwise_and,
    "KHR.GroupBitwiseOr": np.bitwise_or,
    "KHR.GroupBitwiseXor": np.bitwise_xor,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("operation", ["Reduce", "InclusiveScan"])
@pytest.mark.parametrize("scope", ["Workgroup", "Subgroup"])
def test_older_reductions(
    kernel: Kernel, rng: np.random.Generator, name: str, operation: str, scope: str
) -> None:
    data = rng.integers(-9, 9, 64).astype(I32)
    source, out = kernel.buffer("i32", data), kernel.buffer("i32", np.zeros(64, I32))
    value = kernel.op(f"spirv.{name} <{scope}> <{operation}> {kernel.load(source)} : i32")
    found = kernel.store(out, value).run((1, 1, 1), (64, 1, 1), 16)[out]
    groups = data.reshape(-1, 64 if scope == "Workgroup" else 16)
    scan = REDUCTIONS[name].accumulate(groups, axis=1, dtype=I32)
    expected = np.broadcast_to(scan[:, -1:], scan.shape) if operation == "Reduce" else scan
    assert (found == expected.reshape(-1)).all()


def test_votes_ballots_and_reads(kernel: Kernel, rng: np.random.Generator) -> None:
    data = rng.integers(0, 3, 32).astype(I32)
    source = kernel.buffer("i32", data)
    sixteen = kernel.op(f"spirv.IMul %group, {kernel.constant(16)} : i32")
    at = kernel.op(f"spirv.IAdd {sixteen}, %local : i32")
    value = kernel.load(source, at)
    is_one = kernel.op(f"spirv.IEqual {value}, %one : i32")
    outs: list[tuple[int, Any]] = []

    def keep(result: str, expected: Any) -> None:
        out = kernel.buffer("i32", np.full(32, -7, I32))
        kernel.store(out, result, at)
        outs.append((out, expected))

    def number(name: str, predicate: str = is_one) -> str:
        bit = kernel.op(f"spirv.{name} {predicate} : i1")
        return kernel.op(f"spirv.Select {bit}, %one, %zero : i1, i32")

    ones = data == 1
    quads = ones.reshape(-1, 4)
    keep(number("KHR.SubgroupAny"), ones.reshape(-1, 8).any(1).repeat(8))
    keep(number("KHR.SubgroupAll"), ones.reshape(-1, 8).all(1).repeat(8))
    keep(number("KHR.GroupNonUniformQuadAny"), quads.any(1).repeat(4))
    keep(number("KHR.GroupNonUniformQuadAll"), quads.all(1).repeat(4))
    ballot = kernel.op(f"spirv.KHR.SubgroupBallot {is_one} : vector<4xi32>")
    keep(
        kernel.op(f"spirv.CompositeExtract {ballot}[0 : i32] : vector<4xi32>"),
        (ones.reshape(-1, 8) << np.arange(8)).sum(1).repeat(8),
    )
    first = kernel.op(f"spirv.KHR.SubgroupFirstInvocation {value} : i32")
    keep(first, data[::8].repeat(8))
    third = kernel.op(f"spirv.KHR.SubgroupReadInvocation {value}, {kernel.constant(3)} : i32, i32")
    keep(third, data[3::8].repeat(8))
    same = kernel.op(f"spirv.NV.GroupNonUniformPartition {value} : i32 -> vector<4xi32>")
    rows = data.reshape(-1, 8)
    alike = (rows[:, :, None] == rows[:, None, :]) << np.arange(8)
    keep(
        kernel.op(f"spirv.CompositeExtract {same}[0 : i32] : vector<4xi32>"),
        alike.sum(2).reshape(-1),
    )
    where = kernel.op(
        f"spirv.CompositeConstruct {kernel.constant(3)}, %one : (i32, i32) -> vector<2xi32>"
    )
    keep(
        kernel.op(f"spirv.GroupBroadcast <Workgroup> {value}, {where} : i32, vector<2xi32>"),
        data.reshape(2, 16)[:, 4 + 3].repeat(16),
    )
    kernel.run((2, 1, 1), (4, 4, 1), 8)
    for out, expected in outs:
        assert (kernel.buffers[out][2] == np.asarray(expected)).all(), out


MATHEMATICS = {
    "erf": math.erf, "exp": math.exp, "sqrt": math.sqrt, "tanh": math.tanh, "floor": math.floor,
    "rint": round, "rsqrt": lambda x: 1 / math.sqrt(x), "asinh": math.asinh,
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
}  # fmt: skip


@pytest.mark.parametrize("name", MATHEMATICS)
def test_opencl_mathematics(kernel: Kernel, rng: np.random.Generator, name: str) -> None:
    data = (rng.random(64) * 4).astype(np.float32)
    data[:4] = (0.5, 1.5, 2.5, 3.5)
    source = kernel.buffer("f32", data)
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    kernel.store(out, kernel.op(f"spirv.CL.{name} {kernel.load(source)} : f32"))
    found = kernel.run((2, 1, 1))[out]
    expected = np.array([MATHEMATICS[name](float(x)) for x in data], np.float32)
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected))).all()


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("SatConvertSToU", "i16", "i8"),
        ("SatConvertSToU", "i16", "i32"),
        ("SatConvertUToS", "i16", "i8"),
        ("SatConvertUToS", "i16", "i16"),
        ("SatConvertUToS", "i16", "i32"),
    ],
)
def test_saturating_conversions(kernel: Kernel, name: str, source: str, target: str) -> None:
    bits = np.arange(1 << 16).astype(np.uint16)
    size = int(target[1:]) // 8
    a = kernel.buffer(source, bits.view(np.int16).copy())
    out = kernel.buffer(target, np.zeros(1 << 16, f"i{size}"))
    kernel.store(out, kernel.op(f"spirv.{name} {kernel.load(a)} : {source} to {target}"))
    found = kernel.run((2048, 1, 1))[out]
    to_unsigned = name.endswith("ToU")
    numbers = bits.view(np.int16 if to_unsigned else np.uint16).astype(np.int64)
    limits = np.iinfo(f"u{size}" if to_unsigned else f"i{size}")
    expected = np.clip(numbers, limits.min, limits.max).astype(limits.dtype)
    assert found.tobytes() == expected.tobytes()


def test_floats_of_intel(kernel: Kernel, rng: np.random.Generator) -> None:
    data = rng.integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    data = data[np.isfinite(data) & (np.abs(data) < 1e38)][:2048]
    a = kernel.buffer("f32", data)
    tf32 = kernel.buffer("f32", np.zeros_like(data))
    bits = kernel.buffer("i16", np.zeros(data.size, np.int16))
    back = kernel.buffer("f32", np.zeros_like(data))
    value = kernel.load(a)
    kernel.store(tf32, kernel.op(f"spirv.INTEL.RoundFToTF32 {value} : f32 to f32"))
    half = kernel.op(f"spirv.INTEL.ConvertFToBF16 {value} : f32 to i16")
    kernel.store(bits, half)
    kernel.store(back, kernel.op(f"spirv.INTEL.ConvertBF16ToF {half} : i16 to f32"))
    kernel.run((data.size // 32, 1, 1))
    exponent = np.frexp(data.astype(np.float64))[1]
    unit = 2.0 ** (np.maximum(exponent, -125) - 11)
    assert (kernel.buffers[tf32][2] == np.rint(data / unit) * unit).all()
    short = data.astype(ml_dtypes.bfloat16)
    assert (kernel.buffers[bits][2].view(ml_dtypes.bfloat16) == short).all()
    assert (kernel.buffers[back][2] == short.astype(np.float32)).all()


def test_flags_and_blocks_of_subgroups(kernel: Kernel, rng: np.random.Generator) -> None:
    data = rng.integers(0, 99, 64).astype(I32)
    flag, taken = kernel.buffer("i32", np.zeros(1, I32)), kernel.buffer("i32", np.zeros(32, I32))
    source, target = kernel.buffer("i32", data), kernel.buffer("i32", np.zeros(64, I32))
    pointer = "!spirv.ptr<i32, StorageBuffer>"
    place = kernel.pointer(flag, "%zero")
    set_ = kernel.op(f"spirv.AtomicFlagTestAndSet <Device> <None> {place} : {pointer}")
    kernel.store(taken, kernel.op(f"spirv.Select {set_}, %one, %zero : i1, i32"))
    start = kernel.op(f"spirv.IMul %subgroup, {kernel.constant(32)} : i32")
    origin, to = kernel.pointer(source, start), kernel.pointer(target, start)
    block = kernel.op(f"spirv.INTEL.SubgroupBlockRead {origin} : {pointer} -> vector<2xi32>")
    two = kernel.op(f"spirv.IAdd {block}, {block} : vector<2xi32>")
    kernel(f'"spirv.INTEL.SubgroupBlockWrite"({to}, {two}) : ({pointer}, vector<2xi32>) -> ()')
    kernel.run((1, 1, 1), (32, 1, 1), 16)
    assert sorted(kernel.buffers[taken][2].tolist()) == [0] + [1] * 31
    assert (kernel.buffers[target][2] == 2 * data).all()


def test_generic_pointers_know_their_memory(kernel: Kernel) -> None:
    kernel.globals.append("spirv.GlobalVariable @tile : !spirv.ptr<i32, Workgroup>")
    kernel.intended = None
    out = kernel.buffer("i32", np.zeros(32, I32))
    tile = kernel.op("spirv.mlir.addressof @tile : !spirv.ptr<i32, Workgroup>")
    generic = kernel.op(f"spirv.PtrCastToGeneric {tile} : !spirv.ptr<i32, Workgroup> to {GENERIC}")
    kernel.store(out, kernel.op(f"spirv.GenericPtrMemSemantics {generic} : {GENERIC} -> i32"))
    assert (kernel.run()[out] == 0x100).all()


def test_debug_printf(kernel: Kernel) -> None:
    """Each active invocation prints text, signed and unsigned integers, floats, vectors."""
    kernel.globals.append(r'spirv.RawGlobal @format "OpString"("%u: %d %x %5.2f <%v2f>%%\0A")')
    half = kernel.constant("1.5", "f32")
    pair = kernel.op(f"spirv.CompositeConstruct {half}, {half} : (f32, f32) -> vector<2xf32>")
    minus = kernel.op("spirv.ISub %zero, %id : i32")
    small = kernel.op(f"spirv.ULessThan %id, {kernel.constant(2)} : i32")
    printed = (
        f'spirv.Raw "OpExtInst"(set("NonSemantic.DebugPrintf"), 1, @format, %id, {minus}, '
        f"{minus}, {half}, {pair}) : (i32, i32, i32, f32, vector<2xf32>) -> none"
    )
    kernel(f"""spirv.mlir.selection {{
      spirv.BranchConditional {small}, ^then, ^merge
    ^then:
      %print = {printed}
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }}""")
    lines: list[str] = []
    kernel.intended = None
    kernel.run(print=lines.append)
    assert lines == [
        "0: 0 0  1.50 <1.500000, 1.500000>%\n",
        "1: -1 ffffffff  1.50 <1.500000, 1.500000>%\n",
    ]
