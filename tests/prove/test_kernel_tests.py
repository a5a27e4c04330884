"""
Kernel tests with `prove = ["races", "bounds"]` also request proofs.

Only a proof under the premises that the test states is a success.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.tools.kernel_test.description import KernelTest, Misuse  # noqa: E402
from xdsl_spirv.tools.kernel_test.proving import judge_test, prove_test  # noqa: E402
from xdsl_spirv.tools.kernel_test.toml_file import read_test  # noqa: E402
from xdsl_spirv.tools.language.diagnosing import diagnose  # noqa: E402
from xdsl_spirv.tools.main import main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests/kernels"
PREMISES = ("grid.y == 1", "grid.z == 1", "len(Input) >= grid.x * 256", "len(Sums) >= grid.x")


pytestmark = pytest.mark.usefixtures("own_glslang")


def write_test(folder: Path, name: str, asked: str, premises: tuple[str, ...] = ()) -> Path:
    """Copies a kernel and writes its test with requested proofs."""
    for file in (KERNELS / "reduce-without-barrier").iterdir():
        shutil.copy(file, folder)
    path = folder / f"{name}.kernel.toml"
    stated = f"[assume]\npremises = {list(premises)}\n" if premises else ""
    path.write_text(f"prove = {asked}\n{path.read_text()}\n{stated}")
    return path


def read(folder: Path, name: str, premises: tuple[str, ...] = ()) -> KernelTest:
    return read_test(write_test(folder, name, '["races", "bounds"]', premises))


def test_a_proof_under_stated_premises_is_a_success(tmp_path: Path):
    *launches, proof = judge_test(read(tmp_path, "repaired", PREMISES))
    assert launches
    assert all(o.passed and o.proof is None for o in launches)
    assert proof.passed
    assert proof.name.endswith("repaired[proof]")
    assert [f"premise, used but not proved: {text}" for text in PREMISES] == proof.notes[1:]


def test_a_proof_that_needs_unstated_premises_is_no_success(tmp_path: Path):
    (problem,) = prove_test(read(tmp_path, "repaired", PREMISES[:3])).problems
    assert problem.rule == "UNPROVED"
    assert problem.location is not None
    assert problem.location.file.endswith("repaired.kernel.toml")
    assert '"len(Sums) >= grid.x"]' in problem.remedy


def test_a_refutation_is_the_finding_of_its_launch(tmp_path: Path):
    test = replace(read(tmp_path, "broken"), findings=())
    outcome = prove_test(test)
    assert outcome.problems[0].rule.startswith("RACE-")
    assert "in the launch grid.x = " in outcome.problems[0].text
    assert outcome.problems[0].location is not None
    assert outcome.problems[0].location.line


def test_a_refutation_may_be_expected(tmp_path: Path):
    outcome = prove_test(read(tmp_path, "broken"))
    assert outcome.passed
    assert outcome.expected[0].rule.startswith("RACE-")


def test_a_question_that_is_not_decided_is_no_success(tmp_path: Path):
    test = replace(read(tmp_path, "repaired", PREMISES), prove_timeout=1e-6)
    (problem,) = prove_test(test).problems
    assert problem.rule == "UNPROVED"
    assert "time limit is reached" in problem.message


def test_a_proof_needs_no_launch(tmp_path: Path):
    test = replace(read(tmp_path, "repaired", PREMISES), grid=None)
    (outcome,) = judge_test(test)
    assert outcome.passed
    assert outcome.proof is not None


def test_unknown_questions_are_refused(tmp_path: Path):
    with pytest.raises(Misuse, match=r"'race' is not a property that can be proved.*races"):
        read_test(write_test(tmp_path, "repaired", '["race"]'))


def test_missing_solvers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("xdsl_spirv.tools.solvers.find_spec", lambda name: None)
    outcome = prove_test(read(tmp_path, "repaired", PREMISES))
    assert "pip install 'xdsl-spirv[prove]'" in outcome.misuse


def test_reports_have_proofs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, sarif = write_test(tmp_path, "repaired", '"races"', PREMISES[:2]), tmp_path / "o.sarif"
    path.write_text(path.read_text().replace("grid.z == 1", "grid.x == 1"))
    report = tmp_path / "o.json"
    assert main(["test", str(path), "--sarif", str(sarif), "-o", str(report)]) == 1
    assert ", 1 proof: 1 failed" in capsys.readouterr().out
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert result["ruleId"] == "UNPROVED"
    assert result["level"] == "warning"
    proof = json.loads(report.read_text())["launches"][-1]["proof"]
    assert proof["verdict"] == "proved"
    assert "grid.z == 1" in proof["offered"]


def test_the_editor_shows_what_is_not_proved(tmp_path: Path):
    write_test(tmp_path, "repaired", '"races"', PREMISES[:1])
    found = diagnose(tmp_path / "repaired.comp")
    assert [(d.problem.rule, d.unsure) for d in found] == [("UNPROVED", True)]


def test_pytest_has_an_item_for_a_proof(tmp_path: Path):
    write_test(tmp_path, "repaired", '"races"', PREMISES)
    for file in tmp_path.glob("broken*"):
        file.unlink()
    command = [sys.executable, "-m", "pytest", "--xdsl-spirv", "-v", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "repaired[proof] PASSED" in done.stdout
