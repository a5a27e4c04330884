"""
Finds the source names of a module's variables and of their parts.

An access is written as in the source: `tile[3]`, `result.y[7]`, `Input.x[1].w`. Names come from
symbols and OpMemberName. A buffer without a name (a GLSL block without an instance name) gets the
name of its block. If a block has a single member without a name of the source (`@data`,
`__member0`), the member is omitted. Messages show symbols if no known compiler produced the module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xdsl.dialects.builtin import IntAttr, StringAttr, VectorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter.source.debug_info import entry_of

SYMBOL = re.compile(r"@([A-Za-z_$.][\w$.]*)")
UNNAMED = re.compile(r"variable(_\d+)?|")
"""Pattern of the symbols that the decoder creates for unnamed variables."""
COMPONENTS = "xyzw"


class Names:
    """The source names of one module. It stores no reference to operations."""

    def __init__(self, module: ModuleOp):
        self._members: dict[Attribute, dict[int, str]] = {}
        self._types: dict[str, Attribute] = {}
        self._buffers: dict[tuple[int, ...], str] = {}
        self.compiled = False
        """True if the module declares that it was compiled from source."""
        for op in module.body.block.ops:
            if isinstance(op, spv.ModuleVariable):
                self._add_variable(op)
            elif isinstance(op, spv.RawGlobalOp):
                self._read(op)

    def _add_variable(self, op: spv.ModuleVariable) -> None:
        pointer = op.properties.get("type")
        if isinstance(pointer, spv.PointerType):
            self._types[op.sym_name.data] = pointer.pointee
        if op.descriptor_set is not None and op.binding is not None:
            place = op.descriptor_set.value.data, op.binding.value.data
            self._buffers.setdefault(place, op.sym_name.data)

    def _read(self, op: spv.RawGlobalOp) -> None:
        name = op.instruction.data
        self.compiled = self.compiled or name == "OpSource" or entry_of(op) is not None
        if name != "OpMemberName":
            return
        match op.layout.data:
            case (spv.StructType() as type, IntAttr() as number, StringAttr() as text):
                self._members.setdefault(type, {})[number.data] = text.data
            case _:
                pass

    def variable(self, symbol: str) -> str:
        """Returns the source name of a module variable."""
        type = self._types.get(symbol)
        if UNNAMED.fullmatch(symbol) and isinstance(type, spv.StructType) and type.identifier.data:
            return type.identifier.data
        return symbol

    def renamed(self, text: str) -> str:
        """Replaces the symbols of variables in a message by source names."""
        if not self.compiled:
            return text

        def name(match: re.Match[str]) -> str:
            return f"`{self.variable(match[1])}`" if match[1] in self._types else match[0]

        return SYMBOL.sub(name, text)

    def buffer(self, place: tuple[int, ...]) -> str:
        """
        Returns the name of the buffer at (set, binding). For an array of buffers, `place` has an
        index, too.
        """
        where = f"set {place[0]}, binding {place[1]}"
        symbol = self._buffers.get(place) if self.compiled else None
        return f"`{self.variable(symbol)}` ({where})" if symbol else where

    def buffer_element(self, place: tuple[int, ...], number: int, bytes: int) -> str:
        """Returns the name of an element of the array that is passed as a buffer."""
        symbol = self._buffers.get(place)
        name = self.element(f"@{symbol}", number * bytes, {}) if symbol else ""
        return f"`{name}`" if name else f"element {number} of {self.buffer(place)}"

    def element(self, label: str, byte: int, lengths: Mapping[str, int]) -> str:
        """
        Returns the name of the part of a variable that contains a byte. Returns "" if it is not
        known.
        """
        symbol = SYMBOL.search(label)
        type = self._types.get(symbol[1]) if symbol else None
        if symbol is None or type is None or not self.compiled:
            return ""
        try:
            return self.variable(symbol[1]) + self._path(type, byte, lengths)
        except (VerifyException, ValueError, ZeroDivisionError):
            return ""

    def _path(self, type: Attribute, byte: int, lengths: Mapping[str, int]) -> str:
        """Returns the access path to the part of a value that contains a byte, such as `[3].x`."""
        path, columns = "", 0
        while True:
            match type:
                case spv.StructType():
                    offsets = spv.member_offsets(type, lengths=lengths)
                    number = max(n for n, offset in enumerate(offsets) if offset <= byte)
                    byte -= offsets[number]
                    path += self.member(type, number)
                    columns = _column_stride(type, number)
                    type = type.member_types[number]
                case spv.ArrayType() | spv.RuntimeArrayType():
                    number, byte = divmod(byte, spv.array_stride(type, lengths=lengths))
                    path += f"[{number}]"
                    type = type.element_type
                case spv.MatrixType() if columns is None:
                    return path
                case spv.MatrixType():
                    number, byte = divmod(byte, columns or spv.matrix_stride(type))
                    path += f"[{number}]"
                    type = type.column_type
                case VectorType():
                    number = byte // spv.scalar_bytes(type.element_type)
                    few = number < len(COMPONENTS)
                    # The first byte of a vector stands for the whole vector.
                    step = f".{COMPONENTS[number]}" if few else f"[{number}]"
                    return path + step if number else path
                case _:
                    return path

    def members_of(self, type: spv.StructType) -> Mapping[int, str]:
        """Returns the names of a struct's named members by index."""
        return self._members.get(type, {})

    def member(self, type: spv.StructType, number: int) -> str:
        """Returns the text that accesses a member of a struct, such as `.x`."""
        name = self.members_of(type).get(number, "")
        if name.isidentifier() and not name.startswith("__"):
            return f".{name}"
        return "" if len(type.member_types) == 1 else f".member{number}"


def _column_stride(struct: spv.StructType, number: int) -> int | None:
    """
    Returns the bytes from one column of a matrix member to the next. Returns 0 if the stride is not
    declared, and None for a row-major matrix.
    """
    said = {
        decoration.decoration.data: decoration.value for decoration in struct.decorations_of(number)
    }
    stride = said.get(spv.Decoration.MatrixStride)
    if spv.Decoration.RowMajor in said:
        return None
    return stride.data if isinstance(stride, IntAttr) else 0
