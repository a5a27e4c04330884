"""
Defines dialects whose operations and attributes are imported when their names are first used.

xDSL's `Context` loads a dialect as a whole: the `spirv` dialect has 440 operations in 33 modules,
of which a kernel uses 30 in ten modules. A pull request to xDSL would add
`Dialect.declaring(name)`, which `Context` calls to look up a name, and `Dialect.of_modules(name,
modules, interfaces)`, which lists the declarations of modules.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pkgutil import get_data, iter_modules
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from xdsl.context import Context
from xdsl.dialect_interfaces import DialectInterface
from xdsl.ir import Attribute, Data, Dialect, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation


def operations_of(modules: Iterable[ModuleType]) -> list[type[Operation]]:
    """Returns the operations that the modules define."""
    return [
        cls
        for cls in _classes_of(modules)
        if IRDLOperation in cls.__mro__ and "get_irdl_definition" in vars(cls)
    ]


def attributes_of(modules: Iterable[ModuleType]) -> list[type[Attribute]]:
    """Returns the attributes and types that the modules define."""
    return [
        cls
        for cls in _classes_of(modules)
        if {Data, ParametrizedAttribute} & set(cls.__mro__) and "name" in vars(cls)
    ]


def _classes_of(modules: Iterable[ModuleType]) -> Iterator[type]:
    """Yields the classes that the modules define. Leaves out classes that they import."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


_HEADER = re.compile(r"^class (\w+)\((.*?)\):\s", re.MULTILINE | re.DOTALL)
"""Pattern of the header of a class, with its bases and keywords."""

_DECLARED = re.compile(r"\n(?:class |def |(?=[A-Z]\w*(?:: | = )))(\w+)")
"""Pattern of the definition of a class, a function or a constant in a module."""

InterfaceT = TypeVar("InterfaceT", bound=DialectInterface)

Declaration: TypeAlias = type[Operation] | type[Attribute]


class DialectOnDemand(Dialect, ABC):
    """A dialect from which a context loads only the declarations whose names are used."""

    @abstractmethod
    def declaring(self, name: str) -> Iterable[Declaration]:
        """Returns the declarations to load when `name` is used. Accepts unknown names, too."""


class DialectOfModules(DialectOnDemand):
    """
    A dialect whose modules are imported when one of their names is first used.

    The names that a module declares are read from its source, in a few milliseconds. An unknown
    name loads all modules.
    """

    def __init__(
        self,
        name: str,
        package: str,
        modules: Iterable[str],
        interfaces: Iterable[str] = (),
        operation_name: Callable[[str], str] | None = None,
    ):
        """
        Creates the dialect. `interfaces` have the form `module:class`.

        `operation_name` derives an operation's name from the name of its class `...Op`. It is not
        called for classes with `name="..."` or ABC in their header.
        """
        super().__init__(name)
        self.package = package
        self.module_names = tuple(modules)
        self.interface_names = tuple(interfaces)
        self.operation_name = operation_name

    @cached_property
    def modules(self) -> Sequence[ModuleType]:
        """All modules of the dialect. The first access imports them."""
        return [self._module(name) for name in self.module_names]

    @property
    def operations(self) -> Iterator[type[Operation]]:
        """All operations, in the order of their declarations."""
        return iter(self._all_operations)

    @property
    def attributes(self) -> Iterator[type[Attribute]]:
        """All attributes and types, in the order of their declarations."""
        return iter(self._all_attributes)

    def declaring(self, name: str) -> Iterable[Declaration]:
        """
        Returns the declarations of the module that declares a name. For an unknown name, returns
        the declarations of all modules.
        """
        module = self._module_of_name.get(name)
        modules = self.modules if module is None else [self._module(module)]
        return [*operations_of(modules), *attributes_of(modules)]

    @property
    def names(self) -> Sequence[str]:
        """
        The names of operations, attributes and types. They are read from the sources, if these are
        installed.
        """
        if self._module_of_name:
            return tuple(self._module_of_name)
        return [declared.name for declared in (*self.operations, *self.attributes)]

    def operation(self, name: str) -> type[Operation]:
        """Returns the operation class with this name."""
        declared = (cls for cls in self.declaring(name) if cls.name == name)
        return next(cls for cls in declared if issubclass(cls, Operation))

    def declaration(self, name: str) -> Any:
        """
        Returns a public class, function or constant of the package by its Python name.

        Raises `AttributeError` if no module declares it, or several do.
        """
        modules = self._modules_of_declaration.get(name, ())
        declared = [getattr(self._module(module), name) for module in modules]
        if not declared or any(other is not declared[0] for other in declared):
            raise AttributeError(f"{len(declared)} modules of {self.package!r} declare {name!r}")
        return declared[0]

    def get_interface(self, interface: type[InterfaceT]) -> InterfaceT | None:
        """Returns an interface of the dialect. First imports the modules of all interfaces."""
        if not self._interfaces:
            for name in self.interface_names:
                module, _, cls = name.partition(":")
                self._interfaces.append(getattr(self._module(module), cls)())
        return super().get_interface(interface)

    @cached_property
    def _all_operations(self) -> list[type[Operation]]:
        return operations_of(self.modules)

    @cached_property
    def _all_attributes(self) -> list[type[Attribute]]:
        return attributes_of(self.modules)

    @cached_property
    def _module_of_name(self) -> dict[str, str]:
        """Maps each name of an operation, attribute or type to its module."""
        return {
            name: module
            for module in self.module_names
            for name in self._names_in(self._source(module))
        }

    @cached_property
    def _modules_of_declaration(self) -> Mapping[str, Sequence[str]]:
        modules: dict[str, list[str]] = defaultdict(list)
        for _, module, _ in iter_modules(import_module(self.package).__path__):
            for name in _DECLARED.findall(self._source(module)) or dir(self._module(module)):
                modules[name].append(module)
        return modules

    def _names_in(self, source: str) -> Iterator[str]:
        stated = re.escape(self.name) + r'\.[^"]+'
        yield from re.findall(rf'^    name = "({stated})"$', source, re.MULTILINE)
        for cls, header in _HEADER.findall(source):
            if name := re.search(rf'\bname="({stated})"', header):
                yield name[1]
            elif self.operation_name and cls.endswith("Op") and not header.endswith("ABC"):
                yield self.operation_name(cls)

    def _module(self, name: str) -> ModuleType:
        return import_module(f"{self.package}.{name}")

    def _source(self, module: str) -> str:
        """Returns the source of a module. Returns "" if only its bytecode is installed."""
        try:
            return (get_data(self.package, f"{module}.py") or b"").decode()
        except OSError:
            return ""


def _load_registered_dialect(self: Any, name: str) -> None:
    """
    Replaces `Context.load_registered_dialect`. Loads a `DialectOnDemand` without its operations.
    """
    factory = self._registered_dialects.get(name)
    dialect = factory and factory()
    if isinstance(dialect, DialectOnDemand):
        self._loaded_dialects[name] = dialect
        return
    if dialect is not None:
        self._registered_dialects[name] = lambda: dialect
    _load_whole(self, name)


def _load_declaration(ctx: Any, name: str) -> None:
    dialect = ctx.get_optional_dialect(name.partition(".")[0])
    if not isinstance(dialect, DialectOnDemand):
        return
    for declaration in dialect.declaring(name):
        if Operation in declaration.__mro__:
            loaded = ctx._loaded_ops
        elif TypeAttribute in declaration.__mro__:
            loaded = ctx._loaded_types
        else:
            loaded = ctx._loaded_attrs
        loaded.setdefault(declaration.name, declaration)


def _loading(lookup: Callable[..., Any], table: str) -> Callable[..., Any]:
    """
    Returns a lookup method of `Context` that first loads the declaration of the requested name.
    """

    def look_up(self: Any, name: str) -> Any:
        if name not in getattr(self, table) and "." in name:
            _load_declaration(self, name)
        return lookup(self, name)

    return look_up


_load_whole = Context.load_registered_dialect


def install() -> None:
    """Makes every context of this process load dialects on demand."""
    context: Any = Context
    if context.load_registered_dialect is _load_registered_dialect:
        return
    context.load_registered_dialect = _load_registered_dialect
    for method, table in (
        ("_get_known_op", "_loaded_ops"),
        ("get_optional_type", "_loaded_types"),
        ("get_optional_attr", "_loaded_attrs"),
    ):
        setattr(context, method, _loading(getattr(context, method), table))
