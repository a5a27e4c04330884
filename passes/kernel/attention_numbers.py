"""
The arithmetic of every attention's kernel: numbers of f32, and fragments of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.spirv.composite import CompositeExtractOp, CompositeInsertOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixMulAddOp
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.emit.kernel import KernelEmitter

Fragment: TypeAlias = SSAValue


class Numbers:
    """Writes arithmetic on f32."""

    b: KernelEmitter

    def number(self, value: float) -> SSAValue:
        return self.b.constant(FloatAttr(value, f32))

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.AddfOp(x, y))

    def times(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MulfOp(x, y))

    def greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxnumfOp(x, y))

    def power(self, exponent: SSAValue) -> SSAValue:
        """2 to the exponent."""
        return self.b.add(math.Exp2Op(exponent))


class FragmentNumbers(Numbers, ABC):
    """Writes arithmetic on fragments, as a whole or component by component."""

    accumulator: CooperativeMatrixType
    raw: bool
    """Whether scores are not scaled yet: a multiply-add then makes an exponent of one."""
    factor: float
    """Factor from the distance of a score to the maximum to an exponent of two."""

    @property
    @abstractmethod
    def components(self) -> int:
        """Components of an accumulator's fragment that an invocation has."""

    def matrix_type(
        self, rows: int, columns: int, element: Attribute, use: CooperativeMatrixUse
    ) -> CooperativeMatrixType:
        return CooperativeMatrixType(rows, columns, element, Scope.Subgroup, use)

    def splat(self, value: float, type: CooperativeMatrixType | None = None) -> Fragment:
        """The number in every component, of the accumulator if no type is given."""
        type = type or self.accumulator
        element = type.element_type
        return self.b.at_top(ConstantOp(FloatAttr(value, element), type))  # pyright: ignore

    def parts(self, fragment: Fragment) -> list[SSAValue]:
        """An invocation's components."""
        return [self.b.add(CompositeExtractOp(fragment, [i])) for i in range(self.components)]

    def put(self, values: Sequence[SSAValue], fragment: Fragment) -> Fragment:
        """The fragment with other components."""
        for i, value in enumerate(values):
            fragment = self.b.add(CompositeInsertOp(value, fragment, [i]))
        return fragment

    def both(self, kind: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        """An operation on every component."""
        return self.b.add(kind.create(operands=[a, b], result_types=[a.type]))

    def multiplied(self, left: Fragment, right: Fragment, total: Fragment) -> Fragment:
        return self.b.add(CooperativeMatrixMulAddOp(left, right, total))

    def exponent(self, score: SSAValue, maximum: SSAValue) -> SSAValue:
        """Exponent of two for a score; the maximum is scaled already where scores are raw."""
        b, factor = self.b, self.number(self.factor)
        if self.raw:
            return b.add(math.FmaOp(score, factor, b.add(arith.NegfOp(maximum))))
        return self.times(b.add(arith.SubfOp(score, maximum)), factor)
