"""With `break` and `continue` out of nested constructs, every lane behaves as if it ran alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

LOOP = """
      {total} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %zero : i32, i32)
      ^header(%i: i32, %sum: i32):
        %more = spirv.SLessThan %i, %nine : i32
        spirv.BranchConditional %more, ^body, ^merge(%sum : i32)
      ^body:
        %mixed = spirv.IAdd %i, {seed} : i32
        %low = spirv.BitwiseAnd %mixed, %seven : i32
        %new = spirv.IAdd %sum, %low : i32
        %five = spirv.IEqual %low, %fifth : i32
        %chosen = spirv.mlir.selection -> i32 {{
          spirv.BranchConditional %five, ^then, ^else
        ^then:
          %late = spirv.SGreaterThan %i, %three : i32
          spirv.mlir.selection {{
            spirv.BranchConditional %late, ^then, ^merge
          ^then:
            spirv.mlir.break 2 (%mixed : i32)
          ^merge:
            spirv.mlir.merge
          }}
          spirv.mlir.continue 1 (%mixed : i32)
        ^else:
          %three_times = spirv.IMul %new, %three : i32
          spirv.Branch ^merge(%three_times : i32)
        ^merge(%result: i32):
          spirv.mlir.merge %result : i32
        }}
        %left = spirv.SGreaterThan %chosen, %many : i32
        spirv.BranchConditional %left, ^merge(%chosen : i32), ^continue(%chosen : i32)
      ^continue(%carried: i32):
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next, %carried : i32, i32)
      ^merge(%last: i32):
        spirv.mlir.merge %last : i32
      }}"""


def alone(seed: int) -> int:
    """Returns one lane's result, computed in Python."""
    total = 0
    for i in range(9):
        mixed = i + seed
        low = mixed & 7
        new = total + low
        if low == 5:
            if i > 3:
                return mixed
            total = mixed
            continue
        total = new * 3
        if total > 5000:
            return total
    return total


@pytest.mark.parametrize(("local", "subgroup"), [(64, 32), (64, 8), (48, 32), (20, 64)])
@pytest.mark.parametrize("seed", ["%id", "%group"])
def test_break_and_continue_leave_nested_constructs(
    kernel: Kernel, local: int, subgroup: int, seed: str
) -> None:
    """All lanes run the code after the loop together."""
    out = kernel.buffer("i32", np.zeros(local * 12, np.int32))
    for name, number in {"nine": 9, "seven": 7, "fifth": 5, "three": 3, "many": 5000}.items():
        kernel(f"%{name} = spirv.Constant {number} : i32")
    total = kernel.name()
    kernel(LOOP.format(total=total, seed=seed))
    value = kernel.op(f"spirv.IAdd {total}, %one : i32")
    found = kernel.store(out, value).run((12, 1, 1), (local, 1, 1), subgroup)[0]
    seeds = range(local * 12) if seed == "%id" else np.repeat(range(12), local).tolist()
    assert found.tolist() == [alone(seed) + 1 for seed in seeds]


def test_all_lanes_continue_after_the_loop(kernel: Kernel) -> None:
    """A barrier and a subgroup sum follow a loop with several breaks."""
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    for name, number in {"nine": 9, "seven": 7, "fifth": 5, "three": 3, "many": 5000}.items():
        kernel(f"%{name} = spirv.Constant {number} : i32")
    total = kernel.name()
    kernel(LOOP.format(total=total, seed="%id"))
    kernel("spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>")
    sum = kernel.op(f"spirv.GroupNonUniformIAdd <Subgroup> <Reduce> {total} : i32 -> i32")
    found = kernel.store(out, sum).run((1, 1, 1), (64, 1, 1), 32)[0]
    sums = np.repeat([sum_of(0), sum_of(32)], 32).tolist()
    assert found.tolist() == sums


def sum_of(first: int) -> int:
    return sum(alone(seed) for seed in range(first, first + 32))
