"""
Raises a pass's refusals, and rewrites a module one operation at a time.

A refusal is one message: the cause, the operation and its location, and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects.places import place


def refuse(pass_name: str, op: Operation, cause: str) -> NoReturn:
    """
    Raise `PassFailedException`: `pass: place: cause`.

    `cause` names the numbers and ends with the remedy.
    """
    raise PassFailedException(f"{pass_name}: {place(op)}: {cause}")


def rewrite_once(root: Operation, *patterns: RewritePattern) -> None:
    """
    Offer the operations inside of `root` to patterns, in the order of the text.

    Each operation is rewritten by the first pattern that matches. Inserted operations are not
    offered. Exceptions of patterns pass through.
    """
    stopping = _Stopping(GreedyRewritePatternApplier([*patterns], dce_enabled=False))
    for region in root.regions:
        PatternRewriteWalker(stopping, apply_recursively=False).rewrite_region(region)
    if stopping.error is not None:
        raise stopping.error


@dataclass
class _Stopping(RewritePattern):
    """
    A pattern that matches nothing after it has raised.

    xDSL's walker adds a print of the whole module to a pattern's exception, including the weights
    of a model.
    """

    pattern: RewritePattern
    error: Exception | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if self.error is None:
            try:
                self.pattern.match_and_rewrite(op, rewriter)
            except Exception as error:
                self.error = error
