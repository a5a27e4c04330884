"""
Holds the elements of a tensor attribute as an array, which is printed as a resource.

xDSL 0.74 keeps a `dense_resource`'s elements as hexadecimal text, four copies of a large weight
between a file and a program, for as long as the process lives. The pull request: resources are kept
as bytes, and only read and printed as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin, DenseResourceAttr
from xdsl.ir import Attribute, BuiltinAttribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

HEADER = "04000000"
"""A resource's bytes begin with its alignment, a 32-bit integer."""


@dataclass(frozen=True, eq=False)
class HeldTensor:
    """A tensor's elements; `key` is their name in a module's text."""

    key: str
    type: Attribute
    array: Array


@irdl_attr_definition
class HeldTensorAttr(Data[HeldTensor], BuiltinAttribute):
    """
    The elements of a tensor, by reference: an attribute is only equal to itself.

    It prints as `dense_resource<key> : type`, and so is parsed as one of xDSL's own resources. If
    two tensors in a process have the same key, the text's resources hold the one printed last.
    """

    name = "held_tensor"

    @property
    def array(self) -> Array:
        return self.data.array

    def print_builtin(self, printer: Printer) -> None:
        key = re.sub(r"[^A-Za-z0-9_.]", lambda character: f"${ord(character[0]):x}", self.data.key)
        _RESOURCES.arrays[key] = self.array
        printer.print_string("dense_resource<")
        printer.print_resource_handle("builtin", key)
        printer.print_string("> : ")
        printer.print_attribute(self.data.type)

    def print_parameter(self, printer: Printer) -> None:
        self.print_builtin(printer)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> HeldTensor:
        parser.raise_error("a held tensor is parsed as dense_resource")


class _Resources(OpAsmDialectInterface):
    """xDSL's resources, and the tensors that were printed, for as long as these are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: WeakValueDictionary[str, Array] = WeakValueDictionary()

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        keys = list(keys)
        held = {key: array for key in keys if (array := self.arrays.get(key)) is not None}
        texts = {key: f"0x{HEADER}{array.tobytes().hex()}" for key, array in held.items()}
        return super().build_resources(keys) | texts


def resource_bytes(value: DenseResourceAttr) -> bytes | None:
    """The elements of one of xDSL's own resources; None if the text has no data for it."""
    blob = _RESOURCES.lookup(value.resource_handle.data)
    return bytes.fromhex(blob.removeprefix("0x"))[len(HEADER) // 2 :] if blob else None


def has_data(value: Attribute) -> bool:
    """Whether the elements of a constant are known: False only for a resource without data."""
    if not isinstance(value, DenseResourceAttr):
        return True
    return bool(_RESOURCES.lookup(value.resource_handle.data))


def let_print(ctx: Context) -> None:
    """Makes modules with held tensors printable: xDSL gets resources from the loaded dialects."""
    ctx.get_optional_dialect(Builtin.name)


def _install() -> _Resources:
    """Let the builtin dialect print held tensors with its own resources."""
    interfaces = Builtin._interfaces  # pyright: ignore[reportPrivateUsage]
    own = _Resources()
    for number, interface in enumerate(interfaces):
        if isinstance(interface, OpAsmDialectInterface):
            own._blob_storage = interface._blob_storage  # pyright: ignore[reportPrivateUsage]
            interfaces[number] = own
    return own


_RESOURCES = _install()
