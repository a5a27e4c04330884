"""
Narrows 64-bit values in the body of a loop to 32 bits.

A 64-bit value may exist in a wide and in a narrow form. A conversion is inserted only where an
operation needs the other form.

An integer operation is narrowed if all of its 64-bit operands and results fit in signed 32 bits.
It is also narrowed if only the low 32 bits of a sum, difference, product or selection are read,
because they depend only on the low 32 bits of the operands. `narrow_floats` has the rules for
floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f32, f64, i32, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.analysis.ranges import Range, element, signed
from xdsl_spirv.passes.analysis.value_ranges import ValueRanges
from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

NARROW: dict[Attribute, Attribute] = {i64: i32, f64: f32}

FITS = signed(32)

MODULAR = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp)
"""Operations for which the low bits of the result depend only on the low bits of the operands."""

ORDERED = (
    arith.CmpiOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
    arith.DivSIOp,
    arith.FloorDivSIOp,
    arith.CeilDivSIOp,
    arith.RemSIOp,
    arith.SIToFPOp,
    math.AbsIOp,
)
"""Operations that give the same result in 32 bits if all values fit in signed 32 bits."""

POSITIVE = (
    arith.DivUIOp,
    arith.CeilDivUIOp,
    arith.RemUIOp,
    arith.UIToFPOp,
    IndexCastUIOp,
)
"""Operations that give the same result in 32 bits if all values fit and are not negative."""

FROM_OTHERS = (
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.FPToSIOp,
    arith.FPToUIOp,
    arith.IndexCastOp,
)
"""Conversions that give the same result in 32 bits if the result fits."""


def is_wide(value: SSAValue) -> bool:
    """True for a 64-bit scalar."""
    return value.type in NARROW


def touches(op: Operation) -> bool:
    """True if an operation or its body has 64-bit values."""
    return any(
        element(value.type) in NARROW
        for inner in op.walk()
        for value in (*inner.operands, *inner.results)
    )


def takes_narrow(op: tensor.ExtractOp) -> bool:
    """True if an operation extracts an element from a tensor that was narrowed."""
    return element(op.tensor.type) != op.result.type


def fits(interval: Range) -> bool:
    return interval.within(FITS.low, FITS.high)


CONVERSIONS = (arith.ExtSIOp, arith.ExtUIOp, arith.ExtFOp, arith.TruncIOp, arith.TruncFOp)
"""Conversions that are dropped if operand and result get the same type."""


class Integers:
    """Decides which integer operations of a body are narrowed."""

    def __init__(self, ranges: ValueRanges):
        self.ranges = ranges
        self._low: dict[SSAValue, bool] = {}

    def is_narrowed(self, op: Operation) -> bool:
        """True if an operation can be computed in 32 bits."""
        values = [v for v in (*op.operands, *op.results) if v.type == i64]
        if not values or op.regions:
            return False
        if isinstance(op, tensor.ExtractOp):
            return takes_narrow(op)
        if isinstance(op, arith.TruncIOp):
            return True
        if isinstance(op, arith.IndexCastOp) and self.reads_low_bits(op.input):
            return True
        if isinstance(op, (*MODULAR, arith.SelectOp)) and self.reads_low_bits(op.results[0]):
            return True
        intervals = [self.ranges.of(value) for value in values]
        if not all(map(fits, intervals)):
            return False
        match op:
            case arith.ConstantOp() | arith.SelectOp():
                return True
            case _ if isinstance(op, MODULAR) or isinstance(op, ORDERED + FROM_OTHERS):
                return True
            case _ if isinstance(op, POSITIVE):
                return all(interval.low >= 0 for interval in intervals)
            case arith.ShLIOp() | arith.ShRSIOp():
                return self.ranges.of(op.operands[1]).within(0, 31)
            case arith.ShRUIOp():
                shift = self.ranges.of(op.rhs)
                return shift.within(0, 31) and self.ranges.of(op.lhs).low >= 0
            case _:
                return False

    def reads_low_bits(self, value: SSAValue) -> bool:
        """True if all users of a value in the body depend only on its low 32 bits."""
        if value.type != i64 or isinstance(value, BlockArgument):
            return False
        if value not in self._low:
            self._low[value] = all(
                self._reads_low_bits(use.operation, use.index) for use in value.uses
            )
        return self._low[value]

    def _reads_low_bits(self, op: Operation, index: int) -> bool:
        match op:
            case arith.TruncIOp():
                return True
            case arith.IndexCastOp():
                # An address that is in bounds equals its low bits.
                return all(isinstance(use.operation, tensor.ExtractOp) for use in op.result.uses)
            case arith.SelectOp():
                return index > 0 and self.reads_low_bits(op.result)
            case _ if isinstance(op, MODULAR):
                return self.reads_low_bits(op.results[0])
            case _:
                return False


Decide = Callable[[Operation], frozenset[Attribute]]


class BodyNarrower:
    """
    Copies the body `old` into the block `new`, with some operations in 32 bits.

    `decide` returns the types (`i64`, `f64`) that an operation computes in 32 bits. Arguments of
    `new` have 32 bits if their tensors do. `constant` returns the 32-bit form of a constant
    outside of the body.
    """

    def __init__(
        self, old: Block, new: Block, decide: Decide, constant: Callable[[SSAValue], SSAValue]
    ):
        self.old, self.new, self.decide, self.constant = old, new, decide, constant
        self._narrow: dict[SSAValue, SSAValue] = {}
        self._same: dict[SSAValue, SSAValue] = {}
        for argument, given in zip(old.args, new.args, strict=True):
            table = self._same if argument.type == given.type else self._narrow
            table[argument] = given

    def write(self, results: Sequence[Attribute]) -> None:
        """Writes all operations, and a yield of values with the types `results`."""
        last = self.old.last_op
        assert last is not None
        for op in self.old.ops:
            if op is last:
                break
            kinds = self.decide(op)
            if kinds:
                self._write_narrow(op, kinds)
            else:
                self._write_as_it_is(op)
        yielded = [
            self.value(value) if value.type == type else self.narrow(value)
            for value, type in zip(last.operands, results, strict=True)
        ]
        end = linalg.ops.YieldOp(*yielded)
        end.location = last.location
        self.new.add_op(end)

    def value(self, value: SSAValue) -> SSAValue:
        """
        Returns a value of the old body with its original type, in the new block. Extends a value
        that the new block computes in 32 bits. Returns a value from outside of the body unchanged.
        """
        if value in self._same:
            return self._same[value]
        if self._is_constant(value):
            assert isinstance(value.owner, arith.ConstantOp)
            self._same[value] = self._add(value.owner.clone(), value)
            return self._same[value]
        if value not in self._narrow:
            return value
        narrow = self._narrow[value]
        extension: Operation
        if value.type == f64:
            extension = arith.ExtFOp(narrow, f64)
        else:
            extension = arith.ExtSIOp(narrow, i64)
        self._same[value] = self._add(extension, value)
        return self._same[value]

    def _is_constant(self, value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, arith.ConstantOp) and owner.parent_block() is self.old

    def narrow(self, value: SSAValue) -> SSAValue:
        """
        Returns the new block's 32-bit form of a value: an integer's low bits, or the nearest
        float.
        """
        if value not in self._narrow:
            self._narrow[value] = self._narrowed(value)
        return self._narrow[value]

    def _narrowed(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            if self._is_constant(value):
                return self._add(narrow_constant(owner), value)
            return self.constant(value)
        plain = self.value(value)
        if value.type == f64:
            return self._add(arith.TruncFOp(plain, f32), value)
        return self._add(arith.TruncIOp(plain, i32), value)

    def _add(self, op: Operation, like: SSAValue) -> SSAValue:
        if not isinstance(like, BlockArgument):
            op.location = like.owner.location  # pyright: ignore
        op.results[0].name_hint = like.name_hint
        self.new.add_op(op)
        return op.results[0]

    def _write_as_it_is(self, op: Operation) -> None:
        if isinstance(op, arith.ConstantOp):
            return
        read = dict.fromkeys(v for inner in op.walk() for v in inner.operands)
        clone = op.clone({value: self.value(value) for value in read})
        clone.location = op.location
        self.new.add_op(clone)
        self._same |= zip(op.results, clone.results, strict=True)

    def _write_narrow(self, op: Operation, kinds: frozenset[Attribute]) -> None:
        if isinstance(op, arith.ConstantOp):
            return
        operands = [self._operand(value, kinds) for value in op.operands]
        types = [NARROW[r.type] if r.type in kinds else r.type for r in op.results]
        if isinstance(op, CONVERSIONS) and operands[0].type == types[0]:
            narrow_results: Sequence[SSAValue] = operands
        else:
            narrow_op = copy_with(op, operands, types)
            narrow_op.location = op.location
            self.new.add_op(narrow_op)
            narrow_results = narrow_op.results
        for old, new in zip(op.results, narrow_results, strict=True):
            new.name_hint = new.name_hint or old.name_hint
            table = self._narrow if old.type in kinds else self._same
            table[old] = new

    def _operand(self, value: SSAValue, kinds: frozenset[Attribute]) -> SSAValue:
        return self.narrow(value) if value.type in kinds else self.value(value)


def narrow_constant(op: arith.ConstantOp) -> arith.ConstantOp:
    """Returns a constant in 32 bits: an integer's low bits, or the nearest float."""
    match op.value:
        case IntegerAttr(value=value):
            low = (value.data + (1 << 31)) % (1 << 32) - (1 << 31)
            return arith.ConstantOp(IntegerAttr(low, i32))
        case FloatAttr(value=value):
            return arith.ConstantOp(FloatAttr(_single(value.data), f32))
        case _:
            raise AssertionError(f"{op.value} is not a number")


def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def tensor_of(type: Attribute) -> TensorType[Attribute]:
    """Returns the tensor type with 32-bit elements in place of 64-bit ones."""
    assert isinstance(type, TensorType)
    return TensorType(NARROW[type.element_type], type.get_shape(), type.encoding)
