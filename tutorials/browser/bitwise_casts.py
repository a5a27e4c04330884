"""Replaces xDSL's `xdsl.utils.bitwise_casts` in the browser: WebAssembly has no ctypes."""

import numpy as np


def _cast(value: float, source: type[np.generic], target: type[np.generic]) -> float | int:
    with np.errstate(over="ignore"):
        return np.array(value, source).view(target).item()


def convert_f16_to_u16(value: float) -> int:
    if np.isfinite(value) and np.isinf(_cast(value, np.float16, np.float16)):
        raise OverflowError("float too large to pack with e format")
    return _cast(value, np.float16, np.uint16)


def convert_u16_to_f16(value: int) -> float:
    return _cast(value, np.uint16, np.float16)


def convert_f32_to_u32(value: float) -> int:
    return _cast(value, np.float32, np.uint32)


def convert_u32_to_f32(value: int) -> float:
    return _cast(value, np.uint32, np.float32)


def convert_f64_to_u64(value: float) -> int:
    return _cast(value, np.float64, np.uint64)


def convert_u64_to_f64(value: int) -> float:
    return _cast(value, np.uint64, np.float64)


def is_power_of_two(value: int) -> bool:
    return value > 0 and value.bit_count() == 1
