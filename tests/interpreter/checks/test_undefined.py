"""Undefined values are reported with their cause when they affect a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter.checks import Allowed, Checks
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

STORE = "spirv.Store"
I32 = np.int32


def out(kernel: Kernel, value: str, element: str = "i32") -> Kernel:
    """Adds a buffer, and code that stores a value of each invocation to the buffer."""
    dtypes: dict[str, Any] = {"i32": np.int32, "f32": np.float32, "i8": np.int8}
    buffer = kernel.buffer(element, np.zeros(32, dtypes[element]))
    return kernel.store(buffer, value)


def load(kernel: Kernel, values: Array, element: str) -> str:
    return kernel.load(kernel.buffer(element, values))


@pytest.mark.bug("Workgroup memory read before it is written", rule="UNDEF-01", op=STORE, count=32)
def test_workgroup_memory(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<!spirv.array<64 x f32>, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    part = kernel.op(f"spirv.AccessChain {tile}[%id] : {type}, i32 -> !spirv.ptr<f32, Workgroup>")
    out(kernel, kernel.op(f'spirv.Load "Workgroup" {part} : f32'), "f32")
    finding = find(kernel)
    assert "@tile was read before it was written" in finding.message
    assert "spirv.Load" in finding.notes[0]


@pytest.mark.bug(
    "a struct with one member in the Workgroup memory of the second workgroup",
    rule="UNDEF-01", op=STORE, first=0, count=4,
)  # fmt: skip
def test_workgroup_struct(kernel: Kernel, find: Find) -> None:
    struct = "!spirv.struct<(vector<2xi32>)>"
    type = f"!spirv.ptr<!spirv.array<32 x {struct}>, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    part = kernel.op(
        f"spirv.AccessChain {tile}[%local] : {type}, i32 -> !spirv.ptr<{struct}, Workgroup>"
    )
    kernel(f"""
      spirv.mlir.selection {{
        %set = spirv.ULessThan %id, {kernel.constant(32)} : i32
        %last = spirv.UGreaterThan %id, {kernel.constant(35)} : i32
        %either = spirv.LogicalOr %set, %last : i1
        spirv.BranchConditional %either, ^yes, ^end
      ^yes:
        %pair = spirv.CompositeConstruct %id, %id : (i32, i32) -> vector<2xi32>
        %struct = spirv.CompositeConstruct %pair : (vector<2xi32>) -> {struct}
        spirv.Store "Workgroup" {part}, %struct : {struct}
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    whole = kernel.op(f'spirv.Load "Workgroup" {part} : {struct}')
    number = kernel.op(f"spirv.CompositeExtract {whole}[0 : i32, 1 : i32] : {struct}")
    result = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel.store(result, number)
    find(kernel, (2, 1, 1))


def test_cause_among_many(kernel: Kernel) -> None:
    amount = kernel.op(f"spirv.BitwiseAnd %id, {kernel.constant(7)} : i32")
    shifted = "%id"
    for _ in range(300):
        shifted = kernel.op(f"spirv.ShiftLeftLogical {shifted}, {amount} : i32, i32")
    out(kernel, shifted)
    variable = kernel.op("spirv.Variable : !spirv.ptr<i32, Function>")
    out(kernel, kernel.op(f'spirv.Load "Function" {variable} : i32'))
    checks = Checks(undefined=True)
    kernel.run(checks=checks)
    assert [finding.rule for finding in checks.report.findings] == ["UNDEF-01"]


@pytest.mark.bug("a Function variable read before it is set", rule="UNDEF-01", op=STORE, count=32)
def test_function_variable(kernel: Kernel, find: Find) -> None:
    variable = kernel.op("spirv.Variable : !spirv.ptr<i32, Function>")
    out(kernel, kernel.op(f'spirv.Load "Function" {variable} : i32'))
    find(kernel)


@pytest.mark.bug(
    "a Function variable set in some invocations only", rule="UNDEF-01", op=STORE, first=5, count=27
)
def test_half_set_variable(kernel: Kernel, find: Find) -> None:
    variable = kernel.op("spirv.Variable : !spirv.ptr<i32, Function>")
    kernel(f"""
      spirv.mlir.selection {{
        %low = spirv.ULessThan %lane, {kernel.constant(5)} : i32
        spirv.BranchConditional %low, ^yes, ^end
      ^yes:
        spirv.Store "Function" {variable}, %zero : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    out(kernel, kernel.op(f'spirv.Load "Function" {variable} : i32'))
    find(kernel)


@pytest.mark.bug(
    "an array's element read before it is set", rule="UNDEF-01", op=STORE, first=4, count=28
)
def test_array_element(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<!spirv.array<8 x i32>, Function>"
    array = kernel.op(f"spirv.Variable : {type}")
    part = "!spirv.ptr<i32, Function>"
    for number in range(4):
        index = kernel.constant(number)
        element = kernel.op(f"spirv.AccessChain {array}[{index}] : {type}, i32 -> {part}")
        kernel(f'spirv.Store "Function" {element}, %id : i32')
    index = kernel.op(f"spirv.BitwiseAnd %lane, {kernel.constant(7)} : i32")
    least = kernel.op(f"spirv.GL.UMin %lane, {kernel.constant(7)} : i32")
    element = kernel.op(f"spirv.AccessChain {array}[{least}] : {type}, i32 -> {part}")
    del index
    out(kernel, kernel.op(f'spirv.Load "Function" {element} : i32'))
    find(kernel)


@pytest.mark.bug("a Private variable read before it is set", rule="UNDEF-01", op=STORE, count=32)
def test_private_variable(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<i32, Private>"
    kernel.globals.append(f"spirv.GlobalVariable @private : {type}")
    pointer = kernel.op(f"spirv.mlir.addressof @private : {type}")
    out(kernel, kernel.op(f'spirv.Load "Private" {pointer} : i32'))
    find(kernel)


@pytest.mark.bug("OpUndef stored", rule="UNDEF-02", op=STORE, count=32)
def test_undef(kernel: Kernel, find: Find) -> None:
    undefined = kernel.op("spirv.Undef : i32")
    out(kernel, kernel.op(f"spirv.IMul {undefined}, %zero : i32"))
    find(kernel)


@pytest.mark.bug("a shuffled vector's undefined component", rule="UNDEF-02", op=STORE, count=32)
def test_shuffled_component(kernel: Kernel, find: Find) -> None:
    vector = kernel.op("spirv.CompositeConstruct %id, %lane : (i32, i32) -> vector<2xi32>")
    shuffled = kernel.op(
        f"spirv.VectorShuffle [0 : i32, -1 : i32] {vector}, {vector} "
        ": vector<2xi32>, vector<2xi32> -> vector<2xi32>"
    )
    out(kernel, kernel.op(f"spirv.CompositeExtract {shuffled}[1 : i32] : vector<2xi32>"))
    find(kernel)


@pytest.mark.bug("a shift by the width", rule="UNDEF-03", op=STORE, first=31, count=1)
def test_shift(kernel: Kernel, find: Find) -> None:
    amount = kernel.op("spirv.IAdd %lane, %one : i32")
    out(kernel, kernel.op(f"spirv.ShiftLeftLogical %one, {amount} : i32, i32"))
    finding = find(kernel)
    assert "operand 2: 32" in finding.notes


@pytest.mark.bug("a division by zero", rule="UNDEF-04", op=STORE, first=0, count=1)
def test_division(kernel: Kernel, find: Find) -> None:
    out(kernel, kernel.op("spirv.UDiv %one, %lane : i32"))
    find(kernel)


@pytest.mark.bug("INT_MIN divided by -1", rule="UNDEF-05", op=STORE, first=1, count=1)
def test_overflowing_division(kernel: Kernel, find: Find) -> None:
    values = np.full(32, 7, I32)
    values[1] = -(1 << 31)
    value = load(kernel, values, "i32")
    out(kernel, kernel.op(f"spirv.SDiv {value}, {kernel.constant(-1)} : i32"))
    find(kernel)


@pytest.mark.bug("a remainder of a negative number", rule="UNDEF-13", op=STORE, first=1, count=2)
def test_negative_remainder(kernel: Kernel, find: Find) -> None:
    values, divisors = np.full(32, 7, I32), np.full(32, 3, I32)
    values[1], divisors[2] = -7, -3
    operands = f"{load(kernel, values, 'i32')}, {load(kernel, divisors, 'i32')}"
    out(kernel, kernel.op(f"spirv.SRem {operands} : i32"))
    find(kernel)


@pytest.mark.bug("NaN converted to an integer", rule="UNDEF-06", op=STORE, first=3, count=1)
def test_nan_to_integer(kernel: Kernel, find: Find) -> None:
    values = np.zeros(32, np.float32)
    values[3] = np.nan
    out(kernel, kernel.op(f"spirv.ConvertFToS {load(kernel, values, 'f32')} : f32 to i32"))
    find(kernel)


@pytest.mark.bug("256.0 converted to 8 bits", rule="UNDEF-06", op=STORE, first=9, count=1)
def test_float_to_byte(kernel: Kernel, find: Find) -> None:
    values = np.full(32, 255.5, np.float32)
    values[9] = 256
    out(kernel, kernel.op(f"spirv.ConvertFToU {load(kernel, values, 'f32')} : f32 to i8"), "i8")
    find(kernel)


@pytest.mark.bug("a shuffle from an inactive invocation", rule="UNDEF-08", op=STORE, first=4)
def test_shuffle_of_inactive(kernel: Kernel, find: Find) -> None:
    buffer = kernel.buffer("i32", np.zeros(32, I32))
    pointer = kernel.pointer(buffer)
    kernel(f"""
      spirv.mlir.selection {{
        %low = spirv.ULessThan %lane, {kernel.constant(5)} : i32
        spirv.BranchConditional %low, ^yes, ^end
      ^yes:
        %v = spirv.GroupNonUniformShuffleDown <Subgroup> %id, %one : i32, i32
        spirv.Store "StorageBuffer" {pointer}, %v : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    find(kernel)


@pytest.mark.bug(
    "a value read outside a buffer is stored", rule="UNDEF-07", op=STORE, first=20, count=12
)
def test_read_outside(kernel: Kernel, find: Find) -> None:
    allow = (Allowed(rule="BOUNDS-01"),)
    out(kernel, load(kernel, np.zeros(20, I32), "i32"))
    find(kernel, checks=Checks.all(allow=allow))


DOMAINS = [
    ("spirv.GL.Sqrt {} : f32", -1.0),
    ("spirv.GL.Log {} : f32", 0.0),
    ("spirv.GL.Asin {} : f32", 1.5),
    ("spirv.GL.InverseSqrt {} : f32", 0.0),
]


@pytest.mark.bug("sqrt(-1), log(0), asin(1.5), ...", rule="UNDEF-09", op=STORE, first=2, count=1)
@pytest.mark.parametrize(("text", "bad"), DOMAINS)
def test_domains(kernel: Kernel, find: Find, text: str, bad: float) -> None:
    values = np.full(32, 0.5, np.float32)
    values[2] = bad
    out(kernel, kernel.op(text.format(load(kernel, values, "f32"))), "f32")
    find(kernel)


@pytest.mark.bug("pow of a negative base", rule="UNDEF-09", op=STORE, first=6, count=1)
def test_pow(kernel: Kernel, find: Find) -> None:
    values = np.full(32, 0.5, np.float32)
    values[6] = -0.5
    value = load(kernel, values, "f32")
    out(kernel, kernel.op(f"spirv.GL.Pow {value}, {value} : f32"), "f32")
    find(kernel)


@pytest.mark.bug("the direction of a zero vector", rule="UNDEF-09", op=STORE, first=0, count=1)
def test_normalize(kernel: Kernel, find: Find) -> None:
    value = kernel.op("spirv.ConvertUToF %lane : i32 to f32")
    vector = kernel.op(f"spirv.CompositeConstruct {value}, {value} : (f32, f32) -> vector<2xf32>")
    direction = kernel.op(f"spirv.GL.Normalize {vector} : vector<2xf32>")
    out(kernel, kernel.op(f"spirv.CompositeExtract {direction}[0 : i32] : vector<2xf32>"), "f32")
    find(kernel)


@pytest.mark.bug("clamp with its limits exchanged", rule="UNDEF-09", op=STORE, count=32)
def test_clamp(kernel: Kernel, find: Find) -> None:
    low, high = kernel.constant(9), kernel.constant(3)
    out(kernel, kernel.op(f"spirv.GL.SClamp %id, {low}, {high} : i32"))
    find(kernel)


@pytest.mark.bug("a bit field beyond its operand", rule="UNDEF-10", op=STORE, first=25, count=7)
def test_bit_field(kernel: Kernel, find: Find) -> None:
    count = kernel.constant(8)
    out(kernel, kernel.op(f"spirv.BitFieldUExtract %id, %lane, {count} : i32, i32, i32"))
    find(kernel)


@pytest.mark.bug("overflow that NoSignedWrap rules out", rule="UNDEF-11", op=STORE, first=1)
def test_no_signed_wrap(kernel: Kernel, find: Find) -> None:
    most = kernel.constant((1 << 31) - 1)
    out(kernel, kernel.op(f"spirv.IAdd {most}, %lane {{no_signed_wrap}} : i32"))
    find(kernel)


@pytest.mark.bug("a branch on an undefined value", rule="UNDEF-04", op="spirv.BranchConditional")
def test_branch(kernel: Kernel, find: Find) -> None:
    buffer = kernel.buffer("i32", np.zeros(32, I32))
    pointer = kernel.pointer(buffer)
    quotient = kernel.op("spirv.UDiv %one, %lane : i32")
    kernel(f"""
      spirv.mlir.selection {{
        %odd = spirv.IEqual {quotient}, %one : i32
        spirv.BranchConditional %odd, ^yes, ^end
      ^yes:
        spirv.Store "StorageBuffer" {pointer}, %one : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    find(kernel)


@pytest.mark.bug("a loop's undefined bound", rule="UNDEF-02", op="spirv.BranchConditional")
def test_loop_bound(kernel: Kernel, find: Find) -> None:
    bound = kernel.op("spirv.Undef : i32")
    kernel(f"""
      spirv.mlir.loop {{
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %more = spirv.SLessThan %i, {bound} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }}""")
    find(kernel)


@pytest.mark.bug("an undefined index", rule="UNDEF-01", op="spirv.Load", count=32)
def test_address(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("i32", np.zeros(32, I32))
    variable = kernel.op("spirv.Variable : !spirv.ptr<i32, Function>")
    index = kernel.op(f'spirv.Load "Function" {variable} : i32')
    kernel.load(source, index)
    finding = find(kernel)
    assert "the address is undefined" in finding.message


@pytest.mark.bug("an undefined operand of an atomic", rule="UNDEF-02", op="spirv.AtomicIAdd")
def test_atomic(kernel: Kernel, find: Find) -> None:
    buffer = kernel.buffer("i32", np.zeros(32, I32))
    pointer = kernel.pointer(buffer)
    undefined = kernel.op("spirv.Undef : i32")
    kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {pointer}, {undefined} "
        ": !spirv.ptr<i32, StorageBuffer>"
    )
    find(kernel)


@pytest.mark.bug("an undefined value returned from a call", rule="UNDEF-03", op=STORE, count=32)
def test_call(kernel: Kernel, find: Find) -> None:
    kernel.functions.append("""
      spirv.func @shifted(%n: i32) -> i32 "None" {
        %one = spirv.Constant 1 : i32
        %shift = spirv.ShiftLeftLogical %one, %n : i32, i32
        spirv.ReturnValue %shift : i32
      }""")
    wide = kernel.op(f"spirv.IAdd %lane, {kernel.constant(32)} : i32")
    out(kernel, kernel.op(f"spirv.FunctionCall @shifted({wide}) : (i32) -> i32"))
    find(kernel)


@pytest.mark.bug(
    "an undefined value passed through Workgroup memory", rule="UNDEF-04", op=STORE, first=0
)
def test_through_memory(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<!spirv.array<32 x i32>, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    part = kernel.op(f"spirv.AccessChain {tile}[%id] : {type}, i32 -> !spirv.ptr<i32, Workgroup>")
    kernel(f'spirv.Store "Workgroup" {part}, {kernel.op("spirv.UDiv %one, %lane : i32")} : i32')
    out(kernel, kernel.op(f'spirv.Load "Workgroup" {part} : i32'))
    find(kernel)


@pytest.mark.bug(
    "an assumption that does not hold",
    rule="UNDEF-12",
    op="spirv.KHR.AssumeTrue",
    first=1,
    count=16,
)
def test_assumption(kernel: Kernel, find: Find) -> None:
    odd = kernel.op("spirv.BitwiseAnd %lane, %one : i32")
    kernel(f"spirv.KHR.AssumeTrue {kernel.op(f'spirv.IEqual {odd}, %zero : i32')}")
    out(kernel, odd)
    find(kernel)


@pytest.mark.bug("poison stored", rule="UNDEF-02", op=STORE, count=32)
def test_poison(kernel: Kernel, find: Find) -> None:
    out(kernel, kernel.op("spirv.KHR.Poison : i32"))
    find(kernel)


def test_unused_undefined_values_are_not_findings(kernel: Kernel, clean: Clean) -> None:
    undefined = kernel.op("spirv.Undef : i32")
    low = kernel.op("spirv.IEqual %lane, %zero : i32")
    quotient = kernel.op("spirv.UDiv %one, %lane : i32")
    chosen = kernel.op(f"spirv.Select {low}, %one, {quotient} : i1, i32")
    vector = kernel.op(
        f"spirv.CompositeConstruct {chosen}, {undefined} : (i32, i32) -> vector<2xi32>"
    )
    false = kernel.op("spirv.Constant false")
    compared = kernel.op(f"spirv.IEqual {undefined}, %one : i32")
    both = kernel.op(f"spirv.LogicalAnd {false}, {compared} : i1")
    first = kernel.op(f"spirv.CompositeExtract {vector}[0 : i32] : vector<2xi32>")
    out(kernel, kernel.op(f"spirv.Select {both}, {undefined}, {first} : i1, i32"))
    clean(kernel)


INITIALIZES = {
    "%old = spirv.AtomicExchange <Workgroup> <Relaxed> {0}, %local : {1}": True,
    "spirv.AtomicStore <Workgroup> <Relaxed> {0}, %local : {1}": True,
    "%old = spirv.AtomicIAdd <Workgroup> <Relaxed> {0}, %local : {1}": False,
    "%old = spirv.AtomicUMax <Workgroup> <Relaxed> {0}, %local : {1}": False,
    "%old = spirv.AtomicAnd <Workgroup> <Relaxed> {0}, %local : {1}": False,
    "%old = spirv.AtomicIIncrement <Workgroup> <Relaxed> {0} : {1}": False,
    "%old = spirv.AtomicCompareExchange <Workgroup> <Relaxed> <Relaxed> {0}, %one, %local : {1}":
        False,
}  # fmt: skip
"""Maps an atomic to True if the atomic defines unwritten memory."""


@pytest.mark.parametrize("atomic", INITIALIZES)
@pytest.mark.parametrize("used", [False, True])
def test_an_exchange_initializes(kernel: Kernel, atomic: str, used: bool) -> None:
    """An exchange defines memory, but its undefined result is reported if used."""
    type, part = "!spirv.ptr<!spirv.array<64 x i32>, Workgroup>", "!spirv.ptr<i32, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    pointer = kernel.op(f"spirv.AccessChain {tile}[%local] : {type}, i32 -> {part}")
    kernel(atomic.format(pointer, part))
    new = kernel.op(f"spirv.AtomicIAdd <Workgroup> <Relaxed> {pointer}, %one : {part}")
    used = used and atomic.startswith("%old")
    kernel.store(out, "%old" if used else new)
    checks = Checks.all()
    kernel.run((1, 1, 1), local=(64, 1, 1), checks=checks)
    found = [f for f in checks.report if f.rule.startswith("UNDEF")]
    assert bool(found) == (used or not INITIALIZES[atomic]), str(checks.report)
