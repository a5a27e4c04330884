"""
What a load, a store or a copy says about its access.

Beyond MLIR: MakePointerAvailable and MakePointerVisible say for which scope,
`["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)]`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, IntegerAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import AnyOf, BaseAttr, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import MemoryAccessAttr, ScopeAttr, parse_integer
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, Scope

MAKE_AVAILABLE = MemoryAccess.MakePointerAvailable
MAKE_VISIBLE = MemoryAccess.MakePointerVisible

SCOPE = AnyOf((BaseAttr(ScopeAttr), FlatSymbolRefAttrConstr))
"""A known scope, or the specialization constant that decides it."""


@dataclass(frozen=True)
class MemoryOperand:
    """A memory operand with its parameters (SPIR-V 3.26)."""

    access: MemoryAccessAttr | None = None
    alignment: IntegerAttr | None = None
    scope: ScopeAttr | SymbolRefAttr | None = None

    @classmethod
    def of(
        cls,
        access: MemoryAccess | None = None,
        alignment: int | None = None,
        scope: Scope | str | None = None,
    ) -> MemoryOperand:
        """A memory operand; its bit Aligned follows from `alignment`."""
        if alignment is not None:
            access = (access or MemoryAccess.None_) | MemoryAccess.Aligned
        return cls(
            None if access is None else MemoryAccessAttr(access),
            None if alignment is None else IntegerAttr(alignment, i32),
            _scope(scope),
        )

    @classmethod
    def parse_optional(cls, parser: Parser) -> MemoryOperand:
        """`["Volatile|Aligned", 4]`, or nothing."""
        if not parser.parse_optional_punctuation("["):
            return cls()
        access = MemoryAccessAttr.parse_quoted(parser)
        alignment = scope = None
        while parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("scope"):
                with parser.in_parens():
                    scope = _parse_scope(parser)
            else:
                alignment = parse_integer(parser)
        parser.parse_punctuation("]")
        return cls(MemoryAccessAttr(access), alignment, scope)

    def print(self, printer: Printer) -> None:
        """` ["Volatile|Aligned", 4]`, or nothing."""
        if self.access is None:
            return
        printer.print_string(f' ["{self.access.spell(self.access.data)}"')
        if self.alignment is not None:
            printer.print_string(f", {self.alignment.value.data}")
        if self.scope is not None:
            printer.print_string(", scope(")
            if isinstance(self.scope, ScopeAttr):
                self.scope.print_parameter(printer)
            else:
                printer.print_attribute(self.scope)
            printer.print_string(")")
        printer.print_string("]")

    def verify(self, forbidden: MemoryAccess, what: str) -> None:
        """Raises VerifyException if a parameter is missing or `what` must not have `forbidden`."""
        access = self.access.data if self.access else MemoryAccess.None_
        if bool(access & MemoryAccess.Aligned) != (self.alignment is not None):
            raise VerifyException(
                "the memory operand Aligned and an alignment go together: give both or neither"
            )
        if self.alignment is not None and self.alignment.value.data.bit_count() != 1:
            raise VerifyException(
                f"an alignment must be a power of two, not {self.alignment.value.data}"
            )
        if access & forbidden:
            raise VerifyException(f"{forbidden.name} is not for {what}: remove it")
        if bool(access & (MAKE_AVAILABLE | MAKE_VISIBLE)) != (self.scope is not None):
            raise VerifyException(
                "MakePointerAvailable or MakePointerVisible and a scope go together: "
                "add scope(<Workgroup>), say, or remove it"
            )
        if self.scope is not None and not access & MemoryAccess.NonPrivatePointer:
            raise VerifyException(
                "MakePointerAvailable and MakePointerVisible are for non-private pointers: "
                "add NonPrivatePointer"
            )

    def properties(self, prefix: str = "") -> dict[str, Attribute | None]:
        """The properties of an operation that has this operand."""
        return {
            f"{prefix}memory_access": self.access,
            f"{prefix}alignment": self.alignment,
            f"{prefix}memory_scope": self.scope,
        }


def _scope(scope: Scope | str | None) -> ScopeAttr | SymbolRefAttr | None:
    if isinstance(scope, Scope):
        return ScopeAttr(scope)
    return None if scope is None else SymbolRefAttr(scope)


def _parse_scope(parser: Parser) -> ScopeAttr | SymbolRefAttr:
    """`<Workgroup>` or `@scope`."""
    if symbol := parser.parse_optional_symbol_name():
        return SymbolRefAttr(symbol)
    return ScopeAttr(ScopeAttr.parse_parameter(parser))


class MemoryAccessing(SPIRVOp, ABC):
    """An operation with a memory operand."""

    memory_access = opt_prop_def(MemoryAccessAttr)
    alignment = opt_prop_def(IntegerAttr)
    memory_scope = opt_prop_def(SCOPE)

    @property
    def memory(self) -> MemoryOperand:
        """The memory operand and its parameters; of a copy the target's, or both sides'."""
        return MemoryOperand(self.memory_access, self.alignment, self.memory_scope)


class MemoryCopying(MemoryAccessing, ABC):
    """A copy in memory. One memory operand is for both sides; of two, the first is the target's."""

    FIELDS: ClassVar[Mapping[str, str]] = {"memory_access_2": "source_memory_access"}
    source_memory_access = opt_prop_def(MemoryAccessAttr)
    source_alignment = opt_prop_def(IntegerAttr)
    source_memory_scope = opt_prop_def(SCOPE)

    @property
    def source_memory(self) -> MemoryOperand:
        """The source's memory operand where it has one of its own."""
        return MemoryOperand(
            self.source_memory_access, self.source_alignment, self.source_memory_scope
        )
