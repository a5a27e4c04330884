"""
An operation's declaration is checked once for each signature, not once for each operation.

Whether operands, results and properties fit what a class declares follows from their types and the
properties alone, and a module has few different ones: xDSL's check of declarations would be two
thirds of the time that verification takes. So every class remembers the signatures that have
passed. Operations with regions, traits, and a class's own rules are checked every time, for they
look beyond the signature; a class whose rules do not says so by `BY_SIGNATURE`. The pull request:
`OpDef.verify` remembers what it has accepted.
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
"""Signatures that a class remembers; then it begins anew, so that nothing grows without end."""


class Signatures:
    """
    The signatures of one class that were seen to fit its declaration.

    Attributes are immutable, so that one is the same is known by its identity, without comparing
    or hashing it; the entry keeps it alive, so that no other one takes its identity.
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
    """Lets an operation's class remember the signatures that have passed its declaration."""
    definition = cls.get_irdl_definition()
    if getattr(cls, "BY_SIGNATURE", False):
        signatures = Signatures(definition, cls.verify_)
        cls.verify_ = lambda self, verify=signatures.verify: verify(self)
    else:
        definition.verify = Signatures(definition, definition.verify).verify


_define = irdl.irdl_op_definition


def define(cls: type[Any]) -> type[Any]:
    """
    As xDSL's `irdl_op_definition`, and a class of xDSL or of ours remembers. Leaves a defined
    class as it is.
    """
    if "get_irdl_definition" in vars(cls):
        return cls
    defined = _define(cls)
    if cls.__module__.startswith(OURS):
        remember(defined)
    return defined


def install() -> None:
    """Let the operations that are declared from now on remember."""
    irdl.irdl_op_definition = cast("Any", define)
