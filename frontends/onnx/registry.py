"""
Registers functions that import operators, by domain, name and first opset.

    @operator("Relu")
    def relu(b: Nodes, x: Tensor, /) -> Tensor: ...

A function takes the builder, the inputs by position, and the attributes by keyword with ONNX's
names and defaults. A missing optional input is None. An attribute that became an input in a later
opset (`axes`) is an input of the function, so that one function serves several opsets.

A parameter that is a dataclass collects attributes that several operators share. A parameter that
is a NamedTuple collects inputs that belong together, such as a tensor, its scale and its zero
point.
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
"""Function that computes the result from known operands, which may contain dynamic sizes."""

Function = TypeVar("Function", bound=Callable[..., Results])

REFUSED = {
    "NonMaxSuppression": (
        "the number of boxes depends on data",
        "cut the model before this node, and choose boxes on the host",
    ),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"),
        (
            "the results are random, and ONNX does not define the generator",
            "give random numbers to the model as an input",
        ),
    ),
    **dict.fromkeys(
        ("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer"),
        (
            "the operator processes text",
            "cut the model before this node, and compute the node on the host",
        ),
    ),
    "Gradient": ("the operator computes derivatives", "export the model for inference"),
    **dict.fromkeys(
        ("CastMap", "DictVectorizer", "ZipMap", "FeatureVectorizer"),
        ("the operands are maps or lists of any length", "cut the model before this node"),
    ),
    **dict.fromkeys(
        ("CategoryMapper", "LabelEncoder", "OneHotEncoder"),
        ("the operator looks up names", "replace names by numbers on the host"),
    ),
    "MelWeightMatrix": (
        "the operands are computed when the model runs",
        "make the operands constants",
    ),
    "ImageDecoder": ("no device decodes images", "give the model the image's elements"),
}
"""
Reason and remedy for each unsupported operator. If all operands are constant, the operator is
folded and thus supported.
"""

DOMAINS = {"ai.onnx": ""}
"""Maps other names of ONNX's domains to the registered names."""


@dataclass(frozen=True)
class Operator:
    """An operator as defined from the opset `since` on, until a later definition."""

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
        """Returns the names of the inputs, without a variadic input."""
        return [
            name
            for p in self._positional
            for name in (
                [f"{p.name}_{f}" for f in p.annotation._fields] if _is_group(p) else [p.name]
            )
        ]

    def _group_inputs(self, inputs: Sequence[Tensor | None]) -> list[Any]:
        """Converts inputs to arguments. Several inputs may form one argument, a NamedTuple."""
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
        """True if the function has a `**attributes` parameter."""
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters)

    @cached_property
    def _records(self) -> dict[str, tuple[Any, list[str]]]:
        """Returns the parameters that are dataclasses, with their classes and field names."""
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
    """True if the parameter is a NamedTuple of several inputs."""
    return hasattr(parameter.annotation, "_fields")


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def operator(
    *names: str, since: int = 1, domain: str = "", fold: Fold | None = None
) -> Callable[[Function], Function]:
    """
    Returns a decorator that registers a function for operators of a domain, from the opset `since`
    on.

    `fold` computes the results of known operands.
    """

    def register(function: Function) -> Function:
        for name in names:
            entries = _OPERATORS.setdefault((domain, name), [])
            entries.append(Operator(domain, name, since, function, fold))
            entries.sort(key=lambda entry: entry.since, reverse=True)
        return function

    return register


def lookup(domain: str, name: str, version: int) -> Operator | None:
    """Returns an operator for a version of its domain, or None."""
    entries = _OPERATORS.get((DOMAINS.get(domain, domain), name), ())
    return next((entry for entry in entries if entry.since <= version), None)


WINDOWS = frozenset(("windows", "transposed", "images", "sampling", "recurrent", "signals"))
"""Files of operators that onnx's evaluator computes wrongly if attributes have unusual values."""


def is_evaluated(entry: Operator) -> bool:
    """True if onnx's evaluator computes this operator reliably."""
    return entry.function.__module__.rpartition(".")[2] not in WINDOWS


def is_newest(entry: Operator) -> bool:
    """True if no later opset changes the operator, so that onnx's evaluator supports it."""
    return _OPERATORS[entry.domain, entry.name][0] is entry


def registered() -> list[Operator]:
    """Returns all registered operators."""
    return [entry for entries in _OPERATORS.values() for entry in entries]
