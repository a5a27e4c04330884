"""`opt --interactive` steps through passes in both directions, and failures change nothing."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp, MulfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.tools import TERMINATED
from xdsl_spirv.tools.failing import Terminated
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.stepping import Session
from xdsl_spirv.tools.stepping_runs import Runs
from xdsl_spirv.tools.stepping_terminal import Terminal
from xdsl_spirv.universe import UNIVERSE

SOURCE = """
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.mulf %x, %y : f32
      linalg.yield %s : f32
  } -> tensor<8xf32>
  return %sum : tensor<8xf32>
}
"""
PIPELINE = "linalg-to-spirv{target=lavapipe}"


@dataclass(frozen=True)
class Breaks(ModulePass):
    """Changes the module, and then fails."""

    name = "test-breaks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.erase_op(next(iter(op.body.block.ops)))
        raise ValueError("broken\x1b[31m")


@dataclass(frozen=True)
class Spoils(ModulePass):
    """Leaves a module that does not verify."""

    name = "test-spoils"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, MulfOp):
                number = ConstantOp.from_int_and_width(1, 32)
                Rewriter.insert_op(number, InsertPoint.before(inner))
                inner.operands[1] = number.result


@dataclass(frozen=True)
class Squares(ModulePass):
    """Multiplies by the wrong operand."""

    name = "test-squares"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, MulfOp):
                inner.operands[1] = inner.operands[0]


@pytest.fixture
def session() -> Session:
    passes = {p.name: lambda p=p: p for p in (Breaks, Spoils, Squares)}
    return Session(parse_text(SOURCE), context(), {**UNIVERSE.all_passes, **passes})


def test_steps_can_be_undone_and_repeated(session: Session):
    source = text_of(session.module)
    count = session.load(PIPELINE)
    session.jump("form-dispatches")
    formed = text_of(session.module)
    assert "schedule.dispatch" in formed
    assert source == text_of(session.source)
    here = session.position
    session.jump("0")
    assert text_of(session.module) == source
    session.redo(here)
    assert text_of(session.module) == formed
    session.jump(str(count))
    assert "spirv.module" in session.text()
    assert session.applied.split(",")[0] == "lift-weights"
    session.jump("form-dispatches")
    assert session.position == here


def test_the_saved_pipeline_gives_the_same_module(session: Session):
    session.load(PIPELINE)
    session.jump("kernel-to-spirv")
    again = Session(parse_text(SOURCE), context(), session.passes)
    again.apply(session.applied)
    assert text_of(again.module) == text_of(session.module)


@pytest.mark.parametrize(
    "command",
    ["test-breaks", "fold-constants,test-breaks", "test-spoils", "nobody", "fold-constants{x=1}"],
)
def test_a_failure_changes_nothing(command: str, session: Session):
    session.load("own-results,fold-constants,form-dispatches")
    session.jump("2")
    session.undo()
    before = text_of(session.module), session.position, list(session.plan), list(session.states)
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        session.apply(command)
    assert not isinstance(raised.value, SystemExit)
    after = text_of(session.module), session.position, list(session.plan), list(session.states)
    assert before == after
    session.redo()


def test_a_pass_can_be_inserted(session: Session):
    session.load("own-results,form-dispatches")
    session.next()
    session.apply("fold-constants")
    assert [p.name for p in session.plan] == ["own-results", "fold-constants", "form-dispatches"]
    session.next()
    session.undo(2)
    assert session.skip() == "fold-constants"
    session.next()
    assert session.last == "form-dispatches"
    with pytest.raises(ProgramError, match="the plan has no next pass"):
        session.next()


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("own-results", "legal"),
        ("form-dispatches", "legal"),
        ("test-squares", "NOT LEGAL: result0"),
    ],
)
def test_runs_are_compared(pipeline: str, expected: str, session: Session):
    session.apply(pipeline)
    said = list(Runs(session).run(3))
    assert said[-1].startswith(f"beside the source: {expected}")
    same = "bit-identical" in said[-2]
    assert same == (expected == "legal")


def typed(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str
) -> tuple[int, Path]:
    path = tmp_path / "x.mlir"
    path.write_text(SOURCE)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    return main(["opt", str(path), *options, "--interactive"]), path


def test_commands_can_come_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    saved, written = tmp_path / "pipeline", tmp_path / "y.mlir"
    lines = ["# to dispatches", "jump form-dispatches", "d", "r 1", "check", "l", "pipeline"]
    lines += [f"save {saved}", f"write {written}", "s main", "undo", "quit", "never"]
    status, path = typed(lines, monkeypatch, tmp_path, "-p", PIPELINE)
    said = capsys.readouterr().out
    assert status == 0
    assert "+  %sum = schedule.dispatch(%a, %b)" in said
    assert "beside the source: legal" in said
    assert "the module is valid" in said
    assert "never" not in said
    assert main(["opt", str(path), "-p", saved.read_text().strip()]) == 0
    assert capsys.readouterr().out.strip() == written.read_text().strip()


def test_faults_of_passes_are_messages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(UNIVERSE.all_passes, "test-breaks", lambda: Breaks)
    lines = ["undo", "jump", "jump 7", "jump x", "next 2x", "redo", "skip", "apply", "show nobody"]
    lines += ["diff 3", "aply", "fold-constants", "save", f"save {tmp_path}", "apply foldconstants"]
    lines += ["apply test-breaks", "apply fold-constants{", "help nobody", "run x"]
    status, _ = typed(lines, monkeypatch, tmp_path)
    said = capsys.readouterr().out
    assert status == 1
    assert said.count("error: ") == len(lines)
    assert "did you mean 'apply'?" in said
    assert "to apply that pass: apply fold-constants" in said
    assert "did you mean 'fold-constants'?" in said
    assert "broken" in said
    assert "\x1b" not in said
    assert "Traceback" not in said


def test_a_signal_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def terminate(session: Session) -> None:
        raise Terminated

    monkeypatch.setattr(Session, "next", terminate)
    assert typed(["next", "list"], monkeypatch, tmp_path)[0] == TERMINATED
    assert "> list" not in capsys.readouterr().out


@pytest.mark.parametrize("option", ["-o=x", "--trace-passes=x", "--split-input-file"])
def test_options_of_other_modes_are_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert typed(["quit"], monkeypatch, tmp_path, option)[0] == 1
    assert "--interactive" in capsys.readouterr().err


def test_the_commands_need_standard_input(capsys: pytest.CaptureFixture[str]):
    assert main(["opt", "--interactive"]) == 1
    assert "name a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("apply fold-n", ["fold-norms"]),
        ("apply own-results,assign-sch", ["assign-schedule"]),
        ("apply assign-schedule{target=lava", ["lavapipe"]),
        ("apply assign-schedule{tar", ["target="]),
        ("apply nobody{tar", []),
        ("jump own", ["own-results"]),
        ("show ma", ["main"]),
    ],
)
def test_names_are_completed(line: str, expected: list[str], session: Session):
    session.load("own-results,fold-constants")
    terminal = Terminal(session, Runs(session), "x")
    begin = max(line.rfind(c) for c in " \t{},=") + 1
    complete = getattr(terminal, f"complete_{line.split()[0]}")
    assert complete(line[begin:], line, begin, len(line)) == expected
