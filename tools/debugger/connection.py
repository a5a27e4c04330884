"""Reads and writes messages of the Debug Adapter Protocol: a header with the length, then JSON."""

from __future__ import annotations

import json
import threading
from typing import IO, Any

from xdsl_spirv.runtime.errors import ProgramError

MOST = 16 << 20
"""Longest message that is read, in bytes."""


class Connection:
    """Two streams of bytes to an editor; messages are numbered and may come from any thread."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]):
        self._reader, self._writer = reader, writer
        self._number = 0
        self._lock = threading.Lock()

    def read(self) -> dict[str, Any] | None:
        """
        Returns the next message, or None at the end. Raises `ProgramError` for a malformed one.
        """
        length = None
        while (line := self._reader.readline(1024)).strip():
            name, _, value = line.decode("ascii", "replace").partition(":")
            if name.strip().lower() == "content-length" and value.strip().isdecimal():
                length = int(value)
        if not line:
            return None
        try:
            message = json.loads(self._reader.read(min(length or 0, MOST)))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ProgramError(
                "the input is not a message of the Debug Adapter Protocol",
                "",
                "an editor starts `xdsl-spirv debug --dap`; in a terminal leave out --dap",
            )
        return message  # pyright: ignore

    def send(self, type: str, **fields: Any) -> None:
        """Writes a message."""
        with self._lock:
            self._number += 1
            text = json.dumps({"seq": self._number, "type": type, **fields}).encode()
            self._writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
            self._writer.flush()

    def event(self, name: str, **body: Any) -> None:
        """Writes an event."""
        self.send("event", event=name, body=body)
