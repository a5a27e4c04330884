"""
Folds operations with constant operands.

`COMPUTE` of a class is a function of Python numbers, whose result is reduced to the type's width.
Undefined results (a division by zero, a shift beyond the width) are not folded. Floats are folded
only if the result is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    VectorType,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import Commutative, ConstantLike

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.upstream.kept_bodies import KeptBody

Number: TypeAlias = IntegerAttr | FloatAttr
Compute: TypeAlias = Callable[..., Any]


def integer_attribute(value: int, t: IntegerType) -> IntegerAttr:
    """
    Creates an integer attribute. The value wraps modulo 2^width, and is signed unless the type is
    unsigned.
    """
    width = t.width.data
    if width == 1:
        return IntegerAttr.from_bool(bool(value & 1))
    value &= (1 << width) - 1
    if value >> (width - 1) and t.signedness.data is not Signedness.UNSIGNED:
        value -= 1 << width
    return IntegerAttr(value, t)


def unsigned(number: IntegerAttr) -> int:
    """Returns the number with its bits read as an unsigned integer."""
    assert isinstance(number.type, IntegerType)
    return number.value.data & ((1 << number.type.width.data) - 1)


def signed(number: IntegerAttr) -> int:
    """Returns the number with its bits read as a two's complement integer."""
    assert isinstance(number.type, IntegerType)
    width, value = number.type.width.data, unsigned(number)
    return value - (1 << width) if value >> (width - 1) else value


def divide(a: int, b: int) -> int:
    """Returns a / b, rounded toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class ConstantToTheRight(RewritePattern):
    """
    Moves the constant operand of a commutative operation to the second position.

    spirv.IAdd %c, %x  ->  spirv.IAdd %x, %c
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        parent = op.parent_op()
        if not op.has_trait(Commutative) or (parent is not None and parent.has_trait(KeptBody)):
            return
        left, right = op.operands
        if _is_constant(left) and not _is_constant(right):
            op.operands = [right, left]
            rewriter.notify_op_modified(op)


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.has_trait(ConstantLike)


class Foldable(SPIRVOp, HasFolderInterface, ABC):
    """An operation that xDSL's passes can fold."""

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """
        Returns the result as a constant or another value. Returns None if the operation cannot be
        folded.

        Operations with decorations (saturation, rounding), which affect the result, are not folded.
        """
        parent = self.parent_op()
        if self.attributes or (parent is not None and parent.has_trait(KeptBody)):
            return None
        value = self.evaluate([ConstantLike.get_constant_value(o) for o in self.operands])
        return None if value is None else (value,)

    @abstractmethod
    def evaluate(self, operands: Sequence[Attribute | None]) -> SSAValue | Attribute | None:
        """
        Returns the result. Returns None if it is unknown. An unknown operand is None in `operands`.
        """


class IntegerFoldable(Foldable, HasCanonicalizationPatternsInterface, ABC):
    """A foldable elementwise operation on integers."""

    COMPUTE: ClassVar[Compute]
    SIGNED: ClassVar[bool] = False
    """True if the operands are signed integers (two's complement)."""
    NEUTRAL: ClassVar[int | None] = None
    """Second operand for which the result is the first operand: 0 for a sum."""
    ABSORBING: ClassVar[int | None] = None
    """Second operand for which the result is always this operand: 0 for a product."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (ConstantToTheRight(),)

    def evaluate(self, operands: Sequence[Attribute | None]) -> SSAValue | Attribute | None:
        of_same_type = self.operands[0].type == self.results[0].type
        if of_same_type and _is_everywhere(operands[-1], self.NEUTRAL):
            return self.operands[0]
        if of_same_type and _is_everywhere(operands[-1], self.ABSORBING):
            return operands[-1]
        components = [components_of(operand) for operand in operands]
        lists = [numbers for numbers in components if numbers is not None]
        if len(lists) != len(operands) or len(set(map(len, lists))) != 1:
            return None
        return self._constant([self.component(numbers) for numbers in zip(*lists, strict=True)])

    def component(self, operands: Sequence[IntegerAttr]) -> int | None:
        """Returns one component of the result. Returns None if it is undefined."""
        read = signed if self.SIGNED else unsigned
        try:
            return type(self).COMPUTE(*map(read, operands))
        except ZeroDivisionError:
            return None

    def _constant(self, components: Sequence[int | None]) -> Attribute | None:
        type_ = self.results[0].type
        element = element_of(type_)
        if not isinstance(element, IntegerType):
            return None
        numbers = [integer_attribute(c, element) for c in components if c is not None]
        shape = type_.get_shape() if isinstance(type_, VectorType) else ()
        if not len(numbers) == len(components) == prod(shape):
            return None
        if not shape:
            return numbers[0]
        vector = VectorType(element, shape)
        return DenseIntOrFPElementsAttr.from_list(vector, [n.value.data for n in numbers])


def components_of(constant: Attribute | None) -> Sequence[IntegerAttr] | None:
    """Returns the components of an integer constant. Returns None for other attributes."""
    if isinstance(constant, IntegerAttr):
        return [constant] if isinstance(constant.type, IntegerType) else None
    if not isinstance(constant, DenseIntOrFPElementsAttr):
        return None
    element = constant.get_element_type()
    if not isinstance(element, IntegerType):
        return None
    return [integer_attribute(int(value), element) for value in constant.get_values()]


def _is_everywhere(constant: Attribute | None, number: int | None) -> bool:
    numbers = components_of(constant)
    if numbers is None or number is None:
        return False
    return all(
        n == integer_attribute(number, n.type) for n in numbers if isinstance(n.type, IntegerType)
    )
