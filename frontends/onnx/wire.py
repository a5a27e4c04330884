"""Checks a serialized model for invalid names and unknown element types."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError

STRING = 9
"""Protobuf's code for string fields."""


def refuse_strange(model: Any, place: str) -> None:
    """Raises `FrontendError` for names that are not UTF-8, and for unknown element types."""
    onnx: Any = import_module("onnx")
    known = set(onnx.TensorProto.DataType.values())
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if isinstance(message, onnx.TensorProto):
            # The data of a tensor may be large, so it is not checked.
            _refuse_bytes(message.name, place)
            _refuse_number(message.data_type, known, message.name, place)
            continue
        for field, value in message.ListFields():
            values = value if hasattr(value, "extend") else (value,)
            if field.message_type is not None:
                waiting += values
            elif field.type == STRING:
                for text in values:
                    _refuse_bytes(text, place)
            elif field.name == "elem_type":
                _refuse_number(value, known, "", place)


def _refuse_bytes(text: str | bytes, place: str) -> None:
    if isinstance(text, bytes):
        raise FrontendError(
            f"the model is not valid: a name is not UTF-8: {text[:40]!r}", place, "export it again"
        )


def _refuse_number(number: int, known: set[int], name: str, place: str) -> None:
    if number not in known:
        whose = f" of {name!r}" if name else ""
        raise FrontendError(
            f"the model is not valid: {number} is not an element type{whose}",
            place,
            "export it again",
        )
