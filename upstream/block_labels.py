"""
Corrects xDSL's parser: a block may have a number as its label, `^0`, as in MLIR.

xDSL 0.74 makes every label except `bbN` a name hint, and a hint may not begin with a digit, so the
parser raises `ValueError`. `install` gives the parser another `Block` class, which accepts such
labels without a name hint. A pull request to xDSL would call `Block.is_valid_name(name)` where all
labels are read, as xDSL already does in nested regions.
"""

from typing import Any

from xdsl.ir import Block
from xdsl.parser import core


class _LabelledBlock(Block):
    """
    Replaces xDSL's `Block` in parsers. A label becomes a name hint only if it is a valid name other
    than `bbN`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Block(*args, **kwargs)

    @staticmethod
    def is_default_block_name(name: str) -> bool:
        return Block.is_default_block_name(name) or not Block.is_valid_name(name)


def install() -> None:
    """Makes every parser of this process accept numbers as labels."""
    setattr(core, "Block", _LabelledBlock)
