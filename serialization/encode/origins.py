"""
Records the operation that each instruction of a binary is written for. On request the encoder
records the words at which an operation's instructions begin, and the ids of symbols and values. So
findings in the binary can name the operation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from xdsl.ir import Operation

from xdsl_spirv.serialization.raw.binary import HEADER_WORDS
from xdsl_spirv.serialization.raw.words import ModuleWords, Section


class Origins:
    """The operations behind the instructions of one binary, by word and by result id."""

    def __init__(self) -> None:
        self._begins: dict[Section, list[tuple[int, Operation]]] = {}
        self._starts: list[int] = []
        self._operations: list[Operation | None] = []
        self._of_id: dict[int, Operation] = {}

    def begin(self, section: Section, offset: int, op: Operation) -> None:
        """Notes that from this word of a section on, instructions belong to an operation."""
        self._begins.setdefault(section, []).append((offset, op))

    def finish(self, words: ModuleWords, ids: Iterable[tuple[int, Operation]]) -> None:
        """Adds the lengths of the sections, and the ids that operations define."""
        for id, op in ids:
            self._of_id.setdefault(id, op)
        base = HEADER_WORDS
        for section in Section:
            for offset, op in ((0, None), *self._begins.get(section, ())):
                self._starts.append(base + offset)
                self._operations.append(op)
            base += len(words.sections[section])

    def operation(self, id: int, word: int) -> Operation | None:
        """
        The operation of the instruction at a word of the binary, which defines an id (0 if none).

        None for instructions without a single operation: types, names, the memory model.
        """
        if id in self._of_id:
            return self._of_id[id]
        place = bisect_right(self._starts, word)
        return self._operations[place - 1] if place else None
