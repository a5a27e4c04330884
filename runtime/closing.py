"""Objects that hold resources of the system are closed by the end of a `with`."""

from __future__ import annotations

from typing import Self


class Closing:
    """Something with a `close` that a `with` calls at its end."""

    def close(self) -> None:
        """Free everything; closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
