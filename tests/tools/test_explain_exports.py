"""What `explain` writes for other tools: traces of events, node data, times from a file."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv import compile as compile_program
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main
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
"""The Trace Event Format's fields of metadata, complete and counter events."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of two dispatches."""
    base = tmp_path_factory.mktemp("exports")
    (base / "x.mlir").write_text(MATMUL)
    compile_program(base / "x.mlir", "nvidia-h200").save(base / "program")
    return base / "program"


@pytest.fixture(scope="module")
def times(folder: Path) -> Path:
    """A file of times: 3 and 5 microseconds in the middle of three runs."""
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


DAMAGED = {
    "no file": (None, "cannot read the times"),
    "not JSON": (b"[", "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "another record": (b'{"schema": "x"}', "is missing"),
    "another version": (b'{"schema": "s", "version": 9, "device": "", "dispatches": []}', "schema"),
    "other dispatches": (times_json("d", []).encode(), "the times are of 0 other dispatches"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_times_that_are_none(
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


def test_what_has_no_times_has_no_trace(
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
