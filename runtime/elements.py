"""
Element types on disk: MLIR's name in program.json, safetensors' code in the weights, numpy's dtype.

MLIR's integers have no sign, so an `i8` in a file may be either; it is kept as numpy's signed type.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xdsl_spirv.runtime.errors import ProgramError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_TABLE: list[tuple[str, str, Any]] = [
    ("f16", "F16", np.float16),
    ("bf16", "BF16", ml_dtypes.bfloat16),
    ("f32", "F32", np.float32),
    ("f64", "F64", np.float64),
    ("f8E4M3FN", "F8_E4M3", ml_dtypes.float8_e4m3fn),
    ("f8E5M2", "F8_E5M2", ml_dtypes.float8_e5m2),
    ("i1", "BOOL", np.bool_),
    ("i8", "I8", np.int8),
    ("i16", "I16", np.int16),
    ("i32", "I32", np.int32),
    ("i64", "I64", np.int64),
    ("ui8", "U8", np.uint8),
    ("ui16", "U16", np.uint16),
    ("ui32", "U32", np.uint32),
    ("ui64", "U64", np.uint64),
]
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, _, kind in _TABLE}
CODES: dict[str, str] = {name: code for name, code, _ in _TABLE}
"""Element type name -> the dtype code of the safetensors format."""


def dtype_of(name: str, place: str = "") -> np.dtype[Any]:
    """The dtype of an element type by its MLIR name; raises `ProgramError` for an unknown one."""
    if name not in DTYPES:
        raise ProgramError(
            f"{name} is not an element type a buffer can have",
            place,
            f"use one of {', '.join(DTYPES)}",
        )
    return DTYPES[name]


def as_element_type(array: Array, name: str) -> Array | None:
    """
    `array` seen as elements of the type `name`; None if it is of another type.

    A signless integer takes either sign. numpy's files keep bfloat16 and float8 as raw bytes
    (`|V2`).
    """
    dtype = dtype_of(name)
    if array.dtype == dtype:
        return array
    either_sign = name.startswith("i") and name != "i1" and array.dtype.kind == "u"
    raw = dtype.kind == "V" and array.dtype.kind == "V" and array.dtype.type is np.void
    if array.dtype.itemsize == dtype.itemsize and (either_sign or raw):
        return np.ascontiguousarray(array).view(dtype)
    return None
