"""
How a pass says no: one message with the cause, the operation, where it stands, and what to do.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException


def place(op: Operation) -> str:
    """`'linalg.generic' (%0) in @main`, with the source location where the parser kept one."""
    names = [r.name_hint for r in op.results if r.name_hint]
    text = f"'{op.name}'" + (f" (%{', %'.join(names)})" if names else "")
    parent = op
    while (parent := parent.parent_op()) is not None:
        symbol = parent.properties.get("sym_name") or parent.attributes.get("sym_name")
        if isinstance(symbol, StringAttr):
            text += f" in @{symbol.data}"
            break
    if not isinstance(op.location, UnknownLoc):
        text += f" at {op.location}"
    return text


def refuse(pass_name: str, op: Operation, cause: str) -> NoReturn:
    """
    Raise `PassFailedException`: `pass: place: cause`.

    `cause` names the numbers and ends with what would work.
    """
    raise PassFailedException(f"{pass_name}: {place(op)}: {cause}")
