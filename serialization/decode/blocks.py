"""
Finds the blocks of a function in a binary: the indices of their instructions, and their branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.decode.constructs import BasicBlock
from xdsl_spirv.serialization.decode.module_index import EXTENDED, ModuleIndex
from xdsl_spirv.serialization.raw.operands import opcode_of

TERMINATORS = frozenset(
    (
        "OpBranch OpBranchConditional OpSwitch OpReturn OpReturnValue OpKill OpUnreachable "
        "OpTerminateInvocation OpDemoteToHelperInvocationTerminator OpIgnoreIntersectionKHR "
        "OpTerminateRayKHR OpEmitMeshTasksEXT OpAbortKHR"
    ).split()
)
SILENT = ("OpNop", "OpLine", "OpNoLine")
"""Instructions without an effect on results (debug information, no-ops)."""


@dataclass(eq=False, slots=True)
class BlockRows:
    """The indices of one block's instructions."""

    flow: BasicBlock
    phis: list[int] = field(default_factory=list[int])
    body: list[int] = field(default_factory=list[int])
    merge: int | None = None
    terminator: int = -1
    begun: bool = False
    """True if the block has an instruction that must come after all OpPhi."""


@cache
def _terminators() -> frozenset[int]:
    return frozenset(grammar().instruction(n).opcode for n in TERMINATORS if n in grammar())


def read_blocks(index: ModuleIndex, start: int, stop: int) -> dict[int, BlockRows]:
    """
    Returns the blocks between two instruction indices. The result maps labels to blocks, in the
    module's order.

    Raises `SPIRVDecodeError` if an instruction is outside of blocks, a block has no terminator, or
    a branch leaves this range.
    """
    label, phi = opcode_of("OpLabel"), opcode_of("OpPhi")
    merges = (opcode_of("OpSelectionMerge"), opcode_of("OpLoopMerge"))
    ends = _terminators()
    blocks: dict[int, BlockRows] = {}
    block: BlockRows | None = None
    between: list[int] = []
    for row in range(start, stop):
        opcode, index.at = index.opcodes[row], row
        if opcode == label:
            if block is not None:
                raise index.error("a block begins inside another block")
            id = index.word(index.rows[row], 1)
            block = blocks[id] = BlockRows(BasicBlock(id, ()))
            # Debug information between two blocks belongs to the next block.
            block.body, between = between, []
        elif block is None:
            if index.name(row) in EXTENDED:
                between.append(row)
            elif index.name(row) not in SILENT:
                raise index.error("the instruction is outside of a block")
        elif opcode == phi:
            if block.begun:
                raise index.error("OpPhi follows an instruction other than OpPhi in its block")
            block.phis.append(row)
        elif opcode in merges:
            block.merge = row
        elif opcode in ends:
            block.terminator = row
            _read_flow(index, block)
            block = None
        else:
            block.begun = block.begun or index.name(row) not in (*SILENT, *EXTENDED)
            block.body.append(row)
    if block is not None:
        raise index.error("the function ends inside a block")
    if blocks:
        blocks[next(reversed(blocks))].body += between
    _check_targets(index, blocks)
    return blocks


def _read_flow(index: ModuleIndex, block: BlockRows) -> None:
    flow = block.flow
    words, name = index.rows[block.terminator], index.name(block.terminator)
    flow.bare = not block.phis
    if name == "OpBranch":
        flow.successors, flow.unconditional = (index.word(words, 1),), True
    elif name == "OpBranchConditional":
        flow.successors = (index.word(words, 2), index.word(words, 3))
    elif name == "OpSwitch":
        operands = index.raw[block.terminator].operands
        flow.successors = tuple(int(o.value) for o in (operands[1], *operands[3::2]))
    if block.merge is not None:
        merge = index.rows[block.merge]
        flow.merge = index.word(merge, 1)
        if index.name(block.merge) == "OpLoopMerge":
            flow.continue_target = index.word(merge, 2)


def _check_targets(index: ModuleIndex, blocks: dict[int, BlockRows]) -> None:
    for block in blocks.values():
        flow = block.flow
        index.at = block.terminator
        for target in (*flow.successors, flow.merge, flow.continue_target):
            if target is not None and target not in blocks:
                raise index.error(f"%{target} is not a block of the function")
        if blocks and next(iter(blocks)) in flow.successors:
            raise index.error("a branch cannot go to the first block of its function")
