"""
Skips the checks of an operation's position where the position is certainly correct.

xDSL checks regions, successors and position of every operation that it verifies. For a terminator
it counts the blocks of the region, which takes n squared steps for a function of n blocks. A pull
request to xDSL would move these checks to the operation that has the regions, which visits each
block once.
"""

from __future__ import annotations

from abc import ABC

from xdsl.ir import ErasedSSAValue
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException


class PlacedOperation(IRDLOperation, ABC):
    """Base class of operations that skip xDSL's general checks if `_is_well_placed` is true."""

    def verify(self, verify_nested_ops: bool = True) -> None:
        """Verifies the operation, as in xDSL. Raises `VerifyException`."""
        if self.regions or not self._is_well_placed():
            super().verify(verify_nested_ops)
            return
        try:
            self.verify_()
        except VerifyException as error:
            self.emit_error(f"Operation does not verify: {error}", error)

    def _is_well_placed(self) -> bool:
        """True if operands, successors and terminator certainly satisfy xDSL's general rules."""
        block = self.parent
        if block is None:
            return False
        for operand in self._operands:
            if type(operand) is ErasedSSAValue:
                return False
        if block.last_op is not self:
            return not self._successors
        region = block.parent
        inside = all(target.parent is region for target in self._successors)
        return region is not None and inside and self.has_trait(IsTerminator)
