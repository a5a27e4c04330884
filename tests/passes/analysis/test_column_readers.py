"""
Loops that read a product's result are recognized if each element that they compute needs one group
of columns.
"""

from __future__ import annotations

import pytest
from xdsl.dialects.func import FuncOp

from xdsl_spirv.passes.analysis.column_readers import MOST, ColumnReaders, column_readers
from xdsl_spirv.passes.analysis.epilogue import NotFused
from xdsl_spirv.runtime.modules import parse_text

SAME = "affine_map<(i, j) -> (i, j)>"
PARALLEL = 'iterator_types = ["parallel", "parallel"]'


def read(columns: str | int, arguments: str, code: str) -> ColumnReaders:
    """Returns the loops of `code` that read %q, a buffer of one row of `columns`."""
    text = f"""
    func.func @main(%q: memref<1x{columns}xf32>, {arguments}) {{
      %c = arith.constant 0.0 : f32
      linalg.fill ins(%c : f32) outs(%q : memref<1x{columns}xf32>)
      {code}
      return
    }}"""
    (function,) = (op for op in parse_text(text).ops if isinstance(op, FuncOp))
    return column_readers(function.args[0])


def divide(first: str, second: str, result: str, maps: tuple[str, str] = (SAME, SAME)) -> str:
    """
    Returns code that divides two buffers element by element. Buffers are given as `name: type`, and
    `maps` index the dividend and the divisor.
    """
    (a, a_type), (b, b_type), (r, r_type) = (v.split(": ", 1) for v in (first, second, result))
    return f"""
      linalg.generic {{indexing_maps = [{maps[0]}, {maps[1]}, {SAME}], {PARALLEL}}}
          ins({a}, {b} : {a_type}, {b_type}) outs({r} : {r_type}) {{
      ^bb0(%x: f32, %y: f32, %o: f32):
        %z = arith.divf %x, %y : f32
        linalg.yield %z : f32
      }}"""


def read_groups(count: int, offsets: tuple[int, int], groups: int = 6) -> ColumnReaders:
    """Returns the loops that divide one column of each group of `count` columns by another one."""
    view, result = f"memref<1x{groups}x{count}xf32>", f"memref<1x{groups}xf32>"
    maps = tuple(f"affine_map<(i, j) -> (i, j, {offset})>" for offset in offsets)
    return read(
        groups * count,
        f"%h: {result}",
        f"%v = memref.expand_shape %q [[0], [1, 2]] output_shape [1, {groups}, {count}] : "
        f"memref<1x{groups * count}xf32> into {view}"
        + divide(f"%v: {view}", f"%v: {view}", f"%h: {result}", (maps[0], maps[1])),
    )


def part(name: str, offset: int, size: int, columns: int) -> tuple[str, str]:
    """Returns code that takes `size` columns of %q from `offset` on, and the type of this part."""
    type = f"memref<1x{size}xf32, strided<[{columns}, 1], offset: {offset}>>"
    return (
        f"{name} = memref.subview %q[0, {offset}] [1, {size}] [1, 1] : memref<1x{columns}xf32> to "
        f"{type}\n",
        type,
    )


def figures(found: ColumnReaders) -> list[tuple[int, int, int]]:
    """
    Returns (first group, elements per group, number of groups) of the loops that read the columns.
    """
    return [(reader.first, reader.each, reader.groups) for reader in found.readers]


@pytest.mark.parametrize(
    ("count", "offsets", "expected"),
    [(2, (1, 0), 2), (3, (0, 2), 3), (4, (3, 1), 4), (8, (0, 7), 8), (8, (5, 5), 8)],
)
def test_one_element_of_each_group(count: int, offsets: tuple[int, int], expected: int):
    found = read_groups(count, offsets)
    assert (found.count, found.parts, found.columns) == (expected, 1, 6 * count)
    assert figures(found) == [(0, 1, 6)]


def test_columns_apart_are_the_same_column_of_equal_parts():
    """Two parts of six columns: element j needs column j of each part, so these two are a group."""
    first, type_1 = part("%a", 0, 6, 12)
    second, type_2 = part("%b", 6, 6, 12)
    code = first + second + divide(f"%a: {type_1}", f"%b: {type_2}", "%h: memref<1x6xf32>")
    found = read(12, "%h: memref<1x6xf32>", code)
    assert (found.count, found.parts, found.columns) == (2, 2, 6)
    assert figures(found) == [(0, 1, 6)]


def test_readers_of_some_columns_begin_at_their_group():
    """Loops read pairs of the first four columns, and single columns of the other eight."""
    first, type_1 = part("%a", 0, 4, 12)
    second, type_2 = part("%b", 4, 8, 12)
    pairs = "affine_map<(i, j) -> (i, 1 - j)>"
    code = (
        first
        + f"%f = memref.collapse_shape %a [[0, 1]] : {type_1} into memref<4xf32>\n"
        + "%t = memref.expand_shape %f [[0, 1]] output_shape [2, 2] : memref<4xf32> into "
        + "memref<2x2xf32>\n"
        + divide("%t: memref<2x2xf32>", "%t: memref<2x2xf32>", "%h: memref<2x2xf32>", (SAME, pairs))
        + "\n"
        + second
        + divide(f"%b: {type_2}", f"%b: {type_2}", "%g: memref<1x8xf32>")
    )
    found = read(12, "%h: memref<2x2xf32>, %g: memref<1x8xf32>", code)
    assert found.count == 2
    assert sorted(figures(found)) == [(0, 2, 2), (2, 2, 4)]


def test_rows_follow_one_another():
    """Two rows of two equal parts: each of the 12 elements needs two columns of its row."""
    a, b = (f"memref<2x6xf32, strided<[12, 1], offset: {offset}>>" for offset in (0, 6))
    text = f"""
    func.func @main(%q: memref<2x12xf32>, %h: memref<2x6xf32>) {{
      %c = arith.constant 0.0 : f32
      linalg.fill ins(%c : f32) outs(%q : memref<2x12xf32>)
      %a = memref.subview %q[0, 0] [2, 6] [1, 1] : memref<2x12xf32> to {a}
      %b = memref.subview %q[0, 6] [2, 6] [1, 1] : memref<2x12xf32> to {b}
      {divide(f"%a: {a}", f"%b: {b}", "%h: memref<2x6xf32>")}
      return
    }}"""
    (function,) = (op for op in parse_text(text).ops if isinstance(op, FuncOp))
    found = column_readers(function.args[0])
    assert (found.count, found.parts, found.columns) == (2, 2, 6)
    assert figures(found) == [(0, 1, 12)]


def test_loops_that_read_no_column_are_refused():
    row = "memref<1x4xf32>"
    code = divide(f"%q: {row}", f"%w: {row}", f"%h: {row}") + divide(
        f"%w: {row}", f"%w: {row}", f"%g: {row}"
    )
    with pytest.raises(NotFused, match="an element depends on columns"):
        read(4, f"%w: {row}, %h: {row}, %g: {row}", code)


def test_other_buffers_do_not_count():
    result = "memref<1x4xf32>"
    code = divide(f"%q: {result}", f"%w: {result}", f"%h: {result}")
    found = read(4, f"%w: {result}, %h: {result}", code)
    assert (found.count, figures(found)) == (1, [(0, 1, 4)])


def elementwise(columns: str | int, map: str) -> str:
    """Returns code that copies %q to %h. An index map selects the elements of %q."""
    type = f"memref<1x{columns}xf32>"
    return f"""
      linalg.generic {{indexing_maps = [{map}, {SAME}], {PARALLEL}}}
          ins(%q : {type}) outs(%h : {type}) {{
      ^bb0(%x: f32, %o: f32):
        linalg.yield %x : f32
      }}"""


SUM = """
      linalg.fill ins(%c : f32) outs(%h : memref<1xf32>)
      linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]}
          ins(%q : memref<1x4xf32>) outs(%h : memref<1xf32>) {
      ^bb0(%x: f32, %o: f32):
        %s = arith.addf %x, %o : f32
        linalg.yield %s : f32
      }"""


@pytest.mark.parametrize(
    ("columns", "result", "code", "reason"),
    [
        (4, "memref<1xf32>", SUM, "the kernel cannot read columns through Computed"),
        (
            32,
            "memref<1x32xf32>",
            elementwise(32, "affine_map<(i, j) -> (i, 31 - j)>"),
            "an element depends on columns that are not in one group of up to 8",
        ),
        (
            "?",
            "memref<1x?xf32>",
            elementwise("?", SAME),
            "readers of columns need static sizes",
        ),
        (
            MOST + 8,
            f"memref<1x{MOST + 8}xf32>",
            elementwise(MOST + 8, SAME),
            "must compute a tensor of at most 65536 elements",
        ),
        (
            4,
            "index",
            "%x = tensor.from_elements %c, %c : tensor<2xf32>",
            "tensor.from_elements after the contraction: ",
        ),
    ],
)
def test_other_readers_are_refused(columns: str | int, result: str, code: str, reason: str):
    with pytest.raises(NotFused, match=reason):
        read(columns, f"%h: {result}", code)


def test_columns_of_sixteen_are_too_many():
    with pytest.raises(NotFused, match="not in one group of up to 8"):
        read_groups(16, (0, 15))
