"""
Finds the constructs of a function's control flow: the blocks inside each selection and loop.

A construct consists of the blocks that its header dominates and its merge block does not. To
compute dominance, the graph also has edges from a header to its merge block and continue target
(SPIR-V 2.11). `find_constructs` returns None if a branch is not structured, or if the dialect's
regions cannot express it. The decoder then does not make regions for the function.

Blocks are given by their labels. Their instructions do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl_spirv.upstream.dominance import Dominators

MAX_NESTING = 60
"""
Maximum nesting of constructs. A function with deeper nesting gets no regions, because regions are
processed recursively.
"""


@dataclass(slots=True)
class BasicBlock:
    """A block's label, branch targets and merge instruction."""

    label: int
    successors: tuple[int, ...]
    """Labels to which the block branches, in order. A label may occur several times."""
    merge: int | None = None
    continue_target: int | None = None
    """Label of the continue target if the block is the header of a loop."""
    unconditional: bool = False
    """True if the block ends in OpBranch."""
    bare: bool = False
    """True if the block has no OpPhi."""


@dataclass(eq=False, slots=True)
class Construct:
    """A selection or loop. Blocks are given by their labels."""

    header: int
    merge: int
    continue_target: int | None
    parent: Construct | None
    depth: int
    blocks: list[int] = field(default_factory=list[int])
    """
    The blocks of the construct's region. A SPIR-V block that becomes part of another block is not
    listed.
    """


@dataclass(eq=False, slots=True)
class Constructs:
    """The constructs of a function. Blocks are given by their labels."""

    top: list[int]
    """The blocks of the function's outermost region."""
    of_header: dict[int, Construct]
    region: dict[int, Construct | None]
    """
    Maps a block to the innermost construct whose region contains it. A loop contains its own
    header.
    """
    absorbed: set[int]
    """SPIR-V blocks that are decoded into the same dialect block as the block before them."""


def _edges(block: BasicBlock) -> Iterable[int]:
    named = [t for t in (block.merge, block.continue_target) if t is not None]
    return (*block.successors, *named)


def find_constructs(blocks: Mapping[int, BasicBlock], entry: int) -> Constructs | None:
    """Returns a function's constructs. Returns None if regions cannot express its control flow."""
    headers = [b for b in blocks.values() if b.merge is not None]
    merges = {b.merge for b in headers}
    if len(merges) != len(headers):
        return None
    continues = {b.continue_target for b in headers if b.continue_target is not None}
    if continues & merges or len(continues) != sum(b.continue_target is not None for b in headers):
        return None
    if entry in merges or entry in continues or blocks[entry].continue_target is not None:
        return None
    dominators = Dominators(entry, lambda label: _edges(blocks[label]))
    finder = _Finder(blocks, entry, dominators.immediate())
    return finder.result if finder.find() else None


class _Finder:
    def __init__(self, blocks: Mapping[int, BasicBlock], entry: int, idom: Mapping[int, int]):
        self.blocks = blocks
        self.entry = entry
        self.idom = idom
        self.result = Constructs([], {}, {}, set())
        self.merges = {b.merge: b.label for b in blocks.values() if b.merge is not None}
        self.sources: dict[int, list[int]] = {}
        for block in blocks.values():
            for target in dict.fromkeys(block.successors):
                self.sources.setdefault(target, []).append(block.label)

    def find(self) -> bool:
        result = self.result
        # Visits the dominator tree, since a block's region depends on the region of its dominator.
        children: dict[int, list[int]] = {}
        for label in self.blocks:
            if label in self.idom and label != self.entry:
                children.setdefault(self.idom[label], []).append(label)
        waiting = [self.entry]
        while waiting:
            label = waiting.pop()
            if not self._place(label):
                return False
            waiting += children.get(label, ())
        for label in self.blocks:
            # Unreachable blocks go to the function's outermost region.
            if label not in result.region:
                if self.blocks[label].merge is not None:
                    return False
                result.region[label] = None
        if not all(self._branches(b) for b in self.blocks.values()):
            return False
        for label in self.blocks:
            self._list(label)
        return all(self._loop(c) for c in result.of_header.values())

    def _inner(self, label: int) -> Construct | None:
        return self.result.of_header.get(label) or self.result.region[label]

    def _place(self, label: int) -> bool:
        """
        Determines the region and the construct of a block. Returns False if regions cannot express
        them.
        """
        result, block = self.result, self.blocks[label]
        if label == self.entry:
            around = None
        elif label in self.merges:
            header = self.merges[label]
            if self.idom[label] != header:
                return False
            around = result.of_header[header].parent
        else:
            around = self._inner(self.idom[label])
        result.region[label] = around
        if block.merge is None:
            return True
        depth = 1 if around is None else around.depth + 1
        if depth > MAX_NESTING:
            return False
        construct = Construct(label, block.merge, block.continue_target, around, depth)
        result.of_header[label] = construct
        if block.continue_target is not None:
            if block.continue_target not in (label, block.merge) and (
                self.idom.get(block.continue_target) is None
            ):
                return False
            result.region[label] = construct
        return True

    def _branches(self, block: BasicBlock) -> bool:
        """True if each branch of a block stays in its region or is an allowed exit."""
        if block.merge is not None and block.continue_target is None:
            if block.unconditional or not block.successors:
                return False
        if block.merge is not None and block.label in (block.merge, *block.successors):
            if block.continue_target != block.label:
                return False
        around = self._inner(block.label)
        enclosing: list[Construct] = []
        while around is not None:
            enclosing.append(around)
            around = around.parent
        own = enclosing[0] if enclosing else None
        for target in block.successors:
            if own is not None and target == own.header and own.continue_target is not None:
                continue
            if target in self.merges:
                construct = self.result.of_header.get(self.merges[target])
                if construct not in enclosing:
                    return False
                continue
            loop = self.result.of_header.get(target)
            if loop is not None and loop.continue_target is not None:
                if loop.parent is not own:
                    return False
                continue
            region = self.result.region[target]
            if region is own:
                continue
            if region is None or region not in enclosing or region.continue_target != target:
                return False
        return True

    def _list(self, label: int) -> None:
        """
        Adds a block to the list of its region, unless it is decoded into the same dialect block as
        a previous one.
        """
        result = self.result
        if label in self.merges and label in self.idom:
            return
        construct = result.of_header.get(label)
        around = result.region[label]
        if construct is not None and construct.continue_target is not None:
            around = construct.parent
            if self._entered_once(label, construct):
                result.absorbed.add(label)
                return
        (result.top if around is None else around.blocks).append(label)

    def _entered_once(self, label: int, loop: Construct) -> bool:
        """True if exactly one block enters the loop, and this block has no other successor."""
        sources = [s for s in self.sources.get(label, ()) if self._inner(s) is not loop]
        if len(sources) != 1:
            return False
        source = self.blocks[sources[0]]
        return source.unconditional and source.merge is None

    def _loop(self, loop: Construct) -> bool:
        """True if a loop has exactly one back edge, which ends the continue construct."""
        target = loop.continue_target
        if target is None:
            return True
        if self.result.region.get(target) is not loop and target != loop.header:
            return False
        back = [s for s in self.sources.get(loop.header, ()) if self._inner(s) is loop]
        if len(back) != 1:
            return False
        if any(t not in (loop.header, loop.merge) for t in self.blocks[back[0]].successors):
            return False
        if target == loop.header:
            return back[0] == target
        return self._end(target, loop) == back[0]

    def _end(self, label: int, loop: Construct) -> int:
        """Returns the last SPIR-V block that is decoded into the same dialect block as `label`."""
        while True:
            block = self.blocks[label]
            if block.merge is not None:
                label = block.merge
                continue
            if not block.unconditional:
                return label
            target = block.successors[0]
            inner = self.result.of_header.get(target)
            if inner is not None and inner is not loop and target in self.result.absorbed:
                label = inner.merge
                continue
            alone = self.sources[target] == [label] and self.blocks[target].bare
            plain = target in loop.blocks and target != loop.continue_target
            if not (alone and plain):
                return label
            loop.blocks.remove(target)
            self.result.absorbed.add(target)
            label = target
