"""Reports in SARIF and JUnit are valid and complete."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from xdsl_spirv.tools import settings
from xdsl_spirv.tools.kernel_test import sarif
from xdsl_spirv.tools.kernel_test.description import KernelTest
from xdsl_spirv.tools.kernel_test.junit import to_junit
from xdsl_spirv.tools.kernel_test.problems import Location, Outcome, Problem
from xdsl_spirv.tools.kernel_test.reporting import colour_verdicts, summary
from xdsl_spirv.tools.kernel_test.sarif import describe, page_of, to_sarif
from xdsl_spirv.tools.main import main


def outcome(size: int | None = 32, **keywords: Any) -> Outcome:
    return Outcome(KernelTest(Path("a.kernel.toml"), Path("a.comp")), size, **keywords)


RACE = Problem(
    "RACE-01",
    "a read and a write",
    "RACE-01: a read and a write\n  at a.comp:3: x",
    "put a barrier",
    Location("a.comp", 3, 5, "x = y;"),
    (Location("b.h", 7, message="the other access"),),
)


def test_a_finding_is_written_to_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    document = json.loads(to_sarif([outcome(problems=[RACE]), outcome(8, problems=[RACE])]))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    (result,) = run["results"]  # Two launches show the same bug.
    assert result["ruleId"] == "RACE-01"
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == "RACE-01"
    assert rule["help"]["text"].endswith("docs/checks.md says more.")
    assert result["properties"]["launches"] == ["a[subgroup 32]", "a[subgroup 8]"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a.comp", "uriBaseId": "SRCROOT"}
    region = {"startLine": 3, "startColumn": 5, "snippet": {"text": "x = y;"}}
    assert place["region"] == region
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "b.h"
    assert related["physicalLocation"]["region"] == {"startLine": 7}
    assert related["message"]["text"] == "the other access"
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.as_uri() + "/"
    assert run["invocations"][0]["executionSuccessful"]


def test_files_elsewhere_and_unusual_names_are_uris(tmp_path: Path, monkeypatch: Any):
    monkeypatch.chdir(tmp_path)
    for file, uri in (("a b#.comp", "a%20b%23.comp"), ("/x/y.comp", "file:///x/y.comp")):
        problem = Problem("RACE-01", "m", "t", "", Location(file))
        (result,) = json.loads(to_sarif([outcome(problems=[problem])]))["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == uri
        assert "region" not in place


def test_a_test_that_was_not_run_is_a_failed_invocation():
    run = json.loads(to_sarif([outcome(None, misuse="the grid is missing")]))["runs"][0]
    assert run["results"] == []
    assert not run["invocations"][0]["executionSuccessful"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "the grid is missing"


@pytest.mark.parametrize(
    ("rule", "part", "page"),
    [
        ("RACE-01", "conflicting accesses are ordered", "checks.md"),
        ("VUL-01", "DescriptorSet", "validation.md"),
        ("MISMATCH", "expected", "kernel-tests.md"),
        ("LIMIT-02", "memory", "kernel-tests.md"),
        ("STEP-01", "a launch ends", "checks.md"),
        ("CM-12", "rules of instructions", "rules.md"),
    ],
)
def test_rules_are_described(rule: str, part: str, page: str):
    assert part in describe(rule)
    assert page_of(rule) == page


def test_rules_have_their_page_without_the_documentation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sarif, "_checks", dict[str, str])
    pages = {rule: page_of(rule) for rule in ("RACE-01", "UNDEF-03", "WAIT-01", "TYP-02")}
    assert pages == dict.fromkeys(pages, "checks.md") | {"TYP-02": "validation.md"}
    assert "conflicting accesses" in describe("RACE-01")


def test_every_rule_leads_to_the_page_whose_table_has_it(monkeypatch: pytest.MonkeyPatch):
    folder = Path(sarif.__file__).resolve().parents[2] / "docs"
    rows: dict[str, set[str]] = {}
    for page in ("checks.md", "validation.md", "kernel-tests.md", "rules.md"):
        for rule in re.findall(r"^\| ([A-Z]+-\d+|[A-Z]{4,}) \|", (folder / page).read_text(), re.M):
            rows.setdefault(rule, set()).add(page)
    assert len(rows) > 150
    for checks in (sarif._checks, dict[str, str]):  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(sarif, "_checks", checks)
        assert [rule for rule, pages in rows.items() if page_of(rule) not in pages] == []


@pytest.mark.parametrize("seed", range(20))
def test_fingerprints_differ_where_rule_file_or_text_do(seed: int):
    drawn = random.Random(seed)
    problems = [
        replace(
            RACE,
            rule=drawn.choice(["RACE-01", "RACE-03"]),
            location=Location(
                drawn.choice(["a.comp", "b.comp"]), drawn.randrange(1, 99), 1,
                " " * drawn.randrange(3) + drawn.choice(["x = y;", "x = z;"]),
            ),
        )
        for _ in range(12)
    ]  # fmt: skip
    results = json.loads(to_sarif([outcome(problems=problems)]))["runs"][0]["results"]
    keys = [
        (r["ruleId"], p["artifactLocation"]["uri"], p["region"]["snippet"]["text"].strip())
        for r in results
        for p in [r["locations"][0]["physicalLocation"]]
    ]
    marks = [result["partialFingerprints"]["ruleFileLine/v1"] for result in results]
    assert len(set(marks)) == len(marks)
    assert len(set(zip(keys, (m.split(":")[0] for m in marks), strict=True))) == len(set(keys))


def test_a_finding_keeps_its_fingerprint_where_lines_move():
    def fingerprints(*problems: Problem) -> list[str]:
        run = json.loads(to_sarif([outcome(problems=list(problems))]))["runs"][0]
        return [result["partialFingerprints"]["ruleFileLine/v1"] for result in run["results"]]

    moved = replace(RACE, location=Location("a.comp", 9, 1, "  x = y;"))
    other = replace(RACE, location=Location("a.comp", 3, 5, "x = z;"))
    (first,) = fingerprints(RACE)
    assert fingerprints(moved) == [first]
    assert first not in fingerprints(other)
    assert len({*fingerprints(RACE, moved, other)}) == 3


SIZES: dict[tuple[str, ...], dict[str, str]] = {
    (): {
        "": "32 (by default)",
        "amd-rdna3": "64 (of the target, which has 32 to 64)",
        "nvidia-h200": "32 (of the target)",
    },
    ("--subgroup-size", "8"): dict.fromkeys(("", "amd-rdna3", "nvidia-h200"), "8 (given)"),
}


@pytest.mark.parametrize("seed", range(4))
def test_every_report_has_the_settings_of_its_launches(
    saxpy: Path, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    drawn = random.Random(seed)
    size, target = drawn.choice(list(SIZES)), drawn.choice(["", "amd-rdna3", "nvidia-h200"])
    checks, twice, robust = drawn.choice(["", "races"]), drawn.random() < 0.5, drawn.random() < 0.5
    said = (
        f"with subgroup size {SIZES[size][target]}, "
        f"{f'target {target}' if target else 'no target'}, checks: {checks or 'all'}, "
        f"{'' if robust else 'no '}robust buffer access, constant 0 = 32, constant twice = {twice}"
    )
    options = [*size, *(["--target", target] if target else []), "--spec", f"twice={twice}".lower()]
    options += ["--robust"] * robust + (["--check", checks] if checks else [])
    files = {"--sarif": tmp_path / "o.sarif", "-o": tmp_path / "o.json"}
    main(["test", str(saxpy), *options, *(str(x) for pair in files.items() for x in pair)])
    assert said in capsys.readouterr().out
    (launch,) = json.loads(files["-o"].read_text())["launches"]
    run = json.loads(files["--sarif"].read_text())["runs"][0]
    assert list(run["properties"]["launches"].values()) == [launch["settings"]]
    assert settings.describe_settings(launch["settings"]) == said


def test_a_failure_is_written_to_junit():
    data = to_junit(
        [outcome(problems=[RACE]), outcome(8), outcome(None, misuse="bad \x00\x1b\ud800 text")]
    )
    suites = ElementTree.fromstring(data)
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "1", "1")
    (suite,) = suites
    assert [case.get("name") for case in suite] == ["a[subgroup 32]", "a[subgroup 8]", "a"]
    failure = suite[0][0]
    assert failure.tag == "failure"
    assert failure.get("message") == "RACE-01: a read and a write"
    assert "a.comp:3" in (failure.text or "")
    assert len(suite[1]) == 0
    assert suite[2][0].tag == "error"
    assert "bad ??? text" in (suite[2][0].get("message") or "")


def test_the_last_line_has_the_counts():
    assert summary([]) == "0 kernels, 0 launches: nothing was run"
    assert summary([outcome()]) == "1 kernel, 1 launch: all passed"
    failed = outcome(8, problems=[RACE])
    idle = outcome(16, misuse="x")
    assert summary([outcome(), failed]) == "1 kernel, 2 launches: 1 failed"
    assert summary([outcome(), failed, idle]) == "1 kernel, 2 launches: 1 failed, 1 not run"


def test_the_command_writes_all_reports(racy: Path, tmp_path: Path, monkeypatch: Any):
    monkeypatch.chdir(tmp_path)
    options = ["--sarif", "o.sarif", "--junit", "o.xml", "-o", "o.json"]
    assert main(["test", str(racy), *options]) == 1
    (result,) = json.loads(Path("o.sarif").read_text())["runs"][0]["results"]
    lines = [result["locations"][0]] + result["relatedLocations"]
    numbers = [place["physicalLocation"]["region"]["startLine"] for place in lines]
    assert numbers[:2] == [11, 8]
    assert {p["physicalLocation"]["artifactLocation"]["uri"] for p in lines} == {"sum.comp"}
    assert ElementTree.parse("o.xml").getroot().get("failures") == "1"
    assert json.loads(Path("o.json").read_text())["summary"] == "1 kernel, 1 launch: 1 failed"


def test_verdicts_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    report = "sum[subgroup 8]: FAILED\n  RACE-01: a data race\nx: ok (0 findings)"
    assert colour_verdicts(report) == report
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        shown = colour_verdicts(report)
        monkeypatch.setenv("NO_COLOR", "1")
        assert colour_verdicts(report) == report
        monkeypatch.undo()
    os.close(master)
    assert shown == (
        "sum[subgroup 8]: \x1b[1;31mFAILED\x1b[0m\n  \x1b[1;31mRACE-01\x1b[0m: a data race\n"
        "x: \x1b[32mok\x1b[0m (0 findings)"
    )
