"""
A correction of xDSL's parser: a block may be labelled with a number, `^0`, as in MLIR.

xDSL 0.74 makes every label but `bbN` a name hint, and a hint may not begin with a digit: it raises
`ValueError` out of the parser. `install` lets such a label name its block while it is read, and
nothing after: the parser has another `Block`, and everybody else xDSL's. The pull request:
`Block.is_valid_name(name)` asked where labels are read, as it is where nested regions are.
"""

from typing import Any

from xdsl.ir import Block
from xdsl.parser import core


class _LabelledBlock(Block):
    """Makes xDSL's blocks. A label is a name hint unless it is `bbN`, or no valid hint."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Block(*args, **kwargs)

    @staticmethod
    def is_default_block_name(name: str) -> bool:
        return Block.is_default_block_name(name) or not Block.is_valid_name(name)


def install() -> None:
    """Make every parser of this process read labels that are numbers."""
    setattr(core, "Block", _LabelledBlock)
