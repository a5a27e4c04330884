"""
Raises errors for refused operations, copies operations, and rewrites a module one operation at a
time.

An error has one message: the cause, the operation and its location, and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects.places import place


class NotPossible(ValueError):
    """Raised if the operation `op` cannot be rewritten. The message is the cause."""

    def __init__(self, op: Operation, cause: str):
        super().__init__(cause)
        self.op = op


def refuse(pass_name: str, op: Operation, cause: str) -> NoReturn:
    """
    Raises `PassFailedException` with the text `pass: place: cause`; `cause` includes the remedy.
    """
    raise PassFailedException(f"{pass_name}: {place(op)}: {cause}")


def refusals(pass_name: str) -> Callable[[Operation, str], NoReturn]:
    """Returns `refuse` for one pass: a function (op, cause) that raises the error."""
    return lambda op, cause: refuse(pass_name, op, cause)


def copy_with(
    op: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute] | None = None
) -> Operation:
    """Copies an operation without regions, with other operands and possibly other result types."""
    return type(op).create(
        operands=operands,
        result_types=op.result_types if types is None else types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )


def rewrite_once(root: Operation, *patterns: RewritePattern) -> None:
    """
    Applies patterns to the operations inside of `root`, in textual order.

    The first pattern that matches an operation rewrites it. Inserted operations are not visited.
    Exceptions of patterns propagate.
    """
    stopping = _Stopping(GreedyRewritePatternApplier([*patterns], dce_enabled=False))
    for region in root.regions:
        PatternRewriteWalker(stopping, apply_recursively=False).rewrite_region(region)
    if stopping.error is not None:
        raise stopping.error


@dataclass
class _Stopping(RewritePattern):
    """
    A pattern that stores an exception and then matches nothing.

    xDSL's walker would add a print of the whole module to the exception, including a model's
    weights.
    """

    pattern: RewritePattern
    error: Exception | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if self.error is None:
            try:
                self.pattern.match_and_rewrite(op, rewriter)
            except Exception as error:
                self.error = error
