"""
Replaces types everywhere in a module: in values, block arguments, nested types and constants.

The caller rewrites the operations that compute with the old types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.spirv.requirements import operations

Leaf = Callable[[Attribute], "Attribute | None"]

MOVES = operations(
    "func GlobalVariable Variable mlir.addressof ConstantNull Undef Load Store CopyMemory "
    "CopyObject AccessChain InBoundsAccessChain CompositeConstruct CompositeExtract "
    "CompositeInsert Branch BranchConditional mlir.loop mlir.selection mlir.merge FunctionCall "
    "ReturnValue"
)
"""Operations that only move values, whatever the types."""

MOVES_OF_SCALARS = MOVES | operations(
    "module Constant ArrayLength PtrAccessChain InBoundsPtrAccessChain VectorShuffle "
    "VectorExtractDynamic VectorInsertDynamic"
)
"""Operations that only move scalars and vectors."""


class Retyping:
    """
    Replaces types in attributes.

    `leaf(attribute)` returns an attribute's replacement; None if only nested types are replaced.
    """

    def __init__(self, leaf: Leaf):
        self._leaf = leaf
        self._known: dict[Attribute, Attribute] = {}

    def __call__(self, attribute: Attribute) -> Attribute:
        """Returns the attribute with all types in it replaced."""
        if attribute not in self._known:
            self._known[attribute] = self._replacement(attribute)
        return self._known[attribute]

    def changes(self, attribute: Attribute) -> bool:
        replacement = self(attribute)
        return replacement is not attribute and replacement != attribute

    def _replacement(self, attribute: Attribute) -> Attribute:
        replacement = self._leaf(attribute)
        if replacement is not None:
            return replacement
        if isinstance(attribute, ArrayAttr):
            return ArrayAttr([self(a) for a in cast("ArrayAttr[Attribute]", attribute).data])
        if isinstance(attribute, DictionaryAttr):
            return DictionaryAttr({k: self(v) for k, v in attribute.data.items()})
        if not isinstance(attribute, ParametrizedAttribute):
            return attribute
        if isinstance(attribute, SymbolRefAttr | IntegerAttr | DenseArrayBase):
            return attribute
        parameters = [self(p) for p in attribute.parameters]
        if parameters == list(attribute.parameters):
            return attribute
        return type(attribute).new(parameters)

    def touches(self, op: Operation) -> bool:
        """True if types or properties of an operation would change. Ignores its regions."""
        types = (*op.operand_types, *op.result_types)
        values = (*op.properties.values(), *op.attributes.values())
        return any(map(self.changes, (*types, *values)))

    def concerns(self, op: Operation) -> bool:
        """True if the type of a constant symbol would change, or if `touches` holds."""
        if isinstance(op, spv.ConstantSymbol) and not isinstance(op, spv.RawGlobalOp):
            return self.changes(op.constant_type)
        return self.touches(op)

    def apply(self, module: Operation) -> None:
        """Replaces the types of a module in place."""
        for op in module.walk():
            self.retype_values(op)
            for fields in (op.properties, op.attributes):
                for name, attribute in fields.items():
                    fields[name] = self(attribute)

    def retype_values(self, op: Operation) -> None:
        """Replaces the types of an operation's results and block arguments."""
        arguments = (a for region in op.regions for block in region.blocks for a in block.args)
        for value in (*op.results, *arguments):
            value._type = self(value.type)  # pyright: ignore[reportPrivateUsage]
