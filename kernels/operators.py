"""Gives the values of a kernel Python's operators."""

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
"""numpy's names of operators."""
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
            raise KernelError(
                f"numpy cannot compute the {ufunc.__name__} of a value of the kernel",
                str(self.type),
                "use the functions of xdsl_spirv.kernels: sqrt, exp, floor, ...",
            )
        return self.binary(symbol, *inputs)
