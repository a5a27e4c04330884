"""
How a pass says no: one message with the cause, the operation, where it stands, and what to do.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects.places import place


def refuse(pass_name: str, op: Operation, cause: str) -> NoReturn:
    """
    Raise `PassFailedException`: `pass: place: cause`.

    `cause` names the numbers and ends with what would work.
    """
    raise PassFailedException(f"{pass_name}: {place(op)}: {cause}")
