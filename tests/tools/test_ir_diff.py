"""The diff of modules ignores renumbering and shows changed operands."""

from __future__ import annotations

import pytest

from xdsl_spirv.tools.ir_diff import counts, diff, differs, hunks, summary

OLD = """func.func @f(%0: i32, %1: i32) -> i32 {
  %2 = arith.addi %0, %1 : i32
  %3 = arith.muli %2, %2 : i32
  %4 = arith.subi %3, %0 : i32
  func.return %4 : i32
}"""

INSERTED = """func.func @f(%0: i32, %1: i32) -> i32 {
  %2 = arith.constant 7 : i32
  %3 = arith.addi %0, %1 : i32
  %4 = arith.muli %3, %3 : i32
  %5 = arith.subi %4, %0 : i32
  func.return %5 : i32
}"""

SPIRV = """spirv.func @f(%a: i32, %b: i32) -> i32 {
  %2 = spirv.Constant 7 : i32
  %3 = spirv.IAdd %a, %b : i32
  %4 = spirv.IMul %3, %3 : i32
  %5 = spirv.ISub %4, %a : i32
  spirv.ReturnValue %5 : i32
}"""


def test_renumbered_values_are_no_change():
    rows = diff(OLD.splitlines(), INSERTED.splitlines())
    assert counts(rows) == (1, 0, 0)
    assert [row.kind for row in rows][:3] == ["same", "added", "renamed"]
    (hunk,) = hunks(rows, context=1)
    assert [row.new for row in hunk] == [0, 1, 2]


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("%4 = arith.subi %3, %0 : i32", "%4 = arith.subi %3, %1 : i32"),
        ("%3 = arith.muli %2, %2 : i32", "%3 = arith.muli %2, %0 : i32"),
        ("func.return %4 : i32", "func.return %3 : i32"),
    ],
)
def test_another_operand_is_a_change(line: str, other: str):
    rows = diff(OLD.splitlines(), OLD.replace(line, other).splitlines())
    assert counts(rows) == (0, 0, 1)


def test_operations_of_two_dialects_are_paired():
    rows = diff(INSERTED.splitlines(), SPIRV.splitlines())
    added, removed, changed = counts(rows)
    assert changed >= 4
    assert added + removed <= 5
    pairs = {
        (INSERTED.splitlines()[row.old].split()[2], SPIRV.splitlines()[row.new].split()[2])
        for row in rows
        if row.kind == "changed" and row.old is not None and row.new is not None
    }
    assert ("arith.addi", "spirv.IAdd") in pairs
    assert ("arith.constant", "spirv.Constant") in pairs


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", "no change"),
        ("", "a\nb", "+2"),
        ("a\nb", "", "-2"),
        ("%0 = a.b", "%1 = a.b", "no change"),
        ("%0 = a.b 3", "%0 = a.b 4", "~1"),
    ],
)
def test_changes_are_summarized(old: str, new: str, expected: str):
    rows = diff(old.splitlines(), new.splitlines())
    assert summary(rows) == expected
    assert differs(rows) == (expected != "no change")
    for side, text in (("old", old), ("new", new)):
        numbers = [getattr(row, side) for row in rows if getattr(row, side) is not None]
        assert numbers == list(range(len(text.splitlines())))
