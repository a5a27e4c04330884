"""Passes that turn scheduled operations into kernel code, by one function per kernel kind."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import CollectiveOp
from xdsl_spirv.passes import refuse, rewrite_once
from xdsl_spirv.passes.analysis.contraction import NotAContraction
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.kinds import KINDS, ScheduleDoesNotFit, kind_of, plan_of, root_of

Code: TypeAlias = Callable[[Any, Any, CollectiveOp], Callable[[], None] | None]
"""
A function (emitter, plan, collective) that writes a kernel's code before the operation
`schedule.collective`. It may return a callback that runs after this operation is erased.
"""


@dataclass(frozen=True)
class KernelPass(ModulePass, ABC):
    """A pass that writes the code of the kernel kinds listed in `codes` (see `schedule.kinds`)."""

    codes: ClassVar[Mapping[str, Code]]
    emitter: ClassVar[type[KernelEmitter]] = KernelEmitter

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_once(op, KernelPattern(self.name, op, self.codes, self.emitter))


@dataclass
class KernelPattern(RewritePattern):
    """
    Replaces a kernel's collective by the code that each invocation runs.

        schedule.collective { ... }  ->  gpu.block_id ... scf.for ... memref.store
    """

    pass_name: str
    """Name of the pass, used in error messages."""

    module: ModuleOp
    codes: Mapping[str, Code]
    emitter: type[KernelEmitter]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CollectiveOp, rewriter: PatternRewriter) -> None:
        root = root_of(op)
        if root is None:
            refuse(
                self.pass_name,
                op,
                "the collective has no scheduled operation: run assign-schedule first",
            )
        kind = kind_of(root)
        if kind in KINDS and kind not in self.codes:
            return
        try:
            plan = plan_of(root, target_of(self.module, self.pass_name))
        except (NotAContraction, ScheduleDoesNotFit) as error:
            refuse(self.pass_name, root, str(error))
        finish = self.codes[kind or ""](self.emitter(InsertPoint.before(op)), plan, op)
        rewriter.erase(op)
        if finish is not None:
            finish()
