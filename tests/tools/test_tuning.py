"""The tuner makes candidates, survives failing ones, and writes the table that passes read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.tune import SOURCE
from xdsl_spirv.tools.tuning.bench import MEASURE
from xdsl_spirv.tools.tuning.kinds import list_contractions, propose_candidates
from xdsl_spirv.tools.tuning.results import OTHER_CLOCK, Outcome, write_table


@pytest.mark.parametrize(
    ("default", "found", "kept"),
    [
        ((5.0, 5.0), (4.0, 4.0), True),
        ((5.0, 4.1), (4.0, 4.0), False),
        ((4.1, 5.0), (4.0, 4.0), False),
        ((5.0, 5.0), (4.0, None), False),
    ],
)
def test_only_schedules_that_are_faster_twice_enter_the_table(
    default: tuple[float, float], found: tuple[float, float | None], kept: bool, tmp_path: Path
):
    path = tmp_path / "t.json"
    path.write_text('{"entries": {"key": {"schedule": "old"}, "other": {"schedule": "stays"}}}')
    tried = [
        Outcome("key", name, "played", "1", "ok", first, 1.0, again=second)
        for name, (first, second) in (("default", default), ("found", found))
    ]
    entries = write_table(path, "lavapipe", {"key": tried})
    assert [entry["schedule"] for entry in entries.values()] == ["stays", *["found"] * kept]
    assert json.loads(path.read_text())["entries"] == entries


def test_a_file_that_is_not_a_table_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text("[]")
    with pytest.raises(ProgramError, match="not a tuned table"):
        write_table(path, "lavapipe", {})
    assert path.read_text() == "[]"


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "seconds", [2.0, *(pytest.param(n, marks=pytest.mark.long) for n in (0.5, 8.0))]
)
def test_an_interrupt_leaves_no_process(seconds: float, lavapipe: Path, tmp_path: Path):
    mark = f"tuning {tmp_path}"

    def left() -> list[str]:
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                found += [path.parent.name] * (mark.encode() in path.read_bytes())
        return found

    arguments = ["--contraction", "40x36x50:f16->f32", "--target", "lavapipe", "--jobs", "2"]
    code = (
        # Tests started in the background ignore interrupts.
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from xdsl_spirv.tools.main import main\n"
        "print('begun', flush=True); sys.exit(main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        [lavapipe, sys.executable, "-c", code, "tune", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDSL_SPIRV_CACHE": "0", "MARK": mark},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(seconds)
        # A terminal sends the signal to all foreground processes.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=1000)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in said
    # Children end soon after their parent, but not immediately.
    end = time.monotonic() + 600
    while left() and time.monotonic() < end:
        time.sleep(0.1)
    assert left() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to tune"),
        (["--contraction", "4x4:f16->f32"], "is not a contraction"),
        (["--contraction", "4x4x4:f16->text"], "is not a contraction"),
        (["--contraction", "4x4x4:f16->f32", "--runs", "0"], "--runs 0 is not valid"),
        (["--contraction", "4x4x4:f16->f32", "--jobs", "0"], "--jobs 0 is not valid"),
        (["--contraction", "4x4x4:f16->f32", "--seconds", "-1"], "--seconds -1 is not valid"),
        (["--contraction", "4x4x4:f16->f32", "--until-gain", "little"], "is not a fraction"),
        (["--contraction", "4x4x4:f16->f32", "--device", "vulkan:99"], "there is no device"),
        (["--contraction", "4x4x4:f16->f32", "--weight", "C"], "the weight 'C'"),
        (["--replay", "nothing.db"], "the store of results does not exist"),
        (["nothing.mlir"], "cannot read the input"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["tune", *arguments, "--target", "lavapipe"]) == 1
    assert message in capsys.readouterr().err


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+ us", "", text)


@pytest.mark.vulkan
def test_tune_on_lavapipe(lavapipe: Path, tmp_path: Path):
    def tune() -> subprocess.CompletedProcess[str]:
        arguments = ["--contraction", "8x16x16:f16->f32", "--target", "lavapipe"]
        arguments += ["--candidates", "2", "--runs", "3", "--timeout", "100"]
        arguments += ["-o", "lavapipe.json", "--store", "s.db", "--page", "page.html"]
        return subprocess.run(
            [lavapipe, sys.executable, "-m", "xdsl_spirv.tools.main", "tune", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path / "cache")},
        )

    done = tune()
    assert done.returncode == 0, done.stderr
    assert "2 candidates: 2 ok" in done.stdout
    with Store(tmp_path / "s.db") as store:
        records = list(store.records(MEASURE))
    # Measures both, then one with more runs, then both again.
    assert {(r.data["turn"], r.result.status) for r in records} == {(0, "ok"), (1, "ok")}
    assert all(r.result.value["reference"] > 0 for r in records)
    assert {r.result.device for r in records} == {records[0].result.device}
    assert "llvmpipe" in (tmp_path / "page.html").read_text()
    deserved = "no entry in the table" not in done.stdout
    assert (tmp_path / "lavapipe.json").exists() == deserved
    again = tune()
    assert again.returncode == 0, again.stderr
    references = sorted(r.result.value["reference"] for r in records)
    if references[-1] < (1 + OTHER_CLOCK) * references[0]:
        # Times are scaled to the median clock. Their ratios are compared.
        assert without_times(again.stdout) == without_times(done.stdout)
        with Store(tmp_path / "s.db") as store:
            assert len(list(store.records(MEASURE))) == len(records)
    # Otherwise the machine was busy, and the times are measured again.


def test_a_contraction_beyond_the_target_is_refused_by_its_sizes():
    data = {"text": SOURCE.format(m=1 << 16, n=1 << 16, k=1 << 16, a="f16", b="f16", c="f32",
            zero="0.0"), "target": "lavapipe", "weights": []}  # fmt: skip
    (data["contraction"],) = list_contractions(data)
    with pytest.raises(ProgramError, match=r"A has 8589934592 bytes.*; tune a smaller contraction"):
        propose_candidates(data | {"tried": [], "learned": [], "count": 1, "most": 1})
