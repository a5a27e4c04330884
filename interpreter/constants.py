"""Converts constant attributes to arrays. All bits are preserved, including NaN payloads."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    ContainerType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute

from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Form, Plain
from xdsl_spirv.interpreter.numbers import (
    BOOL,
    F32,
    F64,
    Array,
    DType,
    is_small_float,
    raw_dtype,
    scalar_dtype,
)
from xdsl_spirv.upstream.held_tensors import HeldTensorAttr, resource_bytes


def scalar(number: Any, dtype: DType) -> Array:
    """
    Converts a Python number to a 0-d array. An integer wraps modulo 2^N, a float is rounded to
    nearest even.
    """
    if dtype == BOOL:
        return np.array(bool(number), dtype)
    if dtype.kind in "iu":
        bits = int(number) & ((1 << dtype.itemsize * 8) - 1)
        return np.array(bits, raw_dtype(dtype)).view(dtype)
    if is_small_float(dtype):
        return np.array(number, F64).astype(F32).astype(dtype)
    return np.array(number, F64).astype(dtype)


def given_scalar(number: Any, dtype: DType, name: str) -> Array:
    """
    Converts a number given by the caller to a 0-d array.

    An integer may be signed or unsigned. A float is rounded. Raises ValueError, with the `name`, if
    the type cannot represent the number.
    """
    if not _is_number(number):
        raise ValueError(f"{name} must be one number, not {number!r}")
    if dtype == BOOL:
        if number not in (0, 1):
            raise ValueError(f"{name} must be true or false, not {number}")
    elif dtype.kind in "iu":
        bits = dtype.itemsize * 8
        low, high = -(1 << bits - 1), (1 << bits) - 1
        if not low <= number <= high or number != int(number):
            raise ValueError(f"{name} must be an integer of {bits} bits, not {number}")
    with np.errstate(over="ignore"):
        array = scalar(number, dtype)
    if np.isfinite(float(number)) and not np.isfinite(array.astype(F64)):
        raise ValueError(f"{name} must be a float of {dtype.itemsize * 8} bits, not {number}")
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.generic | np.ndarray) and not np.ndim(value)  # pyright: ignore


def attribute_array(attribute: Attribute) -> Array:
    """
    Converts a dense attribute to an array of its shape, and a number attribute to a 0-d array.
    """
    if isinstance(attribute, IntegerAttr | FloatAttr):
        dtype = scalar_dtype(attribute.type)
        if dtype is None:
            raise InterpreterError(f"constants of type {attribute.type} are not supported")
        return scalar(attribute.value.data, dtype)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return _dense(attribute)
    if isinstance(attribute, DenseResourceAttr):
        return _resource(attribute)
    if isinstance(attribute, HeldTensorAttr):
        return attribute.array
    raise InterpreterError(f"constants like {attribute} are not supported")


def _dense(attribute: DenseIntOrFPElementsAttr) -> Array:
    dtype = scalar_dtype(attribute.get_element_type())
    if dtype is None:
        raise InterpreterError(f"constants of type {attribute.type} are not supported")
    shape = attribute.get_shape()
    array = _bits(attribute.data.data, dtype)
    if array.size == 1 and shape:
        return np.broadcast_to(array.reshape((1,) * len(shape)), shape)
    return array.reshape(shape)


def _resource(attribute: DenseResourceAttr) -> Array:
    data = resource_bytes(attribute)
    type = attribute.type
    dtype = scalar_dtype(type.get_element_type()) if isinstance(type, ContainerType) else None
    if data is None or dtype is None:
        raise InterpreterError(
            f"dense_resource<{attribute.resource_handle.data}> has no data",
            remedy="the module's file must end with its dialect_resources section",
        )
    return _bits(data, dtype).reshape(type.get_shape())


def _bits(data: bytes, dtype: DType) -> Array:
    """Reads elements from raw bytes. A bool is true for any byte except 0."""
    if dtype == BOOL:
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, dtype)


def constant_value(attribute: Attribute, type: Attribute, context: Context) -> Any:
    """Converts a constant of any type to a value that is uniform over the invocations."""
    return _value(attribute, context.form(type))


def _value(attribute: Attribute, form: Form) -> Any:
    if isinstance(form, CooperativeMatrix):
        array = attribute_array(attribute).reshape(-1)
        if array.size != 1:
            raise InterpreterError("CM-08: a constant cooperative matrix must have one constituent")
        component = array.astype(form.carrier).reshape(1, 1, 1, 1)
        return np.broadcast_to(component, (1, 1, form.rows, form.columns))
    if isinstance(form, Composite):
        if not isinstance(attribute, ArrayAttr):
            raise InterpreterError(
                f"the constant of a composite must list its members, not be {attribute}"
            )
        return tuple(_value(a, m) for a, m in zip(attribute.data, form.members, strict=True))
    assert isinstance(form, Plain)
    array = _plain_array(attribute)
    if array.shape != form.shape:
        array = np.broadcast_to(array, form.shape)
    return array.astype(form.dtype, copy=False).reshape(1, 1, 1, *form.shape)


def _plain_array(attribute: Attribute) -> Array:
    if isinstance(attribute, ArrayAttr):
        return np.stack([_plain_array(a) for a in attribute.data])
    return attribute_array(attribute)
