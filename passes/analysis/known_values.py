"""
Pure operations that need no second copy: the same operands, seen from where the first one stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager

from xdsl.ir import SSAValue


class KnownValues:
    """
    Values by what computes them, in nested scopes: a block sees what enclosing blocks computed.
    """

    def __init__(self) -> None:
        self._scopes: list[dict[Hashable, SSAValue]] = [{}]

    def get(self, key: Hashable, make: Callable[[], SSAValue]) -> SSAValue:
        """The value under that key, made in the innermost scope if it is not known."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = make()
        return value

    @contextmanager
    def scope(self) -> Generator[None]:
        """What becomes known inside is forgotten after."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()
