"""The tuner: what it tries, what it makes of bad candidates, and the table that passes read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.fit import problems_of
from xdsl_spirv.passes.schedule.plan import plan
from xdsl_spirv.passes.schedule.space import candidates, neighbours
from xdsl_spirv.passes.schedule.tuned import give_schedules, key_of, lookup, parse_schedule
from xdsl_spirv.runtime import Program
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    MisfitError,
    VulkanError,
)
from xdsl_spirv.runtime.vulkan.loaded import Time
from xdsl_spirv.runtime.vulkan.work import Work
from xdsl_spirv.targets import TargetError, load
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.tune import SOURCE
from xdsl_spirv.tools.tuning import search as tuning
from xdsl_spirv.tools.tuning.candidates import Compiler, Source
from xdsl_spirv.tools.tuning.results import Outcome, write_table

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


Table = dict[str, int]


@dataclass
class PlayedWork:
    """A program on a played device: it is late, wrong, crashes, or takes so many microseconds."""

    fate: str | float
    statistics: Table

    def run(self, inputs: Mapping[str, bytes], timeout: float) -> dict[str, bytearray]:
        if self.fate in ("late", "crashed"):
            raise {"late": DeviceTimeoutError, "crashed": DeviceLostError}[str(self.fate)]("it is")
        a = np.frombuffer(inputs["A"], np.float16).reshape(M, K).astype(np.float32)
        b = np.frombuffer(inputs["B"], np.float16).reshape(K, N).astype(np.float32)
        result = a @ b
        result[3, 4] += self.fate == "wrong"
        return {"result0": bytearray(result.tobytes())}

    def executables(self) -> list[list[Table]]:
        return [[self.statistics]]

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        assert isinstance(self.fate, float)
        return [Time("k", "e", (self.fate * 1e3,) * count)]


@dataclass
class Played:
    """A device of this process: each program that is loaded takes the next of `fates`."""

    fates: list[str | float | tuple[float, Table]]
    opened: int = 0

    def __call__(self, name: str | None, *, timeout: float) -> Played:
        self.opened += 1
        return self

    info = SimpleNamespace(name="played")
    worker = SimpleNamespace(alive=True)

    def load(self, work: Work, statistics: bool = False) -> PlayedWork:
        fate = self.fates.pop(0)
        if fate in ("refused", "misfit"):
            raise MisfitError("no") if fate == "misfit" else VulkanError("no")
        if isinstance(fate, tuple):
            return PlayedWork(*fate)
        return PlayedWork(fate, {"Register Count": 40})

    def unload(self, loaded: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[list[Outcome], Played]]:
    """Searches with a device whose programs have these fates; the outcomes, and the device."""

    def run(*fates: Any, **options: Any) -> tuple[list[Outcome], Played]:
        device = Played(list(fates))
        monkeypatch.setattr(tuning, "open_isolated", device)
        results = tmp_path / "r.jsonl"
        given: dict[str, Any] = {"runs": 2, "most": 6} | options
        ((_, tried),) = (
            tuning.Search(TEXT, LAVAPIPE, "lavapipe", None, results, **given).run().items()
        )
        return tried, device

    return run


Searched = Callable[..., tuple[list[Outcome], Played]]


def test_bad_candidates_cost_nothing_but_themselves(search: Searched, tmp_path: Path):
    (tmp_path / "r.jsonl").write_text('not a line\n{"half a line\n')
    said = list[str]()
    found = [5.0, "late", "wrong", "crashed", "refused", 3.0]
    tried, device = search(*found, 5.2, 3.1, say=said.append)
    assert [o.status for o in tried] == ["ok", "late", "wrong", "crashed", "refused", "ok"]
    assert "BEYOND" in tried[2].cause
    assert [(o.microseconds, o.again) for o in tried if o.right] == [(5.0, 5.2), (3.0, 3.1)]
    assert tried[0].statistics == [{"Register Count": 40.0}]
    # The process is started again after it was late, and after it died.
    assert device.opened == 3
    assert "best 3.0 us" in said[-2]
    assert "40 registers" in said[-2]
    entries = write_table(tmp_path / "t.json", "lavapipe", {"key": tried})
    assert entries["key"]["schedule"] == tried[5].schedule
    assert entries["key"]["default_microseconds"] == 5.2
    # A second search has nothing left to do.
    again, device = search()
    assert again == tried


def test_the_search_goes_on_from_the_best(search: Searched):
    tried, _ = search(9.0, 5.0, 7.0, 6.0, 4.0, 8.0, *(9.0, 4.0, 5.0, 6.0))
    found = contraction()
    listed = candidates(found, LAVAPIPE, 3)
    assert [o.schedule for o in tried[:3]] == list(map(str, listed))
    near = {str(s) for each in listed for s in neighbours(found, LAVAPIPE, each)}
    assert {o.schedule for o in tried[3:]} <= near
    assert len({o.schedule for o in tried}) == 6
    assert [o.again for o in tried] == [9.0, 5.0, None, 6.0, 4.0, None]


def test_what_the_driver_reports_prunes(search: Searched, tmp_path: Path):
    room = LAVAPIPE.residency.bytes_for(1)
    reports: list[Table] = [
        {"Register Count": 255, "Local Memory Size": 16},
        {"Register Count": 255, "Local Memory Size": 64},
        {"Register Count": 80, "Shared Memory Size": 4 * room + 4096},
        {"Register Count": 250, "Local Memory Size": 16, "Shared Memory Size": 1024},
    ]
    fates: list[Any] = [(5.0 - i, table) for i, table in enumerate(reports)]
    tried, _ = search(*fates, 5.0, 2.0, most=4)
    assert [o.status for o in tried] == ["ok", "pruned", "pruned", "ok"]
    assert tried[1].cause == "spills 64 beside its 255 registers"
    assert "bytes of Workgroup memory" in tried[2].cause
    # What was not timed is not in the table, however fast it would have been.
    entries = write_table(tmp_path / "t.json", "lavapipe", {"key": tried})
    assert entries["key"]["schedule"] == tried[3].schedule
    # Nor is it pruned where that is not wanted.
    (tmp_path / "r.jsonl").unlink()
    tried, _ = search(*fates, 5.0, 2.0, 3.0, 4.0, most=4, prune=False)
    assert [o.status for o in tried] == ["ok"] * 4


def test_a_device_of_another_target_ends_a_search(search: Searched, tmp_path: Path):
    with pytest.raises(MisfitError):
        search("misfit")
    # Not so what a single candidate asks too much.
    tried, _ = search(5.0, "misfit", 4.0, 5.0, 4.0, most=3)
    assert [o.status for o in tried] == ["ok", "refused", "ok"]
    assert not write_table(tmp_path / "t.json", "lavapipe", {"key": tried[1:2]})
    assert not (tmp_path / "t.json").exists()


def test_time_ends_a_search(search: Searched):
    tried, device = search(5.0, 4.0, seconds=1e-9)
    assert [o.microseconds for o in tried] == [5.0]
    # What was not tried can be, later.
    tried, device = search(4.0, 6.0, 6.0, 6.0, 6.0, *(5.0, 4.0, 6.0, 6.0))
    assert [o.microseconds for o in tried] == [5.0, 4.0, 6.0, 6.0, 6.0, 6.0]
    assert device.fates == []


@pytest.mark.parametrize(
    ("default", "found", "kept"),
    [
        ((5.0, 5.0), (4.0, 4.0), True),
        ((5.0, 4.1), (4.0, 4.0), False),
        ((4.1, 5.0), (4.0, 4.0), False),
        ((5.0, 5.0), (4.0, None), False),
    ],
)
def test_only_what_is_faster_twice_enters_the_table(
    default: tuple[float, float], found: tuple[float, float | None], kept: bool, tmp_path: Path
):
    path = tmp_path / "t.json"
    path.write_text('{"entries": {"key": {"schedule": "old"}, "other": {"schedule": "stays"}}}')
    tried = [
        Outcome("key", name, "played", "ok", first, again=second)
        for name, (first, second) in (("default", default), ("found", found))
    ]
    entries = write_table(path, "lavapipe", {"key": tried})
    assert [entry["schedule"] for entry in entries.values()] == ["stays", *["found"] * kept]
    assert json.loads(path.read_text())["entries"] == entries


def test_a_table_that_is_none_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text("[]")
    with pytest.raises(ProgramError, match="not a tuned table"):
        write_table(path, "lavapipe", {})
    assert path.read_text() == "[]"


def test_neighbours_differ_in_one_decision():
    found = contraction()
    schedule = candidates(found, LAVAPIPE, 1)[0]
    near = list(neighbours(found, LAVAPIPE, schedule))
    assert len(set(near)) >= 5
    for each in near:
        assert not list(problems_of(plan(found, each, LAVAPIPE)))
        changed = [
            name
            for name in (
                *("workgroup_tile", "subgroups", "instruction", "a", "b", "stages"),
                *("first", "result"),
            )
            if getattr(each, name) != getattr(schedule, name)
        ]
        raster = (each.raster, each.group) != (schedule.raster, schedule.group)
        # A path and the number of stages go together.
        assert 1 <= len(changed) + raster <= 3
        assert schedule not in near


def test_candidates_are_compiled_in_other_processes():
    found = contraction()
    schedules = [*candidates(found, LAVAPIPE, 3), parse_schedule(SMALL.replace("8x8x8", "8x8x4"))]
    compiler = Compiler(2)
    try:
        source = Source(TEXT, "lavapipe", key_of(found))
        there = list(compiler.each(source, schedules))
    finally:
        compiler.close()
    assert [schedule for schedule, _ in there] == schedules
    here = Compiler().each(source, schedules)
    for (_, one), (_, other) in zip(there, here, strict=True):
        assert isinstance(one, Program)
        assert isinstance(other, Program)
        assert one.code.keys() == other.code.keys()
        assert all(one.code[k].binary == other.code[k].binary for k in one.code)
    broken = next(Compiler().each(Source("no module", "lavapipe", source.key), schedules[:1]))
    assert isinstance(broken[1], ProgramError)


@pytest.mark.vulkan
@pytest.mark.parametrize(
    "seconds", [2.0, *(pytest.param(n, marks=pytest.mark.long) for n in (0.5, 8.0))]
)
def test_an_interrupt_leaves_nobody_behind(seconds: float, lavapipe: Path, tmp_path: Path):
    mark = f"tuning {tmp_path}"

    def left() -> list[str]:
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                found += [path.parent.name] * (mark.encode() in path.read_bytes())
        return found

    arguments = ["--contraction", "40x36x50:f16->f32", "--target", "lavapipe", "--jobs", "2"]
    code = (
        # Whoever starts the tests in the background may have had interrupts ignored.
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
        # As a terminal does: to everyone in the foreground.
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in said
    assert left() == []


def test_a_modules_own_table_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_SPIRV_TUNED", str(tmp_path))
    found = contraction()
    table(tmp_path, SMALL.replace("[8, 8, 8]", "[16, 8, 8]"))
    assert lookup(found, LAVAPIPE) not in (None, parse_schedule(SMALL))
    module = found.op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    give_schedules(module, {key_of(found): parse_schedule(SMALL)})
    assert lookup(found, LAVAPIPE) == parse_schedule(SMALL)
    # The attribute is text like any other, so that `xdsl-opt` takes the same schedule.
    (dispatch,) = compile_module(parse_text(str(module)), "lavapipe").manifest.dispatches
    assert dispatch.grid == (N // 8, M // 8, 1)
    assert lookup(contraction(), LAVAPIPE) != parse_schedule(SMALL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "what to tune is not said"),
        (["--contraction", "4x4:f16->f32"], "is no contraction"),
        (["--contraction", "4x4x4:f16->text"], "is no contraction"),
        (["--contraction", "4x4x4:f16->f32", "--runs", "0"], "--runs 0 is no number"),
        (["--contraction", "4x4x4:f16->f32", "--jobs", "0"], "--jobs 0 is no number"),
        (["--contraction", "4x4x4:f16->f32", "--seconds", "-1"], "--seconds -1 is no number"),
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
    records = [json.loads(line) for line in lines.splitlines()]
    # Both, and both again.
    assert [record["again"] is None for record in records] == [True, True, False, False]
    deserved = "no entry in the table" not in done.stdout
    assert (tmp_path / "lavapipe.json").exists() == deserved
    if deserved:
        table = json.loads((tmp_path / "lavapipe.json").read_text())
        (entry,) = table["entries"].values()
        assert entry["schedule"] == records[1]["schedule"]
    assert tune().returncode == 0
    assert (tmp_path / "results.jsonl").read_text() == lines
