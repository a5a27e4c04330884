"""
Which node of a model an operation comes from: a front end writes names as locations.

Passes that replace an operation copy its location, so that a kernel knows the nodes it computes.
"""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import NameLoc
from xdsl.dialects.linalg.ops import FillOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation

SHARED = (ConstantOp, EmptyOp, FillOp)
"""What several nodes share once equal operations are one: it says nothing about whose work is done.
"""


def node_of(op: Operation) -> str | None:
    """The name of the model's node that an operation comes from, if it is known."""
    location = op.location
    return location.desc.data if isinstance(location, NameLoc) else None


def nodes_of(op: Operation) -> tuple[str, ...]:
    """The nodes that an operation comes from, or those in its regions, in their order."""
    inside = [each for region in op.regions for block in region.blocks for each in block.ops]
    found = [node_of(each) for each in inside if not isinstance(each, SHARED)]
    names = tuple(dict.fromkeys(name for name in found if name is not None))
    own = node_of(op)
    return names if names or own is None else (own,)


def labels_of(op: Operation) -> tuple[str, ...]:
    """
    What a user may call an operation: the nodes it comes from, or else its results' names in MLIR.
    """
    return nodes_of(op) or tuple(r.name_hint for r in op.results if r.name_hint)
