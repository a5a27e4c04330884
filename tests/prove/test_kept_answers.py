"""Solvers decide an obligation once. Cached answers are bounded, and damaged files are ignored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits, ask  # noqa: E402
from xdsl_spirv.prove.values import Term, z3  # noqa: E402
from xdsl_spirv.tools import kept_answers  # noqa: E402
from xdsl_spirv.tools.kept_answers import KeptAnswers, open_answers  # noqa: E402

X, Y = z3.BitVecs("x y", 32)


def ask_both(conditions: list[Term], folder: Path, premises: list[Term] | None = None):
    """
    Asks the same question in two processes, one after the other. Returns both answers, and the
    cache of the second process.
    """
    limits = [Limits(answers=KeptAnswers(folder)) for _ in range(2)]
    first, second = (ask(conditions, [X], one, premises or []) for one in limits)
    return first, second, limits[1].answers


def test_a_second_process_finds_the_answer(tmp_path: Path):
    first, second, kept = ask_both([X + Y == 7, z3.ULT(Y, 2), z3.UGT(X, 6)], tmp_path)
    assert first.verdict == second.verdict == "holds"
    assert first.values == second.values == {"x": 7}
    assert isinstance(kept, KeptAnswers)
    assert (kept.found, kept.made) == (1, 0)


def test_a_proof_keeps_the_premises_that_it_needs(tmp_path: Path):
    first, second, _ = ask_both([z3.UGT(X, 5)], tmp_path, [z3.ULT(Y, 3), z3.ULT(X, 4)])
    assert first.verdict == second.verdict == "never"
    assert first.needed == second.needed == [1]


def test_another_obligation_is_another_answer(tmp_path: Path):
    assert ask_both([z3.UGT(X, 5)], tmp_path)[1].verdict == "holds"
    assert ask_both([z3.UGT(X, 5), z3.ULT(X, 5)], tmp_path)[1].verdict == "never"
    assert len(list(tmp_path.iterdir())) == 2


def test_another_solver_version_asks_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ask_both([z3.UGT(X, 5)], tmp_path)
    monkeypatch.setattr(kept_answers, "_versions", lambda: "z3-solver 0.0\n")
    answers = KeptAnswers(tmp_path)
    ask([z3.UGT(X, 5)], [X], Limits(answers=answers))
    assert (answers.found, answers.made) == (0, 1)


@pytest.mark.parametrize("left", ["", "{", '{"verdict": "never", "age": 3}'])
def test_a_damaged_file_is_replaced(left: str, tmp_path: Path):
    ask_both([z3.UGT(X, 5)], tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(left)
    assert ask_both([z3.UGT(X, 5)], tmp_path)[0].verdict == "holds"
    assert file.read_text() not in ("", left)


def test_old_answers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_answers, "MOST", 10)
    monkeypatch.setattr(kept_answers, "PERIOD", 2)
    answers = KeptAnswers(tmp_path)
    for number in range(40):
        ask([X == number], [X], Limits(answers=answers))
    assert len(list(tmp_path.iterdir())) <= 12


def test_many_writers_leave_whole_files(tmp_path: Path):
    answer = ask([X == 3], [X])

    def write(number: int) -> None:
        KeptAnswers(tmp_path).keep(f"obligation {number % 3}", answer)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert len(list(tmp_path.iterdir())) == 3
    assert KeptAnswers(tmp_path).find("obligation 1") == answer


def test_the_cache_can_be_turned_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_SPIRV_CACHE", "0")
    assert open_answers() is None
