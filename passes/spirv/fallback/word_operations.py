"""
Writes operations on 64-bit integers as code on words. `COMPUTES` has the code of each operation.

The code works on scalars: callers split vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.spirv.fallback.word_conversions import from_float, to_float
from xdsl_spirv.passes.spirv.fallback.words import WORDS, Pair, Words

Part: TypeAlias = Pair | SSAValue
"""A scalar: a pair of words if it has 64 bits, otherwise an ordinary value."""

Parts: TypeAlias = Sequence[Part]

Compute: TypeAlias = Callable[[Words, Operation, Parts], "Part | list[Pair] | None"]
"""A function that computes a scalar, or the members of a struct; None if that is impossible."""


def _pairs(parts: Parts) -> tuple[Pair, ...]:
    return tuple(part for part in parts if isinstance(part, Pair))


def _word(words: Words, part: Part) -> SSAValue:
    return part.low if isinstance(part, Pair) else words.code.resized(part, 32, sign=False)


def _on_pairs(compute: Callable[..., Part | list[Pair]]) -> Compute:
    return lambda words, _, parts: compute(words, *_pairs(parts))


def _bitwise(words: Words, op: Operation, parts: Parts) -> Part:
    return words.word_by_word(type(op), *_pairs(parts))


def _shift(words: Words, op: Operation, parts: Parts) -> Part:
    base, shift = parts[0], _word(words, parts[1])
    if not isinstance(base, Pair):
        return words.code.add(type(op).create(operands=[base, shift], result_types=[base.type]))
    if isinstance(op, spv.ShiftLeftLogicalOp):
        return words.left(base, shift)
    return words.right(base, shift, sign=isinstance(op, spv.ShiftRightArithmeticOp))


def _bit_field(words: Words, op: Operation, parts: Parts) -> Part | None:
    """Extracts a bit field: shifts it to the upper end and back. An empty field is 0."""
    base, (offset, count) = parts[0], (_word(words, part) for part in parts[1:])
    if not isinstance(base, Pair):
        return None
    code, sign = words.code, isinstance(op, spv.BitFieldSExtractOp)
    empty = code.add(spv.IEqualOp(count, code.number(0)))
    unused = code.add(spv.ISubOp(code.number(64), code.select(empty, code.number(1), count)))
    moved = words.left(base, code.add(spv.ISubOp(unused, offset)))
    field = words.right(moved, unused, sign=sign)
    return words.select(empty, words.number(0), field)


def _bit_count(words: Words, _: Operation, parts: Parts) -> Part:
    (value,), code = _pairs(parts), words.code
    return code.add(spv.IAddOp(*words.word_by_word(spv.BitCountOp, value)))


def _bit_reverse(words: Words, _: Operation, parts: Parts) -> Part:
    (value,) = _pairs(parts)
    low, high = words.word_by_word(spv.BitReverseOp, value)
    return Pair(high, low)


def _not(compute: Callable[[Words, Pair, Pair], SSAValue]) -> Compute:
    return lambda words, _, parts: words.code.add(spv.LogicalNotOp(compute(words, *_pairs(parts))))


def _select(words: Words, _: Operation, parts: Parts) -> Part:
    condition, (a, b) = parts[0], _pairs(parts[1:])
    assert isinstance(condition, SSAValue)
    return words.select(condition, a, b)


def _width(sign: bool) -> Compute:
    def compute(words: Words, op: Operation, parts: Parts) -> Part:
        (value,) = parts
        if isinstance(value, Pair):
            width = spv.width_of(spv.element_of(op.results[0].type))
            return words.code.resized(value.low, width, sign=sign)
        return words.widened(words.code.resized(value, 32, sign=sign), sign=sign)

    return compute


def _to_float(sign: bool) -> Compute:
    return lambda words, op, parts: to_float(
        words, _pairs(parts)[0], spv.element_of(op.results[0].type), sign=sign
    )


def _from_float(sign: bool) -> Compute:
    return lambda words, _, parts: from_float(words, cast(SSAValue, parts[0]), sign=sign)


def _add_carry(words: Words, a: Pair, b: Pair) -> list[Pair]:
    total = words.add(a, b)
    return [total, _flag(words, words.less(total, a, sign=False))]


def _subtract_borrow(words: Words, a: Pair, b: Pair) -> list[Pair]:
    return [words.subtract(a, b), _flag(words, words.less(a, b, sign=False))]


def _flag(words: Words, condition: SSAValue) -> Pair:
    return words.select(condition, words.number(1), words.number(0))


def _product(sign: bool) -> Compute:
    return _on_pairs(lambda w, a, b: [w.multiply(a, b), w.high_product(a, b, sign=sign)])


def _sign(words: Words, a: Pair) -> Pair:
    one = words.select(words.is_zero(a), words.number(0), words.number(1))
    return words.select(words.is_negative(a), words.number(-1), one)


def _clamp(sign: bool) -> Compute:
    return _on_pairs(lambda w, x, low, high: w.least(w.most(x, low, sign=sign), high, sign=sign))


# Groups


def _together(words: Words, op: Operation, parts: Parts) -> Part:
    """Applies an operation once to the vector of both words, as the words are independent."""
    operands = [words.value(p) if isinstance(p, Pair) else p for p in parts]
    kept = i1 if isinstance(op, spv.GroupNonUniformAllEqualOp) else WORDS
    result = words.code.add(copy_with(op, operands, [kept]))
    return words.pair(result) if kept == WORDS else result


COMBINATIONS: Mapping[type[Operation], tuple[Callable[[Words, Pair, Pair], Pair], int]] = {
    spv.GroupNonUniformIAddOp: (Words.add, 0),
    spv.GroupNonUniformIMulOp: (Words.multiply, 1),
    spv.GroupNonUniformSMinOp: (lambda w, a, b: w.least(a, b, sign=True), (1 << 63) - 1),
    spv.GroupNonUniformUMinOp: (lambda w, a, b: w.least(a, b, sign=False), -1),
    spv.GroupNonUniformSMaxOp: (lambda w, a, b: w.most(a, b, sign=True), -(1 << 63)),
    spv.GroupNonUniformUMaxOp: (lambda w, a, b: w.most(a, b, sign=False), 0),
}
"""For each group operation, the function that combines two values, and the neutral element."""


def _in_turns(words: Words, op: Operation, parts: Parts) -> Part:
    """Computes a group reduction or scan with carries by a loop over the invocations."""
    assert isinstance(op, spv.GroupArithmetic)
    code, scope = words.code, op.execution_scope
    (number,) = _pairs(parts[:1])
    value, (combine, neutral) = words.value(number), COMBINATIONS[type(op)]
    lane = code.built_in(spv.BuiltIn.SubgroupLocalInvocationId)
    size = code.built_in(spv.BuiltIn.SubgroupSize)
    yes = code.constant(IntegerAttr.from_bool(True))
    active = code.add(spv.GroupNonUniformBallotOp(scope, yes))

    def step(turn: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        taken = code.add(spv.GroupNonUniformBallotBitExtractOp(scope, active, turn))
        if (joins := _joins(words, op, turn, lane)) is not None:
            taken = code.add(spv.LogicalAndOp(taken, joins))
        source = code.select(taken, turn, lane)
        other = words.pair(code.add(spv.GroupNonUniformShuffleOp(scope, value, source)))
        before = Pair(*carried)
        return words.select(taken, combine(words, before, other), before)

    bounds = code.number(0), size, code.number(1)
    return Pair(*code.loop(bounds, words.number(neutral), step))


def _joins(
    words: Words, op: spv.GroupArithmetic, turn: SSAValue, lane: SSAValue
) -> SSAValue | None:
    """Returns the condition that invocation `turn` contributes to `lane`; None if all do."""
    code = words.code
    match op.group_operation.data:
        case spv.GroupOperation.InclusiveScan:
            return code.add(spv.ULessThanEqualOp(turn, lane))
        case spv.GroupOperation.ExclusiveScan:
            return code.add(spv.ULessThanOp(turn, lane))
        case spv.GroupOperation.ClusteredReduce:
            assert op.cluster_size is not None
            apart = code.add(spv.BitwiseXorOp(turn, lane))
            return code.add(spv.ULessThanOp(apart, _word(words, op.cluster_size)))
        case _:
            return None


COMPUTES: Mapping[type[Operation], Compute] = {
    spv.IAddOp: _on_pairs(Words.add),
    spv.ISubOp: _on_pairs(Words.subtract),
    spv.IMulOp: _on_pairs(Words.multiply),
    spv.UDivOp: _on_pairs(lambda w, a, b: w.divide(a, b)[0]),
    spv.UModOp: _on_pairs(lambda w, a, b: w.divide(a, b)[1]),
    spv.SDivOp: _on_pairs(lambda w, a, b: w.divide_signed(a, b)[0]),
    spv.SRemOp: _on_pairs(lambda w, a, b: w.divide_signed(a, b)[1]),
    spv.SModOp: _on_pairs(Words.modulo),
    spv.SNegateOp: _on_pairs(Words.negated),
    spv.IAddCarryOp: _on_pairs(_add_carry),
    spv.ISubBorrowOp: _on_pairs(_subtract_borrow),
    spv.UMulExtendedOp: _product(sign=False),
    spv.SMulExtendedOp: _product(sign=True),
    spv.BitwiseAndOp: _bitwise,
    spv.BitwiseOrOp: _bitwise,
    spv.BitwiseXorOp: _bitwise,
    spv.NotOp: _bitwise,
    spv.ShiftLeftLogicalOp: _shift,
    spv.ShiftRightLogicalOp: _shift,
    spv.ShiftRightArithmeticOp: _shift,
    spv.BitFieldUExtractOp: _bit_field,
    spv.BitFieldSExtractOp: _bit_field,
    spv.BitCountOp: _bit_count,
    spv.BitReverseOp: _bit_reverse,
    spv.IEqualOp: _on_pairs(Words.equal),
    spv.INotEqualOp: _not(Words.equal),
    spv.ULessThanOp: _on_pairs(lambda w, a, b: w.less(a, b, sign=False)),
    spv.SLessThanOp: _on_pairs(lambda w, a, b: w.less(a, b, sign=True)),
    spv.UGreaterThanOp: _on_pairs(lambda w, a, b: w.less(b, a, sign=False)),
    spv.SGreaterThanOp: _on_pairs(lambda w, a, b: w.less(b, a, sign=True)),
    spv.UGreaterThanEqualOp: _not(lambda w, a, b: w.less(a, b, sign=False)),
    spv.SGreaterThanEqualOp: _not(lambda w, a, b: w.less(a, b, sign=True)),
    spv.ULessThanEqualOp: _not(lambda w, a, b: w.less(b, a, sign=False)),
    spv.SLessThanEqualOp: _not(lambda w, a, b: w.less(b, a, sign=True)),
    spv.SelectOp: _select,
    spv.SConvertOp: _width(sign=True),
    spv.UConvertOp: _width(sign=False),
    spv.ConvertSToFOp: _to_float(sign=True),
    spv.ConvertUToFOp: _to_float(sign=False),
    spv.ConvertFToSOp: _from_float(sign=True),
    spv.ConvertFToUOp: _from_float(sign=False),
    spv.GLSAbsOp: _on_pairs(Words.magnitude),
    spv.GLSSignOp: _on_pairs(_sign),
    spv.GLSMinOp: _on_pairs(lambda w, a, b: w.least(a, b, sign=True)),
    spv.GLUMinOp: _on_pairs(lambda w, a, b: w.least(a, b, sign=False)),
    spv.GLSMaxOp: _on_pairs(lambda w, a, b: w.most(a, b, sign=True)),
    spv.GLUMaxOp: _on_pairs(lambda w, a, b: w.most(a, b, sign=False)),
    spv.GLSClampOp: _clamp(sign=True),
    spv.GLUClampOp: _clamp(sign=False),
    **dict.fromkeys(
        (
            spv.GroupNonUniformAllEqualOp,
            spv.GroupNonUniformBroadcastOp,
            spv.GroupNonUniformBroadcastFirstOp,
            spv.GroupNonUniformShuffleOp,
            spv.GroupNonUniformShuffleXorOp,
            spv.GroupNonUniformShuffleUpOp,
            spv.GroupNonUniformShuffleDownOp,
            spv.GroupNonUniformQuadBroadcastOp,
            spv.GroupNonUniformQuadSwapOp,
            spv.GroupNonUniformBitwiseAndOp,
            spv.GroupNonUniformBitwiseOrOp,
            spv.GroupNonUniformBitwiseXorOp,
            spv.GroupNonUniformRotateKHROp,
        ),
        _together,
    ),
    **dict.fromkeys(COMBINATIONS, _in_turns),
}
"""For each operation, the function that writes its code on words."""
