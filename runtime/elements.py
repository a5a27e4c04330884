"""
Maps names of element types: MLIR's in program.json, safetensors' codes, and numpy's dtypes.

Elements of less than eight bits take a byte each, as in numpy. safetensors has no codes for this
layout, so this package defines codes of its own. MLIR's integers have no signedness, so an `i8` in
a file may be signed or unsigned. The file states numpy's signed type. numpy is imported only when
an array is used, because compilation without weights then starts a tenth of a second faster.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

_TABLE = [
    ("f16", "F16", "float16"),
    ("bf16", "BF16", "bfloat16"),
    ("f32", "F32", "float32"),
    ("f64", "F64", "float64"),
    ("f8E4M3FN", "F8_E4M3", "float8_e4m3fn"),
    ("f8E5M2", "F8_E5M2", "float8_e5m2"),
    ("f8E4M3FNUZ", "F8_E4M3FNUZ", "float8_e4m3fnuz"),
    ("f8E5M2FNUZ", "F8_E5M2FNUZ", "float8_e5m2fnuz"),
    ("f8E8M0FNU", "F8_E8M0", "float8_e8m0fnu"),
    ("f6E2M3FN", "F6_E2M3_BYTE", "float6_e2m3fn"),
    ("f6E3M2FN", "F6_E3M2_BYTE", "float6_e3m2fn"),
    ("f4E2M1FN", "F4_E2M1_BYTE", "float4_e2m1fn"),
    ("i4", "I4_BYTE", "int4"),
    ("ui4", "U4_BYTE", "uint4"),
    ("i2", "I2_BYTE", "int2"),
    ("ui2", "U2_BYTE", "uint2"),
    ("i1", "BOOL", "bool"),
    ("i8", "I8", "int8"),
    ("i16", "I16", "int16"),
    ("i32", "I32", "int32"),
    ("i64", "I64", "int64"),
    ("ui8", "U8", "uint8"),
    ("ui16", "U16", "uint16"),
    ("ui32", "U32", "uint32"),
    ("ui64", "U64", "uint64"),
]
_DTYPES = {name: dtype for name, _, dtype in _TABLE}
NAMES_OF_CODES = {code: name for name, code, _ in _TABLE}
"""Element types by the dtype codes of the safetensors format."""


def check_element_type(name: str, place: str = "") -> None:
    """Raises `ProgramError` if `name` is not an element type of buffers."""
    if name not in _DTYPES:
        raise ProgramError(
            f"{name} is not an element type of buffers",
            place,
            f"use one of {', '.join(_DTYPES)}",
        )


def element_bytes(name: str) -> int:
    """Returns the size in bytes of an element of a type in a buffer."""
    check_element_type(name)
    bits = re.search(r"\d+", name)
    return max(1, int(bits.group()) // 8) if bits else 1


def dtype_of(name: str, place: str = "") -> np.dtype[Any]:
    """Returns the numpy dtype of an MLIR element type. Raises `ProgramError` if there is none."""
    import ml_dtypes
    import numpy as np

    check_element_type(name, place)
    dtype = _DTYPES[name]
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def scalar_bytes(value: float | bool, name: str, place: str = "") -> bytes:
    """
    Returns a number as one little-endian element.

    Raises `ProgramError` if the element type cannot represent the number.
    """
    import numpy as np

    dtype = dtype_of(name, place)
    try:
        if isinstance(value, float) and dtype.kind in "iub":
            raise TypeError
        return np.array(value, dtype).tobytes()
    except (OverflowError, TypeError, ValueError):
        raise ProgramError(
            f"{value} is not a value of {name}", place, f"give a number of type {name}"
        ) from None


def as_element_type(array: Array, name: str) -> Array | None:
    """
    Views `array` as elements of the type `name`. Returns None if it has another type.

    A signless integer type accepts signed and unsigned arrays. numpy's files store bfloat16 and
    float8 as raw bytes (`|V2`).
    """
    import numpy as np

    dtype = dtype_of(name)
    if array.dtype == dtype:
        return array
    either_sign = name.startswith("i") and name != "i1" and array.dtype.kind == "u"
    raw = dtype.kind == "V" and array.dtype.kind == "V" and array.dtype.type is np.void
    if array.dtype.itemsize == dtype.itemsize and (either_sign or raw):
        return np.ascontiguousarray(array).view(dtype)
    return None


def count_not_finite(array: Array) -> int:
    """Returns the number of elements that are NaN or infinite."""
    import numpy as np

    return int(np.count_nonzero(~np.isfinite(array.astype(np.float64))))
