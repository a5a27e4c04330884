"""Base class of passes that rewrite numeric types with widths that a target may not support."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class LackingPass(ModulePass, ABC):
    """Rewrites numeric types of selected widths in every `spirv.module`."""

    FEATURES: ClassVar[Mapping[int, str]]
    """Maps each width in bits to the target feature that makes its rewrite unnecessary."""

    as_needed: bool = False
    """Rewrites only what the module's target lacks."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        widths = self.selected
        if self.as_needed:
            widths &= frozenset(self.lacking(target_of(op, self.name)))
        for module in op.walk() if widths else ():
            if isinstance(module, ModuleOp):
                self.rewrite(module, widths)

    @property
    def selected(self) -> frozenset[int]:
        """Widths in bits that the pass rewrites if the target lacks them."""
        return frozenset(self.FEATURES)

    @classmethod
    def lacking(cls, target: Target) -> tuple[int, ...]:
        """Returns the widths that a target lacks."""
        return tuple(w for w, feature in cls.FEATURES.items() if feature not in target.features)

    @abstractmethod
    def rewrite(self, module: ModuleOp, widths: frozenset[int]) -> None:
        """Rewrites a module. Raises `PassFailedException` if that is impossible."""


@dataclass(frozen=True)
class SmallTypesPass(LackingPass):
    """Rewrites 8- and 16-bit types."""

    widths: tuple[int, ...] = (8, 16)
    """Widths in bits of the numbers to rewrite."""

    @property
    def selected(self) -> frozenset[int]:
        return frozenset(self.widths)
