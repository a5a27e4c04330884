"""
Loads and stores of neighbouring elements become those of vectors.
"""

from xdsl.ir import Block


def use_vectors(block: Block) -> None:
    """To come."""
