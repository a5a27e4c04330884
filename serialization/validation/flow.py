"""
Finds the blocks of a function and their dominators.

There are two graphs. The control-flow graph has an edge for each branch. The structured graph also
has edges from a header to its merge block and continue target (SPIR-V 2.11: "structurally
dominates"), so that it contains unreachable continue targets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.upstream.dominance import Dominators

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
    """A basic block, from its label to its terminator."""

    label: Instruction
    function: Function
    order: int
    """Position of the block in the function."""
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    """The block's instructions after its label."""
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


class Function:
    """A function with its instructions, blocks and graphs."""

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
        self._flow: Dominators[Block] | None = None
        self._structured: Dominators[Block] | None = None

    def add_block(self, label: Instruction) -> Block:
        block = Block(label, self, len(self.blocks))
        self.blocks.append(block)
        self.by_id.setdefault(label.result, block)
        return block

    def connect(self) -> None:
        """
        Computes successors and predecessors of the blocks. All blocks must have been added before.
        """
        for block in self.blocks:
            block.merge = next((i for i in block.instructions if i.op in MERGES), None)
            targets = branch_targets(block.terminator)
            block.successors = self._known(dict.fromkeys(targets))
            for to in block.successors:
                to.predecessors.append(block)

    def _known(self, ids: Iterable[int]) -> list[Block]:
        return [self.by_id[i] for i in ids if i in self.by_id]

    def structured_successors(self, block: Block) -> list[Block]:
        """Returns a block's successors in the structured graph."""
        if block.merge is None:
            return block.successors
        named = block.merge.words[1 : 3 if block.merge.op == "LoopMerge" else 2]
        extra = [b for b in self._known(named) if b not in block.successors]
        return [*extra, *block.successors]

    @property
    def flow(self) -> Dominators[Block]:
        """Dominators in the control-flow graph. The function must have at least one block."""
        if self._flow is None:
            self._flow = Dominators(self.blocks[0], lambda b: b.successors)
        return self._flow

    @property
    def structured(self) -> Dominators[Block]:
        """Dominators in the structured graph."""
        if self._structured is None:
            headers = any(block.merge is not None for block in self.blocks)
            self._structured = (
                Dominators(self.blocks[0], self.structured_successors) if headers else self.flow
            )
        return self._structured


def branch_targets(terminator: Instruction | None) -> list[int]:
    """Returns the labels that a terminator may branch to."""
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
