"""`explain` writes files for other tools: event traces, node data, times from a file."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv import compile as compile_program
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.runtime.phases import HOST, LOAD, Phase, device_phases
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.explain_text import duration
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.node_data import node_data
from xdsl_spirv.tools.run_times import DispatchTime, times_json

MATMUL = """
func.func @main(%A: tensor<16x32xf16>, %B: tensor<32x16xf16>) -> tensor<16x16xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<16x16xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<16x16xf16>) -> tensor<16x16xf16>
  %half = linalg.matmul ins(%A, %B : tensor<16x32xf16>, tensor<32x16xf16>)
                        outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  %full = linalg.matmul ins(%half, %half : tensor<16x16xf16>, tensor<16x16xf16>)
                        outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  return %full : tensor<16x16xf16>
}
"""

FIELDS = {
    "M": {"name", "ph", "pid", "tid", "args"},
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "tid", "args"},
}
"""Fields of metadata, complete and counter events in the Trace Event Format."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a program of two dispatches."""
    base = tmp_path_factory.mktemp("exports")
    (base / "x.mlir").write_text(MATMUL)
    compile_program(base / "x.mlir", "nvidia-h200").save(base / "program")
    return base / "program"


@pytest.fixture(scope="module")
def times(folder: Path) -> Path:
    """Returns a file of times: 3 and 5 microseconds as medians of three runs."""
    dispatches = Program.load(folder).manifest.dispatches
    taken = [
        DispatchTime(d.kernel, d.entry_point, (1000.0, middle, 9000.0))
        for d, middle in zip(dispatches, (3000.0, 5000.0), strict=True)
    ]
    path = folder.parent / "times.json"
    path.write_text(times_json("vulkan:0 (a device)", taken))
    return path


def test_a_trace_has_the_fields_of_its_format(folder: Path, times: Path, tmp_path: Path):
    path = tmp_path / "trace.json"
    arguments = ["--profile", str(times), "--chrome-trace", str(path), "-o", str(tmp_path / "text")]
    assert main(["explain", str(folder), *arguments]) == 0
    trace = json.loads(path.read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert set(event) == FIELDS[event["ph"]]
    rows: dict[int, list[Any]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault(event["tid"], []).append(event)
    assert [[e["dur"] for e in rows[1]], [e["ts"] for e in rows[1]]] == [[3, 5], [0, 3]]
    for events in rows.values():
        ends = [event["ts"] + event["dur"] for event in events]
        assert [e["ts"] for e in events[1:]] == pytest.approx(ends[:-1])
    assert [e["name"] for e in rows[2]] == ["half", "full"]
    levels = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert levels == [512, 512, 0]
    assert "measured 8 us on vulkan:0 (a device)" in (tmp_path / "text").read_text()


def test_a_run_with_its_copies(folder: Path, tmp_path: Path):
    dispatches = Program.load(folder).manifest.dispatches
    taken = [DispatchTime(d.kernel, d.entry_point, (3000.0,)) for d in dispatches]
    steps = [(number, d.entry_point) for number, d in enumerate(dispatches)]
    phases = [
        Phase(LOAD, "record", 0.0, 90_000.0),
        Phase(HOST, "upload", 0.0, 2000.0),
        Phase(HOST, "submit", 2000.0, 8000.0),
        Phase(HOST, "wait", 10_000.0, 30_000.0),
        Phase(HOST, "download", 40_000.0, 1000.0),
        *device_phases([1000.0, 3000.0, 5000.0, 500.0], steps, 40_000.0, copies=True),
    ]
    path, trace, page = (tmp_path / name for name in ("times.json", "trace.json", "page.html"))
    path.write_text(times_json("vulkan:0 (a device)", taken, phases))
    arguments = ["--profile", str(path), "--chrome-trace", str(trace), "-o", str(page)]
    assert main(["explain", str(folder), *arguments]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    shown = {
        row: [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == row]
        for row in (3, 4, 5)
    }
    assert shown[3] == [("upload", 0, 2), ("submit", 2, 8), ("wait", 10, 30), ("download", 40, 1)]
    assert shown[4] == [
        ("copy in", 30.5, 1),
        *(("0: half", 31.5, 3), ("1: full", 34.5, 5)),
        ("copy out", 39.5, 0.5),
    ]
    assert shown[5] == [("record", 0, 90)]
    said = [f"{name} {duration(s)}" for name, s in (("kernels", 8e-6), ("copy out", 5e-7))]
    assert ", ".join(said) in page.read_text()
    assert page.read_text().count('href="#layer-1"') >= 2


def test_a_file_of_loading_alone(folder: Path, tmp_path: Path):
    dispatches = Program.load(folder).manifest.dispatches
    taken = [DispatchTime(d.kernel, d.entry_point, (3000.0,)) for d in dispatches]
    path, page = tmp_path / "times.json", tmp_path / "page.html"
    path.write_text(times_json("d", taken, [Phase(LOAD, "record", 0.0, 0.0)]))
    assert main(["explain", str(folder), "--profile", str(path), "-o", str(page)]) == 0
    assert "A run with its copies" in page.read_text()


def test_times_of_the_first_version_have_no_copies(folder: Path, times: Path, tmp_path: Path):
    record = json.loads(times.read_text())
    assert "phases" not in record
    path = tmp_path / "times.json"
    path.write_text(json.dumps(record | {"version": 1}))
    page = tmp_path / "page.html"
    assert main(["explain", str(folder), "--profile", str(path), "-o", str(page)]) == 0
    assert "A run with its copies" not in page.read_text()


def test_node_data_are_microseconds_by_node(folder: Path, times: Path, tmp_path: Path):
    path = tmp_path / "data.json"
    arguments = ["--profile", str(times), "--node-data", str(path), "-o", str(tmp_path / "text")]
    assert main(["explain", str(folder), *arguments]) == 0
    (graph,) = json.loads(path.read_text()).values()
    assert graph["results"] == {"half": {"value": 3.0}, "full": {"value": 5.0}}
    assert [stop["stop"] for stop in graph["gradient"]] == [0, 1]
    if find_spec("model_explorer") is not None:
        builder = import_module("model_explorer.node_data_builder")
        results = {k: builder.NodeDataResult(**v) for k, v in graph["results"].items()}
        assert json.loads(builder.GraphNodeData(results).to_json_string())["results"] == {
            "half": {"value": 3.0},
            "full": {"value": 5.0},
        }


def test_nodes_of_one_dispatch_share_its_cost():
    layer = Layer(("conv", "relu"), ("Conv", "Relu"), "", "", "", "", (), 1, 1, 1)
    entry = ExplainedLayer(0, "k", (1, 1, 1), (64,), False, layer, (), (), 4e-6, "")
    explanation = ExplanationData("s", 1, "m", "t", "", (), (entry,), 1, 0, 0, 0, 0)
    (graph,) = node_data(explanation, "m").values()
    assert graph["results"] == {"conv": {"value": 2.0}, "relu": {"value": 2.0}}


DAMAGED = {
    "no file": (None, "cannot read the times"),
    "not JSON": (b"[", "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "another record": (b'{"schema": "x"}', "is missing"),
    "another version": (b'{"schema": "s", "version": 9, "device": "", "dispatches": []}', "schema"),
    "other dispatches": (times_json("d", []).encode(), "the file has times for 0 dispatches"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_wrong_times_are_refused(
    damage: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    contents, message = DAMAGED[damage]
    path = tmp_path / "times.json"
    if contents is not None:
        path.write_bytes(contents)
    assert main(["explain", str(folder), "--profile", str(path)]) == 1
    said = capsys.readouterr()
    assert message in said.err
    assert not said.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dispatch": 7}, "the program has no dispatch 7"),
        ({"nanoseconds": -1.0}, "no time for 'wait'"),
        ({"track": "host", "start": "now"}, "start"),
    ],
)
def test_wrong_phases_are_refused(
    change: dict[str, Any],
    message: str,
    folder: Path,
    times: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    phase = {"track": HOST, "name": "wait", "start": 0.0, "nanoseconds": 1.0, **change}
    path = tmp_path / "times.json"
    path.write_text(json.dumps(json.loads(times.read_text()) | {"phases": [phase]}))
    assert main(["explain", str(folder), "--profile", str(path)]) == 1
    assert message in capsys.readouterr().err


def test_a_trace_without_times_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = str(folder.parent / "x.mlir")
    trace = str(tmp_path / "trace.json")
    assert main(["explain", source, "--target", "amd-rdna3", "--chrome-trace", trace]) == 1
    assert "no times are known" in capsys.readouterr().err
    arguments = ["--random", "0", "--device", "interpreter", "--profile", trace]
    assert main(["run", str(folder), *arguments]) == 1
    assert "give --time N" in capsys.readouterr().err
    assert not Path(trace).exists()
