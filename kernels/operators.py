"""Defines Python's operators on the values of a kernel."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.kernels.types import Type

SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//",
    "remainder": "%", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "left_shift": "<<", "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
"""Maps the names of numpy's functions to Python's operators."""
REFUSED = {
    "matmul": ("the operator @", "multiply matrices with multiply_add(a, b, c)"),
    "power": ("the operator **", "multiply: x * x"),
    "absolute": ("abs()", "use absolute(x), or maximum(x, -x) for tiles"),
    "invert": ("the operator ~", "compare the other way, or choose with where(...)"),
    "positive": ("the unary operator +", "leave it out"),
    "divmod": ("divmod()", "divide and subtract"),
}
"""Maps the name of a numpy function to the operator that values or tiles lack, and the remedy."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class Operators(NDArrayOperatorsMixin):
    """Base class of a kernel's values. Python's operators on them call `binary`."""

    __slots__ = ()
    __hash__: ClassVar[Any] = object.__hash__
    type: Type

    @abstractmethod
    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        """Appends a binary operator to the kernel. Returns the result."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Applies an operator. Raises `KernelError` for other numpy functions."""
        symbol = SYMBOLS.get(ufunc.__name__)
        if symbol is None or method != "__call__" or len(inputs) != 2:
            other = (
                f"numpy's {ufunc.__name__}",
                "use the functions of xdsl_spirv.kernels: sqrt, ...",
            )
            written, instead = REFUSED.get(ufunc.__name__, other)
            raise KernelError(
                f"{written} cannot be used on a value of a kernel", str(self.type), instead
            )
        return self.binary(symbol, *inputs)
