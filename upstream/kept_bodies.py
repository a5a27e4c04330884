"""
Prevents xDSL's passes from changing certain regions.

Dead code elimination erases the blocks that no branch reaches, and common subexpression
elimination replaces operations by equal operations outside of their region. A structured construct
of SPIR-V needs its merge block and its continue target even if no branch reaches them, and a
specialization constant's operation must stay in its region. `install` makes both passes check the
traits of this module, as a pull request to xDSL would.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Region
from xdsl.traits import OpTrait
from xdsl.transforms.common_subexpression_elimination import CSEDriver
from xdsl.transforms.dead_code_elimination import LiveSet


class AllBlocksLive(OpTrait):
    """Trait of an operation whose blocks must not be erased, even if they are unreachable."""


class KeptBody(OpTrait):
    """Trait of an operation in whose regions no operation may be replaced."""


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
    """Makes dead code and common subexpression elimination respect this module's traits."""
    LiveSet.propagate_region_liveness = _propagate_to_all_blocks
    setattr(CSEDriver, "_simplify_region", _simplify_free_region)
