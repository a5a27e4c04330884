"""
Rules of control flow (CFG).

Structured control flow is checked by nesting. Every block inherits its innermost construct from its
structural dominator. A header opens its construct, and a merge block closes it. A continue target
switches from the loop's construct to its continue construct. The targets of a switch open cases.
Each edge is then compared with the allowed exits of the constructs that it leaves. This takes about
one step for each edge, while the specification's definition needs a set of blocks for each header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.flow import Block, Function, branch_targets
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    declared_rule,
    instruction_rule,
    module_rule,
)

MAX_DEPTH = 1023
"""Maximum nesting depth of control-flow constructs (SPIR-V 2.17)."""


@instruction_rule("CFG-01", "3.49.17", "Branch BranchConditional Switch LoopMerge SelectionMerge")
def targets(m: Module, i: Instruction) -> Problems:
    """A branch must go to a label of its function other than the entry block."""
    block = i.block
    if block is None:
        return
    if i.op in ("LoopMerge", "SelectionMerge"):
        named = i.words[1 : 3 if i.op == "LoopMerge" else 2]
    else:
        named = branch_targets(i)
    function = block.function
    for id in named:
        target = function.by_id.get(id)
        if target is None:
            if id in m.definitions:
                yield Problem(
                    f"{m.spell(id)} is not a label of this function",
                    "name an OpLabel of this function",
                )
        elif target.order == 0 and i.op not in ("LoopMerge", "SelectionMerge"):
            yield Problem(
                "a branch cannot go to the function's entry block",
                "insert a new entry block that branches to this block",
            )


@instruction_rule("CFG-02", "3.49.17", "BranchConditional Switch")
def conditions(m: Module, i: Instruction) -> Problems:
    """A condition must be a Boolean. A selector must be an integer, and its literals distinct."""
    if len(i.words) < 2:
        return
    type_ = m.type_of(i.words[1])
    if i.op == "BranchConditional":
        if type_ is not None and type_.kind != "Bool":
            yield Problem(f"the condition must be a Boolean, not {type_}", remedies.BOOLEAN)
        elif type_ is None and m.op_of(i.words[1]):
            yield Problem("the condition must be a value", remedies.BOOLEAN)
        if len(i.words) not in (4, 6):
            yield Problem(
                "the number of branch weights must be 0 or 2",
                "give two branch weights, or remove them",
            )
        elif len(i.words) == 6 and not i.words[4] | i.words[5]:
            yield Problem("the branch weights cannot both be 0", "make one of them larger than 0")
        elif m.version >= (1, 6) and len(i.words) > 3 and i.words[2] == i.words[3]:
            yield Problem(
                "both targets are the same block, which SPIR-V 1.6 forbids", "use OpBranch instead"
            )
        return
    if type_ is not None and type_.kind != "Int":
        yield Problem(f"the selector must be an integer, not {type_}", remedies.INTEGER_SCALAR)
    literals = i.values("LiteralInteger")
    if len(set(literals)) != len(literals):
        yield Problem("two cases cannot have the same literal", "remove one of these cases")


@module_rule("CFG-03", "2.16.1")
def block_order(m: Module) -> Problems:
    """A block must come before the blocks that it dominates."""
    for f in m.functions:
        if not f.blocks:
            continue
        flow = f.flow
        for block, parent in zip(flow.order, flow.parent, strict=True):
            above = flow.order[parent]
            if above.order > block.order:
                yield Problem(
                    f"the block must come after %{above.id}, which dominates the block",
                    f"move the block after %{above.id}",
                    block.label,
                )


@dataclass(eq=False, slots=True)
class Construct:
    """A construct of structured control flow: a selection, loop, continue construct or case."""

    kind: str
    header: Block
    merge: Block | None
    parent: Construct | None
    target: Block | None = None
    """The continue target of a loop, or the first block of a case."""

    @property
    def depth(self) -> int:
        count, at = 0, self.parent
        while at is not None:
            count, at = count + 1, at.parent
        return count


declared_rule(
    "CFG-05", "2.11", "A header structurally dominates its merge block and continue target."
)
declared_rule(
    "CFG-06", "2.11", "A block is the merge block of at most one header, and not of itself."
)
declared_rule(
    "CFG-07",
    "2.11",
    "A continue construct contains the block of the back edge, and is left only by this edge.",
)
declared_rule("CFG-08", "2.11.2", "A branch out of a construct is one of the construct's exits.")
declared_rule(
    "CFG-09",
    "2.11.1",
    "A conditional branch with two targets that are not exits has a merge instruction.",
)
declared_rule("CFG-11", "2.11.2", "A branch into a construct goes to its header.")
declared_rule("CFG-10", "2.11.1", "A case may fall through only to the next case.")


@module_rule("CFG-04", "2.11")
def structured(m: Module) -> Problems:
    """A back edge must go to a loop header, and a loop header must have exactly one back edge."""
    if not m.is_shader:
        return
    for f in m.functions:
        if f.blocks:
            yield from _Structure(m, f).check()


class _Structure:
    def __init__(self, m: Module, function: Function):
        self.m = m
        self.function = function
        self.tree = function.structured
        self.number = self.tree.number
        self.merges: dict[Block, Block] = {}
        """Maps a merge block to its header."""
        self.continues: dict[Block, Block] = {}
        self.back: dict[Block, list[Block]] = {}
        """Maps a loop header to the blocks from which back edges lead to it."""
        self.inner: dict[Block, Construct | None] = {}
        self.own: dict[Block, Construct] = {}

    def check(self) -> Problems:
        yield from self._headers()
        yield from self._back_edges()
        yield from self._selections()
        self._nest()
        yield from self._edges()
        yield from self._switches()

    def _named(self, block: Block, place: int) -> Block | None:
        merge = block.merge
        if merge is None or place >= len(merge.words):
            return None
        return self.function.by_id.get(merge.words[place])

    def _headers(self) -> Problems:
        for block in self.tree.order:
            merge = self._named(block, 1)
            if merge is None or block.merge is None:
                continue
            if merge is block:
                yield Problem(
                    "a header cannot be its own merge block",
                    "add a block after the construct, and make this the merge block",
                    block.merge,
                    "CFG-06",
                )
                continue
            if merge in self.merges:
                yield Problem(
                    f"%{merge.id} is already the merge block of %{self.merges[merge].id}",
                    "give each header a separate merge block",
                    block.merge,
                    "CFG-06",
                )
            self.merges.setdefault(merge, block)
            if not self.tree.dominates(block, merge):
                yield self._not_dominated(block, merge, "merge block")
            if block.merge.op != "LoopMerge":
                continue
            target = self._named(block, 2)
            if target is None:
                continue
            self.continues.setdefault(target, block)
            if target is merge:
                yield Problem(
                    "a loop's merge block cannot be its continue target",
                    "use separate blocks for the merge block and the continue target",
                    block.merge,
                    "CFG-06",
                )
            if not self.tree.dominates(block, target):
                yield self._not_dominated(block, target, "continue target")

    def _not_dominated(self, header: Block, block: Block, what: str) -> Problem:
        return Problem(
            f"the header %{header.id} does not structurally dominate its {what} %{block.id}",
            "make every path to %{block.id} go through the header",
            header.merge,
            "CFG-05",
        )

    def _back_edges(self) -> Problems:
        for block in self.tree.order:
            for to in block.successors:
                if to not in self.number or self.number[to] > self.number[block]:
                    continue
                if to.merge is None or to.merge.op != "LoopMerge":
                    yield Problem(
                        f"a back edge goes to %{to.id}, which is not a loop header",
                        f"put an OpLoopMerge before the branch that ends %{to.id}",
                        block.terminator,
                    )
                else:
                    self.back.setdefault(to, []).append(block)
        for block in self.tree.order:
            if block.merge is None or block.merge.op != "LoopMerge":
                continue
            sources = self.back.get(block, [])
            if len(sources) != 1:
                yield Problem(
                    f"a loop header must have 1 back edge, not {len(sources)}",
                    "branch to the header from one block of the continue construct",
                    block.merge,
                )
                continue
            target = self._named(block, 2)
            if target is not None and not self.tree.dominates(target, sources[0]):
                yield Problem(
                    f"the continue target %{target.id} does not structurally dominate the back "
                    f"edge's block %{sources[0].id}",
                    "branch back from the continue construct",
                    block.merge,
                    "CFG-07",
                )

    def _selections(self) -> Problems:
        seen: set[int] = set()
        for block in self.tree.order:
            end, merge = block.terminator, block.merge
            if merge is not None:
                seen.update(merge.words[1:3] if merge.op == "LoopMerge" else merge.words[1:2])
            selects = merge is not None and merge.op == "SelectionMerge"
            if end is not None and not selects and end.op == "Switch":
                yield Problem(
                    "OpSwitch has no OpSelectionMerge",
                    "put an OpSelectionMerge before the OpSwitch",
                    end,
                    "CFG-09",
                )
            elif end is not None and not selects and end.op == "BranchConditional":
                if len({b.id for b in block.successors} - seen) > 1:
                    yield Problem(
                        "a conditional branch to two targets that are not exits has no merge block",
                        "add an OpSelectionMerge",
                        end,
                        "CFG-09",
                    )
            seen.update(b.id for b in block.successors)

    def _nest(self) -> None:
        order, parents = self.tree.order, self.tree.parent
        for k, block in enumerate(order):
            above = order[parents[k]] if k else None
            outer = None if above is None else self.inner.get(above)
            merged, continued = self.merges.get(block), self.continues.get(block)
            if merged is not None and merged in self.own and merged is not block:
                outer = self.own[merged].parent
            elif continued is not None and continued in self.own and continued is not block:
                loop = self.own[continued]
                outer = Construct("continue", continued, loop.merge, loop.parent, block)
            elif outer is not None and above is outer.header and self._is_case(outer, block):
                outer = Construct("case", outer.header, outer.merge, outer, block)
            if block.merge is not None:
                kind = "loop" if block.merge.op == "LoopMerge" else "selection"
                own = Construct(kind, block, self._named(block, 1), outer, self._named(block, 2))
                if kind == "loop" and own.target is block:
                    own.kind = "continue"
                elif kind == "selection":
                    own.target = None
                self.own[block] = outer = own
            self.inner[block] = outer

    def _is_case(self, construct: Construct, block: Block) -> bool:
        end = construct.header.terminator
        return (
            construct.kind == "selection"
            and end is not None
            and end.op == "Switch"
            and block in construct.header.successors
        )

    def _edges(self) -> Problems:
        for block in self.tree.order:
            chain = self.inner[block]
            for to in block.successors:
                if to not in self.inner:
                    continue
                above = self._above(to)
                at: Construct | None = chain
                while at is not None and at not in above:
                    if not self._exits(at, block, to):
                        yield Problem(
                            f"the branch to %{to.id} leaves the {at.kind} construct of "
                            f"%{at.header.id}, but not to an exit",
                            "branch to its merge block, or break or continue the loop",
                            block.terminator,
                            "CFG-08",
                        )
                        break
                    at = at.parent
                yield from self._entered(block, to)
            yield from self._ends(block, chain)

    def _entered(self, block: Block, to: Block) -> Problems:
        below = self._above(block)
        at = self.inner[to]
        while at is not None and at not in below:
            first = at.target if at.kind in ("continue", "case") else at.header
            outside = at.kind == "continue" and at is not self.own.get(at.header)
            if to is not first or (outside and self.own[at.header] not in below):
                yield Problem(
                    f"the branch to %{to.id} enters the {at.kind} construct of %{at.header.id} "
                    f"beyond its first block",
                    f"branch to the header %{at.header.id}",
                    block.terminator,
                    "CFG-11",
                )
                return
            at = at.parent

    def _above(self, block: Block) -> list[Construct]:
        chain: list[Construct] = []
        at = self.inner[block]
        while at is not None:
            chain.append(at)
            at = at.parent
        return chain

    def _ends(self, block: Block, chain: Construct | None) -> Problems:
        if block.successors or chain is None or not self.function.flow.reaches(block):
            return
        while chain is not None:
            if chain.kind == "continue":
                end = block.terminator
                name = "" if end is None else end.op
                yield Problem(
                    f"Op{name} cannot end the continue construct of %{chain.header.id}",
                    f"branch back to the header %{chain.header.id}",
                    end or block.label,
                    "CFG-07",
                )
                return
            chain = chain.parent

    def _exits(self, construct: Construct, block: Block, to: Block) -> bool:
        if construct.kind == "case" and to in construct.header.successors:
            return True  # Rule CFG-10 checks which cases may fall through.
        if to is construct.merge:
            return construct.kind != "continue" or self._is_back(construct, block)
        if construct.kind == "loop":
            return to is construct.target
        if construct.kind == "continue":
            return to is construct.header and self._is_back(construct, block)
        at = construct.parent
        switched = construct.kind == "case"
        while at is not None:
            if at.kind in ("loop", "continue"):
                return to is at.merge or to is at.target or to is at.header
            end = at.header.terminator
            if not switched and at.kind == "selection" and end is not None and end.op == "Switch":
                if to is at.merge:
                    return True
                switched = True
            at = at.parent
        return False

    def _is_back(self, construct: Construct, block: Block) -> bool:
        return block in self.back.get(construct.header, ())

    def _switches(self) -> Problems:
        for header, construct in self.own.items():
            end = header.terminator
            if end is None or end.op != "Switch" or construct.kind != "selection":
                continue
            yield from self._fall_through(header, end)

    def _fall_through(self, header: Block, end: Instruction) -> Problems:
        targets = branch_targets(end)
        default, listed = targets[:1], targets[1:]
        falls = list(self._falls(header))
        behind = {first.id: to.id for first, to in falls}
        wrong = [first for k, (first, to) in enumerate(falls) if any(to is t for _, t in falls[:k])]
        for k, label in enumerate(listed):
            to = behind.get(label)
            if to in default and to not in listed:
                to = behind.get(to)
            after = next((other for other in listed[k:] if other != label), None)
            if to not in (None, after):
                wrong += [first for first, _ in falls if first.id == label]
        for first in wrong[:1]:
            yield Problem(
                f"the case %{first.id} cannot fall through to %{behind[first.id]}",
                "let each case fall through at most to the next case",
                end,
                "CFG-10",
            )

    def _falls(self, header: Block) -> Iterator[tuple[Block, Block]]:
        """Yields pairs of cases of a switch: the first case falls through to the second."""
        merge = self._named(header, 1)
        cases = [b for b in header.successors if b is not merge and self.inner.get(b) is not None]
        for first in cases:
            reached = {
                to
                for block in self.tree.order
                if self.tree.dominates(first, block)
                for to in block.successors
            }
            for to in cases:
                if to not in reached or to is first:
                    continue
                if not self.tree.dominates(first, to) and not self._outer_exit(header, to):
                    yield first, to

    def _outer_exit(self, header: Block, to: Block) -> bool:
        return to in self.merges or to in self.continues
