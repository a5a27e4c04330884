"""
Checks an operation's declaration once for each signature, not once for each operation.

Whether operands, results and properties fit what a class declares follows from their types and the
properties alone, and a module has few different signatures. Without this, checks of declarations
would take two thirds of verification time. So every class remembers the signatures that have
passed. Regions, traits and a class's own rules are checked every time, because they look beyond the
signature; `BY_SIGNATURE` marks classes whose rules do not. The pull request: `OpDef.verify`
remembers what it has accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

from xdsl import irdl
from xdsl.ir import Attribute, Operation
from xdsl.irdl import OpDef
from xdsl.traits import OpTrait

from xdsl_spirv.upstream.lazy_formats import OURS

MOST = 1024
"""Most signatures that a class remembers; at the limit it forgets all, to bound memory."""


class Signatures:
    """
    The signatures of one class that passed its declaration. Attributes are immutable, so they are
    compared by identity, without hashing; the entry keeps them alive, so that identities are not
    reused.
    """

    def __init__(self, definition: OpDef, check: Callable[[Any], None]):
        self.definition = definition
        self.check = check
        self.passed: dict[tuple[object, ...], tuple[Attribute, ...]] = {}

    @cached_property
    def traits(self) -> Sequence[OpTrait]:
        """The traits that check anything."""
        return [t for t in self.definition.traits if type(t).verify is not OpTrait.verify]

    def verify(self, op: Operation) -> None:
        """As `OpDef.verify`. Raises `VerifyException`."""
        if op.regions:
            return self.check(op)
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        declared = [name for name in self.definition.attributes if name in op.attributes]
        attributes = [
            *[o.type for o in operands],
            *[r.type for r in op.results],
            *op.properties.values(),
            *[op.attributes[name] for name in declared],
        ]
        counts = (len(operands), len(op.successors))
        key = (*counts, *op.properties, None, *declared, *map(id, attributes))
        if key not in self.passed:
            self.check(op)
            if len(self.passed) >= MOST:
                self.passed.clear()
            self.passed[key] = tuple(attributes)
            return None
        for trait in self.traits:
            trait.verify(op)
        return None


def remember(cls: type[Any]) -> None:
    """Lets an operation's class remember the signatures that passed its declaration."""
    definition = cls.get_irdl_definition()
    if getattr(cls, "BY_SIGNATURE", False):
        signatures = Signatures(definition, cls.verify_)
        cls.verify_ = lambda self, verify=signatures.verify: verify(self)
    else:
        definition.verify = Signatures(definition, definition.verify).verify


_define = irdl.irdl_op_definition


def define(cls: type[Any]) -> type[Any]:
    """
    As xDSL's `irdl_op_definition`; a class of xDSL or of ours then remembers signatures. Does not
    change a class that is already defined.
    """
    if "get_irdl_definition" in vars(cls):
        return cls
    defined = _define(cls)
    if cls.__module__.startswith(OURS):
        remember(defined)
    return defined


def install() -> None:
    """Makes all operations that are declared from now on remember signatures."""
    irdl.irdl_op_definition = cast("Any", define)
