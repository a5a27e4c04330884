"""The onnx package's node cases have the statuses that are committed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "onnx_backend.py"
STATUSES = ROOT / "tests" / "frontends" / "onnx_backend_status.txt"


def known() -> dict[str, str]:
    lines = STATUSES.read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def check(names: list[str]) -> None:
    command = [sys.executable, str(SCRIPT), "--names", ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_nothing_is_wrong_or_crashes():
    assert not {n: s for n, s in known().items() if s in ("mismatch", "crash")}


def test_a_few_cases(onnx: Any):
    check(random.Random(7).sample(sorted(known()), 12))


@pytest.mark.long
def test_all_cases(onnx: Any):
    check(sorted(known()))
