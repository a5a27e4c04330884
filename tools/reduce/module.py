"""
Represents a SPIR-V module as parts that an edit can remove, and repairs edited modules.

An edit may leave uses of removed values, unreachable blocks and unused definitions. `repair`
replaces removed values by null constants, removes instructions that cannot use a null constant (a
load through a removed pointer), and removes dead code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import Header, RawInstruction, RawModule, decode
from xdsl_spirv.upstream.dominance import Dominators

WITH_NULL = frozenset(
    {
        *("OpTypeBool", "OpTypeInt", "OpTypeFloat", "OpTypeVector", "OpTypeMatrix"),
        *("OpTypeArray", "OpTypeStruct", "OpTypeCooperativeMatrixKHR"),
    }
)
ANNOTATIONS = frozenset(
    {
        *("OpName", "OpMemberName", "OpDecorate", "OpMemberDecorate", "OpDecorateId"),
        *("OpDecorateString", "OpMemberDecorateString", "OpExecutionMode", "OpExecutionModeId"),
        *("OpGroupDecorate", "OpGroupMemberDecorate", "OpEntryPoint"),
    }
)
"""Instructions that annotate a value, and are removed with the value."""
EFFECTS = ("OpAtomic", "OpFunction", "OpLabel", "OpExtension", "OpCooperativeMatrixStore")
"""Prefixes of instructions that are not removed if their results are unused."""
LINES = frozenset({"OpLine", "OpNoLine"})
MERGES = frozenset({"OpSelectionMerge", "OpLoopMerge"})


class Row(NamedTuple):
    """
    An instruction. `refs` are the positions of the used ids in `words`; `lines` are the preceding
    line instructions.
    """

    op: str
    words: tuple[int, ...]
    type: int = 0
    result: int = 0
    refs: tuple[int, ...] = ()
    lines: tuple[tuple[int, ...], ...] = ()

    @property
    def used(self) -> list[int]:
        """Returns the ids that the instruction uses, without its result type."""
        return [self.words[at] for at in self.refs]

    def using(self, values: Mapping[int, int]) -> Row:
        """
        Returns a copy of the instruction in which the used ids are replaced according to `values`.
        """
        if not any(self.words[at] in values for at in self.refs):
            return self
        words = list(self.words)
        for at in self.refs:
            words[at] = values.get(words[at], words[at])
        return self._replace(words=tuple(words))

    def drop_words(self, places: Iterable[int]) -> Row:
        """Returns a copy of the instruction without the words at `places` (its last words)."""
        dropped = set(places)
        words = [word for at, word in enumerate(self.words) if at not in dropped]
        words[0] = len(words) << 16 | words[0] & 0xFFFF
        count = len([at for at in self.refs if at not in dropped])
        return self._replace(words=tuple(words), refs=self.refs[:count])


Block = tuple[Row, ...]
"""Instructions of a block, from the label to the terminator."""
Place = tuple[int, int]
"""Indices of a function and of a block in the function."""


@dataclass(frozen=True)
class Function:
    """A function: OpFunction with its parameters, and the blocks."""

    head: Block
    blocks: tuple[Block, ...]

    def rows(self) -> Iterator[Row]:
        """Yields the function's instructions, without OpFunctionEnd and line instructions."""
        return chain(self.head, *self.blocks)


@dataclass(frozen=True)
class Program:
    """A module: the instructions before the functions, and the functions."""

    header: Header
    globals: tuple[Row, ...]
    functions: tuple[Function, ...]

    def rows(self) -> Iterator[Row]:
        """Yields all instructions, without OpFunctionEnd and line instructions."""
        return chain(self.globals, *(function.rows() for function in self.functions))

    def blocks(self) -> Iterator[tuple[Place, Block]]:
        """Yields the blocks of all functions with their indices."""
        for i, function in enumerate(self.functions):
            for j, block in enumerate(function.blocks):
                yield (i, j), block

    def with_blocks(self, changed: Mapping[Place, Block]) -> Program:
        """Returns a copy of the module in which some blocks are replaced."""
        functions = [
            Function(f.head, tuple(changed.get((i, j), b) for j, b in enumerate(f.blocks)))
            for i, f in enumerate(self.functions)
        ]
        return replace(self, functions=tuple(functions))

    def encode(self) -> bytes:
        """Returns the module as a SPIR-V binary."""
        end = (make("OpFunctionEnd"),)
        rows = chain(self.globals, *(chain(f.rows(), end) for f in self.functions))
        words = chain.from_iterable((*row.lines, row.words) for row in rows)
        return RawModule.build(self.header, words).encode()


def make(op: str, *words: int, type: int = 0, result: int = 0, refs: int = 0) -> Row:
    """Makes an instruction. The last `refs` words are ids."""
    entry = grammar().instruction(op)
    head = [word for word in (type, result) if word]
    count = 1 + len(head) + len(words)
    all_words = (count << 16 | entry.opcode, *head, *words)
    return Row(op, all_words, type, result, tuple(range(count - refs, count)))


def read(binary: bytes) -> Program:
    """Parses a SPIR-V binary. Raises `SPIRVDecodeError` for a malformed binary."""
    raw = decode(binary)
    before: list[Row] = []
    functions: list[Function] = []
    head: list[Row] = []
    blocks: list[list[Row]] = []
    lines: list[tuple[int, ...]] = []
    for instruction in raw:
        row = _row(instruction, tuple(lines))
        if row.op in LINES:
            lines.append(row.words)
            continue
        lines = []
        if row.op == "OpFunctionEnd":
            functions.append(Function(tuple(head), tuple(map(tuple, blocks))))
            head, blocks = [], []
        elif row.op == "OpLabel":
            blocks.append([row])
        elif blocks:
            blocks[-1].append(row)
        elif row.op == "OpFunction" or head:
            head.append(row)
        else:
            before.append(row)
    return Program(raw.header, tuple(before), tuple(functions))


def _row(instruction: RawInstruction, lines: tuple[tuple[int, ...], ...]) -> Row:
    type = result = 0
    refs: list[int] = []
    for operand in instruction.operands:
        if operand.kind == "IdResultType":
            type = int(operand.value)
        elif operand.kind == "IdResult":
            result = int(operand.value)
        elif operand.kind.startswith("Id"):
            refs.append(operand.word)
    name = instruction.name or ""
    return Row(name, tuple(instruction.words), type, result, tuple(refs), lines)


# Repair.


def repair(program: Program, types: Mapping[int, int]) -> Program:
    """Makes an edited module valid again; `types` maps all ids to their types."""
    draft = _Draft(program, types)
    while True:
        before = draft.globals, draft.functions
        draft.functions = [draft.connect(function) for function in draft.functions]
        draft.replace_missing()
        draft.remove_dead()
        draft.functions = [merge_blocks(function) for function in draft.functions]
        if before == (draft.globals, draft.functions):
            break
    header = replace(program.header, bound=draft.bound)
    return Program(header, tuple(draft.globals), tuple(draft.functions))


class _Draft:
    def __init__(self, program: Program, types: Mapping[int, int]):
        self.globals = list(program.globals)
        self.functions = list(program.functions)
        self.types = types
        self.bound = program.header.bound
        self.kinds = {row.result: row.op for row in program.globals}
        self.nulls = {row.type: row.result for row in program.globals if row.op == "OpConstantNull"}

    def null(self, type: int) -> int:
        """Returns the id of a null constant, or 0 if the type has no null constant."""
        if self.kinds.get(type) not in WITH_NULL:
            return 0
        if type not in self.nulls:
            self.nulls[type] = self.bound
            self.globals.append(make("OpConstantNull", type=type, result=self.bound))
            self.bound += 1
        return self.nulls[type]

    def connect(self, function: Function) -> Function:
        """Removes unreachable blocks of a function, and their entries in OpPhi."""
        if not function.blocks:
            return function
        graph = graph_of(function)
        named = {
            id for b in function.blocks for id in merge_targets(b) if graph.reaches(b[0].result)
        }
        backs = {
            merge_targets(b)[1]: b[0].result for b in function.blocks if len(merge_targets(b)) > 1
        }
        kept: list[Block] = []
        for block in function.blocks:
            label = block[0].result
            if graph.reaches(label):
                kept.append(block)
            elif label in named:
                end = make("OpUnreachable")
                if label in backs:
                    end = make("OpBranch", backs[label], refs=1)
                kept.append((block[0], end))
        into: dict[int, list[int]] = defaultdict(list)
        for block in kept:
            for target in dict.fromkeys(successors(block)):
                into[target].append(block[0].result)
        values: dict[int, int] = {}
        fixed = [self._fix_phis(block, into[block[0].result], values) for block in kept]
        return Function(function.head, substitute(fixed, values))

    def _fix_phis(self, block: Block, into: list[int], values: dict[int, int]) -> Block:
        rows: list[Row] = []
        for row in block:
            if row.op != "OpPhi":
                rows.append(row)
                continue
            pairs = dict(zip(row.words[4::2], row.words[3::2], strict=True))
            if pairs.keys() == set(into) and len(into) > 1:
                rows.append(row)
                continue
            ways = {label: pairs.get(label) or self.null(row.type) for label in into}
            if len(ways) == 1 and row.result not in ways.values():
                values[row.result] = next(iter(ways.values()))
            elif ways:
                words = [word for label, value in ways.items() for word in (value, label)]
                made = make("OpPhi", *words, type=row.type, result=row.result, refs=len(words))
                rows.append(made._replace(lines=row.lines))
        return tuple(rows)

    def replace_missing(self) -> None:
        """Replaces values without a dominating definition by nulls, or removes their users."""
        known = {row.result for row in self.globals} | {
            row.result for function in self.functions for row in function.head
        }
        gone: set[int] = set()
        functions: list[Function] = []
        for function in self.functions:
            where = {row.result: b[0].result for b in function.blocks for row in b if row.result}
            graph = graph_of(function) if function.blocks else None
            blocks: list[Block] = []
            for block in function.blocks:
                rows: list[Row] = []
                for row in block:
                    assert graph is not None
                    fixed = self._fix_row(row, block[0].result, known, where, graph)
                    if fixed is None:
                        gone.add(row.result)
                    else:
                        rows.append(fixed)
                blocks.append(tuple(rows))
            functions.append(Function(function.head, tuple(blocks)))
        self.functions = functions
        self._forget_names()

    def _fix_row(
        self, row: Row, label: int, known: set[int], where: dict[int, int], graph: Dominators[int]
    ) -> Row | None:
        values: dict[int, int] = {}
        uses = [(id, label) for id in row.used]
        if row.op == "OpPhi":
            uses = list(zip(row.words[3::2], row.words[4::2], strict=True))
        for id, user in uses:
            at = where.get(id)
            if id in known or at == id:
                continue
            if at is not None and (not graph.reaches(user) or graph.dominates(at, user)):
                continue
            values[id] = self.null(self.types.get(id, 0))
            if not values[id]:
                return None
        return row.using(values)

    def _forget_names(self) -> None:
        defined = {row.result for row in self._rows()}
        rows: list[Row] = []
        for row in self.globals:
            missing = [at for at in row.refs if row.words[at] not in defined]
            if row.op == "OpEntryPoint" and row.used[0] in defined:
                rows.append(row.drop_words(missing))
            elif row.op not in ANNOTATIONS or not missing:
                rows.append(row)
        self.globals = rows

    def remove_dead(self) -> None:
        """Removes unused definitions and uncalled functions."""
        entries = {row.used[0] for row in self.globals if row.op == "OpEntryPoint"}
        while True:
            used = set(entries)
            for row in self._rows():
                if row.op not in ANNOTATIONS:
                    used.update(row.used, (row.type,))
                # Line instructions use the strings with file names.
                used.update(words[1] for words in row.lines if len(words) > 1)
            functions = [
                Function(f.head, tuple(tuple(r for r in b if _lives(r, used)) for b in f.blocks))
                for f in self.functions
                if f.head[0].result in used
            ]
            rows = [row for row in self.globals if _lives(row, used)]
            if functions == self.functions and rows == self.globals:
                break
            self.functions, self.globals = functions, rows
        self._forget_names()
        self.nulls = {row.type: row.result for row in self.globals if row.op == "OpConstantNull"}

    def _rows(self) -> Iterator[Row]:
        return chain(self.globals, *(function.rows() for function in self.functions))


def _lives(row: Row, used: set[int]) -> bool:
    return not row.result or row.result in used or row.op.startswith(EFFECTS)


def merge_blocks(function: Function) -> Function:
    """Merges each block with its only successor, if the successor has no other predecessor."""
    blocks = {block[0].result: block for block in function.blocks}
    into: dict[int, int] = defaultdict(int)
    for block in function.blocks:
        for target in (*successors(block), *merge_targets(block)):
            into[target] += 1
    renamed: dict[int, int] = {}
    for label in list(blocks):
        while label in blocks:
            block = blocks[label]
            target = block[-1].used[0] if block[-1].op == "OpBranch" else 0
            if merge_targets(block) or target in (0, label) or into[target] != 1:
                break
            if target not in blocks or blocks[target][1].op == "OpPhi":
                break
            blocks[label] = (*block[:-1], *blocks.pop(target)[1:])
            renamed[target] = label
    if not renamed:
        return function
    for old in renamed:
        while renamed[old] in renamed:
            renamed[old] = renamed[renamed[old]]
    return Function(function.head, substitute(blocks.values(), renamed))


def substitute(blocks: Iterable[Block], values: Mapping[int, int]) -> tuple[Block, ...]:
    """Replaces ids in blocks. Follows chains: if a -> b and b -> c, a becomes c."""
    if not values:
        return tuple(blocks)
    final: dict[int, int] = {}
    for old in values:
        new, seen = values[old], {old}
        while new in values and new not in seen:
            seen.add(new)
            new = values[new]
        final[old] = new
    return tuple(tuple(row.using(final) for row in block) for block in blocks)


def graph_of(function: Function) -> Dominators[int]:
    """Computes the dominator tree of a function's blocks, by label."""
    ways = {block[0].result: successors(block) for block in function.blocks}
    return Dominators(
        function.blocks[0][0].result, lambda label: [to for to in ways[label] if to in ways]
    )


def successors(block: Block) -> list[int]:
    """Returns the labels to which a block may branch."""
    end = block[-1]
    if end.op == "OpBranch":
        return end.used
    return end.used[1:] if end.op in ("OpBranchConditional", "OpSwitch") else []


def merge_targets(block: Block) -> list[int]:
    """Returns the labels in a block's merge instruction: merge block and continue target."""
    return block[-2].used if len(block) > 1 and block[-2].op in MERGES else []
