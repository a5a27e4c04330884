"""Matches factors with a zero point, `ext(x) - zero`, in sums of products of quantized numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, BlockArgument, SSAValue

from xdsl_spirv.passes.analysis.pointwise import NotAContraction, inputs_of, without_extensions
from xdsl_spirv.passes.graph.known_tensors import known_integer


@dataclass(frozen=True)
class Shifted:
    """
    `ext(x) - zero`, or `ext(x) + zero` if `negated`; x is the body argument with index `input`.

    `zero` is a value of the body, computed from the arguments `zero_inputs`, or None without a
    zero point. If the zero point is a constant, `number` is its value. Otherwise it is `zero` +
    `offset`.
    """

    input: int
    signed: bool
    zero: SSAValue | None
    zero_inputs: frozenset[int]
    negated: bool
    number: int | None
    offset: int = 0

    def with_other_sign(self) -> Shifted:
        """Returns the same factor for the bytes `x xor 128`, read with the other signedness."""
        by = 128 if self.signed else -128
        if self.number is not None:
            return replace(self, signed=not self.signed, number=self.number + by)
        return replace(self, signed=not self.signed, offset=self.offset + by)

    @property
    def is_plain(self) -> bool:
        """True if nothing is subtracted."""
        return self.number == 0


def match_shifted(value: SSAValue, block: Block, op: LinalgStructuredOperation) -> Shifted | None:
    """
    Returns a factor of the body as `ext(x) - zero` or `ext(x)`; None for any other factor.

    An extended difference matches only if the narrow difference cannot wrap.
    """
    source, signed = without_extensions(value)
    if _is_input(source, block):
        assert isinstance(source, BlockArgument)
        return Shifted(source.index, signed, None, frozenset(), False, 0)
    extended = source is not value
    match source.owner:
        case arith.SubiOp(lhs=lhs, rhs=rhs):
            negated = False
        case arith.AddiOp(lhs=lhs, rhs=rhs):
            negated = True
            if not _is_input(without_extensions(lhs)[0], block):
                lhs, rhs = rhs, lhs
        case _:
            return None
    argument, signed_argument = without_extensions(lhs)
    if not _is_input(argument, block):
        return None
    assert isinstance(argument, BlockArgument)
    number = number_in_body(rhs, block, op)
    if extended and not (signed and _fits(argument, signed_argument, rhs, number)):
        return None
    try:
        zero_inputs = frozenset(inputs_of(rhs, block))
    except NotAContraction:
        return None
    if argument.index in zero_inputs:
        return None
    shift = None if number is None else (-number if negated else number)
    return Shifted(argument.index, signed_argument, rhs, zero_inputs, negated, shift)


def _is_input(value: SSAValue, block: Block) -> bool:
    return (
        isinstance(value, BlockArgument)
        and value.owner is block
        and value.index < len(block.args) - 1
    )


def _width(value: SSAValue) -> int:
    type = value.type
    return type.width.data if isinstance(type, IntegerType) else 64


def _range(width: int, signed: bool) -> tuple[int, int]:
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def _fits(argument: SSAValue, signed: bool, zero: SSAValue, number: int | None) -> bool:
    """True if no difference (or sum) of argument and zero point wraps in the type of `zero`."""
    low, high = _range(_width(argument), signed)
    if number is None:
        source, zero_signed = without_extensions(zero)
        zero_low, zero_high = _range(_width(source), zero_signed)
    else:
        zero_low = zero_high = number
    reach = max(abs(zero_low), abs(zero_high))
    least, greatest = _range(_width(zero), True)
    return least <= low - reach and high + reach <= greatest


def number_in_body(value: SSAValue, block: Block, op: LinalgStructuredOperation) -> int | None:
    """Returns the integer value of a constant or of an extended constant, else None."""
    known = known_integer(value)
    if known is not None:
        return known
    source, signed = without_extensions(value)
    is_input = _is_input(source, block)
    number = known_integer(op.inputs[source.index] if is_input else source)  # pyright: ignore
    if number is not None and not signed:
        number %= 1 << _width(source)
    return number


def shift_range(shift: Shifted, block: Block) -> tuple[int, int]:
    """Returns the smallest and the largest value of the shifted input."""
    argument = block.args[shift.input]
    low, high = _range(_width(argument), shift.signed)
    if shift.number is not None:
        return low - shift.number, high - shift.number
    assert shift.zero is not None
    source, signed = without_extensions(shift.zero)
    zero_low, zero_high = _range(_width(source), signed)
    if shift.negated:
        return low + zero_low, high + zero_high
    return low - zero_high, high - zero_low
