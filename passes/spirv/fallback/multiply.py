"""
Computes an invocation's components of the result of a cooperative MulAdd.

Integers are computed at the result's width, at least 32 bits; the MulAdd's operands say how A, B
and C are extended (CM-23). Floats are computed in binary32, or in binary64 if a matrix has that
type, and rounded once to the result's type (CM-25). The sum starts from C. If the sum saturates,
C is added last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IntegerType, f32, f64
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.integers import clamp, saturating_add, saturating_mixed_add
from xdsl_spirv.passes.spirv.fallback.matrices import Form, refuse

FLAGS = spv.CooperativeMatrixOperands
AT_A_TIME = 32
"""Number of components that one loop accumulates."""

Read = Callable[[SpirvEmitter, Index], SSAValue]


@dataclass(frozen=True)
class Product:
    """A MulAdd: the distributions of its matrices, the type of the computation, and flags."""

    a: Form
    b: Form
    c: Form
    result: Form
    wide: Attribute
    flags: spv.CooperativeMatrixOperands

    @staticmethod
    def of(op: spv.CooperativeMatrixMulAddOp, forms: Sequence[Form]) -> Product:
        """Describes a MulAdd. Raises `PassFailedException` for a MulAdd of floats and integers."""
        elements = [f.element for f in forms]
        floating = [spv.is_float(e) for e in elements]
        if any(floating) != all(floating):
            shown = ", ".join(map(str, elements))
            refuse(
                op,
                f"the MulAdd mixes components of types {shown}: use only integers or only floats",
            )
        wide: Attribute
        if floating[0]:
            wide = f64 if any(isinstance(e, Float64Type) for e in elements) else f32
        else:
            wide = IntegerType(max(32, spv.width_of(elements[3])))
        flags = FLAGS(0) if op.matrix_operands is None else FLAGS(op.matrix_operands.data)
        a, b, c, result = forms
        return Product(a, b, c, result, wide, flags)

    @property
    def saturates(self) -> bool:
        return bool(self.flags & FLAGS.SaturatingAccumulationKHR)

    def _sign(self, flag: spv.CooperativeMatrixOperands) -> bool:
        return bool(self.flags & flag)

    @property
    def signs(self) -> tuple[bool, bool]:
        """Returns (A, B): True for a matrix whose components are sign-extended."""
        flags = FLAGS.MatrixASignedComponentsKHR, FLAGS.MatrixBSignedComponentsKHR
        return self._sign(flags[0]), self._sign(flags[1])

    def factors(self, op: spv.CooperativeMatrixMulAddOp) -> list[tuple[object, int]]:
        """Returns for A and B a key (the value and its signedness) and the number of components."""
        signs = self.signs
        return [((op.a, signs[0]), self.a.total), ((op.b, signs[1]), self.b.total)]

    def widened(self, code: SpirvEmitter, value: SSAValue, *, sign: bool) -> SSAValue:
        """Converts a component to the type of the computation."""
        if value.type == self.wide:
            return value
        if isinstance(self.wide, Float32Type | Float64Type):
            return code.add(spv.FConvertOp(value, self.wide))
        return code.resized(value, spv.width_of(self.wide), sign=sign)

    # SpirvEmitter.

    def components(
        self,
        code: SpirvEmitter,
        addends: Sequence[SSAValue],
        bases: tuple[Index, Index],
        read: Read,
    ) -> list[SSAValue]:
        """
        Returns the invocation's components of the result.

        `addends` are the invocation's components of C. `read` reads the components of A and B,
        which begin at the indices `bases`.
        """
        wide_addends = [
            self.widened(code, v, sign=self._sign(FLAGS.MatrixCSignedComponentsKHR))
            for v in addends
        ]
        start = [self._zero(code)] * len(addends) if self.saturates else wide_addends
        sums: list[SSAValue] = []
        for first in range(0, len(start), AT_A_TIME):
            sums += self._loop(code, start[first : first + AT_A_TIME], first, bases, read)
        if self.saturates:
            sums = [self._saturated(code, s, c) for s, c in zip(sums, wide_addends, strict=True)]
        return [self._narrowed(code, s) for s in sums]

    def _zero(self, code: SpirvEmitter) -> SSAValue:
        if isinstance(self.wide, Float32Type | Float64Type):
            return code.constant(FloatAttr(0.0, self.wide))
        return code.number(0, self.wide)

    def _loop(
        self,
        code: SpirvEmitter,
        start: Sequence[SSAValue],
        first: int,
        bases: tuple[Index, Index],
        read: Read,
    ) -> Sequence[SSAValue]:
        places = [self.result.place(code, first + i) for i in range(len(start))]
        depth, columns = self.a.columns, self.b.columns
        rows = [self._start(code, bases[0], p.row, depth) for p in places]
        lines = [self._start(code, bases[1], p.column, 1) for p in places]

        def step(k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            known: dict[tuple[int, Index], SSAValue] = {}

            def element(start: Index, ahead: Index, of: int) -> SSAValue:
                if (of, start) not in known:
                    known[of, start] = read(code, code.plus(start, ahead))
                return known[of, start]

            ahead = code.times(k, columns)
            return [
                self._multiplied(code, element(row, k, 0), element(line, ahead, 1), total)
                for row, line, total in zip(rows, lines, sums, strict=True)
            ]

        zero, one = code.index(0), code.index(1)
        return code.loop((zero, code.index(depth), one), start, step)

    @staticmethod
    def _start(code: SpirvEmitter, base: Index, number: Index, step: int) -> Index:
        return code.plus(base, code.times(number, step))

    def _multiplied(
        self, code: SpirvEmitter, a: SSAValue, b: SSAValue, total: SSAValue
    ) -> SSAValue:
        if spv.is_float(self.wide):
            return code.add(spv.FAddOp(total, code.add(spv.FMulOp(a, b))))
        return code.add(spv.IAddOp(total, code.add(spv.IMulOp(a, b))))

    def _saturated(self, code: SpirvEmitter, product: SSAValue, addend: SSAValue) -> SSAValue:
        """Truncates the product to the result's width, and adds C with saturation."""
        sign = self._sign(FLAGS.MatrixResultSignedComponentsKHR)
        addend_sign = self._sign(FLAGS.MatrixCSignedComponentsKHR)
        width = spv.width_of(self.result.element)
        if width < 32:
            cut = code.resized(code.resized(product, width, sign=sign), 32, sign=sign)
            total = code.add(spv.IAddOp(cut, addend))
            if not sign and addend_sign:
                return clamp(code, _not_negative(code, total), width, sign=False)
            return clamp(code, total, width, sign=sign)
        add = saturating_add if sign == addend_sign else saturating_mixed_add
        return add(code, product, addend, sign=sign)

    def _narrowed(self, code: SpirvEmitter, value: SSAValue) -> SSAValue:
        target = self.result.element
        if value.type == target:
            return value
        if spv.is_float(target):
            return code.add(spv.FConvertOp(value, target))
        return code.same_bits(code.resized(value, spv.width_of(target), sign=False), target)


def _not_negative(code: SpirvEmitter, value: SSAValue) -> SSAValue:
    zero = code.number(0, value.type)
    return code.select(code.add(spv.SLessThanOp(value, zero)), zero, value)
