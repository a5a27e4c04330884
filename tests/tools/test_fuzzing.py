"""Readers handle the fuzzer's inputs, and the fuzzer finds planted faults."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from xdsl_spirv.jobs.store import Store
from xdsl_spirv.testing.fuzzing.readers import READERS
from xdsl_spirv.testing.fuzzing.seeds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzzing"
QUICK = 16
"""`make test` reads every 16th input of each kind."""


@pytest.fixture(scope="module")
def fuzz() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "scripts" / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    yield module
    signal.signal(signal.SIGVTALRM, before)


def test_a_corpus_has_readers():
    assert {reader.seeds for reader in READERS.values()} == set(KINDS)
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= set(KINDS)


@pytest.mark.parametrize("name", [n for n in READERS if n not in ("printed", "passes")])
def test_some_inputs_of_the_corpus_have_no_fault(name: str, fuzz: ModuleType):
    if name == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    paths = sorted((CORPUS / READERS[name].seeds).glob("*.bin"))[::QUICK]
    faults = [
        (p.name, trace) for p in paths if (trace := fuzz.attempt(READERS[name], p.read_bytes())[1])
    ]
    assert faults == []


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_all_inputs_of_the_corpus_have_no_fault(name: str, fuzz: ModuleType):
    if name == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    paths = sorted((CORPUS / READERS[name].seeds).glob("*.bin"))
    faults = [
        (p.name, trace) for p in paths if (trace := fuzz.attempt(READERS[name], p.read_bytes())[1])
    ]
    assert faults == []


FAULTY = """
import os
from xdsl_spirv.testing.fuzzing.readers import Reader

def read(data):
    first = data[0] if data else 0
    if first == 1:
        raise KeyError("x")
    if first == 2:
        os.abort()
    if first == 3:
        bytes(1 << 40)
    return "read"

READERS = {"faulty": Reader("expression", lambda rng, seeds: rng.randbytes(2), read, 1)}
"""


def test_faults_are_found_and_stored(tmp_path: Path):
    """Two inputs are stored for an exception, for a dying process and for excessive memory."""
    (tmp_path / "faulty_readers.py").write_text(FAULTY)
    script = [sys.executable, "scripts/fuzz.py", "660", "--readers", "faulty_readers:READERS"]
    command = [*script, "--out", str(tmp_path), "--store", str(tmp_path / "fuzz.db")]
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=1000,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    kinds = {name.split(": ")[1].split(" ")[0] for name in summary["found"]}
    assert kinds == {"KeyError", "Died", "MemoryError"}
    kept = list((tmp_path / "findings" / "faulty").glob("*.bin"))
    assert {path.read_bytes()[0] for path in kept} == {1, 2, 3}
    assert len(kept) == 6
    with Store(tmp_path / "fuzz.db") as store:
        assert {record.result.status for record in store.records("fuzz")} == {"ok"}
