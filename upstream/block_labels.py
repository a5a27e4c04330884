"""
A correction of xDSL's parser: a block may be labelled with a number, `^0`, as in MLIR.

xDSL 0.74 makes every label but `bbN` a name hint, and a hint may not begin with a digit: it raises
`ValueError` out of the parser. `install` lets such a label name its block while it is read, and
nothing after. The pull request: `Block.is_valid_name(name)` asked where labels are read, as it is
where `spirv`'s own regions are.
"""

from xdsl.ir import Block

_is_default = Block.is_default_block_name


def _names_nothing_after(name: str) -> bool:
    """Whether a label is not a name hint: `bbN`, or no valid one."""
    return _is_default(name) or not Block.is_valid_name(name)


def install() -> None:
    """Make every parser of this process read labels that are numbers."""
    Block.is_default_block_name = staticmethod(_names_nothing_after)
