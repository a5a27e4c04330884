"""Reads and writes messages of the Debug Adapter Protocol."""

from __future__ import annotations

import json
import threading
from typing import IO, Any

from xdsl_spirv.runtime.errors import ProgramError

MOST = 16 << 20
"""Largest size of a message, in bytes."""


class Connection:
    """A connection to an editor. Any thread may send messages."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]):
        self._reader, self._writer = reader, writer
        self._number = 0
        self._lock = threading.Lock()

    def read(self) -> dict[str, Any] | None:
        """Returns the next message, or None at the end. Raises `ProgramError` if malformed."""
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
                "leave out --dap in a terminal, because --dap is for editors",
            )
        return message  # pyright: ignore

    def send(self, type: str, **fields: Any) -> None:
        """Sends a message to the editor."""
        with self._lock:
            self._number += 1
            text = json.dumps({"seq": self._number, "type": type, **fields}).encode()
            self._writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
            self._writer.flush()

    def event(self, name: str, **body: Any) -> None:
        """Sends an event to the editor."""
        self.send("event", event=name, body=body)
