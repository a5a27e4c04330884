"""
The control-flow graph of a function with structured regions, and the dominance rule.

Constructs divide a block into parts, the nodes of the graph. An edge leads from the part before a
construct to its region, and from the region to the part after the construct. Exits from nested
constructs are therefore ordinary edges. The verifier uses the graph to check that values are
defined before their uses. The decoder uses it to find values that leave constructs. Operations are
known by name, since their modules import this one.
"""

from __future__ import annotations

from functools import cached_property

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.dominance import Dominators

CONSTRUCTS = ("spirv.mlir.selection", "spirv.mlir.loop")


class FlowGraph:
    """The nodes (parts of blocks) of a function, numbered, and the edges between them."""

    def __init__(self, body: Region):
        self.body = body
        self.starts: list[Block | Operation] = []
        """For each node, the block that begins with it, or the construct directly before it."""
        self.blocks: list[Block] = []
        """For each node, the block that contains it."""
        self.first: dict[Block, int] = {}
        """Maps a block to its first node."""
        self.last: dict[Block, int] = {}
        """Maps a block to its last node, which contains the terminator."""
        self.places: dict[int, int] = {}
        """
        Maps the identity of an operation or block to its position in the text of the function.

        The results of a construct are defined in the node after it, so the construct has a position
        in that node.
        """
        self.stretches: list[int] = []
        """For each position in `places`, the node that contains it."""
        self.around: dict[Region, frozenset[Region]] = {body: frozenset((body,))}
        """Maps a region to a set of regions: itself and all regions around it."""
        self.successors: list[list[int]] = []
        self._walk()

    def _walk(self) -> None:
        joined: list[tuple[int, Region, int]] = []
        waiting = [self.body]
        while waiting:
            region = waiting.pop()
            for block in region.blocks:
                self.first[block] = node = self._begin(block, block)
                for op in block.ops:
                    if op.name in CONSTRUCTS and op.regions[0].blocks:
                        inside = op.regions[0]
                        self.around[inside] = self.around[region] | {inside}
                        waiting.append(inside)
                        before, node = node, self._begin(op, block)
                        joined.append((before, inside, node))
                    else:
                        self.places[id(op)] = len(self.stretches)
                        self.stretches.append(node)
                self.last[block] = node
        for before, inside, behind in joined:
            self.successors[before].append(self.first[inside.blocks[0]])
            self.successors[self.last[inside.blocks[-1]]].append(behind)
        for block, node in self.last.items():
            self.successors[node] += (self.first[to] for to in _targets(block) if to in self.first)

    def _begin(self, start: Block | Operation, block: Block) -> int:
        node = len(self.starts)
        self.starts.append(start)
        self.blocks.append(block)
        self.successors.append([])
        self.places[id(start)] = len(self.stretches)
        self.stretches.append(node)
        return node

    @cached_property
    def dominators(self) -> Dominators[int]:
        return Dominators(0, self.successors.__getitem__)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The predecessors of each node, without repetition."""
        sources: list[list[int]] = [[] for _ in self.starts]
        for node, successors in enumerate(self.successors):
            for to in dict.fromkeys(successors):
                sources[to].append(node)
        return sources

    def region(self, node: int) -> Region:
        """Returns the region that contains a node."""
        region = self.blocks[node].parent
        assert region is not None
        return region

    def node(self, place: Block | Operation) -> int:
        """Returns the node of an operation. For a construct, returns the node after it."""
        return self.stretches[self.places[id(place)]]

    def is_in_scope(self, value: SSAValue, node: int) -> bool:
        """
        True if the region that defines a value surrounds a node. Always True for values of other
        functions.
        """
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        region = None if home is None else home.parent
        return region not in self.around or region in self.around[self.region(node)]


def _targets(block: Block) -> list[Block]:
    last = block.last_op
    if last is None:
        return []
    target: Block | None = getattr(last, "target", None)
    return [target] if target is not None and not last.successors else list(last.successors)


def verify_dominance(body: Region) -> None:
    """
    Raises `VerifyException` if a value may be used before its definition. Unreachable nodes may
    use any value in scope.
    """
    graph = FlowGraph(body)
    places, stretches = graph.places, graph.stretches
    allowed = set[tuple[int, int]]()
    for block in graph.first:
        for op in block.ops:
            mine = places[id(op)]
            for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
                defined = places.get(id(operand.owner))
                if defined is None:
                    continue
                pair = (stretches[defined], stretches[mine])
                if pair[0] == pair[1]:
                    if defined < mine:
                        continue
                elif pair in allowed:
                    continue
                elif _reaches(graph, operand, *pair):
                    allowed.add(pair)
                    continue
                _refuse(op, operand, graph.is_in_scope(operand, pair[1]))


def _reaches(graph: FlowGraph, value: SSAValue, defined: int, used: int) -> bool:
    tree = graph.dominators
    return graph.is_in_scope(value, used) and (
        not tree.reaches(used) or tree.dominates(defined, used)
    )


def _refuse(op: Operation, operand: SSAValue, in_scope: bool) -> None:
    name = f"%{operand.name_hint}" if operand.name_hint else f"a value of type {operand.type}"
    if in_scope:
        reason = "the definition does not come before the use on every path"
        remedy = "pass the value to the block as an argument"
    else:
        reason = "the value is defined inside a construct and used outside"
        remedy = "make it a result of the construct, by spirv.mlir.merge"
    raise VerifyException(f"{op.name} uses {name}, but {reason}: {remedy}")
