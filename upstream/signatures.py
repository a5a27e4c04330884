"""
Checks an operation's declaration once for each signature, not once for each operation.

The signature of an operation consists of the types of its operands and results, and its properties.
It decides if the operation satisfies the declaration of its class. A module has few different
signatures, and without this module the checks would take two thirds of verification time. Every
class therefore caches the signatures that have passed. Regions, traits and a class's verifier are
checked every time, because they look beyond the signature. `BY_SIGNATURE` marks classes whose
verifier looks only at the signature. A pull request to xDSL would add the cache to `OpDef.verify`.
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
"""Maximum number of signatures that a class caches. When it is reached, the cache is cleared."""


class Signatures:
    """
    Signatures of one class that passed the check of its declaration.

    Attributes are compared by identity. The cache keeps the attributes alive, so that no identity
    is reused.
    """

    def __init__(self, definition: OpDef, check: Callable[[Any], None]):
        self.definition = definition
        self.check = check
        self.passed: dict[tuple[object, ...], tuple[Attribute, ...]] = {}

    @cached_property
    def traits(self) -> Sequence[OpTrait]:
        """The traits that have a check."""
        return [t for t in self.definition.traits if type(t).verify is not OpTrait.verify]

    def verify(self, op: Operation) -> None:
        """
        Verifies an operation, unless an operation with the same signature has passed. Raises
        `VerifyException`.
        """
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
    """Makes an operation's class cache the signatures that pass."""
    definition = cls.get_irdl_definition()
    if getattr(cls, "BY_SIGNATURE", False):
        signatures = Signatures(definition, cls.verify_)
        cls.verify_ = lambda self, verify=signatures.verify: verify(self)
    else:
        definition.verify = Signatures(definition, definition.verify).verify


_define = irdl.irdl_op_definition


def define(cls: type[Any]) -> type[Any]:
    """
    Replaces xDSL's `irdl_op_definition`, so that classes of xDSL and this package cache signatures.
    """
    if "get_irdl_definition" in vars(cls):
        return cls
    defined = _define(cls)
    if cls.__module__.startswith(OURS):
        remember(defined)
    return defined


def install() -> None:
    """Makes all operations that are declared later cache signatures."""
    irdl.irdl_op_definition = cast("Any", define)
