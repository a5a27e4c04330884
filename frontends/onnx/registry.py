"""
Operators by domain, name and the opset that they are defined from: one function each.

    @operator("Relu")
    def relu(b: Nodes, x: Tensor, /) -> Tensor: ...

A function takes what writes the module, the inputs by position and the attributes by keyword, under
ONNX's names and with ONNX's defaults; an optional input is None where it is left out. An attribute
that became an input in a later opset (`axes`) is an input of the function: a node of an older opset
gives it as a constant. So one function serves all opsets that mean the same.

Attributes that several operators share are the fields of a dataclass: a function that takes one by
keyword has them all. Inputs that belong together, as a tensor, its scale and its zero point, are
the fields of a NamedTuple, which is one parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from xdsl_spirv.frontends.onnx.values import Array, Tensor

Results: TypeAlias = "Tensor | Sequence[Tensor | None]"
Fold: TypeAlias = Callable[..., Array]
"""Computes the result from the operands' data, arrays of sizes among them."""

Function = TypeVar("Function", bound=Callable[..., Results])

REFUSED = {
    "NonMaxSuppression": (
        "its data decides how many boxes there are",
        "cut the model there, and choose boxes on the host",
    ),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"),
        ("its numbers are random, which no definition fixes", "give them to the model as an input"),
    ),
    **dict.fromkeys(
        ("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer"),
        ("it reads text, or counts words", "cut the model there, and do it on the host"),
    ),
    "Gradient": ("it asks for derivatives", "export the model for inference"),
    **dict.fromkeys(
        ("CastMap", "DictVectorizer", "ZipMap", "FeatureVectorizer"),
        ("its operands are maps or lists of any length", "cut the model there"),
    ),
    **dict.fromkeys(
        ("CategoryMapper", "LabelEncoder", "OneHotEncoder"),
        ("it looks up names, as text or numbers", "number them on the host"),
    ),
    "MelWeightMatrix": ("it is computed when the model runs", "make its operands constants"),
    "ImageDecoder": ("no device decodes images", "give the model the image's elements"),
}
"""
Reasons and remedies for operators without a function, or all of a domain, that are refused.

Operators on constants are always computed.
"""

DOMAINS = {"ai.onnx": ""}
"""Other names of domains."""


@dataclass(frozen=True)
class Operator:
    """One operator as it is defined from an opset on."""

    domain: str
    name: str
    since: int
    function: Callable[..., Results]
    fold: Fold | None

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        signature = inspect.signature(self.function, eval_str=True)
        return list(signature.parameters.values())[1:]

    @cached_property
    def _positional(self) -> list[inspect.Parameter]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p for p in self._parameters if p.kind in kinds]

    @cached_property
    def inputs(self) -> list[str]:
        """The names of the inputs, without a variadic last one."""
        return [
            name
            for p in self._positional
            for name in (
                [f"{p.name}_{f}" for f in p.annotation._fields] if _is_group(p) else [p.name]
            )
        ]

    def _group_inputs(self, inputs: Sequence[Tensor | None]) -> list[Any]:
        """Returns the arguments: the inputs, and each NamedTuple of several inputs."""
        grouped: list[Any] = []
        start = 0
        for parameter in self._positional:
            count = len(parameter.annotation._fields) if _is_group(parameter) else 1
            given = inputs[start : start + count]
            grouped += [parameter.annotation(*given)] if _is_group(parameter) else given
            start += count
        return [*grouped, *inputs[start:]]

    @cached_property
    def is_variadic(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self._parameters)

    @cached_property
    def takes_all_attributes(self) -> bool:
        """Whether it also takes attributes that its signature does not name."""
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters)

    @cached_property
    def _records(self) -> dict[str, tuple[Any, list[str]]]:
        """The parameters that are dataclasses, each with its class and the fields' names."""
        return {
            p.name: (p.annotation, [field.name for field in fields(p.annotation)])
            for p in self._keywords
            if is_dataclass(p.annotation)
        }

    @cached_property
    def _keywords(self) -> list[inspect.Parameter]:
        return [p for p in self._parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]

    @cached_property
    def attributes(self) -> frozenset[str]:
        plain = frozenset(p.name for p in self._keywords) - self._records.keys()
        return plain.union(*(names for _, names in self._records.values()))

    def __call__(self, b: object, *inputs: Tensor | None, **attributes: Any) -> Results:
        """The function's results of inputs by position and attributes by ONNX's names."""
        for parameter, (record, names) in self._records.items():
            given = {name: attributes.pop(name) for name in names if name in attributes}
            attributes[parameter] = record(**given)
        return self.function(b, *self._group_inputs(inputs), **attributes)


def _is_group(parameter: inspect.Parameter) -> bool:
    """Whether several inputs belong to the parameter."""
    return hasattr(parameter.annotation, "_fields")


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def operator(
    *names: str, since: int = 1, domain: str = "", fold: Fold | None = None
) -> Callable[[Function], Function]:
    """Register a function for operators from an opset on."""

    def register(function: Function) -> Function:
        for name in names:
            entries = _OPERATORS.setdefault((domain, name), [])
            entries.append(Operator(domain, name, since, function, fold))
            entries.sort(key=lambda entry: entry.since, reverse=True)
        return function

    return register


def lookup(domain: str, name: str, version: int) -> Operator | None:
    """Looks up an operator in a version of its domain; None if there is none."""
    entries = _OPERATORS.get((DOMAINS.get(domain, domain), name), ())
    return next((entry for entry in entries if entry.since <= version), None)


WINDOWS = frozenset(("windows", "transposed", "images", "sampling", "recurrent", "signals"))
"""Files of operators that onnx's own evaluator computes otherwise at the edges of attributes."""


def is_evaluated(entry: Operator) -> bool:
    """True if onnx's own evaluator computes this operator on constants reliably."""
    return entry.function.__module__.rpartition(".")[2] not in WINDOWS


def is_newest(entry: Operator) -> bool:
    """Whether no later opset changes the operator, so that onnx's evaluator knows it."""
    return _OPERATORS[entry.domain, entry.name][0] is entry


def registered() -> list[Operator]:
    """Returns all registered operators."""
    return [entry for entries in _OPERATORS.values() for entry in entries]
