"""
A function's blocks and what dominates what.

Two graphs are kept. The control-flow graph has the branches; the structured one also has an edge
from a header to its merge block and continue target (SPIR-V 2.11: "structurally dominates"), so
that unreachable continue targets have a place in it. Dominators come from the iteration of Cooper,
Harvey and Kennedy over reverse postorder, then numbered so that a question costs two comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl_spirv.serialization.validation.instructions import Instruction

TERMINATORS = frozenset(
    {
        "Branch",
        "BranchConditional",
        "Switch",
        "Return",
        "ReturnValue",
        "Kill",
        "Unreachable",
        "TerminateInvocation",
        "IgnoreIntersectionKHR",
        "TerminateRayKHR",
        "EmitMeshTasksEXT",
        "AbortKHR",
    }
)
MERGES = frozenset({"LoopMerge", "SelectionMerge"})


@dataclass(eq=False, slots=True)
class Block:
    """A basic block: from its label to its terminator."""

    label: Instruction
    function: Function
    order: int
    """Its place in the function."""
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    """Behind the label."""
    successors: list[Block] = field(default_factory=list["Block"])
    predecessors: list[Block] = field(default_factory=list["Block"])
    merge: Instruction | None = None
    """The merge instruction, if the block is a header."""

    @property
    def id(self) -> int:
        return self.label.result

    @property
    def terminator(self) -> Instruction | None:
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.op in TERMINATORS else None

    def __repr__(self) -> str:
        return f"<block %{self.id}>"


class Dominators:
    """The dominator tree of the blocks that are reached from an entry."""

    __slots__ = ("_enter", "_leave", "number", "order", "parent")

    def __init__(self, entry: Block, successors: Callable[[Block], Sequence[Block]]):
        self.order = reverse_postorder(entry, successors)
        """Reachable blocks in reverse postorder."""
        self.number = {block: k for k, block in enumerate(self.order)}
        edges: list[list[int]] = [[] for _ in self.order]
        for block in self.order:
            for to in successors(block):
                edges[self.number[to]].append(self.number[block])
        self.parent = _immediate(edges)
        self._enter, self._leave = _intervals(self.parent)

    def reaches(self, block: Block) -> bool:
        return block in self.number

    def dominates(self, above: Block, below: Block) -> bool:
        """Whether every way to a block leads through another; a block dominates itself."""
        if above not in self.number or below not in self.number:
            return False
        a, b = self.number[above], self.number[below]
        return self._enter[a] <= self._enter[b] and self._leave[b] <= self._leave[a]


def reverse_postorder(entry: Block, successors: Callable[[Block], Sequence[Block]]) -> list[Block]:
    seen = {entry}
    done: list[Block] = []
    stack = [(entry, iter(successors(entry)))]
    while stack:
        block, ways = stack[-1]
        for to in ways:
            if to not in seen:
                seen.add(to)
                stack.append((to, iter(successors(to))))
                break
        else:
            stack.pop()
            done.append(block)
    return done[::-1]


def _immediate(edges: list[list[int]]) -> list[int]:
    """The immediate dominator of each block by number; the entry's is itself."""
    parent = [-1] * len(edges)
    parent[0] = 0
    changed = True
    while changed:
        changed = False
        for block in range(1, len(edges)):
            best = -1
            for other in edges[block]:
                if parent[other] < 0:
                    continue
                best = other if best < 0 else _common(parent, best, other)
            if best >= 0 and parent[block] != best:
                parent[block] = best
                changed = True
    return parent


def _common(parent: list[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = parent[a]
        while b > a:
            b = parent[b]
    return a


def _intervals(parent: list[int]) -> tuple[list[int], list[int]]:
    """Numbers at which a walk of the tree enters and leaves each block."""
    children: list[list[int]] = [[] for _ in parent]
    for block in range(1, len(parent)):
        children[parent[block]].append(block)
    enter, leave = [0] * len(parent), [0] * len(parent)
    clock = 0
    stack = [(0, False)]
    while stack:
        block, left = stack.pop()
        clock += 1
        if left:
            leave[block] = clock
            continue
        enter[block] = clock
        stack.append((block, True))
        stack.extend((child, False) for child in children[block])
    return enter, leave


class Function:
    """A function's instructions, blocks and graphs."""

    __slots__ = (
        "_flow",
        "_structured",
        "at",
        "blocks",
        "by_id",
        "id",
        "parameters",
    )

    def __init__(self, at: Instruction):
        self.at = at
        self.id = at.result
        self.parameters: list[Instruction] = []
        self.blocks: list[Block] = []
        self.by_id: dict[int, Block] = {}
        self._flow: Dominators | None = None
        self._structured: Dominators | None = None

    def add_block(self, label: Instruction) -> Block:
        block = Block(label, self, len(self.blocks))
        self.blocks.append(block)
        self.by_id.setdefault(label.result, block)
        return block

    def connect(self) -> None:
        """Finds the edges, when all blocks are known."""
        for block in self.blocks:
            block.merge = next((i for i in block.instructions if i.op in MERGES), None)
            targets = branch_targets(block.terminator)
            block.successors = self._known(dict.fromkeys(targets))
            for to in block.successors:
                to.predecessors.append(block)

    def _known(self, ids: Iterable[int]) -> list[Block]:
        return [self.by_id[i] for i in ids if i in self.by_id]

    def structured_successors(self, block: Block) -> list[Block]:
        """A block's successors, and a header's merge block and continue target."""
        if block.merge is None:
            return block.successors
        named = block.merge.words[1 : 3 if block.merge.op == "LoopMerge" else 2]
        extra = [b for b in self._known(named) if b not in block.successors]
        return [*extra, *block.successors]

    @property
    def flow(self) -> Dominators:
        """Dominators by branches. The function must have a block."""
        if self._flow is None:
            self._flow = Dominators(self.blocks[0], lambda b: b.successors)
        return self._flow

    @property
    def structured(self) -> Dominators:
        """Dominators with the edges of merge instructions."""
        if self._structured is None:
            headers = any(block.merge is not None for block in self.blocks)
            self._structured = (
                Dominators(self.blocks[0], self.structured_successors) if headers else self.flow
            )
        return self._structured


def branch_targets(terminator: Instruction | None) -> list[int]:
    """The labels that a terminator names."""
    if terminator is None:
        return []
    words = terminator.words
    match terminator.op:
        case "Branch":
            return words[1:2]
        case "BranchConditional":
            return words[2:4]
        case "Switch":
            if terminator.read is None:
                return words[2:3]
            return [int(o.value) for o in terminator.read if o.kind == "IdRef"][1:]
        case _:
            return []
