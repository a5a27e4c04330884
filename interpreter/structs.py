"""
Packs named values into the bytes of a struct: push constants, uniform blocks.

Members have the struct's own offsets (interpreter/layout.py). A member is named by the module's
OpMemberName, or by its index if it has no name. Every member must be given, because there are no
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.constants import given_scalar
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.layout import Layout, Placed, plain_type
from xdsl_spirv.interpreter.numbers import I64, DType, scalar_dtype
from xdsl_spirv.interpreter.source.source_map import map_of

PushConstants: TypeAlias = bytes | Mapping[str, Any]
"""A launch's push constants: their bytes, or a mapping from the names of members to values."""


def member_names(module: Operation, struct: Attribute) -> list[str]:
    """
    Returns the names of a struct's members in order. For a member without a name, returns its
    index.
    """
    if not isinstance(struct, spv.StructType):
        return []
    source = map_of(module)
    names = {} if source is None else source.names.members_of(struct)
    return [names.get(number, str(number)) for number in range(len(struct.member_types))]


def push_constant_block(module: Operation) -> spv.StructType | None:
    """Returns the struct type of a module's push constants, or None if it has none."""
    for op in module.regions[0].block.ops:
        if isinstance(op, spv.GlobalVariableOp):
            pointee = op.type.pointee
            if op.type.storage_class.data is spv.StorageClass.PushConstant:
                return pointee if isinstance(pointee, spv.StructType) else None
    return None


def pack_struct(
    module: Operation, struct: spv.StructType, values: Mapping[str, Any], layout: Layout
) -> bytes:
    """
    Packs the values of a struct's members into bytes that end after the last member.

    Vectors are lists of components, matrices are lists of columns, arrays are lists of elements (or
    numpy arrays of the same shape), and structs are mappings. Raises `InterpreterError` for a
    member that is missing, unknown, or of another shape.
    """
    data = bytearray(layout.extent(struct))
    _write_struct(data, 0, module, struct, values, layout, "")
    return bytes(data)


def _write_struct(
    data: bytearray,
    start: int,
    module: Operation,
    struct: spv.StructType,
    values: Any,
    layout: Layout,
    path: str,
) -> None:
    names = member_names(module, struct)
    if not isinstance(values, Mapping):
        raise _refusal(
            f"the member {path.removesuffix('.')} is a struct of {', '.join(names)}",
            "give a mapping of its members",
        )
    unknown = sorted(set(map(str, values)) - set(names))
    if unknown:
        raise _refusal(
            f"the struct has no member {path}{unknown[0]}", f"its members are {', '.join(names)}"
        )
    for number, name in enumerate(names):
        if name not in values:
            raise _refusal(
                f"the member {path}{name} has no value", f"give all of: {', '.join(names)}"
            )
        at = start + layout.offset(struct, number)
        part = layout.member(struct, number)
        _write(data, at, module, part, values[name], layout, f"{path}{name}")


def _write(
    data: bytearray,
    at: int,
    module: Operation,
    type: Placed,
    value: Any,
    layout: Layout,
    path: str,
) -> None:
    plain = plain_type(type)
    if isinstance(plain, spv.StructType):
        return _write_struct(data, at, module, plain, value, layout, f"{path}.")
    dtype = scalar_dtype(plain)
    if dtype is not None:
        return _write_number(data, at, dtype, value, path)
    if isinstance(plain, spv.PointerType):
        return _write_number(data, at, I64, value, path)
    count, stride, element = layout.count(plain), layout.stride(type), layout.element(type)
    if isinstance(value, str | Mapping) or not np.ndim(value) or len(value) != count:
        raise _refusal(f"the member {path} is {plain}", f"give a list of {count} elements")
    for number, part in enumerate(value):
        _write(data, at + number * stride, module, element, part, layout, f"{path}[{number}]")
    return None


def _write_number(data: bytearray, at: int, dtype: DType, value: Any, path: str) -> None:
    try:
        octets = given_scalar(value, dtype, f"the member {path}").tobytes()
    except ValueError as error:
        remedy = "give one number that the type can hold"
        raise _refusal(str(error), remedy) from None
    data[at : at + len(octets)] = octets


def _refusal(cause: str, remedy: str) -> InterpreterError:
    return InterpreterError(cause, "push_constants", remedy)
