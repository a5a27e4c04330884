"""
Converts bytes to the other signedness: `x xor 128` is x - 128 for unsigned and x + 128 for signed
bytes.

A device may multiply s8 by s8 and u8 by u8, but not s8 by u8. If an operand is converted to the
other operand's signedness, its zero point moves by 128. The conversion follows the tensor's
producer directly, so that it can be fused with the producer. A padding of an operand is converted,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, i8
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, typical
from xdsl_spirv.passes.analysis.linalg_code import Code, pad_like, yields_of
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.graph.known_tensors import known_integer
from xdsl_spirv.targets import Target

SIGN = -128
"""The sign bit of a byte, as a signed 8-bit integer."""

SAME = "s8 -> s32"
"""The key in a schedule's `rates` for products of bytes of equal signedness."""


class OtherSigns:
    """
    Converts tensors of bytes to the other signedness, each tensor once.

    With `always`, every operand is converted; otherwise only an operand for which `pay` holds.
    """

    def __init__(self, always: bool, target: Target | None = None) -> None:
        self.always = always
        self.target = target
        self._known: dict[SSAValue, SSAValue] = {}

    def pay(self, sizes: Sequence[Size], changed: SSAValue, summed: SSAValue) -> bool:
        """
        True if matrix instructions on the target save more time than two more dispatches take.

        One dispatch converts `changed`, the other sums up `summed`.
        """
        target = self.target
        if target is None or target.measured_copy is None or "dot" not in target.rates:
            return False
        matrices = max(
            (schedule.rates.get(SAME, 0.0) for schedule in target.schedules), default=0.0
        )
        if not matrices:
            return False
        products = 2e-12 * prod(map(typical, sizes))
        saved = products / target.rates["dot"] - products / matrices
        shifted, read = (prod(map(typical, extents(value))) for value in (changed, summed))
        moved = (2 * shifted + read) / target.measured_copy
        return saved > 2 * target.model.dispatch_seconds + moved

    def of(self, value: SSAValue, reader: Operation) -> SSAValue:
        """Returns the tensor `value xor 128`, created at the first call."""
        if value not in self._known:
            owner = value.owner
            if isinstance(owner, tensor.PadOp) and (padding := _padding(owner)) is not None:
                ops = _shift_padding(owner, self.of(owner.source, reader), padding)
                Rewriter.insert_op(ops, InsertPoint.after(owner))
                self._known[value] = ops[-1].results[0]
            else:
                code = Code.open_behind(value, reader)
                self._known[value] = code.elementwise([value], i8, _flip_sign)
        return self._known[value]


def _padding(op: tensor.PadOp) -> SSAValue | None:
    value = yields_of(op.region.block)[0]
    is_outside = isinstance(value.owner, Operation) and value.owner.parent is not op.region.block
    return value if is_outside or known_integer(value) is not None else None


def _flip_sign(b: Builder, v: Sequence[SSAValue]) -> Operation:
    sign = b.insert(arith.ConstantOp(IntegerAttr(SIGN, i8)))
    return b.insert(arith.XOrIOp(v[0], sign.result))


def _shift_padding(op: tensor.PadOp, source: SSAValue, padding: SSAValue) -> list[Operation]:
    known = known_integer(padding)
    if known is None:
        sign = arith.ConstantOp(IntegerAttr(SIGN, i8))
        before = [sign, arith.XOrIOp(padding, sign.result)]
    else:
        before = [arith.ConstantOp(IntegerAttr((known & 255 ^ 128) - (known & 128 ^ 128) * 2, i8))]
    return [*before, pad_like(op, source, before[-1].results[0])]
