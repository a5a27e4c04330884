"""The tuner: what it tries, what it makes of bad candidates, and the table that passes read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.fit import problems_of
from xdsl_spirv.passes.schedule.plan import plan
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.passes.schedule.tuned import forced, key_of, lookup, parse_schedule
from xdsl_spirv.runtime import compile_module, tuning
from xdsl_spirv.runtime.compiler import parse_text
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError, DeviceTimeoutError, VulkanError
from xdsl_spirv.runtime.vulkan.loaded import Time
from xdsl_spirv.runtime.vulkan.work import Work
from xdsl_spirv.targets import TargetError, load
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.tune import SOURCE

M, N, K = 16, 24, 32
TEXT = SOURCE.format(m=M, n=N, k=K, a="f16", b="f16", c="f32", zero="0.0")
LAVAPIPE = load("lavapipe")
SMALL = """#schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1],
  instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>,
  b = staged<padding = 8, vector = 8>, raster = rows>"""


def contraction(text: str = TEXT, target: str = "lavapipe") -> Any:
    (found,) = tuning.contractions_of(text, target)
    return found


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "intel-xe2", "arm-mali"])
def test_candidates_fit_and_begin_with_the_default(target: str):
    found = contraction(target=target)
    device = load(target)
    schedules = candidates(found, device, 40)
    assert schedules[0] == choose(found, device)
    assert len(schedules) == len(set(schedules))
    assert 10 <= len(schedules) <= 40
    for schedule in schedules:
        assert not list(problems_of(plan(found, schedule, device)))


def table(folder: Path, schedule: str, key: str = "") -> None:
    entries = {key or key_of(contraction()): {"schedule": schedule}}
    content = {"schema_version": 1, "target": "lavapipe", "entries": entries}
    (folder / "lavapipe.json").write_text(json.dumps(content))


def test_a_measured_schedule_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_SPIRV_TUNED", str(tmp_path))
    before = compile_module(parse_text(TEXT), "lavapipe").manifest.dispatches[0].grid
    table(tmp_path, SMALL)
    assert lookup(contraction(), LAVAPIPE) == parse_schedule(SMALL)
    after = compile_module(parse_text(TEXT), "lavapipe").manifest.dispatches[0].grid
    assert after == (N // 8, M // 8, 1)
    assert after != before
    # Another contraction's entry, and one that does not fit, are passed over.
    table(tmp_path, SMALL, "s8 x s8 -> s32, loops 1x1x1")
    assert lookup(contraction(), LAVAPIPE) is None
    table(tmp_path, SMALL.replace("coopmat 8x8x8", "coopmat 8x8x4"))
    assert lookup(contraction(), LAVAPIPE) is None


@pytest.mark.parametrize("content", ["{", "{}", '{"schema_version": 7, "entries": {}}', "[]"])
def test_a_broken_table_is_named(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_SPIRV_TUNED", str(tmp_path))
    (tmp_path / "lavapipe.json").write_text(content)
    with pytest.raises(TargetError, match=r"lavapipe\.json"):
        lookup(contraction(), LAVAPIPE)


@pytest.mark.parametrize("text", ["#schedule.nothing", "1 : i32", "no"])
def test_what_is_no_schedule_is_refused(text: str):
    with pytest.raises(TargetError, match="schedule"):
        parse_schedule(text)


@dataclass
class Played:
    """A device of this process: each program takes the next of `fates`."""

    fates: list[str | float]
    opened: int = 0

    def __call__(self, name: str | None, *, timeout: float) -> Played:
        self.opened += 1
        return self

    info = SimpleNamespace(name="played")
    worker = SimpleNamespace(alive=True)

    def load(self, work: Work, statistics: bool = False) -> Played:
        if self.fates[0] == "refused":
            self.fates.pop(0)
            raise VulkanError("no")
        return self

    def run(self, inputs: Mapping[str, bytes], timeout: float) -> dict[str, bytearray]:
        fate = self.fates[0]
        if isinstance(fate, str) and fate != "wrong":
            self.fates.pop(0)
            raise {"late": DeviceTimeoutError, "crashed": DeviceLostError}[fate]("it is")
        a = np.frombuffer(inputs["A"], np.float16).reshape(M, K).astype(np.float32)
        b = np.frombuffer(inputs["B"], np.float16).reshape(K, N).astype(np.float32)
        result = a @ b
        if fate == "wrong":
            self.fates.pop(0)
            result[3, 4] += 1
        return {"result0": bytearray(result.tobytes())}

    def executables(self) -> list[list[dict[str, int]]]:
        return [[{"Register Count": 40}]]

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        microseconds = self.fates[0]
        if not warm_up or not isinstance(microseconds, float):
            self.fates.pop(0)
        assert isinstance(microseconds, float)
        return [Time("k", "e", (microseconds * 1e3,) * count)]

    def unload(self, loaded: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_bad_candidates_cost_nothing_but_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A time is asked for twice unless it is far behind the best.
    device = Played(["late", "wrong", 5.0, "crashed", "refused", 3.0])
    monkeypatch.setattr(tuning, "open_isolated", device)
    results, said = tmp_path / "r.jsonl", list[str]()
    results.write_text('{"half a line')
    results.write_text("not a line\n")
    search = tuning.Search(
        TEXT, LAVAPIPE, "lavapipe", None, results, runs=2, most=6, say=said.append
    )
    ((key, tried),) = search.run().items()
    statuses = [outcome.status for outcome in tried]
    assert statuses == ["late", "wrong", "ok", "crashed", "refused", "ok"]
    assert "BEYOND" in tried[1].cause
    assert [o.microseconds for o in tried if o.status == "ok"] == [5.0, 3.0]
    assert tried[2].statistics == [{"Register Count": 40.0}]
    # The process is started again after it was late, and after it died.
    assert device.opened == 3
    assert "best 3.0 us" in said[-1]
    entries = tuning.write_table(tmp_path / "t.json", "lavapipe", {key: tried})
    assert entries[key]["schedule"] == tried[5].schedule
    # A second search has nothing left to do.
    again = tuning.Search(TEXT, LAVAPIPE, "lavapipe", None, results, runs=2, most=6)
    assert again.run() == {key: tried}
    assert device.fates == []


def test_forcing_ends(tmp_path: Path):
    found = contraction()
    with forced({key_of(found): parse_schedule(SMALL)}):
        assert lookup(found, LAVAPIPE) == parse_schedule(SMALL)
    assert lookup(found, LAVAPIPE) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "what to tune is not said"),
        (["--contraction", "4x4:f16->f32"], "is no contraction"),
        (["--contraction", "4x4x4:f16->text"], "is no contraction"),
        (["--contraction", "4x4x4:f16->f32", "--runs", "0"], "--runs 0 is no number"),
        (["nothing.mlir"], "cannot read the input"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", *arguments, "--target", "lavapipe"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.vulkan
def test_tune_on_lavapipe(lavapipe: Path, tmp_path: Path):
    def tune() -> subprocess.CompletedProcess[str]:
        arguments = ["--contraction", "8x16x16:f16->f32", "--target", "lavapipe"]
        arguments += ["--candidates", "2", "--runs", "3", "--timeout", "100"]
        arguments += ["-o", "lavapipe.json", "--results", "results.jsonl"]
        return subprocess.run(
            [lavapipe, sys.executable, "-m", "xdsl_spirv.tools.main", "tune", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path / "cache")},
        )

    done = tune()
    assert done.returncode == 0, done.stderr
    assert "2 candidates: 2 ok" in done.stdout
    lines = (tmp_path / "results.jsonl").read_text()
    # The default may have been measured once more.
    assert len(lines.splitlines()) in (2, 3)
    (entry,) = json.loads((tmp_path / "lavapipe.json").read_text())["entries"].values()
    assert entry["candidates"] == 2
    parse_schedule(entry["schedule"])
    assert tune().returncode == 0
    assert (tmp_path / "results.jsonl").read_text() == lines
