"""
Registers operators by domain, name and the opset that defines them: one function each.

    @operator("Relu")
    def relu(b: Nodes, x: Tensor, /) -> Tensor: ...

A function takes the writer of the module, the inputs by position and the attributes by keyword,
with ONNX's names and defaults; a missing optional input is None. An attribute that became an input
in a later opset (`axes`) is an input of the function: a node of an older opset passes it as a
constant. So one function serves all opsets with the same meaning.

Attributes that several operators share are the fields of a dataclass: a function that takes one by
keyword has them all. Inputs that belong together, such as a tensor, its scale and its zero point,
are the fields of a NamedTuple, which is one parameter.
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
"""Computes the result from the operands' data, which may be arrays of sizes."""

Function = TypeVar("Function", bound=Callable[..., Results])

REFUSED = {
    "NonMaxSuppression": (
        "the number of boxes depends on its data",
        "cut the model there, and choose boxes on the host",
    ),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"),
        (
            "its numbers are random, and no definition fixes them",
            "give them to the model as an input",
        ),
    ),
    **dict.fromkeys(
        ("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer"),
        ("it reads text, or counts words", "cut the model there, and compute it on the host"),
    ),
    "Gradient": ("it asks for derivatives", "export the model for inference"),
    **dict.fromkeys(
        ("CastMap", "DictVectorizer", "ZipMap", "FeatureVectorizer"),
        ("its operands are maps or lists of any length", "cut the model there"),
    ),
    **dict.fromkeys(
        ("CategoryMapper", "LabelEncoder", "OneHotEncoder"),
        ("it looks up names, as text or numbers", "replace them by numbers on the host"),
    ),
    "MelWeightMatrix": ("it is computed when the model runs", "make its operands constants"),
    "ImageDecoder": ("no device decodes images", "give the model the image's elements"),
}
"""
Reasons and remedies for refused operators without a function, or for all operators of a domain.

Operators on constants are always computed.
"""

DOMAINS = {"ai.onnx": ""}
"""Aliases of domains."""


@dataclass(frozen=True)
class Operator:
    """An operator as defined from one opset on."""

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
        """
        Groups the inputs to arguments: single inputs, and a NamedTuple for inputs that belong
        together.
        """
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
        """True if the function also takes attributes that its signature does not name."""
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters)

    @cached_property
    def _records(self) -> dict[str, tuple[Any, list[str]]]:
        """
        Returns the parameters that are dataclasses, each with its class and the fields' names.
        """
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
        """Calls the function with inputs by position and attributes by ONNX's names."""
        for parameter, (record, names) in self._records.items():
            given = {name: attributes.pop(name) for name in names if name in attributes}
            attributes[parameter] = record(**given)
        return self.function(b, *self._group_inputs(inputs), **attributes)


def _is_group(parameter: inspect.Parameter) -> bool:
    """True if several inputs belong to the parameter."""
    return hasattr(parameter.annotation, "_fields")


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def operator(
    *names: str, since: int = 1, domain: str = "", fold: Fold | None = None
) -> Callable[[Function], Function]:
    """Registers a function for operators from an opset on."""

    def register(function: Function) -> Function:
        for name in names:
            entries = _OPERATORS.setdefault((domain, name), [])
            entries.append(Operator(domain, name, since, function, fold))
            entries.sort(key=lambda entry: entry.since, reverse=True)
        return function

    return register


def lookup(domain: str, name: str, version: int) -> Operator | None:
    """Returns an operator in a version of its domain, or None if there is none."""
    entries = _OPERATORS.get((DOMAINS.get(domain, domain), name), ())
    return next((entry for entry in entries if entry.since <= version), None)


WINDOWS = frozenset(("windows", "transposed", "images", "sampling", "recurrent", "signals"))
"""Files of operators that onnx's own evaluator computes differently at the edges of attributes."""


def is_evaluated(entry: Operator) -> bool:
    """True if onnx's own evaluator computes this operator on constants reliably."""
    return entry.function.__module__.rpartition(".")[2] not in WINDOWS


def is_newest(entry: Operator) -> bool:
    """True if no later opset changes the operator, so that onnx's evaluator knows it."""
    return _OPERATORS[entry.domain, entry.name][0] is entry


def registered() -> list[Operator]:
    """Returns all registered operators."""
    return [entry for entries in _OPERATORS.values() for entry in entries]
