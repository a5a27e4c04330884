"""
Caches the solvers' answers on disk, so that each proof obligation is decided only once.

The cache `obligations` has a file for each answer. A file's name is a digest of the obligation's
text and of the solvers' versions. Files are written atomically. Undecided obligations are not
cached, because more time may decide them.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from xdsl_spirv.prove.solvers import Answer, Answers
from xdsl_spirv.runtime.caches import cache_folder, drop_oldest
from xdsl_spirv.serialization.files import write_atomically

NAME = "obligations"
MOST, MOST_BYTES = 10_000, 256 << 20
"""Limits of the number and bytes of cached answers. The least recently used are removed."""
PERIOD = 256
"""Number of new answers between two removals of old answers."""
SOLVERS = ("z3-solver", "bitwuzla", "cvc5")


class KeptAnswers:
    """A cache of answers in a folder."""

    def __init__(self, folder: Path):
        self.folder, self.made, self.found = folder, 0, 0

    def find(self, text: str) -> Answer | None:
        """Returns the cached answer to an obligation, or None."""
        path = self._path(text)
        try:
            answer = Answer(**json.loads(path.read_text()))
            os.utime(path)
        except (OSError, ValueError, TypeError):
            return None
        self.found += 1
        return answer

    def keep(self, text: str, answer: Answer) -> None:
        """Writes an answer to disk; ignores errors of the operating system."""
        self.made += 1
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.made % PERIOD == 1:
                drop_oldest(self.folder, MOST, MOST_BYTES)
            write_atomically(self._path(text), json.dumps(asdict(answer)).encode())

    def _path(self, text: str) -> Path:
        return self.folder / f"{hashlib.sha256((_versions() + text).encode()).hexdigest()}.json"


@cache
def _versions() -> str:
    return " ".join(f"{name} {version(name)}" for name in SOLVERS) + "\n"


def open_answers() -> Answers | None:
    """Opens the current user's cache of answers; returns None if caching is disabled."""
    folder = cache_folder(NAME)
    return KeptAnswers(folder) if folder is not None else None
