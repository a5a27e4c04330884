"""Definitions must dominate uses, for every pair of blocks in random flow graphs and constructs."""

from __future__ import annotations

import random

import pytest

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text

BLOCKS = 6


def draw_edges(drawn: random.Random) -> list[list[int]]:
    """Returns random successors of each block except the last. Most edges go forward."""
    return [
        [drawn.choice([*range(k + 1, BLOCKS)] * 3 + [*range(1, k + 1)]) for _ in range(1 + (k < 4))]
        for k in range(BLOCKS - 1)
    ]


def reached_without(edges: list[list[int]], avoided: int) -> set[int]:
    """Returns the blocks reachable from block 0 without entering `avoided`."""
    found, waiting = set[int](), [0] if avoided else []
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += [k for k in [*edges, []][block] if k != avoided]
    return found


def write(edges: list[list[int]], construct: str, defined: int, used: int) -> str:
    """
    Returns a function with a definition in block `defined` and a use in block `used`.

    `edges` lists the successors of each block. The blocks are in a `construct` (loop or selection),
    or form the function's body.
    """
    lines = list[str]()
    for k in range(BLOCKS):
        lines.append(f"^b{k}:")
        lines += ["%v = spirv.IAdd %x, %x : i32"] * (k == defined)
        lines += ["%u = spirv.IAdd %v, %x : i32"] * (k == used)
        if k == BLOCKS - 1:
            lines.append("spirv.mlir.merge" if construct else "spirv.Return")
        elif len(edges[k]) == 1:
            lines.append(f"spirv.Branch ^b{edges[k][0]}")
        else:
            lines.append(f"spirv.BranchConditional %c, ^b{edges[k][0]}, ^b{edges[k][1]}")
    body = "\n".join(["spirv.Branch ^b0"] * (not construct) + lines)
    if construct:
        body = f"spirv.mlir.{construct} {{\n{body}\n}}\nspirv.Return"
    return f'spirv.func @f(%c: i1, %x: i32) "None" {{\n{body}\n}}'


@pytest.mark.parametrize("construct", ["", "selection"])
@pytest.mark.parametrize("seed", range(3))
def test_uses_that_are_not_dominated_are_refused(construct: str, seed: int):
    drawn = random.Random(seed)
    edges = draw_edges(drawn)
    reached = reached_without(edges, BLOCKS)
    # The last block of a construct contains only the merge.
    places = reached - {BLOCKS - 1} if construct else reached
    for defined in places:
        dominated = reached - reached_without(edges, defined)
        for used in places:
            text = write(edges, construct, defined, used)
            if used in dominated:
                parse_text(text)
                continue
            with pytest.raises(ProgramError, match=r"uses (%v|a value).*, but"):
                parse_text(text)
