"""
Lists the operations and attributes that modules declare, in the order of their declarations.

xDSL's `Dialect` takes lists, so a dialect of many files names every class a second and a third
time, and a class that is left out is missing without a word. The pull request:
`Dialect.of_modules(name, modules, interfaces)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType

from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation


def operations_of(modules: Iterable[ModuleType]) -> list[type[Operation]]:
    """The operations whose definitions stand in the modules."""
    return [
        cls
        for cls in _classes_of(modules)
        if IRDLOperation in cls.__mro__ and "get_irdl_definition" in vars(cls)
    ]


def attributes_of(modules: Iterable[ModuleType]) -> list[type[Attribute]]:
    """The attributes and types whose definitions stand in the modules."""
    return [
        cls
        for cls in _classes_of(modules)
        if {Data, ParametrizedAttribute} & set(cls.__mro__) and "name" in vars(cls)
    ]


def _classes_of(modules: Iterable[ModuleType]) -> Iterator[type]:
    """Classes in the modules that define them, not in those that import them."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value
