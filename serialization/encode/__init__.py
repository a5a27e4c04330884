"""Defines the encoder's error. Its message gives the cause, the operation, and what to do."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException


class SPIRVEncodeError(DiagnosticException):
    """
    Error for a module that has no SPIR-V form.

    `cause` says what is wrong and what to do. `op` is the operation at fault.
    """

    def __init__(self, cause: str, op: Operation | None = None):
        self.cause = cause
        self.op = op
        place = "" if op is None else f"{describe(op)}: "
        super().__init__(f"cannot encode SPIR-V: {place}{cause}")


def describe(op: Operation) -> str:
    """
    Returns an operation's name, symbol, function and (if known) source location, for example:

    `spirv.IAdd in @main at kernel.mlir:12:5`
    """
    text = op.name
    symbol = _symbol(op)
    if symbol is not None:
        text += f" @{symbol}"
    parent = op.parent_op()
    while parent is not None:
        symbol = _symbol(parent)
        if symbol is not None:
            text += f" in @{symbol}"
            break
        parent = parent.parent_op()
    if isinstance(op.location, FileLineColLoc):
        where = op.location
        text += f" at {where.filename.data}:{where.line.data}:{where.column.data}"
    return text


def _symbol(op: Operation) -> str | None:
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None
