"""In divergent control flow, every lane behaves as if it ran alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.interpreter import interpret

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel, Parse

SIZES = [(64, 32), (64, 8), (48, 32)]


def test_loops_with_trip_counts_by_lane(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(128, np.int32))
    total = kernel.name()
    kernel(f"""
      {total} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %zero : i32, i32)
      ^header(%i: i32, %sum: i32):
        %more = spirv.SLessThan %i, %id : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %next_sum = spirv.IAdd %sum, %i : i32
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next, %next_sum : i32, i32)
      ^merge:
        spirv.mlir.merge %sum : i32
      }}""")
    found = kernel.store(out, total).run((2, 1, 1), (64, 1, 1))[0]
    assert found.tolist() == [i * (i - 1) // 2 for i in range(128)]


def nested(n: int) -> int:
    """Returns the last value of nested loops with early exits, computed in Python."""
    total = 0
    for i in range(n % 7):
        j = 0
        while True:
            if j * j > n + i:
                break
            j += 1
            if j == 5:
                break
        total = total * 3 + j
    return total


@pytest.mark.parametrize(("local", "subgroup"), SIZES)
def test_nested_loops_with_early_exits_and_values_used_after(
    kernel: Kernel, local: int, subgroup: int
) -> None:
    out = kernel.buffer("i32", np.zeros(local * 2, np.int32))
    seven, three, five = (kernel.constant(n) for n in (7, 3, 5))
    count = kernel.op(f"spirv.UMod %id, {seven} : i32")
    total = kernel.name()
    kernel(f"""
      {total} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %zero : i32, i32)
      ^header(%i: i32, %sum: i32):
        %more = spirv.SLessThan %i, {count} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %limit = spirv.IAdd %id, %i : i32
        %last = spirv.mlir.loop -> i32 {{
          spirv.Branch ^inner(%zero : i32)
        ^inner(%j: i32):
          %square = spirv.IMul %j, %j : i32
          %far = spirv.SGreaterThan %square, %limit : i32
          spirv.BranchConditional %far, ^done(%j : i32), ^step
        ^step:
          %k = spirv.IAdd %j, %one : i32
          %enough = spirv.IEqual %k, {five} : i32
          spirv.BranchConditional %enough, ^done(%k : i32), ^again
        ^again:
          spirv.Branch ^inner(%k : i32)
        ^done(%value: i32):
          spirv.mlir.merge %value : i32
        }}
        %scaled = spirv.IMul %sum, {three} : i32
        %next_sum = spirv.IAdd %scaled, %last : i32
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next, %next_sum : i32, i32)
      ^merge:
        spirv.mlir.merge %sum : i32
      }}""")
    found = kernel.store(out, total).run((2, 1, 1), (local, 1, 1), subgroup)[0]
    assert found.tolist() == [nested(i) for i in range(local * 2)]


def test_a_value_of_the_loop_body_is_each_lanes_own_last(kernel: Kernel) -> None:
    """The value is used after the loop without a block argument."""
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.functions.append("""
      spirv.func @last(%n: i32) -> i32 "None" {
        %zero = spirv.Constant 0 : i32
        %one = spirv.Constant 1 : i32
        %ten = spirv.Constant 10 : i32
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %tens = spirv.IMul %i, %ten : i32
        %more = spirv.SLessThan %i, %n : i32
        spirv.BranchConditional %more, ^body, ^exit
      ^body:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^exit:
        spirv.ReturnValue %tens : i32
      }""")
    value = kernel.op("spirv.FunctionCall @last(%lane) : (i32) -> i32")
    assert kernel.store(out, value).run()[0].tolist() == [10 * i for i in range(32)]


def test_returns_in_a_selection_in_a_loop(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.full(64, -1, np.int32))
    kernel.functions.append("""
      spirv.func @find(%n: i32) -> i32 "None" {
        %zero = spirv.Constant 0 : i32
        %one = spirv.Constant 1 : i32
        %limit = spirv.Constant 40 : i32
        spirv.mlir.loop {
          spirv.Branch ^header(%zero : i32)
        ^header(%i: i32):
          %more = spirv.SLessThan %i, %limit : i32
          spirv.BranchConditional %more, ^body, ^merge
        ^body:
          spirv.mlir.selection {
            %found = spirv.IEqual %i, %n : i32
            spirv.BranchConditional %found, ^yes, ^end
          ^yes:
            %square = spirv.IMul %i, %i : i32
            spirv.ReturnValue %square : i32
          ^end:
            spirv.mlir.merge
          }
          spirv.Branch ^continue
        ^continue:
          %next = spirv.IAdd %i, %one : i32
          spirv.Branch ^header(%next : i32)
        ^merge:
          spirv.mlir.merge
        }
        %none = spirv.Constant -7 : i32
        spirv.ReturnValue %none : i32
      }""")
    value = kernel.op("spirv.FunctionCall @find(%id) : (i32) -> i32")
    found = kernel.store(out, value).run((1, 1, 1), (64, 1, 1))[0]
    assert found.tolist() == [i * i if i < 40 else -7 for i in range(64)]


@pytest.mark.parametrize("limit", [0, 10, 100])
def test_lanes_that_return_early_store_nothing_more(kernel: Kernel, limit: int) -> None:
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel(f"""
      spirv.mlir.selection {{
        %outside = spirv.UGreaterThanEqual %id, {kernel.constant(limit)} : i32
        spirv.BranchConditional %outside, ^leave, ^end
      ^leave:
        spirv.Return
      ^end:
        spirv.mlir.merge
      }}""")
    found = kernel.store(out, "%one").run((2, 1, 1))[0]
    assert found.tolist() == [int(i < limit) for i in range(64)]


def test_switch_with_values(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    selector = kernel.op(f"spirv.UMod %id, {kernel.constant(4)} : i32")
    value = kernel.name()
    kernel(f"""
      {value} = spirv.mlir.selection -> i32 {{
        %a = spirv.Constant 100 : i32
        spirv.Switch {selector} : i32, [
          default: ^other(%a : i32),
          0: ^zero_case,
          2: ^merge(%lane : i32)
        ]
      ^zero_case:
        spirv.Branch ^merge(%zero : i32)
      ^other(%x: i32):
        %sum = spirv.IAdd %x, %lane : i32
        spirv.Branch ^merge(%sum : i32)
      ^merge(%r: i32):
        spirv.mlir.merge %r : i32
      }}""")
    found = kernel.store(out, value).run()[0]
    assert found.tolist() == [{0: 0, 2: i}.get(i % 4, 100 + i) for i in range(32)]


def test_both_arms_to_one_block_swap_their_arguments(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    odd = kernel.op("spirv.BitwiseAnd %lane, %one : i32")
    value = kernel.name()
    kernel(f"""
      {value} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %lane, {odd} : i32, i32, i32)
      ^header(%i: i32, %x: i32, %y: i32):
        %five = spirv.Constant 5 : i32
        %more = spirv.SLessThan %i, %five : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %swap = spirv.INotEqual {odd}, %zero : i32
        spirv.BranchConditional %swap, ^continue(%y, %x : i32, i32), ^continue(%x, %y : i32, i32)
      ^continue(%p: i32, %q: i32):
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next, %p, %q : i32, i32, i32)
      ^merge:
        spirv.mlir.merge %x : i32
      }}""")
    found = kernel.store(out, value).run()[0]
    assert found.tolist() == [1 if i % 2 else i for i in range(32)]


def test_group_operations_after_a_divergent_loop_see_all_lanes(kernel: Kernel) -> None:
    """Lanes that left the loop early take part in the sum."""
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel("""
      spirv.mlir.loop {
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %more = spirv.SLessThan %i, %lane : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }""")
    value = kernel.op("spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %one : i32 -> i32")
    assert kernel.store(out, value).run()[0].tolist() == [32] * 32


def test_subgroups_of_a_partly_filled_workgroup(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(80, np.int32))
    value = kernel.op("spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %one : i32 -> i32")
    found = kernel.store(out, value).run((2, 1, 1), (40, 1, 1), 32)[0]
    assert found.tolist() == ([32] * 32 + [8] * 8) * 2


SCF = """
module attributes {gpu.container_module} {
  func.func @main(%n: tensor<96xi32>) -> tensor<96xi32> {
    %in = bufferization.to_buffer %n : tensor<96xi32> to memref<96xi32>
    %out = memref.alloc() : memref<96xi32>
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    "gpu.launch_func"(%c3, %c1, %c1, %c32, %c1, %c1, %in, %out) <{kernel = @k::@f,
      operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}>
      : (index, index, index, index, index, index, memref<96xi32>, memref<96xi32>) -> ()
    %r = bufferization.to_tensor %out restrict : memref<96xi32> to tensor<96xi32>
    return %r : tensor<96xi32>
  }
  "gpu.module"() <{sym_name = "k"}> ({
    "gpu.func"() <{function_type = (memref<96xi32>, memref<96xi32>) -> (), kernel}> ({
    ^bb0(%in: memref<96xi32>, %out: memref<96xi32>):
      %id = "gpu.global_id"() <{dimension = #gpu<dim x>}> : () -> index
      %n = memref.load %in[%id] : memref<96xi32>
      %bound = arith.index_cast %n : i32 to index
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %start = arith.constant 1 : i32
      %two = arith.constant 2 : i32
      %limit = arith.constant 50 : i32
      %r:2 = scf.for %i = %zero to %bound step %one iter_args(%x = %start, %y = %n) -> (i32, i32) {
        %big = arith.cmpi sgt, %x, %limit : i32
        %z = scf.if %big -> (i32) {
          %h = arith.divsi %x, %two : i32
          scf.yield %h : i32
        } else {
          %t = arith.muli %x, %two : i32
          %u = arith.addi %t, %y : i32
          scf.yield %u : i32
        }
        scf.yield %z, %x : i32, i32
      }
      %w:2 = scf.while (%a = %r#0, %c = %start) : (i32, i32) -> (i32, i32) {
        %go = arith.cmpi sgt, %a, %two : i32
        scf.condition(%go) %a, %c : i32, i32
      } do {
      ^bb0(%a: i32, %c: i32):
        %less = arith.subi %a, %two : i32
        %inc = arith.addi %c, %two : i32
        scf.yield %less, %inc : i32, i32
      }
      %s = arith.addi %w#1, %r#1 : i32
      memref.store %s, %out[%id] : memref<96xi32>
      "gpu.return"() : () -> ()
    }) {sym_name = "f"} : () -> ()
  }) : () -> ()
}
"""


def structured(n: int) -> int:
    """Computes in Python the result of one lane of the kernel with structured control flow."""
    x, y = 1, n
    for _ in range(n):
        x, y = (x // 2 if x > 50 else 2 * x + y), x
    count = 1
    while x > 2:
        x, count = x - 2, count + 2
    return count + y


def test_structured_loops_and_branches_by_lane(parse: Parse, rng: np.random.Generator) -> None:
    counts = rng.integers(0, 12, 96).astype(np.int32)
    (found,) = interpret(parse(SCF), [counts])
    assert found.tolist() == [structured(n) for n in counts.tolist()]
    (found,) = interpret(parse(SCF), [np.full(96, 5, np.int32)])
    assert found.tolist() == [structured(5)] * 96
