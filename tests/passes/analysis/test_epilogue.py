"""
Operations after a product that can be part of its kernel are found, with an index map from the
product's loops for each operand.
"""

from __future__ import annotations

from itertools import product

import pytest
from xdsl.dialects import linalg
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.passes.analysis.epilogue import (
    Epilogue,
    NotFused,
    Placed,
    definition,
    epilogue_of,
    operand_of,
    prologue_of,
    row_sum_of,
)
from xdsl_spirv.runtime.modules import parse_text

PRODUCT = """
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#first = affine_map<(i, j) -> (i, 0)>
!m = tensor<6x6xf32>
!v = tensor<6xf32>

func.func @main(%A: !m, %B: !m, %V: !v, %S: !m) -> ({types}) {{
  %r:{count} = schedule.dispatch(%A, %B, %V, %S) : (!m, !m, !v, !m) -> ({types}) {{
  ^bb0(%a: !m, %b: !m, %bias: !v, %other: !m):
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : !m
    %ev = tensor.empty() : !v
    %f = linalg.fill ins(%zero : f32) outs(%e : !m) -> !m
    %p = linalg.matmul{schedule} ins(%a, %b : !m, !m) outs(%f : !m) -> !m
    {code}
    schedule.yield {values} : {types}
  }}
  return {results} : {types}
}}
"""
LOOPS = AffineMap.from_callable(lambda m, n, k: (m, n))
"""The index map of the product's result."""


ROWS = (
    " {schedule = #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, subgroups = [1, 1]>}"
)
"""A schedule for few rows."""


def parse(code: str, *values: str, schedule: str = "") -> ModuleOp:
    text = PRODUCT.format(
        schedule=schedule,
        code=code,
        values=", ".join(values),
        types=", ".join(["!m"] * len(values)),
        results=", ".join(f"%r#{n}" for n in range(len(values))),
        count=len(values),
    )
    return parse_text(text)


def find(module: ModuleOp, name: str) -> SSAValue:
    """Returns the value with this name in a module."""
    results = (result for op in module.walk() for result in op.results)
    (value,) = (result for result in results if result.name_hint == name)
    return value


def root(module: ModuleOp) -> linalg.ops.MatmulOp:
    (op,) = (op for op in module.walk() if isinstance(op, linalg.ops.MatmulOp))
    return op


def read(code: str, *values: str, schedule: str = "") -> Epilogue:
    return epilogue_of(root(parse(code, *values, schedule=schedule)), LOOPS)


def combine(
    name: str, x: str, y: str, maps: str, op: str = "addf", kinds: str = "parallel, parallel"
) -> str:
    """
    Returns a generic on two values, given as `%name: type`. `maps` are both index maps and the
    result's.
    """
    (a, a_type), (b, b_type) = x.split(": "), y.split(": ")
    both = ", ".join(f'"{kind}"' for kind in kinds.split(", "))
    return f"""
    {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{both}]}}
        ins({a}, {b} : {a_type}, {b_type}) outs(%e : !m) {{
    ^bb0(%x{name[1:]}: f32, %y{name[1:]}: f32, %o{name[1:]}: f32):
      %z{name[1:]} = arith.{op} %x{name[1:]}, %y{name[1:]} : f32
      linalg.yield %z{name[1:]} : f32
    }} -> !m"""


BIAS = combine("%q", "%p: !m", "%bias: !v", "#ij, #j, #ij")
RESIDUAL = combine("%h", "%q: !m", "%other: !m", "#ij, #ji, #ij", "mulf")


def reads(placed: Placed) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns each point (m, n) of the loops with the index of the element that is read there."""
    points = product(range(3), range(3))
    return {(point, tuple(placed.map.eval([*point, 7], []))) for point in points}


def test_a_product_alone_is_stored_unchanged():
    epilogue = read("", "%p")
    assert epilogue.is_empty
    assert epilogue.operands == ()
    assert epilogue.parts == 1
    (function,) = parse_text(
        "func.func @main(%a: tensor<2x2xf32>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
        "  %r = linalg.matmul ins(%a, %a : tensor<2x2xf32>, tensor<2x2xf32>) "
        "outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>\n"
        "  %n = linalg.exp ins(%r : tensor<2x2xf32>) outs(%c : tensor<2x2xf32>) -> "
        "tensor<2x2xf32>\n  return %n : tensor<2x2xf32>\n}"
    ).ops
    assert isinstance(function, FuncOp)
    (op,) = (op for op in function.walk() if isinstance(op, linalg.ops.MatmulOp))
    assert epilogue_of(op, LOOPS).is_empty, "outside of a dispatch nothing is fused"


def test_operands_are_placed_by_the_loops_of_the_product():
    epilogue = read(BIAS + RESIDUAL, "%h")
    assert not epilogue.is_empty
    (result,) = epilogue.results
    assert result.value.name_hint == "h"
    assert result.map == LOOPS
    read_at = {placed.value.name_hint: reads(placed) for placed in epilogue.operands}
    points = list(product(range(3), range(3)))
    assert read_at == {
        "bias": {((m, n), (n,)) for m, n in points},
        "other": {((m, n), (n, m)) for m, n in points},
    }


def test_a_result_may_be_transposed():
    epilogue = read(combine("%h", "%p: !m", "%other: !m", "#ji, #ij, #ij"), "%h")
    (result,) = epilogue.results
    (other,) = epilogue.operands
    assert (
        reads(result) == reads(other) == {((m, n), (n, m)) for m, n in product(range(3), range(3))}
    )


def test_results_are_in_the_order_of_the_yield():
    names = [placed.value.name_hint for placed in read(BIAS + RESIDUAL, "%h", "%p", "%q").results]
    assert names == ["h", "p", "q"]


def test_constants_and_fills_are_not_operands():
    code = combine("%h", "%p: !m", "%f: !m", "#ij, #ij, #ij")
    assert read(code, "%h").operands == ()


ROW_SUM = """
    %s = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]}
        ins(%other : !m) outs(%ev : !v) {
    ^bb0(%xs: f32, %os: f32):
      %ts = arith.addf %xs, %os : f32
      linalg.yield %ts : f32
    } -> !v"""


@pytest.mark.parametrize(
    ("code", "values", "reason"),
    [
        pytest.param(
            combine("%h", "%p: !m", "%p: !m", "#ij, #ji, #ij"),
            ["%h"],
            "an element depends on two elements of the contraction's result",
            id="two elements",
        ),
        pytest.param(
            combine("%h", "%p: !m", "%other: !m", "#first, #ij, #ij"),
            ["%h"],
            "the index map with which linalg.generic reads the contraction's result is not a",
            id="one column",
        ),
        pytest.param(
            ROW_SUM.replace("%other", "%p") + combine("%h", "%s: !v", "%other: !m", "#i, #ij, #ij"),
            ["%h", "%p"],
            "linalg.generic on the contraction's result is not elementwise",
            id="sums of the product",
        ),
        pytest.param(
            ROW_SUM + combine("%h", "%p: !m", "%s: !v", "#ij, #i, #ij"),
            ["%h"],
            "linalg.generic is not elementwise, so ",
            id="sums of an operand",
        ),
        pytest.param(
            "",
            ["%other"],
            "the kernel stores no value that depends on the contraction's result",
            id="nothing stored",
        ),
    ],
)
def test_others_are_refused_with_the_reason(code: str, values: list[str], reason: str):
    with pytest.raises(NotFused, match=reason):
        read(code, *values)


def test_a_kernel_of_few_rows_computes_sums_of_rows_in_memory():
    code = ROW_SUM + combine("%h", "%p: !m", "%s: !v", "#ij, #i, #ij")
    epilogue = read(code, "%h", schedule=ROWS)
    assert [placed.value.name_hint for placed in epilogue.results] == ["h"]
    (sums,) = epilogue.reductions
    assert reads(sums) == {((m, n), (m,)) for m, n in product(range(3), range(3))}
    assert epilogue.operands == ()


SUMS = ROW_SUM.replace("%other", "%q") + combine("%h", "%s: !v", "%other: !m", "#i, #ij, #ij")
"""Sums of %q, which depends on the product."""


def test_other_readers_of_few_rows_read_one_value_that_is_not_stored():
    epilogue = read(BIAS + SUMS, "%h", schedule=ROWS)
    assert epilogue.source is not None
    assert epilogue.source.value.name_hint == "q"
    assert epilogue.results == ()
    assert [placed.value.name_hint for placed in epilogue.operands] == ["bias"]
    assert read(BIAS + RESIDUAL, "%h", schedule=ROWS).source is None
    with pytest.raises(NotFused, match="both stored and read by other operations"):
        read(BIAS + SUMS, "%h", "%q", schedule=ROWS)
    twice = SUMS + combine("%g", "%s: !v", "%p: !m", "#i, #ji, #ij")
    more = combine("%n", "%p: !m", "%p: !m", "#first, #first, #ij")
    with pytest.raises(NotFused, match="read several values computed from the contraction's"):
        read(BIAS + twice + more, "%h", "%n", schedule=ROWS)


def test_a_prologue_is_elementwise_and_in_place():
    """A product's operand is followed to memory through operations on equal indices."""
    code = """
    %n = linalg.exp ins(%other : !m) outs(%e : !m) -> !m
    %q = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
        ins(%other : !m) outs(%e : !m) {
    ^bb0(%x: f32, %o: f32):
      %y = math.sqrt %x : f32
      linalg.yield %y : f32
    } -> !m
    %h = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]}
        ins(%q : !m) outs(%e : !m) {
    ^bb0(%x: f32, %o: f32):
      %y = math.exp %x : f32
      linalg.yield %y : f32
    } -> !m
    %t = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]}
        ins(%q : !m) outs(%e : !m) {
    ^bb0(%x: f32, %o: f32):
      linalg.yield %x : f32
    } -> !m"""
    module = parse(code, "%p")
    assert [op.results[0].name_hint for op in prologue_of(find(module, "h"))] == ["h", "q"]
    assert prologue_of(find(module, "t")) == []
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert prologue_of(function.args[0]) == []


def row_sum(read: str = "#ij", write: str = "#i", kinds: str = '"parallel", "reduction"',
            body: str = "%t = arith.addf %x, %o : f32") -> Operation:  # fmt: skip
    code = f"""
    %s = linalg.generic {{indexing_maps = [{read}, {write}], iterator_types = [{kinds}]}}
        ins(%other : !m) outs(%ev : !v) {{
    ^bb0(%x: f32, %o: f32):
      {body}
      linalg.yield %t : f32
    }} -> !v"""
    owner = find(parse(code, "%p"), "s").owner
    assert isinstance(owner, Operation)
    return owner


def test_sums_of_contiguous_rows_are_recognized():
    assert row_sum_of(row_sum()) is not None
    assert row_sum_of(row_sum(body="%t = arith.addf %o, %x : f32")) is not None
    squares = "%y = arith.mulf %x, %x : f32\n%t = arith.addf %o, %y : f32"
    assert row_sum_of(row_sum(body=squares)) is not None
    assert row_sum_of(row_sum(body="%t = arith.maximumf %o, %x : f32")) is None
    assert row_sum_of(row_sum(body="%t = arith.addf %o, %o : f32")) is None
    scaled = "%y = arith.mulf %x, %o : f32\n%t = arith.addf %o, %y : f32"
    assert row_sum_of(row_sum(body=scaled)) is None
    columns = row_sum(write="#j", kinds='"reduction", "parallel"')
    assert row_sum_of(columns) is None
    assert row_sum_of(row_sum(read="#ji")) is None
    assert row_sum_of(row_sum(write="#j")) is None
    assert row_sum_of(None) is None


def test_an_operand_needs_loops_that_index_the_result():
    module = parse(ROW_SUM, "%p")
    sums = find(module, "s")
    assert isinstance(sums.owner, linalg.ops.GenericOp)
    placed = Placed(sums, AffineMap.from_callable(lambda m, n, k: (m,)))
    with pytest.raises(NotFused, match="depends on loops that do not index its result"):
        operand_of(placed, sums.owner, 0)


def test_a_buffer_is_defined_by_the_operation_that_writes_it():
    """A fill or a copy only initializes the buffer."""
    text = """
    func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xf32>) {
      %c = arith.constant 0.0 : f32
      linalg.fill ins(%c : f32) outs(%y : memref<4xf32>)
      linalg.exp ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
      linalg.fill ins(%c : f32) outs(%z : memref<4xf32>)
      linalg.negf ins(%y : memref<4xf32>) outs(%z : memref<4xf32>)
      return
    }"""
    (function,) = (op for op in parse_text(text).ops if isinstance(op, FuncOp))
    x, y, z = function.args
    assert definition(x) is None
    names = [op.name for value in (y, z) if (op := definition(value)) is not None]
    assert names == ["linalg.exp", "linalg.negf"]
