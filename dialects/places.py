"""Describes where an operation stands: in words, and by the names of a model's nodes."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.linalg.ops import FillOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation


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


SHARED = (ConstantOp, EmptyOp, FillOp)
"""Operations that several nodes share after equal operations were merged: they do not tell which
node an operation belongs to.
"""


def node_of(op: Operation) -> str | None:
    """The name of the model's node that an operation comes from, if it is known."""
    location = op.location
    return location.desc.data if isinstance(location, NameLoc) else None


def nodes_of(op: Operation) -> tuple[str, ...]:
    """The nodes that an operation or the operations in its regions come from, in order."""
    inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
    nodes = [node_of(inner) for inner in inside if not isinstance(inner, SHARED)]
    names = tuple(dict.fromkeys(name for name in nodes if name is not None))
    own = node_of(op)
    return names if names or own is None else (own,)


def labels_of(op: Operation) -> tuple[str, ...]:
    """The names by which a user may call an operation: its nodes', or else its results' in MLIR."""
    return nodes_of(op) or tuple(r.name_hint for r in op.results if r.name_hint)
