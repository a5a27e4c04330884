"""
Maps the instructions of a binary to operations. A finding about the binary can then name an
operation.

The encoder fills an `Origins` on request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from xdsl.ir import Operation

from xdsl_spirv.serialization.raw.binary import HEADER_WORDS
from xdsl_spirv.serialization.raw.words import ModuleWords, Section


class Origins:
    """The operation of each word and each result id of one binary."""

    def __init__(self) -> None:
        self._begins: dict[Section, list[tuple[int, Operation]]] = {}
        self._starts: list[int] = []
        self._operations: list[Operation | None] = []
        self._of_id: dict[int, Operation] = {}

    def begin(self, section: Section, offset: int, op: Operation) -> None:
        """Records that the words of a section from `offset` on belong to an operation."""
        self._begins.setdefault(section, []).append((offset, op))

    def finish(self, words: ModuleWords, ids: Iterable[tuple[int, Operation]]) -> None:
        """
        Adds the result ids of operations. Converts the offsets in sections to offsets in the
        binary.
        """
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
        Returns the operation of an instruction, which is given by its result id (or 0) and its word
        offset.

        Returns None for an instruction that does not belong to a single operation: types, names,
        the memory model.
        """
        if id in self._of_id:
            return self._of_id[id]
        place = bisect_right(self._starts, word)
        return self._operations[place - 1] if place else None
