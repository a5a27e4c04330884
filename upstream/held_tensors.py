"""
Stores the elements of a tensor attribute as an array, which is printed as a resource.

xDSL 0.74 stores the elements of a `dense_resource` as hexadecimal text. A large weight then has
four copies in memory until the process ends. A pull request to xDSL would store resources as
bytes, and convert them to text only for printing.
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
"""The first four bytes of a resource in hexadecimal. They state its alignment."""


@dataclass(frozen=True, eq=False)
class HeldTensor:
    """The elements of a tensor. `key` is the key of their resource in a printed module."""

    key: str
    type: Attribute
    array: Array


@irdl_attr_definition
class HeldTensorAttr(Data[HeldTensor], BuiltinAttribute):
    """
    A tensor attribute that stores its elements as an array. It equals only itself.

    The attribute prints as `dense_resource<key> : type`, which parses as xDSL's resource attribute.
    If several tensors of a process share a key, a printed module contains the elements of the
    tensor that was printed last.
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
        parser.raise_error("a held_tensor cannot be parsed: write dense_resource<key> : type")


class _Resources(OpAsmDialectInterface):
    """The resources of xDSL, and the arrays of all printed tensors that still exist."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: WeakValueDictionary[str, Array] = WeakValueDictionary()

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        keys = list(keys)
        held = {key: array for key in keys if (array := self.arrays.get(key)) is not None}
        texts = {key: f"0x{HEADER}{array.tobytes().hex()}" for key, array in held.items()}
        return super().build_resources(keys) | texts


def resource_bytes(value: DenseResourceAttr) -> bytes | None:
    """
    Returns the bytes of a resource attribute. Returns None if the parsed text had no data for it.
    """
    blob = _RESOURCES.lookup(value.resource_handle.data)
    return bytes.fromhex(blob.removeprefix("0x"))[len(HEADER) // 2 :] if blob else None


def has_data(value: Attribute) -> bool:
    """True unless the attribute is a resource without data."""
    if not isinstance(value, DenseResourceAttr):
        return True
    return bool(_RESOURCES.lookup(value.resource_handle.data))


def let_print(ctx: Context) -> None:
    """Loads the dialect `builtin`, so that xDSL prints tensors whose elements are arrays."""
    ctx.get_optional_dialect(Builtin.name)


def _install() -> _Resources:
    interfaces = Builtin._interfaces  # pyright: ignore[reportPrivateUsage]
    own = _Resources()
    for number, interface in enumerate(interfaces):
        if isinstance(interface, OpAsmDialectInterface):
            own._blob_storage = interface._blob_storage  # pyright: ignore[reportPrivateUsage]
            interfaces[number] = own
    return own


_RESOURCES = _install()
