"""
Rules for single operations on values of each invocation: types, text, and legal results.

Operands with undefined results (a zero divisor, a shift by the width or more, a float outside the
integer's range) are corrected by preceding instructions. `chained` rules have exactly one legal
result, which does not depend on the signs of zeros and NaNs. Random programs consist of chained
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import EXACT, MOVED, Legal
from xdsl_spirv.testing.differential.types import BOOL, DTYPES, FLOATS, INTEGERS, Array, Type

Emit: TypeAlias = Callable[[Kernel, Type, Sequence[str]], tuple[str, Type]]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Array]


@dataclass(frozen=True)
class Rule:
    """
    An operation. `emit(kernel, type, operands)` writes it, and returns the result's name and type.
    """

    name: str
    scalars: tuple[str, ...]
    operands: int
    emit: Emit
    legal: Callable[[Type], Legal] = lambda type: EXACT
    counts: tuple[int, ...] = (1, 2, 3, 4)
    draws: tuple[Draw | None, ...] = ()
    """Functions that draw the operands. An operand without a function is drawn from all values."""
    chained: bool = False


RULES: list[Rule] = []


def moved(type: Type) -> Legal:
    """Returns the rule for operations that only move bits: results must be equal."""
    return MOVED


def simple(name: str, result: Callable[[Type], Type] | None = None) -> Emit:
    """
    Returns a function that emits the operation `spirv.NAME`. The type of its result is
    `result(type)`.
    """

    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        written = k.op(f"spirv.{name} {', '.join(values)} : {type}")
        return written, type if result is None else result(type)

    return emit


def select(k: Kernel, condition: str, a: str, b: str, type: Type) -> str:
    """Appends a selection of `a` or `b` for each component. Returns the value's name."""
    return k.op(f"spirv.Select {condition}, {a}, {b} : {type.of('i1')}, {type}")


def masked(k: Kernel, value: str, type: Type, mask: int) -> str:
    """
    Appends code that clears all bits of a value that are not set in `mask`. Returns the name of the
    result.
    """
    return k.op(f"spirv.BitwiseAnd {value}, {k.constant(mask, type)} : {type}")


def replaced(k: Kernel, value: str, type: Type, bad: int, good: int) -> str:
    """
    Appends code that replaces the number `bad` in a value by `good`. Returns the name of the
    result.
    """
    is_bad = k.op(f"spirv.IEqual {value}, {k.constant(bad, type)} : {type}")
    return select(k, is_bad, k.constant(good, type), value, type)


# Integers


def _signed_division(name: str) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        divisor = replaced(k, replaced(k, values[1], type, 0, 3), type, -1, 5)
        return k.op(f"spirv.{name} {values[0]}, {divisor} : {type}"), type

    return emit


def _signed_remainder(name: str) -> Emit:
    """
    Returns a function that emits a remainder of nonnegative operands. Vulkan leaves other
    remainders undefined.
    """
    anyhow = _signed_division(name)

    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        if k.machine.settled:
            return anyhow(k, type, values)
        largest = (1 << (type.bits - 1)) - 1
        dividend, divisor = (masked(k, value, type, largest) for value in values)
        divisor = replaced(k, divisor, type, 0, 3)
        return k.op(f"spirv.{name} {dividend}, {divisor} : {type}"), type

    return emit


def _unsigned_division(name: str) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        divisor = replaced(k, values[1], type, 0, 3)
        return k.op(f"spirv.{name} {values[0]}, {divisor} : {type}"), type

    return emit


def _shift(name: str) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        amount = masked(k, values[1], type, type.bits - 1)
        return k.op(f"spirv.{name} {values[0]}, {amount} : {type}, {type}"), type

    return emit


def _member(name: str, number: int, counted: str = "") -> Emit:
    """
    Returns a function that emits an operation whose result is a struct, and extracts one member.
    """

    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        pair = f"!spirv.struct<({type}, {type})>"
        both = k.op(f"spirv.{name} {', '.join(values)} : {pair}")
        return k.op(f"spirv.CompositeExtract {both}[{number} : i32] : {pair}"), type

    return emit


def _bit_field(name: str, values_before: int) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        scalar = Type(type.scalar)
        offset, count = (
            k.op(f"spirv.CompositeExtract {v}[0 : i32] : {type}") if type.count > 1 else v
            for v in values[values_before:]
        )
        offset, count = (masked(k, v, scalar, 15) for v in (offset, count))
        operands = ", ".join([*values[:values_before], offset, count])
        return k.op(f"spirv.{name} {operands} : {type}, {scalar}, {scalar}"), type

    return emit


def bits_of(type: Type) -> Type:
    return type.of("i1")


for _name in ("IAdd", "ISub", "IMul", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    RULES.append(Rule(_name, INTEGERS, 2, simple(_name), chained=True))
for _name in ("SNegate", "Not"):
    RULES.append(Rule(_name, INTEGERS, 1, simple(_name), chained=True))
RULES.append(Rule("SDiv", INTEGERS, 2, _signed_division("SDiv"), chained=True))
for _name in ("SRem", "SMod"):
    RULES.append(Rule(_name, INTEGERS, 2, _signed_remainder(_name), chained=True))
for _name in ("UDiv", "UMod"):
    RULES.append(Rule(_name, INTEGERS, 2, _unsigned_division(_name), chained=True))
for _name in ("ShiftLeftLogical", "ShiftRightLogical", "ShiftRightArithmetic"):
    RULES.append(Rule(_name, INTEGERS, 2, _shift(_name), chained=True))
for _name in ("IAddCarry", "ISubBorrow", "SMulExtended", "UMulExtended"):
    for _number in (0, 1):
        RULES.append(Rule(f"{_name}.{_number}", ("i32",), 2, _member(_name, _number)))
for _name in ("IEqual", "INotEqual", "UGreaterThan", "SGreaterThan", "UGreaterThanEqual",
              "SGreaterThanEqual", "ULessThan", "SLessThan", "ULessThanEqual",
              "SLessThanEqual"):  # fmt: skip
    RULES.append(Rule(_name, INTEGERS, 2, simple(_name, bits_of), chained=True))
for _name in ("SMin", "SMax", "UMin", "UMax"):
    RULES.append(Rule(f"GL.{_name}", INTEGERS, 2, simple(f"GL.{_name}"), chained=True))
for _name in ("SAbs", "SSign"):
    RULES.append(Rule(f"GL.{_name}", INTEGERS, 1, simple(f"GL.{_name}"), chained=True))
for _name in ("BitCount", "BitReverse", "GL.FindILsb", "GL.FindSMsb", "GL.FindUMsb"):
    RULES.append(Rule(_name, ("i32",), 1, simple(_name), chained=True))
RULES.append(Rule("BitFieldInsert", ("i32",), 4, _bit_field("BitFieldInsert", 2), chained=True))
for _name in ("BitFieldSExtract", "BitFieldUExtract"):
    RULES.append(Rule(_name, ("i32",), 3, _bit_field(_name, 1), chained=True))


def _clamp(low: str, high: str, name: str) -> Emit:
    """
    Returns a function that emits a clamp. It first orders the limits, because others are undefined.
    """

    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        x, a, b = values
        least = k.op(f"spirv.GL.{low} {a}, {b} : {type}")
        most = k.op(f"spirv.GL.{high} {a}, {b} : {type}")
        return k.op(f"spirv.GL.{name} {x}, {least}, {most} : {type}"), type

    return emit


RULES.extend(
    [
        Rule("GL.SClamp", INTEGERS, 3, _clamp("SMin", "SMax", "SClamp"), chained=True),
        Rule("GL.UClamp", INTEGERS, 3, _clamp("UMin", "UMax", "UClamp"), chained=True),
    ]
)


# Booleans


for _name in ("LogicalAnd", "LogicalOr", "LogicalEqual", "LogicalNotEqual"):
    RULES.append(Rule(_name, ("i1",), 2, simple(_name), chained=True))
RULES.append(Rule("LogicalNot", ("i1",), 1, simple("LogicalNot"), chained=True))
for _name in ("Any", "All"):
    RULES.append(
        Rule(_name, ("i1",), 1, simple(_name, lambda type: BOOL), counts=(2, 3, 4), chained=True)
    )


def _select(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    a, b = values
    if type.is_float:
        condition = k.op(f"spirv.FOrdLessThan {a}, {b} : {type}")
    else:
        condition = k.op(f"spirv.SLessThan {a}, {b} : {type}")
    return select(k, condition, a, b, type), type


def _select_whole(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    lane = k.op("spirv.BitwiseAnd %id, %one : i32")
    condition = k.op(f"spirv.IEqual {lane}, %zero : i32")
    return k.op(f"spirv.Select {condition}, {values[0]}, {values[1]} : i1, {type}"), type


def _legal_order(type: Type) -> Legal:
    """
    Excludes operands that are NaN from the comparison: drivers may replace a comparison and a
    select by a minimum.
    """
    if not type.is_float:
        return EXACT
    return Legal(None, "exact apart from NaN", lambda a, b: ~(np.isnan(a) | np.isnan(b)))


RULES.extend(
    [
        Rule("Select", (*INTEGERS, *FLOATS), 2, _select, _legal_order, chained=True),
        Rule("Select of vectors", (*INTEGERS, *FLOATS), 2, _select_whole, chained=True),
    ]
)


# Vectors


def _dynamic_index(k: Kernel, type: Type) -> str:
    count = k.constant(type.count)
    return k.op(f"spirv.UMod %id, {count} : i32")


def _extract_dynamic(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    index = _dynamic_index(k, type)
    return k.op(f"spirv.VectorExtractDynamic {values[0]}[{index}] : {type}, i32"), Type(type.scalar)


def _insert_dynamic(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    one = k.op(f"spirv.CompositeExtract {values[0]}[0 : i32] : {type}")
    index = _dynamic_index(k, type)
    return k.op(f"spirv.VectorInsertDynamic {one}, {values[1]}[{index}] : {type}, i32"), type


def _shuffle(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    count = int(k.rng.integers(2, 5))
    chosen = k.rng.integers(0, 2 * type.count, count).tolist()
    result = Type(type.scalar, count)
    listed = ", ".join(f"{c} : i32" for c in chosen)
    value = k.op(
        f"spirv.VectorShuffle [{listed}] {values[0]}, {values[1]} : {type}, {type} -> {result}"
    )
    return value, result


def _rebuild(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    parts = [
        k.op(f"spirv.CompositeExtract {values[0]}[{i} : i32] : {type}") for i in range(type.count)
    ]
    types = ", ".join([type.scalar] * type.count)
    return k.op(f"spirv.CompositeConstruct {', '.join(parts[::-1])} : ({types}) -> {type}"), type


def _insert(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    number = int(k.rng.integers(type.count))
    one = k.op(f"spirv.CompositeExtract {values[0]}[{number} : i32] : {type}")
    at = int(k.rng.integers(type.count))
    return k.op(
        f"spirv.CompositeInsert {one}, {values[1]}[{at} : i32] : {type.scalar} into {type}"
    ), type


_ALL = (*INTEGERS, *FLOATS)
_VECTORS = (2, 3, 4)
RULES.extend(
    [
        Rule("VectorExtractDynamic", _ALL, 1, _extract_dynamic, moved, _VECTORS, chained=True),
        Rule("VectorInsertDynamic", _ALL, 2, _insert_dynamic, moved, _VECTORS, chained=True),
        Rule("VectorShuffle", _ALL, 2, _shuffle, moved, _VECTORS, chained=True),
        Rule("CompositeConstruct", _ALL, 1, _rebuild, moved, _VECTORS, chained=True),
        Rule("CompositeInsert", _ALL, 2, _insert, moved, _VECTORS, chained=True),
    ]
)


# Conversions


def _to_float(name: str, target: str) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        result = type.of(target)
        return k.op(f"spirv.{name} {values[0]} : {type} to {result}"), result

    return emit


def limits(source: str, target: str, sign: bool) -> tuple[float, float]:
    """
    Returns the smallest and the largest number of the float type `source` that fit an integer type.
    """
    info = np.iinfo(DTYPES[target] if sign else DTYPES[target].name.replace("int", "uint"))
    kind = DTYPES[source].type
    low, high = (
        float(max(info.min, int(np.finfo(kind).min))),
        min(int(info.max), int(np.finfo(kind).max)),
    )
    with np.errstate(over="ignore"):
        rounded = kind(high)
        while int(rounded) > high:
            rounded = np.nextafter(rounded, kind(0))
    return low, float(rounded)


def float_constant(value: float) -> str:
    """Formats a float for MLIR."""
    return f"{value:.17e}"


def _to_integer(name: str, target: str) -> Emit:
    def emit(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
        result = type.of(target)
        low, high = limits(type.scalar, target, name == "ConvertFToS")
        is_nan = k.op(f"spirv.IsNan {values[0]} : {type}")
        number = select(k, is_nan, k.constant("0.0", type), values[0], type)
        least, most = (k.constant(float_constant(x), type) for x in (low, high))
        for compare, limit in (("FOrdLessThan", least), ("FOrdGreaterThan", most)):
            beyond = k.op(f"spirv.{compare} {number}, {limit} : {type}")
            number = select(k, beyond, limit, number, type)
        return k.op(f"spirv.{name} {number} : {type} to {result}"), result

    return emit


def _to_bool(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    zero = k.constant(0, type)
    return k.op(f"spirv.INotEqual {values[0]}, {zero} : {type}"), type.of("i1")


def _legal_narrowing(target: str) -> Callable[[Type], Legal]:
    """Accepts a conversion from binary64 to binary16 that first rounds to binary32."""

    def legal(type: Type) -> Legal:
        if (type.scalar, target) != ("f64", "f16"):
            return EXACT
        return Legal(why="rounded once or by way of binary32", others=_by_way_of_binary32)

    return legal


def _by_way_of_binary32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float16)


for _target in FLOATS:
    for _name in ("ConvertSToF", "ConvertUToF"):
        RULES.append(Rule(f"{_name} to {_target}", INTEGERS, 1, _to_float(_name, _target)))
    RULES.append(
        Rule(
            f"FConvert to {_target}",
            tuple(f for f in FLOATS if f != _target),
            1,
            _to_float("FConvert", _target),
            _legal_narrowing(_target),
        )
    )
for _target in INTEGERS:
    for _name in ("ConvertFToS", "ConvertFToU"):
        RULES.append(Rule(f"{_name} to {_target}", FLOATS, 1, _to_integer(_name, _target)))
    for _name in ("SConvert", "UConvert"):
        RULES.append(
            Rule(
                f"{_name} to {_target}",
                tuple(i for i in INTEGERS if i != _target),
                1,
                _to_float(_name, _target),
                chained=True,
            )
        )
RULES.append(Rule("to bool", INTEGERS, 1, _to_bool, chained=True))


def _bitcast(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    same = {"i16": "f16", "i32": "f32", "i64": "f64", "f16": "i16", "f32": "i32", "f64": "i64"}
    result = type.of(same[type.scalar])
    return k.op(f"spirv.Bitcast {values[0]} : {type} to {result}"), result


def _bitcast_split(k: Kernel, type: Type, values: Sequence[str]) -> tuple[str, Type]:
    """Casts a scalar to a vector of its halves, swaps them, and casts back."""
    narrow = {"i16": "i8", "i32": "i16", "i64": "i32"}[type.scalar]
    parts = Type(narrow, 2)
    split = k.op(f"spirv.Bitcast {values[0]} : {type} to {parts}")
    turned = k.op(
        f"spirv.VectorShuffle [1 : i32, 0 : i32] {split}, {split} : {parts}, {parts} -> {parts}"
    )
    return k.op(f"spirv.Bitcast {turned} : {parts} to {type}"), type


RULES.extend(
    [
        Rule("Bitcast", ("i16", "i32", "i64", "f16", "f32", "f64"), 1, _bitcast, moved),
        Rule(
            "Bitcast of halves", ("i16", "i32", "i64"), 1, _bitcast_split, counts=(1,), chained=True
        ),
    ]
)
