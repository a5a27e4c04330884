"""Job kinds of scripts work: a case of the sweep on lavapipe, and its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import LAVAPIPE, Job

CASES = """
from dataclasses import dataclass, replace
from sweep_cases import case

def right(seed):
    return replace_verdict(case(seed), "")

def wrong(seed):
    return replace_verdict(case(seed), "3 elements differ")

@dataclass
class Judged:
    form: str
    types: str
    text: str
    inputs: object
    said: str

    def verdict(self, program, inputs, results):
        return self.said

def replace_verdict(case, said):
    return Judged(case.form, case.types, case.text, case.inputs, said)
"""


def data_of(folder: Path, function: str) -> dict[str, Any]:
    (folder / "own_cases.py").write_text(CASES)
    return {
        "seed": 7,
        "target": "lavapipe",
        "workloads": f"own_cases:{function}",
        "folder": str(folder),
        "on_device": True,
        "interpreted": True,
        "text": True,
    }


@pytest.mark.long
@pytest.mark.vulkan
@pytest.mark.usefixtures("lavapipe", "spirv_val")
def test_cases_of_the_sweep_have_their_results(here: Here, tmp_path: Path):
    jobs = [Job("sweep", data_of(tmp_path, name), LAVAPIPE) for name in ("right", "wrong")]
    results = {job.data["workloads"]: result for job, result in here.run(jobs)}
    right, wrong = results["own_cases:right"], results["own_cases:wrong"]
    assert (right.status, right.value["status"], right.value["on_device"]) == ("ok", "passed", True)
    assert right.value["kernels"] >= 1
    assert "func.func" in right.value["text"]
    assert (wrong.status, wrong.value["status"]) == ("wrong", "mismatch")
    assert wrong.cause == "on the interpreter: 3 elements differ"
