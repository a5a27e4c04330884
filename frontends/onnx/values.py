"""Represents tensors during import: element type with signedness, sizes, and data if known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX as OPEN
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Element:
    """
    An element type: MLIR's name with signedness (`ui8`), and the types in MLIR and numpy.

    A type of fewer than 8 bits, or a float without device support, is stored in a byte. `narrow` is
    then the type in which devices compute with its elements.
    """

    name: str
    type: Attribute
    dtype: np.dtype[Any]
    narrow: Element | None = None

    @cached_property
    def is_float(self) -> bool:
        return isinstance(self.type, AnyFloat)

    @cached_property
    def is_bool(self) -> bool:
        return self.name == "i1"

    @cached_property
    def is_signed(self) -> bool:
        """True for signed integers."""
        return not self.is_float and not self.is_bool and self.name[0] == "i"

    @cached_property
    def is_narrow_float(self) -> bool:
        """True for floats without device support, which can only be copied and converted."""
        return self.narrow is F32

    @property
    def computed(self) -> Element:
        """Returns the type in which devices compute elements of this type."""
        return self.narrow or self

    @cached_property
    def bits(self) -> int:
        return int(re.findall(r"\d+", self.name)[0])

    @property
    def least(self) -> float | int:
        """Returns the least number; minus infinity for floats."""
        return (
            -np.inf
            if self.is_float
            else 0
            if self.is_bool
            else int(ml_dtypes.iinfo(self.dtype).min)
        )

    @property
    def greatest(self) -> float | int:
        """Returns the greatest number; infinity for floats."""
        return (
            np.inf if self.is_float else 1 if self.is_bool else int(ml_dtypes.iinfo(self.dtype).max)
        )

    def __str__(self) -> str:
        return self.name


def _integer(name: str) -> Element:
    bits = int(name.lstrip("ui"))
    return Element(
        name, IntegerType(bits), np.dtype(("u" if name[0] == "u" else "") + f"int{bits}")
    )


F16 = Element("f16", Float16Type(), np.dtype(np.float16))
BF16 = Element("bf16", BFloat16Type(), np.dtype(ml_dtypes.bfloat16))
F32 = Element("f32", Float32Type(), np.dtype(np.float32))
F64 = Element("f64", Float64Type(), np.dtype(np.float64))
BOOL = Element("i1", IntegerType(1), np.dtype(np.bool_))
I8, I16, I32, I64 = map(_integer, ("i8", "i16", "i32", "i64"))
U8, U16, U32, U64 = map(_integer, ("ui8", "ui16", "ui32", "ui64"))


def _narrow(name: str, dtype: str, computed: Element) -> Element:
    return Element(name, IntegerType(8), np.dtype(getattr(ml_dtypes, dtype)), computed)


NARROW = (
    _narrow("f8E4M3FN", "float8_e4m3fn", F32),
    _narrow("f8E4M3FNUZ", "float8_e4m3fnuz", F32),
    _narrow("f8E5M2", "float8_e5m2", F32),
    _narrow("f8E5M2FNUZ", "float8_e5m2fnuz", F32),
    _narrow("f8E8M0FNU", "float8_e8m0fnu", F32),
    _narrow("f6E2M3FN", "float6_e2m3fn", F32),
    _narrow("f6E3M2FN", "float6_e3m2fn", F32),
    _narrow("f4E2M1FN", "float4_e2m1fn", F32),
    _narrow("i4", "int4", I8),
    _narrow("ui4", "uint4", U8),
    _narrow("i2", "int2", I8),
    _narrow("ui2", "uint2", U8),
)
ELEMENTS = {
    element.name: element
    for element in (F16, BF16, F32, F64, BOOL, I8, I16, I32, I64, U8, U16, U32, U64, *NARROW)
}


def element_of(dtype: np.dtype[Any]) -> Element:
    """Returns the element type of a numpy dtype. Raises `ValueError` for an unsupported dtype."""
    for element in ELEMENTS.values():
        if element.dtype == dtype:
            return element
    raise ValueError(f"elements of the type {dtype} are not supported")


def sum_element(element: Element) -> Element:
    """Returns the type of accumulators: f32 for narrow floats, else the type itself."""
    return F32 if element.is_float and element.bits < 32 else element


class Tensor:
    """
    A tensor of the model.

    `known` is an array of the elements if they are known: numbers, or sizes (`Size`) as integers.
    `value` is the SSA value. It is None for a known tensor that no operation has used yet.
    """

    def __init__(
        self,
        element: Element,
        sizes: Sequence[Size],
        value: SSAValue | None = None,
        known: Array | None = None,
        name: str = "",
    ):
        self.element = element
        self.sizes = tuple(sizes)
        self.value = value
        self.known = known
        self.name = name
        """Name of the tensor, if it is a weight."""
        self.progression: tuple[Size, int] | None = None
        """
        First number and step along the last axis, if all rows are equal arithmetic progressions;
        (1, 0) means ones.
        """

    @staticmethod
    def of(array: Array, name: str = "") -> Tensor:
        """Makes a constant. Raises `ValueError` for an unsupported element type."""
        return Tensor(element_of(array.dtype), array.shape, known=array, name=name)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def type(self) -> TensorType[Attribute]:
        return tensor_type(self.element, self.sizes)

    @property
    def numbers(self) -> Array | None:
        """Returns the data if it consists of numbers, else None."""
        if self.known is None or self.known.dtype != object:
            return self.known
        if any(isinstance(getattr(item, "size", item), SymbolicSize) for item in self.known.flat):
            return None
        return self.known.astype(self.element.dtype)

    def __str__(self) -> str:
        sizes = [
            text if text.isidentifier() or text.isdigit() else f"({text})"
            for text in map(str, self.sizes)
        ]
        return "x".join([*sizes, str(self.element)])


class Front(Tensor):
    """The first elements of a state along an axis; `whole` is the current value of the state."""

    def __init__(
        self, state: SSAValue, whole: Tensor, sizes: Sequence[Size], axis: int, value: SSAValue
    ):
        super().__init__(whole.element, sizes, value)
        self.state = state
        self.whole = whole
        self.axis = axis


class Listed(Tensor):
    """
    A sequence of tensors, or an empty optional value. It exists only during import.

    Use as a tensor raises `TypeError`.
    """

    remedy = "get a tensor with SequenceAt, ConcatFromSequence or OptionalGetElement"

    def __init__(self, items: Sequence[Tensor] | None):
        self.items = items
        self.kind = "an empty optional value" if items is None else "a sequence"

    def __getattr__(self, name: str) -> NoReturn:
        raise TypeError(f"{self.kind} is used as a tensor")


class Chosen(Listed):
    """A tensor whose size along an axis depends on data (see the module `chosen`)."""

    remedy = "sum or count the elements, or cut the model before this node"

    def __init__(self, candidates: Tensor, axis: int, mask: Tensor | None):
        super().__init__(())
        self.kind = "a list whose length depends on data"
        self.candidates = candidates
        """All elements that the list may contain, as one tensor."""
        self.axis = axis
        self.mask = mask
        """
        For each index of the axis, True if the element is in the list. None if the list repeats one
        element: the number of repetitions is not known.
        """


def tensor_type(element: Element, sizes: Sequence[Size]) -> TensorType[Attribute]:
    """Returns the MLIR type of a tensor."""
    return TensorType(element.type, [s if isinstance(s, int) else OPEN for s in sizes])
