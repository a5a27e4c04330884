"""Reads the text that a command wrote to a pseudo-terminal."""

from __future__ import annotations

import os


def read_terminal(master: int) -> str:
    """Reads all text from a pseudo-terminal whose other side is closed, and closes it."""
    pieces: list[bytes] = []
    try:
        while piece := os.read(master, 1 << 16):
            pieces.append(piece)
    except OSError:  # Linux ends a closed terminal by EIO (pty(7)).
        pass
    finally:
        os.close(master)
    return b"".join(pieces).decode(errors="replace")
