"""
SPV_KHR_bfloat16: conversions of every bit pattern, dot products, and moves of values.

A device rounds to bfloat16 to nearest even or toward zero (BF-07). `running.choices` returns the
results of both. Values converted through binary32 may be flushed to zero.

lavapipe has no bfloat16. There, this family compares a module with the result of a lowering pass.
Buffers contain bit patterns. A bfloat16 result is compared by its bits if it cannot be NaN,
otherwise as binary32.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import Legal
from xdsl_spirv.testing.differential.types import Array, Type

ROUNDS = 5
EDGES = (0x0000, 0x8000, 0x0001, 0x007F, 0x0080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF)
FINITE = (0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF80)
TINY = 2.0**-126
TIES = (0x3F808000, 0x3F818000, 0x7F7F8000, 0x7F7F7FFF, 0x00008000, 0x80008001, 0x3F80FFFF)


def bfloat16(k: Kernel) -> None:
    """Fills the kernel with random conversions, moves and dot products."""
    for _ in range(ROUNDS):
        ways = [_to_float, _from_float, _dot, _through_memory, _through_loop, _through_function]
        if not (k.machine.settled or k.machine.bfloat16_dot):
            ways.remove(_dot)
        ways[int(k.rng.integers(len(ways)))](k, int(k.rng.integers(1, 5)))


def _name(count: int) -> str:
    return "bf16" if count == 1 else f"vector<{count}xbf16>"


def _patterns(k: Kernel, count: int, finite: bool = False) -> Array:
    """
    Returns random bit patterns for vectors of `count` components. In buffers, a vector of three has
    a fourth component as padding.
    """
    shape = (k.invocations, 4 if count == 3 else count)
    plain = k.rng.integers(0, 1 << 16, shape, np.uint16)
    if finite:
        sign, exponent = plain & 0x8000, 0x3F00 + (plain >> 6 & 0x0180)
        plain = sign | exponent | plain & 0x7F
    chosen = k.rng.choice(np.array(FINITE if finite else EDGES, np.uint16), shape)
    return np.where(k.rng.random(shape) < 0.2, chosen, plain).astype(np.uint16)


def _input(k: Kernel, count: int, finite: bool = False) -> str:
    bits = _patterns(k, count, finite).view(np.int16)
    return k.load(k.buffer(_name(count), bits, bits.shape[1]))


def _output(k: Kernel, value: str, count: int, what: str) -> None:
    slots = 4 if count == 3 else count
    number = k.buffer(_name(count), np.zeros((k.invocations, slots), np.int16), slots)
    k.do(f'spirv.Store "StorageBuffer" {k.pointer(number)}, {value} : {_name(count)}')
    k.result(number, what)


def _as_float(k: Kernel, value: str, count: int, what: str, legal: Legal | None = None) -> None:
    """Adds an output to the kernel. It is compared as binary32, so that all NaNs are equal."""
    wide = Type("f32", count)
    value = k.op(f"spirv.FConvert {value} : {_name(count)} to {wide}")
    k.output(value, wide, what, legal or Legal())


def _to_float(k: Kernel, count: int) -> None:
    scalar = str(k.rng.choice(["f32", "f16", "f64", "i32"]))
    type = Type(scalar, count)
    value = _input(k, count, finite=scalar == "i32")
    name = "ConvertFToS" if scalar == "i32" else "FConvert"
    result = k.op(f"spirv.{name} {value} : {_name(count)} to {type}")
    k.output(result, type, f"{name} : {_name(count)} to {type}", _legal_flushed(type))


def _legal_flushed(type: Type) -> Legal:
    """
    Accepts 0 for a subnormal binary32 number, because conversions pass through binary32 (BF-06).
    """
    if type.scalar != "f64":
        return Legal()
    return Legal(lambda r: np.where(np.abs(r) < TINY, TINY, 0.0), "exact apart from subnormals")


def _from_float(k: Kernel, count: int) -> None:
    scalar = str(k.rng.choice(["f32", "f32", "f16", "f64", "i32"]))
    type = Type(scalar, count)
    if scalar == "f32":
        bits = k.rng.integers(0, 1 << 32, (k.invocations, count), np.uint32)
        halfway = k.rng.choice(np.array(TIES, np.uint32), bits.shape)
        values = np.where(k.rng.random(bits.shape) < 0.3, halfway, bits).view(np.float32)
        value, _ = k.input(type, values)
    else:
        value, _ = k.input(type)
    name = {"i32": "ConvertSToF"}.get(scalar, "FConvert")
    result = k.op(f"spirv.{name} {value} : {type} to {_name(count)}")
    _as_float(k, result, count, f"{name} : {type} to {_name(count)}")


def _dot(k: Kernel, count: int) -> None:
    count = max(count, 2)
    a, b = _input(k, count, finite=True), _input(k, count, finite=True)
    result = k.op(f"spirv.Dot {a}, {b} : {_name(count)} -> bf16")
    _output(k, result, 1, f"Dot : {_name(count)}")


def _through_memory(k: Kernel, count: int) -> None:
    type = _name(count)
    value, other = _input(k, count), _input(k, count)
    array = f"!spirv.array<3 x {type}>"
    pointer, part = f"!spirv.ptr<{array}, Function>", f"!spirv.ptr<{type}, Function>"
    variable = k.op(f"spirv.Variable : {pointer}", effect=True)
    index = k.constant(int(k.rng.integers(3)))
    at = k.op(f"spirv.AccessChain {variable}[{index}] : {pointer}, i32 -> {part}")
    k.do(f'spirv.Store "Function" {at}, {value} : {type}')
    loaded = k.op(f'spirv.Load "Function" {at} : {type}', effect=True)
    splat = "dense<1.5>" if count > 1 else "1.5"
    constant = k.op(f"spirv.Constant {splat} : {type}")
    odd = k.op("spirv.BitwiseAnd %id, %one : i32")
    condition = k.op(f"spirv.IEqual {odd}, %zero : i32")
    chosen = k.op(f"spirv.Select {condition}, {loaded}, {constant} : i1, {type}")
    if count > 1:
        piece = k.op(f"spirv.CompositeExtract {other}[1 : i32] : {type}")
        chosen = k.op(f"spirv.CompositeInsert {piece}, {chosen}[0 : i32] : bf16 into {type}")
    _output(k, chosen, count, f"moves : {type}")


def _through_loop(k: Kernel, count: int) -> None:
    """Adds a loop that carries a bfloat16. Each iteration adds in binary32 and rounds the sum."""
    type, wide = _name(count), Type("f32", count)
    start, step = _input(k, count, finite=True), _input(k, count, finite=True)
    rounds = int(k.rng.integers(1, 6))
    result, end = k.name(), k.constant(rounds)
    k.block(
        result,
        f"""{result} = spirv.mlir.loop -> {type} {{
          spirv.Branch ^header(%zero, {start} : i32, {type})
        ^header(%i: i32, %acc: {type}):
          %more = spirv.SLessThan %i, {end} : i32
          spirv.BranchConditional %more, ^body, ^merge
        ^body:
          %a = spirv.FConvert %acc : {type} to {wide}
          %b = spirv.FConvert {step} : {type} to {wide}
          %s = spirv.FAdd %a, %b : {wide}
          %next = spirv.FConvert %s : {wide} to {type}
          spirv.Branch ^continue
        ^continue:
          %j = spirv.IAdd %i, %one : i32
          spirv.Branch ^header(%j, %next : i32, {type})
        ^merge:
          spirv.mlir.merge %acc : {type}
        }}""",
    )
    what = f"a loop's sum : {type}"
    if k.machine.settled:
        _output(k, result, count, what)
    else:
        # Each addend and the sum may be flushed.
        legal = Legal(lambda r: (rounds + 1) * TINY + 0 * r, "exact apart from subnormals")
        _as_float(k, result, count, what, legal)


def _through_function(k: Kernel, count: int) -> None:
    type = _name(count)
    struct = f"!spirv.struct<({type}, i32)>"
    function = f"swap{len(k.functions)}"
    k.functions.append(
        f"""spirv.func @{function}(%s: {struct}, %x: {type}) -> {struct} "None" {{
              %r = spirv.CompositeInsert %x, %s[0 : i32] : {type} into {struct}
              spirv.ReturnValue %r : {struct}
            }}"""
    )
    first, second = _input(k, count), _input(k, count)
    pair = k.op(f"spirv.CompositeConstruct {first}, %id : ({type}, i32) -> {struct}")
    called = k.op(
        f"spirv.FunctionCall @{function}({pair}, {second}) : ({struct}, {type}) -> {struct}"
    )
    _output(k, k.op(f"spirv.CompositeExtract {called}[0 : i32] : {struct}"), count, "a struct")
