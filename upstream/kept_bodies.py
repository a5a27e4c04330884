"""
Keeps stock passes from changing certain regions.

Stock passes change the body of every operation: dead code elimination erases the blocks that no
branch reaches, and common subexpression elimination replaces operations by equal ones outside. A
structured construct of SPIR-V needs its merge block and its continue target even if no branch
reaches them, and a specialization constant's operation must stay in its region. The pull request:
both passes check the traits here; `install` replaces the two methods.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Region
from xdsl.traits import OpTrait
from xdsl.transforms.common_subexpression_elimination import CSEDriver
from xdsl.transforms.dead_code_elimination import LiveSet


class AllBlocksLive(OpTrait):
    """The blocks of the operation's regions stay, reached or not."""


class KeptBody(OpTrait):
    """Operations inside the operation's regions are not replaced."""


_propagate_region_liveness = LiveSet.propagate_region_liveness
_simplify_region: Any = CSEDriver._simplify_region  # pyright: ignore[reportPrivateUsage]


def _has(region: Region, trait: type[OpTrait]) -> bool:
    parent = region.parent
    return parent is not None and parent.has_trait(trait, value_if_unregistered=False)


def _propagate_to_all_blocks(self: LiveSet, region: Region) -> None:
    if not _has(region, AllBlocksLive):
        _propagate_region_liveness(self, region)
        return
    for block in reversed(region.blocks):
        for op in reversed(block.ops):
            self.propagate_op_liveness(op)


def _simplify_free_region(self: CSEDriver, region: Region) -> None:
    if not _has(region, KeptBody):
        _simplify_region(self, region)


def install() -> None:
    """Make the passes of this process heed the traits."""
    LiveSet.propagate_region_liveness = _propagate_to_all_blocks
    setattr(CSEDriver, "_simplify_region", _simplify_free_region)
