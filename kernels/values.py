"""
Values of a kernel, and the meaning of Python's operators on them.

Each operator is one instruction, which the type selects. A Python number becomes a constant of the
other operand's type. Operands of different types are an error. Uses that need the value during
tracing are errors, too: `if value`, `value and other`, `a < b < c`.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv import arithmetic, bit, composite, conversion, logic
from xdsl_spirv.kernels.operators import COMPARISONS, Operators
from xdsl_spirv.kernels.tracer import KernelError, current
from xdsl_spirv.kernels.types import Type, boolean

Number: TypeAlias = "Value | int | float | bool | np.number[Any] | np.bool_"

_BY_TYPE: dict[str, tuple[Any, Any, Any, Any]] = {
    # signed, unsigned, float, bool
    "+": (arithmetic.IAddOp, arithmetic.IAddOp, arithmetic.FAddOp, None),
    "-": (arithmetic.ISubOp, arithmetic.ISubOp, arithmetic.FSubOp, None),
    "*": (arithmetic.IMulOp, arithmetic.IMulOp, arithmetic.FMulOp, None),
    "/": (None, None, arithmetic.FDivOp, None),
    "//": (None, arithmetic.UDivOp, None, None),
    "%": (None, arithmetic.UModOp, arithmetic.FModOp, None),
    "&": (bit.BitwiseAndOp, bit.BitwiseAndOp, None, logic.LogicalAndOp),
    "|": (bit.BitwiseOrOp, bit.BitwiseOrOp, None, logic.LogicalOrOp),
    "^": (bit.BitwiseXorOp, bit.BitwiseXorOp, None, logic.LogicalNotEqualOp),
    "<<": (bit.ShiftLeftLogicalOp, bit.ShiftLeftLogicalOp, None, None),
    ">>": (bit.ShiftRightArithmeticOp, bit.ShiftRightLogicalOp, None, None),
    "<": (logic.SLessThanOp, logic.ULessThanOp, logic.FOrdLessThanOp, None),
    "<=": (logic.SLessThanEqualOp, logic.ULessThanEqualOp, logic.FOrdLessThanEqualOp, None),
    ">": (logic.SGreaterThanOp, logic.UGreaterThanOp, logic.FOrdGreaterThanOp, None),
    ">=": (
        logic.SGreaterThanEqualOp,
        logic.UGreaterThanEqualOp,
        logic.FOrdGreaterThanEqualOp,
        None,
    ),
    "==": (logic.IEqualOp, logic.IEqualOp, logic.FOrdEqualOp, logic.LogicalEqualOp),
    "!=": (logic.INotEqualOp, logic.INotEqualOp, logic.FUnordNotEqualOp, logic.LogicalNotEqualOp),
}
_REMEDY = {
    "//": "// rounds down in Python and to zero on a device: write >> n for 2**n, or convert "
    "with .to(u32)",
    "%": "devices disagree about remainders of negative numbers: write & (n - 1) for 2**n, or "
    ".to(u32) first",
    "/": "convert with .to(f32), or write // for unsigned integers",
}


class Value(Operators):
    """A value with a type. `ssa` is its value in the module."""

    __slots__ = ("ssa", "type")

    def __init__(self, ssa: SSAValue, type: Type):
        self.ssa, self.type = ssa, type

    def binary(self, symbol: str, left: Number, right: Number) -> Value:
        return binary(symbol, left, right)

    def __neg__(self) -> Value:
        if self.type.is_boolean:
            _refuse("-", self.type)
        kind = arithmetic.FNegateOp if self.type.is_float else arithmetic.SNegateOp
        return self._with(kind(self.ssa))

    def __invert__(self) -> Value:
        if self.type.is_float:
            _refuse("~", self.type)
        return self._with((logic.LogicalNotOp if self.type.is_boolean else bit.NotOp)(self.ssa))

    def __bool__(self) -> bool:
        raise KernelError(
            "a value of the kernel has no truth value while the kernel is traced",
            str(self.type),
            "branch with `with when(...)`, choose with select(...), combine with & and |",
        )

    def __index__(self) -> int:
        raise KernelError(
            "a value of the kernel cannot be used as a Python integer",
            str(self.type),
            "use xdsl_spirv.kernels.range, which writes a loop of the kernel",
        )

    def __float__(self) -> float:
        raise KernelError(
            "a value of the kernel cannot be used as a Python number",
            str(self.type),
            "use the functions of xdsl_spirv.kernels: sqrt, exp, floor, ...; convert with .to(f32)",
        )

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise KernelError(
            f"components of {self.type} cannot be assigned",
            "",
            "store to memory: x[i, j] = value",
        )

    def __iter__(self) -> NoReturn:
        raise KernelError(f"{self.type} cannot be iterated", "", "take its components: v[0]")

    # Components and conversions

    def __getitem__(self, component: int) -> Value:
        if self.type.lanes == 1 or not 0 <= component < self.type.lanes:
            raise KernelError(
                f"{self.type} has no component {component}",
                "",
                "index only vectors, from 0 to the number of components - 1",
            )
        extract = composite.CompositeExtractOp(self.ssa, [component])
        return Value(current().add(extract), self.type.element)

    def to(self, type: Type) -> Value:
        """
        Converts to another type with equally many components. A float rounds to nearest, or toward
        zero for an integer type. An integer is truncated or extended by its signedness.
        """
        old = self.type
        if type.lanes == 1:
            type = Type(type.name, old.lanes)
        if old == type:
            return self
        if old.lanes != type.lanes or type.is_boolean:
            remedy = (
                "compare with 0" if type.is_boolean else f"give a type of {old.lanes} components"
            )
            raise KernelError(f"{old} cannot be converted to {type}", "", remedy)
        if old.is_boolean:
            one, zero = constant(1, type), constant(0, type)
            return Value(current().add(logic.SelectOp(self.ssa, one.ssa, zero.ssa)), type)
        if old.is_float and type.is_float:
            kind: Any = conversion.FConvertOp
        elif old.is_float:
            kind = conversion.ConvertFToSOp if type.is_signed else conversion.ConvertFToUOp
        elif type.is_float:
            kind = conversion.ConvertSToFOp if old.is_signed else conversion.ConvertUToFOp
        elif old.width == type.width:
            return Value(self.ssa, type)
        else:
            kind = conversion.SConvertOp if old.is_signed else conversion.UConvertOp
        return Value(current().add(kind(self.ssa, type.attribute)), type)

    def _with(self, op: Any, type: Type | None = None) -> Value:
        return Value(current().add(op), type or self.type)

    def __repr__(self) -> str:
        return f"<a {self.type} of the kernel>"


def constant(value: float | bool | np.number[Any] | np.bool_, type: Type) -> Value:
    """Returns a number as a constant. Raises `KernelError` if the type cannot represent it."""
    value = _plain(value)
    if type.is_boolean:
        if type.lanes != 1 or not isinstance(value, bool):
            raise KernelError(f"{value!r} is not a value of {type}", "", "write True or False")
        code = current().code
        return Value(code.constant(BoolAttr.from_bool(value)), type)
    if not isinstance(value, int | float) or isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelError(f"{value!r} is not a value of {type}", "", "give a number")
    if not type.is_float:
        low = -(1 << (type.width - 1)) if type.is_signed else 0
        high = (1 << (type.width - 1 if type.is_signed else type.width)) - 1
        if isinstance(value, float) or not low <= value <= high:
            raise KernelError(
                f"{value} is not a value of {type.element}",
                "",
                f"give an integer from {low} to {high}",
            )
    return Value(current().code.number(value, type.attribute), type)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic | np.ndarray) and not value.shape else value


def value_of(value: Number, type: Type) -> Value:
    """Returns the value, or a number as a constant. Raises `KernelError` for other types."""
    if not isinstance(value, Value):
        return constant(value, type)
    if value.type != type:
        raise KernelError(f"expected {type}, got {value.type}", "", f"convert it: .to({type})")
    return value


def of_one_type(*values: Number) -> tuple[Value, ...]:
    """
    Converts the Python numbers among the operands to the common type of the other operands.

    Raises `KernelError` if the values have different types.
    """
    known = [value for value in values if isinstance(value, Value)]
    if not known:
        raise KernelError(
            f"{values} are Python numbers, not values of the kernel",
            "",
            "use Python's functions",
        )
    types = list(dict.fromkeys(value.type for value in known))
    if len(types) > 1:
        raise KernelError(
            f"values of {' and '.join(map(str, types))} cannot be combined",
            "",
            f"convert an operand, for example with .to({types[0]})",
        )
    return tuple(value_of(value, types[0]) for value in values)


def binary(symbol: str, left: Number, right: Number) -> Value:
    """Appends a binary operator's instruction to the kernel. Returns the result."""
    a, b = of_one_type(left, right)
    type = a.type
    column = 3 if type.is_boolean else 2 if type.is_float else 0 if type.is_signed else 1
    kind = _BY_TYPE[symbol][column]
    if kind is None:
        _refuse(symbol, type)
    result = Type(boolean.name, type.lanes) if symbol in COMPARISONS else type
    return Value(current().add(kind(a.ssa, b.ssa)), result)


def _refuse(symbol: str, type: Type) -> NoReturn:
    raise KernelError(f"the operator {symbol} does not support {type}", "", _REMEDY.get(symbol, ""))
