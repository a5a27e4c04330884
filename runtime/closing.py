"""Defines the base class of objects that hold system resources until they are closed."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager that calls `close` at the end of a `with`."""

    def close(self) -> None:
        """Frees all resources. Does nothing if called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
