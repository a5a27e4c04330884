"""
A base class for objects that hold resources of the system and are closed at the end of a `with`.
"""

from __future__ import annotations

from typing import Self


class Closing:
    """An object whose `close` is called at the end of a `with`."""

    def close(self) -> None:
        """Frees everything; closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
