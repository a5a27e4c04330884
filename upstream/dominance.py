"""
Computes the dominator tree of a control-flow graph, for the decoder, validator and verifier.

Cooper, Harvey and Kennedy's iteration over reverse postorder finds the immediate dominators. The
tree is then numbered, so that a query costs two comparisons. xDSL's `DominanceInfo` is for the
blocks of a region, and quadratic in their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Dominators(Generic[Node]):
    """The dominator tree of all blocks that can be reached from an entry."""

    __slots__ = ("_enter", "_leave", "number", "order", "parent")

    def __init__(self, entry: Node, successors: Callable[[Node], Iterable[Node]]):
        self.order = _reverse_postorder(entry, successors)
        """Reachable blocks in reverse postorder."""
        self.number = {block: k for k, block in enumerate(self.order)}
        edges: list[list[int]] = [[] for _ in self.order]
        for block in self.order:
            for to in successors(block):
                edges[self.number[to]].append(self.number[block])
        self.parent = _immediate(edges)
        self._enter, self._leave = _intervals(self.parent)

    def immediate(self) -> dict[Node, Node]:
        """
        Returns the immediate dominator of each reachable block. For the entry, returns the entry
        itself.
        """
        return {block: self.order[self.parent[k]] for k, block in enumerate(self.order)}

    def reaches(self, block: Node) -> bool:
        return block in self.number

    def dominates(self, above: Node, below: Node) -> bool:
        """True if all paths from the entry to `below` include `above`. A block dominates itself."""
        if above not in self.number or below not in self.number:
            return False
        a, b = self.number[above], self.number[below]
        return self._enter[a] <= self._enter[b] and self._leave[b] <= self._leave[a]


def _reverse_postorder(entry: Node, successors: Callable[[Node], Iterable[Node]]) -> list[Node]:
    seen = {entry}
    done: list[Node] = []
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
    """
    Returns the times at which a depth-first walk of the dominator tree enters and leaves each
    block.
    """
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
