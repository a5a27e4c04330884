"""
Describes operations in messages: by their text, and by the nodes of the model that they come from.
"""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.linalg.ops import FillOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation


def place(op: Operation) -> str:
    """
    Returns a text such as `'linalg.generic' (%0) in @main`, with the source location if known.
    """
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
"""
Classes of operations that are not assigned to one node: common subexpression elimination may share
them between nodes.
"""


def node_of(op: Operation) -> str | None:
    """
    Returns the name of the model's node that an operation comes from. Returns None if it is
    unknown.
    """
    location = op.location
    return location.desc.data if isinstance(location, NameLoc) else None


def nodes_of(op: Operation) -> tuple[str, ...]:
    """
    Returns the names of the model's nodes from which the operations in `op`'s regions come. If
    there are none, returns the name of `op`'s own node.
    """
    inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
    nodes = [node_of(inner) for inner in inside if not isinstance(inner, SHARED)]
    names = tuple(dict.fromkeys(name for name in nodes if name is not None))
    own = node_of(op)
    return names if names or own is None else (own,)


def labels_of(op: Operation) -> tuple[str, ...]:
    """
    Returns the names of the model's nodes that an operation comes from. If there are none, returns
    the name hints of its results.
    """
    return nodes_of(op) or tuple(r.name_hint for r in op.results if r.name_hint)
