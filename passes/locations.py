"""
Which node of a model an operation comes from: a front end writes names as locations.

Passes that replace an operation copy its location, so that a kernel knows the nodes it computes.
"""

from __future__ import annotations

from xdsl.dialects.builtin import NameLoc
from xdsl.dialects.linalg.ops import FillOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation

MAKERS = (FillOp, EmptyOp)
"""What several nodes share, and what so says nothing about whose work is done."""


def node_of(op: Operation) -> str | None:
    """The name of the model's node that an operation comes from, if it is known."""
    location = op.location
    return location.desc.data if isinstance(location, NameLoc) else None


def nodes_of(op: Operation) -> tuple[str, ...]:
    """The nodes that an operation and the operations inside it come from, in their order."""
    found: dict[str, None] = {}
    for each in op.walk():
        name = None if isinstance(each, MAKERS) else node_of(each)
        if name is not None and each is not op:
            found[name] = None
    own = node_of(op)
    if own is not None:
        found.setdefault(own)
    return tuple(found)


def labels_of(op: Operation) -> tuple[str, ...]:
    """
    What a user may call an operation: the nodes it comes from, or else its results' names in MLIR.
    """
    return nodes_of(op) or tuple(r.name_hint for r in op.results if r.name_hint)
