"""
The control-flow graph of a function with structured regions, and the dominance rule.

A node is a stretch of a block without constructs: a construct's region stands between the stretch
before it and the one behind it, so that exits from nested constructs are ordinary edges. The
verifier asks the graph whether values are defined before their uses; the decoder asks it where
values leave constructs. Operations are known by name: their modules import the function's.
"""

from __future__ import annotations

from functools import cached_property

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.dominance import Dominators

CONSTRUCTS = ("spirv.mlir.selection", "spirv.mlir.loop")


class FlowGraph:
    """The stretches of a function's blocks, by number, and the edges between them."""

    def __init__(self, body: Region):
        self.body = body
        self.starts: list[Block | Operation] = []
        """The block at whose beginning a stretch begins, or the construct that it follows."""
        self.blocks: list[Block] = []
        """The block that each stretch is in."""
        self.first: dict[Block, int] = {}
        """The stretch that a block begins with."""
        self.last: dict[Block, int] = {}
        """The stretch that ends in a block's terminator."""
        self.places: dict[int, int] = {}
        """For each operation or block, its place; all stretches at one place share it.

        A construct is at the place where its results are defined.
        """
        self.stretches: list[int] = []
        """Place -> stretch."""
        self.around: dict[Region, frozenset[Region]] = {body: frozenset((body,))}
        """For each region, the regions around it."""
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
        """The predecessors of each stretch, without repetition."""
        sources: list[list[int]] = [[] for _ in self.starts]
        for node, successors in enumerate(self.successors):
            for to in dict.fromkeys(successors):
                sources[to].append(node)
        return sources

    def region(self, node: int) -> Region:
        """The region that a stretch is in."""
        region = self.blocks[node].parent
        assert region is not None
        return region

    def node(self, place: Block | Operation) -> int:
        """Returns the stretch of an operation; for a construct, the stretch behind it."""
        return self.stretches[self.places[id(place)]]

    def is_in_scope(self, value: SSAValue, node: int) -> bool:
        """Whether a value's region is around a stretch; also if it is of another function."""
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        region = None if home is None else home.parent
        return region not in self.around or region in self.around[self.region(node)]


def _targets(block: Block) -> list[Block]:
    """The blocks that a block's terminator branches to, also outside of its construct."""
    last = block.last_op
    if last is None:
        return []
    target: Block | None = getattr(last, "target", None)
    return [target] if target is not None and not last.successors else list(last.successors)


def verify_dominance(body: Region) -> None:
    """
    Verifies that every value is defined before its uses, on every path to them. Raises
    `VerifyException`. Unreachable stretches may use any value in scope.
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
    """Whether a value of one stretch may be used in another."""
    tree = graph.dominators
    return graph.is_in_scope(value, used) and (
        not tree.reaches(used) or tree.dominates(defined, used)
    )


def _refuse(op: Operation, operand: SSAValue, in_scope: bool) -> None:
    name = f"%{operand.name_hint}" if operand.name_hint else f"a value of type {operand.type}"
    if in_scope:
        reason = "its definition does not come before the use on every path"
        remedy = "pass the value to the block as an argument"
    else:
        reason = "it is defined inside of a construct and used outside"
        remedy = "make it a result of the construct, by spirv.mlir.merge"
    raise VerifyException(f"{op.name} uses {name}, but {reason}: {remedy}")
