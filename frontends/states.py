"""
Turns arguments of a function into states of a program, by tying them to results.

    %k: tensor<1x2x16x16xf32> {program.name = "keys", program.state = 1 : i64,
                               program.value = dense<0.0> : ...}

Here result 1 of a run becomes the argument of the next run. In the first run, the argument is
zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FixedBitwidthType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_spirv.dialects.program import NAME, STATE, VALUE
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.speech import did_you_mean


def tie_states(function: FuncOp, pairs: Mapping[str, str]) -> None:
    """
    Turns arguments into states: `pairs` maps an argument to the result that gives its next value.

    Raises `FrontendError` for an unknown name, different types, and dynamic sizes.
    """
    arguments, results = _names(function.arg_attrs or ()), _names(function.res_attrs or ())
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    entries = list(function.arg_attrs or ())
    for name, result in pairs.items():
        for kind, one, known in (("input", name, arguments), ("output", result, results)):
            if one not in known:
                raise FrontendError(
                    f"there is no {kind} {one!r}",
                    f"{kind}s: {', '.join(known)}",
                    did_you_mean(one, known, "correct the name"),
                )
        index, number = arguments.index(name), results.index(result)
        type, new = inputs[index], outputs[number]
        if type != new or not isinstance(type, TensorType) or not type.has_static_shape():
            raise FrontendError(
                f"{name!r} is a {type}, but its output is a {new}",
                f"the state {name!r}",
                "use the same type with static sizes for input and output",
            )
        entry = {STATE: IntegerAttr(number, i64), VALUE: _zeros(cast(TensorType[Attribute], type))}
        entries[index] = DictionaryAttr({**entries[index].data, **entry})
    function.properties["arg_attrs"] = ArrayAttr(entries)


def _names(entries: Iterable[DictionaryAttr]) -> list[str]:
    names = [entry.data[NAME] for entry in entries]
    return [name.data if isinstance(name, StringAttr) else "" for name in names]


def _zeros(type: TensorType[Attribute]) -> Attribute:
    element = type.element_type
    assert isinstance(element, FixedBitwidthType)
    return DenseIntOrFPElementsAttr(type, BytesAttr(bytes(element.size)))  # pyright: ignore
