"""
Imports operators on sequences and optional values, which exist only while importing.

The lengths of sequences, and the positions of accesses, must be known at compile time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.control import run_graph
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of, concat, split
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.values import Listed, Tensor


def items_of(b: Nodes, value: Tensor) -> list[Tensor]:
    """Returns the tensors of a sequence."""
    if not isinstance(value, Listed) or value.items is None:
        b.refuse("the input is not a sequence", "see ONNX's definition of the operator")
    return list(value.items)


def _position(b: Nodes, position: Tensor, last: int) -> int:
    """Returns a known position in a sequence as an index from 0 to `last`."""
    if position.numbers is None:
        b.refuse("the position is computed when the model runs", "make it a constant")
    number = int(position.numbers.item())
    if not -last - 1 <= number <= last:
        b.refuse(
            f"position {number} is outside a sequence whose last position is {last}",
            "give a valid position",
        )
    return number % (last + 1)


@operator("SequenceConstruct")
def sequence_construct(b: Nodes, *tensors: Tensor) -> Tensor:
    return Listed(tensors)


@operator("SequenceEmpty")
def sequence_empty(b: Nodes, /, *, dtype: int = 1) -> Tensor:
    return Listed(())


@operator("SequenceLength")
def sequence_length(b: Nodes, sequence: Tensor, /) -> Tensor:
    return Tensor.of(np.array(len(items_of(b, sequence)), np.int64))


@operator("SequenceAt")
def sequence_at(b: Nodes, sequence: Tensor, position: Tensor, /) -> Tensor:
    items = items_of(b, sequence)
    return items[_position(b, position, len(items) - 1)]


@operator("SequenceInsert")
def sequence_insert(
    b: Nodes, sequence: Tensor, tensor: Tensor, position: Tensor | None = None, /
) -> Tensor:
    """Inserts a tensor into a sequence. Position -1 is before the last item, as in Python."""
    items = items_of(b, sequence)
    count = len(items)
    place = count
    if position is not None:
        negative = position.numbers is not None and position.numbers.item() < 0
        place = _position(b, position, count - 1 if negative else count)
    return Listed([*items[:place], tensor, *items[place:]])


@operator("SequenceErase")
def sequence_erase(b: Nodes, sequence: Tensor, position: Tensor | None = None, /) -> Tensor:
    items = items_of(b, sequence)
    place = len(items) - 1 if position is None else _position(b, position, len(items) - 1)
    return Listed([*items[:place], *items[place + 1 :]])


@operator("SequenceMap")
def sequence_map(b: Nodes, sequence: Tensor, /, *others: Tensor, body: Any) -> Sequence[Tensor]:
    """Imports the body for each item of the sequences; plain tensors are passed unchanged."""
    given = [
        items_of(b, value) if isinstance(value, Listed) else None for value in (sequence, *others)
    ]
    rounds = [
        run_graph(
            b,
            body,
            [
                value if items is None else items[number]
                for value, items in zip((sequence, *others), given, strict=True)
            ],
        )
        for number in range(len(items_of(b, sequence)))
    ]
    return [Listed([results[i] for results in rounds]) for i in range(len(body.output))]


@operator("SplitToSequence")
def split_to_sequence(
    b: Nodes, x: Tensor, parts: Tensor | None = None, /, *, axis: int = 0, keepdims: int = 1
) -> Tensor:
    axis = axis_of(b, axis, x.rank)
    whole = x.sizes[axis]
    if parts is None or parts.rank == 0:
        if not isinstance(whole, int):
            b.refuse("the length of a sequence depends on a dynamic size", "give the size: --dim")
        numbers = np.array(1) if parts is None else parts.numbers
        if numbers is None:
            b.refuse("the size of parts is computed when the model runs", "make it a constant")
        part = int(numbers.item())
        if part < 1:
            b.refuse(f"the size of parts is {part}", "give a size of at least 1")
        sizes = [min(part, whole - start) for start in range(0, whole, part)]
        pieces = split(b, x, Tensor.of(np.array(sizes, np.int64)), axis=axis)
    else:
        pieces = split(b, x, parts, axis=axis)
    if parts is None and not keepdims:
        kept = [size for i, size in enumerate(x.sizes) if i != axis]
        pieces = [b.reshape(t, kept) for t in pieces]
    return Listed(pieces)


@operator("ConcatFromSequence")
def concat_from_sequence(b: Nodes, sequence: Tensor, /, *, axis: int, new_axis: int = 0) -> Tensor:
    items = items_of(b, sequence)
    if not items:
        b.refuse(
            "the sequence is empty, so that the result's shape is not known", "leave the node out"
        )
    if new_axis:
        return b.stack(items, axis_of(b, axis, items[0].rank + 1))
    return concat(b, *items, axis=axis)


@operator("Optional")
def optional(b: Nodes, value: Tensor | None = None, /, *, type: Any = None) -> Tensor:
    return Listed(None) if value is None else value


@operator("OptionalHasElement")
def optional_has_element(b: Nodes, value: Tensor | None = None, /) -> Tensor:
    empty = value is None or (isinstance(value, Listed) and value.items is None)
    return Tensor.of(np.array(not empty))


@operator("OptionalGetElement")
def optional_get_element(b: Nodes, value: Tensor, /) -> Tensor:
    if isinstance(value, Listed) and value.items is None:
        b.refuse("the optional input is empty", "test the input with OptionalHasElement first")
    return value
