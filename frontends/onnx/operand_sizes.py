"""
Checks the sizes of scalar and vector operands that ONNX prescribes.

Without these checks, an operand of a wrong size would be broadcast, and the result would not be
defined by ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.registry import Operator
from xdsl_spirv.frontends.onnx.values import Tensor
from xdsl_spirv.speech import counted

Rule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Size]
"""
Function that returns the required number of elements of an operand, from all operands and
attributes.
"""


def _number(count: int) -> Rule:
    return lambda inputs, attributes: count


def _axis_of(operand: int, axis: int, attribute: str = "") -> Rule:
    """
    Returns a rule: the operand must have as many elements as operand number `operand` has along an
    axis.
    """
    return lambda inputs, attributes: inputs[operand].sizes[attributes.get(attribute, axis)]


def _as_many_as(operand: int) -> Rule:
    return lambda inputs, attributes: prod(inputs[operand].sizes)


def _transposed_outputs(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Size:
    return inputs[1].sizes[1] * attributes.get("group", 1)


ONE, CHANNELS = _number(1), _axis_of(0, 1)
RULES: Mapping[str, Mapping[int, Rule]] = {
    "Clip": {1: ONE, 2: ONE},
    "CumProd": {1: ONE},
    "CumSum": {1: ONE},
    "DFT": {1: ONE, 2: ONE},
    "Dropout": {1: ONE, 2: ONE},
    "If": {0: ONE},
    "Loop": {0: ONE, 1: ONE},
    "OneHot": {1: ONE, 2: _number(2)},
    "Pad": {2: ONE},
    "DequantizeLinear": {2: _as_many_as(1)},
    "QuantizeLinear": {2: _as_many_as(1)},
    "Range": {0: ONE, 1: ONE, 2: ONE},
    "TopK": {1: ONE},
    "Trilu": {1: ONE},
    "BatchNormalization": dict.fromkeys(range(1, 5), CHANNELS),
    "InstanceNormalization": {1: CHANNELS, 2: CHANNELS},
    "Conv": {2: _axis_of(1, 0)},
    "QLinearConv": {8: _axis_of(3, 0)},
    "ConvTranspose": {2: _transposed_outputs},
    "ReverseSequence": {1: _axis_of(0, 1, "batch_axis")},
}
RANKS: Mapping[str, Mapping[int, int | None]] = {
    "DequantizeLinear": {1: 1},
    "Gemm": {2: 2},
    "LayerNormalization": {1: None, 2: None},
    "QuantizeLinear": {1: 1},
    "RMSNormalization": {1: None},
}
"""Maximum ranks by operator and operand index. None means the rank of the first operand."""
PARTS = ("GatherElements", "ScatterElements")
"""Operators whose indices must not exceed the size of the data in any dimension except the axis."""


def check_operand_sizes(
    b: TensorBuilder,
    entry: Operator,
    inputs: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
) -> None:
    """
    Raises `FrontendError` for an operand of a wrong size. Dynamic sizes are checked at run time.
    """
    if entry.domain or not inputs or inputs[0] is None:
        return
    given = {place: t for place, t in enumerate(inputs) if t is not None}
    for place, rule in RULES.get(entry.name, {}).items():
        if place not in given:
            continue
        wanted, count = rule(inputs, attributes), prod(given[place].sizes)
        if isinstance(wanted, int) and isinstance(count, int) and count != wanted:
            raise ValueError(
                f"the input {entry.inputs[place]} has {counted(count, 'element')}, but must have "
                f"{wanted}"
            )
        b.insist_equal(count, wanted)
    for place, rank in RANKS.get(entry.name, {}).items():
        limit = inputs[0].rank if rank is None else rank
        if place in given and given[place].rank > limit and "block_size" not in attributes:
            raise ValueError(
                f"the input {entry.inputs[place]} has {given[place].rank} dimensions, but may have "
                f"at most {limit}"
            )
    if entry.name in PARTS:
        _check_part(b, entry, inputs[0].sizes, given[1].sizes, attributes.get("axis", 0))


def _check_part(
    b: TensorBuilder, entry: Operator, whole: Sequence[Size], part: Sequence[Size], axis: int
) -> None:
    for dimension, (size, count) in enumerate(zip(whole, part, strict=True)):
        if dimension == axis % len(whole):
            continue
        if isinstance(size, int) and isinstance(count, int) and count > size:
            raise ValueError(
                f"the input {entry.inputs[1]} has {count} rows along axis {dimension}, but may "
                f"have at most {size}"
            )
        b.insist_natural(size - count)
