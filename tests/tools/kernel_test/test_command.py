"""`xdsl-spirv test` selects tests, prints results, and returns an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.description import Compile, KernelTest
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test
from xdsl_spirv.tools.main import main


def test_a_correct_kernel_passes(saxpy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["test", str(saxpy)]) == 0
    printed = capsys.readouterr().out
    assert "saxpy[subgroup 32]: ok (0 findings, 100 elements compared)" in printed
    assert printed.endswith("1 kernel, 1 launch: all passed\n")


def test_the_description_beside_a_kernel_is_found(saxpy: Path):
    assert main(["test", str(saxpy.with_name("saxpy.comp"))]) == 0


def test_options_override_the_file(saxpy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["test", str(saxpy), "--push", "scale=1.5", "--subgroup-size", "8,16"]) == 0
    assert "1 kernel, 2 launches: all passed" in capsys.readouterr().out
    assert main(["test", str(saxpy), "--spec", "twice=false"]) == 1
    printed = capsys.readouterr().out
    assert "buffers.Output: 100 of 100 elements differ" in printed
    assert "worst at [" in printed
    assert printed.endswith("1 kernel, 1 launch: 1 failed\n")


def test_options_alone_describe_a_launch(saxpy: Path, capsys: pytest.CaptureFixture[str]):
    saxpy.unlink()
    options = ["--grid", "2", "--push", "n=50", "--push", "scale=2", "--spec", "0=32"]
    options += ["--buffer", "Input=f32:50:range", "--buffer", "0.1=f32:50:zeros"]
    assert main(["test", str(saxpy.with_name("saxpy.comp")), *options]) == 0
    assert "ok (0 findings, none compared)" in capsys.readouterr().out
    expect = ["--expect", "0.1=Input + 2"]
    assert main(["test", str(saxpy.with_name("saxpy.comp")), *options, *expect]) == 0
    assert "ok (0 findings, 50 elements compared)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--grid", "foo"], "is not a grid"),
        (["--grid", "99999999999"], "is not a grid"),
        (["--grid", "9" * 5000], "is not a grid"),
        (["--subgroup-size", "9" * 5000], "is not a list of numbers"),
        (["--push", "n=1", "--push", "n.x=2"], "another option sets a member or the whole"),
        (["--timeout", "1e300"], "is not a valid time limit"),
        (["--junit", "missing/results.xml"], "cannot write the output"),
    ],
)
def test_a_mistake_in_the_options_ends_in_status_2(
    options: list[str],
    said: str,
    saxpy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(saxpy.parent)
    assert main(["test", str(saxpy), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_failure_cannot_be_allowed(saxpy: Path, capsys: pytest.CaptureFixture[str]):
    saxpy.with_name("saxpy.comp").write_text("no GLSL")
    assert main(["test", str(saxpy), "--allow", "COMPILE"]) == 2
    assert "COMPILE is not a finding" in capsys.readouterr().out


def test_an_internal_error_does_not_affect_other_tests_and_reports(
    saxpy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from xdsl_spirv.tools.kernel_test import suite

    other = saxpy.with_name("a.kernel.toml")
    other.write_text(saxpy.read_text())

    def run(test: KernelTest) -> list[Outcome]:
        if test.source == other:
            raise ZeroDivisionError("by nothing")
        return run_test(test)

    monkeypatch.setattr(suite, "judge_test", run)
    report = saxpy.with_name("results.json")
    assert main(["test", str(saxpy.parent), "-o", str(report)]) == 70
    printed = capsys.readouterr()
    assert "saxpy[subgroup 32]: ok" in printed.out
    assert "1 not run" in printed.out
    assert "has a defect: ZeroDivisionError: by nothing" in printed.err
    crashed, passed = json.loads(report.read_text())["launches"]
    assert "ZeroDivisionError" in crashed["not_run"]
    assert passed["passed"]


def test_a_missing_barrier_is_shown_by_its_source_lines(
    racy: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["test", str(racy)]) == 1
    printed = capsys.readouterr().out
    assert "RACE-01" in printed
    assert "sum.comp:11:" in printed
    assert "tile[l] += tile[l + s];" in printed
    assert "sum.comp:8:" in printed
    assert "tile[l] = x[gl_GlobalInvocationID.x];" in printed


def test_a_folder_is_searched(saxpy: Path, racy: Path, capsys: pytest.CaptureFixture[str]):
    saxpy.with_name("alone.comp").write_text("void main() {}")
    assert main(["test", str(saxpy.parent)]) == 1
    printed = capsys.readouterr().out
    assert "alone.comp: not tested, because no file describes its launch" in printed
    assert "2 kernels, 2 launches: 1 failed (1 kernel without a description)" in printed


def test_a_command_without_tests_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["test", str(tmp_path)]) == 2
    assert "0 kernels, 0 launches: nothing was run" in capsys.readouterr().out
    assert main(["test", str(tmp_path / "missing.comp")]) == 2
    (tmp_path / "x.txt").write_text("")
    assert main(["test", str(tmp_path / "x.txt")]) == 2
    assert "is not a kernel" in capsys.readouterr().out


def test_init_writes_a_description(saxpy: Path, capsys: pytest.CaptureFixture[str]):
    kernel = str(saxpy.with_name("saxpy.comp"))
    assert main(["test", kernel, "--init"]) == 2
    assert "exists already and was not changed" in capsys.readouterr().err
    saxpy.unlink()
    given = ["-D", "UNUSED", "-D", "N=4", "--target-env", "vulkan1.2", "--push", "n=3", "--robust"]
    assert main(["test", kernel, "--init", *given]) == 0
    written = read_test(saxpy)
    assert written.compile == Compile("vulkan1.2", defines={"UNUSED": "", "N": "4"})
    assert written.push_constants["n"] == 3
    assert written.robust
    assert main(["test", kernel]) == 0
    assert "ok (0 findings, none compared)" in capsys.readouterr().out


def test_the_written_description_finds_a_race(racy: Path, capsys: pytest.CaptureFixture[str]):
    """`--init` writes a launch whose count is the buffer's length, so that the race occurs."""
    kernel = racy.with_name("sum.comp")
    text = kernel.read_text()
    tile = "x[gl_GlobalInvocationID.x]"
    assert tile in text
    kernel.write_text(
        text.replace(tile, f"gl_GlobalInvocationID.x < count ? {tile} : 0").replace(
            "shared", "layout(push_constant) uniform Count { uint count; };\nshared", 1
        )
    )
    racy.unlink()
    assert main(["test", str(kernel)]) == 2
    assert "--init writes a description" in capsys.readouterr().out
    assert main(["test", str(kernel), "--init"]) == 0
    assert main(["test", str(kernel)]) == 1
    assert "RACE-01" in capsys.readouterr().out


def test_results_are_printed_as_json(racy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["test", str(racy), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["summary"] == "1 kernel, 1 launch: 1 failed"
    (launch,) = report["launches"]
    problem = launch["problems"][0]
    assert problem["rule"] == "RACE-01"
    assert problem["location"]["line"] == 11
    assert problem["location"]["file"].endswith("sum.comp")


def test_an_expected_refusal_may_be_of_what_is_missing(
    saxpy: Path, capsys: pytest.CaptureFixture[str]
):
    text = saxpy.read_text().replace("scale = 0.5\n", "")
    saxpy.write_text(text + '[expect]\nerror = "push-constants.scale is missing"\n')
    assert main(["test", str(saxpy)]) == 0, capsys.readouterr().out
    saxpy.write_text(text + '[expect]\nerror = "another cause"\n')
    assert main(["test", str(saxpy)]) == 2


def test_one_of_several_findings_may_be_expected(racy: Path, capsys: pytest.CaptureFixture[str]):
    text = racy.read_text()
    racy.write_text(text + '[expect]\nfindings = ["UNDEF-01|RACE-01"]\n')
    assert main(["test", str(racy)]) == 0, capsys.readouterr().out
    racy.write_text(text + '[expect]\nfindings = ["UNDEF-01|UNDEF-02", "RACE-01"]\n')
    assert main(["test", str(racy)]) == 1


def test_allowed_findings_are_noted(racy: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["test", str(racy), "--allow", "RACE-01:tile"]) == 0
    assert "note: allowed: RACE-01: a read and an earlier write" in capsys.readouterr().out
    assert main(["test", str(racy), "--allow", "RACE-01:elsewhere", "--allow", "RACE-02"]) == 1


def test_findings_of_the_validator_can_be_allowed(
    saxpy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = saxpy.with_name("saxpy.comp")
    text = source.read_text().replace("std430, binding = 1", "scalar, binding = 1")
    text = text.replace("{ float y[]; }", "{ float head[3]; vec3 v; float y[]; }")
    extension = "#version 450\n#extension GL_EXT_scalar_block_layout : require"
    source.write_text(text.replace("#version 450", extension))
    members = saxpy.read_text().replace(
        "[buffers.Output]", "[buffers.Output.members]\nhead = [0, 0, 0]"
    )
    members = members.replace(
        "head = [0, 0, 0]", "head = [0, 0, 0]\nv = [0, 0, 0]\n[buffers.Output.members.y]"
    )
    saxpy.write_text(members)
    assert main(["test", str(saxpy)]) == 1
    assert "BLK-04" in capsys.readouterr().out
    assert main(["test", str(saxpy), "--allow", "BLK-04"]) == 0
    assert "note: allowed: BLK-04" in capsys.readouterr().out
