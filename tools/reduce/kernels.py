"""Defines edits of functions, workgroup size and launch that make a kernel smaller."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.reduce.module import (
    ANNOTATIONS,
    MERGES,
    Block,
    Function,
    Place,
    Program,
    Row,
    graph_of,
    make,
    merge_targets,
    read,
    repair,
    substitute,
    successors,
)
from xdsl_spirv.tools.reduce.searching import Case, Edits

FIXED = MERGES | {"OpLabel", "OpVariable"}
FEW = 16
"""Maximum number of earlier values to try in place of a stored value."""
INLINE = ("--inline-entry-points-exhaustive", "--eliminate-dead-functions")


@lru_cache(maxsize=4)
def _program(data: bytes) -> Program:
    return read(data)


def of_module(
    find: Callable[[Program], Iterator[Any]],
    apply: Callable[[Program, Sequence[Any]], Program | None],
) -> tuple[Callable[[Case], list[Any]], Callable[[Case, Sequence[Any]], Case | None]]:
    """
    Converts an edit of a SPIR-V module to an edit of a case: a pair of functions.

    The first lists the parts that `find` yields, the second removes some of them with `apply`.
    `apply` may leave uses of removed values, because the module is repaired afterwards.
    """

    def parts(case: Case) -> list[Any]:
        return list(find(_program(case.data)))

    def leave_out(case: Case, chosen: Sequence[Any]) -> Case | None:
        program = _program(case.data)
        edited = apply(program, chosen)
        if edited is None:
            return None
        types = {row.result: row.type for row in program.rows()}
        return replace(case, data=repair(edited, types).encode())

    return parts, leave_out


def _go_to(block: Block, target: int) -> Block:
    """Replaces the terminator by a branch to `target`, and drops an obsolete merge instruction."""
    leaves = block[-2].op == "OpSelectionMerge" or target in merge_targets(block)[:1]
    return (*block[: -2 if leaves else -1], make("OpBranch", target, refs=1))


# Functions.


def _callees(program: Program) -> Iterator[int]:
    """Yields the indices of functions that are not entry points."""
    entries = {row.used[0] for row in program.globals if row.op == "OpEntryPoint"}
    for k, function in enumerate(program.functions):
        if function.blocks and function.head[0].result not in entries:
            yield k


def _start_in(program: Program, chosen: Sequence[int]) -> Program:
    """Gives the entry point another function's body. Pointer parameters become variables."""
    callee = program.functions[chosen[0]]
    kinds = {row.result: row for row in program.globals}
    variables = [
        make("OpVariable", kinds[row.type].words[2], type=row.type, result=row.result)
        for row in callee.head[1:]
        if kinds[row.type].op == "OpTypePointer"
    ]
    blocks = [
        (*b[:-1], make("OpReturn")) if b[-1].op == "OpReturnValue" else b for b in callee.blocks
    ]
    blocks[0] = (blocks[0][0], *variables, *blocks[0][1:])
    entry = next(row.used[0] for row in program.globals if row.op == "OpEntryPoint")
    functions = [
        Function(f.head, tuple(blocks)) if f.head[0].result == entry else f
        for k, f in enumerate(program.functions)
        if k != chosen[0]
    ]
    return replace(program, functions=tuple(functions))


# Control flow.


def _constructs(program: Program) -> Iterator[tuple[Place, int]]:
    """Yields the header of each construct, with the merge block as the branch target."""
    for place, block in program.blocks():
        yield from ((place, merge) for merge in merge_targets(block)[:1])


def _ways(program: Program) -> Iterator[tuple[Place, int]]:
    for place, block in program.blocks():
        targets = dict.fromkeys(successors(block))
        if len(targets) > 1:
            yield from ((place, target) for target in targets)


def _choose_ways(program: Program, ways: Sequence[tuple[Place, int]]) -> Program:
    """Replaces the terminators of blocks by unconditional branches."""
    blocks = dict(program.blocks())
    return program.with_blocks({at: _go_to(blocks[at], target) for at, target in reversed(ways)})


def _loops(program: Program) -> Iterator[tuple[Place, int]]:
    """Yields (loop header, -1), then (loop header, index) of each block that may exit the loop."""
    for (i, j), header in program.blocks():
        if len(merge_targets(header)) > 1:
            yield (i, j), -1
            for k, block in enumerate(program.functions[i].blocks):
                if len(successors(block)) == 2 and merge_targets(header)[0] in successors(block):
                    yield (i, j), k


def _run_once(program: Program, chosen: Sequence[tuple[Place, int]]) -> Program:
    """Makes loops run once: back edges and other exits branch to the merge block."""
    blocks = dict(program.blocks())
    graphs = [graph_of(f) if f.blocks else None for f in program.functions]
    for (i, j), test in dict(reversed(chosen)).items():
        header = blocks[i, j]
        merge, onward = merge_targets(header)
        label = header[0].result
        blocks[i, j] = (*header[:-2], header[-1])
        for place, block in list(blocks.items()):
            graph = graphs[i]
            if place[0] != i or graph is None or not graph.dominates(label, block[0].result):
                continue
            targets = successors(block)
            if graph.dominates(merge, block[0].result) or not {label, merge, onward} & {*targets}:
                continue
            if label in targets:
                blocks[place] = _go_to(block, merge)
            elif place[1] == test:
                selection = make("OpSelectionMerge", merge, 0)._replace(refs=(1,))
                blocks[place] = (*block[:-1], selection, block[-1])
            elif block[-1].op == "OpBranchConditional" and block[-2].op not in MERGES:
                others = [to for to in targets if to not in (merge, onward)]
                blocks[place] = _go_to(block, (others or targets)[0])
    return program.with_blocks(blocks)


# Instructions.


def _instructions(program: Program) -> Iterator[tuple[Place, int]]:
    """Yields the instructions of functions in reverse order, because late values have few users."""
    for place, block in reversed(list(program.blocks())):
        for k in reversed(range(len(block) - 1)):
            if block[k].op not in FIXED:
                yield place, k


def _leave_out(program: Program, places: Sequence[tuple[Place, int]]) -> Program:
    gone = set(places)
    return program.with_blocks(
        {
            at: tuple(row for k, row in enumerate(block) if (at, k) not in gone)
            for at, block in program.blocks()
        }
    )


def _operands(program: Program) -> Iterator[tuple[int, int]]:
    """
    Yields pairs of a value and a value of the same type from which it is computed. The first can be
    replaced by the second, so the nearest come first.
    """
    rows = {row.result: row for _, block in program.blocks() for row in block if row.type}
    types = {row.result: row.type for row in program.rows() if row.type}
    for row in reversed(rows.values()):
        if row.op in ("OpPhi", "OpVariable"):
            continue
        seen = [row.result]
        for id in seen:
            if types.get(id) == row.type and id != row.result:
                yield row.result, id
            elif id in rows:
                seen += [one for one in rows[id].used if one not in seen]


def _use_operands(program: Program, pairs: Sequence[tuple[int, int]]) -> Program:
    values = dict(reversed(pairs))
    return _replace_values(program, values, lambda row: row.result not in values)


def _replace_values(
    program: Program, values: Mapping[int, int], kept: Callable[[Row], bool]
) -> Program:
    """Replaces ids according to `values`, and removes instructions for which `kept` is false."""
    functions = (
        Function(f.head, substitute((tuple(filter(kept, b)) for b in f.blocks), values))
        for f in program.functions
    )
    return replace(program, functions=tuple(functions))


def _roots(program: Program) -> dict[int, int]:
    """Maps each pointer to the variable from which it is derived."""
    roots: dict[int, int] = {}
    for row in program.rows():
        if row.op == "OpVariable":
            roots[row.result] = row.result
        elif row.op.endswith("AccessChain") and row.used[0] in roots:
            roots[row.result] = roots[row.used[0]]
    return roots


def _variables(program: Program) -> Iterator[int]:
    roots = _roots(program)
    loads = (row.used[0] for row in program.rows() if row.op == "OpLoad")
    return iter(dict.fromkeys(roots[one] for one in loads if one in roots))


def _forward_stores(program: Program, chosen: Sequence[int]) -> Program:
    """Replaces loads from variables by the last stored values, in block order."""
    gone, roots = set(chosen), _roots(program)
    types = {row.result: row.type for row in program.rows()}
    stored: dict[tuple[int, int], int] = {}
    values: dict[int, int] = {}
    for _, block in program.blocks():
        for row in block:
            root = roots.get(row.used[0], 0) if row.op in ("OpLoad", "OpStore") else 0
            if root in gone and row.op == "OpStore":
                stored[root, types[row.used[1]]] = row.used[1]
            elif root in gone and (root, row.type) in stored:
                values[row.result] = stored[root, row.type]
    return _replace_values(program, values, lambda row: row.result not in values)


def _find_stores(program: Program) -> Iterator[tuple[Row, int]]:
    """Yields stores to buffers, each with some earlier values of the stored type."""
    last = {row.result for row in program.globals if row.op == "OpVariable"}
    roots = _roots(program)
    before: dict[int, list[int]] = defaultdict(list)
    types = {row.result: row.type for row in program.rows()}
    for _, block in program.blocks():
        for row in block:
            if row.op == "OpStore" and roots.get(row.used[0]) in last:
                values = before[types[row.used[1]]]
                if row.used[1] in values:
                    values = values[: values.index(row.used[1])]
                yield from ((row, one) for one in values[:: len(values) // FEW + 1])
            elif row.type and row.op != "OpVariable":
                before[row.type].append(row.result)


def _store_earlier(program: Program, chosen: Sequence[tuple[Row, int]]) -> Program:
    """Makes stores write an earlier value, so that the later computation becomes unused."""
    store, value = chosen[0]
    blocks = {
        place: tuple(row.using({row.used[1]: value}) if row is store else row for row in block)
        for place, block in program.blocks()
    }
    return program.with_blocks(blocks)


# Instructions before the functions.


def _notes(program: Program) -> Iterator[int]:
    """Yields the indices of annotations and declarations, and -1 for all line instructions."""
    yield -1
    for k, row in enumerate(program.globals):
        if not row.result and row.op not in ("OpMemoryModel", "OpEntryPoint"):
            yield k


def _drop_notes(program: Program, chosen: Sequence[int]) -> Program:
    gone = set(chosen)
    kept = [row for k, row in enumerate(program.globals) if k not in gone]
    if -1 not in gone:
        return replace(program, globals=tuple(kept))

    def plain(rows: Sequence[Row]) -> Block:
        return tuple(row._replace(lines=()) for row in rows)

    functions = [Function(plain(f.head), tuple(map(plain, f.blocks))) for f in program.functions]
    return Program(program.header, plain(kept), tuple(functions))


def _sizes(program: Program) -> Iterator[tuple[int, int, int]]:
    for k, row in enumerate(program.globals):
        if row.op == "OpExecutionMode" and len(row.words) == 6:
            for axis in range(3, 6):
                yield from ((k, axis, size) for size in smaller(row.words[axis]))


def _shrink_workgroups(program: Program, chosen: Sequence[tuple[int, int, int]]) -> Program:
    rows = list(program.globals)
    for k, axis, size in reversed(chosen):
        words = list(rows[k].words)
        words[axis] = size
        rows[k] = rows[k]._replace(words=tuple(words))
    return replace(program, globals=tuple(rows))


def smaller(size: int) -> list[int]:
    """Returns smaller sizes to try, in ascending order."""
    return sorted({one for one in (1, 2, size // 2, size - 1) if 0 < one < size})


def _calls(case: Case) -> list[Any]:
    program = _program(case.data)
    return [0] if len(program.functions) > 1 and khronos.find("spirv-opt") else []


def _inline(case: Case, _: Sequence[Any]) -> Case | None:
    """Inlines all function calls, if SPIRV-Tools is installed."""
    command = [khronos.tool("spirv-opt"), *INLINE, "-", "-o", "-"]
    done = subprocess.run(command, input=case.data, capture_output=True, check=False)
    return replace(case, data=done.stdout) if done.returncode == 0 else None


# The launch.


def _launches(case: Case) -> list[tuple[str, Any, Any]]:
    """
    Returns possible edits of the launch. An edit is (field or buffer, axis or name, smaller value).
    """
    test = case.test
    if test is None:
        return []
    sizes = {"grid": test.grid} | {name: one.size for name, one in test.buffers.items()}
    found: list[tuple[str, Any, Any]] = [
        (name, axis, one)
        for name, size in sizes.items()
        for axis, number in enumerate(size or ())
        for one in smaller(number)
    ]
    if len(test.subgroup_sizes) > 1:
        found += [("subgroups", 0, size) for size in test.subgroup_sizes]
    for name, value in test.push_constants.items():
        if type(value) is int:
            found += [("push constants", name, one) for one in smaller(value)]
    return found


def _change_launch(case: Case, changes: Sequence[tuple[str, Any, Any]]) -> Case | None:
    test = case.test
    assert test is not None
    for name, key, value in reversed(changes):
        if name in test.buffers:
            buffer = test.buffers[name]
            buffer = replace(buffer, size=_with(buffer.size, key, value))
            test = replace(test, buffers={**test.buffers, name: buffer})
        elif name == "grid":
            test = replace(test, grid=_with(test.grid, key, value))
        elif name == "subgroups":
            test = replace(test, subgroup_sizes=(value,))
        else:
            test = replace(test, push_constants={**test.push_constants, key: value})
    return replace(case, test=test)


def _with(sizes: tuple[int, ...] | None, axis: int, size: int) -> Any:
    return tuple(size if k == axis else n for k, n in enumerate(sizes or ()))


LAUNCH = Edits("launch", _launches, _change_launch)
MODULE = (
    Edits("functions", *of_module(_callees, _start_in)),
    Edits("constructs", *of_module(_constructs, _choose_ways)),
    Edits("stored values", *of_module(_find_stores, _store_earlier)),
    Edits("instructions", *of_module(_instructions, _leave_out)),
    Edits("branches", *of_module(_ways, _choose_ways)),
    Edits("loops", *of_module(_loops, _run_once)),
    Edits("operands", *of_module(_operands, _use_operands)),
    Edits("variables", *of_module(_variables, _forward_stores)),
    # spirv-opt needs the declarations of capabilities.
    Edits("calls", _calls, _inline),
    Edits("declarations", *of_module(_notes, _drop_notes)),
    Edits("workgroup", *of_module(_sizes, _shrink_workgroups)),
)


def count(data: bytes) -> str:
    """Returns the size of a module as a text such as `12 instructions`."""
    try:
        return f"{sum(row.op not in ANNOTATIONS for row in read(data).rows())} instructions"
    except SPIRVDecodeError:
        return f"{len(data)} bytes"
